import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * Codes of the errors of the index.
 *
 *   corrupt  a published run is damaged; the writer has deleted it. The result of the call is unknown:
 *            abandon the index, open it again, add entries from `coveredTo` on.
 *   full     no entry can be added, because tables cannot be written (`cause` is the reason). Nothing was
 *            added; the call succeeds after a table has been written.
 */
export type IdIndexErrorCode = 'corrupt' | 'full';

export class IdIndexError extends Error {
  override readonly name = 'IdIndexError';

  constructor(
    readonly code: IdIndexErrorCode,
    message: string,
    options?: ErrorOptions,
    /** The file name of the damaged run. */
    readonly run?: string,
  ) {
    super(message, options);
  }
}

/*
 * The split-block Bloom filter of Apache Parquet: a block is eight 32-bit words, an entry sets one bit in
 * each word. A look-up costs one cache line and at most eight multiplications; a miss ends after two words on
 * average.
 *
 * The high word of a fingerprint selects the block by scaling, so blocks have the order of the entries, and a
 * merge writes its filter front to back through one page of memory. The low word, which is independent,
 * selects the bits.
 */
export const WORDS_PER_BLOCK = 8;

/** A word of a table or a page. Throws if there is none: a missing word must never be read as 0. */
export function wordAt(words: Uint32Array, at: number): number {
  const word = words[at];
  if (word === undefined) throw new RangeError(`the index has no word ${at}`);
  return word;
}

const SALT = Uint32Array.of(
  0x47b6137b,
  0x44974d91,
  0x8824ad5b,
  0xa2b7289d,
  0x705495c7,
  0x2df1424b,
  0x9efc4947,
  0x5c6bfb31,
);

/** The block of an entry, ascending in `hi`. The product always rounds the same way. */
export function blockOf(hi: number, blocks: number): number {
  return Math.floor((hi / 0x1_0000_0000) * blocks);
}

export function setBits(words: Uint32Array, at: number, lo: number): void {
  for (let i = 0; i < WORDS_PER_BLOCK; i++) {
    words[at + i] = wordAt(words, at + i) | (1 << (Math.imul(lo, wordAt(SALT, i)) >>> 27));
  }
}

export function mayHold(words: Uint32Array, at: number, lo: number): boolean {
  for (let i = 0; i < WORDS_PER_BLOCK; i++) {
    if ((wordAt(words, at + i) & (1 << (Math.imul(lo, wordAt(SALT, i)) >>> 27))) === 0) return false;
  }
  return true;
}

/** Two random 32-bit words per index, stored in each of its runs. */
export interface FingerprintKey {
  readonly k0: number;
  readonly k1: number;
}

export function randomKey(): FingerprintKey {
  const bytes = randomBytes(8);
  return { k0: bytes.readUInt32LE(0), k1: bytes.readUInt32LE(4) };
}

/** Maximum number of cached organisation keys; the result does not depend on the cache. */
const CACHED_ORGANISATIONS = 4096;

/**
 * HalfSipHash-2-4 with 64 bits of output, of an id under the key of its organisation, which is the
 * HalfSipHash-2-4 of the organisation's name under the key of the index.
 *
 * The function is keyed, because senders choose the ids: predictable fingerprints could be piled into one
 * probe sequence, and each collision costs a read of the log. HalfSipHash needs only 32-bit operations (150
 * ns per id); SipHash needs 64-bit words, which JavaScript has only as BigInt, with an allocation per step.
 *
 * The result is in `hi` and `lo` (unsigned) until the next call, so a look-up allocates nothing.
 */
export class Fingerprint {
  hi = 0;
  lo = 0;
  #organisation: string | null = null;
  #organisationKey: FingerprintKey = { k0: 0, k1: 0 };
  readonly #keys = new Map<string, FingerprintKey>();

  constructor(readonly key: FingerprintKey) {}

