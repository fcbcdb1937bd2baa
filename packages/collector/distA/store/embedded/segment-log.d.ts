import { type Cursor } from '../contract/events.js';
import type { Files, HeldFile } from '../../files.js';
import { type Segment } from './segment.js';
import { type FramePlace } from './log-frames.js';
/** What a start found behind the last readable frame and moved to a file of its own. */
export interface TornTail {
    readonly bytes: number;
    readonly keptIn: string;
    readonly sequence: number;
}
export interface SegmentLogOptions {
    readonly directory: string;
    readonly segmentBytes: number;
    readonly files: Files;
    /** Of a ledger that is begun; a random one when not given. */
    readonly ledgerId?: string;
    /** The lock on the data directory. Undefined: nothing else can write there. */
    readonly lock?: HeldFile | undefined;
    /** Called when room for the next segment cannot be made yet; the current one still has some. */
    readonly onRoomTrouble: (error: unknown) => void;
    /** Something else vouches that the log once was durable up to this address; 0 when nothing does. */
    readonly vouchedTo: number;
    /** The same in entries: what a signed checkpoint covers. */
    readonly vouchedEntries: number;
}
export declare class SegmentLog {
    #private;
    /** Oldest first; the last one is written to. Never empty after `open`. */
    readonly segments: Segment[];
    /** Address behind the last durable frame. */
    end: number;
    /** The sequence that the next event gets. */
    nextSequence: number;
    /** How many entries so far are the log's own. */
    ownEntries: number;
    /** By kind, the body of the newest of them in the last segment, as it was when the log was opened. */
    readonly newestOwn: ReadonlyMap<number, Buffer>;
    /** The newest frame with an encrypted payload in the newest segment that has events, as it was when it was opened. */
    readonly newestSealed: Buffer | undefined;
    readonly tornTail: TornTail | undefined;
    /** How long the last flush of a batch took, in milliseconds. */
    flushMs: number;
    private constructor();
    /**
     * Opens the log for writing, or begins it. On return the last segment ends behind a whole frame, everything
     * up to there is on stable storage, and a torn tail has been moved to `torn/`.
     * @throws StoreDamaged when the last segment is damaged before its end or ends too early, or the segments do
     * not fit together.
     */
    static open(options: SegmentLogOptions): Promise<SegmentLog>;
    /**
     * Makes room for a batch, rolling to a new segment when this one is full.
     * @returns undefined when there is room already: then nothing was awaited.
     * @throws NotCommitted when there is none to be had.
     */
    makeRoom(bytes: number): Promise<void> | undefined;
    /**
     * Writes the frames of one batch and flushes them. On return they are durable, and `end` and `nextSequence`
     * stand behind them.
     * @param own how many of the entries are the log's own.
     * @throws NotCommitted nothing of it is stored: what was written is zeros again, durably.
     * @throws CommitUnknown otherwise; every later call throws the same.
     */
    commit(frames: Buffer, bytes: number, entries: number, own?: number): void;
    /**
     * Holds the lock and the current segment against what this process opened: the file under the name, its size, and
     * what was written at two places of it. The hole: bytes changed at any other place are for the next start, `doctor`
     * and `verify`, and so are older segments.
     * @throws CommitUnknown that names the file, as every later call does; LogChanged when it is the segment.
     */
    look(): void;
    /**
     * Tries what a batch needs. On return there is room for another segment, and what was written behind the last frame
     * came to the disk: zeros, as stand there.
     * @throws NotCommitted, CommitUnknown as `makeRoom` and `commit` do.
     */
    prove(): Promise<void>;
    /** Reads `length` bytes at an address of the log, fewer at its end. */
    readAt(address: number, length: number): Buffer;
    /**
     * Fills `target` with frames from an address on, to the end of their segment at most.
     * @returns how many bytes were read.
     */
    read(address: number, target: Buffer): number;
    /** The nearest frame up to a cursor whose place is known: that of its hint, or without one its segment's first. */
    before({ sequence, at }: Cursor): {
        address: number;
        sequence: number;
    };
    /**
     * Every frame from an address on, for rebuilding what is derived. Reads that segment from its first frame, so
     * that a damaged frame is reported under its own sequence and an address between two frames is noticed.
     * @throws RangeError when no frame begins at the address and the log does not end there.
     */
    framesFrom(address: number): Generator<FramePlace, void>;
    /** The address of the first frame. */
    get start(): number;
    /** The file and offset of an address, for messages. */
    placeOf(address: number): {
        file: string;
        offset: number;
    };
    close(): Promise<void>;
    /** See segment.ts. */
    get ledgerId(): string;
}
