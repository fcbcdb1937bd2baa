import { IdIndexReader, type IdIndexReaderOptions } from './sorted-runs.js';
export interface IdIndexOptions extends IdIndexReaderOptions {
    /** Entries that make a table full, a power of two. Default 131,072: 4 MiB a table, three tables at most. */
    readonly tableEntries?: number;
    /** The module that the writing thread takes its file calls from. Default `node:fs`. */
    readonly files?: string;
    /** Called before the index may cover what is before an address. What it throws keeps it from that, and is tried again. */
    readonly onCover?: (address: number) => void;
}
export interface IdIndexStats {
    readonly entries: number;
    readonly runs: number;
    readonly frozenTables: number;
    /** Bytes of the runs on disk, and of tables, filters and page tables in memory. */
    readonly diskBytes: number;
    readonly memoryBytes: number;
    /** How often, and for how long in all (ms), `commit` had to wait for the writing thread. */
    readonly waits: number;
    readonly waited: number;
}
/**
 * Which event ids an append-only log holds, and where: a log-structured index over 64-bit fingerprints.
 *
 * Derived data. The truth is the log; the index may lag behind it and may be deleted, but may never be believed
 * to cover what it does not. Invariants:
 *
 *  1. A run is published only for addresses below the last `commit`, which the caller gives only for what is
 *     durable. So `coveredTo` never exceeds the durable end of the log, unless the log itself has lost durable
 *     bytes; runs that reach beyond `logEnd` are therefore not used and deleted at opening.
 *  2. Runs are published in the order of the log and cover it from its origin without a gap.
 *  3. Every entry is, at every moment, in the recent table, in a frozen one or in a run that `find` searches:
 *     a table is let go after its run has been taken in, a run after the one that it was merged into has.
 *  4. An address that was added and never committed (a write that failed) may be found until `abandon`, and is
 *     harmless: the caller compares with the log.
 *
 * One thread owns the index. Its calls are synchronous and touch the disk only to read a page after a filter
 * said yes; a second thread of its own writes and merges.
 */
export declare class IdIndex extends IdIndexReader {
    #private;
    private readonly onCover;
    /**
     * Opens the index for its only writer (the ledger's lock sees to that), creating the directory. Call it before
     * anything is appended to the log, with the log's end after recovery as `logEnd`; then add every event from
     * `coveredTo` on. `onError` hears of runs thrown away and of writes that failed and will be tried again.
     */
    static open(options: IdIndexOptions): IdIndex;
    private constructor();
    /**
     * How many entries `add` is sure to take before the next `commit`. Below a batch's size: refuse the batch.
     * Asking also tries again what could not be written: a ledger that refuses has nothing to commit.
     */
    get room(): number;
    find(hi: number, lo: number, out: number[]): number;
    /** Takes in an event; addresses rise from call to call. Throws IdIndexError `full` when there is no `room`. */
    add(hi: number, lo: number, address: number): void;
    /**
     * Everything in the log below `to` is durable and has been added. Freezes the table when it is full; waits for
     * the writing thread only when all tables are full and writes succeed, so memory is bounded either way.
     */
    commit(to: number): void;
    /**
     * Publishes what was committed, so that the next start has nothing to add, and stops. What cannot be written
     * is left to the next start (`onError` hears why). Entries without a commit mean that the log's own write
     * failed: then nothing is published, as with `abandon`.
     */
    close(): Promise<void>;
    /** Stops without publishing anything more: for a ledger that no longer knows what its log holds. */
    abandon(): Promise<void>;
    stats(): IdIndexStats;
}
