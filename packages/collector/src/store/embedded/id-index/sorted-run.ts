import * as fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { systemCode } from '../../../system-code.js';
import {
  ENTRIES_PER_PAGE,
  type Entry,
  IdIndexError,
  PAGE_BYTES,
  type RunHeader,
  type RunLayout,
  WORDS_PER_BLOCK,
  WORDS_PER_PAGE,
  blockOf,
  decodeHeader,
  layoutOf,
  mayHold,
  wordAt,
} from './sorted-run-format.js';

/** Words of an entry in tables and runs: fingerprint high, fingerprint low, address low, address high. */
export const WORDS_PER_ENTRY = 4;

/**
 * Set in the fourth word of a slot in use. An address has 53 bits, so the bit is free; zeroed memory is
 * empty.
 */
const IN_USE = 0x8000_0000;

/**
 * The table of the newest entries: linear probing in one shared array, 16 bytes a slot, so that a probe costs
 * one cache line.
 *
 * The top bits of a fingerprint select its slot, so the slots in order are almost sorted (`sorted`). The
 * memory is shared, so that freezing copies nothing: the writing thread reads the table while look-ups
 * continue in it.
 *
 * One thread writes. A frozen table is not written until `clear`.
 */
export class RecentTable {
  readonly #words: Uint32Array;
  readonly #shift: number;
  readonly #mask: number;
  count = 0;

  /** `slots` is a power of two from 4 to 2^26. `memory` is zeroed or belongs to a frozen table. */
  constructor(
    slots: number,
    readonly memory = new SharedArrayBuffer(slots * WORDS_PER_ENTRY * 4),
  ) {
    this.#words = new Uint32Array(memory);
    this.#shift = 32 - Math.log2(slots);
    this.#mask = slots - 1;
  }

