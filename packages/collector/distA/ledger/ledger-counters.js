import { TIME_BOUNDS_MS, SIZE_BOUNDS, bucketOf } from './buckets.js';
const OUTCOMES = [
    'accepted',
    'duplicate',
    'conflict',
    'unreadable',
    'retired',
];
/** What an event can come to that was not handed back by the store as an outcome. */
const FAILURES = ['faulty', 'notCommitted', 'unknown'];
export const EVENT_OUTCOMES = [...OUTCOMES, ...FAILURES];
const EVENTS = 0;
const BYTES = 1;
const BATCHES_EVENTS = 2;
const FLUSH_NANOSECONDS = 3;
const ENTRIES = 4;
const FIRST_OUTCOME = 5;
const FIRST_SIZE = FIRST_OUTCOME + EVENT_OUTCOMES.length;
const FIRST_TIME = FIRST_SIZE + SIZE_BOUNDS.length + 1;
const MERGE_NANOSECONDS = FIRST_TIME + TIME_BOUNDS_MS.length + 1;
const FIRST_MERGE = MERGE_NANOSECONDS + 1;
const IS_SHARED = FIRST_MERGE + TIME_BOUNDS_MS.length + 1;
const [WAITING, OLDEST_MS, MONTHS, REPLICATION, STALLED_MS] = [
    IS_SHARED + 1,
    IS_SHARED + 2,
    IS_SHARED + 3,
    IS_SHARED + 4,
    IS_SHARED + 5,
];
const WORDS = STALLED_MS + 1;
/** Of the word `REPLICATION`; 0 where nothing has to be replicated. */
const [REPLICATED, NOT_REPLICATED] = [1n, 2n];
export class LedgerCounters {
    #words;
    #tally = new Int32Array(OUTCOMES.length);
    /** @param memory from {@link createCounterMemory}, the same in both threads. */
    constructor(memory) {
        this.#words = new BigInt64Array(memory);
    }
    /** A batch was taken from the queue: how many events, and how many of them faulty. */
    taken(events, faulty) {
        this.#add(FIRST_SIZE + bucketOf(SIZE_BOUNDS, events), 1);
        this.#add(BATCHES_EVENTS, events);
        this.#add(FIRST_OUTCOME + EVENT_OUTCOMES.indexOf('faulty'), faulty);
    }
    decided(outcomes) {
        this.#tally.fill(0);
        for (const outcome of outcomes) {
            const place = OUTCOMES.indexOf(outcome);
            this.#tally[place] = (this.#tally[place] ?? 0) + 1;
        }
        this.#tally.forEach((count, place) => this.#add(FIRST_OUTCOME + place, count));
    }
    /** So many events were not stored, or no one knows. */
    failed(how, events) {
        this.#add(FIRST_OUTCOME + EVENT_OUTCOMES.indexOf(how), events);
    }
    /** The log holds so much, all of it durable. */
    holds({ events, entries, bytes }) {
        Atomics.store(this.#words, EVENTS, BigInt(events));
        Atomics.store(this.#words, ENTRIES, BigInt(entries));
        Atomics.store(this.#words, BYTES, BigInt(bytes));
    }
    flushed(milliseconds) {
        this.#add(FIRST_TIME + bucketOf(TIME_BOUNDS_MS, milliseconds), 1);
        this.#add(FLUSH_NANOSECONDS, Math.round(milliseconds * 1e6));
    }
    committed(ms) {
        this.flushed(ms);
    }
    waits(batches, oldestMs, months) {
        Atomics.store(this.#words, WAITING, BigInt(batches));
        Atomics.store(this.#words, OLDEST_MS, BigInt(Math.max(0, Math.round(oldestMs))));
        Atomics.store(this.#words, MONTHS, BigInt(months));
        Atomics.store(this.#words, IS_SHARED, 1n);
    }
    stalled(oldestMs) {
        Atomics.store(this.#words, STALLED_MS, BigInt(Math.round(oldestMs)));
    }
    replicated(isKnown) {
        Atomics.store(this.#words, REPLICATION, isKnown ? REPLICATED : NOT_REPLICATED);
    }
    /** A batch came under a checkpoint so long after its commit. */
    merged(milliseconds) {
        this.#add(FIRST_MERGE + bucketOf(TIME_BOUNDS_MS, milliseconds), 1);
        this.#add(MERGE_NANOSECONDS, Math.round(milliseconds * 1e6));
    }
    read() {
        const row = (first, length) => Array.from({ length }, (_, i) => Number(Atomics.load(this.#words, first + i)));
        const [events = 0, bytes = 0, sum = 0, nanoseconds = 0, entries = 0] = row(0, FIRST_OUTCOME);
        const outcomes = row(FIRST_OUTCOME, EVENT_OUTCOMES.length);
        return {
            events,
            entries,
            bytes,
            outcomes: Object.fromEntries(EVENT_OUTCOMES.map((outcome, i) => [outcome, outcomes[i] ?? 0])),
            batches: { counts: row(FIRST_SIZE, SIZE_BOUNDS.length + 1), sum },
            flushes: { counts: row(FIRST_TIME, TIME_BOUNDS_MS.length + 1), sum: nanoseconds / 1e6 },
            shared: Atomics.load(this.#words, IS_SHARED) === 0n ? undefined : this.#shared(row),
        };
    }
    #shared(row) {
        const [batches = 0, oldestMs = 0, months = 0] = row(WAITING, 3);
        const replication = Atomics.load(this.#words, REPLICATION);
        return {
            ...{ replicated: replication === 0n ? undefined : replication === REPLICATED, months },
            waiting: { batches, oldestMs },
            stalledMs: Number(Atomics.load(this.#words, STALLED_MS)),
            merges: {
                counts: row(FIRST_MERGE, TIME_BOUNDS_MS.length + 1),
                sum: Number(Atomics.load(this.#words, MERGE_NANOSECONDS)) / 1e6,
            },
        };
    }
    #add(word, count) {
        if (count > 0)
            Atomics.add(this.#words, word, BigInt(count));
    }
}
export function createCounterMemory() {
    return new SharedArrayBuffer(WORDS * BigInt64Array.BYTES_PER_ELEMENT);
}
//# sourceMappingURL=ledger-counters.js.map