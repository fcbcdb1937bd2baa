/** In words, what became of an entry or of a stretch of the log: for `collector verify`. It takes nothing on trust. */
import { SALT_BYTES } from '@clinical-events/protocol';
import { HASH_BYTES, commitmentOf, leafHash } from '../../tree/merkle.js';
import { counted } from '../../quantity.js';
import { type VerifyFinding, eventRange } from '../log-audit.js';
import { uuidText } from '../text.js';
import type { Rest } from './forensic-reader.js';
import {
  ENCRYPTED,
  HEADER_BYTES,
  PLAIN,
  RETIRED,
  checksumHolds,
  envelopeEnd,
  frameCommitment,
  frameDurableBefore,
  frameEnvelope,
  frameEventId,
  framePayloadLength,
  framePayloadState,
  frameExtensionLength,
  frameSalted,
  frameSequence,
  plausibleSize,
} from './frame.js';
import { sealedExtensionHolds, type Opening } from './sealed-frame.js';

/** Where something lies in the log. */
export interface Place {
  readonly file: string;
  readonly offset: number;
}

/** The bytes of one event's frame as they lie in the log, and where. */
export interface FrameBytes extends Place {
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

function at({ file, offset }: Place): string {
  return `${file}, byte ${offset}`;
}

/** What of an event is not what was written; undefined when nothing is, or the bytes can be no event's at all. */
export function alteredFinding(
  bytes: FrameBytes,
  { leaf, proven, covered = false }: Expected,
): VerifyFinding | undefined {
  const { frame, sequence, file, offset, before } = bytes;
  const id = eventIdText(frame);
  const event = `event ${sequence}${id === undefined ? '' : ` (${id})`}`;
  const told = (message: string): VerifyFinding => ({
    ...{ kind: 'altered', sequence, ...(id !== undefined && { event_id: id }), file, offset },
    message: `${message}${fitted(frame)}; ${at(bytes)}`,
  });
  const parts = partsOf(frame);
  if (parts === undefined) {
    if (plausibleSize(frame, 0, frame.length) !== frame.length) return undefined;
    return told(`the payload of ${event} was removed or replaced: the frame has no room for a salt`);
  }
  const { envelope, commitment } = parts;
  const salted = isClosed(frame) ? bytes.opened?.salted : parts.salted;
  const found = salted && commitmentOf(salted);
  const fits = found === undefined || found.equals(commitment);
  const fields = alteredFields(frame, sequence, before).join(', ');
  const closed = (which: string, more = '') => {
    if (found !== undefined || bytes.opened?.opening !== 'unfit') return undefined;
    const also = fields === '' ? '' : `; the frame has changed (${fields})`;
    return told(`the payload of ${which} does not open by its key${more}${also}`);
  };
  if (leaf === undefined) {
    const which = `${event}, ${covered ? 'whose hash the tree lacks' : 'which is under no checkpoint'},`;
    if (!fits) return told(`the payload of ${which} does not fit the commitment to it`);
    const isKept = fields === '' ? undefined : told(`the frame of ${which} has changed (${fields})`);
    return closed(which) ?? isKept;
  }
  const [one, all] = proven
    ? ['the one that was signed', 'those that were signed']
    : ['the one that the tree holds', 'those that the tree holds'];
  if (leafOf(envelope, commitment).equals(leaf)) {
    if (!fits) return told(`the payload of ${event}, or its salt, is not ${one}; its envelope is`);
    const rest = found === undefined ? `its envelope is ${one}` : `its envelope and payload are ${all}`;
    const changed =
      fields === '' ? undefined : told(`the frame of ${event} has changed (${fields}); ${rest}`);
    return closed(event, `; its envelope is ${one}`) ?? changed;
  }
  if (found !== undefined && leafOf(envelope, found).equals(leaf)) {
    return told(`the frame of ${event} has changed (commitment); its envelope and payload are ${all}`);
  }
  const what = fits
    ? 'its envelope has changed, or its payload together with the commitment to it'
    : 'more than one of its envelope, its payload and the commitment to it has changed';
  return told(`${event} is not ${one}: ${what}`);
}

/** A checksum does not come to fit by accident. */
function fitted(frame: Buffer): string {
  return checksumHolds(frame, 0, frame.length) ? '; the checksum of its frame was made to fit' : '';
}

function leafOf(envelope: Buffer, commitment: Buffer): Buffer {
  const leaf = Buffer.alloc(HASH_BYTES);
  leafHash(envelope, commitment, leaf, 0);
  return leaf;
}

/** A stretch of the log that holds no events that can be read. */
export function restFinding(rest: Rest, place: Place): VerifyFinding {
  const { kind, bytes, sequence, count } = rest;
  const range = eventRange(sequence, count);
  const these = counted(bytes, 'byte');
  const { file } = place;
  switch (kind) {
    case 'missing': {
      const are = count === 1 ? 'is' : 'are';
      const where = sequence === 1 ? 'the log begins with' : `event ${sequence - 1} is followed by`;
      const message = `${range} ${are} missing: ${where} event ${sequence + count}; ${at(place)}`;
      return { kind, sequence, ...place, message };
    }
    case 'damaged':
    case 'unreadable': {
      if (count > 0) {
        const message = `${range} cannot be read: the ${these} in ${count === 1 ? 'its' : 'their'} place hold no frame; ${at(place)}`;
        return { kind: 'unreadable', sequence, ...place, message };
      }
      const message = `${these} that are no event were slipped in before event ${sequence}; ${at(place)}`;
      return { kind: 'altered', sequence, ...place, message };
    }
    case 'torn': {
      const message =
        `${these} behind the last event, most likely of a batch that was never acknowledged; unless a collector is ` +
        `just writing them, the next start moves them to ledger/torn; ${at(place)}`;
      return { kind: 'note', ...place, message };
    }
    case 'spare': {
      const message = `${these} that are no event, and that nothing reads; ${at(place)}`;
      return { kind: 'note', ...place, message };
    }
    case 'empty': {
      const message = `${file} holds no event, and others follow it: it was slipped in, or emptied`;
      return { kind: 'forked', sequence, file, message };
    }
    case 'overlap': {
      const message =
        `${file} begins at event ${sequence - count}, and the segment in front of it ends with event ${sequence - 1}: ` +
        'one of them was slipped in, or numbered again';
      return { kind: 'forked', sequence, file, message };
    }
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
  if (state === RETIRED) return frameExtensionLength(source, offset) >= SALT_BYTES;
  return state === PLAIN && frameExtensionLength(source, offset) === SALT_BYTES;
}

/** The frames of a batch share one, which is the sequence of the first of them. */
function durableBeforeHolds(durableBefore: number, sequence: number, before: number | undefined): boolean {
  if (durableBefore === sequence) return true;
  return before === undefined ? durableBefore < sequence : durableBefore === before;
}

/** Whether a frame holds its payload encrypted, or has none any more. */
function isClosed(frame: Buffer): boolean {
  const state = framePayloadState(frame, 0);
  return state === RETIRED || (state === ENCRYPTED && sealedExtensionHolds(frame, 0));
}

/**
 * The fields in the header of a frame, given whole, that no collector of this version has written so, by name. When the
 * checksum does not hold, at least one.
 * @param before durable-before of the frame in front of it; undefined when that is not known.
 */
function alteredFields(frame: Buffer, sequence: number, before: number | undefined): string[] {
  const isSealed = isClosed(frame);
  const extension = isSealed ? frameExtensionLength(frame, 0) : SALT_BYTES;
  const payloadAt = envelopeEnd(frame, 0) + extension;
  const holds: readonly (readonly [string, boolean])[] = [
    ['size', frame.readUInt32LE(4) === frame.length],
    ['format version', hasVersion(frame)],
    ['payload state', isSealed || framePayloadState(frame, 0) === PLAIN],
    ['salt length', frameExtensionLength(frame, 0) === extension],
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
