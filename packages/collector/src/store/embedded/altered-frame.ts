/** What became of an entry, or of a part of the log: for `collector verify`. It trusts nothing that it reads. */
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

/** Where something is in the log; nowhere in the copy of a log in a database, which is thrown away. */
export type Place = Pick<FindingPlace, 'file' | 'offset'>;

/** The bytes of one event's frame as they are in the log. */
export interface FrameBytes {
  readonly at: Place;
  readonly frame: Buffer;
  readonly sequence: number;
  /** Durable-before of the frame in front of it; undefined when that is not known. */
  readonly before: number | undefined;
  /** Of an encrypted payload: whether it could be opened, and what it is then. */
  readonly opened?: { readonly opening: Opening; readonly salted: Buffer | undefined };
}

/** The leaf that an event should have, if any is known. */
export interface Expected {
  readonly leaf: Buffer | undefined;
  /** Whether a checkpoint speaks of the event, also when no leaf of it is known. */
  readonly covered?: boolean;
  /** Whether a signed root comes out with it. */
  readonly proven: boolean;
}

/** What of an event is not what was written; undefined when nothing is, or when the bytes cannot be an event. */
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
      : `${event}, ${covered ? 'whose hash the tree lacks' : 'which is under no checkpoint'},`;
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

/** A checksum does not come to match by accident. */
function fitted(frame: Buffer, found: VerifyFinding): VerifyFinding {
  if (!checksumHolds(frame, 0, frame.length)) return found;
  return { ...found, message: `${found.message}; the checksum of its frame was made to match` };
}

function leafOf(envelope: Buffer, commitment: Buffer): Buffer {
  const leaf = Buffer.alloc(HASH_BYTES);
  leafHash(envelope, commitment, leaf, 0);
  return leaf;
}

/** A part of the log that holds no readable event. */
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

/** The leaf of an event as its frame says it; undefined when that cannot be read. */
export function ownLeaf(frame: Buffer): Buffer | undefined {
  const parts = partsOf(frame);
  return parts && leafOf(parts.envelope, parts.commitment);
}

interface FrameParts {
  readonly envelope: Buffer;
  readonly commitment: Buffer;
  /** The salt and the payload behind it. */
  readonly salted: Buffer;
}

/** The parts of all the bytes of a frame; undefined when the lengths in its envelope leave no room for a salt. */
function partsOf(frame: Buffer): FrameParts | undefined {
  if (frame.length < HEADER_BYTES || envelopeEnd(frame, 0) + SALT_BYTES > frame.length) return undefined;
  return {
    envelope: frameEnvelope(frame, 0),
    commitment: frameCommitment(frame, 0),
    salted: frameSalted(frame, 0, frame.length),
  };
}

/** The id in the frame, in its text form (RFC 9562); undefined when the frame is cut short before it ends. */
function eventIdText(frame: Buffer): string | undefined {
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
    extensionHolds(source, offset) &&
    frameSequence(source, offset) === sequence &&
    durableBeforeHolds(frameDurableBefore(source, offset), sequence, before)
  );
}

function extensionHolds(source: Buffer, offset: number): boolean {
  const state = framePayloadState(source, offset);
  if (state === ENCRYPTED) return sealedExtensionHolds(source, offset);
  // Compacted: the extension is as long as it was, and zeros.
  if (state === ERASED) return frameExtensionLength(source, offset) >= SALT_BYTES;
  return state === PLAIN && frameExtensionLength(source, offset) === plainExtensionLength(source, offset);
}

/** The frames of a batch share one, which is the sequence of the first of them. */
function durableBeforeHolds(durableBefore: number, sequence: number, before: number | undefined): boolean {
  if (durableBefore === sequence) return true;
  return before === undefined ? durableBefore < sequence : durableBefore === before;
}

/** Whether a frame holds its payload encrypted, or has none any more. */
function isClosed(frame: Buffer): boolean {
  const state = framePayloadState(frame, 0);
  return state === ERASED || (state === ENCRYPTED && sealedExtensionHolds(frame, 0));
}
