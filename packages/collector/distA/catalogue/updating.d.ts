/**
 * Takes in what the log holds behind the cursor: puts events to their records (placing.ts), then sums the records that
 * have got any (summing.ts). Rows and cursor are written in one transaction, so that a crash leaves an older whole
 * state, and so that several processes can take turns: each begins where the cursor is once it has the lock.
 *
 * Where most of a large log is to be taken in, all events are placed before any record is summed, so that each payload
 * is read once, and the indexes are made at the end. Such an update takes several transactions, and until the last
 * of them no question is answered; whatever update comes next brings one to its end that was left.
 */
import { type Cursor, type EventLog } from '../store/contract/events.js';
import { type DueRecord, type Summed } from './summing.js';
import type { Tables } from './tables.js';
export interface UpdateOptions {
    /** The last sequence that is wanted; what is durable when the update begins, where it is not given. */
    readonly through?: number | undefined;
    readonly signal?: AbortSignal | undefined;
    /** @param sequence the last that was taken in. @param of how much of the log is taken in, from 0 to 1, about. */
    readonly onProgress?: ((sequence: number, of: number) => void) | undefined;
    /** The update ends with the first batch after this time, in milliseconds. */
    readonly budgetMs?: number | undefined;
    /**
     * Leaves records of many events alone that have hardly grown, which are read whole else: for who follows a log. What
     * is left so is for the next update that is not lazy, before which no question is answered.
     */
    readonly isLazy?: boolean | undefined;
    /** Starts threads, for an update that takes in most of the log. */
    readonly startThreads?: (() => SummingThreads) | undefined;
}
type SummedPart = Promise<readonly (Summed | null)[]>;
/** They sum records while the one that started them writes rows. */
export interface SummingThreads {
    /**
     * @param before what has a lower sequence is taken in.
     * @returns null for a record for which the tables have to be asked.
     */
    sum(records: readonly DueRecord[], before: number): SummedPart;
    stop(): Promise<void>;
}
export interface Updated {
    readonly cursor: Cursor;
    /** Whether everything that was wanted is taken in, and every row is summed that had to be. */
    readonly complete: boolean;
}
export interface Update extends UpdateOptions {
    readonly tables: Tables;
    readonly log: EventLog;
    /** What the catalogue has to be of (contentId). */
    readonly contentId: string;
    /** Begins a transaction that no other process writes beside. */
    readonly lock: () => Promise<void>;
    readonly mostEntries: number;
    /** The place of the newest event, as this process saw it in this log. */
    readonly seenAt?: number | undefined;
}
export declare class Updating {
    #private;
    private readonly update;
    constructor(update: Update);
    /** Where the newest event is that was taken in, as it was seen in this log. */
    get newestAt(): number | undefined;
    run(): Promise<Updated>;
}
export {};
