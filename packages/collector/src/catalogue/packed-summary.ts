/**
 * A summary as its row has it: what is filtered by in columns, among them the marks, and the rest packed.
 *
 *   marks   bits 0-1 level, 2-4 outcome, 5 any conflict, 6 a failed call, 7-12 words of feedback, 13 thumbs up, 14 down,
 *           15 no start; from 16 on how many of its events are orphans
 *   packed  which of the optional pieces there are; missing; conflicts; counts by kind; when the collector had the
 *           last event; and the pieces: times against when the record began, by the same clock
 */
import type { DatabaseSync } from 'node:sqlite';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { CALL_ENDINGS } from '../records/gaps.js';
import { type ConflictWord, type Missing } from '../records/counted-run.js';
import { FEEDBACK_WORDS, type FeedbackWord, OUTCOME_WORDS, type OutcomeWord } from '../records/vocabulary.js';
import { PackedReader, type PackedWriter } from './packing.js';
import { type CallSummary, MOST_RATING, type Moment, type RunSummary } from './run-summary.js';

/** Final as places, as all lists here are: append only, or count up the version of the catalogue. */
export const LEVELS = ['full', 'minimum', 'incomplete', 'retired'] as const;
const MISSING: readonly Missing[] = [
  'inference-start',
  'model',
  'user',
  'target',
  'inputs',
  'output',
  'output_uri',
  'outcome',
  'feedback',
  'parent',
  'payload',
];
const CONFLICTS: readonly ConflictWord[] = [
  'second_start',
  'parent_cycle',
  'run_cycle',
  'parent_in_other_run',
  'before_start',
  'before_parent',
  'ahead_of_receipt',
];

export const MARKS = { level: 3, outcome: 28, conflict: 32, failed: 64, noStart: 1 << 15 } as const;
/** What one orphan adds to the marks. They may have more bits than JavaScript shifts. */
const ORPHAN = 1 << 16;
const OUTCOME_SHIFT = 2;
const FEEDBACK_SHIFT = 7;
const THUMBS = { up: 1 << 13, down: 1 << 14 } as const;

export function outcomeMark(word: OutcomeWord): number {
  return OUTCOME_WORDS.indexOf(word) << OUTCOME_SHIFT;
}

/** @param word `up` and `down` are thumbs. */
export function feedbackMark(word: FeedbackWord | 'up' | 'down'): number {
  return word === 'up' || word === 'down'
    ? THUMBS[word]
    : 1 << (FEEDBACK_SHIFT + FEEDBACK_WORDS.indexOf(word));
}

export function marksOf(summary: RunSummary): number {
  let marks = LEVELS.indexOf(summary.level) | outcomeMark(summary.outcome);
  if (summary.conflicts.length > 0) marks |= MARKS.conflict;
  if (summary.call?.ending === 'failed') marks |= MARKS.failed;
  for (const word of FEEDBACK_WORDS) if (summary.feedback[word] > 0) marks |= feedbackMark(word);
  for (const thumb of ['up', 'down'] as const) if (summary.thumbs[thumb] > 0) marks |= THUMBS[thumb];
  if (summary.missing.includes('inference-start')) marks |= MARKS.noStart;
  return marks + ORPHAN * summary.orphanEvents;
}

const PIECE = {
  sent: 1,
  outcome: 2,
  outcomesDiffer: 4,
  feedback: 8,
  call: 16,
  latency: 32,
  texts: 64,
} as const;

function maskOf<Word>(words: readonly Word[], all: readonly Word[]): number {
  return words.reduce((mask, word) => mask | (1 << all.indexOf(word)), 0);
}

/** The words of masks: made once for each, as there are few and millions of summaries. */
class MaskedWords<Word> {
  readonly #known = new Map<number, readonly Word[]>();

  constructor(private readonly all: readonly Word[]) {}

  of(mask: number): readonly Word[] {
    let words = this.#known.get(mask);
    if (words === undefined) {
      words = this.all.filter((_, place) => (mask & (1 << place)) !== 0);
      this.#known.set(mask, words);
    }
    return words;
  }
}

const MISSING_IN = new MaskedWords(MISSING);
const CONFLICTS_IN = new MaskedWords(CONFLICTS);

function hasFeedback({ feedback }: RunSummary): boolean {
  return FEEDBACK_WORDS.some((word) => feedback[word] > 0);
}

