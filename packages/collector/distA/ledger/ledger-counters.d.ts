/**
 * What the ledger's thread counts, in memory that the main thread reads when someone asks.
 *
 * One writer, any number of readers. Each word is 64 bits wide and is written and read whole (Atomics), so that none is
 * ever seen half changed; two words may stand a batch apart. Every call is one for a batch, never one for an event.
 */
import type { Outcome, SharedGauges } from '../store/contract/events.js';
declare const OUTCOMES: readonly ["accepted", "duplicate", "conflict", "unreadable", "retired"];
/** What an event can come to that was not handed back by the store as an outcome. */
declare const FAILURES: readonly ["faulty", "notCommitted", "unknown"];
/** What became of an event in the ledger's thread. `faulty` is one that its examination refused. */
export type EventOutcome = (typeof OUTCOMES)[number] | (typeof FAILURES)[number];
export declare const EVENT_OUTCOMES: readonly EventOutcome[];
/** Counts since the start; the first three since the ledger began. */
export interface LedgerCounts {
    /** Events in the log. */
    readonly events: number;
    /** The same with the log's own entries. */
    readonly entries: number;
    /** Bytes of frames in the log. */
    readonly bytes: number;
    readonly outcomes: Readonly<Record<EventOutcome, number>>;
    /** Events taken from the queue together: one count a bucket of {@link SIZE_BOUNDS}, and their sum. */
    readonly batches: {
        readonly counts: readonly number[];
        readonly sum: number;
    };
    /** Flushes of batches to the disk, or commits of them in a database: one count a bucket of {@link TIME_BOUNDS_MS}, and their sum in milliseconds. */
    readonly flushes: {
        readonly counts: readonly number[];
        readonly sum: number;
    };
    /** Of a log that other collectors write to as well. */
    readonly shared: SharedCounts | undefined;
}
/** How the log in a database fares, and what this collector does for it. */
export interface SharedCounts {
    /** Whether what was stored last is known to be replicated; undefined where it need not be. */
    readonly replicated: boolean | undefined;
    /** Of all collectors: batches without a place in the log, and the age of the oldest in milliseconds; 0 without one. */
    readonly waiting: {
        readonly batches: number;
        readonly oldestMs: number;
    };
    /** The age of the oldest batch where none can be given its place, in milliseconds; 0 where they can. */
    readonly stalledMs: number;
    /** So many coming months have their tables. */
    readonly months: number;
    /** From the commit of a batch to the checkpoint over it, where this collector gave it its place. As `flushes`. */
    readonly merges: LedgerCounts['flushes'];
}
export declare class LedgerCounters implements SharedGauges {
    #private;
    /** @param memory from {@link createCounterMemory}, the same in both threads. */
    constructor(memory: SharedArrayBuffer);
    /** A batch was taken from the queue: how many events, and how many of them faulty. */
    taken(events: number, faulty: number): void;
    decided(outcomes: readonly Outcome[]): void;
    /** So many events were not stored, or no one knows. */
    failed(how: 'notCommitted' | 'unknown', events: number): void;
    /** The log holds so much, all of it durable. */
    holds({ events, entries, bytes }: Pick<LedgerCounts, 'events' | 'entries' | 'bytes'>): void;
    flushed(milliseconds: number): void;
    committed(ms: number): void;
    waits(batches: number, oldestMs: number, months: number): void;
    stalled(oldestMs: number): void;
    replicated(isKnown: boolean): void;
    /** A batch came under a checkpoint so long after its commit. */
    merged(milliseconds: number): void;
    read(): LedgerCounts;
}
export declare function createCounterMemory(): SharedArrayBuffer;
export {};
