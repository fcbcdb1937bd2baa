/**
 * The operator's console: one page that shows whether the collector is healthy and what to do if not. The
 * collector renders it, and its script renders the same page for each new state.
 */
import { attention, hints, summary } from './attention.js';
import { acceptedByKind, isUnasked, openTelemetry, refusedByReason, runs, unasked } from './counts.js';
import type { ConsoleState } from './console-state.js';
import { duration } from './format.js';
import { type Child, type Element, markup, type Mood, takenAt, type View } from './markup.js';
import { keys, sinks } from './lists.js';
import { overview } from './overview.js';
import { health, proof, storage } from './states.js';
import { traffic } from './traffic.js';

export function page(view: View): Element {
  const isStale = typeof view.connection === 'object';
  return markup`
    <div class=${isStale ? 'page stale' : 'page'}>
      ${header(view)}
      <main>
        ${attention(view)}
        ${overview(view)}
        ${hints(view)}
        ${traffic(view)}
        ${belowTraffic(view)}
      </main>
      ${footer(view)}
    </div>
  `;
}

/** Rendered once per state: while the pointer moves along the charts, only they change. */
const below = new WeakMap<ConsoleState, Child>();

function belowTraffic(view: View): Child {
  let made = below.get(view.state);
  if (made === undefined) {
    made = [
      markup`<div class="columns">${columnsOf(view).map((cards) => markup`<div>${cards}</div>`)}</div>`,
      sinks(view),
      keys(view),
    ];
    below.set(view.state, made);
  }
  return made;
}

/** Cards side by side, of about the same height. */
function columnsOf(view: View): readonly Child[] {
  return isUnasked(view)
    ? [[unasked(), health(view)], [runs(view), storage(view)], [proof(view)]]
    : [
        [acceptedByKind(view), refusedByReason(view), openTelemetry(view)],
        [runs(view), health(view)],
        [storage(view), proof(view)],
      ];
}

/** The title of the tab: the number of problems, then the name. */
export function pageTitle({ connection, state: { health: found, warnings } }: View): string {
  const name = 'Collector';
  if (typeof connection === 'object') return `No answer – ${name}`;
  if (!found.ready) return `Not ready – ${name}`;
  return warnings.length === 0 ? name : `${summary(warnings)} – ${name}`;
}

function header(view: View): Element {
  const { version, commit, started_at: started } = view.state;
  const { mood, text, more } = status(view);
  // A screen reader reads the status only when it changes.
  return markup`
    <header class="top">
      <h1>Event collector</h1>
      <p class="status" role="status">
        <span class=${`dot ${mood}`} aria-hidden="true"></span>
        <strong>${text}</strong>
        ${more !== '' && markup`<span class="more">${more}</span>`}
      </p>
      <p class="about">
        <span title=${commit}>version ${version}, commit ${commit.slice(0, 12)}</span>
        <span>up ${duration(takenAt(view) - Date.parse(started))}</span>
        <span>${updated(view)}</span>
      </p>
    </header>
  `;
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
    return { mood: 'critical', text: 'Not accepting events', more: reasons };
  }
  const isCritical = state.warnings.some(({ severity }) => severity === 'critical');
  const mood = isCritical ? 'critical' : state.warnings.length > 0 ? 'warning' : 'good';
  const more = state.warnings.length === 0 ? 'nothing needs attention' : summary(state.warnings);
  return { mood, text: 'Taking events', more };
}

function updated(view: View): string {
  const { connection } = view;
  if (connection === 'page') return `as of ${view.timeOfDay(takenAt(view))}`;
  return connection === 'live' ? 'live' : `values of ${view.timeOfDay(connection.since)}`;
}

function footer(view: View): Element {
  return markup`
    <footer>
      <p>This page shows counts and states, no events and no names, and cannot change anything.</p>
      <nav aria-label="Elsewhere">
        <a href="docs">Interface</a>
        <a href="metrics">Metrics</a>
        <a href="readyz?verbose">Readiness</a>
        <span>Node ${view.state.node}</span>
      </nav>
    </footer>
  `;
}
