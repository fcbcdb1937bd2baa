import type { Candidate, StoredEntry } from '../contract/events.js';
/** The size of a frame whose strings, extension and payload are empty: no frame is smaller. */
export declare const HEADER_BYTES: number;
/** Payload states. */
export declare const PLAIN = 0;
export declare const ENCRYPTED = 1;
export declare const RETIRED = 2;
/** By what a payload is encrypted on its way into its frame; salt and body as they are when there is none. */
export interface PayloadSealer {
    /** How many bytes stand in front of the sealed salt. */
    readonly overhead: number;
    /** Writes these and behind them the sealed salt and body, for a frame whose envelope and commitment are in place. */
    seal(target: Buffer, offset: number, at: number, candidate: Candidate, sequence: number): void;
}
/** The size in bytes of the frame that `encodeFrame` will write for the candidate. */
export declare function frameSize(candidate: Candidate, sealer?: PayloadSealer): number;
/**
 * Writes the candidate's frame into `target` at `offset`.
 * @returns the frame's size in bytes.
 */
export declare function encodeFrame(target: Buffer, offset: number, candidate: Candidate, sequence: number, durableBefore: number, sealer?: PayloadSealer): number;
/**
 * The size of the frame at `offset`, when the bytes there can be a frame's header at all.
 * @returns 0 when they cannot, or when fewer than a header's bytes are left before `end`.
 */
export declare function plausibleSize(source: Buffer, offset: number, end: number): number;
/** Where the envelope of the frame at `offset` ends, going by the lengths in it. */
export declare function envelopeEnd(source: Buffer, offset: number): number;
/** On return the `size` bytes at `offset` carry the checksum of what they hold. */
export declare function sealFrame(target: Buffer, offset: number, size: number): void;
/** True when the `size` bytes at `offset` carry the checksum that they were written with. */
export declare function checksumHolds(source: Buffer, offset: number, size: number): boolean;
/** A number, for the payload state; see above. */
export declare function framePayloadState(source: Buffer, offset: number): number;
/** Says of a frame in memory what its payload is by now. */
export declare function setFramePayloadState(source: Buffer, offset: number, state: typeof PLAIN | typeof RETIRED): void;
/** The length of what stands between envelope and payload. */
export declare function frameExtensionLength(source: Buffer, offset: number): number;
export declare function framePayloadLength(source: Buffer, offset: number): number;
export declare function frameSequence(source: Buffer, offset: number): number;
export declare function frameDurableBefore(source: Buffer, offset: number): number;
/** A view of the 16 bytes of the frame's event id. */
export declare function frameEventId(source: Buffer, offset: number): Buffer;
export declare function frameReceivedAt(source: Buffer, offset: number): number;
export declare function frameKind(source: Buffer, offset: number): number;
/** Whether it is an entry of the log's own, of a kind that is known here or not. */
export declare function frameIsOwn(source: Buffer, offset: number): boolean;
export declare function frameOrganisation(source: Buffer, offset: number): string;
/** A view of the 16 bytes of the frame's run id. */
export declare function frameRunId(source: Buffer, offset: number): Buffer;
/** A view of the 16 bytes of the frame's parent event id. */
export declare function frameParentId(source: Buffer, offset: number): Buffer;
/** A view of the frame's envelope. */
export declare function frameEnvelope(source: Buffer, offset: number): Buffer;
/** Extensions of an encrypted payload, with and without a tag (sealed-frame.ts), by what is in front of the salt. */
export declare const OVERHEADS: readonly number[];
/** A view of the salt and the payload of a frame that is `size` bytes long. */
export declare function frameSalted(source: Buffer, offset: number, size: number): Buffer;
/**
 * Reads a frame whose size is plausible and whose checksum holds.
 * @returns the entry; its views are views of `source`.
 * @throws RangeError for an envelope or a payload state that this version does not know.
 */
export declare function decodeFrame(source: Buffer, offset: number): StoredEntry;
/** A view of the 32 bytes of the frame's commitment. */
export declare function frameCommitment(source: Buffer, offset: number): Buffer;
