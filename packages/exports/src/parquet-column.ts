/**
 * Writes column chunks of Parquet. Values go directly into the bytes of a page; hyparquet-writer would need
 * arrays of values, levels and encoded texts first. Page headers and the encoding of levels are the
 * library's.
 *
 * Pages have version 1, which every reader knows, and begin with a row. Buffers are reused for the next row
 * group.
 */
import { zstdCompressSync, constants } from 'node:zlib';
import { ByteWriter, type ParquetWriter } from 'hyparquet-writer';
import { writePageHeader } from 'hyparquet-writer/src/datapage.js';
import { writeRleBitPackedHybrid } from 'hyparquet-writer/src/encoding.js';
import { GrowingBytes, leafOf, type ValueType } from './parquet-table.js';

/** A page ends with the row that fills it. */
const PAGE_BYTES = 1 << 20;
const LENGTH_BYTES = 4;
const ZSTD_PARAMS = { [constants.ZSTD_c_compressionLevel]: 1 };
const NOTHING = new Uint8Array(0);

export type RowGroup = ParquetWriter['row_groups'][number];
type ColumnMetaData = NonNullable<RowGroup['columns'][number]['meta_data']>;
type PageHeader = Parameters<typeof writePageHeader>[1];
type Statistics = NonNullable<ColumnMetaData['statistics']>;
type EncodingStats = NonNullable<ColumnMetaData['encoding_stats']>;
export type Bounds = Pick<Statistics, 'min_value' | 'max_value'>;

/** The slots of a column, one for each value, null or empty list. All members of a list share them. */
export class Slots {
  /** Whether a row begins with the newest slot. */
  begins = true;
  readonly #repetitions: GrowingBytes | undefined;
  #encoded: { from: number; to: number; bytes: Uint8Array } | undefined;

  constructor(repeated: boolean) {
    this.#repetitions = repeated ? new GrowingBytes() : undefined;
  }

  /** Must be called before the columns get the values of the slot. */
  next(begins: boolean): void {
    this.begins = begins;
    this.#repetitions?.byte(begins ? 0 : 1);
  }

  clear(): void {
    this.#repetitions?.clear();
    this.#encoded = undefined;
  }

  /** The repetition levels of some slots, encoded for a page. */
  encoded(from: number, to: number): Uint8Array {
    if (this.#repetitions === undefined) return NOTHING;
    if (this.#encoded?.from !== from || this.#encoded.to !== to) {
      this.#encoded = { from, to, bytes: levels(this.#repetitions.bytes().subarray(from, to), 1) };
    }
    return this.#encoded.bytes;
  }
}

export interface ColumnPlace {
  /** The names of the column's groups, then its own name. */
  readonly path: readonly string[];
  readonly type: ValueType;
  readonly slots: Slots;
  /** The definition level of a value. A null has one less, and an empty list has 0. */
  readonly defined: number;
}

/** A finished chunk; its offsets are relative to its bytes. */
export interface Chunk {
  readonly bytes: Uint8Array;
  readonly metadata: ColumnMetaData;
}

/** The values of a page. */
export interface PageValues {
  readonly encoding: ColumnMetaData['encodings'][number];
  readonly bytes: Uint8Array;
}

export abstract class Column {
  protected readonly slots: Slots;
  readonly #place: ColumnPlace;
  readonly #definitions = new GrowingBytes();
  readonly #pages = new ByteWriter();
  #encodingStats: EncodingStats = [];
  #nulls = 0;
  #uncompressed = 0;
  /** The first slot of the unfinished page. */
  #fromSlot = 0;

  constructor(place: ColumnPlace) {
    this.#place = place;
    this.slots = place.slots;
  }

  putNull(): void {
    this.#nulls++;
    this.#definitions.byte(this.#place.defined - 1);
  }

  putEmptyList(): void {
    this.#nulls++;
    this.#definitions.byte(0);
  }

