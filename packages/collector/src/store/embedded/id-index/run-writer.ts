import type * as fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { blockOf, setBits, WORDS_PER_BLOCK } from './bloom-block.js';
import { WORDS_PER_ENTRY } from './recent-table.js';
import {
  encodeHeader,
  layoutOf,
  nameOf,
  PAGE_BYTES,
  UNFINISHED,
  WORDS_PER_PAGE,
  type RunHeader,
  type RunLayout,
} from './run-format.js';

/** What writing a run asks of the file system; tests hand in one that fails. */
export type Files = Pick<
  typeof fs,
  'openSync' | 'writeSync' | 'fdatasyncSync' | 'fsyncSync' | 'renameSync' | 'unlinkSync' | 'closeSync'
>;

const BUFFER_PAGES = 16;

/**
 * Pages between two syncs. Without them a merge leaves all of its output to one sync at the end, and the
 * ledger's own sync, which shares the journal, waits behind it.
 */
const SYNC_PAGES = 2048;

/**
 * Writes one run from entries that come in order. Memory is bounded by two buffers and the page table.
 *
 * Crash order: pages, page table and header under an unfinished name; sync; rename; sync of the directory. Only
 * then may the caller speak of the run or delete what it replaces. A crash before the rename leaves a name that
 * nobody reads; a crash after it leaves a complete run beside the ones that it was made from.
 */
export class RunWriter {
  readonly name: string;
  /** Null once closed: closing a number twice would close a file that another thread has opened since. */
  #fd: number | null;
  readonly #unfinished: string;
  readonly #layout: RunLayout;
  readonly #table: Uint32Array;
  readonly #entries = new Uint32Array(BUFFER_PAGES * WORDS_PER_PAGE);
  readonly #filter = new Uint32Array(WORDS_PER_PAGE);
  #used = 0;
  #entryPage = 0;
  #filterPage = 0;
  #count = 0;
  /** The entry of the highest address: fingerprint high, low, address low, high. */
  readonly #newest = new Uint32Array(WORDS_PER_ENTRY);

  /** `header.count` must be what will be added: the places of filter and page table follow from it. */
  constructor(
    private readonly files: Files,
    private readonly directory: string,
    private readonly header: RunHeader,
  ) {
    this.name = nameOf(header);
    this.#layout = layoutOf(header.count);
    this.#table = new Uint32Array(this.#layout.tableWords);
    this.#unfinished = path.join(directory, this.name + UNFINISHED);
    this.#fd = files.openSync(this.#unfinished, 'w', 0o600);
  }

  add(hi: number, lo: number, addressLow: number, addressHigh: number): void {
    const entries = this.#entries;
    const at = this.#used;
    entries[at] = hi;
    entries[at + 1] = lo;
    entries[at + 2] = addressLow;
    entries[at + 3] = addressHigh;
    this.#used = at + WORDS_PER_ENTRY;
    this.#count++;
    const newest = this.#newest;
    const highest = newest[3] ?? 0;
    if (addressHigh > highest || (addressHigh === highest && addressLow >= (newest[2] ?? 0))) {
      newest[0] = hi;
      newest[1] = lo;
      newest[2] = addressLow;
      newest[3] = addressHigh;
    }
    if (this.#used === entries.length) this.#flushEntries();
    const word = blockOf(hi, this.#layout.filterBlocks) * WORDS_PER_BLOCK;
    while (word >= (this.#filterPage + 1) * WORDS_PER_PAGE) this.#flushFilter();
    setBits(this.#filter, word - this.#filterPage * WORDS_PER_PAGE, lo);
  }

  #flushEntries(): void {
    const pages = Math.ceil(this.#used / WORDS_PER_PAGE);
    this.#entries.fill(0, this.#used);
    const bytes = new Uint8Array(this.#entries.buffer, 0, pages * PAGE_BYTES);
    const fences = this.#table.length - this.#layout.entryPages;
    for (let i = 0; i < pages; i++) {
      const at = i * PAGE_BYTES;
      this.#table[this.#entryPage + i] = crc32(bytes.subarray(at, at + PAGE_BYTES));
      this.#table[fences + this.#entryPage + i] = this.#entries[i * WORDS_PER_PAGE] ?? 0;
    }
    this.#write(bytes, (1 + this.#entryPage) * PAGE_BYTES);
    this.#entryPage += pages;
    this.#used = 0;
    if (this.#entryPage % SYNC_PAGES === 0) this.files.fdatasyncSync(this.#file);
  }

  #flushFilter(): void {
    const bytes = new Uint8Array(this.#filter.buffer);
    const at = this.#layout.entryPages + this.#filterPage++;
    this.#table[at] = crc32(bytes);
    this.#write(bytes, (1 + at) * PAGE_BYTES);
    this.#filter.fill(0);
  }

  /** On return the run is durable under its name. */
  finish(): void {
    if (this.#count !== this.header.count) {
      throw new RangeError(`${this.#count} entries were added to a run of ${this.header.count}`);
    }
    if (this.#used > 0) this.#flushEntries();
    while (this.#filterPage < this.#layout.filterPages) this.#flushFilter();
    const table = new Uint8Array(this.#table.buffer);
    this.#write(table, this.#layout.tableAt);
    const [hi = 0, lo = 0, low = 0, high = 0] = this.#newest;
    const newest = { hi, lo, address: high * 0x1_0000_0000 + low };
    this.#write(encodeHeader(this.header, crc32(table), newest), 0);
    this.files.fsyncSync(this.#file);
    this.#close();
    this.files.renameSync(this.#unfinished, path.join(this.directory, this.name));
    syncDirectory(this.files, this.directory);
  }

  /** Gives up after a failure, which must stay the one that is reported: nothing here throws. */
  discard(): void {
    try {
      this.#close();
    } catch {
      // The system has let go of the number all the same.
    }
    try {
      this.files.unlinkSync(this.#unfinished);
    } catch {
      // Left behind, or renamed already; opening the index clears it away either way.
    }
  }

  get #file(): number {
    if (this.#fd === null) throw new Error(`${this.name} is finished`);
    return this.#fd;
  }

  #close(): void {
    const fd = this.#fd;
    this.#fd = null;
    if (fd !== null) this.files.closeSync(fd);
  }

  #write(bytes: Uint8Array, position: number): void {
    for (let at = 0; at < bytes.length;) {
      at += this.files.writeSync(this.#file, bytes, at, bytes.length - at, position + at);
    }
  }
}

/** On return the names in the directory are durable. */
export function syncDirectory(
  files: Pick<Files, 'openSync' | 'fsyncSync' | 'closeSync'>,
  directory: string,
): void {
  const fd = files.openSync(directory, 'r');
  try {
    files.fsyncSync(fd);
  } finally {
    files.closeSync(fd);
  }
}
