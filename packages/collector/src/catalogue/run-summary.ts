/** The summary of a record: all values that a list of runs or a report needs, without payload texts. */
import { EVENT_KINDS, type Completeness, type EventKind, type RecordedCall } from '@clinical-events/protocol';
import { DAY_MS } from '../quantity.js';
import { type AssembledRun, objectsOf } from '../records/assemble.js';
import { failedIn, tokensOf } from '../records/calls.js';
import type { TimedEvent } from '../records/canonical-order.js';
import { memberIn, sentIn } from '../records/run-event.js';
import {
  modelVersionOf,
  NAMES,
  stringOf,
  systemText,
  textOf,
  versionOf,
} from '../records/exports/record-columns.js';
import { epochMilliseconds } from '../records/instant.js';
import { MemberName } from '../records/json-scan.js';
import { numberIn } from '../records/raw-json.js';
import {
  FEEDBACK_WORDS,
  feedbackWord,
  outcomeWord,
  thumbOf,
  type FeedbackWord,
  type OutcomeWord,
} from '../records/vocabulary.js';
import type {
  ConflictWord,
  CountedCall,
  CountedSummary,
  EventTimes,
  Missing,
} from '../records/counted-run.js';

/** A time by either clock, in milliseconds since 1970. For an unreadable payload both are the collector's. */
interface Moment {
  readonly received: number;
  readonly sender: number;
}

export interface RunSummary {
  readonly organisation: string;
  /** The id of the run, or of a record without a run; lower case. */
  readonly recordId: string;
  readonly isRun: boolean;
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** The times of all its events. For an unreadable payload the sender's time is the collector's. */
  readonly times: EventTimes;
  /** The time of the first event by the collector's clock; see beganBySender for the sender's. */
  readonly began: Moment;
  readonly modelId: string | null;
  readonly modelVersion: string | null;
  readonly userId: string | null;
  readonly targetId: string | null;
  /** `app_name` in the system_metadata of the start, otherwise of the first event that has one. */
  readonly application: string | null;
  readonly counts: Readonly<Record<EventKind, number>>;
  /** The word of the last outcome in canonical order. */
  readonly outcome: OutcomeWord;
  /** Times of the last outcome in canonical order, and of the earliest one; null without an outcome. */
  readonly outcomeAt: { readonly last: Moment; readonly earliest: Moment } | null;
  /** Whether its outcomes have different words. */
  readonly outcomesDiffer: boolean;
  readonly feedback: Readonly<Record<FeedbackWord, number>>;
  readonly thumbs: { readonly up: number; readonly down: number };
  /** The number of ratings that round to 0, 1, … 5, and the sum of the unrounded ratings. */
  readonly ratings: readonly number[];
  readonly ratingSum: number;
  /** The end of the last model call, and the number of failed calls. */
  readonly call: CountedSummary['call'];
  readonly failedCalls: number;
  /** The tokens of all calls together. */
  readonly tokens: CountedSummary['tokens'];
  readonly latencyMs: number | null;
  readonly level: Completeness['level'];
  readonly missing: readonly Missing[];
  readonly conflicts: readonly ConflictWord[];
  /** Number of events whose parent is missing; all events if the record has no start. */
  readonly orphanEvents: number;
  /** Number of events that have a number that was sent as text. */
  readonly numbersInText: number;
}

const APP_NAME = new MemberName('app_name');
const OUTCOME_TYPE = new MemberName('outcome_type');
const FEEDBACK_TYPE = new MemberName('feedback_type');
const RATING_VALUE = new MemberName('rating_value');
const DIRECTION = new MemberName('direction');
/** */
export const MOST_RATING = 5;

type Timed = TimedEvent;

/**
 * The summary of a record; nothing else determines the contents of a row.
 * @param run of all events of the record.
 */
