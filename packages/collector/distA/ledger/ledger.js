/**
 * The group commit: takes whatever waits in the ring, examines it, stores it as one batch, answers all.
 * There is no timer. While a flush runs, the next batch gathers in the ring by itself. A store that takes several
 * batches at a time gets another one only when many events wait: small batches cost a database more for each event, and
 * one at a time is as fast where the round trip is short. They are answered in the order in which they were taken.
 *
 * States. `open`: batches are stored. `refusing`: the last batch was not committed (a full disk, say), or is in doubt
 * in a store that outlives it; each batch is still tried, and the store by itself where none comes; the first success ends it. `failed`: no one can know what
 * the last batch left behind; nothing is tried again until the process has started again and read the log.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { SALT_BYTES } from '@clinical-events/protocol';
import { commitmentOf } from '../integrity/merkle.js';
import { CommitUnknown, LogChanged, NotCommitted, } from '../store/contract/events.js';
import { examine, isFault } from './examine.js';
import { fillSalt } from './salt.js';
/** So many events or bytes at most in one batch: bounds the memory of a batch and the wait of its first event. */
export const MAX_BATCH_EVENTS = 1024;
export const MAX_BATCH_BYTES = 4 << 20;
/** So many events are a batch beside those on their way. */
const BESIDE_EVENTS = 256;
/** For the last checkpoint of a log that another hand has changed, in milliseconds. */
const SEAL_MS = 2000;
/** Between two looks at the store, in milliseconds. */
const LOOK_EVERY_MS = 1000;
/** A store that refuses is tried without an event after this time: none may come before it is ready again. */
const PROVE_EVERY_MS = 3000;
const OUTCOME_ANSWERS = {
    accepted: 'accepted',
    // The same answer as for a new event: the sender learns only that it is stored.
    duplicate: 'accepted',
    conflict: 'conflict',
    retired: 'retired',
    unreadable: 'unreadable',
};
/** Undefined when nothing is wrong, or nothing is tried again. */
function reasonFor(cause) {
    if (cause instanceof NotCommitted)
        return cause.reason;
    return cause instanceof CommitUnknown ? 'database_unavailable' : undefined;
}
export class Ledger {
    #options;
    #own = [];
    #state = 'open';
    #reason;
    #stopping = false;
    /** On the clock of `performance.now`. */
    #lookedAt = performance.now();
    #refusedAt = 0;
    #sequenced;
    /** Batches on their way; the last of them is answered last. */
    #underWay = 0;
    #answered = Promise.resolve();
    #freed;
    constructor(options) {
        this.#options = options;
    }
    /** Ends `run` once everything that was published before is answered. */
    stop() {
        this.#stopping = true;
        this.#ring();
    }
    /**
     * Stores an entry of the log's own, in a batch of its own: what becomes of it is none of the events' business. On
     * return it is durable. Rejects with the error of the store; after `stop` it may never settle.
     */
    append(entry) {
        return new Promise((resolve, reject) => {
            this.#own.push({ entry, resolve, reject });
            this.#ring();
        });
    }
    #ring() {
        Atomics.add(this.#options.doorbell, 0, 1);
        Atomics.notify(this.#options.doorbell, 0);
    }
    /** To be called before `run`. On return the state says whether the keys of payloads can be written. */
    async proveKeys() {
        try {
            await this.#options.store.proveKeys();
        }
        catch (error) {
            if (!(error instanceof NotCommitted))
                throw error;
            this.#refuse(error);
        }
    }
    /** Serves the ring until `stop`. Resolves with the store closed; never rejects for what an event holds. */
    async run() {
        const { doorbell, store, sequencer } = this.#options;
        for (;;) {
            const rung = Atomics.load(doorbell, 0);
            const stored = await this.#storeOwn();
            const busy = await this.#commitOnce();
            await this.#lookAtStore(performance.now());
            if (busy || stored) {
                // Lets the other work of this thread have its turn: timers, messages, the file pool.
                await new Promise(setImmediate);
                continue;
            }
            if (this.#stopping)
                break;
            const wait = Atomics.waitAsync(doorbell, 0, rung, LOOK_EVERY_MS);
            if (wait.async)
                await wait.value;
        }
        await this.#answered;
        await (this.#sequenced ??= sequencer.close());
        await store.close();
    }
    /** @returns false when none waited. */
    async #storeOwn() {
        const waiting = this.#own.shift();
        if (waiting === undefined)
            return false;
        const { entry, resolve, reject } = waiting;
        try {
            if (this.#state === 'failed')
                throw new CommitUnknown('the ledger has failed');
            const outcomes = await this.#options.store.append([entry]);
            if (outcomes[0] !== 'accepted')
                throw new Error(`an entry of the log's own was ${outcomes[0] ?? 'lost'}`);
            resolve();
        }
        catch (error) {
            // A full disk is met by the next event too, and reported then.
            if (error instanceof CommitUnknown && !this.#options.store.outlivesDoubt)
                this.#fail(error);
            reject(error);
        }
        return true;
    }
    /** @returns false when nothing waited, or too little beside what is on its way. */
    async #commitOnce() {
        if (this.#underWay > 0 && !this.#stopping && !this.#isMuchWaiting())
            return false;
        const taken = [];
        const candidates = [];
        this.#gather(taken, candidates);
        if (taken.length === 0)
            return false;
        this.#options.counters.taken(taken.length, taken.length - candidates.length);
        const { concurrency } = this.#options.store;
        const before = this.#answered;
        this.#underWay++;
        this.#answered = this.#store(candidates).then(async (answers) => {
            await before;
            this.#underWay--;
            this.#answer(taken, candidates, answers);
            this.#freed?.();
            if (concurrency > 1)
                this.#ring();
        });
        if (this.#underWay < concurrency)
            return true;
        await new Promise((resolve) => (this.#freed = resolve));
        this.#freed = undefined;
        return true;
    }
    #isMuchWaiting() {
        return this.#options.ring.waiting >= BESIDE_EVENTS;
    }
    #answer(taken, candidates, answers) {
        const { ring } = this.#options;
        let next = 0;
        for (const { fault, examinedMs } of taken) {
            if (fault)
                ring.answer('fault', fault, examinedMs);
            else {
                const tookMs = examinedMs + (candidates[next]?.comparedMs ?? 0);
                ring.answer(answers[next++] ?? 'unknown', undefined, tookMs);
            }
        }
        ring.send();
    }
    /** Takes from the ring up to a batch; what passes its examination is a candidate. */
    #gather(taken, candidates) {
        const { ring } = this.#options;
        let bytes = 0;
        while (taken.length < MAX_BATCH_EVENTS && bytes < MAX_BATCH_BYTES) {
            const queued = ring.take();
            if (queued === undefined)
                break;
            const { kind, profile, organisation, keyId, receivedAt, salted } = queued;
            const body = salted.subarray(SALT_BYTES);
            bytes += body.length;
            const began = performance.now();
            const examined = examine(body, kind, profile, this.#options.maxDepth);
            const fault = isFault(examined) ? examined : undefined;
            taken.push({ fault, examinedMs: performance.now() - began });
            if (isFault(examined))
                continue;
            const { eventId, runId, parentId } = examined;
            fillSalt(salted);
            const commitment = commitmentOf(salted);
            candidates.push({
                kind,
                profile,
                organisation,
                keyId,
                receivedAt,
                eventId,
                runId,
                parentId,
                salted,
                commitment,
            });
        }
    }
    /** One answer a candidate, whatever happens. */
    async #store(candidates) {
        if (candidates.length === 0)
            return [];
        const { store, counters } = this.#options;
        if (this.#state === 'failed') {
            counters.failed('unknown', candidates.length);
            return candidates.map(() => 'unknown');
        }
        try {
            const appended = store.append(candidates);
            const outcomes = appended instanceof Promise ? await appended : appended;
            counters.decided(outcomes);
            // Repeats alone write nothing and so prove nothing of the disk.
            if (outcomes.includes('accepted'))
                this.#enter('open', undefined);
            return outcomes.map((outcome) => OUTCOME_ANSWERS[outcome]);
        }
        catch (error) {
            if (error instanceof NotCommitted) {
                this.#refuse(error);
                counters.failed('notCommitted', candidates.length);
                return candidates.map(() => 'notCommitted');
            }
            // A CommitUnknown, or a fault of ours: in both cases no answer may say that anything is stored, or that it is
            // not.
            if (error instanceof CommitUnknown && store.outlivesDoubt)
                this.#refuse(error);
            else
                this.#fail(error);
            counters.failed('unknown', candidates.length);
            return candidates.map(() => 'unknown');
        }
    }
    /** @param now the monotonic clock, milliseconds. */
    async #lookAtStore(now) {
        if (this.#state === 'failed' || now - this.#lookedAt < LOOK_EVERY_MS)
            return;
        this.#lookedAt = now;
        const { store } = this.#options;
        try {
            store.look();
            if (this.#state === 'open' || now - this.#refusedAt < PROVE_EVERY_MS)
                return;
            await store.prove();
            this.#enter('open', undefined);
        }
        catch (error) {
            if (error instanceof NotCommitted || (error instanceof CommitUnknown && store.outlivesDoubt)) {
                this.#refuse(error);
            }
            else
                this.#fail(error);
        }
    }
    #refuse(cause) {
        this.#refusedAt = performance.now();
        this.#enter('refusing', cause);
    }
    #fail(error) {
        if (error instanceof LogChanged) {
            this.#seal(error);
            return;
        }
        const isKnown = error instanceof CommitUnknown;
        const cause = isKnown ? error : new CommitUnknown('the store failed', { cause: error });
        this.#enter('failed', cause);
    }
    /**
     * Has signed what was acknowledged and can still be read, so that no start takes what is left of it for the whole,
     * and reports it then.
     */
    #seal(cause) {
        this.#state = 'failed';
        this.#sequenced ??= this.#options.sequencer.close();
        const tell = () => this.#options.onState('failed', cause, undefined);
        Promise.race([this.#sequenced, sleep(SEAL_MS)]).then(tell, tell);
    }
    #enter(state, cause) {
        const reason = state === 'refusing' ? reasonFor(cause) : undefined;
        if (state === this.#state && reason === this.#reason)
            return;
        this.#state = state;
        this.#reason = reason;
        this.#options.onState(state, cause, reason);
    }
}
//# sourceMappingURL=ledger.js.map