/**
 * Keeps the line in front of the ledger short while more comes than it can store, so that what is accepted is
 * accepted soon. Without it each connection may have an event in the line, and every sender waits for all of them.
 *
 * The measure is how many events wait for their answer, and nothing that the processor does. The answers come once a
 * turn of the loop, so the line grows whichever of the two threads is the slower one. Its limit is what was lately
 * answered in {@link LINE_MS}. A burst goes beyond it and passes by itself; only when the line was long in most of some
 * periods is a request refused, and until it was short in most of some seconds: those who were refused come back only
 * then. A key that has less than its part of the line, one of as many as there are keys in it, may make it longer, up
 * to twice its limit (docs/internals/adr/0013-overload.md).
 */
import type { Principal } from '../access/principal.js';
import type { RingWriter } from '../ledger/ring.js';
/** What waits should be answered within this time, in milliseconds. */
export declare const LINE_MS = 16;
/** So many may always wait: with smaller batches the ledger could do less. */
export declare const SHORT_LINE = 320;
export declare const PERIOD_MS = 100;
export declare class Backlog {
    #private;
    /** Whether more comes, and has come for some time, than can be stored. */
    get overloaded(): boolean;
    /** An event takes its place in the line. Followed by one `left`. */
    entered(share: Share): void;
    /** It has its answer. */
    left(share: Share): void;
    /**
     * Whether an event of this key may take a place in the line. To be asked once for each that could.
     * @param now monotonic clock, milliseconds.
     * @param late it has waited before it was read, for longer than anything in the line.
     */
    admits(share: Share, now: number, late: boolean): boolean;
}
/** What a key's events hold of the queue, from their promise to their answer. */
export interface Share {
    bytes: number;
    events: number;
    /** Of the events those that have come and wait for the ledger (backlog.ts). */
    waiting: number;
    /** Milliseconds of either thread that its events took at `chargedAt`, less what they may take. */
    owedMs: number;
    /** Monotonic clock, milliseconds. */
    chargedAt: number;
    /** Events that the ledger has, and their bytes. */
    entered: number;
    enteredBytes: number;
    /** Those that have come and may not enter yet, oldest first. */
    readonly held: Held[];
}
interface Held {
    readonly bytes: number;
    readonly enter: () => void;
}
export declare function newShare(): Share;
export declare class FairShare {
    #private;
    private readonly ring;
    constructor(ring: Pick<RingWriter<unknown>, 'capacity' | 'crowded' | 'reserve' | 'extend'>);
    of(principal: Principal): Share;
    /**
     * Promises room for one event, or returns false: the queue is full, or crowded or shared and the key has its part.
     * Every true is followed by one `settle` with all that was promised to the event and not given back.
     * @param now monotonic clock, milliseconds.
     */
    reserve(share: Share, bytes: number, now: number): boolean;
    /** Promises more to an event that was promised some. */
    extend(share: Share, more: number, now: number): boolean;
    /** An event has arrived, and is smaller than what it was promised. */
    shrink(share: Share, unused: number): void;
    /** An event has arrived: it enters the ring now, or after the answers to events of its key that entered before. */
    enter(share: Share, bytes: number, now: number, enter: () => void): void;
    /** The ledger has answered an event that entered. */
    answered(share: Share, bytes: number, now: number): void;
    /** The event has its answer: it no longer counts against the key. */
    settle(share: Share, bytes: number): void;
    /** Counts what an event of the key has taken of a thread, in milliseconds. */
    charge(share: Share, tookMs: number, now: number): void;
}
export {};