export function packSummary(writer: PackedWriter, summary: RunSummary): void {
  const { sent, began, outcomeAt, call, latencyMs, numbersInText } = summary;
  const isAnswered = hasFeedback(summary);
  writer.count(
    (sent === null ? 0 : PIECE.sent) |
      (outcomeAt === null ? 0 : PIECE.outcome) |
      (summary.outcomesDiffer ? PIECE.outcomesDiffer : 0) |
      (isAnswered ? PIECE.feedback : 0) |
      (call === null ? 0 : PIECE.call) |
      (latencyMs === null ? 0 : PIECE.latency) |
      (numbersInText === 0 ? 0 : PIECE.texts),
  );
  writer.count(maskOf(summary.missing, MISSING));
  writer.count(maskOf(summary.conflicts, CONFLICTS));
  for (const kind of EVENT_KINDS) writer.count(summary.counts[kind]);
  writer.count(summary.lastReceivedAt - began.received);
  if (sent !== null) {
    writer.signed(sent.first - began.sender);
    writer.signed(sent.last - began.sender);
  }
  if (outcomeAt !== null) {
    packMoment(writer, outcomeAt.last, began);
    packMoment(writer, outcomeAt.earliest, began);
  }
  if (isAnswered) packFeedback(writer, summary);
  if (call !== null) packCall(writer, call);
  // It is counted in microseconds (assemble.ts).
  if (latencyMs !== null) writer.optional(Math.round(latencyMs * 1000));
  if (numbersInText > 0) writer.count(numbersInText);
}

function packMoment(writer: PackedWriter, { received, sender }: Moment, began: Moment): void {
  writer.count(received - began.received);
  writer.signed(sender - began.sender);
}

function unpackMoment(reader: PackedReader, began: Moment): Moment {
  return { received: began.received + reader.count(), sender: began.sender + reader.signed() };
}

function packFeedback(writer: PackedWriter, { feedback, thumbs, ratings, ratingSum }: RunSummary): void {
  for (const word of FEEDBACK_WORDS) writer.count(feedback[word]);
  writer.count(thumbs.up);
  writer.count(thumbs.down);
  const rated = ratings.reduce((sum, times) => sum + times, 0);
  writer.count(rated);
  if (rated === 0) return;
  for (const times of ratings) writer.count(times);
  writer.optional(ratingSum);
}

function packCall(writer: PackedWriter, call: CallSummary): void {
  writer.count(CALL_ENDINGS.indexOf(call.ending));
  writer.optional(call.status);
  writer.count(call.attempts);
  writer.optional(call.input_tokens);
  writer.optional(call.output_tokens);
}

function unpackCall(reader: PackedReader): CallSummary {
  return {
    ending: CALL_ENDINGS[reader.count()] ?? 'not read',
    status: reader.optional(),
    attempts: reader.count(),
    input_tokens: reader.optional(),
    output_tokens: reader.optional(),
  };
}

/** In the order of EVENT_KINDS. To make the object kind by kind takes several times as long. */
function unpackKinds(reader: PackedReader): Record<EventKind, number> {
  return {
    'inference-start': reader.count(),
    'internal-artifact': reader.count(),
    'human-output': reader.count(),
    outcome: reader.count(),
    'user-feedback': reader.count(),
  };
}

function unpackFeedback(
  reader: PackedReader,
): Pick<RunSummary, 'feedback' | 'thumbs' | 'ratings' | 'ratingSum'> {
  // In their order, as above.
  const feedback: Record<FeedbackWord, number> = {
    rating: reader.count(),
    thumbs: reader.count(),
    text: reader.count(),
    survey: reader.count(),
    other_words: reader.count(),
    unreadable: reader.count(),
  };
  const thumbs = { up: reader.count(), down: reader.count() };
  if (reader.count() === 0) return { feedback, thumbs, ratings: NO_RATINGS, ratingSum: 0 };
  const ratings = NO_RATINGS.map(() => reader.count());
  return { feedback, thumbs, ratings, ratingSum: reader.optional() ?? 0 };
}

const NO_RATINGS: readonly number[] = new Array<number>(MOST_RATING + 1).fill(0);

/** As many zeros as it is made of. */
const NO_FEEDBACK = unpackFeedback(new PackedReader(new Uint8Array(FEEDBACK_WORDS.length + 3)));

/** What is packed and marked of a summary. The rest stands in columns of its own. */
export type PackedPieces = Omit<
  RunSummary,
  | 'organisation'
  | 'recordId'
  | 'isRun'
  | 'firstSequence'
  | 'lastSequence'
  | 'began'
  | 'modelId'
  | 'modelVersion'
  | 'userId'
  | 'targetId'
  | 'application'
>;

