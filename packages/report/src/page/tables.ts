/** The tables of the page. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { CALL_ENDINGS } from '@clinical-events/collector/records/calls';
import { CONFLICT_WORDS, type GroupNumbers, MISSING_WORDS, type ReportNumbers } from '../report-numbers.js';
import { FEEDBACK_WORDS, OUTCOME_WORDS, OUTCOME_TEXT } from '@clinical-events/collector/records/vocabulary';
import { type NamedGroup, type Steps, bars, figure, medianText } from './charts.js';
import type { Share } from '../statistics.js';
import { type Html, type Inner, NOTHING, folded, html } from './html.js';
import {
  CONFLICT_TEXT,
  ENDING_TEXT,
  FEEDBACK_TEXT,
  MISSING_TEXT,
  ageText,
  countOf,
  countText,
  dateText,
  decimal,
  hasSeveralCalls,
  intervalText,
  latencyText,
  modelText,
  ofText,
  percent,
  shortDateText,
  versionText,
} from './wording.js';

/** Maximum number of rows in the tables of versions and organisations. */
const MOST_ROWS = 60;
const BARS_HEIGHT = 48;

interface Table {
  /** The id of the caption, which names the scrolling region. */
  readonly id: string;
  readonly caption: string;
  /** The columns; the first `texts` of them are left-aligned. */
  readonly head: readonly string[];
  readonly texts?: number;
  /** The cells of each row, of which the first is its heading; or whole `tbody` elements. */
  readonly rows: readonly (readonly Inner[])[] | Html;
  readonly classes?: string;
}

/** A table that scrolls if it is wider than the page. */
export function table({ id, caption, head, texts = 1, rows, classes = '' }: Table): Html {
  const cell = (inner: Inner, i: number) =>
    i === 0
      ? html`<th scope="row">${inner}</th>`
      : i < texts
        ? html`<td class="text">${inner}</td>`
        : html`<td>${inner}</td>`;
  const heading = (name: string, i: number) => {
    if (name === '') return html`<td></td>`;
    return i < texts ? html`<th class="text" scope="col">${name}</th>` : html`<th scope="col">${name}</th>`;
  };
  const body = Array.isArray(rows)
    ? html`<tbody>
        ${(rows as readonly (readonly Inner[])[]).map(
          (cells) =>
            html`<tr>
              ${cells.map(cell)}
            </tr>`,
        )}
      </tbody>`
    : (rows as Html);
  return html`<div class="wide ${classes}" role="group" tabindex="0" aria-labelledby="${id}">
    <table>
      <caption id="${id}">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${head.map(heading)}
        </tr>
      </thead>
      ${body}
    </table>
  </div>`;
}

type Row = readonly [name: string, value: (numbers: GroupNumbers) => string];
type Block = readonly [title: string, rows: readonly Row[]];
type Count = (numbers: GroupNumbers) => number;

/** `count (share)` of the runs of the group. */
function ofRuns(count: Count): Row[1] {
  return (numbers) => partText(count(numbers), numbers.runs);
}

function partText(some: number, of: number): string {
  return some === 0 ? '0' : `${countText(some)} (${percent(some / of)})`;
}

function judgedText({ contradicted: { share, of } }: GroupNumbers): string {
  return of === 0 ? '–' : `${percent(share)} of ${countText(of)}`;
}

function shareOfText(share: Share | undefined): string {
  return share === undefined || share.of === 0 ? 'no run' : `${ofText(share)} (${percent(share.share)})`;
}

function tokensText(tokens: number, calls: number): string {
  if (calls === 0) return '–';
  return `${countText(Math.round(tokens))} (${countText(Math.round(tokens / calls))} per call)`;
}

const CALLS: Row = ['calls', ({ calls: { calls } }) => countText(calls)];

/** All numbers of some groups of runs. Words that no group has are left out. */
function blocksOf(groups: readonly NamedGroup[]): Block[] {
  const words = foundIn(groups);
  return [...outcomeBlocks(groups[0]?.numbers, words), ...callBlocks(groups), ...recordBlocks(words)];
}

