/** The main thread's end of the thread that keeps the catalogue up to date: nothing waits for it, and it may fail. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
/** What a thread that has failed leaves its successor: a run that is too large for it is too large again. */
const RESTART_MS = 60_000;
const END_MS = 2000;
/** Beside it come some 60 MiB outside of the heap, most of them SQLite's pages. */
const HEAP_MIB = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 };
export class Follower {
    data;
    log;
    /** As it was counted last; undefined before the first time. */
    tally;
    /** Since when the catalogue cannot be brought up to date, in milliseconds since 1970 UTC. */
    troubleSince;
    #worker;
    #restart;
    #end;
    /** To be made once the ledger is open. */
    constructor(data, log) {
        this.data = data;
        this.log = log;
        this.#start();
    }
    /** On return the thread has ended, or hangs in a file system, which holds nothing else up. */
    end() {
        clearTimeout(this.#restart);
        const late = sleep(END_MS, undefined, { ref: false });
        this.#end ??= Promise.race([this.#worker?.terminate(), late]).then(() => undefined);
        return this.#end;
    }
    [Symbol.asyncDispose]() {
        return this.end();
    }
    #start() {
        const url = new URL('./follower-thread.js', import.meta.url);
        this.#worker = new Worker(url, { workerData: this.data, resourceLimits: HEAP_MIB });
        this.#worker.unref();
        this.#worker.on('message', (state) => this.#hear(state));
        this.#worker.on('error', (error) => {
            this.#hear({ trouble: error.message });
            if (this.#end === undefined)
                this.#restart = setTimeout(() => this.#start(), RESTART_MS).unref();
        });
    }
    #hear({ tally, trouble }) {
        if (trouble === undefined) {
            if (this.troubleSince !== undefined)
                this.log.info('the catalogue is brought up to date again');
            this.troubleSince = undefined;
            this.tally = tally ?? this.tally;
            return;
        }
        if (this.troubleSince === undefined)
            this.log.warn({ reason: trouble }, 'the catalogue cannot be brought up to date; events are stored all the same, and it is tried again');
        this.troubleSince ??= Date.now();
    }
}
//# sourceMappingURL=follower.js.map