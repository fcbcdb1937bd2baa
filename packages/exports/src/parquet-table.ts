/**
 * The table of a Parquet file (values, lists of texts, lists of structs), its schema, and buffers for its
 * columns.
 */
import { randomBytes } from 'node:crypto';
import type { SchemaElement } from 'hyparquet-writer';
import type { Text } from '@clinical-events/collector/records/run-event';

const FIRST_BYTES = 1 << 10;

/** A reusable append-only buffer that grows. */
export class GrowingBytes {
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #view = viewOf(this.#bytes);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** A view of the bytes since the last {@link clear}, valid until the next append. */
  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** The underlying buffer, which is larger and is replaced when it grows. */
  get buffer(): Buffer {
    return this.#bytes;
  }

  clear(): void {
    this.#length = 0;
  }

  byte(value: number): void {
    const at = this.#grown(1);
    this.#bytes[at] = value;
  }

  int32(value: number): void {
    const at = this.#grown(4);
    this.#view.setInt32(at, value, true);
  }

  /** @param value a whole number that a double holds exactly. */
  int64(value: number): void {
    const at = this.#grown(8);
    const high = Math.floor(value / 0x1_0000_0000);
    this.#view.setUint32(at, value - high * 0x1_0000_0000, true);
    this.#view.setInt32(at + 4, high, true);
  }

  double(value: number): void {
    const at = this.#grown(8);
    this.#view.setFloat64(at, value, true);
  }

  /** The length in four bytes, then UTF-8. A lone surrogate becomes U+FFFD. */
  text(value: string): void {
    // A UTF-16 unit has at most three bytes in UTF-8.
    const at = this.#grown(4 + 3 * value.length);
    const written = this.#bytes.write(value, at + 4, 'utf8');
    this.#view.setUint32(at, written, true);
    this.#length = at + 4 + written;
  }

