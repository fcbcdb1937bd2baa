/**
 * The layout of the log on disk: one frame per entry, no padding, little-endian except for the envelope.
 * Frozen, version 1 (docs/internals/formats.md).
 *
 *   offset  size  field
 *        0     4  CRC-32 (ISO-HDLC, as in zlib) of bytes 4 up to the end of the frame
 *        4     4  size of the whole frame in bytes
 *        8     1  format version, 1
 *        9     1  payload state: 0 plain, 1 encrypted, 2 erased (extension and payload are zeros)
 *       10     2  length of the extension, X
 *       12     4  payload length, P
 *       16     8  sequence
 *       24     8  durable-before: every lower sequence was durable when this frame was written
 *       32    32  commitment: SHA-256 of salt and plain body
 *       64     E  envelope (protocol, leaf.ts): kind, ids, received_at, sender; contains its own lengths
 *              X  extension, which ends with the salt (16). Before the salt:
 *                 action (kind 0x80): sequence (8) and address (8, segment.ts) of the previous action,
 *                   0 and 0 for the first one (action-chain.ts)
 *                 encrypted payload: parameters of key and cipher (8 or 24, sealed-frame.ts)
 *                 any other entry: nothing
 *              P  payload
 *
 * The extension is not part of the entry's leaf, because a leaf is the same on every store. No field is a
 * hash of the payload alone, so guesses cannot be checked after payload and salt are erased. Salt and payload
 * are adjacent, so that one call hashes both.
 *
 * `durable-before` lets recovery distinguish a torn tail from damage: an unreadable frame was never
 * acknowledged, unless a later readable frame says that it was durable.
 */
import { crc32 } from 'node:zlib';
import {
  decodeEnvelope,
  encodeEnvelope,
  ENTRY_KINDS,
  ENVELOPE_AT,
  ENVELOPE_FIXED_BYTES,
  envelopeSize,
  FIRST_ENTRY_KIND,
  SALT_BYTES,
} from '@clinical-events/protocol';
import type { Candidate, PayloadState, StoredEntry } from '../contract/events.js';
import { uuidText } from '../text.js';

const FRAME_VERSION = 1;
const ENVELOPE = 64;
/** The minimum size of a frame: with empty strings, extension and payload. */
export const HEADER_BYTES = ENVELOPE + ENVELOPE_FIXED_BYTES;
/** Payload states. */
export const PLAIN = 0;
export const ENCRYPTED = 1;
export const ERASED = 2;
const PAYLOAD_STATES: readonly PayloadState[] = ['plain', 'encrypted', 'erased'];
/** Sequences and times stay below 2^53, so that a double holds them exactly. */
const HIGH = 0x1_0000_0000;
const NO_ID = Buffer.alloc(16);

function writeUint64(target: Buffer, value: number, offset: number): void {
  target.writeUInt32LE(value % HIGH, offset);
  target.writeUInt32LE(Math.floor(value / HIGH), offset + 4);
}

function readUint64(source: Buffer, offset: number): number {
  return source.readUInt32LE(offset + 4) * HIGH + source.readUInt32LE(offset);
}

/** The address and the sequence of a frame. */
export interface FrameStart {
  readonly address: number;
  readonly sequence: number;
}

/** The pointer to the newest action if there is none. */
export const NO_ACTION: FrameStart = { address: 0, sequence: 0 };
const ACTION_BEFORE_BYTES = 16;

/** Encrypts the payload of a frame. */
export interface PayloadSealer {
  /** Number of bytes before the sealed salt. */
  readonly overhead: number;
  /**
   * Writes these bytes, then the sealed salt and body, into a frame that already has envelope and commitment.
   */
  seal(target: Buffer, offset: number, at: number, candidate: Candidate, sequence: number): void;
}

/** The size of the frame that `encodeFrame` writes for the candidate. */
export function frameSize(candidate: Candidate, sealer?: PayloadSealer): number {
  return ENVELOPE + envelopeSize(candidate) + overheadOf(candidate, sealer) + candidate.salted.length;
}

/** Number of bytes of the extension before the salt. */
function overheadOf({ kind }: Candidate, sealer: PayloadSealer | undefined): number {
  return kind === ENTRY_KINDS.lifecycleAction ? ACTION_BEFORE_BYTES : (sealer?.overhead ?? 0);
}

