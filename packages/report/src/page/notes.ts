/** How each number of the page is counted, and the commands that list the runs behind it. */
import type { GroupNumbers, ReportNumbers } from '../report-numbers.js';
import { DAY_MS } from '@clinical-events/collector/quantity';
import { table } from './tables.js';
import { type Html, NOTHING, html } from './html.js';
import { countText, instantText } from './wording.js';

const CLOCKS = {
  received: 'Times are those of the collector’s clock: an event is counted at its receipt.',
  sender:
    'Times are those of the senders’ clocks: an event is counted at its timestamp, which is wrong where ' +
    'a clock is wrong. An event that cannot be read is counted at its receipt. A run begins with its ' +
    'inference-start, or without one with its earliest event.',
};

/** `name: sentences`. */
const NOTES: readonly (readonly [name: string, text: string])[] = [
  [
    'Runs and events',
    'A run is counted once, in the period in which it began, with everything that the log knows of it: ' +
      'an outcome after the period counts too. An event is counted on its own day, also where its run ' +
      'began at another time. Events of no run name no run and have no parent in one; they are in no other ' +
      'number.',
  ],
  [
    'Last outcome',
    'A run with several outcomes is counted by the latest. An outcome is what a sender reported; the ' +
      'collector does not judge.',
  ],
  [
    'Contradicted',
    'The share is of the judged runs: those whose last outcome is validated, partial or contradicted. If ' +
      'senders report outcomes mainly when something went wrong, the share is too high, and its interval ' +
      'does not show that.',
  ],
  [
    '95 % intervals',
    'These are Wilson’s score intervals (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927, 209–212). They ' +
      'assume independent runs; runs of one patient are not independent, so the uncertainty is larger. ' +
      'Intervals that do not overlap are a reason to look, not proof of a cause. With fewer than 20 runs ' +
      'in one of two versions, intervals overlap almost always; the page then says “too few to compare”.',
  ],
  [
    'Time until the outcome',
    'The estimate of E. L. Kaplan and P. Meier (J. Am. Stat. Assoc. 53, 1958, 457–481) in whole days: a ' +
      'run without an outcome counts up to its age. A curve ends where fewer than ten runs are left. An ' +
      'outcome before the start of its run counts for the first day.',
  ],
  [
    'Latency',
    'The time from the inference-start to the first output by the senders’ clocks; none where one is ' +
      'missing or the output is earlier. Percentiles are at the nearest rank: exact where all times of ' +
      'about that length are equal, otherwise within half a per cent (a sketch after C. Masson and others, ' +
      'PVLDB 12, 2019, 2195–2205), with the digits that are known. p95 needs 20 runs, p99 100.',
  ],
  [
    'Calls',
    'Each inference-start of a run is a call. A run is counted under the model of its first call, and ' +
      'each call under its own model. Endings, tokens and retries are known for calls that an ' +
      'instrumentation captured; tokens are those of the provider. Where an inference-start names no ' +
      'version, the model that answered is the version.',
  ],
  [
    'Feedback',
    'Feedback is counted by how often it was given. A thumb is up or down by its direction, or else by ' +
      'its rating_value, where 3 and more is up; a thumb with neither has no direction. Ratings are ' +
      'rounded for the distribution, not for the mean; a rating sent as a text counts.',
  ],
  [
    'Other words, unreadable',
    'Other words are those outside the protocol’s vocabulary, or none; they are counted and never shown. ' +
      'Unreadable is a payload that is encrypted or erased.',
  ],
  [
    'Completeness and conflicts',
    'These are those of the records. Most young runs are minimum. An erased run lacks only payloads that ' +
      'were erased. A run counts once for each kind of conflict.',
  ],
  [
    'New versions',
    'A version is new if its first run in the log is in the period and after the first run of another ' +
      'version of the model.',
  ],
  [
    'Main findings',
    'The table has every new version beside the one before it: the contradicted share; the share of runs ' +
      'with an outcome within the longest of 1, 7, 30 and 90 days that at least 20 runs of both are old ' +
      'enough for; and the p95 where it differs by a quarter or more. For all models it has runs at least ' +
      '30 days old without an outcome, failed calls, incomplete records, conflicts, and events of no run.',
  ],
  [
    'Limits',
    'All counts are exact. The first 200 organisations and the first 500 pairs of model and version are ' +
      'counted separately, by the first 120 characters of their names; the others are summed. Small counts ' +
      'are not hidden: a reader who knows the ward may recognise a patient behind a count of one.',
  ],
];

