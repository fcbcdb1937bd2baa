/**
 * Rows as a Parquet file. Each piece is a row group, which any thread can make; hyparquet-writer joins them
 * into a file with schema and footer.
 */
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { type Chunk, type Column, type ColumnPlace, type RowGroup, Slots } from './parquet-column.js';
import { type Field, type Structs, type Table, type Texts, type Value, schemaOf } from './parquet-table.js';
import { FlagColumn, NumberColumn, TextColumn } from './parquet-values.js';
import type { Piece, PieceJoiner } from '@clinical-events/collector/records/exports/file-format';

const NOTHING = new Uint8Array(0);

/** Puts one field of each row into its columns. */
interface Filler<Row> {
  readonly slots: Slots;
  readonly columns: readonly Column[];
  add(row: Row): void;
}

/** Makes row groups; their offsets are relative to the bytes of the piece. */
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
      if (meta_data === undefined) throw new TypeError('the piece is not a row group');
      return chunkAt(meta_data, begin);
    });
    file.row_groups.push({ ...group, columns });
    file.num_rows += group.num_rows;
    // The writer only counts the bytes, because it would copy them twice.
    const before = this.#taken();
    file.writer.offset += bytes.length;
    return before.length === 0 ? bytes : Buffer.concat([before, bytes]);
  }

  finish(): Uint8Array {
    // `finish` returns a promise only for a writer that waits; a ByteWriter does not.
    if (this.#file.finish() !== undefined) throw new Error('hyparquet-writer did not write in one go');
    const end = this.#taken();
    return this.#file.row_groups.length > 0 ? end : withTypedList(end);
  }

  #taken(): Uint8Array {
    const writer = this.#bytes;
    const bytes = writer.getBytes().slice();
    // Frees the memory of these bytes; the writer's offset is not changed (ByteWriter, `index`).
    writer.index = 0;
    return bytes;
  }
}

/**
 * In the footer: `num_rows` 0, then an empty list of `row_groups`, to which hyparquet-writer gives the type
 * 0.
 */
const UNTYPED_LIST = Buffer.from([0x16, 0x00, 0x19, 0x00]);
const LIST_OF_STRUCTS = 0x0c;

/** Thrift's Compact Protocol has no type 0, and readers in Rust refuse it. */
function withTypedList(footer: Uint8Array): Uint8Array {
  const at = Buffer.from(footer.buffer, footer.byteOffset, footer.length).lastIndexOf(UNTYPED_LIST);
  if (at < 0) throw new Error('the footer of hyparquet-writer is not as expected');
  footer[at + UNTYPED_LIST.length - 1] = LIST_OF_STRUCTS;
  return footer;
}

/** A chunk whose offsets are moved by `begin`. */
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
  const column = columnOf({ path, type, slots, defined });
  const put = (source: Source) => {
    const value = of(source);
    if (value === undefined) column.putNull();
    else column.put(value as never);
  };
  return { column, put };
}

function columnOf(place: ColumnPlace): TextColumn | FlagColumn | NumberColumn {
  if (place.type === 'text') return new TextColumn(place);
  return place.type === 'flag' ? new FlagColumn(place) : new NumberColumn(place);
}
