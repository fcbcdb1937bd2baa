import * as fs from 'node:fs';
import path from 'node:path';
import { systemCode } from '../../../system-code.js';
import {
  type Entry,
  Fingerprint,
  IdIndexError,
  UNFINISHED,
  parseName,
  randomKey,
} from './sorted-run-format.js';
import { syncDirectory } from './sorted-run-writer.js';
import { Run, damaged } from './sorted-run.js';

export interface ReadOptions {
  readonly directory: string;
  /** The first address of the log, where the chain of runs begins. */
  readonly origin: number;
  /** The end of the log. A run beyond it is not used: the log has lost its tail since. */
  readonly logEnd: number;
  /** Filters larger than this (bytes) stay on disk and cost a page read per look-up. */
  readonly filterMemory: number;
  /** Whether to check every page at opening (1 to 2 GB/s from the page cache) or only when it is read. */
  readonly verify: boolean;
  readonly onError: (error: unknown) => void;
}

/** Maximum number of listings if the directory changes during a look. */
const LOOKS = 10;

/**
 * Opens the runs in a directory that cover the log from its origin without a gap.
 *
 * The names are the manifest. From each address on, the valid run that reaches furthest is used: a merged run
 * replaces its inputs at its rename, and they serve again if it is damaged and they still exist. A manifest
 * file would cost a durable write per table, and its loss would be the loss of the index.
 *
 * Other runs are never used: they are after a gap, damaged, replaced, or have another key.
 */
export function openChain(options: ReadOptions, whileWritten: boolean): Run[] {
  for (let look = 1; ; look++) {
    const chain = new Chain(options);
    // A merge of another process may have changed the directory during the look; a new look may succeed.
    if (chain.sound || !whileWritten || look === LOOKS) {
      for (const error of chain.discarded) options.onError(error);
      return chain.runs;
    }
    for (const run of chain.runs) run.close();
  }
}

class Chain {
  readonly runs: Run[] = [];
  readonly discarded: IdIndexError[] = [];
  /** False if a run was deleted during the look, or there are runs after a gap. */
  sound = true;

  constructor(private readonly options: ReadOptions) {
    const byStart = new Map<number, { name: string; to: number }[]>();
    let furthest = options.origin;
    for (const name of fs.readdirSync(options.directory)) {
      const stretch = parseName(name);
      if (stretch === null || stretch.to > options.logEnd) continue;
      furthest = Math.max(furthest, stretch.to);
      const peers = byStart.get(stretch.from) ?? [];
      byStart.set(stretch.from, [...peers, { name, to: stretch.to }]);
    }
    let reached = options.origin;
    for (;;) {
      const peers = (byStart.get(reached) ?? []).filter(({ to }) => to > reached);
      peers.sort((a, b) => b.to - a.to);
      const run = this.#firstSound(peers.map(({ name }) => name));
      if (run === null) break;
      this.runs.push(run);
      reached = run.header.to;
    }
    if (reached < furthest) this.sound = false;
  }

  #firstSound(names: string[]): Run | null {
    for (const name of names) {
      try {
        const run = Run.open(this.options.directory, name, this.options.filterMemory);
        try {
          this.#check(run);
          return run;
        } catch (error) {
          run.close();
          throw error;
        }
      } catch (error) {
        if (isMissing(error)) this.sound = false;
        else if (error instanceof IdIndexError) this.discarded.push(error);
        else throw error;
      }
    }
    return null;
  }

  #check(run: Run): void {
    const { name, header } = run.image;
    const stretch = parseName(name);
    if (stretch?.from !== header.from || stretch.to !== header.to) {
      throw damaged(name, 'contains the run of another range of the log');
    }
    const key = this.runs[0]?.header ?? header;
    if (key.k0 !== header.k0 || key.k1 !== header.k1) {
      throw damaged(name, 'belongs to another index');
    }
    if (this.options.verify) run.verify();
  }
}

/**
 * Durably deletes all runs and unfinished runs that are not in this chain. Only the writer may do it, before
 * the log grows: once a truncated log has grown again, a run over the lost part would look valid.
 */