  /** Three quarters of the slots: beyond that linear probing degrades. */
  get limit(): number {
    return ((this.#mask + 1) / 4) * 3;
  }

  add(hi: number, lo: number, address: number): void {
    if (this.count >= this.limit) throw new RangeError('the table is full');
    const words = this.#words;
    let at = (hi >>> this.#shift) * WORDS_PER_ENTRY;
    while (words[at + 3] !== 0) at = (at + WORDS_PER_ENTRY) & (this.#mask * WORDS_PER_ENTRY);
    words[at] = hi;
    words[at + 1] = lo;
    words[at + 2] = address >>> 0;
    words[at + 3] = ((address / 0x1_0000_0000) | IN_USE) >>> 0;
    this.count++;
  }

  /** Writes the addresses under this fingerprint to `out` from index `found` on; returns the new length. */
  find(hi: number, lo: number, out: number[], found: number): number {
    const words = this.#words;
    let at = (hi >>> this.#shift) * WORDS_PER_ENTRY;
    for (;;) {
      const high = wordAt(words, at + 3);
      if (high === 0) return found;
      if (words[at] === hi && words[at + 1] === lo) {
        out[found++] = (high - IN_USE) * 0x1_0000_0000 + wordAt(words, at + 2);
      }
      at = (at + WORDS_PER_ENTRY) & (this.#mask * WORDS_PER_ENTRY);
    }
  }

  clear(): void {
    this.#words.fill(0);
    this.count = 0;
  }

  /**
   * Fills `out` with the entries in order of fingerprint and returns their number. Insertion sort: an entry
   * is at most one cluster from its place, which costs a few comparisons. Entries that wrapped around from
   * the end come first and are shifted to the end, one step per entry.
   */
  sorted(out: Uint32Array): number {
    const words = this.#words;
    let end = 0;
    for (let slot = 0; slot < words.length; slot += WORDS_PER_ENTRY) {
      const high = wordAt(words, slot + 3);
      if (high === 0) continue;
      const hi = wordAt(words, slot);
      const lo = wordAt(words, slot + 1);
      let at = end;
      for (; at > 0; at -= WORDS_PER_ENTRY) {
        const before = wordAt(out, at - WORDS_PER_ENTRY);
        if (before < hi || (before === hi && wordAt(out, at - WORDS_PER_ENTRY + 1) <= lo)) break;
      }
      if (at < end) out.copyWithin(at + WORDS_PER_ENTRY, at, end);
      out[at] = hi;
      out[at + 1] = lo;
      out[at + 2] = wordAt(words, slot + 2);
      out[at + 3] = high - IN_USE;
      end += WORDS_PER_ENTRY;
    }
    return end / WORDS_PER_ENTRY;
  }
}

/** The parts of a run in memory for searches. The writing thread loads them and transfers them. */
export interface RunImage {
  readonly name: string;
  readonly header: RunHeader;
  readonly newest: Entry;
  /** The page table: a checksum per page, then a fence per entry page; 8 bytes for 256 entries. */
  readonly table: SharedArrayBuffer;
  /** The filter; null if it is too large for memory and stays on disk. */
  readonly filter: ArrayBuffer | null;
}

/** Buffer for one page. Calls are synchronous in one thread, so it is shared by all runs. */
const page = new Uint8Array(PAGE_BYTES);
const pageWords = new Uint32Array(page.buffer);

/** The page in the buffer. A published run never changes, so neighbouring look-ups reuse the page. */
let held: { readonly run: Run; readonly page: number } | undefined;

export function damaged(run: string, reason: string): IdIndexError {
  return new IdIndexError('corrupt', `${run}: ${reason}`, {}, run);
}

/**
 * Opens for reading without updating the access time, if possible. The update would enter the journal of the
 * file system and might wait for a sync of the writing thread.
 */
function openQuietly(file: string): number {
  // Undefined on systems without the flag, despite its type.
  const flag = fs.constants.O_NOATIME as number | undefined;
  try {
    if (flag !== undefined) return fs.openSync(file, fs.constants.O_RDONLY | flag);
  } catch (error) {
    if (systemCode(error) !== 'EPERM') throw error;
  }
  return fs.openSync(file, 'r');
}

/** Pages per read when a whole run is read. */
const CHUNK_PAGES = 16;

/**
 * A published run, open for look-ups. The file stays open, so it can be read after a merge has deleted it.
 * Every page is checked when it is read, so later damage is an error and not a wrong result.
 */
export class Run {
  readonly layout: RunLayout;
  readonly #table: Uint32Array;
  readonly #filter: Uint32Array | null;

  private constructor(
    readonly fd: number,
    readonly image: RunImage,
  ) {
    this.layout = layoutOf(image.header.count);
    this.#table = new Uint32Array(image.table);
    this.#filter = image.filter && new Uint32Array(image.filter);
  }

  get header(): RunHeader {
    return this.image.header;
  }

  /** Size of page table and filter in memory. */
  get memory(): number {
    return this.image.table.byteLength + (this.image.filter?.byteLength ?? 0);
  }

  /**
   * Opens a run and checks header, page table and, up to `filterMemory` bytes, the filter.
   * @throws IdIndexError `corrupt`, or the error of the file system (ENOENT: a merge has deleted the file).
   */
  static open(directory: string, name: string, filterMemory: number): Run {
    const fd = openQuietly(path.join(directory, name));
    try {
      const first = new Uint8Array(PAGE_BYTES);
      const decoded = decodeHeader(first.subarray(0, fs.readSync(fd, first, 0, PAGE_BYTES, 0)));
      if (typeof decoded === 'string') throw damaged(name, decoded);
      const { header, tableCrc, newest } = decoded;
      const layout = layoutOf(header.count);
      if (fs.fstatSync(fd).size !== layout.fileBytes) {
        throw damaged(name, 'the file size does not match the header');
      }
      const table = new SharedArrayBuffer(layout.tableWords * 4);
      const tableBytes = new Uint8Array(table);
      fs.readSync(fd, tableBytes, 0, tableBytes.length, layout.tableAt);
      if (crc32(tableBytes) !== tableCrc) {
        throw damaged(name, 'the page table fails its checksum');
      }
      const filterBytes = layout.filterPages * PAGE_BYTES;
      const filter = filterBytes <= filterMemory ? new ArrayBuffer(filterBytes) : null;
      const run = new Run(fd, { name, header, newest, table, filter });
      if (filter) run.readPages(layout.entryPages, layout.filterPages, new Uint8Array(filter));
      return run;
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
  }

  /** Opens a run that another thread has opened and checked. */
  static share(directory: string, image: RunImage): Run {
    return new Run(openQuietly(path.join(directory, image.name)), image);
  }

  /** The entry of the newest event; undefined if the run is empty. */
  get newest(): Entry | undefined {
    return this.header.count === 0 ? undefined : this.image.newest;
  }

  /** Reads and checks all pages. @throws IdIndexError `corrupt` */
  verify(): void {
    const chunk = new Uint8Array(CHUNK_PAGES * PAGE_BYTES);
    const pages = this.layout.entryPages + this.layout.filterPages;
    for (let at = 0; at < pages; at += CHUNK_PAGES)
      this.readPages(at, Math.min(CHUNK_PAGES, pages - at), chunk);
  }

  /**
   * Reads `count` pages from page `first` on (entries, then filter) into `into`.
   * @throws IdIndexError `corrupt`
   */
  readPages(first: number, count: number, into: Uint8Array): void {
    const length = count * PAGE_BYTES;
    const read = fs.readSync(this.fd, into, 0, length, (1 + first) * PAGE_BYTES);
    for (let i = 0; i < count; i++) {
      const at = i * PAGE_BYTES;
      if (read !== length || crc32(into.subarray(at, at + PAGE_BYTES)) !== this.#table[first + i]) {
        throw damaged(this.image.name, `page ${1 + first + i} fails its checksum`);
      }
    }
  }

  /** Writes the addresses under this fingerprint to `out` from index `found` on; returns the new length. */
  find(hi: number, lo: number, out: number[], found: number): number {
    if (this.header.count === 0 || !this.#mayHold(hi, lo)) return found;
    const { entryPages } = this.layout;
    const fences = this.#table.length - entryPages;
    // The first page whose fence is at least `hi`; entries of `hi` may begin in the page before it.
    let low = 0;
    let high = entryPages;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (wordAt(this.#table, fences + middle) < hi) low = middle + 1;
      else high = middle;
    }
    for (let at = Math.max(0, low - 1); at < entryPages; at++) {
      if (wordAt(this.#table, fences + at) > hi) break;
      this.#hold(at);
      found = this.#findInPage(at, hi, lo, out, found);
    }
    return found;
  }

  #mayHold(hi: number, lo: number): boolean {
    const block = blockOf(hi, this.layout.filterBlocks) * WORDS_PER_BLOCK;
    if (this.#filter !== null) return mayHold(this.#filter, block, lo);
    this.#hold(this.layout.entryPages + Math.floor(block / WORDS_PER_PAGE));
    return mayHold(pageWords, block % WORDS_PER_PAGE, lo);
  }

  #hold(number: number): void {
    if (held?.run === this && held.page === number) return;
    held = undefined;
    this.readPages(number, 1, page);
    held = { run: this, page: number };
  }

  #findInPage(at: number, hi: number, lo: number, out: number[], found: number): number {
    const end = Math.min(ENTRIES_PER_PAGE, this.header.count - at * ENTRIES_PER_PAGE);
    let low = 0;
    let high = end;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (wordAt(pageWords, middle * WORDS_PER_ENTRY) < hi) low = middle + 1;
      else high = middle;
    }
    for (let word = low * WORDS_PER_ENTRY; word < end * WORDS_PER_ENTRY; word += WORDS_PER_ENTRY) {
      if (pageWords[word] !== hi) break;
      if (pageWords[word + 1] !== lo) continue;
      out[found++] = wordAt(pageWords, word + 3) * 0x1_0000_0000 + wordAt(pageWords, word + 2);
    }
    return found;
  }

  /**
   * Frees the filter immediately, because a late garbage collection would keep the filters of all merges.
   * Closes the file asynchronously, because closing a deleted file frees its blocks, which takes long for a
   * gigabyte.
   */
  close(): void {
    if (held?.run === this) held = undefined;
    if (this.image.filter?.detached === false) this.image.filter.transfer(0);
    fs.close(this.fd);
  }
}
