/**
 * What of the numbers a meeting would begin with, in sentences. Each follows from a stated rule; none is a judgement.
 */
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { Share } from '../statistics.js';
import {
  CONFLICT_WORDS,
  isKnownVersion,
  type ModelNumbers,
  type ReportNumbers,
  type VersionNumbers,
} from '../report-numbers.js';
import { OLD_DAYS } from './notes.js';
import {
  CONFLICT_TEXT,
  countOf,
  countText,
  dateText,
  durationText,
  intervalText,
  modelText,
  percent,
  versionText,
} from './wording.js';

/** New versions that are named. */
const MOST_CHANGES = 12;
/** By how much a percentile has to differ between versions to be named. */
const LATENCY_CHANGE = 0.25;
/**
 * Runs of each version, so that it says something when their intervals overlap. Those of two versions with 20 runs each
 * overlap whatever the shares are, unless they differ by 35 points or more; with 10 it would be 60.
 */
const LEAST_COMPARED = 20;

export interface Finding {
  readonly about: string;
  /** Whole sentences. */
  readonly says: readonly string[];
  /** Whether shares of two versions lie apart: of contradicted runs, or of runs with an outcome. */
  readonly differs?: boolean;
}

export function findingsOf(numbers: ReportNumbers): Finding[] {
  return [
    ...mostTelling(numbers.models.flatMap(changesOf)),
    ...oldWithoutOutcome(numbers),
    ...failed(numbers),
    ...incomplete(numbers),
    ...conflicting(numbers),
    ...ofNoRun(numbers),
  ];
}

/** Those that differ first. */
function mostTelling(changes: readonly Finding[]): Finding[] {
  const sorted = changes.toSorted((a, b) => Number(b.differs === true) - Number(a.differs === true));
  const more = sorted.length - MOST_CHANGES;
  if (more <= 0) return sorted;
  const rest = `${countOf(more, 'more new version')}, in the parts on their models.`;
  return [...sorted.slice(0, MOST_CHANGES), { about: 'New', says: [rest] }];
}

