/**
 * The charts of the last five minutes: steps, a second wide, because a second is what was counted. Where nothing was
 * measured there is nothing. The drawing is stretched to its place by the browser; what is written stands beside it.
 */
import { h, type Child, type Element } from './element.js';

export const SPAN_SECONDS = 300;
const HEIGHT = 100;
/** Back to the axis. */
const END = `V${HEIGHT}Z`;

/** Of one second. */
export interface Step {
  /** Seconds between its end and the end of the chart. */
  readonly ago: number;
  /** How long it was. */
  readonly seconds: number;
  readonly value: number | null;
}

interface Series {
  readonly className: string;
  /** An area stands on the axis, a line does not. */
  readonly area: boolean;
  readonly steps: readonly Step[];
}

export interface Plot {
  /** What it shows, for those who do not see it. */
  readonly label: string;
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** The scale does not end below this. */
  readonly least: number;
  /** Seconds before the end that are marked. */
  readonly marked: number | undefined;
}

export function plot({ label, series, format, least, marked }: Plot): Element {
  const values = series.flatMap(({ steps }) => steps.map(({ value }) => value ?? 0));
  const top = roundUp(Math.max(least, ...values));
  const x = marked === undefined ? undefined : SPAN_SECONDS - marked;
  return h(
    'div',
    { class: 'plot' },
    h(
      'div',
      { class: 'scale', 'aria-hidden': 'true' },
      [top, top / 2, 0].map((at) => h('span', {}, format(at))),
    ),
    h(
      'div',
      { class: 'drawing', 'data-plot': true },
      h(
        'svg',
        {
          role: 'img',
          'aria-label': label,
          viewBox: `0 0 ${SPAN_SECONDS} ${HEIGHT}`,
          preserveAspectRatio: 'none',
        },
        [0, HEIGHT / 2, HEIGHT].map((y) => grid(0, y, SPAN_SECONDS, y)),
        [60, 120, 180, 240].map((at) => grid(at, 0, at, HEIGHT)),
        series.map(({ className, area, steps }) =>
          h('path', { class: className, d: (area ? areaOf : lineOf)(steps, top) }),
        ),
        x !== undefined && h('line', { class: 'mark', x1: x, x2: x, y1: 0, y2: HEIGHT }),
      ),
    ),
    h(
      'div',
      { class: 'times', 'aria-hidden': 'true' },
      ['5 min', '4', '3', '2', '1', 'now'].map((text) => h('span', {}, text)),
    ),
  );
}

/** A name and a value beside a sample of the line. */
export function legend(entries: readonly { className: string; name: string; value: Child }[]): Element {
  return h(
    'dl',
    { class: 'legend' },
    entries.map(({ className, name, value }) =>
      h('div', { class: className }, h('dt', {}, name), h('dd', {}, value)),
    ),
  );
}

/** The next of 1, 2, 4, 6, 8 and 10 times a power of ten: half of each is a short number too. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 4, 6, 8, 10].find((times) => times * power >= value * (1 - 1e-9));
  return (found ?? 10) * power;
}

function grid(x1: number, y1: number, x2: number, y2: number): Element {
  return h('line', { class: 'grid', x1, y1, x2, y2 });
}

interface Place {
  readonly from: number;
  readonly to: number;
  readonly y: number;
  /** Whether it goes on where the one before ends. */
  readonly joined: boolean;
}

function* placesOf(steps: readonly Step[], top: number): Generator<Place> {
  let end = Number.NaN;
  for (const { ago, seconds, value } of steps) {
    const to = SPAN_SECONDS - ago;
    if (value === null || to <= 0) continue;
    // A second that was looked at late is wider; one that begins within a hair of the last one's end is joined to it.
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
