/**
 * The shapes of charts: SVG without a script. Lengths across are shares of the width, so that text keeps its size
 * however wide the page is; what d3-scale and d3-shape reckon are ticks, positions, curves and symbols. Nothing is said
 * by colour alone: bars stand in rows with a name, shares differ by pattern, curves by dashes and symbols.
 */
import { type ScaleContinuousNumeric } from 'd3-scale';
import {
  curveStepAfter,
  line,
  symbol,
  symbolCircle,
  symbolDiamond,
  symbolSquare,
  symbolTriangle,
} from 'd3-shape';
import type { Share } from '../statistics.js';
import { Html, type Inner, NOTHING, html } from './wording.js';

/** From what is measured to a percentage of the width. */
export type Across = ScaleContinuousNumeric<number, number>;

const SYMBOLS = [symbolCircle, symbolSquare, symbolTriangle, symbolDiamond] as const;
const SYMBOL_AREA = 44;
const ROW_HEIGHT = 22;
/** In per cent: a bar is not to look like an area. */
const WIDEST_BAR = 5;

/** @param label what is read to a reader who does not see it. */
function picture(kind: string, height: number, label: string, inner: Inner): Html {
  return html`<svg class="${kind}" width="100%" height="${height}" role="img" aria-label="${label}">
    ${inner}
  </svg>`;
}

/** A bar for each value, from left to right. */
export function bars(values: readonly number[], most: number, height: number, label: string): Html {
  const width = 100 / Math.max(1, values.length);
  const inner = values.map((value, i) => {
    if (value === 0) return NOTHING;
    // What is there is seen, however little it is.
    const tall = Math.max(1.5, (value / Math.max(1, most)) * height);
    const wide = Math.min(width * 0.8, WIDEST_BAR);
    const x = i * width + (width - wide) / 2;
    return html`<rect
      x="${percentage(x)}"
      y="${px(height - tall)}"
      width="${percentage(wide)}"
      height="${px(tall)}"
    />`;
  });
  return picture('bars', height, label, [
    inner,
    html`<line class="base" x1="0" x2="100%" y1="${height - 0.5}" y2="${height - 0.5}" />`,
  ]);
}

/** A share as a point with its interval. */
export function interval({ share, low, high }: Share, across: Across, label: string): Html {
  if (share === null || low === null || high === null) return picture('marks', ROW_HEIGHT, label, track());
  const middle = ROW_HEIGHT / 2;
  return picture('marks', ROW_HEIGHT, label, [
    track(),
    html`<line
      class="range"
      x1="${percentage(across(low))}"
      x2="${percentage(across(high))}"
      y1="${middle}"
      y2="${middle}"
    />`,
    mark(0, across(share)),
  ]);
}

/** Where the ticks of {@link smallIntervals} stand. */
export const SHARE_TICKS = [0, 0.5, 1];
const SMALL_ROW = 11;

/**
 * Shares as dots with their intervals, in a cell of a column whose scale is 0 to 100 %. Their numbers stand beside them,
 * so that it has no words of its own.
 * @param then stands above and has a hollow dot.
 */
export function smallIntervals(now: Share, then?: Share): Html {
  const drawn = [...(then === undefined ? [] : [{ name: 'then', share: then }]), { name: 'now', share: now }];
  const height = drawn.length * SMALL_ROW + 3;
  return html`<svg class="small" width="100%" height="${height}" aria-hidden="true">
    ${SHARE_TICKS.map((tick) => {
      const x = percentage(tick * 100);
      return html`<line class="grid" x1="${x}" x2="${x}" y1="0" y2="${height}" />`;
    })}
    ${drawn.map(({ name, share: { share, low, high } }, i) => {
      if (share === null || low === null || high === null) return NOTHING;
      const y = px((i + 0.5) * SMALL_ROW + 1.5);
      const [x1, x2] = [percentage(low * 100), percentage(high * 100)];
      return html`<line class="range" x1="${x1}" x2="${x2}" y1="${y}" y2="${y}" /><circle
          class="${name}"
          cx="${percentage(share * 100)}"
          cy="${y}"
          r="3.4"
        />`;
    })}
  </svg>`;
}

