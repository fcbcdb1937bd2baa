import { Fingerprint, randomKey } from './fingerprint.js';
import { openChain, type ReadOptions } from './run-directory.js';
import type { Entry } from './run-format.js';
import type { Run } from './run.js';

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
 * from `coveredTo` on, or opens anew.
 */
export class IdIndexReader {
  protected readonly runs: Run[];
  protected readonly origin: number;
  readonly #fingerprint: Fingerprint;

  /** Throws the file system's error. Damaged runs are not used and told to `onError`; `coveredTo` says the rest. */
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
   * went on differently, has another event at that address, or none: what tells an index from a stranger's.
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