export function summaryOf(run: AssembledRun): RunSummary {
  const { metadata, start } = run;
  const { completeness } = metadata;
  return {
    organisation: metadata.organisation,
    recordId: metadata.record_id,
    isRun: metadata.run_id !== null,
    ...spanOf(metadata.events, start),
    modelId: nameIn(textOf(run.model, NAMES.model_id)),
    modelVersion: nameIn(versionOf(run)),
    userId: nameIn(textOf(run.user, NAMES.caller_id)),
    targetId: nameIn(textOf(run.target, NAMES.target_id)),
    application: nameIn(systemText(metadata.events, start, APP_NAME)),
    ...outcomeOf(run),
    ...feedbackOf(run),
    call: callOf(metadata.call),
    failedCalls: failedIn(run.endings),
    tokens: metadata.tokens,
    latencyMs: metadata.latency_ms,
    level: completeness.level,
    missing: completeness.missing,
    orphanEvents: start === undefined ? metadata.events.length : completeness.orphans.length,
    conflicts: metadata.conflicts.flatMap(({ kind, rule }) =>
      kind === 'clock_disorder' ? (rule ?? []) : kind,
    ),
    numbersInText: completeness.numbers_in_text.length,
  };
}

function nameIn(text: Parameters<typeof stringOf>[0]): string | null {
  return stringOf(text) ?? null;
}

/**
 * The sender's time in milliseconds since 1970; the collector's if the payload is unreadable or has no time.
 */
export function sentAtOf({ event, at }: Pick<Timed, 'event' | 'at'>): number {
  const sent = epochMilliseconds(at);
  return Number.isNaN(sent) ? event.receivedAt : sent;
}

function momentOf(timed: Timed): Moment {
  return { received: timed.event.receivedAt, sender: sentAtOf(timed) };
}

type Span = Pick<RunSummary, 'firstSequence' | 'lastSequence' | 'times' | 'began' | 'counts'>;

/**
 * The start time of a record by the sender's clock, in milliseconds since 1970: its first start, otherwise
 * its earliest event.
 */
export function beganBySender(events: readonly Timed[], start: Timed | undefined): number {
  if (start !== undefined) return sentAtOf(start);
  return events.reduce((earliest, timed) => Math.min(earliest, sentAtOf(timed)), Infinity);
}

function spanOf(events: readonly Timed[], start: Timed | undefined): Span {
  let [firstSequence, lastSequence] = [Infinity, 0];
  const received = { first: Infinity, last: -Infinity };
  const sent = { first: Infinity, last: -Infinity };
  let [unreadable, apart] = [0, 0];
  const counts = { ...NO_EVENTS };
  for (const timed of events) {
    const { event, body } = timed;
    const sender = sentAtOf(timed);
    counts[event.kind]++;
    firstSequence = Math.min(firstSequence, event.sequence);
    lastSequence = Math.max(lastSequence, event.sequence);
    received.first = Math.min(received.first, event.receivedAt);
    received.last = Math.max(received.last, event.receivedAt);
    sent.first = Math.min(sent.first, sender);
    sent.last = Math.max(sent.last, sender);
    if (body === undefined) unreadable++;
    else if (Math.abs(event.receivedAt - sender) > DAY_MS) apart++;
  }
  const began = { received: received.first, sender: beganBySender(events, start) };
  return { firstSequence, lastSequence, times: { received, sent, unreadable, apart }, began, counts };
}

function zeros<Word extends string>(words: readonly Word[]): Record<Word, number> {
  return Object.fromEntries(words.map((word) => [word, 0])) as Record<Word, number>;
}

/** A template to copy: making one from the words costs half as much as a summary. */
const NO_EVENTS = zeros(EVENT_KINDS);

type OutcomeSummary = Pick<RunSummary, 'outcome' | 'outcomeAt' | 'outcomesDiffer'>;
const NO_OUTCOME: OutcomeSummary = { outcome: 'none', outcomeAt: null, outcomesDiffer: false };

