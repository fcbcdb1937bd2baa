/** Threads that sum records for an update that covers most of a log (summing-thread.ts). */
import os from 'node:os';
import { type DueRecord, type SummedOrNot, sumBy } from '../catalogue/summing.js';
import { LogThread } from './log-thread.js';

/** One thread per core, except for the core of the writer. */
const MOST_THREADS = 4;
/** Size of the young generation: large enough that objects from half a mebibyte of log die in it. */
const YOUNG_MEBIBYTES = 16;

export class SummingThreads {
  readonly #threads: LogThread<Float64Array, string>[];
  #turn = 0;

  constructor(dataDir: string) {
    const file = new URL('summing-thread.js', import.meta.url);
    const length = Math.min(MOST_THREADS, Math.max(1, os.availableParallelism() - 1));
    const options = {
      workerData: dataDir,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MEBIBYTES },
    };
    this.#threads = Array.from({ length }, () => new LogThread(file, options));
  }

  sum(records: readonly DueRecord[], before: number): Promise<readonly SummedOrNot[]> {
    const thread = this.#threads[this.#turn++ % this.#threads.length];
    if (thread === undefined) throw new TypeError('there is no thread');
    return sumBy((job) => thread.do(job), records, before);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.stop()));
  }
}
