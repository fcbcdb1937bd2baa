/** The main thread's side of the ledger's thread: starts and stops it and handles its messages. */
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { LedgerState } from '../../ledger/ledger.js';
import type { PrivacyState } from '../../ledger/privacy-numbers.js';
import type { CheckpointTroubleState } from '../../tree/state-files.js';
import type { StorageReason } from '../../store/contract/events.js';
import type { IdIndexStats } from '../../store/open-to-write.js';
import type { OpenedLog } from './open-ledger.js';
import type { Alarm } from '../../operate/snapshot.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import type { LedgerThreadData, LedgerThreadMessage, LedgerThreadRequest } from './ledger-thread.js';

/** Minimum interval between two log lines of the same trouble, in milliseconds. */
const TROUBLE_EVERY_MS = 10_000;

export interface LedgerWorkerOptions {
  readonly log: Logger;
  /** Called with the state of the ledger, which determines the answers to senders. */
  readonly onState: (state: LedgerState, because: StorageReason | undefined) => void;
  /** The ledger has failed, and the process must end. */
  readonly onFailure: () => void;
  /** A checkpoint was signed and written to disk. */
  readonly onCheckpoint: (note: string) => void;
  /** Checkpoints cannot be made since then; undefined once they can again. */
  readonly onCheckpointTrouble: (trouble: CheckpointTroubleState | undefined) => void;
  /** An operator must act; valid until the process ends. */
  readonly onAlarm: (about: Alarm) => void;
}

type Message<Type extends LedgerThreadMessage['type']> = Extract<
  LedgerThreadMessage,
  { readonly type: Type }
>;

export class LedgerWorker {
  /** When the thread last reported, on the monotonic clock in milliseconds; undefined until it is open. */
  livedAt: number | undefined;
  /** Statistics of the id index in that report. */
  index: IdIndexStats | undefined;
  /** State of keys and erasures in that report. */
  privacy: PrivacyState | undefined;
  readonly #worker: Worker;
  readonly #opened = Promise.withResolvers<OpenedLog>();
  /** When each trouble was last logged. */
  readonly #troubles = new Map<string, number>();
  #closed = false;

  constructor(
    data: LedgerThreadData,
    private readonly options: LedgerWorkerOptions,
  ) {
    this.#worker = new Worker(new URL('./ledger-thread.js', import.meta.url), {
      workerData: data,
      transferList: [data.queue.answers],
    });
    this.#worker.on('message', (message: LedgerThreadMessage) => this.#take(message));
    this.#worker.on('error', (error: Error) => {
      this.#opened.reject(new CommandFailure(error.message, EXIT.unsafe, { cause: error }));
      this.#failed(error.message);
    });
  }

  /** @throws CommandFailure if the ledger cannot be opened. */
  get opened(): Promise<OpenedLog> {
    return this.#opened.promise;
  }

  /** Asks the thread for a report. Does nothing once it has ended. */
  ask(): void {
    this.#send('report');
  }

  /** Stops the thread after everything sent to it is answered and the store is closed. */
  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#send('stop');
    await exited;
    if (!this.#closed) throw new CommandFailure('the ledger did not close in order', EXIT.unsafe);
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate();
  }

  #take(message: LedgerThreadMessage): void {
    const { log, onCheckpoint, onCheckpointTrouble, onAlarm } = this.options;
    switch (message.type) {
      case 'opened':
        this.livedAt = performance.now();
        this.#opened.resolve(message.opened);
        break;
      case 'refused':
        this.#refused(message);
        break;
      case 'state':
        this.#entered(message);
        break;
      case 'trouble':
        this.#warn(message);
        break;
      case 'alarm':
        log.error({ reason: message.reason }, message.what);
        onAlarm(message.about);
        break;
      case 'notice':
        log.info(message.message);
        break;
      case 'checkpoint':
        onCheckpoint(message.note);
        break;
      case 'checkpoint-trouble':
        onCheckpointTrouble(message.trouble);
        break;
      case 'report':
        this.livedAt = performance.now();
        this.index = message.index;
        this.privacy = message.privacy;
        break;
      case 'closed':
        this.#closed = true;
    }
  }

  #refused({ because, reason }: Message<'refused'>): void {
    const advice = because === 'damaged' ? '. Nothing was changed; see collector doctor' : '';
    this.#opened.reject(new CommandFailure(reason + advice, EXIT[because]));
  }

  #entered({ state, reason, because }: Message<'state'>): void {
    if (state === 'failed') {
      this.#failed(reason);
      return;
    }
    const { log, onState } = this.options;
    onState(state, because);
    if (state === 'open') log.info('events can be stored again');
    else log.error({ reason, because }, 'events cannot be stored; senders are told to retry');
  }

  /** Logs a trouble, but not for each batch: on a full disk, every batch meets it. */
  #warn({ what, reason }: Message<'trouble'>): void {
    if (performance.now() - (this.#troubles.get(what) ?? -Infinity) < TROUBLE_EVERY_MS) return;
    this.#troubles.set(what, performance.now());
    this.options.log.warn(reason === '' ? {} : { reason }, what);
  }

  #failed(reason: string): void {
    const { log, onState, onFailure } = this.options;
    log.fatal(
      { reason },
      'the ledger has failed and cannot continue safely; a restart reads what is on the disk',
    );
    onState('failed', undefined);
    onFailure();
  }

  #send(request: LedgerThreadRequest): void {
    this.#worker.postMessage(request);
  }
}
