/**
 * The charts of the page: SVG without a script. Horizontal positions are percentages, so that text keeps its
 * size at every width. Nothing is shown by colour alone: rows have names, curves have dashes, and each number
 * is in a table.
 */
import { OUTCOME_WORDS, OUTCOME_TEXT } from '@clinical-events/collector/records/vocabulary';
import type { GroupNumbers } from '../report-numbers.js';
import type { Share } from '../statistics.js';
import { type Html, type Inner, NOTHING, html } from './html.js';
import { countOf, countText, ofText, percent, wholePercent } from './wording.js';

export interface NamedGroup {
  readonly name: string;
  readonly numbers: GroupNumbers;
}

/** The steps of the period: their unit, and when they begin and end. */
export interface Steps {
  readonly unit: string;
  readonly ends: Html;
}

const ROW_HEIGHT = 22;
const BARS_HEIGHT = 34;
const CURVES_HEIGHT = 150;
const INTERVAL_HEIGHT = 11;
/** In per cent of the width: a wider bar would look like an area. */
const WIDEST_BAR = 5;
/** Later days are in the numbers of --json only. */
const MOST_CURVE_DAYS = 90;

/** The charts of some groups of runs: a row for each, on one scale. */
export function groupFigures(groups: readonly NamedGroup[], steps: Steps): Html {
  return html`<div class="figures">
    ${runsFigure(groups, steps)} ${outcomesFigure(groups)} ${contradictedFigure(groups)}
    ${waitingFigure(groups)}
  </div>`;
}

export function figure(title: string, what: string, inner: Inner): Html {
  return html`<figure>
    <figcaption><strong>${title}</strong><br />${what}</figcaption>
    ${inner}
  </figure>`;
}

function rows(groups: readonly NamedGroup[], row: (group: NamedGroup) => Inner, below: Inner): Html {
  return html`<div class="rows">
    ${groups.map((group) => html`<span class="name">${group.name}</span>${row(group)}`)}
    <span></span>${below}<span></span>
  </div>`;
}

function value(text: string): Html {
  return html`<span class="value">${text}</span>`;
}

function runsFigure(groups: readonly NamedGroup[], { unit, ends }: Steps): Html {
  const most = Math.max(0, ...groups.flatMap(({ numbers }) => numbers.runs_by_step));
  const row = ({ name, numbers: { runs, runs_by_step: values } }: NamedGroup) => [
    bars(values, most, BARS_HEIGHT, `Runs of ${name} per ${unit}, ${countText(runs)} in all`),
    value(countOf(runs, 'run')),
  ];
  return figure(`Runs per ${unit}`, `the highest bar is ${countText(most)}`, rows(groups, row, ends));
}

function outcomesFigure(groups: readonly NamedGroup[]): Html {
  const seen = OUTCOME_WORDS.filter((word) => groups.some(({ numbers }) => numbers.outcomes[word] > 0));
  const row = ({ name, numbers: { runs, outcomes, with_outcome: known } }: NamedGroup) => {
    const texts = seen.map((word) => `${OUTCOME_TEXT[word]} ${outcomes[word]}`);
    let end = 0;
    const parts = seen.map((word) => {
      const width = runs === 0 ? 0 : (outcomes[word] / runs) * 100;
      const x = end;
      end += width;
      return html`<rect class="part ${word}" x="${per(x)}" y="3" width="${per(width)}" height="16" />`;
    });
    return [
      picture(ROW_HEIGHT, `Outcomes of ${name}: ${texts.join(', ')}`, parts),
      value(`${percent(known.share)} have one`),
    ];
  };
  const sample = (word: string) =>
    html`<svg class="sample" width="22" height="12" aria-hidden="true">
      <rect class="part ${word}" x="1" y="1" width="20" height="10" />
    </svg>`;
  return figure('Outcomes', 'the last outcome of each run', [
    rows(groups, row, axis(1, shareText)),
    html`<ul class="legend">
      ${seen.map((word) => html`<li>${sample(word)} ${OUTCOME_TEXT[word]}</li>`)}
    </ul>`,
  ]);
}

function contradictedFigure(groups: readonly NamedGroup[]): Html {
  const shares = groups.map(({ numbers }) => numbers.contradicted);
  const what = 'share of the judged runs, with the 95 % interval';
  if (shares.every(({ of }) => of === 0))
    return figure('Contradicted', what, html`<p class="none">No run is judged.</p>`);
  const highest = Math.max(...shares.map(({ high }) => high ?? 0));
  const most = Math.min(1, Math.max(0.1, Math.ceil(highest * 10) / 10));
  const row = ({ numbers: { contradicted } }: NamedGroup) => [
    intervals([contradicted], most),
    value(contradicted.of === 0 ? 'none judged' : `${percent(contradicted.share)} (${ofText(contradicted)})`),
  ];
  return figure('Contradicted', what, rows(groups, row, axis(most, shareText)));
}

