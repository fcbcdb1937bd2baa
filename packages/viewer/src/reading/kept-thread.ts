/** Threads that are started again when they end. */
import { Worker } from 'node:worker_threads';
import { NotReadable } from '../contract.js';
import type { Answered, Kind, Question, Reply } from './questions.js';
import { BUSY, STOPPED } from './trouble.js';

const FIRST_PAUSE_MS = 100;
const MOST_PAUSE_MS = 10_000;
/** A thread that has run for so long is started again immediately when it ends. */
const LONG_MS = 60_000;
/** A small young generation keeps garbage from growing to hundreds of MiB in each thread. */
const HEAP_MIB = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 8 };

export interface KeptThreadOptions {
  readonly file: URL;
  readonly workerData: unknown;
  readonly onMessage: (message: unknown) => void;
  /** Called with the reason when the thread ended. */
  readonly onEnd: (reason: string) => void;
}

export class KeptThread {
  #worker: Worker | undefined;
  #isStopped = false;
  #pause = FIRST_PAUSE_MS;

  constructor(private readonly options: KeptThreadOptions) {
    this.#start();
  }

  /** @returns false if the thread has ended and is not started again yet. */
  post(message: unknown): boolean {
    this.#worker?.postMessage(message);
    return this.#worker !== undefined;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#worker?.terminate();
  }

  #start(): void {
    const { file, workerData, onMessage, onEnd } = this.options;
    const began = performance.now();
    const worker = new Worker(file, { workerData, resourceLimits: HEAP_MIB });
    let reason = 'it ended';
    worker.on('message', onMessage);
    // Its message could quote an event.
    worker.on('error', (error: Error & { code?: unknown }) => {
      reason = [error.name, error.code].filter((part) => typeof part === 'string').join(' ');
    });
    worker.on('exit', () => {
      this.#worker = undefined;
      onEnd(reason);
      if (performance.now() - began > LONG_MS) this.#pause = FIRST_PAUSE_MS;
      this.#startLater();
    });
    this.#worker = worker;
  }

  #startLater(): void {
    const start = () => {
      if (!this.#isStopped) this.#start();
    };
    setTimeout(start, this.#pause).unref();
    this.#pause = Math.min(2 * this.#pause, MOST_PAUSE_MS);
  }
}

/** Limit of the questions that wait for a thread. A hundred people may click at the same time. */
const MOST_WAITING = 256;

interface Waiting {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: NotReadable) => void;
}

/** A thread that answers questions. */
export class AskedThread {
  readonly #thread: KeptThread;
  readonly #waiting = new Map<number, Waiting>();
  #questions = 0;

  constructor(file: URL, workerData: unknown, onTrouble: (message: string) => void) {
    this.#thread = new KeptThread({
      ...{ file, workerData },
      onMessage: (message) => {
        const reply = message as Reply;
        const waiting = this.#waiting.get(reply.id);
        this.#waiting.delete(reply.id);
        if ('answer' in reply) {
          waiting?.resolve(reply.answer);
          return;
        }
        if (reply.trouble !== undefined) onTrouble(`a question was not answered: ${reply.trouble}`);
        waiting?.reject(new NotReadable(reply.refused));
      },
      onEnd: (reason) => {
        if (this.#waiting.size > 0) onTrouble(`a thread that answers questions has ended: ${reason}`);
        for (const { reject } of this.#waiting.values()) reject(new NotReadable(STOPPED));
        this.#waiting.clear();
      },
    });
  }

  /** @throws NotReadable */
  ask<Of extends Kind>(
    kind: Of,
    asked: Answered[Of]['asked'],
    atLeast: number,
  ): Promise<Answered[Of]['answer']> {
    if (this.#waiting.size >= MOST_WAITING) return Promise.reject(new NotReadable(BUSY));
    const id = this.#questions++;
    return new Promise<unknown>((resolve, reject) => {
      const isPosted = this.#thread.post({ id, kind, asked, atLeast } satisfies Question<Of>);
      if (isPosted) this.#waiting.set(id, { resolve, reject });
      else reject(new NotReadable(STOPPED));
    }) as Promise<Answered[Of]['answer']>;
  }

  stop(): Promise<void> {
    return this.#thread.stop();
  }
}
