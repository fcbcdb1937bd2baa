/** The numbers behind the charts: a column a group, a row a number. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { CALL_ENDINGS } from '@clinical-events/collector/records/calls';
import { CONFLICT_WORDS, type GroupNumbers, MISSING_WORDS, type ReportNumbers } from '../report-numbers.js';
import { FEEDBACK_WORDS, OUTCOME_WORDS, OUTCOME_TEXT } from '@clinical-events/collector/records/vocabulary';
import { type NamedGroup, medianText } from './charts.js';
import { bars } from './shapes.js';
import type { Share } from '../statistics.js';
import {
  CONFLICT_TEXT,
  ENDING_TEXT,
  FEEDBACK_TEXT,
  type Html,
  MISSING_TEXT,
  NOTHING,
  ageText,
  countOf,
  countText,
  dateText,
  decimal,
  hasSeveralCalls,
  html,
  intervalText,
  latencyText,
  modelText,
  ofText,
  percent,
  shortDateText,
  versionText,
} from './wording.js';

type Row = readonly [name: string, value: (numbers: GroupNumbers) => string];
type Block = readonly [title: string, rows: readonly Row[]];

/** `count (share)` of the runs of the group. */
function ofRuns(count: (numbers: GroupNumbers) => number): Row[1] {
  return (numbers) => partText(count(numbers), numbers.runs);
}

function partText(some: number, of: number): string {
  return some === 0 ? '0' : `${countText(some)} (${percent(some / of)})`;
}

/** Whether any group has counted such runs: words that none has are left out. */
type Found = (count: (numbers: GroupNumbers) => number) => boolean;

function blocksOf(groups: readonly NamedGroup[]): Block[] {
  const found: Found = (count) => groups.some(({ numbers }) => count(numbers) > 0);
  return [
    RUNS,
    outcomes(found),
    CONTRADICTED,
    ...ageBlocks(groups[0]?.numbers),
    LATENCY,
    ...callBlocks(groups),
    feedback(found),
    completeness(found),
    conflicts(found),
  ];
}

const RUNS: Block = [
  'Runs',
  [
    ['runs', ({ runs }) => countText(runs)],
    ['events', ({ events }) => countText(events)],
    ['first run', ({ first_run: first }) => dateText(first)],
    ['last run', ({ last_run: last }) => dateText(last)],
  ],
];

const CONTRADICTED: Block = [
  'Contradicted, of validated, partial and contradicted',
  [
    ['share', ({ contradicted }) => percent(contradicted.share)],
    ['95 % interval', ({ contradicted }) => intervalText(contradicted)],
    ['runs', ({ contradicted }) => ofText(contradicted)],
  ],
];

const LATENCY: Block = [
  'Latency, from start to first output',
  [
    ['runs with both', ({ latency_ms: { runs } }) => countText(runs)],
    ['p50', ({ latency_ms: latency }) => latencyText(latency, 'p50')],
    ['p95', ({ latency_ms: latency }) => latencyText(latency, 'p95')],
    ['p99', ({ latency_ms: latency }) => latencyText(latency, 'p99')],
  ],
];

function outcomes(found: Found): Block {
  return [
    'Last outcome of each run',
    [
      ...OUTCOME_WORDS.filter((word) => found(({ outcomes }) => outcomes[word])).map((word): Row => [
        OUTCOME_TEXT[word],
        ofRuns(({ outcomes }) => outcomes[word]),
      ]),
      ['outcomes that differ within a run', ({ changed_outcomes: changed }) => countText(changed)],
    ],
  ];
}

/** @param first of the groups: all have the same ages. */
function ageBlocks(first: GroupNumbers | undefined): Block[] {
  const shareText = (share: Share | undefined) =>
    share === undefined || share.of === 0 ? 'no run' : `${ofText(share)} (${percent(share.share)})`;
  const ages = first?.without_outcome_by_age ?? [];
  const waits = first?.outcome_within ?? [];
  return [
    [
      'Without an outcome, by age of the run',
      [
        ...ages.map((age, i): Row => [
          ageText(age),
          ({ without_outcome_by_age: shares }) => shareText(shares[i]),
        ]),
        ['from start to outcome', medianText],
      ],
    ],
    [
      'With an outcome by that age, of the runs that are as old',
      waits.map(({ days }, i): Row => [
        `within ${countOf(days, 'day')}`,
        ({ outcome_within: shares }) => shareText(shares[i]),
      ]),
    ],
  ];
}

