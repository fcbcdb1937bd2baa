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
  /** The log's first address; runs must follow each other from here. */
  readonly origin: number;
  /** The log's end. A run that speaks of more belongs to a log that has since lost its tail, and is not used. */
  readonly logEnd: number;
  /** Filters larger than this (bytes) stay on disk and cost a page read a lookup. */
  readonly filterMemory: number;
  /** Whether to read every page now (1 to 2 GB/s from the page cache) or only as it is needed. */
  readonly verify: boolean;
  readonly onError: (error: unknown) => void;
}

/** What a listing that changed under the reader costs at most; each further look is at a newer listing. */
const LOOKS = 10;

/**
 * The runs in a directory that together cover the log from its origin without a gap.
 *
 * The names are the manifest. From each address on, the sound run that reaches furthest is taken: so a merged
 * run replaces its inputs in the instant of its rename, whether or not they have been deleted, and should it
 * turn out damaged while they are still there, they serve. A manifest of its own was the alternative: one more
 * durable write for every table, and one more file whose loss is the loss of everything.
 *
 * What does not fit the chain is never used: it is behind a gap, of another key, torn, or replaced.
 */
export function openChain(options: ReadOptions, whileWritten: boolean): Run[] {
  for (let look = 1; ; look++) {
    const chain = new Chain(options);
    // Merges go on while another process reads the names: what vanished or does not meet may be there by now.
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
  /** False when a run vanished while it was looked at, or there are runs behind a gap. */
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
      throw damaged(name, 'holds the run of another stretch of log');
    }
    const key = this.runs[0]?.header ?? header;
    if (key.k0 !== header.k0 || key.k1 !== header.k1) {
      throw damaged(name, 'belongs to another index');
    }
    if (this.options.verify) run.verify();
  }
}

/**
 * Deletes the runs and unfinished runs that are not of this chain, durably. Only the writer may, and before the
 * log grows again: once the log has been cut and has grown past a run that spoke of the part cut off, nothing
 * about that run would look wrong any more.
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

/** 16 MiB hold the filter of 13 million entries. All filters in memory are then below 60 MiB, at any size of log. */
const FILTER_MEMORY = 16 * 1024 * 1024;

export type IdIndexReaderOptions = Partial<ReadOptions> & Pick<ReadOptions, 'directory'>;

/**
 * The published runs of an index, as any process may read them at any time.
 *
 * What `find` yields are candidates: addresses below `coveredTo` of events whose fingerprint is this one. The
 * caller reads the log there and compares organisation and id; an address that holds something else, or
 * nothing, is no match. The other way round nothing is missing: no candidate means no such event in the log
 * from its origin to `coveredTo`.
 *
 * A reader sees the runs published when it was opened. Later events it does not know: the caller scans the log
 * from `coveredTo` on, or opens again.
 */
export class IdIndexReader {
  protected readonly runs: Run[];
  protected readonly origin: number;
  readonly #fingerprint: Fingerprint;

  /** Throws the file system's error. Damaged runs are not used and reported to `onError`; `coveredTo` says the rest. */
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

  /** The end (exclusive) of the log that published runs cover: at start-up, add every event from here on. */
  get coveredTo(): number {
    return this.runs.at(-1)?.header.to ?? this.origin;
  }

  /** The words of the fingerprint last made, unsigned. */
  get hi(): number {
    return this.#fingerprint.hi;
  }

  get lo(): number {
    return this.#fingerprint.lo;
  }

  protected get key() {
    return this.#fingerprint.key;
  }

  /** Sets `hi` and `lo` for the 16-byte id at `offset`. */
  fingerprint(organisation: string, bytes: Uint8Array, offset: number): void {
    this.#fingerprint.of(organisation, bytes, offset);
  }

  /**
   * Writes the candidate addresses to `out` from index 0 on and returns how many; `out` keeps its length.
   * A miss makes no object (V8 boxes numbers above 2^31: about 75 bytes an event). Throws IdIndexError `corrupt`.
   */
  find(hi: number, lo: number, out: number[]): number {
    return this.findInRuns(hi, lo, out, 0);
  }

  protected findInRuns(hi: number, lo: number, out: number[], found: number): number {
    for (let i = this.runs.length - 1; i >= 0; i--) found = this.runs[i]?.find(hi, lo, out, found) ?? found;
    return found;
  }

  /**
   * Of each run the newest event. A run of another log, or of a copy of this one that
   * went on differently, has another event at that address, or none: what distinguishes an index from that of another
   * log.
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