  /** @returns everything that was put since the last call. */
  take(): Chunk {
    this.endPage();
    const dictionary = this.dictionary();
    const head = new ByteWriter();
    if (dictionary !== undefined) this.#writeDictionary(head, dictionary.texts, dictionary.bytes);
    const bytes = Buffer.concat([head.getBytes(), this.#pages.getBytes()]);
    const { type } = leafOf('', this.#place.type);
    if (type === undefined) throw new RangeError('a column without a type');
    const metadata: ColumnMetaData = {
      type,
      encodings: [...new Set(this.#encodingStats.map(({ encoding }) => encoding)), 'RLE'],
      path_in_schema: [...this.#place.path],
      codec: 'ZSTD',
      num_values: BigInt(this.#definitions.length),
      total_uncompressed_size: BigInt(this.#uncompressed),
      total_compressed_size: BigInt(bytes.length),
      data_page_offset: BigInt(head.offset),
      ...(dictionary !== undefined && { dictionary_page_offset: 0n }),
      statistics: { ...this.bounds(), null_count: BigInt(this.#nulls) },
      encoding_stats: this.#encodingStats,
    };
    this.#clear();
    return { bytes, metadata };
  }

  /** Must be called before a value is put. */
  protected define(): void {
    this.#definitions.byte(this.#place.defined);
  }

  /** Whether a page with these bytes of values ends before the newest slot. */
  protected isFull(bytes: number): boolean {
    return bytes >= PAGE_BYTES && this.slots.begins;
  }

  /** The values since the last page. */
  protected abstract values(): PageValues;
  protected abstract clearPage(): void;
  protected abstract clearChunk(): void;
  protected abstract dictionary(): { readonly texts: number; readonly bytes: Uint8Array } | undefined;
  protected abstract bounds(): Bounds;

  /** Ends the page before the newest slot, which begins a row and is not put yet. */
  protected endPage(): void {
    const slots = this.#definitions.length;
    if (slots === this.#fromSlot) return;
    const { encoding, bytes } = this.values();
    const repetitions = this.slots.encoded(this.#fromSlot, slots);
    const definitions = levels(
      this.#definitions.bytes().subarray(this.#fromSlot),
      this.#place.defined > 1 ? 2 : 1,
    );
    const page = Buffer.concat([repetitions, definitions, bytes]);
    const compressed = zstd(page);
    const begin = this.#pages.offset;
    writePageHeader(this.#pages, {
      type: 'DATA_PAGE',
      uncompressed_page_size: page.length,
      compressed_page_size: compressed.length,
      data_page_header: {
        num_values: slots - this.#fromSlot,
        encoding,
        definition_level_encoding: 'RLE',
        repetition_level_encoding: 'RLE',
      },
    });
    this.#uncompressed += this.#pages.offset - begin + page.length;
    this.#pages.appendBytes(compressed);
    this.#count('DATA_PAGE', encoding);
    this.#fromSlot = slots;
    this.clearPage();
  }

  #writeDictionary(writer: ByteWriter, texts: number, bytes: Uint8Array): void {
    const compressed = zstd(bytes);
    writePageHeader(writer, {
      type: 'DICTIONARY_PAGE',
      uncompressed_page_size: bytes.length,
      compressed_page_size: compressed.length,
      dictionary_page_header: { num_values: texts, encoding: 'PLAIN' },
    });
    this.#uncompressed += writer.offset + bytes.length;
    writer.appendBytes(compressed);
    this.#count('DICTIONARY_PAGE', 'PLAIN');
  }

  #count(page_type: PageHeader['type'], encoding: PageValues['encoding']): void {
    const known = this.#encodingStats.find(
      (each) => each.page_type === page_type && each.encoding === encoding,
    );
    if (known === undefined) this.#encodingStats.push({ page_type, encoding, count: 1 });
    else known.count++;
  }

  #clear(): void {
    this.#definitions.clear();
    this.#pages.index = 0;
    this.#pages.offset = 0;
    this.#encodingStats = [];
    this.#nulls = 0;
    this.#uncompressed = 0;
    this.#fromSlot = 0;
    this.clearChunk();
  }
}

/** Small whole numbers in the encoding of levels and dictionary indices (Encodings.md, RLE). */
export function hybrid(values: ArrayLike<number>, bitWidth: number): Uint8Array {
  const writer = new ByteWriter();
  writeRleBitPackedHybrid(writer, values as number[], bitWidth);
  return writer.getBytes();
}

/** Levels encoded for a page: their length in four bytes, then the levels. */
function levels(values: Uint8Array, bitWidth: number): Uint8Array {
  const encoded = hybrid(values, bitWidth);
  const bytes = Buffer.allocUnsafe(LENGTH_BYTES + encoded.length);
  bytes.writeUInt32LE(encoded.length);
  bytes.set(encoded, LENGTH_BYTES);
  return bytes;
}

function zstd(bytes: Uint8Array): Uint8Array {
  // All bytes go into one chunk: chunks of 16 KiB would cost a fifth of the time.
  return zstdCompressSync(bytes, { params: ZSTD_PARAMS, chunkSize: Math.max(1024, bytes.length >> 1) });
}
