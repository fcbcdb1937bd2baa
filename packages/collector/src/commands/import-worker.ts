/** The main thread's end of the thread that reads the inputs of an import. */
import { Worker } from 'node:worker_threads';
import { STANDARD_INPUT } from '../importing/input.js';
import type { PreparedBatch } from '../importing/batch.js';
import type { PreparationSettings } from '../importing/preparation.js';
import type { ImportThreadMessage } from './import-thread.js';

export class ImportWorker {
  readonly #worker: Worker;
  readonly #waiting: PreparedBatch[] = [];
  #ended = false;
  #error: Error | undefined;
  #wake: () => void = () => undefined;

  constructor(settings: PreparationSettings) {
    const readsStandardInput = settings.inputs.includes(STANDARD_INPUT);
    this.#worker = new Worker(new URL('./import-thread.js', import.meta.url), {
      workerData: settings,
      stdin: readsStandardInput,
    });
    // A thread that reads a pipe itself cannot be stopped before something comes through it.
    if (readsStandardInput && this.#worker.stdin !== null) process.stdin.pipe(this.#worker.stdin);
    this.#worker.on('message', (message: ImportThreadMessage) => {
      if (this.#ended) return;
      if (message.type === 'batch') this.#waiting.push(message.batch);
      else this.#ended = true;
      this.#wake();
    });
    const fail = (error: Error) => {
      if (!this.#ended) this.#error = error;
      this.#ended = true;
      this.#wake();
    };
    this.#worker.on('error', (error) => fail(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on('exit', () => fail(new Error('the thread that reads the files ended before them')));
  }

  /** The batches in their order, each good until the next is asked for, until all inputs are read or `cease` is called. */
  async *batches(): AsyncGenerator<PreparedBatch, void> {
    for (;;) {
      const batch = this.#waiting.shift();
      if (batch !== undefined) {
        yield batch;
        this.#worker.postMessage(batch.block, [batch.block.buffer]);
        // Signals, timers and what the thread says have their turn, also when a batch waits already.
        await new Promise(setImmediate);
        continue;
      }
      if (this.#error !== undefined) throw this.#error;
      if (this.#ended) return;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** No more batches come after the one that is being stored. */
  cease(): void {
    this.#ended = true;
    this.#waiting.length = 0;
    this.#wake();
  }

  /** On return the thread is gone, and standard input is let go. */
  async stop(): Promise<void> {
    this.cease();
    if (this.#worker.stdin !== null) {
      process.stdin.unpipe(this.#worker.stdin);
      process.stdin.destroy();
    }
    await this.#worker.terminate();
  }
}