/**
 * Writes the frame of a candidate into `target` at `offset`.
 * @param sealer undefined for a plain payload, such as the payload of an action.
 * @param actionBefore the previous action, if the entry is an action.
 * @returns the size of the frame.
 */
export function encodeFrame(
  target: Buffer,
  offset: number,
  candidate: Candidate,
  sequence: number,
  durableBefore: number,
  sealer?: PayloadSealer,
  actionBefore = NO_ACTION,
): number {
  const { salted, commitment } = candidate;
  let at = offset + ENVELOPE + encodeEnvelope(target, offset + ENVELOPE, candidate);
  const overhead = overheadOf(candidate, sealer);
  const size = at - offset + overhead + salted.length;
  target.writeUInt32LE(size, offset + 4);
  target[offset + 8] = FRAME_VERSION;
  target[offset + 9] = candidate.isErased ? ERASED : sealer === undefined ? PLAIN : ENCRYPTED;
  target.writeUInt16LE(overhead + SALT_BYTES, offset + 10);
  target.writeUInt32LE(salted.length - SALT_BYTES, offset + 12);
  writeUint64(target, sequence, offset + 16);
  writeUint64(target, durableBefore, offset + 24);
  target.set(commitment, offset + 32);
  if (candidate.kind === ENTRY_KINDS.lifecycleAction) {
    writeUint64(target, actionBefore.sequence, at);
    writeUint64(target, actionBefore.address, at + 8);
    at += ACTION_BEFORE_BYTES;
  }
  if (sealer === undefined) target.set(salted, at);
  else sealer.seal(target, offset, at, candidate, sequence);
  sealFrame(target, offset, size);
  return size;
}

/**
 * The size of the frame at `offset` by its header.
 * @returns 0 if the bytes cannot be the header of a frame, or if there are too few of them before `end`.
 */
export function plausibleSize(source: Buffer, offset: number, end: number): number {
  if (end - offset < HEADER_BYTES) return 0;
  const size = source.readUInt32LE(offset + 4);
  const least =
    envelopeEnd(source, offset) -
    offset +
    frameExtensionLength(source, offset) +
    framePayloadLength(source, offset);
  return size === least && source[offset + 8] === FRAME_VERSION ? size : 0;
}

/** The end of the envelope of the frame at `offset`, by the lengths in it. */
export function envelopeEnd(source: Buffer, offset: number): number {
  const at = offset + ENVELOPE;
  const organisation = source[at + ENVELOPE_AT.organisationLength] ?? 0;
  return offset + HEADER_BYTES + organisation + (source[at + ENVELOPE_AT.keyIdLength] ?? 0);
}

/** Writes the checksum of the frame of `size` bytes at `offset`. */
export function sealFrame(target: Buffer, offset: number, size: number): void {
  target.writeUInt32LE(crc32(target.subarray(offset + 4, offset + size)), offset);
}

/** Whether the checksum of the frame of `size` bytes at `offset` matches. */
export function checksumHolds(source: Buffer, offset: number, size: number): boolean {
  return crc32(source.subarray(offset + 4, offset + size)) === source.readUInt32LE(offset);
}

/** The payload state as a number: see above. */
export function framePayloadState(source: Buffer, offset: number): number {
  return source[offset + 9] ?? 255;
}

/** Changes the payload state of a frame in memory. */
export function setFramePayloadState(
  source: Buffer,
  offset: number,
  state: typeof PLAIN | typeof ERASED,
): void {
  source[offset + 9] = state;
}

/** The length of the extension between envelope and payload. */
export function frameExtensionLength(source: Buffer, offset: number): number {
  return source.readUInt16LE(offset + 10);
}

export function framePayloadLength(source: Buffer, offset: number): number {
  return source.readUInt32LE(offset + 12);
}

export function frameSequence(source: Buffer, offset: number): number {
  return readUint64(source, offset + 16);
}

export function frameDurableBefore(source: Buffer, offset: number): number {
  return readUint64(source, offset + 24);
}

function idAt(source: Buffer, at: number): Buffer {
  return source.subarray(at, at + NO_ID.length);
}

/** A view of the 16 bytes of the frame's event id. */
export function frameEventId(source: Buffer, offset: number): Buffer {
  return idAt(source, offset + ENVELOPE + ENVELOPE_AT.eventId);
}

export function frameReceivedAt(source: Buffer, offset: number): number {
  const at = offset + ENVELOPE + ENVELOPE_AT.receivedAt;
  return source.readUInt32BE(at) * HIGH + source.readUInt32BE(at + 4);
}

