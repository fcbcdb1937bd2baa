import { type VerifyFinding } from '../log-audit.js';
import type { Rest } from './forensic-reader.js';
import { type Opening } from './sealed-frame.js';
/** Where something lies in the log. */
export interface Place {
    readonly file: string;
    readonly offset: number;
}
/** The bytes of one event's frame as they lie in the log, and where. */
export interface FrameBytes extends Place {
    readonly frame: Buffer;
    readonly sequence: number;
    /** Durable-before of the frame in front of it; undefined when that is not known. */
    readonly before: number | undefined;
    /** Of an encrypted payload: whether it could be opened, and what it is then. */
    readonly opened?: {
        readonly opening: Opening;
        readonly salted: Buffer | undefined;
    };
}
/** The leaf that an event should have, if any is known. */
export interface Expected {
    readonly leaf: Buffer | undefined;
    /** Whether a checkpoint speaks of the event, also when no leaf of it is known. */
    readonly covered?: boolean;
    /** Whether a signed root comes out with it. */
    readonly proven: boolean;
}
/** What of an event is not what was written; undefined when nothing is, or the bytes can be no event's at all. */
export declare function alteredFinding(bytes: FrameBytes, { leaf, proven, covered }: Expected): VerifyFinding | undefined;
/** A stretch of the log that holds no events that can be read. */
export declare function restFinding(rest: Rest, place: Place): VerifyFinding;
/** The leaf of an event as its frame says it; undefined when that cannot be read. */
export declare function ownLeaf(frame: Buffer): Buffer | undefined;
/**
 * Whether the header of a frame, whose size is plausible, says what a collector of this version writes in this place.
 * @param before durable-before of the frame in front of it; undefined when that is not known.
 */
export declare function headerHolds(source: Buffer, offset: number, sequence: number, before: number | undefined): boolean;
