import { type Candidate, type StorageReason, type Store } from '../store/contract/events.js';
import type { LedgerCounters } from './ledger-counters.js';
import type { RingReader } from './ring.js';
export type { StorageReason } from '../store/contract/events.js';
export type LedgerState = 'open' | 'refusing' | 'failed';
export interface LedgerOptions {
    readonly store: Store;
    /** On its `close`, what is durable is sequenced and signed, if that can be done (sequencer.ts). */
    readonly sequencer: {
        close(): Promise<void>;
    };
    readonly ring: RingReader;
    /** One word, shared with the writer of the ring: rung at each publication. */
    readonly doorbell: Int32Array;
    readonly maxDepth: number;
    readonly counters: LedgerCounters;
    /** Called at each change of state or reason, with the error that caused it. */
    readonly onState: (state: LedgerState, cause: unknown, reason: StorageReason | undefined) => void;
}
/** So many events or bytes at most in one batch: bounds the memory of a batch and the wait of its first event. */
export declare const MAX_BATCH_EVENTS = 1024;
export declare const MAX_BATCH_BYTES: number;
export declare class Ledger {
    #private;
    constructor(options: LedgerOptions);
    /** Ends `run` once everything that was published before is answered. */
    stop(): void;
    /**
     * Stores an entry of the log's own, in a batch of its own: what becomes of it is none of the events' business. On
     * return it is durable. Rejects with the error of the store; after `stop` it may never settle.
     */
    append(entry: Candidate): Promise<void>;
    /** To be called before `run`. On return the state says whether the keys of payloads can be written. */
    proveKeys(): Promise<void>;
    /** Serves the ring until `stop`. Resolves with the store closed; never rejects for what an event holds. */
    run(): Promise<void>;
}
