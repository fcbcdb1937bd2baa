import { type Files } from '../../files.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
/** The same files, with every compacted segment as what it was. */
export declare function expanding(files: Files): Files;
/** The segments of a log on this machine, as they read. */
export declare const segmentFiles: Files;
/** Whether a segment takes less room than it reads as. */
export declare function isCompacted(file: string): boolean;
/** The segments that hold some events. */
interface HoldingSegments {
    /** When the last of those that are compacted was, in ms since 1970; undefined when none is. */
    readonly compactedAt: number | undefined;
    /** From which event on the segment is that is written to. */
    readonly liveFrom: number;
}
export declare function segmentsOf(dataDir: string, sequences: SequenceSet): HoldingSegments;
/** What a compaction has won, in bytes of the file. */
export interface Compacted {
    readonly before: number;
    readonly after: number;
}
/** In bytes, as these files have it. */
export declare function sizeOf(files: Files, file: string): number;
/**
 * Compacts the segments of a log of which a fifth or more is retired and still there, oldest first, while a collector runs
 * or without one. No two may do so at a time.
 * @param onSegment called behind each that was looked at. @returns what was won.
 */
export declare function compactLog(dataDir: string, retired: SequenceSet, onSegment: (done: number, of: number) => void, files?: Files): Promise<Compacted>;
export {};
