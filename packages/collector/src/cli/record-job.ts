/** What the main thread and those that make records say to each other. Nothing of a payload but finished pieces. */
import type { Clock } from '../records/report/run-moments.js';
import type { PlacedPiece } from './record-pieces.js';

export interface ThreadSettings {
  readonly dataDir: string;
  /** As `--format` names it. */
  readonly format: string;
  /** The clock by whose days the records are told apart; undefined when they all go to one file. */
  readonly dayBy: Clock | undefined;
}

/** What links a record to others. */
export interface Linked {
  /** The run of what it is nested in, or null when that is none; undefined when it is nested in nothing. */
  readonly parent: string | null | undefined;
  readonly children: readonly string[];
  readonly cycle: readonly string[];
}

/** Some records in their order. */
export interface Job {
  /** What the catalogue has packed of their events, one behind the other. */
  readonly entries: Uint8Array<ArrayBuffer>;
  /** Where that of each record ends. */
  readonly ends: readonly number[];
  /** Of the records that are linked, by their number. */
  readonly links: ReadonlyMap<number, Linked>;
}

/** To the thread: something to do, or where the events are that it asked for. */
export type Told =
  | { readonly job: Job }
  /** In the order of the question; undefined for an event that the log does not have. */
  | { readonly runs: readonly (string | null | undefined)[] };

/** A parent that is not of the run of the event that names it. */
export interface Question {
  readonly organisation: string;
  readonly eventId: string;
}

/** From the thread. */
export type Answer =
  { readonly questions: readonly Question[] } | { readonly pieces: readonly PlacedPiece[] };
