/** The main thread's end of the ledger's thread: starts it, hears what it says, stops it. */
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { LedgerState } from '../../ledger/ledger.js';
import type { PrivacyState } from '../../ledger/lifecycle.js';
import type { CheckpointTroubleState } from '../../tree/state-files.js';
import type { StorageReason } from '../../store/contract/events.js';
import type { IdIndexStats } from '../../store/open-to-write.js';
import type { OpenedLog } from './open-ledger.js';
import type { Alarm } from '../../operate/snapshot.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import type { LedgerThreadData, LedgerThreadMessage, LedgerThreadRequest } from './ledger-thread.js';

/** The same trouble is logged so often at most, in milliseconds. */
const TROUBLE_EVERY_MS = 10_000;

export interface LedgerWorkerOptions {
  readonly log: Logger;
  /** Told how the ledger fares: senders are answered accordingly. */
  readonly onState: (state: LedgerState, because: StorageReason | undefined) => void;
  /** The ledger has failed, and the process has to end. */
  readonly onFailure: () => void;
  /** A checkpoint was signed and stands on the disk. */
  readonly onCheckpoint: (note: string) => void;
  /** No checkpoint can be made since then, or none is owed any more. */
  readonly onCheckpointTrouble: (trouble: CheckpointTroubleState | undefined) => void;
  /** Someone has to look after it, until the process ends. */
  readonly onAlarm: (about: Alarm) => void;
}

export class LedgerWorker {
  readonly opened: Promise<OpenedLog>;
  /** When the thread last said that it lives, on the monotonic clock in milliseconds; undefined until it is open. */
  livedAt: number | undefined;
  /** How the id index fared then. */
  index: IdIndexStats | undefined;
  /** How keys and erasures did. */
  privacy: PrivacyState | undefined;
  readonly #worker: Worker;
  #closed = false;

  constructor(data: LedgerThreadData, options: LedgerWorkerOptions) {
    const { log, onState, onFailure, onCheckpoint, onCheckpointTrouble, onAlarm } = options;
    this.#worker = new Worker(new URL('./ledger-thread.js', import.meta.url), {
      workerData: data,
      transferList: [data.queue.answers],
    });
    const unsafe = (reason: string) => {
      log.fatal(
        { reason },
        'the ledger has failed; going on would not be safe. A new start reads what is on the disk',
      );
      onState('failed', undefined);
      onFailure();
    };
    const troubles = new Map<string, number>();
    this.opened = new Promise((resolve, reject) => {
      this.#worker.on('message', (message: LedgerThreadMessage) => {
        switch (message.type) {
          case 'opened':
            this.livedAt = performance.now();
            resolve(message.opened);
            break;
          case 'refused':
            reject(
              new CommandFailure(
                message.because === 'damaged'
                  ? `${message.reason}. Nothing was changed; see collector doctor`
                  : message.reason,
                EXIT[message.because],
              ),
            );
            break;
          case 'state':
            if (message.state === 'failed') unsafe(message.reason);
            else {
              onState(message.state, message.because);
              if (message.state === 'open') log.info('events can be stored again');
              else
                log.error(
                  { reason: message.reason, because: message.because },
                  'events cannot be stored; senders are told to retry',
                );
            }
            break;
          case 'trouble':
            // On a full disk each batch meets the same trouble again.
            if (performance.now() - (troubles.get(message.what) ?? -Infinity) < TROUBLE_EVERY_MS) break;
            troubles.set(message.what, performance.now());
            log.warn(message.reason === '' ? {} : { reason: message.reason }, message.what);
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
      });
      this.#worker.on('error', (error: Error) => {
        reject(new CommandFailure(error.message, EXIT.unsafe, { cause: error }));
        unsafe(error.message);
      });
    });
  }

  /** Asks the thread to say that it lives. Once it has ended this does nothing. */
  ask(): void {
    this.#send('report');
  }

  /** Has everything answered that was sent to it, and the store closed. */
  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#send('stop');
    await exited;
    if (!this.#closed) throw new CommandFailure('the ledger did not close in order', EXIT.unsafe);
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate();
  }

  #send(request: LedgerThreadRequest): void {
    this.#worker.postMessage(request);
  }
}