function feedback(found: Found): Block {
  return [
    'Feedback, by how often it was given',
    [
      ...FEEDBACK_WORDS.filter((word) => found(({ feedback }) => feedback[word])).map((word): Row => [
        FEEDBACK_TEXT[word],
        ({ feedback }) => countText(feedback[word]),
      ]),
      ['thumbs up', ({ thumbs_up: up }) => (up.of === 0 ? '–' : `${ofText(up)} (${percent(up.share)})`)],
      ['95 % interval', ({ thumbs_up: up }) => intervalText(up)],
      ['mean rating', ({ ratings }) => decimal(ratings.mean, 2)],
      ['ratings of 0 · 1 · 2 · 3 · 4 · 5', ({ ratings }) => ratings.distribution.map(countText).join(' · ')],
    ],
  ];
}

function completeness(found: Found): Block {
  return [
    'Completeness',
    [
      ['full', ofRuns(({ completeness }) => completeness.full)],
      ['minimum', ofRuns(({ completeness }) => completeness.minimum)],
      ['incomplete', ofRuns(({ completeness }) => completeness.incomplete)],
      ...(found(({ completeness }) => completeness.erased)
        ? [['erased', ofRuns(({ completeness }) => completeness.erased)] as const]
        : []),
      ...MISSING_WORDS.filter((word) => found(({ missing }) => missing[word])).map((word): Row => [
        `missing: ${MISSING_TEXT[word]}`,
        ofRuns(({ missing }) => missing[word]),
      ]),
      ...(found(({ numbers_in_text: texts }) => texts)
        ? [['numbers sent as texts', ofRuns(({ numbers_in_text: texts }) => texts)] as const]
        : []),
    ],
  ];
}

function conflicts(found: Found): Block {
  return [
    'Conflicts',
    [
      ['runs with any', ofRuns(({ with_conflict }) => with_conflict.count)],
      ...CONFLICT_WORDS.filter((word) => found(({ conflicts }) => conflicts[word])).map((word): Row => [
        CONFLICT_TEXT[word],
        ofRuns(({ conflicts }) => conflicts[word]),
      ]),
    ],
  ];
}

const CALLS: Row = ['calls', ({ calls: { calls } }) => countText(calls)];

/** Only where runs have several calls, or an instrumentation has captured some: of others no ending is known. */
function callBlocks(groups: readonly NamedGroup[]): Block[] {
  const calls = groups.map(({ numbers }) => numbers.calls).filter(({ captured }) => captured > 0);
  const areSeveral = groups.some(({ numbers }) => hasSeveralCalls(numbers));
  if (calls.length === 0) return areSeveral ? [['Calls of models', [CALLS]]] : [];
  const endings = CALL_ENDINGS.filter((ending) => calls.some((each) => each.endings[ending] > 0));
  const statuses = [...new Set(calls.flatMap((each) => Object.keys(each.failed_by_status)))].sort();
  return [
    [
      'Calls of models, and what instrumentation of their libraries captured of them',
      [
        CALLS,
        ['captured', ({ calls: { captured } }) => countText(captured)],
        ...endings.map((ending): Row => [
          ENDING_TEXT[ending],
          ({ calls: each }) => partText(each.endings[ending], each.captured),
        ]),
        ...statuses.map((status): Row => [
          `failed with status ${status}`,
          ({ calls: each }) => countText(each.failed_by_status[status] ?? 0),
        ]),
        ['failed, 95 % interval', ({ calls: { failed } }) => intervalText(failed)],
        ['runs with a failed call', ofRuns(({ failed_runs: failed }) => failed)],
        ['made again after a failure', ({ calls: { retried } }) => countText(retried)],
        ['tokens in', ({ calls: { tokens } }) => tokensText(tokens.input, tokens.calls)],
        ['tokens out', ({ calls: { tokens } }) => tokensText(tokens.output, tokens.calls)],
      ],
    ],
  ];
}

function tokensText(tokens: number, calls: number): string {
  return calls === 0
    ? '–'
    : `${countText(Math.round(tokens))} (${countText(Math.round(tokens / calls))} a call)`;
}

