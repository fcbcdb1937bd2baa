/** The most important figures. */
import type { Second } from './console-state.js';
import { ago, bytes, count, counted, days, duration, large, milliseconds, rate } from './format.js';
import { type Child, type Element, markup, takenAt, type View } from './markup.js';

const LATENCY_OVER_SECONDS = 10;

export function overview(view: View): Element {
  const { traffic, ledger } = view.state;
  const accepted = [rate(traffic.accepted_per_second), unit('/s')];
  return markup`
    <section id="overview" aria-labelledby="overview-heading">
      <h2 id="overview-heading" class="hidden">At a glance</h2>
      <dl class="tiles">
        ${tile('Accepted', accepted, refusedText(traffic.refused_per_second))}
        ${latencyTile(view)}
        ${tile('Events stored', figure(large(ledger.events)), storedText(view))}
        ${diskTile(view)}
        ${checkpointTile(view)}
      </dl>
    </section>
  `;
}

function tile(name: string, value: Child, more: Child): Element {
  return markup`
    <div class="tile">
      <dt>${name}</dt>
      <dd class="figure">${value}</dd>
      <dd class="more">${more}</dd>
    </div>
  `;
}

function unit(text: string): Element {
  return markup`<span class="unit">${text}</span>`;
}

/** A large number followed by small text. */
function figure(text: string): Child {
  const found = /^([\d.,]+)(\D.*)?$/.exec(text);
  return found === null ? words(text) : [found[1], unit(found[2] ?? '')];
}

function words(text: string): Element {
  return markup`<span class="words">${text}</span>`;
}

function refusedText(perSecond: number): Child {
  return perSecond === 0
    ? 'None refused in the last 10 s'
    : markup`<span class="refused">${rate(perSecond)} refused a second</span>`;
}

function storedText({ state: { ledger } }: View): string {
  return ledger.events_per_hour === null
    ? bytes(ledger.bytes)
    : `${bytes(ledger.bytes)}; ${count(ledger.events_per_hour)} more an hour`;
}

/** The newest measured times within the last five minutes. */
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
    return tile(name, words('Idle'), 'No events for five minutes');
  }
  const when = ago(Date.parse(last.at), takenAt(view));
  return tile(name, figure(milliseconds(past.p99)), `99 % of the last, ${when}`);
}

/** The time until the disk is full, if known; otherwise the free space. */
function diskTile({ state: { disk } }: View): Element {
  const { free_bytes: free, total_bytes: total, days_until_full: left } = disk;
  const { forecast_in_seconds: forecastIn } = disk;
  if (free === null || total === null)
    return tile('Disk', words('No answer'), 'Its file system does not answer');
  if (left !== null)
    return tile('Disk full in', figure(days(left)), `${bytes(free)} free of ${bytes(total)}`);
  const forecast =
    forecastIn === null
      ? 'the ledger does not grow steadily'
      : `forecast in ${duration(forecastIn * 1000)} at the earliest`;
  return tile('Disk free', figure(bytes(free)), `Of ${bytes(total)}; ${forecast}`);
}

function checkpointTile(view: View): Element {
  const { checkpoint, ledger } = view.state;
  const name = 'Last checkpoint';
  if (checkpoint === null) return tile(name, words('None yet'), 'Signed when the ledger is open');
  const { at, entries_behind: behind } = checkpoint;
  const covers = ledger.events === 0 ? 'Of the empty log' : 'Covers every event';
  return tile(
    name,
    figure(ago(Date.parse(at), takenAt(view))),
    behind > 0 ? `${counted(behind, 'entry', 'entries')} since` : covers,
  );
}

/** The worst p99 and the median p50 of the seconds with acknowledgements. */
function latencyOf(seconds: readonly Second[]): { readonly p50: number; readonly p99: number } | undefined {
  const p50 = seconds.flatMap(({ p50_ms }) => (p50_ms === null ? [] : [p50_ms])).sort((a, b) => a - b);
  const middle = p50[Math.floor(p50.length / 2)];
  if (middle === undefined) return undefined;
  return { p50: middle, p99: Math.max(...seconds.map(({ p99_ms }) => p99_ms ?? 0)) };
}