export function countingNotes({ clock, log }: ReportNumbers): Html {
  const end = log.ends_at === null ? '' : ` (${instantText(log.ends_at)})`;
  const notes = [
    [
      'Days',
      `Days are UTC days; weeks begin on Monday. ${CLOCKS[clock]} The first and the last step may be ` +
        'only partly within the period.',
    ] as const,
    [
      'Age',
      `The age of a run is the time from its beginning to the newest event of the log${end}. Young runs ` +
        'have had little time for an outcome, so compare runs of the same age.',
    ] as const,
    ...NOTES,
  ];
  return html`<ol class="notes">
    ${notes.map(([name, text]) => html`<li><strong>${name}.</strong> ${text}</li>`)}
  </ol>`;
}

/** @returns a `collector runs` command with these options, for the shell of the log's host. */
export type RunsCommand = (options: readonly string[]) => string;

/** How the page leads to the runs behind a number: by a command, or in the viewer by a link. */
export interface RunsListed {
  readonly summary: string;
  readonly caption: string;
  readonly column: string;
  /** @param options as `collector runs` takes them: `--name`, value, and so on. */
  cell(options: readonly string[]): Html;
}

export function byCommands(command: RunsCommand): RunsListed {
  return {
    summary: 'How to list the runs behind these numbers',
    caption: 'Commands for the host of the log',
    column: 'command',
    cell: (options) => html`<code>${command(options)}</code>`,
  };
}

/** From this age on, a run without an outcome is a finding. */
export const OLD_DAYS = 30;
/** The default limit of `collector runs`. */
const LISTED = 20;
/** The page does not show these characters, so that a reader cannot copy the name. */
const UNCOPIABLE = /[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\ufeff]|…(?:@|$)/u;

interface Listing {
  readonly name: string;
  readonly runs: number;
  readonly options: readonly string[];
}

/** A group of runs. `model` is as `--model` takes it; undefined for all runs. */
export interface ListedGroup {
  readonly name: string;
  readonly numbers: GroupNumbers;
  readonly model?: string;
}

/**
 * @returns a table with a command or link for each number, which lists exactly its runs; nothing without such
 *   runs.
 */
export function runCommands(
  report: ReportNumbers,
  groups: readonly ListedGroup[],
  { id, listed }: { id: string; listed: RunsListed },
): Html {
  const rows = groups
    .filter(({ model = '' }) => !UNCOPIABLE.test(model))
    .flatMap((group) =>
      listingsOf(group.numbers, report).map((found) => [
        groups.length === 1 ? found.name : `${group.name}: ${found.name}`,
        listed.cell([...found.options, ...conditions(report, group, found)]),
        countText(found.runs),
      ]),
    );
  if (rows.length === 0) return NOTHING;
  const head = ['runs', listed.column, 'number'];
  return table({ id, caption: listed.caption, head, texts: 2, rows, classes: 'commands' });
}

function listingsOf(group: GroupNumbers, report: ReportNumbers): Listing[] {
  const old = group.without_outcome_by_age.filter(({ from_days: days }) => days >= OLD_DAYS);
  return [
    { name: 'contradicted', runs: group.outcomes.contradicted, options: ['--outcome', 'contradicted'] },
    {
      name: `without an outcome after ${OLD_DAYS} days`,
      runs: old.reduce((sum, { count }) => sum + count, 0),
      options: ['--outcome', 'none', '--until', timeText(oldBefore(report))],
    },
    { name: 'failed calls', runs: group.failed_runs, options: ['--only', 'failed'] },
    { name: 'incomplete', runs: group.completeness.incomplete, options: ['--only', 'incomplete'] },
    { name: 'with a conflict', runs: group.with_conflict.count, options: ['--only', 'contradictory'] },
  ].filter(({ runs }) => runs > 0);
}

/** Includes runs of exactly {@link OLD_DAYS}, by the end of the log. */
function oldBefore({ until, log }: ReportNumbers): number {
  const end = Date.parse(until);
  return log.ends_at === null ? end : Math.min(end, Date.parse(log.ends_at) - OLD_DAYS * DAY_MS + 1);
}

/** The conditions of the report and of the group, as options. */
function conditions(
  { since, until, clock, asked_for: asked }: ReportNumbers,
  group: ListedGroup,
  found: Listing,
): string[] {
  const model = group.model ?? asked.model;
  return [
    ...(model === null ? [] : ['--model', model]),
    ...(asked.organisation === null ? [] : ['--organisation', asked.organisation]),
    ...['--since', timeText(Date.parse(since))],
    ...(found.options.includes('--until') ? [] : ['--until', timeText(Date.parse(until))]),
    ...(clock === 'received' ? [] : ['--clock', clock]),
    ...(found.runs > LISTED ? ['--limit', 'all'] : []),
  ];
}

/** A date if the time is its beginning. */
function timeText(time: number): string {
  return new Date(time).toISOString().replace('T00:00:00.000Z', '');
}
