/** The frames of the log in order, across segments and in bounded memory, each with its checksum and sequence checked. */
import type { Files } from '../../files.js';
import { type Tail, type Segment } from './segment.js';
/** Neighbours of one segment; the same object and buffer for every block, valid until the next is asked for. */
export interface FrameBlock {
    buffer: Buffer;
    /** Where each frame begins in `buffer`; at least one. */
    offsets: number[];
    /** Behind the last of them. */
    end: number;
    /** The address of the first byte of `buffer`. */
    address: number;
    segment: Segment;
}
/** Where a frame stands in `buffer`; the same object for every frame, valid until the next is asked for. */
export interface FramePlace {
    buffer: Buffer;
    offset: number;
    size: number;
    address: number;
}
/** What stands behind the last readable frame of the last segment. */
export interface SegmentEnd {
    /** Address behind the last frame. */
    readonly address: number;
    /** Offset in the last segment's file. */
    readonly offset: number;
    readonly nextSequence: number;
}
export type LogEnd = SegmentEnd & {
    readonly tail: Tail;
};
/** A frame's address, and its sequence. */
export interface FrameStart {
    readonly address: number;
    readonly sequence: number;
}
/**
 * Every frame from the first of `segments` on; what lies behind the last one is for segment.ts to judge.
 * @param segments a run of neighbours that ends with the ledger's last segment.
 * @param from a frame in the first of them; frames before it are not read.
 * @returns where the last segment's readable frames end.
 * @throws StoreDamaged at the first frame that does not hold, unless it is in the last segment.
 */
export declare function readBlocks(files: Files, segments: readonly Segment[], from?: FrameStart): Generator<FrameBlock, SegmentEnd>;
/** As {@link readBlocks}, a frame at a time. */
export declare function readFrames(files: Files, segments: readonly Segment[], from?: FrameStart): Generator<FramePlace, SegmentEnd>;
/**
 * As {@link readBlocks}, and then what lies behind the last frame is judged.
 * @param glance where the first bytes behind it are zeros, the rest is not read: for a reader that comes often.
 * @throws StoreDamaged at the first frame that does not hold what was written and had been durable.
 */
export declare function readToEnd(files: Files, segments: readonly Segment[], from?: FrameStart, glance?: boolean): Generator<FrameBlock, LogEnd>;
/** Whether nothing was written where a frame would begin. */
export declare function isBlank(files: Files, fd: number, offset: number): boolean;
export declare function offsetIn({ base }: Segment, address: number): number;
/**
 * For a copy of a segment: its header and its frames up to an address behind one of them, each checked as it is read. A
 * piece is valid until the next is asked for.
 * @param next the segment behind this one, which says where it ends; undefined for the last one.
 * @throws StoreDamaged at the first place that does not hold what was written there.
 */
export declare function segmentPieces(files: Files, segment: Segment, next: Segment | undefined, until: number): Generator<Uint8Array>;