function waitingFigure(groups: readonly NamedGroup[]): Html {
  const title = 'Time until the outcome';
  const curves = groups.map(({ numbers }) =>
    numbers.days_to_outcome.curve.filter(({ day }) => day <= MOST_CURVE_DAYS),
  );
  const last = Math.max(0, ...curves.map((curve) => curve.at(-1)?.day ?? 0));
  if (last === 0)
    return figure(title, 'in days', html`<p class="none">Too few runs, or all known on the first day.</p>`);
  const ends = groups.map(({ name }, i) => {
    const { day, share } = curves[i]?.at(-1) ?? { day: 0, share: 0 };
    return `${name}: ${wholePercent(share)} after ${countOf(day, 'day')}`;
  });
  const steps = curves.map((curve, i) => {
    const path = curve.map(({ day, share }) => `H${round((day / last) * 100)}V${round((1 - share) * 100)}`);
    const first = round((1 - (curve[0]?.share ?? 0)) * 100);
    return html`<path class="curve line-${i}" d="M0,${first}${path.join('')}" />`;
  });
  const sample = (i: number) =>
    html`<svg class="sample" width="38" height="12" aria-hidden="true">
      <line class="curve line-${i}" x1="0" x2="38" y1="6" y2="6" />
    </svg>`;
  return figure(title, 'share of runs with an outcome, by days since their start', [
    html`<div class="plot">
      <span class="scale"><span>100 %</span><span>50 %</span><span>0 %</span></span>
      ${picture(
        CURVES_HEIGHT,
        `Share of runs with an outcome. ${ends.join('; ')}`,
        html`<svg width="100%" height="${CURVES_HEIGHT}" viewBox="0 0 100 100" preserveAspectRatio="none">
          <path class="curve grid" d="M0,0H100M0,50H100M0,100H100" />
          ${steps}
        </svg>`,
      )}
      <span></span>${axis(last, (day) => `${Math.round(day)} d`)}
    </div>`,
    html`<ul class="legend">
      ${groups.map(({ name, numbers }, i) => html`<li>${sample(i)} ${name}: ${medianText(numbers)}</li>`)}
    </ul>`,
  ]);
}

export function medianText({ days_to_outcome: { median } }: GroupNumbers): string {
  if (median === null) return 'half not reached';
  return median === 0 ? 'half on the first day' : `half within ${countOf(median + 1, 'day')}`;
}

/** A bar for each value, from left to right. */
export function bars(values: readonly number[], most: number, height: number, label: string): Html {
  const step = 100 / Math.max(1, values.length);
  const width = Math.min(step * 0.8, WIDEST_BAR);
  const bar = (value: number, i: number) => {
    if (value === 0) return NOTHING;
    // The smallest value is still visible.
    const tall = Math.max(1.5, (value / most) * height);
    const [x, y] = [per(i * step + (step - width) / 2), round(height - tall)];
    return html`<rect class="bar" x="${x}" y="${y}" width="${per(width)}" height="${round(tall)}" />`;
  };
  const base = html`<line class="grid" x1="0" x2="100%" y1="${height - 0.5}" y2="${height - 0.5}" />`;
  return picture(height, label, [values.map(bar), base]);
}

/**
 * Shares as dots with their intervals. Their numbers are printed next to them, so that the picture has no
 * text.
 * @param shares one share, or two: the one before a change, with a hollow dot, and the current one.
 * @param most the share at the right end.
 */
export function intervals(shares: readonly Share[], most: number): Html {
  const height = shares.length * INTERVAL_HEIGHT + 3;
  const grid = [0, most / 2, most].map((tick) => {
    const x = per((tick / most) * 100);
    return html`<line class="grid" x1="${x}" x2="${x}" y1="0" y2="${height}" />`;
  });
  return html`<svg width="100%" height="${height}" aria-hidden="true">
    ${grid}
    ${shares.map(({ share, low, high }, i) => {
      if (share === null || low === null || high === null) return NOTHING;
      const y = (i + 0.5) * INTERVAL_HEIGHT + 1.5;
      const [x1, x2, cx] = [low, high, share].map((part) => per((part / most) * 100)) as [
        string,
        string,
        string,
      ];
      const name = i < shares.length - 1 ? 'then' : 'now';
      return html`<line class="range" x1="${x1}" x2="${x2}" y1="${y}" y2="${y}" />
        <circle class="${name}" cx="${cx}" cy="${y}" r="3.4" />`;
    })}
  </svg>`;
}

/** The scale below rows: its beginning, middle and end. */
export function axis(most: number, text: (value: number) => string): Html {
  return html`<span class="ends" aria-hidden="true"
    ><span>${text(0)}</span><span>${text(round(most / 2))}</span><span>${text(round(most))}</span></span
  >`;
}

export function shareText(share: number): string {
  return `${round(share * 100)} %`;
}

/** @param label the text alternative. */
function picture(height: number, label: string, inner: Inner): Html {
  return html`<svg width="100%" height="${height}" role="img" aria-label="${label}">${inner}</svg>`;
}

function per(percentage: number): string {
  return `${round(percentage)}%`;
}

function round(length: number): number {
  return Number(length.toFixed(3));
}
