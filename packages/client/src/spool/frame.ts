/**
 * The frame: one event in a segment, no padding; little-endian.
 *
 *   offset  size  field
 *        0     4  CRC-32 of the segment's id followed by bytes 4 up to the end of the frame
 *        4     4  marker FF 5A CE FE
 *        8     4  size of the whole frame in bytes
 *       12     1  kind: its place in EVENT_KINDS; 255: the segment ends here
 *       13     1  flags: bit 0 sealed
 *       14     2  zero
 *       16     8  captured at, Unix time in milliseconds
 *       24     8  number: how many frames of the segment stand before it
 *       32     B  body; when sealed, the ciphertext and then the tag of 16 bytes
 *
 * Sealed with the nonce of four zeros and then the number, and with bytes 4 to 31 authenticated. The byte FF is in no
 * UTF-8 text, so the marker is in no event: behind damage the next frame is found by it. The id in the checksum tells
 * a frame of this segment from one that lay in the same blocks of the disk before.
 */
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { crc32 } from 'node:zlib';

export const FRAME_HEADER_BYTES = 32;
export const MARKER = Buffer.from([0xff, 0x5a, 0xce, 0xfe]);
export const MARKER_OFFSET = 4;
const SEALED = 1;
const END_OF_SEGMENT = 255;
/** Times stay below 2^53, so that a double holds them exactly. */
const HIGH = 0x1_0000_0000;
/** The last time that a Date can hold. */
export const LATEST = 8.64e15;

/** What all frames of a segment have in common. */
export interface FrameContext {
  /** CRC-32 of the segment's id. */
  readonly checksumStart: number;
  readonly seal: Seal | undefined;
  /** Sealed frames are read by their headers alone: their bodies are empty then. For counting without the key. */
  readonly blind?: boolean;
}

export interface Frame {
  /** Undefined for the frame that ends a segment. */
  readonly kind: EventKind | undefined;
  readonly capturedAt: number;
  /** How many events of the segment were written before it: of the frame that ends a segment, all. */
  readonly number: number;
  /** Memory of its own. */
  readonly body: Buffer;
}

/** The size of the frame of a body of so many bytes; `seal` tells whether it is sealed. */
export function frameSize(bodyBytes: number, { seal }: { readonly seal: unknown }): number {
  return FRAME_HEADER_BYTES + bodyBytes + (seal === undefined ? 0 : TAG_BYTES);
}

/** Writes a frame into `target` at `offset`. In one segment no number is used twice: see Seal. */
export function encodeFrame(
  target: Buffer,
  offset: number,
  context: FrameContext,
  kind: EventKind,
  capturedAt: number,
  number: number,
  body: Uint8Array,
): void {
  encode(target, offset, context, EVENT_KINDS.indexOf(kind), capturedAt, number, body);
}

/** The frame that ends a segment of so many events. A segment may be without. */
export function encodeEnd(context: FrameContext, events: number, capturedAt: number): Buffer {
  const frame = Buffer.alloc(frameSize(0, context));
  encode(frame, 0, context, END_OF_SEGMENT, capturedAt, events, Buffer.alloc(0));
  return frame;
}

function encode(
  target: Buffer,
  offset: number,
  context: FrameContext,
  kind: number,
  capturedAt: number,
  number: number,
  body: Uint8Array,
): void {
  const size = frameSize(body.length, context);
  const start = offset + FRAME_HEADER_BYTES;
  target.set(MARKER, offset + MARKER_OFFSET);
  target.writeUInt32LE(size, offset + 8);
  target[offset + 12] = kind;
  target[offset + 13] = context.seal ? SEALED : 0;
  target.writeUInt16LE(0, offset + 14);
  writeUint64(target, capturedAt, offset + 16);
  writeUint64(target, number, offset + 24);
  if (context.seal) {
    const header = target.subarray(offset + 4, start);
    context.seal.sealInto(target, start, nonceOf(target, offset), header, body);
  } else {
    target.set(body, start);
  }
  target.writeUInt32LE(crc32(target.subarray(offset + 4, offset + size), context.checksumStart), offset);
}

/**
 * The size of the frame at `offset`, when the bytes there can be a frame's header at all; there are at least
 * FRAME_HEADER_BYTES of them.
 * @param room how many bytes of the segment are left.
 * @returns 0 when they cannot.
 */
export function plausibleSize(source: Buffer, offset: number, room: number): number {
  if (source.compare(MARKER, 0, MARKER.length, offset + MARKER_OFFSET, offset + 8) !== 0) return 0;
  const size = source.readUInt32LE(offset + 8);
  return size >= FRAME_HEADER_BYTES && size <= room ? size : 0;
}

/** Reads the `size` bytes at `offset`; undefined when they are not a frame of this segment, or do not open. */
export function decodeFrame(
  source: Buffer,
  offset: number,
  size: number,
  context: FrameContext,
): Frame | undefined {
  const checksum = crc32(source.subarray(offset + 4, offset + size), context.checksumStart);
  if (checksum !== source.readUInt32LE(offset)) return undefined;
  const [code, flags] = [source[offset + 12], source[offset + 13]];
  const kind = code === undefined ? undefined : EVENT_KINDS[code];
  if (kind === undefined && code !== END_OF_SEGMENT) return undefined;
  const capturedAt = frameCapturedAt(source, offset);
  if (capturedAt > LATEST) return undefined;
  const number = readUint64(source, offset + 24);
  const start = offset + FRAME_HEADER_BYTES;
  const content = source.subarray(start, offset + size);
  if (flags === 0) return { kind, capturedAt, number, body: Buffer.from(content) };
  if (flags !== SEALED) return undefined;
  if (context.blind) return { kind, capturedAt, number, body: Buffer.alloc(0) };
  const body = context.seal?.open(nonceOf(source, offset), source.subarray(offset + 4, start), content);
  return body && { kind, capturedAt, number, body };
}