export function frameKind(source: Buffer, offset: number): number {
  return source[offset + ENVELOPE + ENVELOPE_AT.kind] ?? 0;
}

/** Whether the entry is the log's own, even if its kind is unknown. */
export function frameIsOwn(source: Buffer, offset: number): boolean {
  return frameKind(source, offset) >= FIRST_ENTRY_KIND;
}

export function frameOrganisation(source: Buffer, offset: number): string {
  const start = offset + ENVELOPE + ENVELOPE_FIXED_BYTES;
  return source.toString(
    'latin1',
    start,
    start + (source[offset + ENVELOPE + ENVELOPE_AT.organisationLength] ?? 0),
  );
}

/** A view of the 16 bytes of the frame's run id. */
export function frameRunId(source: Buffer, offset: number): Buffer {
  return idAt(source, offset + ENVELOPE + ENVELOPE_AT.runId);
}

/** A view of the 16 bytes of the frame's parent event id. */
export function frameParentId(source: Buffer, offset: number): Buffer {
  return idAt(source, offset + ENVELOPE + ENVELOPE_AT.parentId);
}

/**
 * The pointer of an action to the previous one; NO_ACTION for the first action, undefined for any other
 * entry. The size of the frame must be plausible.
 */
export function frameActionBefore(source: Buffer, offset: number): FrameStart | undefined {
  const isAction = frameKind(source, offset) === ENTRY_KINDS.lifecycleAction;
  const at = envelopeEnd(source, offset);
  if (!isAction || frameExtensionLength(source, offset) !== SALT_BYTES + ACTION_BEFORE_BYTES)
    return undefined;
  return { sequence: readUint64(source, at), address: readUint64(source, at + 8) };
}

/** The length of the extension of a plain payload, by the kind of its entry. */
export function plainExtensionLength(source: Buffer, offset: number): number {
  const isAction = frameKind(source, offset) === ENTRY_KINDS.lifecycleAction;
  return SALT_BYTES + (isAction ? ACTION_BEFORE_BYTES : 0);
}

/** A view of the frame's envelope. */
export function frameEnvelope(source: Buffer, offset: number): Buffer {
  return source.subarray(offset + ENVELOPE, envelopeEnd(source, offset));
}

/**
 * Lengths of the extension of an encrypted payload before the salt, without and with a tag (sealed-frame.ts).
 */
export const OVERHEADS: readonly number[] = [8, 24];

/** A view of the salt and the payload of a frame that is `size` bytes long. */
export function frameSalted(source: Buffer, offset: number, size: number): Buffer {
  const overhead = frameExtensionLength(source, offset) - SALT_BYTES;
  const isKnown = overhead === ACTION_BEFORE_BYTES || OVERHEADS.includes(overhead);
  const from = envelopeEnd(source, offset) + (isKnown ? overhead : 0);
  return source.subarray(from, offset + size);
}

/**
 * Decodes a frame with a plausible size and a valid checksum. The result contains views of `source`.
 * @throws RangeError if this version does not know the envelope or the payload state.
 */
export function decodeFrame(source: Buffer, offset: number): StoredEntry {
  const payloadState = PAYLOAD_STATES[framePayloadState(source, offset)];
  if (payloadState === undefined) throw new RangeError('a frame written by a later version of the collector');
  const size = source.readUInt32LE(offset + 4);
  const { envelope } = decodeEnvelope(source, offset + ENVELOPE);
  const runId = frameRunId(source, offset);
  const parentId = frameParentId(source, offset);
  return {
    sequence: frameSequence(source, offset),
    kind: envelope.kind,
    profile: envelope.profile,
    door: envelope.door,
    organisation: envelope.organisation,
    keyId: envelope.keyId,
    receivedAt: envelope.receivedAt,
    eventId: uuidText(frameEventId(source, offset)),
    runId: runId.equals(NO_ID) ? undefined : uuidText(runId),
    parentId: parentId.equals(NO_ID) ? undefined : uuidText(parentId),
    payloadState,
    envelope: frameEnvelope(source, offset),
    commitment: frameCommitment(source, offset),
    salted: frameSalted(source, offset, size),
    body: source.subarray(offset + size - framePayloadLength(source, offset), offset + size),
  };
}

/** A view of the 32 bytes of the frame's commitment. */
export function frameCommitment(source: Buffer, offset: number): Buffer {
  return source.subarray(offset + 32, offset + 64);
}
