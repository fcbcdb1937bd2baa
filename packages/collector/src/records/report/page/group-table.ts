/** The numbers behind the charts: a column a group, a row a number. */
import { FEEDBACK_WORDS, OUTCOME_WORDS } from '../closed-words.js';
import { CONFLICT_WORDS, MISSING_WORDS, type GroupNumbers } from '../report-numbers.js';
import { type NamedGroup, medianText } from './group-figures.js';
import { CALL_ENDINGS } from '../../recorded-call.js';
import { html, type Html } from './html.js';
import {
  ageText,
  CONFLICT_TEXT,
  countOf,
  countText,
  dateText,
  decimal,
  durationText,
  ENDING_TEXT,
  FEEDBACK_TEXT,
  intervalText,
  MISSING_TEXT,
  ofText,
  OUTCOME_TEXT,
  percent,
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

function blocksOf(groups: readonly NamedGroup[]): Block[] {
  const found = (count: (numbers: GroupNumbers) => number) =>
    groups.some(({ numbers }) => count(numbers) > 0);
  const ages = groups[0]?.numbers.without_outcome_by_age ?? [];
  const waits = groups[0]?.numbers.outcome_within ?? [];
  return [
    [
      'Runs',
      [
        ['runs', ({ runs }) => countText(runs)],
        ['events', ({ events }) => countText(events)],
        ['first run', ({ first_run: first }) => dateText(first)],
        ['last run', ({ last_run: last }) => dateText(last)],
      ],
    ],
    [
      'Last outcome of each run',
      [
        ...OUTCOME_WORDS.filter((word) => found(({ outcomes }) => outcomes[word])).map((word): Row => [
          OUTCOME_TEXT[word],
          ofRuns(({ outcomes }) => outcomes[word]),
        ]),
        ['outcomes that differ within a run', ({ changed_outcomes: changed }) => countText(changed)],
      ],
    ],
    [
      'Contradicted, of validated, partial and contradicted',
      [
        ['share', ({ contradicted }) => percent(contradicted.share)],
        ['95 % interval', ({ contradicted }) => intervalText(contradicted)],
        ['runs', ({ contradicted }) => ofText(contradicted)],
      ],
    ],
    [
      'Without an outcome, by age of the run',
      [
        ...ages.map((age, i): Row => [
          ageText(age),
          ({ without_outcome_by_age }) => {
            const share = without_outcome_by_age[i];
            return share === undefined || share.of === 0
              ? 'no run'
              : `${ofText(share)} (${percent(share.share)})`;
          },
        ]),
        ['from start to outcome', medianText],
      ],
    ],
    [
      'With an outcome after so long, of the runs that are as old',
      waits.map(({ days }, i): Row => [
        `within ${countOf(days, 'day')}`,
        ({ outcome_within: within }) => {
          const share = within[i];
          return share === undefined || share.of === 0
            ? 'no run'
            : `${ofText(share)} (${percent(share.share)})`;
        },
      ]),
    ],
    [
      'Latency, from start to first output',
      [
        ['runs with both', ({ latency_ms: { runs } }) => countText(runs)],
        ['p50', ({ latency_ms: { p50 } }) => durationText(p50)],
        ['p95', ({ latency_ms: { p95 } }) => durationText(p95)],
        ['p99', ({ latency_ms: { p99 } }) => durationText(p99)],
      ],
    ],
    ...callBlocks(groups),
    [
      'Feedback, by how often it was given',
      [
        ...FEEDBACK_WORDS.filter((word) => found(({ feedback }) => feedback[word])).map((word): Row => [
          FEEDBACK_TEXT[word],
          ({ feedback }) => countText(feedback[word]),
        ]),
        ['thumbs up', ({ thumbs_up: up }) => (up.of === 0 ? '–' : `${ofText(up)} (${percent(up.share)})`)],
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
        ['full', ofRuns(({ completeness }) => completeness.full)],
        ['minimum', ofRuns(({ completeness }) => completeness.minimum)],
        ['incomplete', ofRuns(({ completeness }) => completeness.incomplete)],
        ...MISSING_WORDS.filter((word) => found(({ missing }) => missing[word])).map((word): Row => [
          `missing: ${MISSING_TEXT[word]}`,
          ofRuns(({ missing }) => missing[word]),
        ]),
        ...(found(({ numbers_in_text: texts }) => texts)
          ? [['numbers sent as texts', ofRuns(({ numbers_in_text: texts }) => texts)] as const]
          : []),
      ],
    ],
    [
      'Conflicts',
      [
        ['runs with any', ofRuns(({ with_conflict }) => with_conflict.count)],
        ...CONFLICT_WORDS.filter((word) => found(({ conflicts }) => conflicts[word])).map((word): Row => [
          CONFLICT_TEXT[word],
          ofRuns(({ conflicts }) => conflicts[word]),
        ]),
      ],
    ],
  ];
}

/** Only where an instrumentation has captured calls: of others it is not known how they ended. */
function callBlocks(groups: readonly NamedGroup[]): Block[] {
  const calls = groups.map(({ numbers }) => numbers.calls).filter(({ runs }) => runs > 0);
  if (calls.length === 0) return [];
  const endings = CALL_ENDINGS.filter((ending) => calls.some((each) => each.endings[ending] > 0));
  const statuses = [...new Set(calls.flatMap((each) => Object.keys(each.failed_by_status)))].sort();
  return [
    [
      'Calls of models, as instrumentation of their libraries captured them',
      [
        ['runs', ({ calls: { runs } }) => countText(runs)],
        ...endings.map((ending): Row => [
          ENDING_TEXT[ending],
          ({ calls: each }) => partText(each.endings[ending], each.runs),
        ]),
        ...statuses.map((status): Row => [
          `failed with status ${status}`,
          ({ calls: each }) => countText(each.failed_by_status[status] ?? 0),
        ]),
        ['failed, 95 % interval', ({ calls: { failed } }) => intervalText(failed)],
        ['made again after a failure', ({ calls: { retried } }) => countText(retried)],
        ['tokens in', ({ calls: { tokens } }) => tokensText(tokens.input, tokens.runs)],
        ['tokens out', ({ calls: { tokens } }) => tokensText(tokens.output, tokens.runs)],
      ],
    ],
  ];
}

function tokensText(tokens: number, runs: number): string {
  return runs === 0
    ? '–'
    : `${countText(Math.round(tokens))} (${countText(Math.round(tokens / runs))} a run)`;
}

/** @param id of the caption, for the region that scrolls where the table is wider than the page. */
export function groupTable(groups: readonly NamedGroup[], caption: string, id: string): Html {
  return html`<div
    class="${groups.length === 1 ? 'wide single' : 'wide'}"
    role="region"
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
