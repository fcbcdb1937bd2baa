/** The figures that are looked at first. */
import type { Second } from './console-state.js';
import {
  type Child,
  type Element,
  type Mood,
  type View,
  bar,
  card,
  chip,
  facts,
  h,
  takenAt,
} from './elements.js';
import { ago, bytes, count, counted, days, duration, large, milliseconds, percent, rate } from './format.js';

const LATENCY_OVER_SECONDS = 10;

export function overview(view: View): Element {
  const { traffic, ledger } = view.state;
  return h(
    'section',
    { id: 'overview', 'aria-labelledby': 'overview-heading' },
    h('h2', { id: 'overview-heading', class: 'hidden' }, 'At a glance'),
    h(
      'dl',
      { class: 'tiles' },
      tile(
        'Accepted',
        [rate(traffic.accepted_per_second), unit('/s')],
        refusedText(traffic.refused_per_second),
      ),
      latencyTile(view),
      tile('Events stored', figure(large(ledger.events)), storedText(view)),
      diskTile(view),
      checkpointTile(view),
    ),
  );
}

function tile(name: string, value: Child, more: Child): Element {
  return h(
    'div',
    { class: 'tile' },
    h('dt', {}, name),
    h('dd', { class: 'figure' }, value),
    h('dd', { class: 'more' }, more),
  );
}

function unit(text: string): Element {
  return h('span', { class: 'unit' }, text);
}

/** The number large, what follows it small. */
function figure(text: string): Child {
  const found = /^([\d.,]+)(\D.*)?$/.exec(text);
  return found === null ? words(text) : [found[1] ?? '', unit(found[2] ?? '')];
}

function refusedText(perSecond: number): Child {
  return perSecond === 0
    ? 'None refused in the last 10 s'
    : h('span', { class: 'refused' }, `${rate(perSecond)} refused a second`);
}

function storedText({ state: { ledger } }: View): string {
  return ledger.events_per_hour === null
    ? bytes(ledger.bytes)
    : `${bytes(ledger.bytes)}; ${count(ledger.events_per_hour)} more an hour`;
}

/** The last times that there were, within the five minutes that are known. */
function latencyTile(view: View): Element {
  const { seconds } = view.state.traffic;
  const name = 'Acknowledged in';
  const recent = latencyOf(seconds.slice(-LATENCY_OVER_SECONDS));
  if (recent !== undefined) {
    const { p50, p99 } = recent;
    return tile(name, figure(milliseconds(p99)), `99 % within; half in ${milliseconds(p50)}`);
  }
  const last = seconds.findLast(({ p99_ms }) => p99_ms !== null);
  const past = last && latencyOf([last]);
  if (last === undefined || past === undefined) {
    return tile(name, words('Idle'), 'No event for five minutes');
  }
  return tile(
    name,
    figure(milliseconds(past.p99)),
    `99 % of the last, ${ago(Date.parse(last.at), takenAt(view))}`,
  );
}

/** When it is full if that is foreseen, else what is left. */
function diskTile({ state: { disk } }: View): Element {
  const { free_bytes: free, total_bytes: total, days_until_full: left } = disk;
  const { forecast_in_seconds: forecastIn } = disk;
  if (free === null || total === null)
    return tile('Disk', words('No answer'), 'Its file system was asked for space');
  const space = `${bytes(free)} free of ${bytes(total)}`;
  if (left !== null) return tile('Disk full in', figure(days(left)), space);
  return tile(
    'Disk free',
    figure(bytes(free)),
    forecastIn === null
      ? `Of ${bytes(total)}; the ledger does not grow steadily`
      : `Of ${bytes(total)}; forecast in ${duration(forecastIn * 1000)} at the earliest`,
  );
}

function checkpointTile(view: View): Element {
  const { checkpoint, ledger } = view.state;
  const name = 'Last checkpoint';
  if (checkpoint === null) return tile(name, words('None yet'), 'Signed as soon as the ledger is open');
  return tile(
    name,
    figure(ago(Date.parse(checkpoint.at), takenAt(view))),
    checkpoint.entries_behind > 0
      ? `${counted(checkpoint.entries_behind, 'entry', 'entries')} since`
      : ledger.events === 0
        ? 'Of the empty log'
        : 'Covers every event',
  );
}

function words(text: string): Element {
  return h('span', { class: 'words' }, text);
}

/** The worst p99 and the middle p50 of the seconds in which something was acknowledged. */
function latencyOf(seconds: readonly Second[]): { readonly p50: number; readonly p99: number } | undefined {
  const p50 = seconds.flatMap(({ p50_ms }) => (p50_ms === null ? [] : [p50_ms])).sort((a, b) => a - b);
  const middle = p50[Math.floor(p50.length / 2)];
  if (middle === undefined) return undefined;
  return { p50: middle, p99: Math.max(...seconds.map(({ p99_ms }) => p99_ms ?? 0)) };
}

/* Whether events are taken, and how full the queue to the disk is. */

/** In the words of who is asked; a check that is not among them is told by its name. */
const NAMES: Readonly<Record<string, string>> = {
  startup: 'start',
  shutdown: 'no shutdown',
  listener: 'listener for events',
  ledger_thread: 'ledger’s thread',
  storage: 'storage',
};

export function health({ state: { health: found, queue, ledger } }: View): Element {
  const full = Math.max(queue.events / queue.max_events, queue.bytes / queue.max_bytes);
  const failed = found.checks.filter(({ ok }) => !ok);
  const passed = found.checks.filter(({ ok }) => ok).map(({ name }) => NAMES[name] ?? name);
  return card(
    'health',
    'Health',
    found.ready ? 'ready' : found.live ? 'not ready' : 'needs a restart',
    failed.length > 0 &&
      h(
        'ul',
        { class: 'checks' },
        failed.map(({ name, reason }) =>
          h(
            'li',
            {},
            h('span', {}, NAMES[name] ?? name, reason !== null && h('span', { class: 'more' }, reason)),
            chip('critical', 'fails'),
          ),
        ),
      ),
    facts([
      ...(passed.length === 0
        ? []
        : [
            {
              name: 'Checks',
              value: chip('good', failed.length === 0 ? 'all pass' : `${passed.length} pass`),
              more: passed.join(', '),
            },
          ]),
      { name: 'Ledger', value: ledgerChip(ledger.state) },
      {
        name: 'Queue',
        value: metered(full, percent(Math.floor(full * 100) / 100)),
        more: `${count(queue.events)} of ${count(queue.max_events)} events, ${bytes(queue.bytes)} of ${bytes(queue.max_bytes)}`,
      },
    ]),
  );
}

/** A bar with its number. */
export function metered(part: number, text: string): Child {
  const mood: Mood = part >= 0.95 ? 'critical' : part >= 0.8 ? 'warning' : 'idle';
  return h('span', { class: 'metered' }, bar(part, mood), h('span', {}, text));
}

function ledgerChip(state: 'open' | 'refusing' | 'failed'): Element {
  return state === 'open' ? chip('good', 'open') : chip('critical', state);
}
