/** Behind each number that names runs worth looking at, the command that lists exactly these runs. */
import { DAY_MS } from '../period-steps.js';
import type { GroupNumbers, ReportNumbers } from '../report-numbers.js';
import { html, NOTHING, type Html } from './html.js';
import { countText } from './wording.js';

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
  return html`<div class="wide commands" role="region" tabindex="0" aria-labelledby="${id}">
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
    { name: 'failed calls', runs: group.calls.failed.count, options: ['--failed'] },
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
