/**
 * Removes the encrypted bytes of erased events from a data directory in the background. A round closes the
 * current segment if it has erased events, and lets a thread compact segments (compaction.ts).
 *
 * A round costs an early end of the current segment and a reading of all affected segments. So it begins at
 * least an hour after the first new erasure and a day after the previous round; or immediately, at a start or
 * by request of a command.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { nodeFiles } from '../../files.js';
import type { Actions, LoggedAction } from '../../privacy/actions.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import { type Erasure, erasuresIn } from './compaction.js';
import { askedIn } from './inbox.js';
import type { CompactionThreadData, CompactionTrouble } from './compaction-thread.js';

/** The compiled thread, even under Vitest: a thread starts from a file. */
const THREAD = new URL(
  'compaction-thread.js',
  import.meta.url.replace(/\/src\/(?=store\/embedded\/)/, '/dist/'),
);
const DAY_MS = 86_400_000;
/** Collects the erasures of one night in one round. */
const GATHER_MS = 3_600_000;
/** Pause after a failed round. */
const RETRY_MS = 3_600_000;
export interface BackgroundCompactionOptions {
  readonly dataDir: string;
  readonly store: {
    readonly actions: Actions;
    /** On return none of these events is in the current segment. */
    endSegmentOf(events: SequenceSet): Promise<void>;
  };
  readonly onTrouble: (what: string, error: unknown) => void;
}

export class BackgroundCompaction {
  readonly #options: BackgroundCompactionOptions;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #worker: Worker | undefined;
  readonly #closing = new AbortController();
  /** Earliest time of the next round, on the clock of `performance.now`. */
  #nextAt = 0;
  /**
   * The sequence of the newest erasure without remaining encrypted bytes; undefined before the first round.
   */
  #through: number | undefined;

  constructor(options: BackgroundCompactionOptions) {
    this.#options = options;
  }

  /** Checks immediately and in intervals whether a round should begin. */
  start(intervalMs: number): this {
    const look = () => {
      this.look().catch(() => undefined);
    };
    this.#timer = setInterval(look, intervalMs).unref();
    look();
    return this;
  }

  /** Number of erasures whose encrypted bytes may be in the data directory; 0 before the first round. */
  get pending(): number {
    const through = this.#through ?? Infinity;
    const { logged } = this.#options.store.actions;
    const newer = logged.filter((action) => action.sequence > through && isErasure(action));
    return new Set(newer.map(({ said }) => said.action)).size;
  }

  /** Runs a round if it is time for one; reports its failure. Never rejects. */
  look(): Promise<void> {
    return (this.#round ??= this.#look().finally(() => (this.#round = undefined)));
  }

  /** Stops. The next start continues an interrupted round. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    await this.#worker?.terminate();
    await this.#round;
  }

  async #look(): Promise<void> {
    const { dataDir, store, onTrouble } = this.#options;
    let asked: readonly string[] = [];
    let isWhole = false;
    const newest = store.actions.logged.findLast(isErasure)?.sequence ?? 0;
    try {
      asked = askedIn(dataDir);
      if (this.#closing.signal.aborted || (!this.#isDue() && asked.length === 0)) return;
      isWhole = await this.#compact();
    } catch (error) {
      onTrouble('encrypted bytes of erased events cannot be removed; the removal is retried', error);
    }
    const now = performance.now();
    if (!isWhole) this.#nextAt = now + RETRY_MS;
    // The round at a start does not delay the next one by a day.
    else if (this.#through !== undefined) this.#nextAt = now + DAY_MS;
    this.#through = isWhole ? newest : (this.#through ?? 0);
    for (const file of asked) nodeFiles.remove(file);
  }

  #isDue(): boolean {
    const through = this.#through;
    if (performance.now() < this.#nextAt) return false;
    if (through === undefined) return true;
    const { logged } = this.#options.store.actions;
    if ((logged.at(-1)?.sequence ?? 0) <= through) return false;
    const first = logged.find((action) => action.sequence > through && isErasure(action));
    return first !== undefined && Date.now() - first.at >= GATHER_MS;
  }

  /** @returns whether all segments with erased events are compacted. */
  async #compact(): Promise<boolean> {
    const { dataDir, store, onTrouble } = this.#options;
    const erasures = erasuresIn(store.actions);
    if (erasures.length === 0) return true;
    await store.endSegmentOf(store.actions.erased);
    if (this.#closing.signal.aborted) return false;
    const worker = new Worker(THREAD, { workerData: threadData(dataDir, erasures) });
    this.#worker = worker;
    let isWhole = true;
    worker.on('message', ({ trouble }: CompactionTrouble) => {
      isWhole = false;
      onTrouble('a segment keeps encrypted bytes of erased events; the removal is retried', trouble);
    });
    await once(worker, 'exit');
    return isWhole;
  }
}

function isErasure({ said }: LoggedAction): boolean {
  return said.does === 'erase';
}

function threadData(dataDir: string, erasures: readonly Erasure[]): CompactionThreadData {
  return { dataDir, erasures: erasures.map((each) => ({ ...each, erased: each.erased.toText() })) };
}
