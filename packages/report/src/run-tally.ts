/** The steps of a period, and the tally of a group of runs, which has a bounded size. */
import { DAY_MS } from '@clinical-events/collector/quantity';
import type {
  CallEnding,
  ConflictWord,
  CountedCall,
  CountedRun,
  CountedSummary,
  Missing,
} from '@clinical-events/collector/records/counted-run';
import {
  type Clock,
  FEEDBACK_WORDS,
  type FeedbackWord,
  type OutcomeWord,
} from '@clinical-events/collector/records/vocabulary';
import { OutcomeWaiting, QuantileSketch } from './statistics.js';

/**
 * The unit is the smallest that keeps the number of steps small. Days are UTC days; weeks begin on Monday.
 */
export type StepUnit = 'day' | 'week' | 'month' | 'year';

export interface PeriodSteps {
  readonly unit: StepUnit;
  /**
   * Their beginnings in milliseconds since 1970, ascending; the first step has the beginning of the period.
   */
  readonly starts: readonly number[];
}

/** The longest periods in days, weeks and months. */
const MOST_DAYS = 120;
const MOST_WEEKS_DAYS = 840;
const MOST_MONTHS_DAYS = 3660;

/** @param until the end of the period, not part of it. */
export function stepsOf(since: number, until: number): PeriodSteps {
  const days = (until - since) / DAY_MS;
  const unit: StepUnit =
    days <= MOST_DAYS
      ? 'day'
      : days <= MOST_WEEKS_DAYS
        ? 'week'
        : days <= MOST_MONTHS_DAYS
          ? 'month'
          : 'year';
  const starts: number[] = [];
  for (let at = beginningOf(unit, since); at < until; at = next(unit, at)) starts.push(at);
  return { unit, starts };
}

/**
 * @param time within the period.
 * @param guess the step to try first: most events are in the step of the previous event.
 */
export function stepAt({ starts }: PeriodSteps, time: number, guess = 0): number {
  if ((starts[guess] ?? Infinity) <= time && time < (starts[guess + 1] ?? Infinity)) return guess;
  let [low, high] = [0, starts.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= time) low = middle;
    else high = middle;
  }
  return low;
}

function beginningOf(unit: StepUnit, time: number): number {
  const day = Math.floor(time / DAY_MS) * DAY_MS;
  const date = new Date(day);
  if (unit === 'day') return day;
  // 1 January 1970 was a Thursday.
  if (unit === 'week') return day - ((((day / DAY_MS + 3) % 7) + 7) % 7) * DAY_MS;
  return firstOf(date.getUTCFullYear(), unit === 'month' ? date.getUTCMonth() : 0);
}

function next(unit: StepUnit, at: number): number {
  if (unit === 'day') return at + DAY_MS;
  if (unit === 'week') return at + 7 * DAY_MS;
  const date = new Date(at);
  return unit === 'month'
    ? firstOf(date.getUTCFullYear(), date.getUTCMonth() + 1)
    : firstOf(date.getUTCFullYear() + 1, 0);
}

/** The first day of a month. `Date.UTC` takes the years 0 to 99 for 1900 to 1999. */
function firstOf(year: number, month: number): number {
  return new Date(0).setUTCFullYear(year, month, 1);
}

/** The upper ends of the age classes of runs, in days. */
export const AGES = [1, 7, 30, 90, Infinity] as const;
/**
 * Outcomes within these days are counted for runs that are at least that old, so that runs of any age can be
 * compared.
 */
export const WAITS = AGES.slice(0, -1);
/** */
const MOST_RATING = 5;

export class RunTally {
  runs = 0;
  events = 0;
  /** The beginnings of the first and the last run. */
  first = Infinity;
  last = -Infinity;
  readonly bySteps: number[];
  readonly levels = { full: 0, minimum: 0, incomplete: 0, erased: 0 };
  readonly missing = new Counts<Missing>();
  /** Each run once, by its last outcome. */
  readonly outcomes = new Counts<OutcomeWord>();
  /** Runs with different outcomes. */
  changedOutcomes = 0;
  readonly waiting = new OutcomeWaiting();
  readonly byAge = AGES.map(() => ({ runs: 0, without: 0 }));
  readonly byWait = WAITS.map(() => ({ runs: 0, known: 0 }));
  readonly feedback = new Counts<FeedbackWord>();
  readonly thumbs = { up: 0, down: 0 };
  /** How often each of 0, 1, … 5 was given, rounded. The sum is not rounded. */
  readonly ratings: number[] = new Array<number>(MOST_RATING + 1).fill(0);
  ratingSum = 0;
  readonly latency = new QuantileSketch();
  /** Runs with a conflict, and with each kind. */
  contradictory = 0;
  readonly conflicts = new Counts<ConflictWord>();
  /** Calls of the model, including those in runs of other models. */
  calls = 0;
  /** Captured calls by ending, and failed ones by status. */
  readonly endings = new Counts<CallEnding>();
  readonly failedStatuses = new Counts<number>();
  /** Calls that were made more than once. */
  retried = 0;
  readonly tokens = { calls: 0, input: 0, output: 0 };
  /** Runs with a failed call. */
  failedRuns = 0;
  /** Runs with a number that was sent as a text. */
  numbersInText = 0;

  constructor(steps: number) {
    this.bySteps = new Array<number>(steps).fill(0);
  }

