/**
 * The parts of an event to which the log commits: the envelope, stored with the event byte for byte, and the
 * leaf of the Merkle tree. Both layouts are final (docs/internals/formats.md). Numbers are big-endian.
 *
 *   Envelope            offset  size  field
 *                            0     1  envelope version, 1
 *                            1     1  kind, its index in EVENT_KINDS; from 0x80 on an entry of the log's own
 *                            2     1  profile, its index in PROFILES
 *                            3     1  door, its index in DOORS; 0 for an entry of the log's own
 *                            4     1  length of the organisation, O
 *                            5     1  length of the key id, K
 *                            6     8  received_at, milliseconds since 1970 UTC
 *                           14    16  event id
 *                           30    16  run id, zero without a run
 *                           46    16  parent event id, zero without a parent
 *                           62     O  organisation, ASCII
 *                                  K  key id, ASCII
 *
 *   Leaf, 73 bytes      offset  size  field
 *                            0     1  leaf version, 1
 *                            1     8  received_at, as in the envelope
 *                            9    32  SHA-256 of the envelope
 *                           41    32  commitment: SHA-256 of the salt (16 random bytes) and the plain body
 *
 * Without the salt, a guessed body could be confirmed by its hash. Once salt and body are erased, the
 * commitment cannot be distinguished from 32 random bytes.
 *
 * Runs in browsers and in Node.
 */
import { DOORS, EVENT_KINDS, FIRST_ENTRY_KIND, PROFILES } from './kinds.js';
import type { Door, EventKind, Profile } from './kinds.js';

export const LEAF_BYTES = 73;
export const SALT_BYTES = 16;
/** The size of an envelope without its two texts. */
export const ENVELOPE_FIXED_BYTES = 62;
/** The offsets of the fields of an envelope. */
export const ENVELOPE_AT = {
  kind: 1,
  profile: 2,
  door: 3,
  organisationLength: 4,
  keyIdLength: 5,
  receivedAt: 6,
  eventId: 14,
  runId: 30,
  parentId: 46,
} as const;

const ENVELOPE_VERSION = 1;
const LEAF_VERSION = 1;
const ID_BYTES = 16;
const LONGEST_TEXT = 255;
/** Times stay below 2^53, so that a double holds them exactly. */
const HIGH = 0x1_0000_0000;

export interface Envelope {
  /** A number from FIRST_ENTRY_KIND to 255 for the log's own entries. */
  readonly kind: EventKind | number;
  readonly profile: Profile;
  /** Always `endpoint`, the first, for the log's own entries. */
  readonly door: Door;
  readonly organisation: string;
  /** The id of the API key that sent the event; for the log's own entries, the writer. */
  readonly keyId: string;
  /** Milliseconds since 1970 UTC. */
  readonly receivedAt: number;
  /** 16 bytes. */
  readonly eventId: Uint8Array;
  /** 16 bytes, all zero when the event belongs to no run. */
  readonly runId: Uint8Array;
  /** 16 bytes, all zero when the event names no parent. */
  readonly parentId: Uint8Array;
}

/** The size in bytes of the result of `encodeEnvelope`. */
export function envelopeSize(envelope: Envelope): number {
  return ENVELOPE_FIXED_BYTES + envelope.organisation.length + envelope.keyId.length;
}

function writeUint32(target: Uint8Array, offset: number, value: number): void {
  // A typed array keeps the low eight bits of a stored number.
  target[offset] = value >>> 24;
  target[offset + 1] = value >>> 16;
  target[offset + 2] = value >>> 8;
  target[offset + 3] = value;
}

function readUint32(source: Uint8Array, offset: number): number {
  const top = (source[offset] ?? 0) * 0x100_0000;
  return (
    top + (((source[offset + 1] ?? 0) << 16) | ((source[offset + 2] ?? 0) << 8) | (source[offset + 3] ?? 0))
  );
}

/** Writes character by character: the texts are so short that calling an encoder would cost more. */
function writeAscii(target: Uint8Array, offset: number, text: string): void {
  if (text.length > LONGEST_TEXT) throw new RangeError('a text of an envelope is longer than 255 bytes');
  let seen = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    seen |= code;
    target[offset + at] = code;
  }
  if (seen > 0x7f) throw new RangeError('a text of an envelope is not ASCII');
}

function readAscii(source: Uint8Array, start: number, end: number): string {
  let text = '';
  for (let at = start; at < end; at++) {
    const code = source[at] ?? 0;
    if (code > 0x7f) throw new RangeError('a text of the envelope is not ASCII');
    text += String.fromCharCode(code);
  }
  return text;
}

function kindByte(kind: EventKind | number): number {
  if (typeof kind !== 'number') return EVENT_KINDS.indexOf(kind);
  if (!(kind >= FIRST_ENTRY_KIND && kind <= 0xff))
    throw new RangeError("not a kind of the log's own entries");
  return kind;
}

function doorByte({ kind, door }: Envelope): number {
  const byte = DOORS.indexOf(door);
  if (byte < 0 || (byte > 0 && typeof kind === 'number')) throw new RangeError('not a door of such an entry');
  return byte;
}

