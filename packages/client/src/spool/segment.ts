/**
 * A segment's name, and the header in front of its frames; little-endian.
 *
 *   offset  size  field
 *        0     8  "CE-SPOOL"
 *        8     1  format version, 1
 *        9     1  cipher: 0 none, 1 AES-256-GCM
 *       10     2  zero
 *       12     4  size of this header, 64
 *       16    16  segment id: 13 bytes of the series, 3 bytes (big-endian) the number of the segment in it
 *       32    16  key check (sealing.ts); zeros without a cipher
 *       48    12  zero
 *       60     4  CRC-32 of bytes 0 to 59
 *
 * A series is the work of one opened spool: 6 bytes (big-endian) Unix time in milliseconds, 7 random bytes. A file is
 * named by the id of its segment in hex, so that a damaged header loses nothing. Nobody ever appends to a segment
 * that another spool began.
 */
import { randomBytes } from 'node:crypto';
import { crc32 } from './crc32.js';
import { KEY_CHECK_BYTES, Seal } from './sealing.js';

export const SEGMENT_HEADER_BYTES = 64;
/** No segment is larger: what is, nobody has written as one, and reading it could take for ever. */
export const MAX_SEGMENT_BYTES = 256 << 20;
const MAGIC = Buffer.from('CE-SPOOL');
const VERSION = 1;
const SERIES_BYTES = 13;
const SEGMENT_NAME = /^([0-9a-f]{32})\.segment$/;
export const SERIES_NAME = /^[0-9a-f]{26}$/;

/** The name of a new series, in hex: later ones sort behind earlier ones, as far as the clock goes. */
export function newSeries(): string {
  const bytes = randomBytes(SERIES_BYTES);
  bytes.writeUIntBE(Date.now(), 0, 6);
  return bytes.toString('hex');
}

/** @param number from 0, below 2^24. */
export function segmentId(series: string, number: number): Buffer {
  const id = Buffer.alloc(SERIES_BYTES + 3, series, 'hex');
  id.writeUIntBE(number, SERIES_BYTES, 3);
  return id;
}

export const segmentFile = (name: string) => `${name}.segment`;
export const marksFile = (name: string) => `${name}.done`;

/** The name of the segment, of the file that holds it; undefined for other files. */
export function segmentNameOf(file: string): string | undefined {
  return SEGMENT_NAME.exec(file)?.[1];
}

export function sealOf(key: Uint8Array, id: Uint8Array): Seal {
  return new Seal(key, 'clinical-events spool segment 1', id);
}

export function encodeSegmentHeader(id: Uint8Array, seal: Seal | undefined): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  MAGIC.copy(header);
  header[8] = VERSION;
  header[9] = seal ? 1 : 0;
  header.writeUInt32LE(SEGMENT_HEADER_BYTES, 12);
  header.set(id, 16);
  if (seal) header.set(seal.check, 32);
  header.writeUInt32LE(crc32(header.subarray(0, 60)), 60);
  return header;
}

/** `later`: written by a later version. `damaged`: no header, or one that was changed. */
export type SegmentHeader =
  { readonly id: Buffer; readonly keyCheck: Buffer | undefined } | 'later' | 'damaged';

export function decodeSegmentHeader(header: Buffer): SegmentHeader {
  if (header.length < SEGMENT_HEADER_BYTES) return 'damaged';
  if (crc32(header.subarray(0, 60)) !== header.readUInt32LE(60)) return 'damaged';
  if (!header.subarray(0, 8).equals(MAGIC)) return 'damaged';
  if (header[8] !== VERSION || (header[9] ?? 0) > 1) return 'later';
  return {
    id: Buffer.from(header.subarray(16, 32)),
    keyCheck: header[9] === 1 ? Buffer.from(header.subarray(32, 32 + KEY_CHECK_BYTES)) : undefined,
  };
}
