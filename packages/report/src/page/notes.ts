/** What each number on the page counts, for who has to defend it. */
import type { GroupNumbers, ReportNumbers } from '../report-numbers.js';
import { DAY_MS } from '@clinical-events/collector/quantity';
import { type Html, NOTHING, countText, html, instantText } from './wording.js';

export function countingNotes({ clock, log }: ReportNumbers): Html {
  const ends =
    log.ends_at === null ? 'it has none' : `the newest was received on ${instantText(log.ends_at)}`;
  return html`<ol class="notes">
    <li>
      <strong>Days</strong> are those of UTC, weeks begin on Monday.
      ${
        clock === 'received'
          ? 'The clock is the collector’s: an event is counted when the collector had it, and a run begins with its first event there.'
          : 'The clock is the senders’: an event is counted at its own timestamp, and a run begins with its inference-start, or without one with its earliest event. An event that cannot be read is counted at its time of receipt, and a sender whose clock is wrong where its clock says.'
      }
      Where the first or the last step is only partly within the period, only that part is counted.
    </li>
    <li>
      <strong>Runs</strong> are counted once, in the period in which they began, with all that is known of
      them at the end of the log: an outcome is counted also when it came after the period.
      <strong>Events</strong> are counted when they came, those of runs that began at another time included.
      <strong>Events of no run</strong> name none, and hang on no event that is of one: they are counted by
      themselves, and are in no other number.
    </li>
    <li>
      <strong>Age</strong> is from the beginning of a run to the end of the log; ${ends}. A run of yesterday
      has hardly had the time to get an outcome, so compare runs of one age: a version that is new has only
      young runs, and what is found out late about it is not known yet.
    </li>
    <li>
      <strong>Last outcome:</strong> a run with several outcomes is counted by the latest; runs whose outcomes
      are not all the same are listed separately. Nothing is decided by the collector: an outcome is what a
      sender reported.
    </li>
    <li>
      <strong>Contradicted</strong> is a share of the judged runs: those whose last outcome is validated,
      partial or contradicted; runs without an outcome, unknown ones and those in other words are in neither
      number. If outcomes are reported rather when something went wrong, the share is too high, and no
      interval shows that.
    </li>
    <li>
      <strong>95 % intervals</strong> are Wilson’s score intervals (E. B. Wilson, J. Am. Stat. Assoc. 22,
      1927, 209–212). They take runs to be independent of each other, which runs of one patient are not: take
      them for the least uncertainty. Intervals that do not overlap are a reason to look, and no proof of a
      cause. That they overlap is said only where both versions have at least 20 runs: with fewer, shares that
      differ by a third overlap as well, and it says nothing; so they are called too few to compare.
    </li>
    <li>
      <strong>Until the outcome:</strong> the estimate of E. L. Kaplan and P. Meier (J. Am. Stat. Assoc. 53,
      1958, 457–481) in whole days, in which a run without an outcome counts for as long as it is old. A curve
      ends where fewer than ten runs are left, and half may not be reached by then. An outcome from before the
      start of its run counts for the first day.
    </li>
    ${NOTES_OF_CALLS}
  </ol>`;
}

const NOTES_OF_CALLS: Html = html`
  <li>
    <strong>Latency</strong> is from the inference-start to the first output by the senders’ clocks; where one
    is missing or the output is the earlier one, there is none. Percentiles are at the nearest rank: exact
    where all times of about that length are the same, otherwise right to half a per cent of their value and
    shown with the digits that this leaves (a sketch after C. Masson and others, PVLDB 12, 2019, 2195–2205).
    p95 is given from 20 runs on, p99 from 100.
  </li>
  <li>
    <strong>Calls of models:</strong> each inference-start of a run is a call. A run is counted under the
    model of its first call and each call under its own, so a model may have calls and no run. How calls
    ended, their tokens and their retries are known where an instrumentation of the library captured them.
    Tokens are what providers counted. Where a start names no version of its model, the model that answered is
    taken for it. Calls with another target or user than the first one of their run are a conflict.
  </li>
  <li>
    <strong>Feedback</strong> is counted by how often it was given, not by run. A thumb is up or down by its
    <code>direction</code>, or else by its <code>rating_value</code>: 3 and more is up. One that has neither,
    such as a comment alone, counts as a thumb without a direction. Ratings are rounded for the distribution
    and not for the mean; one that was sent as a text, such as “5”, counts.
  </li>
  <li>
    <strong>Other words</strong> are what senders wrote in place of the protocol’s vocabulary, or left out,
    which profile minimum allows. They are counted and never shown. <strong>Unreadable</strong> is a payload
    that is encrypted or erased.
  </li>
  <li>
    <strong>Completeness</strong> and <strong>conflicts</strong> are those of the records: minimum is the
    usual state of a young run, and erased is a run of which no more is missing than payloads that were
    erased: it counts as a run, and in no number that a payload says. A run counts once for each kind of
    conflict that it has.
  </li>
  <li>
    <strong>A new version</strong> is one whose first run in the log is of the period, and came after the
    first run of another version of the model.
  </li>
  <li>
    <strong>Main findings</strong> names every new version, with its contradicted share against that of the
    version before; with its runs that had an outcome after the same time, the longest of 1, 7, 30 and 90 days
    that at least 20 runs of both are old enough for, because the newer one has younger runs; and with its p95
    where that differs by a quarter or more; runs of 30 days and more without an outcome; calls of models that
    failed; incomplete records; conflicts; events of no run.
  </li>
  <li>
    All counts are exact. Of organisations the first 200 are listed, of models and versions the first 500
    pairs, each by the first 120 characters of its name; what is beyond is summed. Small counts are not
    hidden: who knows the ward may know a patient by a count of one, so think of who gets the page.
  </li>
`;

