/**
 * The operator's console: one page that says whether all is well, and if not, what to do. The collector writes it whole,
 * and its script makes the same page of each new state.
 */
import type { ConsoleState } from './console-state.js';
import { type Child, type Element, type Mood, type View, h, takenAt, toHtml } from './elements.js';
import { duration } from './format.js';
import { health, overview } from './overview.js';
import { attention, hints, proof, sinks, summary } from './proof.js';
import {
  acceptedByKind,
  isUnasked,
  keys,
  openTelemetry,
  refusedByReason,
  runs,
  storage,
  unasked,
} from './tables.js';
import { traffic } from './traffic.js';

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
  const otlp = openTelemetry(view);
  return isUnasked(view)
    ? [[unasked(), health(view)], [runs(view), storage(view)], [proof(view)]]
    : [
        [acceptedByKind(view), refusedByReason(view), ...(otlp ? [otlp] : [])],
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

/* The document around the page: its style and script come from beside it, and from nowhere else. */

/** Without the script the page is loaded again so often: not so often that a screen reader never gets to its end. */
const REFRESH_SECONDS = 30;

/**
 * So many keys are listed before the script lists all: what the collector writes itself costs the thread that takes
 * events some 0.05 ms a key.
 */
const MOST_KEYS = 100;

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' " +
  "rx='3.5' fill='%230a66c2'/%3E%3Cpath d='M3 8.5h2.5L7 4l2.5 8L11 8.5h2' fill='none' stroke='%23fff' stroke-width='1.5' " +
  "stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/** Its links are relative, so that it may stand behind a proxy under any path. */
export function documentOf(whole: ConsoleState): string {
  const keys = whole.keys.slice(0, MOST_KEYS);
  const notListed = whole.keys_not_listed + whole.keys.length - keys.length;
  const state = { ...whole, keys, keys_not_listed: notListed };
  const view = { state, connection: 'page' as const, marked: undefined, timeOfDay };
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${toHtml(pageTitle(view))}</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="console/style.css">
<script type="module" src="console/live.js"></script>
<noscript><meta http-equiv="refresh" content="${REFRESH_SECONDS}"></noscript>
</head>
<body>
<div id="console">${toHtml(page(view))}</div>
</body>
</html>
`;
}

/** The reader's zone is not known here. */
function timeOfDay(at: number): string {
  return `${new Date(at).toISOString().slice(11, 19)} UTC`;
}