/** @throws CatalogueDamaged for what {@link packSummary} has not made. */
export function unpackSummary(reader: PackedReader, marks: number, began: Moment): PackedPieces {
  const pieces = reader.count();
  const missing = MISSING_IN.of(reader.count() & ((1 << MISSING.length) - 1));
  const conflicts = CONFLICTS_IN.of(reader.count() & ((1 << CONFLICTS.length) - 1));
  const counts = unpackKinds(reader);
  const lastReceivedAt = began.received + reader.count();
  const has = (piece: number) => (pieces & piece) !== 0;
  const sent = has(PIECE.sent)
    ? { first: began.sender + reader.signed(), last: began.sender + reader.signed() }
    : null;
  const outcomeAt = has(PIECE.outcome)
    ? { last: unpackMoment(reader, began), earliest: unpackMoment(reader, began) }
    : null;
  const said = has(PIECE.feedback) ? unpackFeedback(reader) : NO_FEEDBACK;
  const call = has(PIECE.call) ? unpackCall(reader) : null;
  const latencyMs = has(PIECE.latency) ? (reader.optional() ?? 0) / 1000 : null;
  const numbersInText = has(PIECE.texts) ? reader.count() : 0;
  const { feedback, thumbs, ratings, ratingSum } = said;
  // Without a spread, which takes several times as long.
  return {
    feedback,
    thumbs,
    ratings,
    ratingSum,
    missing,
    conflicts,
    counts,
    lastReceivedAt,
    sent,
    outcomeAt,
    call,
    latencyMs,
    numbersInText,
    outcome: OUTCOME_WORDS[(marks & MARKS.outcome) >> OUTCOME_SHIFT] ?? 'none',
    outcomesDiffer: has(PIECE.outcomesDiffer),
    level: LEVELS[marks & MARKS.level] ?? 'incomplete',
    orphanEvents: Math.floor(marks / ORPHAN),
  };
}

/*
 * How many runs began in each hour, by how complete they are: kept with the rows, so that a question costs a row an hour.
 * Anyone who writes rows notes what they add; it is written in the same transaction. Triggers would see to that by
 * themselves, but SQLite then keeps a journal of each statement in a file, which took a third of the time of an update.
 */

/** Counts of runs that have a start, and of events. */
export interface Tally {
  /** When the first of its hours begins, in milliseconds since 1970. */
  readonly since: number;
  readonly full: number;
  readonly minimum: number;
  readonly incomplete: number;
  readonly retired: number;
  /** Of all of these. */
  readonly withoutOutcome: number;
  /** Of records that began then: events whose run has no start, or whose parent is not there. */
  readonly orphanEvents: number;
  /** How many events of the log are taken in, whenever they came. */
  readonly events: number;
}

const HOUR_MS = 3_600_000;
/** The first are by the level of a run, in the order of its marks. */
const COUNTS = [...LEVELS, 'without_outcome', 'orphan_events'] as const;
const [WITHOUT_OUTCOME, ORPHAN_EVENTS] = [LEVELS.length, LEVELS.length + 1];

export const TALLY = `
  -- By the hour in which the collector had the first event of a record, since 1970.
  CREATE TABLE tally (hour INTEGER PRIMARY KEY, ${COUNTS.map((name) => `${name} INTEGER NOT NULL`).join(', ')}) STRICT;
`;
const ADD = `INSERT INTO tally (hour, ${COUNTS.join(', ')}) VALUES (?, ${COUNTS.map(() => '?').join(', ')})
  ON CONFLICT (hour) DO UPDATE SET ${COUNTS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`;

/** What of a row is counted. */
export interface TalliedRow {
  readonly isRun: boolean;
  readonly marks: number;
  readonly beganReceived: number;
}

/** What the rows of a transaction have added so far. */
export class TallyChanges {
  readonly #hours = new Map<number, Float64Array>();

  /** @param sign -1 for a row that is no longer there, or no longer says so. */
  add({ isRun, marks, beganReceived }: TalliedRow, sign: 1 | -1): void {
    const hour = Math.floor(beganReceived / HOUR_MS);
    let sums = this.#hours.get(hour);
    if (sums === undefined) this.#hours.set(hour, (sums = new Float64Array(COUNTS.length)));
    const add = (count: number, value: number) => (sums[count] = (sums[count] ?? 0) + sign * value);
    add(ORPHAN_EVENTS, Math.floor(marks / ORPHAN));
    // A record without a start is no run that began.
    if (!isRun || (marks & MARKS.noStart) !== 0) return;
    add(marks & MARKS.level, 1);
    if ((marks & MARKS.outcome) === outcomeMark('none')) add(WITHOUT_OUTCOME, 1);
  }

  /** On return the table says it too, within the transaction of the caller. */
  write(database: DatabaseSync): void {
    const statement = database.prepare(ADD);
    for (const [hour, sums] of this.#hours) if (sums.some((sum) => sum !== 0)) statement.run(hour, ...sums);
    this.forget();
  }

  forget(): void {
    this.#hours.clear();
  }
}

export function tallyOf(database: DatabaseSync, since: number): Tally {
  const hour = Math.floor(since / HOUR_MS);
  const sums = COUNTS.map((name) => `ifnull(sum(${name}), 0) AS ${name}`).join(', ');
  const sql = `SELECT ${sums}, (SELECT value FROM meta WHERE name = 'events') AS events FROM tally WHERE hour >= ?`;
  const found = database.prepare(sql).get(hour);
  const of = (name: string) => Number(found?.[name] ?? 0);
  return {
    ...{ since: hour * HOUR_MS, full: of('full'), minimum: of('minimum') },
    ...{ incomplete: of('incomplete'), retired: of('retired') },
    ...{ withoutOutcome: of('without_outcome'), orphanEvents: of('orphan_events'), events: of('events') },
  };
}
