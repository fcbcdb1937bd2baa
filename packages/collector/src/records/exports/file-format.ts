/**
 * Formats of files of records. Records become pieces, which threads can make concurrently; in order, the
 * pieces become the file.
 */
import type { BaseEvent, ClinicalRecord } from '@clinical-events/protocol';
import { recordOf, type AssembledRun } from '../assemble.js';
import { type EventBody, ParsingReader, type EventReader } from '../run-event.js';

/** A part of a file, which can be posted between threads. */
export interface Piece {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly records: number;
  /** Number of cells that exceed a spreadsheet's limit. */
  readonly longCells?: number;
  /** Data that the joiner of the format needs. */
  readonly index?: unknown;
}

export interface PieceBuilder<Body extends EventBody> {
  add(run: AssembledRun<Body>): void;
  /** Returns all data since the last call. */
  take(): Piece;
}

export interface PieceJoiner {
  /** @returns the next part of the file. */
  join(piece: Piece): Uint8Array;
  /** @returns the end of the file. */
  finish(): Uint8Array;
}

/** A format of files. */
export interface FileFormat<Body extends EventBody = EventBody> {
  /** Reads events for the builder. */
  reader(): EventReader<Body>;
  builder(): PieceBuilder<Body>;
  /** Makes a joiner, which joins one file. */
  joiner(): PieceJoiner;
}

/** Text before, between and after the records of a text format. */
export interface TextParts {
  readonly head: string;
  readonly between: string;
  readonly tail: string;
  /** The file without records, in place of head and tail. */
  readonly empty: string;
  /** The text of a run; may be empty. */
  text(run: AssembledRun<BaseEvent>, tally: Tally): string;
}

/** Counts while records are written. */
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
 * Writes a record in another format, as one line of JSON without a line feed: a pure function.
 * docs/reference/records.md has the mapping as a table.
 */
export type RecordDocument = (record: ClinicalRecord) => string;

/** One document per line. */
export function lines(document: RecordDocument): FileFormat<BaseEvent> {
  const text = (run: AssembledRun<BaseEvent>) => document(recordOf(run));
  return textFormat({ head: '', between: '\n', tail: '\n', empty: '', text });
}

/** Length of text, in UTF-16 units, from which it is encoded. */
const ENCODE_FROM = 4 << 20;

class TextBuilder implements PieceBuilder<BaseEvent> {
  #text = '';
  #encoded: Buffer[] = [];
  #records = 0;
  #hasText = false;
  #tally: Tally = { longCells: 0 };

  constructor(private readonly parts: TextParts) {}

  /** @throws RangeError that names the record if its text exceeds the length of a string. */
  add(run: AssembledRun<BaseEvent>): void {
    this.#records++;
    const text = this.#textOf(run);
    if (text === '') return;
    if (this.#hasText) this.#text += this.parts.between;
    this.#hasText = true;
    this.#text += text;
    // Several large runs together could exceed the length of a string.
    if (this.#text.length >= ENCODE_FROM) this.#encode();
  }

  take(): Piece {
    this.#encode();
    // Not from Node's buffer pool, which cannot be posted.
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
        `the record ${record_id} of ${events.length} events is too large for one text: export it as ` +
          'Parquet, or the others without it',
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
