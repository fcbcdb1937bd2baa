/**
 * Messages between the main thread and the threads that make records. Only finished pieces contain payloads.
 */
import { beganBySender } from '../../catalogue/catalogue.js';
import type { AssembledRun } from '../../records/assemble.js';
import type { FileFormat, Piece, PieceBuilder } from '../../records/exports/file-format.js';
import type { FormatOptions } from '../../records/exports/formats.js';
import type { Clock } from '../../records/vocabulary.js';
import type { EventBody } from '../../records/run-event.js';

export interface ThreadSettings {
  readonly dataDir: string;
  /** The name for `--format`. */
  readonly format: string;
  readonly options: FormatOptions;
  /** The clock that selects the day of a record; undefined if all records go to one file. */
  readonly dayBy: Clock | undefined;
}

/** A record's links to others. */
export interface Linked {
  /** The run that it is nested in, null if that record has no run, undefined if it is not nested. */
  readonly parent: string | null | undefined;
  readonly children: readonly string[];
  readonly cycle: readonly string[];
}

/** Records in order. */
export interface Job {
  /** Places of their events: `at` and `size` of each, alternating. */
  readonly places: Float64Array<ArrayBuffer>;
  /** The end of each record in `places`. */
  readonly ends: readonly number[];
  /** Links by the number of the record; only of linked records. */
  readonly links: ReadonlyMap<number, Linked>;
}

/** A message to the thread: a job, or the answer to its questions. */
export type ThreadMessage =
  | { readonly job: Job }
  /** The runs, in the order of the questions; undefined for an event that the log does not have. */
  | { readonly runs: readonly (string | null | undefined)[] };

/** A message from the thread: the result of a job, or questions. */
export type ThreadAnswer =
  { readonly pieces: readonly PlacedPiece[] } | { readonly questions: readonly Question[] };

/** A parent event outside the run of the event that names it. */
export interface Question {
  readonly organisation: string;
  readonly eventId: string;
}

/* Records as pieces of a file, or of one file per day; used in threads and on the main thread. */

/** A piece of consecutive records for one file. */
export interface PlacedPiece extends Piece {
  /** The UTC day, such as 2026-01-31; empty if all records go to one file. */
  readonly day: string;
  readonly events: number;
  /** Number of records with replaced text. */
  readonly replaced: number;
}

export class PieceMaker {
  readonly #builder: PieceBuilder<EventBody>;
  #done: PlacedPiece[] = [];
  #day = '';
  #records = 0;
  #events = 0;
  #replaced = 0;

  constructor(
    format: FileFormat,
    private readonly dayBy: Clock | undefined,
  ) {
    this.#builder = format.builder();
  }

  add(run: AssembledRun): void {
    const day = dayOf(run, this.dayBy);
    if (day !== this.#day) this.#end();
    this.#day = day;
    this.#builder.add(run);
    this.#records++;
    this.#events += run.metadata.events.length;
    if (run.metadata.completeness.replaced_text.length > 0) this.#replaced++;
  }

  /** All pieces since the last call, in order. */
  take(): PlacedPiece[] {
    this.#end();
    const done = this.#done;
    this.#done = [];
    return done;
  }

  #end(): void {
    if (this.#records === 0) return;
    this.#done.push({
      ...this.#builder.take(),
      day: this.#day,
      events: this.#events,
      replaced: this.#replaced,
    });
    this.#records = 0;
    this.#events = 0;
    this.#replaced = 0;
  }
}

/** The UTC day on which a record began, or was received if the sender's year does not have four digits. */
function dayOf({ metadata, start }: AssembledRun, clock: Clock | undefined): string {
  if (clock === undefined) return '';
  const days = clock === 'sender' ? [new Date(beganBySender(metadata.events, start)).toISOString()] : [];
  const began = days.find((day) => /^\d{4}-/.test(day) && !day.startsWith('0000'));
  return (began ?? metadata.first_received_at).slice(0, 'YYYY-MM-DD'.length);
}
