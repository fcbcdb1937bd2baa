import type { EventLog, Place } from '../store/contract/events.js';
import { type Value } from './columns.js';
/**
 * Bytes of log that are read with one call, and whose events are objects at a time; of a record that has more, what a
 * summary asks for is kept of each event.
 */
export declare const READ_BYTES: number;
/** A record that is to be summed. */
export interface DueRecord {
    readonly row: number;
    readonly isInCircle: boolean;
    /** Of its events, in the order of the log. */
    readonly places: readonly Place[];
}
/** What is to be done in a thread: as one list of numbers, as to clone an object for each event takes longer. */
export declare function packJob(records: readonly DueRecord[], before: number): Float64Array;
export declare function unpackJob(packed: Float64Array): {
    readonly records: DueRecord[];
    readonly before: number;
};
/** What the row of a record says; JSON keeps it as it is. */
export interface Summed {
    readonly row: number;
    readonly isInCircle: boolean;
    readonly isRun: boolean;
    readonly recordId: string;
    readonly firstSequence: number;
    readonly lastSequence: number;
    /** Of SUMMARY_COLUMNS, names as texts. */
    readonly values: readonly Value[];
    /** When each event was sent; null where its payload cannot be read. */
    readonly sent: readonly (number | null)[];
    /** What it is nested in, and the run of that; null where that is of none. */
    readonly parent: {
        readonly eventId: string;
        readonly run: string | null;
    } | null;
    /** Parents that its events name, and that are not there or of no run. */
    readonly awaits: readonly string[];
}
/** Where a parent is that is not of the record: its run, null when it is of none, undefined when it is not there. */
export type FoundParent = string | null | undefined;
/** `unknown` where only the tables know, which are asked in another thread. */
export type FindParent = (organisation: string, eventId: string) => Promise<{
    readonly run: FoundParent;
} | 'unknown'>;
/** The run of an event that names one or opens one. @param before what has a lower sequence is looked at. */
export declare function runInLog(log: Pick<EventLog, 'find'>, before: number, organisation: string, eventId: string): Promise<FoundParent>;
export declare class Summer {
    #private;
    private readonly log;
    private readonly findParent;
    constructor(log: Pick<EventLog, 'read'>, findParent: FindParent);
    /**
     * @param records whose events take READ_BYTES at most together, or one that has more.
     * @returns null for one whose parents are not known here.
     */
    sum(records: readonly DueRecord[]): Promise<(Summed | null)[]>;
}
/** Groups of at most that many bytes; one that is larger stands alone. */
export declare function partsOf<Placed extends Pick<DueRecord, 'places'>>(all: Iterable<Placed>, most: number): Generator<Placed[]>;