/* Behind each number that names runs worth looking at, the command that lists exactly these runs. */

/** `collector runs` with these options, as it is to be typed on the host of the log. */
export type RunsCommand = (options: readonly string[]) => string;

/** From this age on a run without an outcome is worth looking at. */
export const OLD_DAYS = 30;
/** As many are listed without being asked for. */
const LISTED = 20;
/** What the page does not show as it is cannot be copied from it. */
const UNCOPIABLE = /[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\ufeff]|…(?:@|$)/u;

interface WorthSeeing {
  readonly name: string;
  readonly runs: number;
  readonly options: readonly string[];
}

/** A group of runs whose numbers are shown. `model` is as `--model` takes it; undefined for all runs. */
export interface ListedGroup {
  readonly name: string;
  readonly numbers: GroupNumbers;
  readonly model?: string;
}

/** @returns a table of what is worth looking at in these groups; nothing where there is nothing. */
export function runCommands(
  report: ReportNumbers,
  groups: readonly ListedGroup[],
  { id, command }: { id: string; command: RunsCommand },
): Html {
  const rows = groups
    .filter(({ model = '' }) => !UNCOPIABLE.test(model))
    .flatMap((group) => worthSeeing(group.numbers, report).map((found) => ({ group, found })));
  if (rows.length === 0) return NOTHING;
  return html`<div class="wide commands" role="group" tabindex="0" aria-labelledby="${id}">
    <table>
      <caption id="${id}">
        To list the runs, on the host of the log
      </caption>
      <thead>
        <tr>
          <th class="text" scope="col">runs</th>
          <th scope="col">number</th>
          <th class="text" scope="col">command</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ group, found }) =>
            html`<tr>
              <th scope="row">${groups.length === 1 ? found.name : `${group.name}: ${found.name}`}</th>
              <td>${countText(found.runs)}</td>
              <td class="text">
                <code>${command([...found.options, ...common(report, group, found)])}</code>
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function worthSeeing(group: GroupNumbers, report: ReportNumbers): WorthSeeing[] {
  const old = group.without_outcome_by_age.filter(({ from_days: days }) => days >= OLD_DAYS);
  return [
    { name: 'contradicted', runs: group.outcomes.contradicted, options: ['--outcome', 'contradicted'] },
    {
      name: `without an outcome after ${OLD_DAYS} days`,
      runs: old.reduce((sum, { count }) => sum + count, 0),
      options: ['--outcome', 'none', '--until', timeText(oldBefore(report))],
    },
    { name: 'failed calls', runs: group.failed_runs, options: ['--failed'] },
    { name: 'incomplete', runs: group.completeness.incomplete, options: ['--incomplete'] },
    { name: 'with a conflict', runs: group.with_conflict.count, options: ['--conflict'] },
  ].filter(({ runs }) => runs > 0);
}

/** A run is as old as it was when the log ended; those of exactly that age count. */
function oldBefore({ until, log }: ReportNumbers): number {
  const end = Date.parse(until);
  return log.ends_at === null ? end : Math.min(end, Date.parse(log.ends_at) - OLD_DAYS * DAY_MS + 1);
}

/** What holds for every number of the group. */
function common(
  { since, until, clock, asked_for: asked }: ReportNumbers,
  group: ListedGroup,
  found: WorthSeeing,
) {
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

/** A date where it is the beginning of one. */
function timeText(time: number): string {
  return new Date(time).toISOString().replace('T00:00:00.000Z', '');
}
