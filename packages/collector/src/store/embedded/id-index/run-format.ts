import { crc32 } from 'node:zlib';

/*
 * A run: the entries of one stretch of the log, sorted by fingerprint, never changed once it has its name.
 *
 *   page 0      header, below
 *   pages       entries: 256 a page, (fingerprint high, low, address low, high), 32 bits each
 *   pages       filter: 128 blocks a page, a block 256 bits (bloom-block.ts)
 *   the rest    page table: CRC-32 of every entry page and filter page, then the first fingerprint's high word
 *               of every entry page
 *
 * The header vouches for the page table and the page table for every page, so that one page can be read and
 * trusted without the others: what a lookup reads is checked every time it is read.
 *
 * Words in pages and page table are in the machine's byte order: an index that is carried to a machine of the
 * other order fails its checksums there and is made anew.
 *
 * Header, little-endian: magic (8), version, level, k0, k1 (32 bits each), count, from, to (64), CRC of the page table
 * (32), the newest entry (fingerprint high, low, 32 bits each; address, 64), CRC of the header so far (32). A run answers for all addresses from `from` (inclusive) to `to` (exclusive).
 */
export const PAGE_BYTES = 4096;
const ENTRY_BYTES = 16;
export const ENTRIES_PER_PAGE = PAGE_BYTES / ENTRY_BYTES;
export const WORDS_PER_PAGE = PAGE_BYTES / 4;

const MAGIC = 0x3152_5844_4943_4543n; // "CECIDXR1"
const VERSION = 2;
const HEADER_BYTES = 72;

/** Filter bits an entry: 1.3 % of the misses of a run then read a page; 8 bits measured 3.3 %, 12 bits 0.5 %. */
const FILTER_BITS = 10;
const BLOCK_BITS = 256;
const BLOCKS_PER_PAGE = (PAGE_BYTES * 8) / BLOCK_BITS;

export interface RunHeader {
  /** How often its entries have been merged; the runs of one level are of about one size. */
  readonly level: number;
  readonly k0: number;
  readonly k1: number;
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/** A fingerprint, and the address of the event that has it. */
export interface Entry {
  readonly hi: number;
  readonly lo: number;
  readonly address: number;
}

export interface RunLayout {
  readonly entryPages: number;
  readonly filterBlocks: number;
  readonly filterPages: number;
  /** Where the page table begins, and its length in 32-bit words. */
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

/** @param newest of its entries the one of the highest address; zeros where there is none. */
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

/** The header in these bytes, or what is wrong with them. */
export function decodeHeader(
  page: Uint8Array,
): { header: RunHeader; tableCrc: number; newest: Entry } | string {
  if (page.length < HEADER_BYTES) return 'the header is cut off';
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

/** The name says the stretch of log, so that the set of names is the manifest (run-directory.ts). */
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
