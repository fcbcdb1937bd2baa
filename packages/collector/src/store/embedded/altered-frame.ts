/** Classifies altered frames and damage for `collector verify`. The bytes are not trusted. */
import { SALT_BYTES } from '@clinical-events/protocol';
import { HASH_BYTES, commitmentOf, leafHash } from '../../tree/merkle.js';
import { finding, type VerifyFinding, type FindingPlace } from '../findings.js';
import { uuidText } from '../text.js';
import type { Damage } from './log-frames.js';
import {
  ENCRYPTED,
  HEADER_BYTES,
  PLAIN,
  ERASED,
  checksumHolds,
  envelopeEnd,
  frameCommitment,
  frameDurableBefore,
  frameEnvelope,
  frameEventId,
  framePayloadState,
  frameExtensionLength,
  frameSalted,
  frameSequence,
  plainExtensionLength,
  plausibleSize,
} from './frame.js';
import { sealedExtensionHolds, type Opening } from './sealed-frame.js';

/** A location in the log; empty for a log in a database, whose copy is temporary. */
export type Place = Pick<FindingPlace, 'file' | 'offset'>;

/** The bytes of a frame in the log. */
export interface FrameBytes {
  readonly at: Place;
  readonly frame: Buffer;
  readonly sequence: number;
  /** Durable-before of the previous frame; undefined if unknown. */
  readonly before: number | undefined;
  /** For an encrypted payload: the result of opening it. */
  readonly opened?: { readonly opening: Opening; readonly salted: Buffer | undefined };
}

/** The leaf that an event should have. */
export interface Expected {
  /** Undefined if unknown. */
  readonly leaf: Buffer | undefined;
  /** Whether a checkpoint covers the event. */
  readonly covered?: boolean;
  /** Whether the leaf is proved by a signed root. */
  readonly proven: boolean;
}

/** The finding for an altered event; undefined if it is unaltered, or the bytes cannot be an event. */
export function alteredFinding(
  bytes: FrameBytes,
  { leaf, proven, covered = false }: Expected,
): VerifyFinding | undefined {
  const { frame, sequence, at, before, opened } = bytes;
  const id = eventIdText(frame);
  const place = { sequence, ...(id !== undefined && { event_id: id }), ...at };
  const event = `event ${sequence}${id === undefined ? '' : ` (${id})`}`;
  const parts = partsOf(frame);
  if (parts === undefined) {
    if (plausibleSize(frame, 0, frame.length) !== frame.length) return undefined;
    return fitted(frame, finding('payload_without_salt', place, event));
  }
  const { envelope, commitment } = parts;
  const salted = isClosed(frame) ? opened?.salted : parts.salted;
  const found = salted && commitmentOf(salted);
  const fits = found === undefined || found.equals(commitment);
  const holds =
    plausibleSize(frame, 0, frame.length) === frame.length &&
    headerHolds(frame, 0, sequence, before) &&
    checksumHolds(frame, 0, frame.length);
  const expected = proven ? 'was signed' : 'the tree holds';
  const intact = `; its ${found === undefined ? 'envelope is' : 'envelope and payload are'} what ${expected}`;
  if (leaf !== undefined && !leafOf(envelope, commitment).equals(leaf)) {
    const isCommitment = found !== undefined && leafOf(envelope, found).equals(leaf);
    return fitted(
      frame,
      isCommitment
        ? finding('frame_altered', place, event, intact)
        : finding('event_altered', place, event, expected, fits),
    );
  }
  const which =
    leaf !== undefined
      ? event
      : `${event}, ${covered ? 'whose hash the tree lacks' : 'which no checkpoint covers'},`;
  const rest = leaf === undefined ? '' : intact;
  if (!fits)
    return fitted(
      frame,
      leaf === undefined
        ? finding('payload_unfit', place, which)
        : finding('payload_altered', place, event, expected),
    );
  if (found === undefined && opened?.opening === 'unfit') {
    const also = holds ? '' : '; the frame has changed';
    return fitted(frame, finding('payload_closed', place, which, rest + also));
  }
  return holds ? undefined : fitted(frame, finding('frame_altered', place, which, rest));
}

