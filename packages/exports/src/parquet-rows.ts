/**
 * Rows as a Parquet file: a piece is a row group, which a thread can make for itself. hyparquet-writer makes of the row
 * groups a file: its schema, its index and its frame.
 */
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { Text } from '@clinical-events/collector/records/run-event';
import {
  type Bounds,
  type Chunk,
  Column,
  type ColumnPlace,
  type PageValues,
  type RowGroup,
  Slots,
  hybrid,
} from './parquet-column.js';
import {
  type Field,
  GrowingBytes,
  type Structs,
  type Table,
  TextDictionary,
  type Texts,
  type Value,
  schemaOf,
} from './parquet-table.js';
import type { Piece, PieceJoiner } from '@clinical-events/collector/records/exports/file-format';

/* The columns of numbers and of texts. */

/** Texts that are put before it is asked whether a dictionary pays, and the most that are in one. */
const TRIED_TEXTS = 256;
const MOST_TEXTS = 1 << 14;

/**
 * Texts. They go into a dictionary as long as most of them have been there before; from where they have not, the pages
 * of the chunk have them plain, which the format provides for (Encodings.md, "Dictionary Encoding").
 */
class TextColumn extends Column {
  readonly #dictionary = new TextDictionary();
  readonly #plain = new GrowingBytes();
  readonly #encoded = new GrowingBytes();
  #places: number[] = [];
  #put = 0;
  #lastPlace = 0;
  /** Whether the page in the making has places in the dictionary, and whether another text may come into it. */
  #byPlace = true;
  #open = true;

