/** The main thread's side of the thread that keeps the catalogue up to date. That thread may fail. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Tally } from '../../catalogue/catalogue.js';
import type { FollowerData, FollowerState } from './follower-thread.js';

/** Delay before a failed thread is replaced: a run that is too large for it will be too large again. */
const RESTART_MS = 60_000;
const END_MS = 2000;
/**
 * The maximum size of the heap in MiB. Memory outside the heap, mostly SQLite's pages, adds about 60 MiB.
 */
const HEAP_MIB = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 };

export class Follower implements AsyncDisposable {
  /** The last tally; undefined before the first. */
  tally: Tally | undefined;
  /** When updates of the catalogue began to fail, in milliseconds since 1970 UTC. */
  troubleSince: number | undefined;
  #worker: Worker | undefined;
  #restart: NodeJS.Timeout | undefined;
  #end: Promise<void> | undefined;

  /** Construct it once the ledger is open. */
  constructor(
    private readonly data: FollowerData,
    private readonly log: Logger,
  ) {
    this.#start();
  }

  /** Ends the thread; gives up on one that is stuck in a file system call. */
  end(): Promise<void> {
    clearTimeout(this.#restart);
    const late = sleep(END_MS, undefined, { ref: false });
    this.#end ??= Promise.race([this.#worker?.terminate(), late]).then(() => undefined);
    return this.#end;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }

  #start(): void {
    const url = new URL('./follower-thread.js', import.meta.url);
    this.#worker = new Worker(url, { workerData: this.data, resourceLimits: HEAP_MIB });
    this.#worker.unref();
    this.#worker.on('message', (state: FollowerState) => this.#hear(state));
    this.#worker.on('error', (error: Error) => {
      this.#hear({ trouble: error.message });
      if (this.#end === undefined) this.#restart = setTimeout(() => this.#start(), RESTART_MS).unref();
    });
  }

  #hear({ tally, trouble }: FollowerState): void {
    if (trouble === undefined) {
      if (this.troubleSince !== undefined) this.log.info('the catalogue is being updated again');
      this.troubleSince = undefined;
      this.tally = tally ?? this.tally;
      return;
    }
    if (this.troubleSince === undefined)
      this.log.warn(
        { reason: trouble },
        'the catalogue cannot be updated; events are still stored, and the update is retried',
      );
    this.troubleSince ??= Date.now();
  }
}
