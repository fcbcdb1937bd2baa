import type { Files } from '../../files.js';
import { StoreDamaged } from '../contract/events.js';
export declare const SEGMENT_HEADER_BYTES = 64;
export interface Segment {
    readonly path: string;
    /** Address of its first frame. */
    readonly base: number;
    readonly firstSequence: number;
    readonly ledgerId: string;
    readonly ownBefore: number;
}
export declare function segmentName(firstSequence: number): string;
export declare function encodeSegmentHeader(segment: Omit<Segment, 'path'>, created: number): Buffer;
/** Names the file, the byte in it and the sequence that is due there. */
export declare function damagedAt(file: string, offset: number, sequence: number, reason: string): StoreDamaged;
/** Of the segments in a directory, oldest first. */
export declare function segmentNames(files: Files, directory: string): string[];
/**
 * The segments in a directory, oldest first.
 * @param isWanted by its name, whether a segment is to be looked at; all are when nothing is said.
 * @throws StoreDamaged when a header does not hold, or a segment of another ledger stands among them.
 */
export declare function listSegments(files: Files, directory: string, isWanted?: (name: string) => boolean): Segment[];
export type Tail = 
/** Only zeros, or nothing. */
{
    readonly state: 'clean';
}
/** Most likely bytes of a batch that was being written when the machine or the process stopped. */
 | {
    readonly state: 'torn';
    readonly bytes: Buffer;
}
/** A frame further on says that the unreadable one was durable. */
 | {
    readonly state: 'damaged';
    readonly witnessSequence: number;
};
/**
 * @param offset where the frame of `sequence` is due in the last segment's file and cannot be read.
 *
 * A batch reaches the disk in no particular order before its flush returns, so readable frames may stand
 * behind an unreadable one in a torn tail. durable-before distinguishes the two (frame.ts). No sender
 * can forge such a frame inside an event: a header has zero bytes, and JSON text has none (RFC 8259).
 *
 * Frames that hold do not overlap, so what a collector has written asks for little more than one reading. Headers laid
 * one inside the other, which only someone with access to the disk can do, would ask for thousands: they count as
 * damage.
 *
 * The hole: when the end of the log is damaged after it was acknowledged, no frame behind it is left to say so,
 * and it looks torn, or, zeroed, clean. The id index vouches for what its runs cover (segment-log.ts); behind that
 * no one does. The bytes are kept aside, so that nothing is thrown away.
 */
export declare function judgeTail(files: Files, fd: number, offset: number, sequence: number): Tail;
