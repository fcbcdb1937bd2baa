import * as fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { handOver } from '../../../files.js';
import { admit, PRIVATE } from '../../../readers.js';
import {
  ENTRIES_PER_PAGE,
  PAGE_BYTES,
  type RunHeader,
  type RunLayout,
  UNFINISHED,
  WORDS_PER_BLOCK,
  WORDS_PER_PAGE,
  blockOf,
  encodeHeader,
  layoutOf,
  nameOf,
  setBits,
  wordAt,
} from './sorted-run-format.js';
import { type Run, WORDS_PER_ENTRY } from './sorted-run.js';

/** The file calls of the writer; tests pass failing ones. */
export type Files = Pick<
  typeof fs,
  'openSync' | 'writeSync' | 'fdatasyncSync' | 'fsyncSync' | 'renameSync' | 'unlinkSync' | 'closeSync'
>;

/** Flags to create a file without following a link. */
const CREATING =
  fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_TRUNC | fs.constants.O_NOFOLLOW;

const BUFFER_PAGES = 16;

/**
 * Pages between two syncs. With a single sync at the end of a merge, the ledger's own sync would wait for all
 * of it.
 */
const SYNC_PAGES = 2048;

/**
 * Writes one run from entries in order. Memory is bounded by two buffers and the page table.
 *
 * Order at a crash: pages, page table and header under an unfinished name; sync; rename; sync of the
 * directory. Only then may the caller announce the run or delete the runs that it replaces. A crash before
 * the rename leaves an unused file; a crash after it leaves a complete run and its inputs.
 */
export class RunWriter {
  readonly name: string;
  /**
   * The open file; null after closing, because a second close could close a file that another thread has
   * opened.
   */
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
  /** The entry with the highest address: fingerprint high, low, address low, high. */
  readonly #newest = new Uint32Array(WORDS_PER_ENTRY);

  /** `header.count` must equal the number of entries added: it determines the layout. */
  constructor(
    private readonly files: Files,
    private readonly directory: string,
    private readonly header: RunHeader,
  ) {
    this.name = nameOf(header);
    this.#layout = layoutOf(header.count);
    this.#table = new Uint32Array(this.#layout.tableWords);
    this.#unfinished = path.join(directory, this.name + UNFINISHED);
    this.#fd = files.openSync(this.#unfinished, CREATING, PRIVATE.file);
    handOver(this.#fd, directory);
    admit(this.#fd, this.#unfinished);
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
    const highest = wordAt(newest, 3);
    if (addressHigh > highest || (addressHigh === highest && addressLow >= wordAt(newest, 2))) {
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
      this.#table[fences + this.#entryPage + i] = wordAt(this.#entries, i * WORDS_PER_PAGE);
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

  /** Completes the run. On return it is durable under its name. */
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

  /** Cleans up after a failure. Never throws, so that the failure itself is reported. */
  discard(): void {
    try {
      this.#close();
    } catch {
      // The descriptor is released in any case.
    }
    try {
      this.files.unlinkSync(this.#unfinished);
    } catch {
      // The file remains or is renamed already; opening the index removes it in both cases.
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

/** Makes the names in a directory durable. */
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

/**
 * Number of runs of one level that are merged into one of the next. With 4, an entry is written log4(n /
 * table) + 1 times, and a miss checks at most 3 filters per level: 12 at 10 million entries. With 8, each is
 * written 3 times instead of 4, but up to 21 filters are checked; the ledger waits for look-ups.
 */
const FAN_OUT = 4;

/**
 * The next runs to merge, or null: the oldest FAN_OUT runs of the lowest level with at least this number.
 *
 * `runs` is the chain in the order of the log. Tables are appended at level 0 and merges take the oldest runs
 * of a level, so levels never rise along the chain and the returned runs are adjacent.
 */
export function nextMerge(runs: readonly Run[]): Run[] | null {
  const byLevel = new Map<number, Run[]>();
  for (const run of runs) {
    const peers = byLevel.get(run.header.level);
    if (peers) peers.push(run);
    else byLevel.set(run.header.level, [run]);
  }
  const full = [...byLevel].filter(([, peers]) => peers.length >= FAN_OUT);
  full.sort(([a], [b]) => a - b);
  return full[0]?.[1].slice(0, FAN_OUT) ?? null;
}

/** A merge in steps, so that a full table never waits for a long merge. */
export class Merge {
  readonly #writer: RunWriter;
  readonly #cursors: Cursor[];

  constructor(
    files: Files,
    directory: string,
    readonly inputs: readonly Run[],
  ) {
    const [first, last] = [inputs[0]?.header, inputs.at(-1)?.header];
    if (!first || !last) throw new RangeError('nothing to merge');
    const count = inputs.reduce((sum, run) => sum + run.header.count, 0);
    this.#writer = new RunWriter(files, directory, { ...first, level: first.level + 1, count, to: last.to });
    this.#cursors = inputs.filter((run) => run.header.count > 0).map((run) => new Cursor(run));
  }

  get name(): string {
    return this.#writer.name;
  }

  /** Merges up to `entries` entries. @returns true when the merged run is durable under its name. */
  step(entries: number): boolean {
    const cursors = this.#cursors;
    for (let left = entries; left > 0; left--) {
      let least = cursors[0];
      if (least === undefined) {
        this.#writer.finish();
        return true;
      }
      for (let i = 1; i < cursors.length; i++) {
        const other = cursors[i];
        if (other && (other.hi < least.hi || (other.hi === least.hi && other.lo < least.lo))) least = other;
      }
      this.#writer.add(least.hi, least.lo, least.addressLow, least.addressHigh);
      if (!least.next()) cursors.splice(cursors.indexOf(least), 1);
    }
    return false;
  }

  discard(): void {
    this.#writer.discard();
  }
}

/** Reads the entries of a run in order and checks every page. */
class Cursor {
  hi = 0;
  lo = 0;
  addressLow = 0;
  addressHigh = 0;
  readonly #bytes = new Uint8Array(BUFFER_PAGES * PAGE_BYTES);
  readonly #words = new Uint32Array(this.#bytes.buffer);
  #at = 0;

  constructor(readonly run: Run) {
    this.next();
  }

  next(): boolean {
    const { header, layout } = this.run;
    if (this.#at === header.count) return false;
    const within = this.#at % (BUFFER_PAGES * ENTRIES_PER_PAGE);
    if (within === 0) {
      const first = this.#at / ENTRIES_PER_PAGE;
      this.run.readPages(first, Math.min(BUFFER_PAGES, layout.entryPages - first), this.#bytes);
    }
    const word = within * WORDS_PER_ENTRY;
    this.hi = wordAt(this.#words, word);
    this.lo = wordAt(this.#words, word + 1);
    this.addressLow = wordAt(this.#words, word + 2);
    this.addressHigh = wordAt(this.#words, word + 3);
    this.#at++;
    return true;
  }
}
