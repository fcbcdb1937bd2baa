/**
 * A file of records in the making. Records become pieces, which threads can make beside each other; in order, the
 * pieces become the file.
 */
import type { BaseEvent, ClinicalRecord } from '@clinical-events/protocol';
import { recordOf, type AssembledRun } from '../assemble.js';
import { type EventBody, ParsingReader, type EventReader } from '../run-event.js';

/** A part of a file. It can be posted from one thread to another. */
export interface Piece {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly records: number;
  /** Cells that a spreadsheet has no room for. */
  readonly longCells?: number;
  /** What the joiner of its format has to know besides. */
  readonly index?: unknown;
}

export interface PieceBuilder<Body extends EventBody> {
  add(run: AssembledRun<Body>): void;
  /** All that was added since the last time. */
  take(): Piece;
}

export interface PieceJoiner {
  /** @returns what comes next in the file. */
  join(piece: Piece): Uint8Array;
  /** @returns the end of the file. */
  finish(): Uint8Array;
}

/** How one format makes its files. */
export interface FileFormat<Body extends EventBody = EventBody> {
  /** Reads what the builder is given. */
  reader(): EventReader<Body>;
  builder(): PieceBuilder<Body>;
  /** One for each file. */
  joiner(): PieceJoiner;
}

/** For files that are text: what stands before, between and behind the records. */
export interface TextParts {
  readonly head: string;
  readonly between: string;
  readonly tail: string;
  /** In a file without records, instead of head and tail. */
  readonly empty: string;
  /** What stands for a run; empty where nothing does. */
  text(run: AssembledRun<BaseEvent>, tally: Tally): string;
}

/** What is counted while records are written. */
export interface Tally {
  longCells: number;
}

export function textFormat(parts: TextParts): FileFormat<BaseEvent> {
  return {
    reader: () => new ParsingReader(),
    builder: () => new TextBuilder(parts),
    joiner: () => new TextJoiner(parts),
  };
}

/**
 * How a record is written in someone else's format, as one line of JSON without its end: the same line for the same
 * record. docs/reference/records.md has the mapping as a table.
 */
export type RecordDocument = (record: ClinicalRecord) => string;

/** One document a line. */
export function lines(document: RecordDocument): FileFormat<BaseEvent> {
  const text = (run: AssembledRun<BaseEvent>) => document(recordOf(run));
  return textFormat({ head: '', between: '\n', tail: '\n', empty: '', text });
}

/** In UTF-16 units. */
const ENCODE_FROM = 4 << 20;

class TextBuilder implements PieceBuilder<BaseEvent> {
  #text = '';
  #encoded: Buffer[] = [];
  #records = 0;
  #hasText = false;
  #tally: Tally = { longCells: 0 };

  constructor(private readonly parts: TextParts) {}

  /** @throws RangeError that names the record when its text is longer than a string can be. */
  add(run: AssembledRun<BaseEvent>): void {
    this.#records++;
    const text = this.#textOf(run);
    if (text === '') return;
    if (this.#hasText) this.#text += this.parts.between;
    this.#hasText = true;
    this.#text += text;
    // A string has a greatest length, which some large runs together could reach.
    if (this.#text.length >= ENCODE_FROM) this.#encode();
  }

  take(): Piece {
    this.#encode();
    // Not of Node's pool, which belongs to no piece alone and cannot be posted.
    const bytes = new Uint8Array(this.#encoded.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of this.#encoded) {
      bytes.set(part, at);
      at += part.length;
    }
    const piece = { bytes, records: this.#records, ...this.#tally };
    this.#encoded = [];
    this.#records = 0;
    this.#hasText = false;
    this.#tally = { longCells: 0 };
    return piece;
  }

  #textOf(run: AssembledRun<BaseEvent>): string {
    try {
      return this.parts.text(run, this.#tally);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      const { record_id, events } = run.metadata;
      throw new RangeError(
        `the record ${record_id} of ${events.length} events is too large for one text: export it as Parquet, or the others without it`,
        { cause: error },
      );
    }
  }

  #encode(): void {
    if (this.#text === '') return;
    this.#encoded.push(Buffer.from(this.#text));
    this.#text = '';
  }
}

class TextJoiner implements PieceJoiner {
  #begun = false;

  constructor(private readonly parts: TextParts) {}

  join({ bytes }: Piece): Uint8Array {
    if (bytes.length === 0) return bytes;
    const before = this.#begun ? this.parts.between : this.parts.head;
    this.#begun = true;
    return before === '' ? bytes : Buffer.concat([Buffer.from(before), bytes]);
  }

  finish(): Uint8Array {
    return Buffer.from(this.#begun ? this.parts.tail : this.parts.empty);
  }
}