export function clearAway(directory: string, chain: readonly Run[]): void {
  const kept = new Set(chain.map((run) => run.image.name));
  let cleared = false;
  for (const name of fs.readdirSync(directory)) {
    const ours = parseName(name) !== null || name.endsWith(`.run${UNFINISHED}`);
    if (!ours || kept.has(name)) continue;
    fs.unlinkSync(path.join(directory, name));
    cleared = true;
  }
  if (cleared) syncDirectory(fs, directory);
}

function isMissing(error: unknown): boolean {
  return systemCode(error) === 'ENOENT';
}

/**
 * 16 MiB hold the filter of 13 million entries; all filters in memory are then below 60 MiB, at any size of
 * the log.
 */
const FILTER_MEMORY = 16 * 1024 * 1024;

export type IdIndexReaderOptions = Partial<ReadOptions> & Pick<ReadOptions, 'directory'>;

/**
 * The published runs of an index, for any process at any time.
 *
 * `find` returns candidates: addresses below `coveredTo` of events with the fingerprint. The caller reads the
 * log there and compares organisation and id. If there is no candidate, the log has no such event before
 * `coveredTo`.
 *
 * A reader uses the runs that were published when it was opened. For later events the caller scans the log
 * from `coveredTo` on, or opens the index again.
 */
export class IdIndexReader {
  protected readonly runs: Run[];
  protected readonly origin: number;
  readonly #fingerprint: Fingerprint;

  /**
   * Opens the index. Damaged runs are reported to `onError` and not used.
   * @throws the error of the file system.
   */
  static read(options: IdIndexReaderOptions): IdIndexReader {
    const full = withDefaults(options);
    return new IdIndexReader(full, openChain(full, true));
  }

  protected constructor(options: ReadOptions, runs: Run[]) {
    this.origin = options.origin;
    this.runs = runs;
    const first = runs[0];
    this.#fingerprint = new Fingerprint(first ? { k0: first.header.k0, k1: first.header.k1 } : randomKey());
  }

  /** End (exclusive) of the covered part of the log: at a start, add every event from here on. */
  get coveredTo(): number {
    return this.runs.at(-1)?.header.to ?? this.origin;
  }

  /** The words of the last fingerprint, unsigned. */
  get hi(): number {
    return this.#fingerprint.hi;
  }

  get lo(): number {
    return this.#fingerprint.lo;
  }

  protected get key() {
    return this.#fingerprint.key;
  }

  /** Sets `hi` and `lo` to the fingerprint of the 16-byte id at `offset`. */
  fingerprint(organisation: string, bytes: Uint8Array, offset: number): void {
    this.#fingerprint.of(organisation, bytes, offset);
  }

  /**
   * Writes the candidate addresses to `out` from index 0 on and returns their number; `out` keeps its length,
   * so that a miss allocates nothing. @throws IdIndexError `corrupt`
   */
  find(hi: number, lo: number, out: number[]): number {
    return this.findInRuns(hi, lo, out, 0);
  }

  protected findInRuns(hi: number, lo: number, out: number[], found: number): number {
    for (let i = this.runs.length - 1; i >= 0; i--) found = this.runs[i]?.find(hi, lo, out, found) ?? found;
    return found;
  }

  /**
   * Yields the newest event of each run. In another log, or a diverged copy of this one, the address has
   * another event or none, which shows that the index does not belong to it.
   */
  *newestOfRuns(): Generator<Entry> {
    for (const { newest } of this.runs) if (newest !== undefined) yield newest;
  }

  /** Closes the files. */
  close(): Promise<void> {
    for (const run of this.runs.splice(0)) run.close();
    return Promise.resolve();
  }
}

export function withDefaults(options: IdIndexReaderOptions): ReadOptions {
  return {
    origin: 0,
    logEnd: Infinity,
    filterMemory: FILTER_MEMORY,
    verify: true,
    onError: () => undefined,
    ...options,
  };
}