/** Each version that is new, against the one before it. */
function changesOf(model: ModelNumbers): Finding[] {
  return model.versions.flatMap((version, i) => {
    const before = model.versions.slice(0, i).findLast((each) => isKnownVersion(model.model_id, each));
    if (!version.is_new || before === undefined) return [];
    const old = versionText(before);
    const known = sameWait(version, before);
    return [
      {
        about: `${modelText(model)} ${versionText(version)}`,
        says: [
          `First seen on ${dateText(version.first_run)}, after ${old}.`,
          ...contradicted(version, before, old),
          ...(known === undefined ? [] : withOutcome(known, old)),
          ...latency(version, before, old),
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
 * How many runs of two versions have an outcome after the same time: the longest that enough runs of both are old
 * enough for, or else any are. All runs of both cannot be compared: those of the newer one are younger.
 */
function sameWait(version: VersionNumbers, before: VersionNumbers): KnownWithin | undefined {
  const waits = version.outcome_within.flatMap((now, i): KnownWithin[] => {
    const then = before.outcome_within[i];
    return then === undefined || now.of === 0 || then.of === 0 ? [] : [{ days: now.days, now, then }];
  });
  return waits.findLast(({ now, then }) => areEnough(now, then)) ?? waits.at(-1);
}

function withOutcome({ days, now, then }: KnownWithin, old: string): string[] {
  return [
    `Outcome within ${countOf(days, 'day')}: ${percent(now.share)} of ${countOf(now.of, 'run')} that old ` +
      `(${intervalText(now)}); with ${old}: ${percent(then.share)} of ${countText(then.of)} (${intervalText(then)}).`,
    comparison(now, then),
  ];
}

function areEnough(now: Share, then: Share): boolean {
  return Math.min(now.of, then.of) >= LEAST_COMPARED;
}

function lieApart(a: Share, b: Share): boolean {
  if (a.low === null || a.high === null || b.low === null || b.high === null) return false;
  return a.low > b.high || b.low > a.high;
}

function contradicted(
  { contradicted: now }: VersionNumbers,
  { contradicted: then }: VersionNumbers,
  old: string,
): string[] {
  if (now.of === 0 || then.of === 0) return [];
  return [
    `Contradicted: ${percent(now.share)} of ${countOf(now.of, 'judged run')} (${intervalText(now)}); ` +
      `with ${old}: ${percent(then.share)} of ${countText(then.of)} (${intervalText(then)}).`,
    comparison(now, then),
  ];
}

/** Intervals that lie apart are reported however few the runs are: those of few are wide already. */
function comparison(now: Share, then: Share): string {
  if (lieApart(now, then)) return 'The intervals do not overlap.';
  if (areEnough(now, then)) return 'The intervals overlap.';
  return `Too few to compare: fewer than ${LEAST_COMPARED} in one of them.`;
}

function latency(
  { latency_ms: now }: VersionNumbers,
  { latency_ms: then }: VersionNumbers,
  old: string,
): string[] {
  if (now.p95 === null || then.p95 === null || then.p95 === 0) return [];
  if (Math.abs(now.p95 / then.p95 - 1) < LATENCY_CHANGE) return [];
  return [`Latency p95: ${durationText(now.p95)}; with ${old}: ${durationText(then.p95)}.`];
}

function oldWithoutOutcome({ all }: ReportNumbers): Finding[] {
  const old = all.without_outcome_by_age.filter(({ from_days }) => from_days >= OLD_DAYS);
  const count = old.reduce((sum, age) => sum + age.count, 0);
  const of = old.reduce((sum, age) => sum + age.of, 0);
  if (count === 0) return [];
  const runs = `${countText(count)} of ${countText(of)} runs that are ${OLD_DAYS} days old or older (${percent(count / of)}).`;
  return [{ about: 'No outcome', says: [runs] }];
}

function failed({ all: { calls } }: ReportNumbers): Finding[] {
  const { count, of, share } = calls.failed;
  if (count === 0) return [];
  const [status] = Object.entries(calls.failed_by_status).toSorted((a, b) => b[1] - a[1]);
  const most = status === undefined ? '' : `, most often with status ${status[0]} (${countText(status[1])})`;
  const says = `${countText(count)} of ${countOf(of, 'captured call')} of models (${percent(share)})${most}.`;
  return [{ about: 'Failed', says: [says] }];
}

function incomplete({ all }: ReportNumbers): Finding[] {
  const count = all.completeness.incomplete;
  if (count === 0) return [];
  const lack = `${recordsText(count, all.runs)} without a start, an event that others expand on, or a payload.`;
  return [{ about: 'Incomplete', says: [lack] }];
}

function conflicting({ all }: ReportNumbers): Finding[] {
  const { count, of } = all.with_conflict;
  if (count === 0) return [];
  const [kind] = CONFLICT_WORDS.toSorted((a, b) => all.conflicts[b] - all.conflicts[a]);
  const most =
    kind === undefined ? '' : `, most often ${CONFLICT_TEXT[kind]} (${countText(all.conflicts[kind])})`;
  return [{ about: 'Conflicts', says: [`In ${recordsText(count, of)}${most}.`] }];
}

function ofNoRun({ all, events_of_no_run: { events, by_step: byStep } }: ReportNumbers): Finding[] {
  if (events === 0) return [];
  const counts = EVENT_KINDS.map((kind) => byStep[kind].reduce((sum, count) => sum + count, 0));
  const most = Math.max(...counts);
  const kind = EVENT_KINDS[counts.indexOf(most)] ?? '';
  const share = `${countOf(events, 'event')} (${percent(events / (all.events + events))} of all)`;
  return [
    {
      about: 'Of no run',
      says: [
        `${share} cannot be said to belong to a run, most often ${kind} (${countText(most)}); what they tell is in no other number.`,
      ],
    },
  ];
}

function recordsText(count: number, of: number): string {
  return `${countOf(count, 'record')} (${percent(count / of)})`;
}