type Words = <Word extends string>(
  all: readonly Word[],
  count: (word: Word) => Count,
  row: (word: Word) => Row,
) => Row[];

/** @returns a function that makes the rows of the words that some group has. */
function foundIn(groups: readonly NamedGroup[]): Words {
  return (all, count, row) =>
    all.filter((word) => groups.some(({ numbers }) => count(word)(numbers) > 0)).map(row);
}

/** @param first of the groups, which all have the same ages. */
function outcomeBlocks(first: GroupNumbers | undefined, words: Words): Block[] {
  return [
    [
      'Runs',
      [
        ['runs', ({ runs }) => countText(runs)],
        ['events', ({ events }) => countText(events)],
        ['first run', ({ first_run: began }) => dateText(began)],
        ['last run', ({ last_run: began }) => dateText(began)],
      ],
    ],
    [
      'Last outcome of each run',
      [
        ...words(
          OUTCOME_WORDS,
          (word) => (numbers) => numbers.outcomes[word],
          (word) => [OUTCOME_TEXT[word], ofRuns(({ outcomes }) => outcomes[word])],
        ),
        ['runs with different outcomes', ({ changed_outcomes: changed }) => countText(changed)],
      ],
    ],
    [
      'Contradicted, of validated, partial and contradicted',
      [
        ['runs', ({ contradicted }) => shareOfText(contradicted)],
        ['95 % interval', ({ contradicted }) => intervalText(contradicted)],
      ],
    ],
    [
      'Without an outcome, by age of the run',
      [
        ...(first?.without_outcome_by_age ?? []).map((age, i): Row => [
          ageText(age),
          ({ without_outcome_by_age: shares }) => shareOfText(shares[i]),
        ]),
        ['from start to outcome', medianText],
      ],
    ],
    [
      'With an outcome by that age, of the runs that are as old',
      (first?.outcome_within ?? []).map(({ days }, i): Row => [
        `within ${countOf(days, 'day')}`,
        ({ outcome_within: shares }) => shareOfText(shares[i]),
      ]),
    ],
    [
      'Latency, from start to first output',
      [
        ['runs with both', ({ latency_ms: { runs } }) => countText(runs)],
        ['p50', ({ latency_ms: latency }) => latencyText(latency, 'p50')],
        ['p95', ({ latency_ms: latency }) => latencyText(latency, 'p95')],
        ['p99', ({ latency_ms: latency }) => latencyText(latency, 'p99')],
      ],
    ],
  ];
}

function recordBlocks(words: Words): Block[] {
  return [
    [
      'Feedback, by how often it was given',
      [
        ...words(
          FEEDBACK_WORDS,
          (word) => (numbers) => numbers.feedback[word],
          (word) => [FEEDBACK_TEXT[word], ({ feedback }) => countText(feedback[word])],
        ),
        ['thumbs up', ({ thumbs_up: up }) => (up.of === 0 ? '–' : shareOfText(up))],
        ['95 % interval', ({ thumbs_up: up }) => intervalText(up)],
        ['mean rating', ({ ratings }) => decimal(ratings.mean, 2)],
        [
          'ratings of 0 · 1 · 2 · 3 · 4 · 5',
          ({ ratings }) => ratings.distribution.map(countText).join(' · '),
        ],
      ],
    ],
    [
      'Completeness',
      [
        ...(['full', 'minimum', 'incomplete'] as const).map((level): Row => [
          level,
          ofRuns(({ completeness }) => completeness[level]),
        ]),
        ...words(
          ['erased'],
          () => (numbers) => numbers.completeness.erased,
          (level) => [level, ofRuns(({ completeness }) => completeness.erased)],
        ),
        ...words(
          MISSING_WORDS,
          (word) => (numbers) => numbers.missing[word],
          (word) => [`missing: ${MISSING_TEXT[word]}`, ofRuns(({ missing }) => missing[word])],
        ),
        ...words(
          ['numbers sent as texts'],
          () => (numbers) => numbers.numbers_in_text,
          (name) => [name, ofRuns(({ numbers_in_text: texts }) => texts)],
        ),
      ],
    ],
    [
      'Conflicts',
      [
        ['runs with any', ofRuns(({ with_conflict: conflict }) => conflict.count)],
        ...words(
          CONFLICT_WORDS,
          (word) => (numbers) => numbers.conflicts[word],
          (word) => [CONFLICT_TEXT[word], ofRuns(({ conflicts }) => conflicts[word])],
        ),
      ],
    ],
  ];
}

