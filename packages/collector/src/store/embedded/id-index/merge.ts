import { WORDS_PER_ENTRY } from './recent-table.js';
import { ENTRIES_PER_PAGE, PAGE_BYTES } from './run-format.js';
import { RunWriter, type Files } from './run-writer.js';
import type { Run } from './run.js';

/**
 * Runs of one level that become one of the next. With 4, an entry is written log4(n / table) + 1 times, and a
 * miss asks at most 3 filters a level: 12 at 10 million entries. 8 would write each 3 times and not 4, and ask
 * up to 21; look-ups are what the ledger waits for.
 */
const FAN_OUT = 4;

const BUFFER_PAGES = 16;

/**
 * The next runs to merge, or null: the oldest FAN_OUT of the lowest level that has so many.
 *
 * `runs` is the chain in order of log. Tables come in at its end at level 0 and merges take the oldest of their
 * level, so levels never rise along the chain and the runs returned are neighbours.
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

/** One merge under way, done a step at a time so that a full table never waits for a long merge. */
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

  /** Moves about `entries` entries. True when the merged run is durable under its name. */
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

/** Reads a run's entries in order, checking every page. */
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
    this.hi = this.#words[word] ?? 0;
    this.lo = this.#words[word + 1] ?? 0;
    this.addressLow = this.#words[word + 2] ?? 0;
    this.addressHigh = this.#words[word + 3] ?? 0;
    this.#at++;
    return true;
  }
}
