/**
 * The wire grammar of the log on disk: one frame an event, little-endian, no padding.
 *
 *   offset  size  field
 *        0     4  CRC-32 (ISO-HDLC, the one of zlib) of bytes 4 up to the end of the frame
 *        4     4  size of the whole frame in bytes
 *        8     1  format version, 1
 *        9     1  kind, its place in EVENT_KINDS
 *       10     1  payload state: 0 plain, 1 encrypted, 2 retired (payload bytes zeroed in place, the rest stays)
 *       11     1  profile that the event was checked against, its place in PROFILES
 *       12     1  length of the organisation, O
 *       13     1  length of the key id, K
 *       14     2  length of the extension, X: room for what an encrypted or retired payload needs; 0 in version 1
 *       16     8  sequence
 *       24     8  durable-before: when this frame was written, every lower sequence was already durable
 *       32     8  received_at, milliseconds since 1970 UTC
 *       40    16  event id
 *       56    16  run id, zero when none
 *       72    32  SHA-256 of the plain body
 *      104     4  payload length, P
 *      108     4  length of the plain body
 *      112     O  organisation, ASCII
 *              K  key id, ASCII
 *              X  extension
 *              P  payload
 *
 * `durable-before` is what lets recovery tell a torn tail from damage: a frame that cannot be read was never
 * acknowledged, unless a readable frame behind it says that it was durable by then.
 */
import { crc32 } from 'node:zlib';
import { EVENT_KINDS, PROFILES } from '@clinical-events/protocol';
import type { Candidate, PayloadState, StoredEvent } from '../store.js';

const FRAME_VERSION = 1;
export const HEADER_BYTES = 112;
const PAYLOAD_STATES: readonly PayloadState[] = ['plain', 'encrypted', 'retired'];
/** Sequences and times stay below 2^53, so that a double holds them exactly. */
const HIGH = 0x1_0000_0000;

function writeUint64(target: Buffer, value: number, offset: number): void {
  target.writeUInt32LE(value % HIGH, offset);
  target.writeUInt32LE(Math.floor(value / HIGH), offset + 4);
}

function readUint64(source: Buffer, offset: number): number {
  return source.readUInt32LE(offset + 4) * HIGH + source.readUInt32LE(offset);
}

/** The size in bytes of the frame that `encodeFrame` will write for the candidate. */
export function frameSize(candidate: Candidate): number {
  return HEADER_BYTES + candidate.organisation.length + candidate.keyId.length + candidate.body.length;
}

/**
 * Writes the candidate's frame into `target` at `offset`.
 * @returns the frame's size in bytes.
 */
export function encodeFrame(
  target: Buffer,
  offset: number,
  candidate: Candidate,
  sequence: number,
  durableBefore: number,
): number {
  const { organisation, keyId, body } = candidate;
  const size = frameSize(candidate);
  target.writeUInt32LE(size, offset + 4);
  target[offset + 8] = FRAME_VERSION;
  target[offset + 9] = EVENT_KINDS.indexOf(candidate.kind);
  target[offset + 10] = 0;
  target[offset + 11] = PROFILES.indexOf(candidate.profile);
  target[offset + 12] = organisation.length;
  target[offset + 13] = keyId.length;
  target.writeUInt16LE(0, offset + 14);
  writeUint64(target, sequence, offset + 16);
  writeUint64(target, durableBefore, offset + 24);
  writeUint64(target, candidate.receivedAt, offset + 32);
  target.set(candidate.eventId, offset + 40);
  target.set(candidate.runId, offset + 56);
  target.write(candidate.digest, offset + 72, 'hex');
  target.writeUInt32LE(body.length, offset + 104);
  target.writeUInt32LE(body.length, offset + 108);
  let at = offset + HEADER_BYTES;
  at += target.write(organisation, at, 'latin1');
  at += target.write(keyId, at, 'latin1');
  target.set(body, at);
  target.writeUInt32LE(crc32(target.subarray(offset + 4, offset + size)), offset);
  return size;
}

/**
 * The size of the frame at `offset`, when the bytes there can be a frame's header at all.
 * @returns 0 when they cannot, or when fewer than a header's bytes are left before `end`.
 */
export function plausibleSize(source: Buffer, offset: number, end: number): number {
  if (end - offset < HEADER_BYTES) return 0;
  const size = source.readUInt32LE(offset + 4);
  const least =
    HEADER_BYTES +
    (source[offset + 12] ?? 0) +
    (source[offset + 13] ?? 0) +
    source.readUInt16LE(offset + 14) +
    source.readUInt32LE(offset + 104);
  return size === least && source[offset + 8] === FRAME_VERSION ? size : 0;
}

/** True when the `size` bytes at `offset` carry the checksum that they were written with. */
export function checksumHolds(source: Buffer, offset: number, size: number): boolean {
  return crc32(source.subarray(offset + 4, offset + size)) === source.readUInt32LE(offset);
}

export function frameSequence(source: Buffer, offset: number): number {
  return readUint64(source, offset + 16);
}

export function frameDurableBefore(source: Buffer, offset: number): number {
  return readUint64(source, offset + 24);
}

/** A view of the 16 bytes of the frame's event id. */
export function frameEventId(source: Buffer, offset: number): Buffer {
  return source.subarray(offset + 40, offset + 56);
}

export function frameReceivedAt(source: Buffer, offset: number): number {
  return readUint64(source, offset + 32);
}

export function frameKind(source: Buffer, offset: number): number {
  return source[offset + 9] ?? 0;
}

export function frameOrganisation(source: Buffer, offset: number): string {
  const start = offset + HEADER_BYTES;
  return source.toString('latin1', start, start + (source[offset + 12] ?? 0));
}

/** A view of the 16 bytes of the frame's run id. */
export function frameRunId(source: Buffer, offset: number): Buffer {
  return source.subarray(offset + 56, offset + 72);
}

function uuidText(bytes: Buffer): string {
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const NO_RUN = Buffer.alloc(16);

/**
 * Reads a frame whose size is plausible and whose checksum holds.
 * @returns the event; its `body` is a view of `source`.
 * @throws RangeError for a kind, profile or payload state that this version does not know.
 */
export function decodeFrame(source: Buffer, offset: number): StoredEvent {
  const size = source.readUInt32LE(offset + 4);
  const kind = EVENT_KINDS[frameKind(source, offset)];
  const payloadState = PAYLOAD_STATES[source[offset + 10] ?? 255];
  const profile = PROFILES[source[offset + 11] ?? 255];
  if (kind === undefined || profile === undefined || payloadState === undefined) {
    throw new RangeError('a frame written by a later version of the collector');
  }
  const organisation = frameOrganisation(source, offset);
  const keyStart = offset + HEADER_BYTES + organisation.length;
  const runId = frameRunId(source, offset);
  return {
    sequence: frameSequence(source, offset),
    kind,
    profile,
    organisation,
    keyId: source.toString('latin1', keyStart, keyStart + (source[offset + 13] ?? 0)),
    receivedAt: frameReceivedAt(source, offset),
    eventId: uuidText(frameEventId(source, offset)),
    runId: runId.equals(NO_RUN) ? undefined : uuidText(runId),
    digest: source.toString('hex', offset + 72, offset + 104),
    payloadState,
    body: source.subarray(offset + size - source.readUInt32LE(offset + 104), offset + size),
  };
}
