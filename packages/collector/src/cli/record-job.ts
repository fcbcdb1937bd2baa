/** What the main thread and those that make records say to each other. Nothing of a payload but finished pieces. */
import type { Linked } from '../records/run-groups.js';
import type { Clock } from '../records/report/run-moments.js';
import type { PlacesShare } from '../store/open.js';
import type { RecordFilter } from './record-arguments.js';
import type { PlacedPiece } from './record-pieces.js';

export interface ThreadSettings {
  readonly dataDir: string;
  /** As `--format` names it. */
  readonly format: string;
  readonly filter: RecordFilter;
  /** The clock whose days the files are of; undefined when all goes to one file. */
  readonly daysBy: Clock | undefined;
  readonly places: PlacesShare;
}

/** Some runs, as they follow each other in the log. */
export interface Job {
  /** As RunList has them. */
  readonly entries: Uint8Array;
  /** Of the runs that others are nested in, or that are nested in each other in a circle, by their number. */
  readonly links: readonly Linked[];
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
  | { readonly questions: readonly Question[] }
  | { readonly pieces: readonly PlacedPiece[]; readonly passed: number };