/** Not empty if runs have several calls, or an instrumentation captured calls. */
function callBlocks(groups: readonly NamedGroup[]): Block[] {
  const calls = groups.map(({ numbers }) => numbers.calls).filter(({ captured }) => captured > 0);
  const areSeveral = groups.some(({ numbers }) => hasSeveralCalls(numbers));
  if (calls.length === 0) return areSeveral ? [['Calls of models', [CALLS]]] : [];
  const endings = CALL_ENDINGS.filter((ending) => calls.some((each) => each.endings[ending] > 0));
  const statuses = [...new Set(calls.flatMap((each) => Object.keys(each.failed_by_status)))].sort();
  return [
    [
      'Calls of models; endings and tokens are those of captured calls',
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
        ['retried', ({ calls: { retried } }) => countText(retried)],
        ['tokens in', ({ calls: { tokens } }) => tokensText(tokens.input, tokens.calls)],
        ['tokens out', ({ calls: { tokens } }) => tokensText(tokens.output, tokens.calls)],
      ],
    ],
  ];
}

/** All numbers of some groups: a column for each group, a row for each number. */
export function groupTable(groups: readonly NamedGroup[], caption: string, id: string): Html {
  const bodies = blocksOf(groups).map(
    ([title, rows]) =>
      html`<tbody>
        <tr>
          <th class="block" scope="rowgroup" colspan="${groups.length + 1}">${title}</th>
        </tr>
        ${rows.map(
          ([name, text]) =>
            html`<tr>
              <th scope="row">${name}</th>
              ${groups.map(({ numbers }) => html`<td>${text(numbers)}</td>`)}
            </tr>`,
        )}
      </tbody>`,
  );
  return table({
    ...{ id, caption, head: ['', ...groups.map(({ name }) => name)], rows: html`${bodies}` },
    classes: groups.length === 1 ? 'groups single' : 'groups',
  });
}

/** Calls and tokens are columns only if they differ from the runs. */
function overviewColumns(groups: readonly GroupNumbers[]): Row[] {
  const tokens = (['input', 'output'] as const).map((way): Row => [
    way === 'input' ? 'tokens in' : 'tokens out',
    ({ calls: { tokens } }) => (tokens.calls === 0 ? '–' : countText(Math.round(tokens[way]))),
  ]);
  return [
    ['first run', ({ first_run: first }) => dateText(first)],
    ['runs', ({ runs }) => countText(runs)],
    ...(groups.some(hasSeveralCalls) ? [CALLS] : []),
    ['events', ({ events }) => countText(events)],
    ...(groups.some(({ calls }) => calls.tokens.calls > 0) ? tokens : []),
    ['with an outcome', ({ with_outcome: share }) => percent(share.share)],
    ['contradicted, of judged', judgedText],
    ['latency p50', ({ latency_ms: latency }) => latencyText(latency, 'p50')],
    ['latency p95', ({ latency_ms: latency }) => latencyText(latency, 'p95')],
  ];
}

