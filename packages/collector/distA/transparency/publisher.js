/**
 * Takes checkpoints off this host: hands each to every sink, and knows how the sinks do.
 *
 * A sink that is down delays nothing. `publish` only notes the checkpoint; each sink has its own queue, its own time
 * limit and its own retries; sinks on disks that may hang run in a process of their own, which can be killed.
 */
import path from 'node:path';
import { checkpointOf, rootIn, SinkQueue } from './sink-queue.js';
import { SinkWorker } from './sink-worker.js';
import { LESS, readSinkStates, sharedPlace, writeSinkStates } from './state-files.js';
import { Witness } from './witness.js';
const RETRY_POLICY = { firstMs: 1000, mostMs: 60_000, tryMs: 10_000 };
/**
 * The states are written so often at most while nothing but the newest checkpoint changes, in milliseconds: seldom
 * enough to cost nothing, and soon enough for doctor to tell of the checkpoint that an operator has just seen.
 */
const STATES_EVERY_MS = 1000;
export class Publisher {
    #options;
    /** One a sink. */
    #queues;
    #worker;
    #statesTimer;
    #unwrittenReported = false;
    #closed = false;
    constructor(options) {
        this.#options = options;
        this.#worker = options.worker ?? new SinkWorker();
        const before = statesBefore(options.dataDir);
        this.#queues = options.sinks.map((spec) => this.#queueOf(this.#sinkOf(spec), before));
        if (options.sinks.length > 0 || before.length > 0)
            this.#writeStates();
    }
    /** The sinks in the order of the option. */
    get sinks() {
        return this.#options.sinks.map(({ kind, shown }, i) => ({
            kind,
            shown,
            state: this.#queues[i]?.state,
            waiting: this.#queues[i]?.waiting ?? 0,
        }));
    }
    /** Sends the checkpoint on its way. Never throws and never waits. */
    publish(note) {
        if (this.#closed || this.#queues.length === 0)
            return;
        let published;
        try {
            published = { note, checkpoint: checkpointOf(note) };
        }
        catch (error) {
            this.#options.onTrouble('every sink', `was not given a checkpoint: ${messageOf(error)}`);
            return;
        }
        for (const queue of this.#queues)
            queue.offer(published);
    }
    /**
     * Gives the sinks the time that is named, in milliseconds, to take what waits; a sink that fails then is not tried
     * again. On return nothing is under way, and the states tell what was not delivered. Never rejects.
     */
    async close(timeoutMs) {
        if (this.#closed)
            return;
        this.#closed = true;
        let timer;
        const timeIsUp = new Promise((resolve) => (timer = setTimeout(resolve, timeoutMs)));
        await Promise.race([Promise.all(this.#queues.map((queue) => queue.close())), timeIsUp]);
        clearTimeout(timer);
        for (const queue of this.#queues)
            queue.abandon();
        this.#worker.kill();
        if (this.#queues.length > 0)
            this.#writeStates();
    }
    #queueOf(sink, before) {
        const options = this.#options;
        const { shown } = sink;
        return new SinkQueue(sink, {
            retryPolicy: options.retryPolicy ?? RETRY_POLICY,
            before: before.find((state) => state.sink === shown),
            now: options.now ?? Date.now,
            onTrouble: (message) => options.onTrouble(shown, message),
            onForked: (message) => options.onForked(shown, message),
            onShared: (origin) => options.onShared(shown, sharedPlace(origin)),
            onLost: () => options.onLost(shown, LESS),
            onRecovered: () => options.onRecovered(shown),
            onState: (changed) => this.#noteStates(changed),
        });
    }
    #sinkOf(spec) {
        const { tiles, entries, logKeys, dataDir } = this.#options;
        const log = { rootAt: (size) => rootIn(tiles, size), entries, logKeys };
        if (spec.kind === 'witness') {
            const directory = path.join(dataDir, 'checkpoints');
            return new Witness({ ...spec, directory, tiles, log, fetch: this.#options.fetch ?? fetch });
        }
        return this.#worker.sinkOf(spec, log);
    }
    #noteStates(changed) {
        if (this.#closed)
            return;
        if (changed)
            this.#writeStates();
        else
            this.#statesTimer ??= setTimeout(() => this.#writeStates(), STATES_EVERY_MS).unref();
    }
    #writeStates() {
        clearTimeout(this.#statesTimer);
        this.#statesTimer = undefined;
        try {
            const states = this.#queues.flatMap(({ state }) => (state === undefined ? [] : [state]));
            writeSinkStates(this.#options.dataDir, states);
            this.#unwrittenReported = false;
        }
        catch (error) {
            // The sinks go on without it.
            if (!this.#unwrittenReported)
                this.#options.onUnwritten(messageOf(error));
            this.#unwrittenReported = true;
        }
    }
}
/** What cannot be read is written again. */
function statesBefore(dataDir) {
    try {
        return readSinkStates(dataDir);
    }
    catch {
        return [];
    }
}
function messageOf(error) {
    return error instanceof Error ? error.message : String(error);
}
//# sourceMappingURL=publisher.js.map