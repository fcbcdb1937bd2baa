/** The main findings, with which a meeting begins. Each follows from a rule that the page states. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { type Share, shareOf } from '../statistics.js';
import {
  CONFLICT_WORDS,
  type GroupNumbers,
  isKnownVersion,
  type ModelNumbers,
  type ReportNumbers,
  type VersionNumbers,
} from '../report-numbers.js';
import { axis, intervals, shareText } from './charts.js';
import { OLD_DAYS } from './notes.js';
import { Html, type Inner, NOTHING, html } from './html.js';
import {
  CONFLICT_TEXT,
  countOf,
  countText,
  dateText,
  intervalText,
  latencyText,
  modelText,
  ofText,
  percent,
  versionText,
} from './wording.js';

/** Maximum number of new versions in the table. */
const MOST_CHANGES = 12;
/** Smallest change of the p95 between versions that is a finding. */
const LATENCY_CHANGE = 0.25;
/**
 * Fewest runs of each version for which overlapping intervals mean anything. With 20 runs each, intervals
 * overlap unless the shares differ by 35 points or more; with 10 it would be 60.
 */
const LEAST_COMPARED = 20;

/** A number, with the previous version's number if there is one. */
interface FindingRow {
  readonly what: string;
  readonly now: Inner;
  readonly then?: Inner;
  /** The shares to draw: the previous one, if any, and the current one. */
  readonly shares?: readonly Share[];
  readonly says: string;
}

export interface Finding {
  readonly about: string;
  /** A sentence, or an empty text. */
  readonly says: string;
  /** Whether the intervals of two versions do not overlap. */
  readonly differs?: boolean;
  readonly rows: readonly FindingRow[];
}

export function findingsOf(numbers: ReportNumbers): Finding[] {
  const rows = [
    ...oldWithoutOutcome(numbers),
    ...failed(numbers),
    ...incomplete(numbers),
    ...conflicting(numbers),
    ...ofNoRun(numbers),
  ];
  return [
    ...mostTelling(numbers.models.flatMap(changesOf)),
    ...(rows.length === 0 ? [] : [{ about: 'All models', says: '', rows }]),
  ];
}

/** The first {@link MOST_CHANGES} changes; those that differ come first. */
function mostTelling(changes: readonly Finding[]): Finding[] {
  const sorted = changes.toSorted((a, b) => Number(b.differs === true) - Number(a.differs === true));
  const more = sorted.length - MOST_CHANGES;
  if (more <= 0) return sorted;
  const says = `${countOf(more, 'more new version')}, in the parts on their models.`;
  return [...sorted.slice(0, MOST_CHANGES), { about: 'New', says, rows: [] }];
}

/** Each new version, compared with the one before it. */
function changesOf(model: ModelNumbers): Finding[] {
  return model.versions.flatMap((version, i) => {
    const before = model.versions.slice(0, i).findLast((each) => isKnownVersion(model.model_id, each));
    if (!version.is_new || before === undefined) return [];
    const known = sameWait(version, before);
    return [
      {
        about: `${modelText(model)} ${versionText(version)}`,
        says: `First seen on ${dateText(version.first_run)}, after ${versionText(before)}.`,
        rows: [
          ...compared('contradicted, of judged', version.contradicted, before.contradicted),
          ...(known === undefined
            ? []
            : compared(`outcome within ${countOf(known.days, 'day')}`, known.now, known.then)),
          ...latency(version.latency_ms, before.latency_ms),
        ],
        differs:
          lieApart(version.contradicted, before.contradicted) ||
          (known !== undefined && lieApart(known.now, known.then)),
      },
    ];
  });
}

interface KnownWithin {
  readonly days: number;
  readonly now: Share;
  readonly then: Share;
}

/**
 * The share of runs with an outcome within the same time. This is the longest time for which enough runs of
 * both versions are old enough, or else any run. The newer version has younger runs, so its share of all runs
 * cannot be compared.
 */
function sameWait(version: VersionNumbers, before: VersionNumbers): KnownWithin | undefined {
  const waits = version.outcome_within.flatMap((now, i): KnownWithin[] => {
    const then = before.outcome_within[i];
    return then === undefined || now.of === 0 || then.of === 0 ? [] : [{ days: now.days, now, then }];
  });
  return waits.findLast(({ now, then }) => areEnough(now, then)) ?? waits.at(-1);
}

function areEnough(now: Share, then: Share): boolean {
  return Math.min(now.of, then.of) >= LEAST_COMPARED;
}

function lieApart(a: Share, b: Share): boolean {
  if (a.low === null || a.high === null || b.low === null || b.high === null) return false;
  return a.low > b.high || b.low > a.high;
}

function compared(what: string, now: Share, then: Share): FindingRow[] {
  if (now.of === 0 || then.of === 0) return [];
  const row = { what, now: cellOf(now), then: cellOf(then), shares: [then, now] };
  return [{ ...row, says: comparison(now, then) }];
}

