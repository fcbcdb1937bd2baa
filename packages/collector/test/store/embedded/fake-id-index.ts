/**
 * The id index as a plain list in memory, for tests that open a store thousands of times: the real one starts a
 * thread each time. It has the same contract (id-index.ts) and fingerprints so weak that events often collide.
 */
type Entry = readonly [hi: number, lo: number, address: number];

interface Published {
  readonly entries: readonly Entry[];
  readonly coveredTo: number;
}

/** The files on the disk, by directory. */
export const published = new Map<string, Published>();

export const IdIndexReader = {
  read: ({ directory }: { directory: string }) => ({
    coveredTo: published.get(directory)?.coveredTo ?? 0,
    close: () => Promise.resolve(),
  }),
};

export class IdIndex {
  hi = 0;
  lo = 0;
  readonly room = 100_000;
  readonly #entries: Entry[];
  #committed: number;
  #closed = false;

  static open({ directory, logEnd }: { directory: string; logEnd: number }): IdIndex {
    const found = published.get(directory) ?? { entries: [], coveredTo: 0 };
    if (found.coveredTo > logEnd) throw new Error('the index covers more than the log holds');
    return new IdIndex(directory, found);
  }

  private constructor(
    private readonly directory: string,
    { entries, coveredTo }: Published,
  ) {
    this.#entries = [...entries];
    this.#committed = coveredTo;
  }

  get coveredTo(): number {
    return published.get(this.directory)?.coveredTo ?? 0;
  }

  fingerprint(organisation: string, bytes: Uint8Array, offset: number): void {
    this.hi = organisation.length;
    this.lo = (bytes[offset + 15] ?? 0) & 3;
  }

  /** Without runs: whether an index is of this log is tested with the real one. */
  newestOfRuns(): readonly [] {
    return [];
  }

  find(hi: number, lo: number, out: number[]): number {
    let found = 0;
    for (const entry of this.#entries) if (entry[0] === hi && entry[1] === lo) out[found++] = entry[2];
    return found;
  }

  add(hi: number, lo: number, address: number): void {
    if (this.#closed || address < this.#committed)
      throw new RangeError('an address that was committed before');
    this.#entries.push([hi, lo, address]);
  }

  commit(to: number): void {
    if (to < this.#committed) throw new RangeError('a commit that goes back');
    this.#committed = to;
  }

  close(): Promise<void> {
    this.#closed = true;
    const entries = this.#entries.filter(([, , address]) => address < this.#committed);
    published.set(this.directory, { entries, coveredTo: this.#committed });
    return Promise.resolve();
  }
}