/** @param id of the caption, for the region that scrolls where the table is wider than the page. */
export function groupTable(groups: readonly NamedGroup[], caption: string, id: string): Html {
  return html`<div
    class="${groups.length === 1 ? 'wide single' : 'wide'}"
    role="group"
    tabindex="0"
    aria-labelledby="${id}"
  >
    <table class="groups">
      <caption id="${id}">
        ${caption}
      </caption>
      <thead>
        <tr>
          <td></td>
          ${groups.map(({ name }) => html`<th scope="col">${name}</th>`)}
        </tr>
      </thead>
      ${blocksOf(groups).map(
        ([title, rows]) =>
          html`<tbody>
            <tr>
              <th class="block" scope="rowgroup" colspan="${groups.length + 1}">${title}</th>
            </tr>
            ${rows.map(
              ([name, value]) =>
                html`<tr>
                  <th scope="row">${name}</th>
                  ${groups.map(({ numbers }) => html`<td>${value(numbers)}</td>`)}
                </tr>`,
            )}
          </tbody>`,
      )}
    </table>
  </div>`;
}

/* Every version of every model in one table. */

const MOST_ROWS = 60;

/** Calls and tokens only where there are some that are more than the runs say. */
function overviewColumns(groups: readonly GroupNumbers[]): readonly Row[] {
  const columns: readonly (Row | false)[] = [
    ['first run', ({ first_run: first }) => dateText(first)],
    ['runs', ({ runs }) => countText(runs)],
    groups.some(hasSeveralCalls) && CALLS,
    ['events', ({ events }) => countText(events)],
    ...(groups.some(({ calls }) => calls.tokens.calls > 0) ? TOKENS : []),
    ['with an outcome', ({ with_outcome: share }) => percent(share.share)],
    [
      'contradicted, of judged',
      ({ contradicted: { share, of } }) => (of === 0 ? '–' : `${percent(share)} of ${countText(of)}`),
    ],
    ['latency p50', ({ latency_ms: latency }) => latencyText(latency, 'p50')],
    ['latency p95', ({ latency_ms: latency }) => latencyText(latency, 'p95')],
  ];
  return columns.filter((column) => column !== false);
}

const TOKENS: readonly Row[] = (['input', 'output'] as const).map((way) => [
  way === 'input' ? 'tokens in' : 'tokens out',
  ({ calls: { tokens } }) => (tokens.calls === 0 ? '–' : countText(Math.round(tokens[way]))),
]);

