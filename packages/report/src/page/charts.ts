/** The charts that lay some groups of runs one below the other, on one scale: the versions of a model. */
import { scaleLinear, scaleLog } from 'd3-scale';
import type { GroupNumbers } from '../report-numbers.js';
import { OUTCOME_WORDS, OUTCOME_TEXT } from '@clinical-events/collector/records/vocabulary';
import {
  type Across,
  axis,
  bars,
  curves,
  curveSample,
  interval,
  partSample,
  points,
  pointSample,
  stack,
} from './shapes.js';
import {
  type Html,
  type Inner,
  NOTHING,
  countOf,
  countText,
  decimal,
  durationText,
  html,
  intervalText,
  latencyText,
  ofText,
  percent,
  wholePercent,
} from './wording.js';

export interface NamedGroup {
  readonly name: string;
  readonly numbers: GroupNumbers;
}

const BARS_HEIGHT = 34;
const CURVES_HEIGHT = 150;
/** Later days are in the numbers only. */
const MOST_CURVE_DAYS = 90;

/** @param steps when the steps begin and end, in words. */
export function groupFigures(groups: readonly NamedGroup[], steps: { unit: string; ends: Html }): Html {
  return html`<div class="figures">
    ${runsFigure(groups, steps)} ${outcomesFigure(groups)} ${contradictedFigure(groups)}
    ${latencyFigure(groups)} ${waitingFigure(groups)} ${feedbackFigure(groups)}
  </div>`;
}

function figure(title: string, what: string, inner: Inner): Html {
  return html`<figure>
    <figcaption><strong>${title}</strong><br />${what}</figcaption>
    ${inner}
  </figure>`;
}

function rows(
  groups: readonly NamedGroup[],
  row: (group: NamedGroup) => readonly [Html, string],
  below: Inner,
): Html {
  return html`<div class="rows">
    ${groups.map((group) => {
      const [chart, text] = row(group);
      return html`<span class="name">${group.name}</span>${chart}<span class="value">${text}</span>`;
    })}
    <span></span>${below}<span></span>
  </div>`;
}

function runsFigure(groups: readonly NamedGroup[], { unit, ends }: { unit: string; ends: Html }): Html {
  const most = Math.max(0, ...groups.flatMap(({ numbers }) => numbers.runs_by_step));
  return figure(
    `Runs a ${unit}`,
    `the highest bar is ${countText(most)}`,
    rows(
      groups,
      ({ name, numbers }) => [
        bars(
          numbers.runs_by_step,
          most,
          BARS_HEIGHT,
          `Runs of ${name} a ${unit}, ${countText(numbers.runs)} in all`,
        ),
        countOf(numbers.runs, 'run'),
      ],
      ends,
    ),
  );
}

function outcomesFigure(groups: readonly NamedGroup[]): Html {
  const seen = OUTCOME_WORDS.filter((word) => groups.some(({ numbers }) => numbers.outcomes[word] > 0));
  const across = scaleLinear([0, 1], [0, 100]);
  return figure('Outcomes', 'the last outcome of each run', [
    rows(
      groups,
      ({ name, numbers }) => [
        stack(
          OUTCOME_WORDS.map((word) => ({ name: word, count: numbers.outcomes[word] })),
          `Outcomes of ${name}: ${OUTCOME_WORDS.map((word) => `${OUTCOME_TEXT[word]} ${numbers.outcomes[word]}`).join(', ')}`,
        ),
        `${percent(numbers.with_outcome.share)} have one`,
      ],
      axis(across, [0, 0.5, 1], (share) => `${share * 100} %`),
    ),
    html`<ul class="legend">
      ${seen.map((word) => html`<li>${partSample(word)} ${OUTCOME_TEXT[word]}</li>`)}
    </ul>`,
  ]);
}

function contradictedFigure(groups: readonly NamedGroup[]): Html {
  const shares = groups.map(({ numbers }) => numbers.contradicted);
  if (shares.every(({ of }) => of === 0)) {
    return figure(
      'Contradicted',
      'of the runs whose outcome says',
      html`<p class="none">No run has such an outcome.</p>`,
    );
  }
  const across = scaleLinear(
    [0, Math.min(1, Math.max(0.05, ...shares.map(({ high }) => high ?? 0)))],
    [0, 100],
  ).nice(4);
  return figure(
    'Contradicted',
    'of the runs found validated, partial or contradicted, with the 95 % interval',
    rows(
      groups,
      ({ name, numbers: { contradicted } }) => [
        interval(
          contradicted,
          across,
          `${percent(contradicted.share)} of the outcomes of ${name}, ${intervalText(contradicted)}`,
        ),
        contradicted.of === 0 ? 'none known' : `${percent(contradicted.share)} (${ofText(contradicted)})`,
      ],
      axis(across, across.ticks(3), (share) => `${Number((share * 100).toFixed(1))} %`),
    ),
  );
}

