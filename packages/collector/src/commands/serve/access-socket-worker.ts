/** The main thread's side of the thread that offers the access socket. A failure stops no event. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Snapshot } from '../../operate/snapshot.js';
import type { AccessSocketMessage } from './access-socket-thread.js';

const END_MS = 2000;
/** Delay before another thread tries to offer the socket, in milliseconds: the disk may have been full. */
const RETRY_MS = 10_000;
const HEAP_MIB = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 };

export class AccessSocketWorker {
  /** Looks with break-glass since the start. */
  breakGlass: Snapshot['breakGlass'] = { looks: 0, at: undefined };
  #worker: Worker;
  #exited = Promise.resolve();
  #restart: NodeJS.Timeout | undefined;
  #isEnding = false;
  #isRefused = false;

  constructor(
    private readonly dataDir: string,
    private readonly log: Logger,
  ) {
    this.#worker = this.#start();
  }

  /** Closes the socket; gives up on a thread that waits for a disk. */
  async end(): Promise<void> {
    this.#isEnding = true;
    clearTimeout(this.#restart);
    this.#worker.postMessage('close');
    await Promise.race([this.#exited, sleep(END_MS, undefined, { ref: false })]);
    // Not awaited: it may be stuck in a file system call.
    this.#worker.terminate().catch(() => undefined);
  }

  #start(): Worker {
    const url = new URL('./access-socket-thread.js', import.meta.url);
    const worker = new Worker(url, { workerData: this.dataDir, resourceLimits: HEAP_MIB });
    worker.unref();
    this.#exited = new Promise((resolve) => worker.once('exit', () => resolve()));
    worker.on('message', (message: AccessSocketMessage) => this.#hear(message));
    worker.on('error', ({ message: reason }: Error) => this.#hear({ type: 'refused', reason }));
    return worker;
  }

  #hear(message: AccessSocketMessage): void {
    if (message.type === 'break-glass') {
      this.breakGlass = { looks: this.breakGlass.looks + 1, at: Date.now() };
      return;
    }
    if (message.type === 'offered') {
      if (this.#isRefused) this.log.info('the access socket is offered');
      this.#isRefused = false;
      return;
    }
    if (!this.#isRefused)
      this.log.warn(
        { reason: message.reason },
        'the access socket cannot be offered, so collector-viewer shows nothing; this is retried',
      );
    this.#isRefused = true;
    if (!this.#isEnding) this.#restart = setTimeout(() => (this.#worker = this.#start()), RETRY_MS).unref();
  }
}