/**
 * Writes the envelope into `target` at `offset`. Allocates nothing: every stored event passes here.
 * @returns the size in bytes, equal to `envelopeSize`.
 * @throws RangeError when there is no room, a text is not ASCII or longer than 255, an id does not have 16
 *   bytes, a kind's number is below FIRST_ENTRY_KIND, the door does not match the kind, or the time is not a
 *   whole number from 0 to 2^53 - 1; `target` may then hold a part of it.
 */
export function encodeEnvelope(target: Uint8Array, offset: number, envelope: Envelope): number {
  const { organisation, keyId, receivedAt, eventId, runId, parentId } = envelope;
  const size = envelopeSize(envelope);
  if (offset + size > target.length) throw new RangeError('no room for the envelope');
  if (!Number.isSafeInteger(receivedAt) || receivedAt < 0) throw new RangeError('not a time of arrival');
  const isWhole = eventId.length === ID_BYTES && runId.length === ID_BYTES && parentId.length === ID_BYTES;
  if (!isWhole) throw new RangeError('not an id of 16 bytes');
  target[offset] = ENVELOPE_VERSION;
  target[offset + ENVELOPE_AT.kind] = kindByte(envelope.kind);
  target[offset + ENVELOPE_AT.profile] = PROFILES.indexOf(envelope.profile);
  target[offset + ENVELOPE_AT.door] = doorByte(envelope);
  target[offset + ENVELOPE_AT.organisationLength] = organisation.length;
  target[offset + ENVELOPE_AT.keyIdLength] = keyId.length;
  writeUint32(target, offset + ENVELOPE_AT.receivedAt, Math.floor(receivedAt / HIGH));
  writeUint32(target, offset + ENVELOPE_AT.receivedAt + 4, receivedAt % HIGH);
  target.set(eventId, offset + ENVELOPE_AT.eventId);
  target.set(runId, offset + ENVELOPE_AT.runId);
  target.set(parentId, offset + ENVELOPE_AT.parentId);
  writeAscii(target, offset + ENVELOPE_FIXED_BYTES, organisation);
  writeAscii(target, offset + ENVELOPE_FIXED_BYTES + organisation.length, keyId);
  return size;
}

/**
 * Reads the envelope at `offset` and ignores the bytes after it. Every envelope has one encoding, so encoding
 * the result gives the same bytes.
 * @returns the envelope, whose ids are views of `source`, and its size in bytes.
 * @throws RangeError when it is truncated, has an unknown version, kind, profile or door, a text that is not
 *   ASCII, a time beyond 2^53 - 1, or, for an entry of the log's own, a door other than 0.
 */
export function decodeEnvelope(source: Uint8Array, offset = 0): { envelope: Envelope; size: number } {
  const organisationLength = source[offset + ENVELOPE_AT.organisationLength] ?? 0;
  const size = ENVELOPE_FIXED_BYTES + organisationLength + (source[offset + ENVELOPE_AT.keyIdLength] ?? 0);
  // Also true for a truncated header, whose missing part reads as zero.
  if (source.length - offset < size) throw new RangeError('the envelope is cut short');
  if (source[offset] !== ENVELOPE_VERSION) throw new RangeError('the envelope is of an unknown version');
  const byte = source[offset + ENVELOPE_AT.kind] ?? 0;
  const kind = byte >= FIRST_ENTRY_KIND ? byte : EVENT_KINDS[byte];
  const profile = PROFILES[source[offset + ENVELOPE_AT.profile] ?? -1];
  const door = DOORS[source[offset + ENVELOPE_AT.door] ?? -1];
  if (kind === undefined) throw new RangeError('the envelope names an unknown kind of event');
  if (profile === undefined) throw new RangeError('the envelope names an unknown profile');
  if (door === undefined || (typeof kind === 'number' && door !== DOORS[0]))
    throw new RangeError('the envelope names an unknown door');
  const receivedAt =
    readUint32(source, offset + ENVELOPE_AT.receivedAt) * HIGH +
    readUint32(source, offset + ENVELOPE_AT.receivedAt + 4);
  if (!Number.isSafeInteger(receivedAt)) throw new RangeError('the time in the envelope is out of range');
  const texts = offset + ENVELOPE_FIXED_BYTES;
  const idAt = (at: number) => source.subarray(at, at + ID_BYTES);
  const envelope: Envelope = {
    kind,
    profile,
    door,
    organisation: readAscii(source, texts, texts + organisationLength),
    keyId: readAscii(source, texts + organisationLength, offset + size),
    receivedAt,
    eventId: idAt(offset + ENVELOPE_AT.eventId),
    runId: idAt(offset + ENVELOPE_AT.runId),
    parentId: idAt(offset + ENVELOPE_AT.parentId),
  };
  return { envelope, size };
}

/**
 * Writes the 73 bytes of a leaf into `target` at `offset`. Allocates nothing.
 * @param envelope the encoded envelope; received_at is taken from it.
 * @param envelopeHash SHA-256 of `envelope`.
 * @param commitment SHA-256 of salt and plain body.
 */
export function encodeLeaf(
  target: Uint8Array,
  offset: number,
  envelope: Uint8Array,
  envelopeHash: Uint8Array,
  commitment: Uint8Array,
): void {
  target[offset] = LEAF_VERSION;
  for (let at = 0; at < 8; at++) target[offset + 1 + at] = envelope[ENVELOPE_AT.receivedAt + at] ?? 0;
  target.set(envelopeHash, offset + 9);
  target.set(commitment, offset + 41);
}
