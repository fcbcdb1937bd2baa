/**
 * Threads that make records, one for each core: to read, scan and encode takes five times as long as to group. Their
 * pieces come back in the order of the runs.
 */
import os from 'node:os';
import { Worker } from 'node:worker_threads';
import type { RunGroups } from '../records/run-groups.js';
import type { RunList } from '../records/sorted-runs.js';
import { StoreDamaged } from '../store/store.js';
import { FORMATS } from './record-formats.js';
import type { Answer, ThreadSettings, Told } from './record-job.js';
import type { PlacedPiece } from './record-pieces.js';

/** Runs to a job, and bytes of log where the format does not ask for more: what is in memory at once. */
const JOB_RUNS = 16_384;
const JOB_BYTES = 4 << 20;
/** Fewer events are done before a second thread has started. */
const EVENTS_TO_A_THREAD = 20_000;
const MOST_THREADS = 4;
/** The young generation: what one window leaves behind should die in it, and not be copied. */
const YOUNG_MEBIBYTES = 96;

export interface Made {
  readonly pieces: readonly PlacedPiece[];
  /** How many events were gone through. */
  readonly passed: number;
}

export class RecordThreads {
  readonly #settings: ThreadSettings;
  readonly #threads: RecordThread[] = [];

  constructor(settings: ThreadSettings) {
    this.#settings = settings;
  }

  /**
   * The pieces of all records, in order.
   * @throws what a thread could not do; StoreDamaged among it.
   */
  async *pieces(groups: RunGroups, signal: AbortSignal): AsyncGenerator<Made> {
    const count = Math.min(
      MOST_THREADS,
      os.availableParallelism(),
      Math.max(1, Math.ceil(groups.events / EVENTS_TO_A_THREAD)),
    );
    for (let i = 0; i < count; i++) this.#threads.push(new RecordThread(this.#settings, groups));
    const waiting: Promise<Made>[] = [];
    let turn = 0;
    const jobBytes = FORMATS[this.#settings.format]?.jobBytes ?? JOB_BYTES;
    for (const runs of groups.lists(JOB_RUNS, jobBytes)) {
      signal.throwIfAborted();
      const thread = this.#threads[turn++ % count];
      if (thread === undefined) return;
      waiting.push(thread.make(runs));
      // Each has one to do and one to go on with.
      while (waiting.length >= 2 * count) yield await first(waiting, signal);
    }
    while (waiting.length > 0) yield await first(waiting, signal);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.stop()));
  }
}

async function first(waiting: Promise<Made>[], signal: AbortSignal): Promise<Made> {
  const made = await waiting.shift();
  if (made === undefined) throw new RangeError('nothing is under way');
  signal.throwIfAborted();
  return made;
}

/** One thread. It has its next job before it is done with one, and does them one after the other. */
class RecordThread {
  readonly #worker: Worker;
  /** Who waits for what it was told to make, in the order of the jobs. */
  readonly #waiting: { resolve: (made: Made) => void; reject: (error: unknown) => void }[] = [];
  #failure: Error | undefined;

  constructor(
    settings: ThreadSettings,
    private readonly groups: RunGroups,
  ) {
    this.#worker = new Worker(new URL('record-thread.js', import.meta.url), {
      workerData: settings,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MEBIBYTES },
    });
    this.#worker.on('message', (answer: Answer) => this.#take(answer));
    this.#worker.on('error', (error: Error) => this.#fail(revived(error)));
    this.#worker.on('exit', () => this.#fail(new Error('a thread that makes records has ended')));
  }

  make(runs: RunList): Promise<Made> {
    const made = new Promise<Made>((resolve, reject) => {
      if (this.#failure === undefined) this.#waiting.push({ resolve, reject });
      else reject(this.#failure);
    });
    // Whoever waits for it is told; until then it must not end the process.
    made.catch(() => undefined);
    this.#tell({ job: { entries: runs.entries, links: this.groups.linkedIn(runs) } });
    return made;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }

  #take(answer: Answer): void {
    if ('questions' in answer) {
      try {
        const runs = answer.questions.map(({ organisation, eventId }) =>
          this.groups.runOf(organisation, eventId),
        );
        this.#tell({ runs });
      } catch (error) {
        this.#fail(error instanceof Error ? error : new Error(String(error)));
      }
      return;
    }
    this.#waiting.shift()?.resolve(answer);
  }

  #tell(told: Told): void {
    this.#worker.postMessage(told);
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure);
  }
}

/** An error that came from a thread has lost its class. */
export function revived(error: Error): Error {
  if (error.name !== 'StoreDamaged' || !('place' in error)) return error;
  return Object.assign(new StoreDamaged(error.place as StoreDamaged['place'], ''), {
    message: error.message,
  });
}
