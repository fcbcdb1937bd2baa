/**
 * A file of records in the making. Records become pieces, which threads can make beside each other; in order, the
 * pieces become the file.
 */
import type { ClinicalRecord } from '@clinical-events/protocol';
import type { RecordFormat } from './record-format.js';

/** A part of a file. It can be posted from one thread to another. */
export interface Piece {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly records: number;
  /** What the joiner of its format has to know besides. */
  readonly index?: unknown;
}

export interface PieceBuilder {
  add(record: ClinicalRecord): void;
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
export interface FileFormat {
  builder(): PieceBuilder;
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
  text(record: ClinicalRecord): string;
}

export function textFormat(parts: TextParts): FileFormat {
  return { builder: () => new TextBuilder(parts), joiner: () => new TextJoiner(parts) };
}

/** One document a line. */
export function lines({ document }: Pick<RecordFormat, 'document'>): FileFormat {
  return textFormat({ head: '', between: '\n', tail: '\n', empty: '', text: document });
}

class TextBuilder implements PieceBuilder {
  #text = '';
  #records = 0;

  constructor(private readonly parts: TextParts) {}

  add(record: ClinicalRecord): void {
    if (this.#records > 0) this.#text += this.parts.between;
    this.#text += this.parts.text(record);
    this.#records++;
  }

  take(): Piece {
    const bytes = new TextEncoder().encode(this.#text);
    const records = this.#records;
    this.#text = '';
    this.#records = 0;
    return { bytes, records };
  }
}

class TextJoiner implements PieceJoiner {
  #begun = false;

  constructor(private readonly parts: TextParts) {}

  join({ bytes, records }: Piece): Uint8Array {
    if (records === 0) return bytes;
    const before = this.#begun ? this.parts.between : this.parts.head;
    this.#begun = true;
    return before === '' ? bytes : Buffer.concat([Buffer.from(before), bytes]);
  }

  finish(): Uint8Array {
    return Buffer.from(this.#begun ? this.parts.tail : this.parts.empty);
  }
}
