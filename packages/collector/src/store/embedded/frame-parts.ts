/**
 * The parts of a frame for a reader that takes nothing on trust: views of where frame.ts says that they are, whatever
 * stands there, and a list of what in a header cannot have been written by a collector.
 */
import { SALT_BYTES } from '@clinical-events/protocol';
import { uuidText } from '../text.js';
import {
  checksumHolds,
  envelopeEnd,
  frameCommitment,
  frameDurableBefore,
  frameEnvelope,
  frameEventId,
  framePayloadLength,
  framePayloadState,
  frameSalted,
  frameSaltLength,
  frameSequence,
  HEADER_BYTES,
  plausibleSize,
} from './frame.js';

/** The payload state of every frame that this version writes. */
const PLAIN = 0;

export interface FrameParts {
  readonly envelope: Buffer;
  readonly commitment: Buffer;
  /** The salt and the payload behind it. */
  readonly salted: Buffer;
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
  return uuidText(frameEventId(frame, 0));
}

/**
 * Whether the header of a frame, whose size is plausible, says what a collector of this version writes in this place.
 * @param before durable-before of the frame in front of it; undefined when that is not known.
 */
export function headerHolds(
  source: Buffer,
  offset: number,
  sequence: number,
  before: number | undefined,
): boolean {
  return (
    framePayloadState(source, offset) === PLAIN &&
    frameSaltLength(source, offset) === SALT_BYTES &&
    frameSequence(source, offset) === sequence &&
    durableBeforeHolds(frameDurableBefore(source, offset), sequence, before)
  );
}

/** The frames of a batch share one, which is the sequence of the first of them. */
function durableBeforeHolds(durableBefore: number, sequence: number, before: number | undefined): boolean {
  if (durableBefore === sequence) return true;
  return before === undefined ? durableBefore < sequence : durableBefore === before;
}

/**
 * The fields in the header of a frame, given whole, that no collector of this version has written so, by name. When the
 * checksum does not hold, at least one.
 * @param before durable-before of the frame in front of it; undefined when that is not known.
 */
export function alteredFields(frame: Buffer, sequence: number, before: number | undefined): string[] {
  const payloadAt = envelopeEnd(frame, 0) + SALT_BYTES;
  const holds: readonly (readonly [string, boolean])[] = [
    ['size', frame.readUInt32LE(4) === frame.length],
    ['format version', hasVersion(frame)],
    ['payload state', framePayloadState(frame, 0) === PLAIN],
    ['salt length', frameSaltLength(frame, 0) === SALT_BYTES],
    ['payload length', framePayloadLength(frame, 0) === frame.length - payloadAt],
    ['sequence', frameSequence(frame, 0) === sequence],
    // One that is wrongly said to begin a batch is noticed at the next one.
    [
      'durable-before, or that of the frame in front of it',
      durableBeforeHolds(frameDurableBefore(frame, 0), sequence, before),
    ],
  ];
  const altered = holds.filter(([, does]) => !does).map(([name]) => name);
  // What is left are values that could have been, and the checksum itself.
  return altered.length > 0 || checksumHolds(frame, 0, frame.length)
    ? altered
    : ['checksum or durable-before'];
}

/** Asked of the one place that knows the version, with sizes that fit. */
function hasVersion(frame: Buffer): boolean {
  const header = Buffer.from(frame.subarray(0, HEADER_BYTES));
  header.writeUInt16LE(0, 10);
  header.writeUInt32LE(0, 12);
  header.writeUInt32LE(envelopeEnd(header, 0), 4);
  return plausibleSize(header, 0, header.length) > 0;
}
