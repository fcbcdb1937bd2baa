/** The figures that are looked at first. */
import type { Second } from './console-state.js';
import { h, type Child, type Element } from './element.js';
import { ago, bytes, count, counted, days, large, milliseconds, NONE, rate } from './format.js';
import { takenAt, type View } from './view.js';

const LATENCY_OVER_SECONDS = 10;
/** The collector does not tell of growth before it has watched so long. */
const WATCHED_SECONDS = 600;

export function overview(view: View): Element {
  const { traffic, ledger, disk, checkpoint } = view.state;
  const latency = latencyOf(traffic.seconds);
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
      tile(
        'Acknowledged in',
        latency === undefined ? NONE : figure(milliseconds(latency.p99)),
        latency === undefined
          ? 'Nothing acknowledged in the last 10 s'
          : `99 % in the slowest of 10 s; half in ${milliseconds(latency.p50)}`,
      ),
      tile('Events stored', figure(large(ledger.events)), storedText(view)),
      tile('Disk full in', diskFigure(view), spaceText(disk.free_bytes, disk.total_bytes)),
      tile(
        'Last checkpoint',
        checkpoint === null ? NONE : figure(ago(Date.parse(checkpoint.at), takenAt(view))),
        checkpoint === null
          ? 'None yet'
          : checkpoint.events_behind === 0
            ? 'Covers every event'
            : `${counted(checkpoint.events_behind, 'event')} since`,
      ),
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
  return found === null ? h('span', { class: 'words' }, text) : [found[1] ?? '', unit(found[2] ?? '')];
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

function diskFigure({ state: { ledger, disk } }: View): Child {
  if (disk.days_until_full !== null) return figure(days(disk.days_until_full));
  return h(
    'span',
    { class: 'words' },
    ledger.watched_seconds < WATCHED_SECONDS ? 'Not known yet' : 'No growth',
  );
}

function spaceText(free: number | null, total: number | null): string {
  return free === null || total === null
    ? 'The disk has not answered'
    : `${bytes(free)} free of ${bytes(total)}`;
}

/** The worst p99 and the middle p50 of the last seconds in which something was acknowledged. */
function latencyOf(seconds: readonly Second[]): { readonly p50: number; readonly p99: number } | undefined {
  const recent = seconds.slice(-LATENCY_OVER_SECONDS);
  const p50 = recent.flatMap(({ p50_ms }) => (p50_ms === null ? [] : [p50_ms])).sort((a, b) => a - b);
  const middle = p50[Math.floor(p50.length / 2)];
  if (middle === undefined) return undefined;
  return { p50: middle, p99: Math.max(...recent.map(({ p99_ms }) => p99_ms ?? 0)) };
}
