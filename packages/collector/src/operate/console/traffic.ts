/** The last five minutes: events per second, and the time of an acknowledgement. */
import type { Second } from './console-state.js';
import { NONE, milliseconds, rate } from './format.js';
import { card, type Child, type Element, markup, table, takenAt, type View } from './markup.js';

/*
 * The charts are drawn in steps one second wide, the unit of measurement. Seconds without a measurement stay
 * empty. The browser stretches the drawing to its place; texts are outside of it.
 */

export const SPAN_SECONDS = 300;
const HEIGHT = 100;
/** The end of an area: back to the axis. */
const END = `V${HEIGHT}Z`;

/** The value of one second. */
export interface Step {
  /** Seconds between the end of this second and the end of the chart. */
  readonly ago: number;
  /** Its length in seconds. */
  readonly seconds: number;
  readonly value: number | null;
}

interface Series {
  readonly className: string;
  /** An area ends at the axis, a line does not. */
  readonly area: boolean;
  readonly steps: readonly Step[];
}

export interface Plot {
  /** A description for readers who do not see the chart. */
  readonly label: string;
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** The scale reaches at least this value. */
  readonly least: number;
  /** The marked time, in seconds before the end. */
  readonly marked: number | undefined;
}

export function plot({ label, series, format, least, marked }: Plot): Element {
  const values = series.flatMap(({ steps }) => steps.map(({ value }) => value ?? 0));
  const top = roundUp(Math.max(least, ...values));
  const x = marked === undefined ? undefined : SPAN_SECONDS - marked;
  const line = (className: string, [x1, y1, x2, y2]: readonly number[]) =>
    markup`<line class=${className} x1=${x1} y1=${y1} x2=${x2} y2=${y2} />`;
  return markup`
    <div class="plot">
      <div class="scale" aria-hidden="true">
        ${[top, top / 2, 0].map((at) => markup`<span>${format(at)}</span>`)}
      </div>
      <div class="drawing" data-plot>
        <svg
          role="img"
          aria-label=${label}
          viewBox=${`0 0 ${SPAN_SECONDS} ${HEIGHT}`}
          preserveAspectRatio="none"
        >
          ${[0, HEIGHT / 2, HEIGHT].map((y) => line('grid', [0, y, SPAN_SECONDS, y]))}
          ${[60, 120, 180, 240].map((at) => line('grid', [at, 0, at, HEIGHT]))}
          ${series.map(
            ({ className, area, steps }) =>
              markup`<path class=${className} d=${(area ? areaOf : lineOf)(steps, top)} />`,
          )}
          ${x !== undefined && line('mark', [x, 0, x, HEIGHT])}
        </svg>
      </div>
      <div class="times" aria-hidden="true">
        ${['5 min', '4', '3', '2', '1', 'now'].map((text) => markup`<span>${text}</span>`)}
      </div>
    </div>
  `;
}

/** The next of 1, 2, 4, 6, 8 and 10 times a power of ten: half of each is a short number too. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 4, 6, 8, 10].find((times) => times * power >= value * (1 - 1e-9));
  return (found ?? 10) * power;
}

interface Place {
  readonly from: number;
  readonly to: number;
  readonly y: number;
  /** Whether it begins where the previous one ends. */
  readonly joined: boolean;
}

function* placesOf(steps: readonly Step[], top: number): Generator<Place> {
  let end = Number.NaN;
  for (const { ago, seconds, value } of steps) {
    const to = SPAN_SECONDS - ago;
    if (value === null || to <= 0) continue;
    // A late sample is wider; one that begins within a hair of the previous end is joined to it.
    const begin = Math.max(0, to - seconds);
    const joined = Math.abs(begin - end) < 0.5;
    yield { from: joined ? end : begin, to, y: HEIGHT * (1 - value / top), joined };
    end = to;
  }
}

function areaOf(steps: readonly Step[], top: number): string {
  let path = '';
  for (const { from, to, y, joined } of placesOf(steps, top)) {
    if (!joined) path += `${path === '' ? '' : END}M${short(from)} ${HEIGHT}`;
    path += `V${short(y)}H${short(to)}`;
  }
  return path === '' ? '' : path + END;
}

function lineOf(steps: readonly Step[], top: number): string {
  let path = '';
  for (const { from, to, y, joined } of placesOf(steps, top)) {
    path += joined ? `V${short(y)}H${short(to)}` : `M${short(from)} ${short(y)}H${short(to)}`;
  }
  return path;
}

function short(number: number): string {
  return String(Math.round(number * 10) / 10);
}

const ROW_SECONDS = 10;

/** A second, and the seconds between its end and the end of the charts. */
type Past = Second & { readonly ago: number };

export function traffic(view: View): Element {
  if (isIdle(view)) return idle(view);
  const end = endOf(view);
  const seconds = view.state.traffic.seconds.map((second): Past => ({
    ...second,
    ago: (end - Date.parse(second.at)) / 1000,
  }));
  const { marked } = view;
  const shown = secondAt(seconds, marked);
  const when = marked === undefined || shown === undefined ? 'now' : view.timeOfDay(Date.parse(shown.at));
  return card(
    'traffic',
    'Last five minutes',
    marked === undefined ? 'second by second' : `at ${when}`,
    markup`<div class="charts">
      ${rateChart(seconds, shown, marked)}
      ${latencyChart(seconds, shown, marked)}
    </div>`,
    markup`
      <details>
        <summary>The same as a table</summary>
        ${rowsTable(seconds, (ago) => view.timeOfDay(end - ago * 1000))}
      </details>
    `,
  );
}

