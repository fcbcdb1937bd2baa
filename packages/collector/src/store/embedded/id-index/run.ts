import * as fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { systemCode } from '../../../system-code.js';
import { blockOf, mayHold, WORDS_PER_BLOCK } from './bloom-block.js';
import { IdIndexError } from './id-index-error.js';
import { WORDS_PER_ENTRY } from './recent-table.js';
import {
  decodeHeader,
  type Entry,
  ENTRIES_PER_PAGE,
  layoutOf,
  PAGE_BYTES,
  WORDS_PER_PAGE,
  type RunHeader,
  type RunLayout,
} from './run-format.js';

/** What must be in memory to search a run. The writing thread loads it and hands it over. */
export interface RunImage {
  readonly name: string;
  readonly header: RunHeader;
  readonly newest: Entry;
  /** The page table: a checksum a page, then a fence an entry page. 8 bytes for 256 entries. */
  readonly table: SharedArrayBuffer;
  /** The filter, or null when it is larger than the caller wants in memory and stays on disk. */
  readonly filter: ArrayBuffer | null;
}

/** Pages are read into here. One thread, synchronous calls: nobody else can need it before its reader is done. */
const page = new Uint8Array(PAGE_BYTES);
const pageWords = new Uint32Array(page.buffer);

/** Which page that is. A run that is published never changes, so who asks for neighbours reads a page once. */
let held: { readonly run: Run; readonly page: number } | undefined;

export function damaged(run: string, reason: string): IdIndexError {
  return new IdIndexError('corrupt', `${run}: ${reason}`, {}, run);
}

/**
 * Opens for reading without a time of last access, where the system has that and this user may. To note the time
 * a read must join the file system's journal, where it may wait while the writing thread's sync commits.
 */
function openQuietly(file: string): number {
  // Absent where the system has no such flag, whatever the types say.
  const flag = fs.constants.O_NOATIME as number | undefined;
  try {
    if (flag !== undefined) return fs.openSync(file, fs.constants.O_RDONLY | flag);
  } catch (error) {
    if (systemCode(error) !== 'EPERM') throw error;
  }
  return fs.openSync(file, 'r');
}

/** How much is read at once where a whole run is read. */
const CHUNK_PAGES = 16;

/**
 * One published run, open for look-ups.
 *
 * Holds the file open: a reader in another process, and this one, go on reading a file that a merge has since
 * deleted. Every page is checked as it is read, so damage that came after opening is an error, not an answer.
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

  /** Bytes of page table and filter in memory. */
  get memory(): number {
    return this.image.table.byteLength + (this.image.filter?.byteLength ?? 0);
  }

  /**
   * Opens a run and checks header, page table and, up to `filterMemory` bytes, the filter.
   * Throws IdIndexError `corrupt`, or the file system's error (ENOENT: a merge has deleted it).
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
        throw damaged(name, 'not the length that its header says');
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

  /** A run that another thread has opened and checked. */
  static share(directory: string, image: RunImage): Run {
    return new Run(openQuietly(path.join(directory, image.name)), image);
  }

  /** The entry of the newest event of the run; undefined when it has none. */
  get newest(): Entry | undefined {
    return this.header.count === 0 ? undefined : this.image.newest;
  }

  /** Reads and checks everything. Throws IdIndexError `corrupt`. */
  verify(): void {
    const chunk = new Uint8Array(CHUNK_PAGES * PAGE_BYTES);
    const pages = this.layout.entryPages + this.layout.filterPages;
    for (let at = 0; at < pages; at += CHUNK_PAGES)
      this.readPages(at, Math.min(CHUNK_PAGES, pages - at), chunk);
  }

  /** Reads `count` pages from page `first` on (entries, then filter) into `into`. Throws IdIndexError `corrupt`. */
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
    // The first page whose fence is not below `hi`; entries of `hi` may begin in the page before.
    let low = 0;
    let high = entryPages;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#table[fences + middle] ?? 0) < hi) low = middle + 1;
      else high = middle;
    }
    for (let at = Math.max(0, low - 1); at < entryPages; at++) {
      if ((this.#table[fences + at] ?? 0) > hi) break;
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
      if ((pageWords[middle * WORDS_PER_ENTRY] ?? 0) < hi) low = middle + 1;
      else high = middle;
    }
    for (let word = low * WORDS_PER_ENTRY; word < end * WORDS_PER_ENTRY; word += WORDS_PER_ENTRY) {
      if (pageWords[word] !== hi) break;
      if (pageWords[word + 1] !== lo) continue;
      out[found++] = (pageWords[word + 3] ?? 0) * 0x1_0000_0000 + (pageWords[word + 2] ?? 0);
    }
    return found;
  }

  /**
   * Frees the filter now: a collection that comes late would leave this process with the filters of all merges
   * so far. The file is closed off this thread: the last close of a deleted file frees its blocks, which for a gigabyte takes
   * longer than a lookup may.
   */
  close(): void {
    if (held?.run === this) held = undefined;
    if (this.image.filter?.detached === false) this.image.filter.transfer(0);
    fs.close(this.fd);
  }
}
