/**
 * Reads the log as it lies there, for `collector verify`: where the collector stops at the first frame that does not
 * hold (log-frames.ts), this goes on behind it, and reports what lies in between.
 *
 * A frame that holds is one with a plausible size and its checksum. Behind one that does not, the next one that holds
 * is searched for byte by byte. No sender can make such a frame inside an event: a header has zero bytes, and JSON text
 * has none (RFC 8259).
 */
import type { Files } from '../../files.js';
import type { SurveyedSegment } from './segment-survey.js';
/** A frame that holds. The same object for every one, valid until the next item is asked for. */
export interface WholeFrame {
    readonly kind: 'frame';
    buffer: Buffer;
    offset: number;
    size: number;
    /** Which of the segments, and where in its file. */
    segment: number;
    position: number;
    /** Which event it is by its place, whatever its header says. */
    sequence: number;
}
/** What is no frame that holds. */
export interface Rest {
    /**
     * `damaged`: the bytes of one frame. `unreadable`: bytes in the place of `count` events, or of none when 0.
     * `missing`: not a byte in the place of `count` events. `torn`: behind the last frame of the log, most likely bytes
     * of a batch that was never acknowledged. `spare`: bytes behind the last frame of another segment. `empty`: a
     * segment without a frame, that others follow. `overlap`: one that says that it begins `count` events before the
     * one in front of it ends; it stands for none.
     */
    readonly kind: 'damaged' | 'unreadable' | 'missing' | 'torn' | 'spare' | 'empty' | 'overlap';
    readonly segment: number;
    readonly position: number;
    readonly bytes: number;
    readonly sequence: number;
    readonly count: number;
}
type Items = Generator<WholeFrame | Rest, void>;
export interface ForensicOptions {
    /** So many events a signed checkpoint covers: all of them were durable, and no torn tail begins among them. */
    readonly covered: number;
}
export declare class ForensicReader {
    #private;
    readonly segments: readonly SurveyedSegment[];
    /** @param segments by name (segment-survey.ts). */
    constructor(files: Files, segments: readonly SurveyedSegment[], options: ForensicOptions);
    /** Everything that lies in the segments, in the order in which it lies there. To be called once. */
    items(): Items;
    /** Reads bytes of a segment; fewer at its end. */
    bytesAt(segment: number, position: number, bytes: number): Buffer;
    /** All the bytes of the frame at a place where `items` reported one. */
    frameAt(segment: number, position: number): Buffer;
}
export {};