export function versionOverview({ models, models_not_told_apart: uncounted }: ReportNumbers): Html {
  const all = models.flatMap((model) => model.versions.map((version) => ({ model, version })));
  const rows = all.slice(0, MOST_ROWS);
  const columns = overviewColumns([...all.map(({ version }) => version), uncounted]);
  const cells = (group: GroupNumbers) => columns.map(([, value]) => html`<td>${value(group)}</td>`);
  return html`<section id="versions" aria-labelledby="versions-title">
    <h2 id="versions-title">Models and versions</h2>
    <div class="wide" role="group" tabindex="0" aria-labelledby="versions-table">
      <table>
        <caption id="versions-table">
          Each version that has runs, calls or events in the period
        </caption>
        <thead>
          <tr>
            <th class="text" scope="col">model</th>
            <th class="text" scope="col">version</th>
            ${columns.map(([name]) => html`<th scope="col">${name}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            ({ model, version }) =>
              html`<tr>
                <th scope="row">${modelText(model)}</th>
                <td class="text">
                  ${versionText(version)}${version.is_new ? html` <span class="new">new</span>` : NOTHING}
                </td>
                ${cells(version)}
              </tr>`,
          )}
          ${
            uncounted.events + uncounted.calls.calls > 0
              ? html`<tr>
                  <th scope="row">others</th>
                  <td class="text"></td>
                  ${cells(uncounted)}
                </tr>`
              : NOTHING
          }
        </tbody>
      </table>
    </div>
    ${
      all.length > rows.length
        ? html`<p>
            ${countOf(all.length - rows.length, 'more version')} with
            ${countOf(
              all.slice(MOST_ROWS).reduce((sum, { version }) => sum + version.runs, 0),
              'run',
            )},
            of models that have fewer runs than these.
          </p>`
        : NOTHING
    }
  </section>`;
}

/* What came, kind by kind and step by step, and from which organisation. */

const HEIGHT = 48;
export function arrivals(numbers: ReportNumbers, ends: Html): Html {
  const { steps, events_by_step: byStep, events_of_no_run: ofNoRun, other_runs: other } = numbers;
  const series = [
    { name: 'runs that began', values: numbers.all.runs_by_step },
    ...EVENT_KINDS.map((kind) => ({ name: `${kind} events`, values: byStep[kind] })),
    ...(ofNoRun.events > 0 ? [{ name: 'events of no run', values: stepSums(ofNoRun.by_step) }] : []),
  ];
  return html`<section id="arrived" aria-labelledby="arrived-title">
    <h2 id="arrived-title">What arrived, by the ${steps.unit}</h2>
    ${other.runs > 0 ? html`<p>Among them ${countOf(other.events, 'event')} of ${countOf(other.runs, 'run')} that began outside the period.</p>` : NOTHING}
    <div class="figures kinds">
      ${series.map(({ name, values }) => {
        const most = Math.max(...values);
        const all = values.reduce((sum, value) => sum + value, 0);
        return html`<figure>
          <figcaption>
            <strong>${name}</strong><br />${countText(all)} in all, at most ${countText(most)} a ${steps.unit}
          </figcaption>
          ${bars(values, most, HEIGHT, `${name} a ${steps.unit}, ${countText(all)} in all`)}${ends}
        </figure>`;
      })}
    </div>
    <details>
      <summary>The numbers of each ${steps.unit}</summary>
      <div class="wide" role="group" tabindex="0" aria-labelledby="steps-table">
        <table>
          <caption id="steps-table">
            Runs and events a ${steps.unit}
          </caption>
          <thead>
            <tr>
              <th class="text" scope="col">${steps.unit} from</th>
              ${series.map(({ name }) => html`<th scope="col">${name}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${steps.starts.map(
              (start, i) =>
                html`<tr>
                  <th scope="row">${shortDateText(start)}</th>
                  ${series.map(({ values }) => html`<td>${countText(values[i] ?? 0)}</td>`)}
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </details>
    ${organisations(numbers)}
  </section>`;
}

/** Of all kinds together. */
function stepSums(byStep: ReportNumbers['events_by_step']): number[] {
  return byStep['inference-start'].map((_, step) =>
    EVENT_KINDS.reduce((sum, kind) => sum + (byStep[kind][step] ?? 0), 0),
  );
}

function organisations(numbers: ReportNumbers): Html {
  const { organisations: all, organisations_not_told_apart: rest } = numbers;
  const rows = all.slice(0, MOST_ROWS);
  const summed = all.slice(MOST_ROWS).reduce(
    (sum, { runs, events, events_of_no_run: ofNoRun }) => ({
      runs: sum.runs + runs,
      events: sum.events + events,
      events_of_no_run: sum.events_of_no_run + ofNoRun,
    }),
    rest,
  );
  const others = summed.events + summed.events_of_no_run > 0 ? [{ name: 'others', ...summed }] : [];
  const runless = numbers.events_of_no_run.events > 0;
  return html`<table class="short">
    <caption>
      By organisation
    </caption>
    <thead>
      <tr>
        <th class="text" scope="col">organisation</th>
        <th scope="col">runs</th>
        <th scope="col">events</th>
        ${runless ? html`<th scope="col">events of no run</th>` : NOTHING}
      </tr>
    </thead>
    <tbody>
      ${[...rows, ...others].map(
        ({ name, runs, events, events_of_no_run: ofNoRun }) =>
          html`<tr>
            <th scope="row">${name}</th>
            <td>${countText(runs)}</td>
            <td>${countText(events)}</td>
            ${runless ? html`<td>${countText(ofNoRun)}</td>` : NOTHING}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** Under bars: when they begin and end. */
export function stepEnds({ since, until, steps }: ReportNumbers): Html {
  const first = shortDateText(steps.starts[0] ?? since);
  const last = shortDateText(new Date(Date.parse(until) - 1).toISOString());
  return html`<span class="ends"
    ><span>${first}</span>${first === last ? NOTHING : html`<span>${last}</span>`}</span
  >`;
}
