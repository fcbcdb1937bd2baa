/** The numbers of a report: `--json` prints them, and the page is made from them alone. */
import { type Completeness, EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import {
  FEEDBACK_WORDS,
  OUTCOME_WORDS,
  type FeedbackWord,
  type OutcomeWord,
  type Clock,
} from '@clinical-events/collector/records/vocabulary';
import { type StepUnit, AGES, RunTally, WAITS } from './run-tally.js';
import {
  type CallEnding,
  type ConflictWord,
  type Missing,
} from '@clinical-events/collector/records/counted-run';
import { type Percentiles, type WaitingDay, shareOf, type Share } from './statistics.js';
import type { OrganisationTally, RunReport, VersionTally } from './run-report.js';
import { CALL_ENDINGS } from '@clinical-events/collector/records/calls';

export const MISSING_WORDS: readonly Missing[] = [
  ...(['inference-start', 'model', 'user', 'target', 'inputs', 'output', 'output_uri'] as const),
  ...(['outcome', 'feedback', 'parent', 'payload'] as const),
];
export const CONFLICT_WORDS: readonly ConflictWord[] = [
  ...(['second_start', 'parent_cycle', 'run_cycle', 'parent_in_other_run'] as const),
  ...(['before_start', 'before_parent', 'ahead_of_receipt'] as const),
];

/** The numbers of a group of runs. Counts are exact. */
export interface GroupNumbers {
  readonly runs: number;
  /** Events in the period, including those of runs of the group that began outside it. */
  readonly events: number;
  /** The beginnings of the first and the last run; null without a run. */
  readonly first_run: string | null;
  readonly last_run: string | null;
  readonly runs_by_step: readonly number[];
  readonly completeness: Readonly<Record<Completeness['level'], number>>;
  readonly missing: Readonly<Record<Missing, number>>;
  /** Each run once, by its last outcome. */
  readonly outcomes: Readonly<Record<OutcomeWord, number>>;
  readonly with_outcome: Share;
  /** The share of the judged runs, whose last outcome is validated, partial or contradicted. */
  readonly contradicted: Share;
  readonly changed_outcomes: number;
  readonly without_outcome_by_age: readonly (Share & {
    readonly from_days: number;
    /** Null if there is no upper end. */
    readonly to_days: number | null;
  })[];
  /** Runs with an outcome within `days` of their start, of the runs that are at least as old. */
  readonly outcome_within: readonly (Share & { readonly days: number })[];
  readonly days_to_outcome: {
    /** The day by which half of the runs have an outcome; null when it is not known. */
    readonly median: number | null;
    readonly curve: readonly WaitingDay[];
  };
  readonly feedback: Readonly<Record<FeedbackWord, number>>;
  readonly thumbs_up: Share;
  readonly ratings: {
    readonly count: number;
    readonly mean: number | null;
    /** The numbers of ratings of 0, 1, … 5. */
    readonly distribution: readonly number[];
  };
  /** In milliseconds. */
  readonly latency_ms: Percentiles & { readonly runs: number };
  /**
   * Calls of runs that began in the period, each under its own model, which may differ from the run's model.
   */
  readonly calls: {
    readonly calls: number;
    /** Calls that an instrumentation captured; the numbers below are about these calls only. */
    readonly captured: number;
    readonly endings: Readonly<Record<CallEnding, number>>;
    readonly failed: Share;
    /** By HTTP status, if there was one. */
    readonly failed_by_status: Readonly<Record<string, number>>;
    readonly retried: number;
    /** The providers' counts; `calls` is the number of calls with a count. */
    readonly tokens: { readonly calls: number; readonly input: number; readonly output: number };
  };
  /** Runs with a failed call. */
  readonly failed_runs: number;
  /** Runs with a number that was sent as a text. */
  readonly numbers_in_text: number;
  readonly with_conflict: Share;
  readonly conflicts: Readonly<Record<ConflictWord, number>>;
}

export interface VersionNumbers extends GroupNumbers {
  readonly model_version: string | null;
  /** Whether its first run in the log is in the period, and after the first run of another known version. */
  readonly is_new: boolean;
}

export interface ModelNumbers {
  readonly model_id: string | null;
  readonly all: GroupNumbers;
  /** In the order of their first run in the log. */
  readonly versions: readonly VersionNumbers[];
}

type EventsByStep = Readonly<Record<EventKind, readonly number[]>>;

interface OrganisationNumbers {
  readonly runs: number;
  /** Events of runs. */
  readonly events: number;
  readonly events_of_no_run: number;
}

export interface ReportNumbers {
  /** The version of this format. */
  readonly report: 1;
  readonly made_at: string;
  readonly asked_for: { readonly organisation: string | null; readonly model: string | null };
  readonly clock: Clock;
  readonly since: string;
  readonly until: string;
  readonly log: { readonly events: number; readonly ends_at: string | null };
  /** Events before and after the period, which no other number includes; null with the collector's clock. */
  readonly events_outside: { readonly before: number; readonly after: number } | null;
  /** Readable events whose timestamp and receipt are more than a day apart. */
  readonly clocks_apart: { readonly events: number; readonly of: number };
  readonly steps: { readonly unit: StepUnit; readonly starts: readonly string[] };
  /** Events of runs; `events_of_no_run` has the others. */
  readonly events_by_step: EventsByStep;
  readonly events_of_no_run: { readonly events: number; readonly by_step: EventsByStep };
  readonly other_runs: { readonly runs: number; readonly events: number };
  readonly organisations: readonly (OrganisationNumbers & { readonly name: string })[];
  readonly organisations_not_told_apart: OrganisationNumbers;
  readonly all: GroupNumbers;
  /** Models with the most runs come first, then by name; runs without a known model come last. */
  readonly models: readonly ModelNumbers[];
  readonly models_not_told_apart: GroupNumbers;
}

export interface ReportOccasion {
  readonly madeAt: number;
  readonly organisation: string | undefined;
  readonly model: string | undefined;
  /** Events of the log. */
  readonly logged: number;
}

export function numbersOf(report: RunReport, occasion: ReportOccasion): ReportNumbers {
  const { since, until, clock, asOf } = report.period;
  const { leftOut } = report;
  const starts = report.steps.starts.slice(leftOut).map(timeText);
  return {
    report: 1,
    made_at: timeText(occasion.madeAt),
    asked_for: { organisation: occasion.organisation ?? null, model: occasion.model ?? null },
    clock,
    since: (leftOut === 0 ? undefined : starts[0]) ?? timeText(since),
    until: timeText(until),
    log: { events: occasion.logged, ends_at: occasion.logged === 0 ? null : timeText(asOf) },
    events_outside: clock === 'sender' ? report.outside : null,
    clocks_apart: report.clocksApart,
    steps: { unit: report.steps.unit, starts },
    events_by_step: eventsFrom(leftOut, report.eventsBySteps),
    events_of_no_run: {
      events: sumOf(Object.values(report.eventsOfNoRun).flat()),
      by_step: eventsFrom(leftOut, report.eventsOfNoRun),
    },
    other_runs: { runs: report.otherRuns, events: report.otherRunsEvents },
    organisations: [...report.organisations]
      .map(([name, tally]) => ({ name, ...organisationNumbers(tally) }))
      .sort((a, b) => b.runs - a.runs || byText(a.name, b.name)),
    organisations_not_told_apart: organisationNumbers(report.uncountedOrganisations),
    all: groupNumbers(report.all, leftOut),
    models: modelsOf(report),
    models_not_told_apart: groupNumbers(report.uncounted, leftOut),
  };
}

/** If this share of events has clocks apart, the days of receipt do not show when things happened. */
const APART_FROM = 0.05;

/** Whether the page warns that its days are days of receipt. */
export function isOfReceipt({ clock, clocks_apart: { events, of } }: ReportNumbers): boolean {
  return clock === 'received' && events > 0 && events >= APART_FROM * of;
}

/** Whether the period has nothing to count. */
export function isEmpty({ all, events_of_no_run: ofNoRun }: ReportNumbers): boolean {
  return all.runs + all.events + all.calls.calls + ofNoRun.events === 0;
}

function organisationNumbers({ runs, events, eventsOfNoRun }: OrganisationTally): OrganisationNumbers {
  return { runs, events, events_of_no_run: eventsOfNoRun };
}

function modelsOf(report: RunReport): ModelNumbers[] {
  const models = Map.groupBy(report.versions, ({ modelId }) => modelId);
  return [...models]
    .map(([modelId, versions]) => {
      const all = new RunTally(report.steps.starts.length);
      for (const { tally } of versions) all.merge(tally);
      return {
        model_id: modelId,
        all: groupNumbers(all, report.leftOut),
        versions: versionsOf(report, modelId, versions),
      };
    })
    .sort(
      (a, b) =>
        Number(a.model_id === null) - Number(b.model_id === null) ||
        b.all.runs - a.all.runs ||
        byText(a.model_id ?? '', b.model_id ?? ''),
    );
}

/**
 * False for calls without an answer: they are counted under the requested name, whose version is not known.
 */
export function isKnownVersion(
  modelId: string | null,
  { model_version, runs, calls }: Pick<VersionNumbers, 'model_version' | 'runs' | 'calls'>,
): boolean {
  const hasNoAnswer = runs > 0 && calls.captured === calls.calls && calls.endings.complete === 0;
  return model_version !== null && !(model_version === modelId && hasNoAnswer);
}

function versionsOf(
  report: RunReport,
  modelId: string | null,
  versions: readonly VersionTally[],
): VersionNumbers[] {
  const inOrder = versions
    .map((each) => ({ ...each, first: report.firstOf(each) }))
    .sort(
      (a, b) =>
        Number(a.first > b.first) - Number(a.first < b.first) || byText(a.version ?? '', b.version ?? ''),
    );
  const numbers = inOrder.map(({ version, tally }) => ({
    model_version: version,
    ...groupNumbers(tally, report.leftOut),
  }));
  const first = numbers.findIndex((each) => isKnownVersion(modelId, each));
  return numbers.map((each, i) => ({
    ...each,
    is_new:
      i > first &&
      (inOrder[i]?.first ?? 0) >= report.period.since &&
      each.runs > 0 &&
      isKnownVersion(modelId, each),
  }));
}

function groupNumbers(tally: RunTally, leftOut: number): GroupNumbers {
  const outcomes = eachOf(OUTCOME_WORDS, (word) => tally.outcomes.of(word));
  const { validated, partial, contradicted, none } = outcomes;
  const rated = sumOf(tally.ratings);
  const { thumbs, latency } = tally;
  return {
    runs: tally.runs,
    events: tally.events,
    first_run: tally.runs === 0 ? null : timeText(tally.first),
    last_run: tally.runs === 0 ? null : timeText(tally.last),
    runs_by_step: tally.bySteps.slice(leftOut),
    completeness: tally.levels,
    missing: eachOf(MISSING_WORDS, (word) => tally.missing.of(word)),
    outcomes,
    with_outcome: shareOf(tally.runs - none, tally.runs),
    contradicted: shareOf(contradicted, validated + partial + contradicted),
    changed_outcomes: tally.changedOutcomes,
    without_outcome_by_age: tally.byAge.map(({ runs, without }, i) => ({
      from_days: i === 0 ? 0 : (AGES[i - 1] ?? 0),
      to_days: AGES[i] === Infinity ? null : (AGES[i] ?? null),
      ...shareOf(without, runs),
    })),
    outcome_within: tally.byWait.map(({ runs, known }, i) => ({
      days: WAITS[i] ?? 0,
      ...shareOf(known, runs),
    })),
    days_to_outcome: { median: tally.waiting.medianDays(), curve: tally.waiting.curve() },
    feedback: eachOf(FEEDBACK_WORDS, (word) => tally.feedback.of(word)),
    thumbs_up: shareOf(thumbs.up, thumbs.up + thumbs.down),
    ratings: {
      count: rated,
      mean: rated === 0 ? null : tally.ratingSum / rated,
      distribution: tally.ratings,
    },
    latency_ms: { runs: latency.count, ...latency.percentiles() },
    calls: callNumbers(tally),
    failed_runs: tally.failedRuns,
    numbers_in_text: tally.numbersInText,
    with_conflict: shareOf(tally.contradictory, tally.runs),
    conflicts: eachOf(CONFLICT_WORDS, (word) => tally.conflicts.of(word)),
  };
}

function callNumbers({ calls, endings, failedStatuses, retried, tokens }: RunTally): GroupNumbers['calls'] {
  const ended = eachOf(CALL_ENDINGS, (ending) => endings.of(ending));
  const captured = sumOf(Object.values(ended));
  const failed = shareOf(ended.failed, captured);
  const failed_by_status = eachOf(failedStatuses.words.map(String), (word) =>
    failedStatuses.of(Number(word)),
  );
  return { calls, captured, endings: ended, failed, failed_by_status, retried, tokens };
}

function eachOf<Word extends string, Value>(
  words: readonly Word[],
  of: (word: Word) => Value,
): Record<Word, Value> {
  return Object.fromEntries(words.map((word) => [word, of(word)])) as Record<Word, Value>;
}

function eventsFrom(step: number, bySteps: EventsByStep): EventsByStep {
  return eachOf(EVENT_KINDS, (kind) => bySteps[kind].slice(step));
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

function timeText(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
