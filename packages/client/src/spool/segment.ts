/**
 * A segment's name, and the header in front of its frames; little-endian.
 *
 *   offset  size  field
 *        0     8  "CE-SPOOL"
 *        8     1  format version, 2
 *        9     1  cipher: 0 none, 1 AES-256-GCM
 *       10     2  zero
 *       12     4  size of this header, 64
 *       16    16  segment id: 13 bytes of the series, 3 bytes (big-endian) the number of the segment in it
 *       32    16  key check (frame.ts); zeros without a cipher
 *       48    12  zero
 *       60     4  CRC-32 of bytes 0 to 59
 *
 * A series is the work of one opened spool: 6 bytes (big-endian) Unix time in milliseconds, 7 random bytes. A file is
 * named by the id of its segment in hex, so that a damaged header loses nothing. No one ever appends to a segment
 * that another spool began.
 */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { reading, type SpoolFiles } from './files.js';
import { FRAME_HEADER_BYTES, type FrameContext, KEY_CHECK_BYTES, Seal } from './frame.js';

export const SEGMENT_HEADER_BYTES = 64;
/** No segment is larger: what is, no one has written as one, and reading it could take forever. */
export const MAX_SEGMENT_BYTES = 256 << 20;
const MAGIC = Buffer.from('CE-SPOOL');
const VERSION = 2;
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

/** `earlier`, `later`: of another version of the format. `damaged`: no header, or one that was changed. */
export type SegmentHeader =
  { readonly id: Buffer; readonly keyCheck: Buffer | undefined } | 'earlier' | 'later' | 'damaged';

export function decodeSegmentHeader(header: Buffer): SegmentHeader {
  if (header.length < SEGMENT_HEADER_BYTES) return 'damaged';
  if (crc32(header.subarray(0, 60)) !== header.readUInt32LE(60)) return 'damaged';
  if (!header.subarray(0, 8).equals(MAGIC)) return 'damaged';
  if ((header[8] as number) < VERSION) return 'earlier';
  if (header[8] !== VERSION || (header[9] as number) > 1) return 'later';
  return {
    id: Buffer.from(header.subarray(16, 32)),
    keyCheck: header[9] === 1 ? Buffer.from(header.subarray(32, 32 + KEY_CHECK_BYTES)) : undefined,
  };
}

/* A segment whose events are not all done, as the spool knows it. */

export class WaitingSegment {
  /** Of its file. */
  readonly name: string;
  readonly id: Buffer;
  readonly path: string;
  readonly marksPath: string;
  readonly context: FrameContext;
  /** Begun by this spool, and so known to be whole. */
  readonly own: boolean;
  /** Behind the last byte that may be read. */
  end = SEGMENT_HEADER_BYTES;
  /** Nothing will be appended to it any more. */
  complete: boolean;
  /** How many events were appended to it. */
  events = 0;
  /** Events that the reader has not met, but for those that are done; and the bytes they take. */
  unread = { events: 0, bytes: 0 };
  /** Events that the reader has met and that are not done. */
  left = 0;
  readToEnd = false;
  /** When the first of its events was captured. */
  firstCapturedAt: number | undefined;
  /** Not to be removed when it is finished: something in it could not be read, or put aside. */
  keep = false;
  /**
   * By the monotonic clock: not to be removed before, and then only if it has not grown. Whoever wrote it may have been
   * stopped and may not know that it was adopted.
   */
  restsUntil = 0;
  /** Offsets of what is done and not written down. */
  readonly marks: number[] = [];
  /** How many of them, from the first, are being written down just now. */
  marksInFlight = 0;
  /** Where the next marks go in their file. */
  marksEnd = 0;

  /**
   * @param leftAs the name under which another spool left it; undefined for one that this spool begins.
   * @param blind see FrameContext.
   */
  constructor(directory: string, id: Buffer, seal: Seal | undefined, leftAs?: string, blind = false) {
    this.name = leftAs ?? id.toString('hex');
    this.id = id;
    this.path = path.join(directory, segmentFile(this.name));
    this.marksPath = path.join(directory, marksFile(this.name));
    this.context = { checksumStart: crc32(id), seal, blind };
    this.own = leftAs === undefined;
    this.complete = !this.own;
  }

  /** Whether nothing in it is needed any more. */
  get finished(): boolean {
    if (!this.complete || this.left > 0) return false;
    // One that was begun by another spool may hold damage, which is only known when all of it has been read.
    return this.readToEnd || (this.own && this.unread.events === 0);
  }
}

/*
 * Which events of a segment are done: a file beside it, of batches; little-endian.
 *
 *   offset  size  field
 *        0     4  CRC-32 of the segment's id followed by bytes 4 up to the end of the batch
 *        4     4  N, how many events this batch marks
 *        8   4 N  the offset of the frame of each
 *
 * A reader stops at the first batch that does not hold: what is behind it will be sent again, and known for a duplicate. Never flushed, for the same reason.
 */

const HEADER_BYTES = 8;
const MARK_BYTES = 4;

/** @param checksumStart CRC-32 of the segment's id. */
export function encodeMarks(offsets: readonly number[], checksumStart: number): Buffer {
  const batch = Buffer.alloc(HEADER_BYTES + MARK_BYTES * offsets.length);
  batch.writeUInt32LE(offsets.length, 4);
  offsets.forEach((offset, i) => batch.writeUInt32LE(offset, HEADER_BYTES + MARK_BYTES * i));
  batch.writeUInt32LE(crc32(batch.subarray(4), checksumStart), 0);
  return batch;
}

/** @returns the offsets of the frames that are done, and how many bytes of the file hold. */
function decodeMarks(file: Buffer, checksumStart: number): { done: Set<number>; end: number } {
  const done = new Set<number>();
  let end = 0;
  while (end + HEADER_BYTES <= file.length) {
    const next = end + HEADER_BYTES + MARK_BYTES * file.readUInt32LE(end + 4);
    if (next > file.length) break;
    if (crc32(file.subarray(end + 4, next), checksumStart) !== file.readUInt32LE(end)) break;
    for (let at = end + HEADER_BYTES; at < next; at += MARK_BYTES) done.add(file.readUInt32LE(at));
    end = next;
  }
  return { done, end };
}

/** More than all events of a segment take, each marked by itself. */
const MOST_BYTES = (HEADER_BYTES + MARK_BYTES) * (MAX_SEGMENT_BYTES / FRAME_HEADER_BYTES);

/** The offsets of the frames that are done; on return `marksEnd` stands behind the marks that hold. */
export async function loadMarks(files: SpoolFiles, segment: WaitingSegment): Promise<ReadonlySet<number>> {
  const marks = await reading(files, segment.marksPath, async (fd) => {
    const bytes = Buffer.alloc(Math.min(MOST_BYTES, await files.size(fd)));
    await files.read(fd, bytes, 0);
    return decodeMarks(bytes, segment.context.checksumStart);
  });
  segment.marksEnd = marks?.end ?? 0;
  return marks?.done ?? new Set();
}