  /** Sets `hi` and `lo` to the fingerprint of the 16 bytes at `offset`. */
  of(organisation: string, bytes: Uint8Array, offset: number): void {
    if (offset + 16 > bytes.length) throw new RangeError('an event id has 16 bytes');
    if (organisation !== this.#organisation) this.#select(organisation);
    this.hash(this.#organisationKey, bytes, offset, 16);
  }

  #select(organisation: string): void {
    let key = this.#keys.get(organisation);
    if (key === undefined) {
      const name = Buffer.from(organisation);
      this.hash(this.key, name, 0, name.length);
      key = { k0: this.lo, k1: this.hi };
      if (this.#keys.size >= CACHED_ORGANISATIONS) this.#keys.clear();
      this.#keys.set(organisation, key);
    }
    this.#organisation = organisation;
    this.#organisationKey = key;
  }

  /** HalfSipHash-2-4-64: the first four octets of the output are `lo`, the last four `hi`. */
  hash({ k0, k1 }: FingerprintKey, bytes: Uint8Array, offset: number, length: number): void {
    let v0 = k0;
    let v1 = k1 ^ 0xee;
    let v2 = 0x6c796765 ^ k0;
    let v3 = 0x74656462 ^ k1;
    const words = length >>> 2;
    // Words of input, then a word of rest and length (2 rounds each), then two halves of output (4 rounds).
    for (let step = 0; step < words + 3; step++) {
      let word = 0;
      let rounds = 2;
      if (step < words) word = littleEndian(bytes, offset + 4 * step, 4);
      else if (step === words) word = littleEndian(bytes, offset + 4 * step, length & 3) | (length << 24);
      else {
        rounds = 4;
        if (step === words + 1) v2 ^= 0xee;
        else {
          this.lo = (v1 ^ v3) >>> 0;
          v1 ^= 0xdd;
        }
      }
      v3 ^= word;
      for (; rounds > 0; rounds--) {
        v0 = (v0 + v1) | 0;
        v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
        v0 = (v0 << 16) | (v0 >>> 16);
        v2 = (v2 + v3) | 0;
        v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
        v0 = (v0 + v3) | 0;
        v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
        v2 = (v2 + v1) | 0;
        v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
        v2 = (v2 << 16) | (v2 >>> 16);
      }
      v0 ^= word;
    }
    this.hi = (v1 ^ v3) >>> 0;
  }
}

function littleEndian(bytes: Uint8Array, at: number, count: number): number {
  let word = 0;
  for (let i = count - 1; i >= 0; i--) word = (word << 8) | (bytes[at + i] ?? 0);
  return word;
}

/*
 * A run: the entries of one range of the log, sorted by fingerprint; a published run never changes.
 *
 *   page 0      header, below
 *   pages       entries: 256 per page (fingerprint high, low, address low, high; 32 bits each)
 *   pages       filter: 128 blocks per page, 256 bits each (above)
 *   rest        page table: CRC-32 of each entry page and filter page, then the high word of the first
 *               fingerprint of each entry page
 *
 * The header contains the checksum of the page table, and the page table contains the checksums of the pages,
 * so each page can be checked alone, and a look-up checks each page that it reads.
 *
 * Words in pages and page table have the byte order of the machine: on a machine with the other order the
 * index fails its checksums and is rebuilt.
 *
 * Header, little-endian: magic (8 bytes), version, level, k0, k1 (32 bits each), count, from, to (64), CRC of
 * the page table (32), the newest entry (fingerprint high, low, 32 bits each; address, 64), CRC of the header
 * so far (32). A run covers the addresses from `from` (inclusive) to `to` (exclusive).
 */
export const PAGE_BYTES = 4096;
const ENTRY_BYTES = 16;
export const ENTRIES_PER_PAGE = PAGE_BYTES / ENTRY_BYTES;
export const WORDS_PER_PAGE = PAGE_BYTES / 4;

const MAGIC = 0x3152_5844_4943_4543n; // "CECIDXR1"
const VERSION = 2;
const HEADER_BYTES = 72;

/**
 * Filter bits per entry. With 10 bits 1.3 % of the misses of a run read a page; with 8 bits 3.3 %, with 12
 * bits 0.5 %.
 */
const FILTER_BITS = 10;
const BLOCK_BITS = 256;
const BLOCKS_PER_PAGE = (PAGE_BYTES * 8) / BLOCK_BITS;

export interface RunHeader {
  /** Number of merges; the runs of one level have about the same size. */
  readonly level: number;
  readonly k0: number;
  readonly k1: number;
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/** A fingerprint and the address of its event. */
export interface Entry {
  readonly hi: number;
  readonly lo: number;
  readonly address: number;
}

export interface RunLayout {
  readonly entryPages: number;
  readonly filterBlocks: number;
  readonly filterPages: number;
  /** Offset of the page table, and its length in 32-bit words. */
  readonly tableAt: number;
  readonly tableWords: number;
  readonly fileBytes: number;
}

export function layoutOf(count: number): RunLayout {
  const entryPages = Math.ceil(count / ENTRIES_PER_PAGE);
  const filterBlocks = Math.ceil((count * FILTER_BITS) / BLOCK_BITS);
  const filterPages = Math.ceil(filterBlocks / BLOCKS_PER_PAGE);
  const tableAt = (1 + entryPages + filterPages) * PAGE_BYTES;
  const tableWords = 2 * entryPages + filterPages;
  return { entryPages, filterBlocks, filterPages, tableAt, tableWords, fileBytes: tableAt + 4 * tableWords };
}

/** @param newest the entry with the highest address; zeros if the run is empty. */
export function encodeHeader(header: RunHeader, tableCrc: number, newest: Entry): Uint8Array {
  const page = new Uint8Array(PAGE_BYTES);
  const view = new DataView(page.buffer);
  view.setBigUint64(0, MAGIC, true);
  view.setUint32(8, VERSION, true);
  view.setUint32(12, header.level, true);
  view.setUint32(16, header.k0, true);
  view.setUint32(20, header.k1, true);
  view.setBigUint64(24, BigInt(header.count), true);
  view.setBigUint64(32, BigInt(header.from), true);
  view.setBigUint64(40, BigInt(header.to), true);
  view.setUint32(48, tableCrc, true);
  view.setUint32(52, newest.hi, true);
  view.setUint32(56, newest.lo, true);
  view.setBigUint64(60, BigInt(newest.address), true);
  view.setUint32(68, crc32(page.subarray(0, 68)), true);
  return page;
}

/** The header in these bytes, or a sentence about their fault. */
export function decodeHeader(
  page: Uint8Array,
): { header: RunHeader; tableCrc: number; newest: Entry } | string {
  if (page.length < HEADER_BYTES) return 'the header is incomplete';
  const view = new DataView(page.buffer, page.byteOffset, page.length);
  if (view.getBigUint64(0, true) !== MAGIC) return 'this is not a run';
  if (view.getUint32(8, true) !== VERSION) return `version ${view.getUint32(8, true)} is unknown`;
  if (view.getUint32(68, true) !== crc32(page.subarray(0, 68))) return 'the header fails its checksum';
  const header = {
    level: view.getUint32(12, true),
    k0: view.getUint32(16, true),
    k1: view.getUint32(20, true),
    count: Number(view.getBigUint64(24, true)),
    from: Number(view.getBigUint64(32, true)),
    to: Number(view.getBigUint64(40, true)),
  };
  const [hi, lo] = [view.getUint32(52, true), view.getUint32(56, true)];
  const newest = { hi, lo, address: Number(view.getBigUint64(60, true)) };
  return { header, tableCrc: view.getUint32(48, true), newest };
}

const NAME = /^([0-9a-f]{14})-([0-9a-f]{14})\.run$/;
export const UNFINISHED = '.unfinished';

/** The name contains the range of the log, so that the names are the manifest (sorted-runs.ts). */
export function nameOf(header: Pick<RunHeader, 'from' | 'to'>): string {
  return `${address(header.from)}-${address(header.to)}.run`;
}

function address(value: number): string {
  return value.toString(16).padStart(14, '0');
}

export function parseName(name: string): { from: number; to: number } | null {
  const match = NAME.exec(name);
  return match?.[1] && match[2] ? { from: parseInt(match[1], 16), to: parseInt(match[2], 16) } : null;
}
