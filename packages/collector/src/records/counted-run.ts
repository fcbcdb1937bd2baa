/** Values of a run for the report. */
import type { Completeness, Conflict, EventKind, RecordedCall, Tokens } from '@clinical-events/protocol';
import type { Clock, FeedbackWord, OutcomeWord } from './vocabulary.js';

export type CallEnding = RecordedCall['ending'];
export type Missing = Completeness['missing'][number];
/** A kind of conflict, or a rule of clock_disorder. */
export type ConflictWord = Exclude<Conflict['kind'], 'clock_disorder'> | NonNullable<Conflict['rule']>;

/** Times in milliseconds since 1970, by either clock. */
type Moment = Readonly<Record<Clock, number>>;

/** Times at which the events of a record were received and sent. */
export interface EventTimes {
  readonly received: { readonly first: number; readonly last: number };
  readonly sent: { readonly first: number; readonly last: number };
  /** Number of events with an unreadable payload. */
  readonly unreadable: number;
  /** Number of other events whose two times differ by more than a day. */
  readonly apart: number;
}

/** A call of a run with several calls, or an ending of events that belong to no call. */
export interface CountedCall {
  /** The number of the call from 1, in canonical order; 0 for the ending without a call. */
  readonly number: number;
  /** Null if no start names one. */
  readonly modelId: string | null;
  readonly modelVersion: string | null;
  readonly ended: CountedSummary['call'];
  readonly tokens: CountedSummary['tokens'];
}

/** The counted values of a record in the catalogue (catalogue/run-summary.ts). */
export interface CountedRun {
  readonly organisation: string;
  /** False for a record without a run. */
  readonly isRun: boolean;
  readonly began: Moment;
  /** Null if no start names one. */
  readonly modelId: string | null;
  readonly modelVersion: string | null;
  readonly summary: CountedSummary;
  /** Empty for a run with at most one call, whose summary has all values. */
  readonly calls: readonly CountedCall[];
  /** Calls `visit` for each event; `sentAt` is undefined if the payload is unreadable. */
  eachEvent(visit: (kind: EventKind, receivedAt: number, sentAt: number | undefined) => void): void;
}

export interface CountedSummary {
  readonly counts: Readonly<Record<EventKind, number>>;
  readonly times: EventTimes;
  /** The last outcome. */
  readonly outcome: OutcomeWord;
  /** Null without an outcome. */
  readonly outcomeAt: { readonly earliest: Moment } | null;
  readonly outcomesDiffer: boolean;
  readonly feedback: Readonly<Record<FeedbackWord, number>>;
  readonly thumbs: { readonly up: number; readonly down: number };
  readonly ratings: readonly number[];
  readonly ratingSum: number;
  /** The last ending. */
  readonly call: Pick<RecordedCall, 'ending' | 'status' | 'attempts'> | null;
  /** The tokens of all calls together. */
  readonly tokens: Tokens;
  readonly latencyMs: number | null;
  readonly level: Completeness['level'];
  readonly missing: readonly Missing[];
  readonly conflicts: readonly ConflictWord[];
  /** Number of events with a number that was sent as text. */
  readonly numbersInText: number;
}
