/** What of the numbers a meeting would begin with, in sentences. Each follows from a stated rule; none is a judgement. */
import type { Share } from '../wilson.js';
import {
  CONFLICT_WORDS,
  type ModelNumbers,
  type ReportNumbers,
  type VersionNumbers,
} from '../report-numbers.js';
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
/** From this age on a run without an outcome is named. */
const OLD_DAYS = 30;
/** By how much a percentile has to differ between versions to be named. */
const LATENCY_CHANGE = 0.25;

export interface Finding {
  readonly about: string;
  /** Whole sentences. */
  readonly says: readonly string[];
  /** Whether the contradicted shares of two versions lie apart. */
  readonly differs?: boolean;
}

export function findingsOf(numbers: ReportNumbers): Finding[] {
  return [
    ...mostTelling(numbers.models.flatMap(changesOf)),
    ...oldWithoutOutcome(numbers),
    ...incomplete(numbers),
    ...conflicting(numbers),
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
    const before = model.versions[i - 1];
    if (!version.is_new || before === undefined) return [];
    const old = versionText(before);
    return [
      {
        about: `${modelText(model)} ${versionText(version)}`,
        says: [
          `First seen on ${dateText(version.first_run)}, after ${old}.`,
          ...contradicted(version, before, old),
          ...latency(version, before, old),
        ],
        differs: lieApart(version.contradicted, before.contradicted),
      },
    ];
  });
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
    `The intervals ${lieApart(now, then) ? 'do not overlap' : 'overlap'}.`,
  ];
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

function recordsText(count: number, of: number): string {
  return `${countOf(count, 'record')} (${percent(count / of)})`;
}
