/**
 * The parts of a frame for a reader that takes nothing on trust: views of where frame.ts says that they are, whatever
 * stands there, and a list of what in a header cannot have been written by a collector.
 */
import { ENVELOPE_FIXED_BYTES, SALT_BYTES } from '@clinical-events/protocol';
import {
  checksumHolds,
  frameCommitment,
  frameDurableBefore,
  frameEventId,
  frameSequence,
  HEADER_BYTES,
  plausibleSize,
} from './frame.js';

/** Where the envelope begins, and how many bytes of a frame are not its envelope, salt or payload. */
const ENVELOPE = HEADER_BYTES - ENVELOPE_FIXED_BYTES;

export interface FrameParts {
  readonly envelope: Buffer;
  readonly commitment: Buffer;
  /** The salt and the payload behind it. */
  readonly salted: Buffer;
}

/** Where the envelope of the frame at `offset` ends, going by the lengths in it. */
export function envelopeEnd(source: Buffer, offset: number): number {
  const lengths = (source[offset + ENVELOPE + 3] ?? 0) + (source[offset + ENVELOPE + 4] ?? 0);
  return offset + HEADER_BYTES + lengths;
}

/** A view of the envelope of a frame that is whole. */
export function frameEnvelope(source: Buffer, offset: number): Buffer {
  return source.subarray(offset + ENVELOPE, envelopeEnd(source, offset));
}

/** A view of the salt and the payload of a frame that is whole and `size` bytes long. */
export function frameSalted(source: Buffer, offset: number, size: number): Buffer {
  return source.subarray(envelopeEnd(source, offset), offset + size);
}

/** The parts of all the bytes of a frame; undefined when the lengths in its envelope leave no room for a salt. */
export function partsOf(frame: Buffer): FrameParts | undefined {
  if (frame.length < HEADER_BYTES || envelopeEnd(frame, 0) + SALT_BYTES > frame.length) return undefined;
  return {
    envelope: frameEnvelope(frame, 0),
    commitment: frameCommitment(frame, 0),
    salted: frameSalted(frame, 0, frame.length),
  };
}

/** The id in the frame, in its text form (RFC 9562); undefined when the frame is cut short before it ends. */
export function eventIdText(frame: Buffer): string | undefined {
  if (frame.length < HEADER_BYTES) return undefined;
  const hex = frameEventId(frame, 0).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/**
 * Whether the header of a frame, whose size is plausible, says what a collector of this version writes in this place.
 * @param earlierBatch durable-before of the frame in front of it.
 */
export function headerHolds(
  source: Buffer,
  offset: number,
  sequence: number,
  earlierBatch: number,
): boolean {
  const durableBefore = frameDurableBefore(source, offset);
  return (
    source[offset + 9] === 0 &&
    source.readUInt16LE(offset + 10) === SALT_BYTES &&
    frameSequence(source, offset) === sequence &&
    // The frames of a batch share one, which is the first sequence among them.
    (durableBefore === earlierBatch || durableBefore === sequence)
  );
}

/** The fields of a frame's header that a collector of this version did not write so, by name. */
export function alteredFields(frame: Buffer, sequence: number, earlierBatch: number): string[] {
  const durableBefore = frameDurableBefore(frame, 0);
  const payloadAt = envelopeEnd(frame, 0) + SALT_BYTES;
  const fields: [string, boolean][] = [
    ['size', frame.readUInt32LE(4) === frame.length],
    // The version is the one thing besides the sizes that a plausible size asks for.
    ['version', plausibleSize(withSizes(frame, payloadAt), 0, frame.length) === frame.length],
    ['payload state', frame[9] === 0],
    ['salt length', frame.readUInt16LE(10) === SALT_BYTES],
    ['payload length', frame.readUInt32LE(12) === frame.length - payloadAt],
    ['sequence', frameSequence(frame, 0) === sequence],
    ['durable-before', durableBefore === earlierBatch || durableBefore === sequence],
  ];
  const altered = fields.filter(([, holds]) => !holds).map(([name]) => name);
  if (altered.length === 0 && !checksumHolds(frame, 0, frame.length)) {
    // Nobody can tell apart: each value that it can have is one that it could have had.
    return ['checksum or durable-before'];
  }
  return altered;
}

/** The frame with the sizes in its header made to fit. */
function withSizes(frame: Buffer, payloadAt: number): Buffer {
  const fitting = Buffer.from(frame);
  fitting.writeUInt32LE(frame.length, 4);
  fitting.writeUInt16LE(SALT_BYTES, 10);
  fitting.writeUInt32LE(Math.max(0, frame.length - payloadAt), 12);
  return fitting;
}