  /** Like {@link text}, for UTF-8 in a buffer. */
  slice(bytes: Buffer, from: number, to: number): void {
    const length = to - from;
    const at = this.#grown(4 + length);
    this.#view.setUint32(at, length, true);
    bytes.copy(this.#bytes, at + 4, from, to);
  }

  /** Like {@link text}, without the length. */
  utf8(value: string): void {
    const at = this.#grown(3 * value.length);
    this.#length = at + this.#bytes.write(value, at, 'utf8');
  }

  /** Makes room. @returns its position. */
  #grown(by: number): number {
    const at = this.#length;
    this.#length += by;
    if (this.#length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.#length, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, at);
      this.#bytes = larger;
      this.#view = viewOf(larger);
    }
    return at;
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

const FIRST_SLOTS = 1 << 10;
/**
 * Maximum number of slots that a search tries. Texts crafted to collide would otherwise cost a full search;
 * beyond the limit a text is added again, which the format allows.
 */
const MOST_PROBES = 64;
const LENGTH_BYTES = 4;
const SEED = randomBytes(4).readInt32LE();

/** The dictionary of a column chunk: texts by their bytes, in the order in which they were added. */
export class TextDictionary {
  /** The texts in the form of a page: each with its length in four bytes. */
  readonly #texts = new GrowingBytes();
  /** The position and the hash of each text. */
  readonly #starts: number[] = [];
  readonly #hashes: number[] = [];
  /** Indices plus one; 0 is a free slot. */
  #slots = new Int32Array(FIRST_SLOTS);
  #crowded = false;

  get size(): number {
    return this.#starts.length;
  }

  /** Whether a text may have been added twice. */
  get isCrowded(): boolean {
    return this.#crowded;
  }

  /** A view, valid until the next text is added. */
  bytes(): Buffer {
    return this.#texts.bytes();
  }

  clear(): void {
    this.#texts.clear();
    this.#starts.length = 0;
    this.#hashes.length = 0;
    this.#slots.fill(0);
    this.#crowded = false;
  }

  /** @returns the index of a text, which is added if it is new. */
  placeOf(bytes: Buffer, from: number, to: number): number {
    const hash = hashOf(bytes, from, to);
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    let probes = 0;
    for (; probes < MOST_PROBES && this.#slots[slot] !== 0; probes++) {
      const place = (this.#slots[slot] ?? 0) - 1;
      if (this.#hashes[place] === hash && this.is(place, bytes, from, to)) return place;
      slot = (slot + 1) & mask;
    }
    if (probes < MOST_PROBES) this.#slots[slot] = this.size + 1;
    else this.#crowded = true;
    this.#starts.push(this.#texts.length);
    this.#hashes.push(hash);
    this.#texts.slice(bytes, from, to);
    if (2 * this.size > this.#slots.length) this.#grow();
    return this.size - 1;
  }

  /** Appends the text at an index with its length in four bytes. */
  copy(place: number, to: GrowingBytes): void {
    const start = (this.#starts[place] ?? 0) + LENGTH_BYTES;
    to.slice(this.#texts.buffer, start, this.#starts[place + 1] ?? this.#texts.length);
  }

  /** Whether the bytes are the text at that index. */
  is(place: number, bytes: Buffer, from: number, to: number): boolean {
    const texts = this.#texts.buffer;
    const start = (this.#starts[place] ?? 0) + LENGTH_BYTES;
    const end = this.#starts[place + 1] ?? this.#texts.length;
    if (end - start !== to - from) return false;
    for (let at = from, own = start; at < to; at++, own++) if (bytes[at] !== texts[own]) return false;
    return true;
  }

  #grow(): void {
    const slots = new Int32Array(2 * this.#slots.length);
    const mask = slots.length - 1;
    for (let place = 0; place < this.size; place++) {
      let slot = (this.#hashes[place] ?? 0) & mask;
      let probes = 0;
      for (; probes < MOST_PROBES && slots[slot] !== 0; probes++) slot = (slot + 1) & mask;
      if (probes < MOST_PROBES) slots[slot] = place + 1;
    }
    this.#slots = slots;
  }
}

/** FNV-1a of four bytes at a time, with a random seed for each process. */
function hashOf(bytes: Buffer, from: number, to: number): number {
  let hash = SEED;
  let at = from;
  for (; at + 4 <= to; at += 4) {
    const word =
      (bytes[at] ?? 0) |
      ((bytes[at + 1] ?? 0) << 8) |
      ((bytes[at + 2] ?? 0) << 16) |
      ((bytes[at + 3] ?? 0) << 24);
    hash = mixed(hash ^ word);
  }
  for (; at < to; at++) hash = mixed(hash ^ (bytes[at] ?? 0));
  return hash;
}

function mixed(hash: number): number {
  const product = Math.imul(hash, 0x0100_0193);
  return product ^ (product >>> 15);
}

/** `time` is in milliseconds since 1970 UTC, `count` a whole number below 2^31, `flag` a boolean. */
export type ValueType = 'text' | 'number' | 'count' | 'time' | 'flag';

export interface Value<Source> {
  readonly name: string;
  readonly type: ValueType;
  /** A text for `text`, a boolean for `flag`, else a number; undefined for null. */
  readonly of: (source: Source) => Text | number | boolean | undefined;
}

export interface Texts<Row> {
  readonly name: string;
  readonly type: 'texts';
  readonly of: (row: Row) => readonly string[] | undefined;
}

export interface Structs<Row, Entry = never> {
  readonly name: string;
  readonly type: 'structs';
  readonly of: (row: Row) => readonly Entry[];
  readonly members: readonly Value<Entry>[];
}

/** A field that is a list of structs. */
export function structs<Row, Entry>(
  name: string,
  of: (row: Row) => readonly Entry[],
  members: readonly Value<Entry>[],
): Structs<Row> {
  // `of` and `members` agree on the type of the entries.
  return { name, type: 'structs', of, members } as unknown as Structs<Row>;
}

export type Field<Row> = Value<Row> | Texts<Row> | Structs<Row>;

export interface Table<Row> {
  readonly name: string;
  readonly fields: readonly Field<Row>[];
}

/** The schema in depth-first order, each group with the number of its children. */
export function schemaOf<Row>({ name, fields }: Table<Row>): SchemaElement[] {
  return [{ name, num_children: fields.length }, ...fields.flatMap((field) => elementsOf(field))];
}

function elementsOf<Row>(field: Field<Row>): SchemaElement[] {
  switch (field.type) {
    case 'texts':
      return [...listHead(field.name), { ...leafOf('element', 'text'), repetition_type: 'REQUIRED' }];
    case 'structs':
      return [
        ...listHead(field.name),
        { name: 'element', repetition_type: 'REQUIRED', num_children: field.members.length },
        ...field.members.map(({ name, type }) => leafOf(name, type)),
      ];
    default:
      return [leafOf(field.name, field.type)];
  }
}

/** A list has three levels (LogicalTypes.md, "Lists"). */
function listHead(name: string): SchemaElement[] {
  return [
    { name, repetition_type: 'REQUIRED', converted_type: 'LIST', num_children: 1 },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
  ];
}

export function leafOf(name: string, type: ValueType): SchemaElement {
  switch (type) {
    case 'text':
      return { name, type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' };
    case 'number':
      return { name, type: 'DOUBLE', repetition_type: 'OPTIONAL' };
    case 'count':
      return { name, type: 'INT32', repetition_type: 'OPTIONAL' };
    case 'flag':
      return { name, type: 'BOOLEAN', repetition_type: 'OPTIONAL' };
    case 'time':
      return {
        name,
        type: 'INT64',
        converted_type: 'TIMESTAMP_MILLIS',
        logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
        repetition_type: 'OPTIONAL',
      };
  }
}