function waitingFigure(groups: readonly NamedGroup[]): Html {
  const lines = groups.map(({ name, numbers }, i) => ({
    name,
    i,
    numbers,
    days: numbers.days_to_outcome.curve.filter(({ day }) => day <= MOST_CURVE_DAYS),
  }));
  const lastDay = Math.max(0, ...lines.map(({ days }) => days.at(-1)?.day ?? 0));
  if (lastDay === 0) {
    return figure(
      'Until the outcome',
      'is known',
      html`<p class="none">Too few runs, or all known on the first day.</p>`,
    );
  }
  const across = scaleLinear([0, lastDay], [0, 100]);
  const label = lines
    .map(
      ({ name, days }) =>
        `${name}: ${wholePercent(days.at(-1)?.share ?? 0)} after ${countOf(days.at(-1)?.day ?? 0, 'day')}`,
    )
    .join('; ');
  return figure(
    'Until the outcome',
    'share of runs with an outcome, by days since their start, while enough runs are old enough',
    [
      html`<div class="plot">
        <span class="scale"><span>100 %</span><span>50 %</span><span>0 %</span></span>
        ${curves(
          lines.map(({ days }) => days),
          across,
          CURVES_HEIGHT,
          `Share of runs with an outcome. ${label}`,
        )}
        <span></span>${axis(across, wholeTicks(across), (day) => `${day} d`)}
      </div>`,
      html`<ul class="legend">
        ${lines.map(({ name, i, numbers }) => html`<li>${curveSample(i)} ${name}: ${medianText(numbers)}</li>`)}
      </ul>`,
    ],
  );
}

export function medianText({ days_to_outcome: { median } }: GroupNumbers): string {
  if (median === null) return 'half not reached';
  return median === 0 ? 'half on the first day' : `half within ${countOf(median + 1, 'day')}`;
}

const PERCENTILES = ['p50', 'p95', 'p99'] as const;

function latencyFigure(groups: readonly NamedGroup[]): Html {
  const values = groups.flatMap(
    ({
      numbers: {
        latency_ms: { p50, p95, p99 },
      },
    }) => [p50, p95, p99],
  );
  const known = values.filter((value) => value !== null && value > 0) as number[];
  if (known.length === 0) {
    return figure(
      'Latency',
      'from start to first output',
      html`<p class="none">No run has a start and an output.</p>`,
    );
  }
  const across = scaleLog([Math.min(...known) * 0.8, Math.max(...known) * 1.25], [0, 100]);
  return figure('Latency', 'from start to first output, by the senders’ clocks, on a logarithmic scale', [
    rows(
      groups,
      ({ name, numbers: { latency_ms: latency } }) => {
        const { p50, p95, p99 } = latency;
        const texts = PERCENTILES.map((percentile) => latencyText(latency, percentile));
        return [
          points(
            [p50, p95, p99].map((value) => (value === 0 ? null : value)),
            across,
            `Latency of ${name}: ${texts.map((text, i) => `${PERCENTILES[i] ?? ''} ${text}`).join(', ')}`,
          ),
          texts.join(' · '),
        ];
      },
      axis(across, logTicks(across), (tick) => durationText(tick)),
    ),
    html`<ul class="legend">
      ${PERCENTILES.map((name, i) => html`<li>${pointSample(i)} ${name}</li>`)}
    </ul>`,
  ]);
}

function feedbackFigure(groups: readonly NamedGroup[]): Html {
  const thumbs = groups.some(({ numbers }) => numbers.thumbs_up.of > 0);
  const rated = groups.some(({ numbers }) => numbers.ratings.count > 0);
  const share = scaleLinear([0, 1], [0, 100]);
  const rating = scaleLinear([0, 5], [0, 100]);
  if (!thumbs && !rated) {
    return figure(
      'Feedback',
      'thumbs and ratings',
      html`<p class="none">No one put a thumb up or down or gave a rating.</p>`,
    );
  }
  return figure('Feedback', 'of those who gave it', [
    thumbs
      ? html`<p class="sub">Thumbs up, with the 95 % interval</p>
          ${rows(
            groups,
            ({ name, numbers: { thumbs_up: up } }) => [
              interval(up, share, `Thumbs up for ${name}: ${percent(up.share)}, ${intervalText(up)}`),
              up.of === 0 ? 'none' : `${percent(up.share)} (${ofText(up)})`,
            ],
            axis(share, [0, 0.5, 1], (value) => `${value * 100} %`),
          )}`
      : NOTHING,
    rated
      ? html`<p class="sub">Mean rating, 0 worst to 5 best</p>
          ${rows(
            groups,
            ({ name, numbers: { ratings } }) => [
              points([ratings.mean], rating, `Mean rating of ${name}: ${decimal(ratings.mean, 2)}`),
              ratings.count === 0
                ? 'none'
                : `${decimal(ratings.mean, 2)} (${countOf(ratings.count, 'rating')})`,
            ],
            axis(rating, [0, 1, 2, 3, 4, 5], String),
          )}`
      : NOTHING,
  ]);
}

/** Powers of ten, or, where there is none or one within, what the scale finds. */
function logTicks(across: Across): number[] {
  const [low = 1, high = 1] = across.domain();
  const powers: number[] = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power++) powers.push(10 ** power);
  if (powers.length >= 2) return powers;
  return [1, 2, 3, 5]
    .flatMap((digit) => [0, 1].map((more) => digit * 10 ** (Math.floor(Math.log10(low)) + more)))
    .filter((tick) => tick >= low && tick <= high)
    .sort((a, b) => a - b);
}

function wholeTicks(across: Across): number[] {
  return across.ticks(5).filter(Number.isInteger);
}