function rateChart(seconds: readonly Past[], shown: Past | undefined, marked: number | undefined): Element {
  const accepted = stepsOf(seconds, acceptedRate);
  const refused = stepsOf(seconds, refusedRate);
  return chart(
    'Events a second',
    [
      { className: 'accepted', name: 'accepted', value: valueOf(shown && acceptedRate(shown), rate) },
      { className: 'refused', name: 'refused', value: valueOf(shown && refusedRate(shown), rate) },
    ],
    {
      label:
        `Accepted events a second over the last five minutes, at most ${rate(mostOf(accepted))}; ` +
        `refused, at most ${rate(mostOf(refused))}.`,
      series: [
        { className: 'accepted', area: true, steps: accepted },
        // Without refusals there is no line: it would hide the axis.
        {
          className: 'refused',
          area: true,
          steps: refused.map((step) => ({ ...step, value: step.value === 0 ? null : step.value })),
        },
      ],
      format: rate,
      least: 2,
      marked,
    },
  );
}

function latencyChart(
  seconds: readonly Past[],
  shown: Past | undefined,
  marked: number | undefined,
): Element {
  const p50 = stepsOf(seconds, ({ p50_ms }) => p50_ms);
  const p99 = stepsOf(seconds, ({ p99_ms }) => p99_ms);
  return chart(
    'Time to acknowledge',
    [
      { className: 'p50', name: 'half within', value: valueOf(shown?.p50_ms, milliseconds) },
      { className: 'p99', name: '99 % within', value: valueOf(shown?.p99_ms, milliseconds) },
    ],
    {
      label:
        'Milliseconds to acknowledge over the last five minutes: the 99th percentile was at most ' +
        `${milliseconds(mostOf(p99))}.`,
      series: [
        { className: 'p99', area: false, steps: p99 },
        { className: 'p50', area: false, steps: p50 },
      ],
      format: milliseconds,
      least: 2,
      marked,
    },
  );
}

interface LegendEntry {
  readonly className: string;
  readonly name: string;
  readonly value: string;
}

/** A plot with its title, and a name and value for each line. */
function chart(title: string, legend: readonly LegendEntry[], drawn: Plot): Element {
  return markup`
    <figure>
      <figcaption>
        <h3>${title}</h3>
        <dl class="legend">
          ${legend.map(
            ({ className, name, value }) =>
              markup`<div class=${className}><dt>${name}</dt><dd>${value}</dd></div>`,
          )}
        </dl>
      </figcaption>
      ${plot(drawn)}
    </figure>
  `;
}

function stepsOf(seconds: readonly Past[], value: (second: Second) => number | null): Step[] {
  return seconds.map((second) => ({ ago: second.ago, seconds: second.ms / 1000, value: value(second) }));
}

function isIdle({ state: { traffic: found } }: View): boolean {
  return found.seconds.every(({ accepted, refused }) => accepted === 0 && refused === 0);
}

/** Replaces two empty charts. */
function idle({ state: { ledger, command } }: View): Element {
  const text =
    ledger.events > 0
      ? 'No events were accepted or refused. Rates and times appear here with the first one.'
      : [
          'No events yet. The page ',
          markup`<a href="docs">Interface</a>`,
          ' shows how to send one; ',
          markup`<code>${command} demo</code>`,
          ' sends made-up runs. Rates and times then appear here.',
        ];
  return card('traffic', 'Last five minutes', '', markup`<p class="empty">${text}</p>`);
}

/** The end of the charts: the last second, or the time of the request if that second is long past. */
function endOf(view: View): number {
  const at = view.state.traffic.seconds.at(-1)?.at;
  const now = takenAt(view);
  return at === undefined || now - Date.parse(at) > 2000 ? now : Date.parse(at);
}

/** The second under the pointer, or the last one. */
function secondAt(seconds: readonly Past[], marked: number | undefined): Past | undefined {
  if (marked === undefined) return seconds.at(-1);
  return seconds.find(({ ago, ms }) => ago <= marked && ago + ms / 1000 >= marked);
}

function rowsTable(seconds: readonly Past[], timeOfDay: (ago: number) => string): Element {
  const inRows = Map.groupBy(seconds, ({ ago }) => Math.floor(ago / ROW_SECONDS));
  const rows: Child[][] = [];
  for (let row = 0; row < SPAN_SECONDS / ROW_SECONDS; row++) {
    const inRow = inRows.get(row);
    if (inRow === undefined) continue;
    const ms = sum(inRow.map((second) => second.ms));
    const perSecond = (value: (second: Second) => number) => rate((sum(inRow.map(value)) * 1000) / ms);
    const most = (value: (second: Second) => number | null) =>
      valueOf(mostKnown(inRow.map(value)), milliseconds);
    rows.push([
      timeOfDay(row * ROW_SECONDS),
      perSecond(({ accepted }) => accepted),
      perSecond(({ refused }) => refused),
      most(({ p50_ms }) => p50_ms),
      most(({ p99_ms }) => p99_ms),
    ]);
  }
  const columns = ['Until', 'Accepted a second', 'Refused a second', 'Half within', '99 % within'].map(
    (name, i) => (i === 0 ? { name } : { name, className: 'number' }),
  );
  const caption = 'Periods of ten seconds, newest first. Times are those of the slowest second.';
  return markup`
    <div class="scroll" tabindex="0" role="group" aria-label="The last five minutes as a table">
      ${table(caption, columns, rows)}
    </div>
  `;
}

function acceptedRate({ accepted, ms }: Second): number {
  return (accepted * 1000) / ms;
}

function refusedRate({ refused, ms }: Second): number {
  return (refused * 1000) / ms;
}

function valueOf(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? NONE : format(value);
}

function mostOf(steps: readonly Step[]): number {
  return Math.max(0, ...steps.map(({ value }) => value ?? 0));
}

function mostKnown(values: readonly (number | null)[]): number | undefined {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? undefined : Math.max(...known);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
