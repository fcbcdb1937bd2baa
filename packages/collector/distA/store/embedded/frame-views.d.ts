/** Frames in memory for readers of millions: what `decodeFrame` says of each, without an object for each. */
import { type EventKind } from '@clinical-events/protocol';
import type { Actions } from '../../privacy/actions.js';
import { type EventFacts, type PassedEntry, type ReadEvents } from '../contract/events.js';
import type { FrameBlock } from './log-frames.js';
import { type FrameOpener } from './sealed-frame.js';
/** The frames of a block, one after the other. */
export declare class PassedFrames implements Iterable<PassedEntry>, PassedEntry {
    #private;
    private readonly opener;
    source: Buffer;
    at: number;
    size: number;
    eventIdAt: number;
    runIdAt: number;
    parentIdAt: number;
    constructor(opener: FrameOpener);
    /** @returns this, for the frames of another block. */
    of(block: FrameBlock): this;
    [Symbol.iterator](): Generator<this, void>;
    get sequence(): number;
    get isOwn(): boolean;
    get kind(): EventKind;
    get organisation(): string;
    get receivedAt(): number;
    get bucket(): number | undefined;
    body(): Buffer | undefined;
}
export declare class ReadFrames implements ReadEvents {
    #private;
    readonly source: Buffer;
    private readonly offsets;
    private readonly retirementOf;
    /** @param offsets of the frames in `source`; the checksum of each holds. */
    constructor(source: Buffer, offsets: Float64Array, retirementOf: Actions['retirementOf']);
    facts(index: number): EventFacts;
    bodyFrom(index: number): number;
    bodyTo(index: number): number;
    body(index: number): string | undefined;
}
