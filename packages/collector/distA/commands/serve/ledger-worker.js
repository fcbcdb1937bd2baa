/** The main thread's end of the ledger's thread: starts it, hears what it says, stops it. */
import { Worker } from 'node:worker_threads';
import { CommandFailure, EXIT } from '../exit-codes.js';
/** The same trouble is logged so often at most, in milliseconds. */
const TROUBLE_EVERY_MS = 10_000;
export class LedgerWorker {
    opened;
    /** When the thread last said that it lives, on the monotonic clock in milliseconds; undefined until it is open. */
    livedAt;
    /** How the id index fared then. */
    index;
    /** How keys and erasures did. */
    privacy;
    #worker;
    #closed = false;
    constructor(data, options) {
        const { log, onState, onFailure, onCheckpoint, onCheckpointTrouble, onAlarm } = options;
        this.#worker = new Worker(new URL('./ledger-thread.js', import.meta.url), {
            workerData: data,
            transferList: [data.queue.answers],
        });
        const unsafe = (reason) => {
            log.fatal({ reason }, 'the ledger has failed; going on would not be safe. A new start reads what is on the disk');
            onState('failed', undefined);
            onFailure();
        };
        const troubles = new Map();
        this.opened = new Promise((resolve, reject) => {
            this.#worker.on('message', (message) => {
                switch (message.type) {
                    case 'opened':
                        this.livedAt = performance.now();
                        resolve(message.opened);
                        break;
                    case 'refused':
                        reject(new CommandFailure(message.because === 'damaged'
                            ? `${message.reason}. Nothing was changed; see collector doctor`
                            : message.reason, EXIT[message.because]));
                        break;
                    case 'state':
                        if (message.state === 'failed')
                            unsafe(message.reason);
                        else {
                            onState(message.state, message.because);
                            if (message.state === 'open')
                                log.info('events can be stored again');
                            else
                                log.error({ reason: message.reason, because: message.because }, 'events cannot be stored; senders are told to retry');
                        }
                        break;
                    case 'trouble':
                        // On a full disk each batch meets the same trouble again.
                        if (performance.now() - (troubles.get(message.what) ?? -Infinity) < TROUBLE_EVERY_MS)
                            break;
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
            this.#worker.on('error', (error) => {
                reject(new CommandFailure(error.message, EXIT.unsafe, { cause: error }));
                unsafe(error.message);
            });
        });
    }
    /** Asks the thread to say that it lives. Once it has ended this does nothing. */
    ask() {
        this.#send('report');
    }
    /** Has everything answered that was sent to it, and the store closed. */
    async stop() {
        const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
        this.#send('stop');
        await exited;
        if (!this.#closed)
            throw new CommandFailure('the ledger did not close in order', EXIT.unsafe);
    }
    async terminate() {
        await this.#worker.terminate();
    }
    #send(request) {
        this.#worker.postMessage(request);
    }
}
//# sourceMappingURL=ledger-worker.js.map