/** A thread that reads the log beside others, and does what it is given one after the other. */
import { type Transferable, Worker, type WorkerOptions } from 'node:worker_threads';
import { StoreDamaged } from '../store/contract/events.js';

/** From the thread: what was asked for, or something else. */
type Said<Answer, Note = never> = { readonly answer: Answer } | { readonly note: Note };

export class LogThread<Job, Answer, Note = never> {
  readonly #worker: Worker;
  /** Who waits, in the order of the jobs. */
  readonly #waiting: { resolve: (answer: Answer) => void; reject: (error: unknown) => void }[] = [];
  #failure: Error | undefined;

  /** @param onNote called with what the thread says besides. */
  constructor(file: URL, options: WorkerOptions, onNote: (note: Note) => void = () => undefined) {
    this.#worker = new Worker(file, options);
    this.#worker.on('message', (said: Said<Answer, Note>) => {
      if ('note' in said) onNote(said.note);
      else this.#waiting.shift()?.resolve(said.answer);
    });
    this.#worker.on('error', (error: Error) => this.fail(revived(error)));
    this.#worker.on('exit', () => this.fail(new Error('a thread that reads the log has ended')));
  }

  /** Rejects with what ended the thread; StoreDamaged among it. */
  do(job: Job, transfer: readonly Transferable[] = []): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure);
      this.#waiting.push({ resolve, reject });
      this.#worker.postMessage(job, transfer);
    });
  }

  /** Says something that no answer comes to. */
  tell(message: unknown): void {
    this.#worker.postMessage(message);
  }

  /** All that was asked for, and will be, is rejected. */
  fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure);
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** An error that came from a thread has lost its class. */
function revived(error: Error): Error {
  if (error.name !== 'StoreDamaged' || !('place' in error)) return error;
  return Object.assign(new StoreDamaged(error.place as StoreDamaged['place'], ''), {
    message: error.message,
  });
}

/** In a thread: an error ends it, and reaches whoever waits. */
export function endBy(error: unknown): void {
  // Within a promise it would only be unhandled there.
  setImmediate(() => {
    throw error;
  });
}