/** When the event in the frame was captured, Unix time in milliseconds. */
export function frameCapturedAt(source: Buffer, offset: number): number {
  return readUint64(source, offset + 16);
}

/**
 * Whether the last bytes of a segment, which are no frame, are what a write that was cut off leaves of one: as far as
 * they go they are a frame's head, and the frame would end behind them. Its event was never acknowledged.
 */
export function looksCut(source: Buffer, offset: number, bytes: number): boolean {
  const marker = Math.max(0, Math.min(MARKER.length, bytes - MARKER_OFFSET));
  const at = offset + MARKER_OFFSET;
  if (MARKER.compare(source, at, at + marker, 0, marker) !== 0) return false;
  if (bytes < 12) return true;
  const size = source.readUInt32LE(offset + 8);
  return size >= FRAME_HEADER_BYTES && size > bytes;
}

function nonceOf(frame: Buffer, offset: number): Buffer {
  const nonce = Buffer.alloc(12);
  frame.copy(nonce, 4, offset + 24, offset + 32);
  return nonce;
}

function readUint64(source: Buffer, offset: number): number {
  return source.readUInt32LE(offset + 4) * HIGH + source.readUInt32LE(offset);
}

function writeUint64(target: Buffer, value: number, offset: number): void {
  target.writeUInt32LE(value % HIGH, offset);
  target.writeUInt32LE(Math.floor(value / HIGH), offset + 4);
}

/*
 * Sealing what is written, by AES-256-GCM (NIST SP 800-38D). Each segment has a key of its own, derived by HKDF-SHA256
 * (RFC 5869) from the key that the host gives and from the whole of the segment's identity, which is drawn at random:
 * a number that no other frame of the segment has is then all that a nonce needs, and a header that was changed opens
 * nothing.
 */

export const KEY_BYTES = 32;
const TAG_BYTES = 16;
export const KEY_CHECK_BYTES = 16;
const NONCE_BYTES = 12;

export class Seal {
  /** Tells whether a key is the right one, and nothing of the key. */
  readonly check: Buffer;
  /** Node takes 25 µs more for each frame where a key is a Buffer. */
  readonly #key: KeyObject;

  /** @param identity what no two keys are derived from twice; any length. */
  constructor(key: Uint8Array, purpose: string, identity: Uint8Array) {
    const derived = Buffer.from(hkdfSync('sha256', key, identity, purpose, KEY_BYTES + KEY_CHECK_BYTES));
    this.#key = createSecretKey(derived.subarray(0, KEY_BYTES));
    this.check = derived.subarray(KEY_BYTES);
  }

  /**
   * Writes the ciphertext and its tag into `target` at `offset`: TAG_BYTES more than `plain` has.
   * @param nonce 12 bytes, never used before with this seal.
   * @param header authenticated with it.
   */
  sealInto(target: Buffer, offset: number, nonce: Uint8Array, header: Uint8Array, plain: Uint8Array): void {
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    cipher.setAAD(header);
    target.set(cipher.update(plain), offset);
    cipher.final();
    target.set(cipher.getAuthTag(), offset + plain.length);
  }

  /** @returns undefined when it was not sealed by this key with this nonce and header, or was changed since. */
  open(nonce: Uint8Array, header: Uint8Array, sealed: Uint8Array): Buffer | undefined {
    if (sealed.length < TAG_BYTES) return undefined;
    const end = sealed.length - TAG_BYTES;
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(header).setAuthTag(sealed.subarray(end));
    const plain = decipher.update(sealed.subarray(0, end));
    try {
      decipher.final();
      return plain;
    } catch {
      return undefined;
    }
  }
}

const NO_HEADER = Buffer.alloc(0);
const TEXT_PURPOSE = 'clinical-events spool text 1';

/** Seals one text by itself, under 32 random bytes that stand in front of it: for lines, which are few. */
export function sealText(key: Uint8Array, text: string): Buffer {
  const identity = randomBytes(32);
  const plain = Buffer.from(text);
  const sealed = Buffer.alloc(identity.length + plain.length + TAG_BYTES);
  identity.copy(sealed);
  new Seal(key, TEXT_PURPOSE, identity).sealInto(
    sealed,
    identity.length,
    Buffer.alloc(NONCE_BYTES),
    NO_HEADER,
    plain,
  );
  return sealed;
}

/** @returns undefined when it was not sealed by this key, or was changed since. */
export function openText(key: Uint8Array, sealed: Uint8Array): string | undefined {
  const seal = new Seal(key, TEXT_PURPOSE, sealed.subarray(0, 32));
  return seal.open(Buffer.alloc(NONCE_BYTES), NO_HEADER, sealed.subarray(32))?.toString();
}