function outcomeOf({ metadata, outcomes }: AssembledRun): OutcomeSummary {
  const last = metadata.events.findLast(({ event }) => event.kind === 'outcome');
  if (last === undefined) return NO_OUTCOME;
  const earliest = { received: Infinity, sender: Infinity };
  for (const timed of metadata.events) {
    if (timed.event.kind !== 'outcome') continue;
    const { received, sender } = momentOf(timed);
    earliest.received = Math.min(earliest.received, received);
    earliest.sender = Math.min(earliest.sender, sender);
  }
  const words = outcomes.map(({ body }) =>
    outcomeWord(memberIn(body && sentIn(body, 'outcome'), OUTCOME_TYPE)),
  );
  return {
    outcome: last.body === undefined ? 'unreadable' : (words.at(-1) ?? 'unreadable'),
    outcomeAt: { last: momentOf(last), earliest },
    outcomesDiffer: words.some((word) => word !== words[0]),
  };
}

type FeedbackSummary = Pick<RunSummary, 'feedback' | 'thumbs' | 'ratings' | 'ratingSum'>;
const NO_FEEDBACK: FeedbackSummary = {
  feedback: zeros(FEEDBACK_WORDS),
  thumbs: { up: 0, down: 0 },
  ratings: new Array<number>(MOST_RATING + 1).fill(0),
  ratingSum: 0,
};

function feedbackOf({ metadata, feedback }: AssembledRun): FeedbackSummary {
  const all = metadata.events.filter(({ event }) => event.kind === 'user-feedback').length;
  if (all === 0) return NO_FEEDBACK;
  const words = { ...NO_FEEDBACK.feedback };
  const thumbs = { up: 0, down: 0 };
  const ratings = new Array<number>(MOST_RATING + 1).fill(0);
  let ratingSum = 0;
  for (const { body } of feedback) {
    const said = body && sentIn(body, 'feedback');
    const word = feedbackWord(memberIn(said, FEEDBACK_TYPE));
    words[word]++;
    const sentRating = memberIn(said, RATING_VALUE);
    const rating = numberIn(sentRating);
    // The rating of a thumb means up or down.
    if (word !== 'thumbs' && rating !== undefined && rating >= 0 && rating <= MOST_RATING) {
      const rounded = Math.round(rating);
      const given = ratings[rounded];
      if (given === undefined) throw new RangeError('a rating beyond the scale');
      ratings[rounded] = given + 1;
      ratingSum += rating;
    }
    const thumb = word === 'thumbs' ? thumbOf(memberIn(said, DIRECTION), sentRating) : undefined;
    if (thumb !== undefined) thumbs[thumb]++;
  }
  words.unreadable += all - feedback.length;
  return { feedback: words, thumbs, ratings, ratingSum };
}

function callOf(call: RecordedCall | null): CountedSummary['call'] {
  if (call === null) return null;
  const { ending, status, attempts } = call;
  return { ending, status, attempts };
}

/** The summary of a call in a run with several calls. */
export interface CallSummary extends CountedCall {
  readonly userId: string | null;
  readonly targetId: string | null;
}

const NO_NAMES = { modelId: null, modelVersion: null, userId: null, targetId: null };

/**
 * The calls of a run with several calls, and the ending that belongs to no call; empty if the run's summary
 * covers them.
 */
export function callSummariesOf({ metadata: { calls }, endings }: AssembledRun): CallSummary[] {
  if (calls.length < 2) return [];
  const counted = (number: number, ended: RecordedCall | null) => ({
    ...{ number, ended: callOf(ended), tokens: tokensOf(ended === null ? [] : [ended]) },
  });
  const ofCalls = calls.map(({ start, ended }, place) => {
    const { model, user, target } = objectsOf(start);
    return {
      ...counted(place + 1, ended),
      modelId: nameIn(textOf(model, NAMES.model_id)),
      modelVersion: nameIn(modelVersionOf(model, ended)),
      userId: nameIn(textOf(user, NAMES.caller_id)),
      targetId: nameIn(textOf(target, NAMES.target_id)),
    };
  });
  const others = endings.filter((ending) => calls.every(({ ended }) => ended !== ending));
  return [...others.map((ended) => ({ ...counted(0, ended), ...NO_NAMES })), ...ofCalls];
}