/** Values on one line, each with the symbol of its place. */
export function points(values: readonly (number | null)[], across: Across, label: string): Html {
  return picture('marks', ROW_HEIGHT, label, [
    track(),
    values.map((value, i) => (value === null ? NOTHING : mark(i, across(value)))),
  ]);
}

/** Shares of a whole, side by side. */
export function stack(
  parts: readonly { readonly name: string; readonly count: number }[],
  label: string,
): Html {
  const all = parts.reduce((sum, { count }) => sum + count, 0);
  let x = 0;
  const inner = parts.map(({ name, count }) => {
    const width = all === 0 ? 0 : (count / all) * 100;
    const at = x;
    x += width;
    return count === 0
      ? NOTHING
      : html`<rect
          class="part ${name}"
          x="${percentage(at)}"
          y="3"
          width="${percentage(width)}"
          height="${ROW_HEIGHT - 6}"
        />`;
  });
  return picture('stack', ROW_HEIGHT, label, inner);
}

/** Steps that rise with the days, from 0 to 1. */
export function curves(
  lines: readonly (readonly { readonly day: number; readonly share: number }[])[],
  across: Across,
  height: number,
  label: string,
): Html {
  const path = line<{ day: number; share: number }>()
    .x(({ day }) => across(day))
    .y(({ share }) => (1 - share) * 100)
    .curve(curveStepAfter)
    .digits(2);
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const y = px((1 - share) * (height - 2) + 1);
    return html`<line class="grid" x1="0" x2="100%" y1="${y}" y2="${y}" />`;
  });
  const drawn = lines.map((days, i) => html`<path class="curve line-${i}" d="${path(days) ?? ''}" />`);
  const ends = lines.map((days, i) => {
    const last = days.at(-1);
    return last === undefined ? NOTHING : mark(i, across(last.day), 1 + (1 - last.share) * (height - 2));
  });
  return picture('curves', height, label, [
    grid,
    html`<svg
      x="0"
      y="1"
      width="100%"
      height="${height - 2}"
      viewBox="0 0 100 100"
      preserveAspectRatio="none"
    >
      ${drawn}
    </svg>`,
    ends,
  ]);
}

/** How a curve looks, for the list of what is what. */
export function curveSample(i: number): Html {
  return html`<svg class="sample" width="38" height="12" aria-hidden="true">
    <line class="curve line-${i}" x1="0" x2="38" y1="6" y2="6" />
    ${mark(i, 50, 6)}
  </svg>`;
}

export function partSample(name: string): Html {
  return html`<svg class="sample stack" width="22" height="12" aria-hidden="true">
    <rect class="part ${name}" x="1" y="1" width="20" height="10" />
  </svg>`;
}

export function pointSample(i: number): Html {
  return html`<svg class="sample marks" width="14" height="12" aria-hidden="true">${mark(i, 50, 6)}</svg>`;
}

/** The numbers below rows that have one scale. */
export function axis(across: Across, ticks: readonly number[], text: (value: number) => string): Html {
  const inner = ticks.map((tick) => {
    const x = across(tick);
    const anchor = x < 4 ? 'start' : x > 96 ? 'end' : 'middle';
    return html`<line class="grid" x1="${percentage(x)}" x2="${percentage(x)}" y1="0" y2="4" /><text
        x="${percentage(x)}"
        y="15"
        text-anchor="${anchor}"
        >${text(tick)}</text
      >`;
  });
  return html`<svg class="axis" width="100%" height="18" aria-hidden="true">${inner}</svg>`;
}

function track(): Html {
  return html`<line class="track" x1="0" x2="100%" y1="${ROW_HEIGHT / 2}" y2="${ROW_HEIGHT / 2}" />`;
}

function mark(i: number, x: number, y = ROW_HEIGHT / 2): Html {
  const shape = symbol(SYMBOLS[i % SYMBOLS.length], SYMBOL_AREA).digits(2)() ?? '';
  return html`<svg x="${percentage(x)}" y="${px(y)}" overflow="visible">
    <path class="mark" d="${shape}" />
  </svg>`;
}

function percentage(share: number): string {
  return `${Number(share.toFixed(3))}%`;
}

function px(length: number): string {
  return String(Number(length.toFixed(2)));
}
