/** A thread that reads the log beside others, and does what it is given one after the other. */
import { Worker } from 'node:worker_threads';
import { StoreDamaged } from '../store/contract/events.js';
export class LogThread {
    #worker;
    /** Who waits, in the order of the jobs. */
    #waiting = [];
    #failure;
    /** @param onNote called with what the thread says besides. */
    constructor(file, options, onNote = () => undefined) {
        this.#worker = new Worker(file, options);
        this.#worker.on('message', (said) => {
            if ('note' in said)
                onNote(said.note);
            else
                this.#waiting.shift()?.resolve(said.answer);
        });
        this.#worker.on('error', (error) => this.fail(revived(error)));
        this.#worker.on('exit', () => this.fail(new Error('a thread that reads the log has ended')));
    }
    /** Rejects with what ended the thread; StoreDamaged among it. */
    do(job, transfer = []) {
        return new Promise((resolve, reject) => {
            if (this.#failure !== undefined)
                return reject(this.#failure);
            this.#waiting.push({ resolve, reject });
            this.#worker.postMessage(job, transfer);
        });
    }
    /** Says something that no answer comes to. */
    tell(message) {
        this.#worker.postMessage(message);
    }
    /** All that was asked for, and will be, is rejected. */
    fail(error) {
        this.#failure ??= error;
        for (const { reject } of this.#waiting.splice(0))
            reject(this.#failure);
    }
    async stop() {
        await this.#worker.terminate();
    }
}
/** An error that came from a thread has lost its class. */
function revived(error) {
    if (error.name !== 'StoreDamaged' || !('place' in error))
        return error;
    return Object.assign(new StoreDamaged(error.place, ''), {
        message: error.message,
    });
}
/** In a thread: an error ends it, and reaches whoever waits. */
export function endBy(error) {
    // Within a promise it would only be unhandled there.
    setImmediate(() => {
        throw error;
    });
}
//# sourceMappingURL=log-thread.js.map