  /**
   * @param step the step in which the run began.
   * @param asOf when the log ends.
   */
  addRun({ began: moment, summary: run, calls }: CountedRun, clock: Clock, step: number, asOf: number): void {
    const began = moment[clock];
    const outcome = run.outcomeAt?.earliest[clock];
    this.runs++;
    this.bySteps[step] = (this.bySteps[step] ?? 0) + 1;
    this.first = Math.min(this.first, began);
    this.last = Math.max(this.last, began);
    this.levels[run.level]++;
    for (const missing of run.missing) this.missing.add(missing);
    this.outcomes.add(run.outcome);
    if (run.outcomesDiffer) this.changedOutcomes++;
    const age = Math.max(0, asOf - began) / DAY_MS;
    if (outcome === undefined) this.waiting.addNone(age);
    else this.waiting.addOutcome((outcome - began) / DAY_MS);
    this.#addAge(age, outcome === undefined ? Infinity : (outcome - began) / DAY_MS);
    if (run.counts['user-feedback'] > 0) this.#addFeedback(run);
    if (run.latencyMs !== null) this.latency.add(run.latencyMs);
    const endings = calls.length === 0 ? [run.call] : calls.map(({ ended }) => ended);
    if (endings.some((ended) => ended?.ending === 'failed')) this.failedRuns++;
    if (run.numbersInText > 0) this.numbersInText++;
    if (run.conflicts.length > 0) this.contradictory++;
    for (const conflict of run.conflicts) this.conflicts.add(conflict);
  }

  /** @param wait days until the first outcome; infinite without one. */
  #addAge(age: number, wait: number): void {
    let at = 0;
    for (; at < WAITS.length && age >= (WAITS[at] ?? 0); at++) {
      const waits = this.byWait[at];
      if (waits === undefined) continue;
      waits.runs++;
      if (wait < (WAITS[at] ?? 0)) waits.known++;
    }
    const ages = this.byAge[at];
    if (ages === undefined) return;
    ages.runs++;
    if (wait === Infinity) ages.without++;
  }

  merge(other: RunTally): void {
    this.runs += other.runs;
    this.events += other.events;
    this.first = Math.min(this.first, other.first);
    this.last = Math.max(this.last, other.last);
    addTo(this.bySteps, other.bySteps);
    for (const level of ['full', 'minimum', 'incomplete', 'erased'] as const)
      this.levels[level] += other.levels[level];
    this.missing.merge(other.missing);
    this.outcomes.merge(other.outcomes);
    this.changedOutcomes += other.changedOutcomes;
    this.waiting.merge(other.waiting);
    for (const [age, { runs, without }] of other.byAge.entries()) {
      const ages = this.byAge[age];
      if (ages === undefined) continue;
      ages.runs += runs;
      ages.without += without;
    }
    for (const [i, { runs, known }] of other.byWait.entries()) {
      const wait = this.byWait[i];
      if (wait === undefined) continue;
      wait.runs += runs;
      wait.known += known;
    }
    this.feedback.merge(other.feedback);
    this.thumbs.up += other.thumbs.up;
    this.thumbs.down += other.thumbs.down;
    addTo(this.ratings, other.ratings);
    this.ratingSum += other.ratingSum;
    this.latency.merge(other.latency);
    this.contradictory += other.contradictory;
    this.conflicts.merge(other.conflicts);
    this.calls += other.calls;
    this.endings.merge(other.endings);
    this.failedStatuses.merge(other.failedStatuses);
    this.retried += other.retried;
    for (const count of ['calls', 'input', 'output'] as const) this.tokens[count] += other.tokens[count];
    this.failedRuns += other.failedRuns;
    this.numbersInText += other.numbersInText;
  }

  /** @param isCall false for an ending that belongs to no call. */
  addCall(isCall: boolean, { ended, tokens }: Pick<CountedCall, 'ended' | 'tokens'>): void {
    if (isCall) this.calls++;
    if (ended === null) return;
    const { ending, status, attempts } = ended;
    this.endings.add(ending);
    if (ending === 'failed' && status !== null) this.failedStatuses.add(status);
    if (attempts > 1) this.retried++;
    if (tokens.input === null && tokens.output === null) return;
    this.tokens.calls++;
    this.tokens.input += tokens.input ?? 0;
    this.tokens.output += tokens.output ?? 0;
  }

  #addFeedback({ feedback, thumbs, ratings, ratingSum }: CountedSummary): void {
    for (const word of FEEDBACK_WORDS) {
      if (feedback[word] > 0) this.feedback.add(word, feedback[word]);
    }
    this.thumbs.up += thumbs.up;
    this.thumbs.down += thumbs.down;
    addTo(this.ratings, ratings);
    this.ratingSum += ratingSum;
  }
}

/** The number of times that each word was counted. */
class Counts<Word extends string | number> {
  readonly #counts = new Map<Word, { times: number }>();

  add(word: Word, times = 1): void {
    const count = this.#counts.get(word);
    if (count === undefined) this.#counts.set(word, { times });
    else count.times += times;
  }

  of(word: Word): number {
    return this.#counts.get(word)?.times ?? 0;
  }

  get words(): Word[] {
    return [...this.#counts.keys()];
  }

  merge(other: Counts<Word>): void {
    for (const [word, { times }] of other.#counts) this.add(word, times);
  }
}

function addTo(sums: number[], more: readonly number[]): void {
  for (const [i, each] of more.entries()) sums[i] = (sums[i] ?? 0) + each;
}
