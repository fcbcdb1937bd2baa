/** The main thread's end of the thread that counts runs: nothing waits for it, and it may fail. */
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { RunCounts } from '../records/completeness-window.js';
import type { RunCountData } from './run-count-thread.js';

export class RunCount implements AsyncDisposable {
  /** As they were told last; undefined before the first time, and once the thread has failed. */
  counts: RunCounts | undefined;
  readonly #worker: Worker;

  /** To be made once the ledger is open. */
  constructor(data: RunCountData, log: Logger) {
    this.#worker = new Worker(new URL('./run-count-thread.js', import.meta.url), { workerData: data });
    this.#worker.unref();
    this.#worker.on('message', (counts: RunCounts) => (this.counts = counts));
    this.#worker.on('error', (error: Error) => {
      this.counts = undefined;
      // That of a parser repeats what it could not read.
      const reason = error.name === 'SyntaxError' ? 'an event is not JSON' : error.message;
      log.warn({ reason }, 'the runs cannot be counted; events are stored all the same');
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }
}
