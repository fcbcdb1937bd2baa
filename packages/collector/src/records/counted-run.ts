/** What the report counts of a run. */
import type { Completeness, Conflict, EventKind, RecordedCall, Tokens } from '@clinical-events/protocol';
import type { Clock, FeedbackWord, OutcomeWord } from './vocabulary.js';

export type CallEnding = RecordedCall['ending'];
export type Missing = Completeness['missing'][number];
/** A kind of conflict, or a rule of clock_disorder. */
export type ConflictWord = Exclude<Conflict['kind'], 'clock_disorder'> | NonNullable<Conflict['rule']>;

/** Times in milliseconds since 1970, by either clock. */
type Moment = Readonly<Record<Clock, number>>;

/** When the events of a record came and were sent. */
export interface EventTimes {
  readonly received: { readonly first: number; readonly last: number };
  readonly sent: { readonly first: number; readonly last: number };
  /** Events whose payload cannot be read. */
  readonly unreadable: number;
  /** Others whose two times are more than a day apart. */
  readonly apart: number;
}

/** A call of a run of several, or what was said of an ending by events that are of no call. */
export interface CountedCall {
  /** From 1, in canonical order; 0 where it is no call. */
  readonly number: number;
  /** Null where no start names one. */
  readonly modelId: string | null;
  readonly modelVersion: string | null;
  readonly ended: CountedSummary['call'];
  readonly tokens: CountedSummary['tokens'];
}

/** What is counted of a record, as the catalogue has it (catalogue/run-summary.ts). */
export interface CountedRun {
  readonly organisation: string;
  /** False for a record without a run. */
  readonly isRun: boolean;
  readonly began: Moment;
  /** Null where no start names one. */
  readonly modelId: string | null;
  readonly modelVersion: string | null;
  readonly summary: CountedSummary;
  /** Empty where the summary says all: of a run of one call at most. */
  readonly calls: readonly CountedCall[];
  /** Calls for each event; `sentAt` is undefined when the payload cannot be read. */
  eachEvent(visit: (kind: EventKind, receivedAt: number, sentAt: number | undefined) => void): void;
}

export interface CountedSummary {
  readonly counts: Readonly<Record<EventKind, number>>;
  readonly times: EventTimes;
  /** The last. */
  readonly outcome: OutcomeWord;
  /** Null when there is none. */
  readonly outcomeAt: { readonly earliest: Moment } | null;
  readonly outcomesDiffer: boolean;
  readonly feedback: Readonly<Record<FeedbackWord, number>>;
  readonly thumbs: { readonly up: number; readonly down: number };
  readonly ratings: readonly number[];
  readonly ratingSum: number;
  /** The last. */
  readonly call: Pick<RecordedCall, 'ending' | 'status' | 'attempts'> | null;
  /** Of all calls. */
  readonly tokens: Tokens;
  readonly latencyMs: number | null;
  readonly level: Completeness['level'];
  readonly missing: readonly Missing[];
  readonly conflicts: readonly ConflictWord[];
  /** Events with a number that was sent as a text. */
  readonly numbersInText: number;
}
