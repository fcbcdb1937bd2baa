import { type Tally } from '../../catalogue/catalogue.js';
/** From so many events a second on, a collector may need all of its processors. */
export declare const BUSY_EVENTS_A_SECOND = 5000;
/** Up to so many it needs next to nothing. */
export declare const IDLE_EVENTS_A_SECOND = 500;
/**
 * @param workedMs time that the reader worked since its last rest.
 * @param arrived events that were stored within `overMs`, that rest and the work included.
 * @returns milliseconds.
 */
export declare function restAfter(workedMs: number, arrived: number, overMs: number): number;
export interface FollowerData {
    readonly dataDir: string;
    /** What the ledger's thread counts in, among it the entries that are durable. */
    readonly counters: SharedArrayBuffer;
}
/** How the follower does. */
export interface FollowerState {
    /** Undefined before the first count. */
    readonly tally?: Tally;
    /** Why it could not be brought up to date the last time. */
    readonly trouble?: string;
}
