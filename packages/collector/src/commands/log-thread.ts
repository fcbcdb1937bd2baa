/** A thread that reads the log and processes its jobs one after another. */
import { type Transferable, Worker, type WorkerOptions } from 'node:worker_threads';
import { StoreDamaged } from '../store/contract/events.js';

/** A message from the thread: the answer to a job, or a note. */
type Said<Answer, Note = never> = { readonly answer: Answer } | { readonly note: Note };

export class LogThread<Job, Answer, Note = never> {
  readonly #worker: Worker;
  /** Callers that wait, in the order of their jobs. */
  readonly #waiting: { resolve: (answer: Answer) => void; reject: (error: unknown) => void }[] = [];
  #failure: Error | undefined;

  /** @param onNote receives the thread's notes. */
  constructor(file: URL, options: WorkerOptions, onNote: (note: Note) => void = () => undefined) {
    this.#worker = new Worker(file, options);
    this.#worker.on('message', (said: Said<Answer, Note>) => {
      if ('note' in said) onNote(said.note);
      else this.#waiting.shift()?.resolve(said.answer);
    });
    this.#worker.on('error', (error: Error) => this.fail(revived(error)));
    this.#worker.on('exit', () => this.fail(new Error('a thread that reads the log has ended')));
  }

  /** Rejects with the error that ended the thread, such as StoreDamaged. */
  do(job: Job, transfer: readonly Transferable[] = []): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure);
      this.#waiting.push({ resolve, reject });
      this.#worker.postMessage(job, transfer);
    });
  }

  /** Sends a message that has no answer. */
  tell(message: unknown): void {
    this.#worker.postMessage(message);
  }

  /** Rejects all current and future jobs. */
  fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure);
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** Restores the class of an error, which is lost between threads. */
function revived(error: Error): Error {
  if (error.name !== 'StoreDamaged' || !('place' in error)) return error;
  return Object.assign(new StoreDamaged(error.place as StoreDamaged['place'], ''), {
    message: error.message,
  });
}

/** Ends the calling thread with an error, which reaches the callers that wait. */
export function endBy(error: unknown): void {
  // The error is thrown outside any promise, where it would only be an unhandled rejection.
  setImmediate(() => {
    throw error;
  });
}