  put(text: Text): void {
    if (this.slots.begins) this.#between();
    this.define();
    if (this.#byPlace) this.#putPlace(text);
    else if (typeof text === 'string') this.#plain.text(text);
    else this.#plain.slice(text.bytes, text.from, text.to);
  }

  protected values(): PageValues {
    if (!this.#byPlace || this.#dictionary.size === 0)
      return { encoding: 'PLAIN', bytes: this.#plain.bytes() };
    const bitWidth = Math.ceil(Math.log2(this.#dictionary.size));
    const places = hybrid(this.#places, bitWidth);
    const bytes = Buffer.allocUnsafe(1 + places.length);
    bytes[0] = bitWidth;
    bytes.set(places, 1);
    return { encoding: 'RLE_DICTIONARY', bytes };
  }

  protected clearPage(): void {
    this.#plain.clear();
    this.#places = [];
  }

  protected clearChunk(): void {
    this.#dictionary.clear();
    this.#put = 0;
    this.#lastPlace = 0;
    this.#byPlace = this.#open = true;
  }

  protected dictionary(): { texts: number; bytes: Uint8Array } | undefined {
    const texts = this.#dictionary.size;
    return texts === 0 ? undefined : { texts, bytes: this.#dictionary.bytes() };
  }

  protected bounds(): Bounds {
    return {};
  }

  /** Between two rows a page may end. */
  #between(): void {
    if (this.#byPlace && !this.#open) {
      this.endPage();
      this.#byPlace = false;
    } else if (this.isFull(this.#plain.length)) this.endPage();
  }

  #putPlace(text: Text): void {
    if (typeof text === 'string') {
      this.#encoded.clear();
      this.#encoded.utf8(text);
      this.#putBytes(this.#encoded.buffer, 0, this.#encoded.length);
    } else this.#putBytes(text.bytes, text.from, text.to);
  }

  #putBytes(bytes: Buffer, from: number, to: number): void {
    const dictionary = this.#dictionary;
    const known = dictionary.size;
    this.#put++;
    // To see that it is the one before takes half of the time that looking it up does.
    let place = this.#lastPlace;
    if (known === 0 || !dictionary.is(place, bytes, from, to)) place = dictionary.placeOf(bytes, from, to);
    if (
      place === known &&
      (place >= MOST_TEXTS || dictionary.isCrowded || (place >= TRIED_TEXTS && 2 * place > this.#put))
    )
      this.#open = false;
    this.#lastPlace = place;
    this.#places.push(place);
  }
}

class NumberColumn extends Column {
  readonly #type: ColumnPlace['type'];
  readonly #plain = new GrowingBytes();
  #least = Infinity;
  #most = -Infinity;

  constructor(place: ColumnPlace) {
    super(place);
    this.#type = place.type;
  }

  put(value: number): void {
    if (this.isFull(this.#plain.length)) this.endPage();
    this.define();
    if (this.#type === 'time') this.#plain.int64(value);
    else if (this.#type === 'count') this.#plain.int32(value);
    else this.#plain.double(value);
    if (value < this.#least) this.#least = value;
    if (value > this.#most) this.#most = value;
  }

  protected values(): PageValues {
    return { encoding: 'PLAIN', bytes: this.#plain.bytes() };
  }

  protected clearPage(): void {
    this.#plain.clear();
  }

  protected clearChunk(): void {
    this.#least = Infinity;
    this.#most = -Infinity;
  }

  protected dictionary(): undefined {
    return undefined;
  }

  protected bounds(): Bounds {
    const [least, most] = [this.#least, this.#most];
    if (least > most) return {};
    if (this.#type === 'time') return { min_value: BigInt(least), max_value: BigInt(most) };
    // Of a zero it is not known which of both it is (parquet.thrift, ColumnOrder).
    return { min_value: least === 0 ? -0 : least, max_value: most === 0 ? 0 : most };
  }
}

const NOTHING = new Uint8Array(0);

/** Puts one field of each row into its columns. */
interface Filler<Row> {
  readonly slots: Slots;
  readonly columns: readonly Column[];
  add(row: Row): void;
}

/** The library's own, but for `put`, which has its bytes. Offsets are from where the bytes of the piece begin. */
export class RowGroupBuilder<Row> {
  readonly #fillers: readonly Filler<Row>[];
  #rows = 0;

  constructor(table: Table<Row>) {
    this.#fillers = table.fields.map((field) => fillerOf(field));
  }

  add(row: Row): void {
    for (const filler of this.#fillers) filler.add(row);
    this.#rows++;
  }

  take(): Piece {
    const records = this.#rows;
    if (records === 0) return { bytes: NOTHING, records };
    const chunks = this.#fillers.flatMap(({ columns }) => columns.map((column) => column.take()));
    for (const { slots } of this.#fillers) slots.clear();
    this.#rows = 0;
    const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.bytes.length, 0));
    const columns: RowGroup['columns'] = [];
    let uncompressed = 0n;
    let at = 0;
    for (const { bytes: own, metadata } of chunks) {
      bytes.set(own, at);
      columns.push(chunkAt(metadata, BigInt(at)));
      uncompressed += metadata.total_uncompressed_size;
      at += own.length;
    }
    const index: RowGroup = {
      columns,
      total_byte_size: uncompressed,
      num_rows: BigInt(records),
      total_compressed_size: BigInt(at),
    };
    return { bytes, records, index };
  }
}

export class RowGroupJoiner<Row> implements PieceJoiner {
  readonly #bytes = new ByteWriter();
  readonly #file: ParquetWriter;

  constructor(table: Table<Row>) {
    this.#file = new ParquetWriter({
      writer: this.#bytes,
      schema: schemaOf(table),
      codec: 'ZSTD',
      createdBy: 'clinical-events collector',
    });
  }

  join({ bytes, records, index }: Piece): Uint8Array {
    if (records === 0) return NOTHING;
    const file = this.#file;
    const group = index as RowGroup;
    const begin = BigInt(file.writer.offset);
    const columns = group.columns.map(({ meta_data }) => {
      if (meta_data === undefined) throw new TypeError('a piece that is no row group');
      return chunkAt(meta_data, begin);
    });
    file.row_groups.push({ ...group, columns });
    file.num_rows += group.num_rows;
    // Only counted: the bytes need not go through the writer, which would copy them twice.
    const before = this.#taken();
    file.writer.offset += bytes.length;
    return before.length === 0 ? bytes : Buffer.concat([before, bytes]);
  }

  finish(): Uint8Array {
    // It answers with a promise where its writer has to wait; a ByteWriter does not.
    if (this.#file.finish() !== undefined) throw new Error('hyparquet-writer did not write in one go');
    return this.#taken();
  }

  #taken(): Uint8Array {
    const writer = this.#bytes;
    const bytes = writer.getBytes().slice();
    // What was taken need not stay in memory; the writer counts its bytes on (ByteWriter, `index`).
    writer.index = 0;
    return bytes;
  }
}

/** A chunk so much further behind. */
function chunkAt(metadata: Chunk['metadata'], begin: bigint): RowGroup['columns'][number] {
  const { data_page_offset, dictionary_page_offset } = metadata;
  const moved = { ...metadata, data_page_offset: data_page_offset + begin };
  if (dictionary_page_offset !== undefined) moved.dictionary_page_offset = dictionary_page_offset + begin;
  return { file_offset: moved.dictionary_page_offset ?? moved.data_page_offset, meta_data: moved };
}

function fillerOf<Row>(field: Field<Row>): Filler<Row> {
  switch (field.type) {
    case 'texts':
      return new TextsFiller(field);
    case 'structs':
      return new StructsFiller(field);
    default:
      return new ValueFiller(field);
  }
}

class ValueFiller<Row> implements Filler<Row> {
  readonly slots = new Slots(false);
  readonly columns: readonly [Column];
  readonly #put: (row: Row) => void;

  constructor(value: Value<Row>) {
    const { put, column } = putterOf(value, [value.name], this.slots, 1);
    this.columns = [column];
    this.#put = put;
  }

  add(row: Row): void {
    this.slots.next(true);
    this.#put(row);
  }
}

class TextsFiller<Row> implements Filler<Row> {
  readonly slots = new Slots(true);
  readonly columns: readonly [TextColumn];

  constructor(private readonly texts: Texts<Row>) {
    const path = [texts.name, 'list', 'element'];
    this.columns = [new TextColumn({ path, type: 'text', slots: this.slots, defined: 1 })];
  }

  add(row: Row): void {
    const [column] = this.columns;
    const texts = this.texts.of(row) ?? [];
    if (texts.length === 0) {
      this.slots.next(true);
      column.putEmptyList();
    }
    for (let i = 0; i < texts.length; i++) {
      this.slots.next(i === 0);
      column.put(texts[i] ?? '');
    }
  }
}

class StructsFiller<Row> implements Filler<Row> {
  readonly slots = new Slots(true);
  readonly columns: readonly Column[];
  readonly #of: (row: Row) => readonly never[];
  readonly #puts: readonly ((entry: never) => void)[];

  constructor({ name, of, members }: Structs<Row>) {
    const putters = members.map((value) =>
      putterOf(value, [name, 'list', 'element', value.name], this.slots, 2),
    );
    this.columns = putters.map(({ column }) => column);
    this.#puts = putters.map(({ put }) => put);
    this.#of = of;
  }

  add(row: Row): void {
    const entries = this.#of(row);
    if (entries.length === 0) {
      this.slots.next(true);
      for (const column of this.columns) column.putEmptyList();
    }
    for (let i = 0; i < entries.length; i++) {
      this.slots.next(i === 0);
      for (const put of this.#puts) put(entries[i] as never);
    }
  }
}

function putterOf<Source>(
  { type, of }: Value<Source>,
  path: readonly string[],
  slots: Slots,
  defined: number,
): { column: Column; put: (source: Source) => void } {
  const place = { path, type, slots, defined };
  if (type === 'text') {
    const column = new TextColumn(place);
    const put = (source: Source) => {
      const text = of(source);
      if (text === undefined) column.putNull();
      else column.put(text as Text);
    };
    return { column, put };
  }
  const column = new NumberColumn(place);
  const put = (source: Source) => {
    const value = of(source);
    if (value === undefined) column.putNull();
    else column.put(value as number);
  };
  return { column, put };
}
