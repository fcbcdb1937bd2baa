/** What the main thread and those that make records say to each other. Nothing of a payload but finished pieces. */
import { beganBySender } from '../../catalogue/catalogue.js';
import type { AssembledRun } from '../../records/assemble.js';
import type { FileFormat, Piece, PieceBuilder } from '../../records/exports/file-format.js';
import type { FormatOptions } from '../../records/exports/formats.js';
import type { Clock } from '../../records/vocabulary.js';
import type { EventBody } from '../../records/run-event.js';

export interface ThreadSettings {
  readonly dataDir: string;
  /** As `--format` names it. */
  readonly format: string;
  readonly options: FormatOptions;
  /** The clock by whose days records go to files; undefined when they all go to one. */
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
  /** Where their events are: the `at` and the `size` of each, one behind the other. */
  readonly places: Float64Array<ArrayBuffer>;
  /** Where those of each record end. */
  readonly ends: readonly number[];
  /** Of the records that are linked, by their number. */
  readonly links: ReadonlyMap<number, Linked>;
}

/** To the thread: something to do, or where the events are that it asked for. */
export type ThreadMessage =
  | { readonly job: Job }
  /** In the order of the question; undefined for an event that the log does not have. */
  | { readonly runs: readonly (string | null | undefined)[] };

/** From the thread: what it has made of a job, or something that it asks. */
export type ThreadAnswer =
  { readonly pieces: readonly PlacedPiece[] } | { readonly questions: readonly Question[] };

/** A parent that is not of the run of the event that names it. */
export interface Question {
  readonly organisation: string;
  readonly eventId: string;
}

/* Records as pieces of a file, or of a file a day. The same in a thread of its own as in the main one. */

/** Neighbours of one file. */
export interface PlacedPiece extends Piece {
  /** The UTC day, such as 2026-01-31; empty when all goes to one file. */
  readonly day: string;
  readonly events: number;
  /** Records with a text in which something was replaced. */
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

  /** All pieces of what was added since the last time, in order. */
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

/** The UTC day on which a record began by a clock; that of receipt where no year of four digits has it. */
function dayOf({ metadata, start }: AssembledRun, clock: Clock | undefined): string {
  if (clock === undefined) return '';
  const days = clock === 'sender' ? [new Date(beganBySender(metadata.events, start)).toISOString()] : [];
  const began = days.find((day) => /^\d{4}-/.test(day) && !day.startsWith('0000'));
  return (began ?? metadata.first_received_at).slice(0, 'YYYY-MM-DD'.length);
}