function cellOf(share: Share): Html {
  return html`${percent(share.share)} of ${countText(share.of)}<br /><small>${intervalText(share)}</small>`;
}

/** Intervals that do not overlap are meaningful even for few runs, whose intervals are wide. */
function comparison(now: Share, then: Share): string {
  if (lieApart(now, then)) return 'intervals do not overlap';
  if (areEnough(now, then)) return 'intervals overlap';
  return `too few to compare: fewer than ${LEAST_COMPARED} in one of them`;
}

type Latency = GroupNumbers['latency_ms'];

function latency(now: Latency, then: Latency): FindingRow[] {
  if (now.p95 === null || then.p95 === null || then.p95 === 0) return [];
  if (Math.abs(now.p95 / then.p95 - 1) < LATENCY_CHANGE) return [];
  return [{ what: 'latency p95', now: latencyText(now, 'p95'), then: latencyText(then, 'p95'), says: '' }];
}

function ofAll(what: string, share: Share, says: string): FindingRow[] {
  if (share.count === 0) return [];
  const now = html`${percent(share.share)}, ${ofText(share)}<br /><small>${intervalText(share)}</small>`;
  return [{ what, now, shares: [share], says }];
}

function oldWithoutOutcome({ all }: ReportNumbers): FindingRow[] {
  const old = all.without_outcome_by_age.filter(({ from_days }) => from_days >= OLD_DAYS);
  const [count, of] = [sumOf(old.map((age) => age.count)), sumOf(old.map((age) => age.of))];
  return ofAll('no outcome', shareOf(count, of), `of runs at least ${OLD_DAYS} days old`);
}

function failed({ all: { calls } }: ReportNumbers): FindingRow[] {
  const [status] = Object.entries(calls.failed_by_status).toSorted((a, b) => b[1] - a[1]);
  const most = status === undefined ? '' : `, most often with status ${status[0]} (${countText(status[1])})`;
  return ofAll('failed calls', calls.failed, `of captured calls of models${most}`);
}

function incomplete({ all }: ReportNumbers): FindingRow[] {
  const lack = 'without a start, a parent of other events, or a payload';
  return ofAll('incomplete records', shareOf(all.completeness.incomplete, all.runs), lack);
}

function conflicting({ all }: ReportNumbers): FindingRow[] {
  const [kind] = CONFLICT_WORDS.toSorted((a, b) => all.conflicts[b] - all.conflicts[a]);
  const most =
    kind === undefined ? '' : `most often ${CONFLICT_TEXT[kind]} (${countText(all.conflicts[kind])})`;
  return ofAll('records with a conflict', all.with_conflict, most);
}

/** The share has no interval, because all events are counted. */
function ofNoRun({ all, events_of_no_run: { events, by_step: byStep } }: ReportNumbers): FindingRow[] {
  if (events === 0) return [];
  const counts = EVENT_KINDS.map((kind) => sumOf(byStep[kind]));
  const most = Math.max(...counts);
  const kind = EVENT_KINDS[counts.indexOf(most)] ?? '';
  const of = all.events + events;
  return [
    {
      what: 'events of no run',
      now: `${percent(events / of)}, ${ofText({ count: events, of })}`,
      says: `most often ${kind} (${countText(most)}); they are in no other number`,
    },
  ];
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** A group of rows for each new version, and one for all models. */
export function findingsTable(findings: readonly Finding[]): Html {
  return html`<table class="findings">
    <caption>
      Each new version and the one before it; then all models
    </caption>
    <thead>
      <tr>
        <td></td>
        <th scope="col">before</th>
        <th scope="col">now</th>
        <th class="drawn" scope="col">
          95 % interval<br /><small>○ before ● now</small>
          ${axis(1, shareText)}
        </th>
        <th class="text" scope="col">remark</th>
      </tr>
    </thead>
    ${findings.map(
      ({ about, says, differs = false, rows }) =>
        html`<tbody>
          <tr>
            <th class="block" scope="rowgroup" colspan="5">
              <strong>${about}</strong>${differs ? html` <span class="new">differs</span>` : NOTHING}
              <span>${says}</span>
            </th>
          </tr>
          ${rows.map(findingRow)}
        </tbody>`,
    )}
  </table>`;
}

function findingRow({ what, now, then, shares, says }: FindingRow): Html {
  return html`<tr${then === undefined ? NOTHING : new Html(' class="compared"')}>
    <th scope="row">${what}</th>
    <td data-name="before">${then ?? ''}</td>
    <td data-name="now">${now}</td>
    <td class="drawn">${shares === undefined ? NOTHING : intervals(shares, 1)}</td>
    <td class="text">${says}</td>
  </tr>`;
}
