/** The first thread's end of the other HTTP threads: starts them, tells them what it hears, and adds up what they count. */
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Config } from '../../config.js';
import type { LedgerState } from '../../ledger/ledger.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import type { HttpReport, QueueEnd, SharedLimits } from './http-side.js';
import type { HttpThreadData, HttpThreadMessage, HttpThreadRequest } from './http-thread.js';
import type { ResolvedConfig } from './resolved-config.js';

/** So long after its time a thread that was told to stop is waited for, in milliseconds. */
const GRACE_MS = 1000;

export interface HttpThreadsOptions {
  readonly config: Config;
  /** One for each thread. */
  readonly queues: readonly QueueEnd[];
  readonly limits: SharedLimits | undefined;
  readonly tls: ResolvedConfig['tls'];
  readonly log: Logger;
  /** A thread has failed, and the process has to end. */
  readonly onFailure: () => void;
}

/** Ends them at once, whatever they do, when it is disposed of. */
export class HttpThreads implements AsyncDisposable {
  readonly #threads: readonly HttpThread[];

  constructor({ config, queues, limits, tls, log, onFailure }: HttpThreadsOptions) {
    const shown = tls && { files: tls.files, clientAuth: tls.clientAuth };
    this.#threads =
      limits === undefined
        ? []
        : queues.map((queue) => new HttpThread({ config, queue, limits, tls: shown }, log, onFailure));
  }

  /** Resolves when each has read keys and certificates. Rejects with a CommandFailure. */
  async opened(): Promise<void> {
    await Promise.all(this.#threads.map(({ opened }) => opened));
  }

  /** Resolves when each takes connections on the port. Rejects with a CommandFailure. */
  async listen(port: number): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.ask({ type: 'listen', port }, 'listening')));
  }

  ledgerEntered(state: LedgerState): void {
    this.#tell({ type: 'ledger', state });
  }

  /** Takes what of the configuration can be changed while it runs. */
  take(config: Config): void {
    this.#tell({ type: 'config', config });
  }

  /** Has keys and certificates read again. Resolves with whether all could be; if not, the log says what. */
  async reload(): Promise<boolean> {
    const answers = await Promise.all(
      this.#threads.map((thread) => thread.ask({ type: 'reload' }, 'reloaded')),
    );
    return answers.every((answer) => answer.type === 'reloaded' && answer.whole);
  }

  /** So that a TLS session that one thread began can be resumed with any. */
  useTicketKeys(keys: Uint8Array): void {
    this.#tell({ type: 'ticketKeys', keys });
  }

  /** Asks each to report. */
  ask(): void {
    this.#tell({ type: 'report' });
  }

  /** What each reported last, without those that have not yet. */
  get reports(): readonly HttpReport[] {
    return this.#threads.flatMap(({ report }) => report ?? []);
  }

  /** When the one that was silent longest said something, on the monotonic clock; undefined without threads. */
  get livedAt(): number | undefined {
    return this.#threads.length === 0 ? undefined : Math.min(...this.#threads.map(({ livedAt }) => livedAt));
  }

  /** Has what was begun answered, within this time. */
  async stop(timeoutMs: number): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.stop(timeoutMs)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.end()));
  }

  #tell(request: HttpThreadRequest): void {
    for (const thread of this.#threads) thread.tell(request);
  }
}

class HttpThread {
  readonly opened: Promise<HttpThreadMessage>;
  report: HttpReport | undefined;
  livedAt = performance.now();
  readonly #worker: Worker;
  readonly #failed: Promise<never>;
  readonly #exited: Promise<unknown>;

  constructor(data: HttpThreadData, log: Logger, onFailure: () => void) {
    this.#worker = new Worker(new URL('./http-thread.js', import.meta.url), {
      workerData: data,
      transferList: [data.queue.answers],
    });
    this.#worker.on('message', (message: HttpThreadMessage) => {
      this.livedAt = performance.now();
      if (message.type === 'report') this.report = message.report;
      else if (message.type === 'log') log[message.level](message.fields, message.message);
    });
    this.#exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#failed = new Promise((_, reject) => {
      this.#worker.once('error', (error: Error) => {
        log.fatal({ reason: error.message }, 'an HTTP thread has failed');
        reject(new CommandFailure(error.message, EXIT.failure, { cause: error }));
        onFailure();
      });
    });
    // Told to whoever waits for the thread; no one may.
    this.#failed.catch(() => undefined);
    this.opened = this.#heard('opened');
    this.opened.catch(() => undefined);
  }

  tell(request: HttpThreadRequest): void {
    this.#worker.postMessage(request);
  }

  /** Resolves with the next message of this type. Rejects when the thread fails. */
  ask(request: HttpThreadRequest, type: HttpThreadMessage['type']): Promise<HttpThreadMessage> {
    const heard = this.#heard(type);
    this.tell(request);
    return heard;
  }

  async stop(timeoutMs: number): Promise<void> {
    this.tell({ type: 'stop', timeoutMs });
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    const timer = setTimeout(resolve, timeoutMs + GRACE_MS, undefined);
    await Promise.race([this.#exited, late]);
    clearTimeout(timer);
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #heard(type: HttpThreadMessage['type']): Promise<HttpThreadMessage> {
    const heard = new Promise<HttpThreadMessage>((resolve) => {
      const listen = (message: HttpThreadMessage): void => {
        if (message.type !== type) return;
        this.#worker.off('message', listen);
        resolve(message);
      };
      this.#worker.on('message', listen);
    });
    return Promise.race([heard, this.#failed]);
  }
}