/** Adds that the checksum was adapted: a match is no accident. */
function fitted(frame: Buffer, found: VerifyFinding): VerifyFinding {
  if (!checksumHolds(frame, 0, frame.length)) return found;
  return { ...found, message: `${found.message}; the checksum of its frame was made to match` };
}

function leafOf(envelope: Buffer, commitment: Buffer): Buffer {
  const leaf = Buffer.alloc(HASH_BYTES);
  leafHash(envelope, commitment, leaf, 0);
  return leaf;
}

/** The finding for damage. */
export function damageFinding({ kind, bytes, sequence, count }: Damage, place: Place): VerifyFinding {
  const { file = 'ledger' } = place;
  switch (kind) {
    case 'missing':
      return finding('events_missing', { sequence, ...place }, sequence, count);
    case 'damaged':
    case 'unreadable':
      return count > 0
        ? finding('events_unreadable', { sequence, ...place }, sequence, count, bytes)
        : finding('bytes_inserted', { sequence, ...place }, sequence, bytes);
    case 'torn':
      return finding('tail_torn', { ...place }, bytes);
    case 'spare':
      return finding('bytes_unused', { ...place }, bytes);
    case 'empty':
      return finding('segment_empty', { sequence, file }, file);
    case 'overlap':
      return finding('segment_overlaps', { sequence, file }, file, sequence - count, sequence);
  }
}

/** The leaf computed from a frame; undefined if it cannot be read. */
export function ownLeaf(frame: Buffer): Buffer | undefined {
  const parts = partsOf(frame);
  return parts && leafOf(parts.envelope, parts.commitment);
}

interface FrameParts {
  readonly envelope: Buffer;
  readonly commitment: Buffer;
  /** Salt and payload. */
  readonly salted: Buffer;
}

/** The parts of a frame; undefined if the lengths in its envelope leave no room for a salt. */
function partsOf(frame: Buffer): FrameParts | undefined {
  if (frame.length < HEADER_BYTES || envelopeEnd(frame, 0) + SALT_BYTES > frame.length) return undefined;
  return {
    envelope: frameEnvelope(frame, 0),
    commitment: frameCommitment(frame, 0),
    salted: frameSalted(frame, 0, frame.length),
  };
}

/** The event id in text form (RFC 9562); undefined if the frame is too short. */
function eventIdText(frame: Buffer): string | undefined {
  if (frame.length < HEADER_BYTES) return undefined;
  return uuidText(frameEventId(frame, 0));
}

/**
 * Whether a frame of plausible size has a header that a collector of this version writes at this position.
 * @param before durable-before of the previous frame; undefined if unknown.
 */
export function headerHolds(
  source: Buffer,
  offset: number,
  sequence: number,
  before: number | undefined,
): boolean {
  return (
    extensionHolds(source, offset) &&
    frameSequence(source, offset) === sequence &&
    durableBeforeHolds(frameDurableBefore(source, offset), sequence, before)
  );
}

function extensionHolds(source: Buffer, offset: number): boolean {
  const state = framePayloadState(source, offset);
  if (state === ENCRYPTED) return sealedExtensionHolds(source, offset);
  // Compaction keeps the length of the extension and fills it with zeros.
  if (state === ERASED) return frameExtensionLength(source, offset) >= SALT_BYTES;
  return state === PLAIN && frameExtensionLength(source, offset) === plainExtensionLength(source, offset);
}

/** Checks durable-before: the frames of a batch share the sequence of the first one. */
function durableBeforeHolds(durableBefore: number, sequence: number, before: number | undefined): boolean {
  if (durableBefore === sequence) return true;
  return before === undefined ? durableBefore < sequence : durableBefore === before;
}

/** Whether the payload of a frame is encrypted or erased. */
function isClosed(frame: Buffer): boolean {
  const state = framePayloadState(frame, 0);
  return state === ERASED || (state === ENCRYPTED && sealedExtensionHolds(frame, 0));
}
