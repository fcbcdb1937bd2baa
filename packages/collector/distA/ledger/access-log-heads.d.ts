import { type AccessLogStore } from '../store/contract/access-log.js';
import { type Candidate } from '../store/contract/events.js';
export interface AccessLogHeadsOptions {
    readonly store: AccessLogStore;
    /** The body of the newest entry of this kind in the log, if it is known. */
    readonly newest: Buffer | undefined;
    /** Stores an entry, durably. Rejects when it is not stored; it is tried again. */
    readonly append: (entry: Candidate) => Promise<void>;
    /** No head could be stored; it is tried again. */
    readonly onTrouble: (what: string, error: unknown) => void;
    /** The lines are not those that were taken in, or that the log has a head of. */
    readonly onAltered: (reason: string) => void;
}
export declare class AccessLogHeads {
    #private;
    constructor(options: AccessLogHeadsOptions);
    /** Looks at the log at once and from now on. */
    start(intervalMs: number): this;
    /**
     * On return the log has a head of all whole lines that there were, unless that is not possible now. Never rejects.
     */
    look(): Promise<void>;
    /** Looks for the last time. To be called while entries can still be stored. */
    close(): Promise<void>;
}
