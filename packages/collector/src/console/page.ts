/**
 * The operator's console: one page that says whether all is well, and if not, what to do. The collector writes it whole,
 * and its script makes the same page of each new state.
 */
import { acceptedByKind, isUnasked, refusedByReason, unasked } from './answers.js';
import { attention, hints, summary } from './attention.js';
import type { ConsoleState } from './console-state.js';
import { h, type Child, type Element } from './element.js';
import { duration } from './format.js';
import { health } from './health.js';
import { keys } from './keys.js';
import { overview } from './overview.js';
import { proof, sinks } from './proof.js';
import { runs } from './runs.js';
import { storage } from './storage.js';
import { traffic } from './traffic.js';
import { takenAt, type Mood, type View } from './view.js';

export function page(view: View): Element {
  const isStale = typeof view.connection === 'object';
  return h(
    'div',
    { class: isStale ? 'page stale' : 'page' },
    header(view),
    h('main', {}, attention(view), overview(view), hints(view), traffic(view), belowTraffic(view)),
    footer(view),
  );
}

/** Made once of a state: while the reader points along the charts only those change. */
const below = new WeakMap<ConsoleState, readonly Child[]>();

function belowTraffic(view: View): readonly Child[] {
  let made = below.get(view.state);
  if (made === undefined) {
    made = [
      h(
        'div',
        { class: 'stacks-of-cards' },
        stacksOf(view).map((cards) => h('div', {}, cards)),
      ),
      sinks(view),
      keys(view),
    ];
    below.set(view.state, made);
  }
  return made;
}

/** Side by side, and of about the same height. */
function stacksOf(view: View): readonly (readonly Element[])[] {
  return isUnasked(view)
    ? [[unasked(), health(view)], [runs(view), storage(view)], [proof(view)]]
    : [
        [acceptedByKind(view), refusedByReason(view)],
        [runs(view), health(view)],
        [storage(view), proof(view)],
      ];
}

/** For the tab: what is wrong, before the name. */
export function pageTitle({ connection, state: { health: found, warnings } }: View): string {
  const name = 'Collector';
  if (typeof connection === 'object') return `No answer – ${name}`;
  if (!found.ready) return `Not ready – ${name}`;
  return warnings.length === 0 ? name : `${summary(warnings)} – ${name}`;
}

function header(view: View): Element {
  const { version, started_at: started } = view.state;
  const { mood, text, more } = status(view);
  return h(
    'header',
    { class: 'top' },
    h('h1', {}, 'Event collector'),
    // Told to a screen reader when it changes, and only then.
    h(
      'p',
      { class: 'status', role: 'status' },
      h('span', { class: `dot ${mood}`, 'aria-hidden': 'true' }),
      h('strong', {}, text),
      more !== '' && h('span', { class: 'more' }, more),
    ),
    h(
      'p',
      { class: 'about' },
      h('span', {}, `version ${version}`),
      h('span', {}, `up ${duration(takenAt(view) - Date.parse(started))}`),
      h('span', {}, updated(view)),
    ),
  );
}

function status(view: View): { mood: Mood; text: string; more: string } {
  const { connection, state } = view;
  if (typeof connection === 'object') {
    const { since, reason } = connection;
    return { mood: 'critical', text: `No answer since ${view.timeOfDay(since)}`, more: reason };
  }
  const failed = state.health.checks.filter(({ ok }) => !ok);
  if (failed.length > 0) {
    const reasons = failed.map(({ name, reason }) => reason ?? name).join('; ');
    return { mood: 'critical', text: 'Not taking events', more: reasons };
  }
  const isCritical = state.warnings.some(({ severity }) => severity === 'critical');
  const mood = isCritical ? 'critical' : state.warnings.length > 0 ? 'warning' : 'good';
  const more = state.warnings.length === 0 ? 'nothing needs attention' : summary(state.warnings);
  return { mood, text: 'Taking events', more };
}

function updated(view: View): Child {
  const { connection } = view;
  if (connection === 'page') return `as of ${view.timeOfDay(takenAt(view))}`;
  return connection === 'live' ? 'live' : `values of ${view.timeOfDay(connection.since)}`;
}

function footer(view: View): Element {
  return h(
    'footer',
    {},
    h('p', {}, 'Counts and states only: no event and nobody’s name is shown here, or can be changed.'),
    h(
      'nav',
      { 'aria-label': 'Elsewhere' },
      ['docs', 'metrics', 'readyz?verbose'].map((path, i) =>
        h('a', { href: path }, ['Interface', 'Metrics', 'Readiness'][i]),
      ),
      h('span', {}, `Node ${view.state.node}`),
    ),
  );
}