/** Every version of every model in one table. */
export function versionOverview({ models, models_not_told_apart: uncounted }: ReportNumbers): Html {
  const all = models.flatMap((model) => model.versions.map((version) => ({ model, version })));
  const [shown, more] = [all.slice(0, MOST_ROWS), all.slice(MOST_ROWS)];
  const columns = overviewColumns([...all.map(({ version }) => version), uncounted]);
  const cells = (group: GroupNumbers) => columns.map(([, text]) => text(group));
  const rows = shown.map(({ model, version }) => [
    modelText(model),
    [versionText(version), version.is_new ? html` <span class="new">new</span>` : NOTHING],
    ...cells(version),
  ]);
  if (uncounted.events + uncounted.calls.calls > 0) rows.push(['others', [''], ...cells(uncounted)]);
  const runs = more.reduce((sum, { version }) => sum + version.runs, 0);
  const others = `${countOf(more.length, 'more version')} with ${countOf(runs, 'run')}`;
  return html`<section id="versions" aria-labelledby="versions-title">
    <h2 id="versions-title">Models and versions</h2>
    ${table({
      id: 'versions-table',
      caption: 'Versions with runs, calls or events in the period',
      head: ['model', 'version', ...columns.map(([name]) => name)],
      texts: 2,
      rows,
    })}
    ${more.length > 0 ? html`<p>${others}</p>` : NOTHING}
  </section>`;
}

/** Runs and events by kind and step, and by organisation. */
export function arrivals(numbers: ReportNumbers, { unit, ends }: Steps): Html {
  const { steps, events_by_step: byStep, events_of_no_run: ofNoRun, other_runs: other } = numbers;
  const runless = steps.starts.map((_, step) =>
    EVENT_KINDS.reduce((sum, kind) => sum + (ofNoRun.by_step[kind][step] ?? 0), 0),
  );
  const series = [
    { name: 'runs that began', values: numbers.all.runs_by_step },
    ...EVENT_KINDS.map((kind) => ({ name: `${kind} events`, values: byStep[kind] })),
    ...(ofNoRun.events > 0 ? [{ name: 'events of no run', values: runless }] : []),
  ];
  const others = `${countOf(other.events, 'event')} of ${countOf(other.runs, 'run')}`;
  return html`<section id="arrived" aria-labelledby="arrived-title">
    <h2 id="arrived-title">What arrived per ${unit}</h2>
    ${other.runs > 0 ? html`<p>They include ${others} that began outside the period.</p>` : NOTHING}
    <div class="figures kinds">
      ${series.map(({ name, values }) => {
        const [most, all] = [Math.max(...values), values.reduce((sum, value) => sum + value, 0)];
        const text = `${countText(all)} in all, at most ${countText(most)} per ${unit}`;
        return figure(name, text, [bars(values, most, BARS_HEIGHT, `${name}: ${text}`), ends]);
      })}
    </div>
    ${folded(
      `The numbers of each ${unit}`,
      table({
        id: 'steps-table',
        caption: `Runs and events per ${unit}`,
        head: [`${unit} from`, ...series.map(({ name }) => name)],
        rows: steps.starts.map((start, i) => [
          shortDateText(start),
          ...series.map(({ values }) => countText(values[i] ?? 0)),
        ]),
      }),
    )}
    ${organisations(numbers)}
  </section>`;
}

function organisations(numbers: ReportNumbers): Html {
  const { organisations: all, organisations_not_told_apart: rest } = numbers;
  const summed = all.slice(MOST_ROWS).reduce(
    (sum, { runs, events, events_of_no_run: ofNoRun }) => ({
      runs: sum.runs + runs,
      events: sum.events + events,
      events_of_no_run: sum.events_of_no_run + ofNoRun,
    }),
    rest,
  );
  const hasOthers = summed.events + summed.events_of_no_run > 0;
  const runless = numbers.events_of_no_run.events > 0;
  return table({
    id: 'organisations-table',
    caption: 'By organisation',
    head: ['organisation', 'runs', 'events', ...(runless ? ['events of no run'] : [])],
    rows: [...all.slice(0, MOST_ROWS), ...(hasOthers ? [{ name: 'others', ...summed }] : [])].map(
      ({ name, runs, events, events_of_no_run: ofNoRun }) => [
        name,
        countText(runs),
        countText(events),
        ...(runless ? [countText(ofNoRun)] : []),
      ],
    ),
    classes: 'short',
  });
}
