/**
 * A segment: one file of the log. Its name is the sequence of its first event, its first 64 bytes a header,
 * the rest frames without a gap (frame.ts), then zeros where room was made ahead.
 *
 *   offset  size  field
 *        0     8  "CLINEVNT"
 *        8     4  CRC-32 of bytes 12 to 63
 *       12     4  format version of the segment and of every frame in it, 4
 *       16     8  address of the first frame: how many bytes of frames all earlier segments hold
 *       24     8  sequence of the first event
 *       32     8  created, milliseconds since 1970 UTC
 *       40    16  ledger id, random, the same in every segment of a ledger
 *       56     8  how many of all entries before are the log's own
 *
 * An address counts bytes of frames since the ledger began, so it names a place forever, whatever the
 * segment size was then. A segment ends where the next one's first address says; only the last one ends
 * where its frames do.
 */
import path from 'node:path';
import { crc32 } from 'node:zlib';
import type { Files } from '../../files.js';
import { StoreDamaged } from '../contract/events.js';
import { HEADER_BYTES, checksumHolds, frameDurableBefore, frameSequence, plausibleSize } from './frame.js';

export const SEGMENT_HEADER_BYTES = 64;
const MAGIC = 'CLINEVNT';
const VERSION = 4;
const NAME = /^\d{16}\.segment$/;

export interface Segment {
  readonly path: string;
  /** Address of its first frame. */
  readonly base: number;
  readonly firstSequence: number;
  readonly ledgerId: string;
  readonly ownBefore: number;
}

export function segmentName(firstSequence: number): string {
  return `${String(firstSequence).padStart(16, '0')}.segment`;
}

export function encodeSegmentHeader(segment: Omit<Segment, 'path'>, created: number): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  header.write(MAGIC, 0, 'latin1');
  header.writeUInt32LE(VERSION, 12);
  header.writeBigUInt64LE(BigInt(segment.base), 16);
  header.writeBigUInt64LE(BigInt(segment.firstSequence), 24);
  header.writeBigUInt64LE(BigInt(created), 32);
  header.write(segment.ledgerId, 40, 'hex');
  header.writeBigUInt64LE(BigInt(segment.ownBefore), 56);
  header.writeUInt32LE(crc32(header.subarray(12)), 8);
  return header;
}

/** Names the file, the byte in it and the sequence that is due there. */
export function damagedAt(file: string, offset: number, sequence: number, reason: string): StoreDamaged {
  return new StoreDamaged({ where: `${path.basename(file)} at byte ${offset}`, sequence }, reason);
}

function readSegmentHeader(files: Files, file: string): Segment {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  const fd = files.open(file, 'r');
  try {
    files.read(fd, header, 0, header.length, 0);
  } finally {
    files.close(fd);
  }
  const sequence = Number.parseInt(path.basename(file), 10);
  const damaged = (offset: number, reason: string) => damagedAt(file, offset, sequence, reason);
  if (header.toString('latin1', 0, 8) !== MAGIC) throw damaged(0, 'no segment header stands');
  if (crc32(header.subarray(12)) !== header.readUInt32LE(8))
    throw damaged(8, 'the segment header has changed');
  const version = header.readUInt32LE(12);
  if (version !== VERSION) {
    const which = version > VERSION ? 'a later' : 'an earlier, unfinished';
    throw new Error(
      `${path.basename(file)} was written by ${which} version of the collector (format ${version}), and this one ` +
        `reads format ${VERSION} only`,
    );
  }
  const firstSequence = Number(header.readBigUInt64LE(24));
  if (firstSequence !== sequence) throw damaged(24, 'the segment has another name than it was written under');
  const ownBefore = Number(header.readBigUInt64LE(56));
  if (ownBefore >= firstSequence)
    throw damaged(56, 'the segment counts more entries of its own than there are');
  return {
    path: file,
    base: Number(header.readBigUInt64LE(16)),
    firstSequence,
    ledgerId: header.toString('hex', 40, 56),
    ownBefore,
  };
}

/** Of the segments in a directory, oldest first. */
export function segmentNames(files: Files, directory: string): string[] {
  return files.list(directory).filter((name) => NAME.test(name));
}

/**
 * The segments in a directory, oldest first.
 * @param isWanted by its name, whether a segment is to be looked at; all are when nothing is said.
 * @throws StoreDamaged when a header does not hold, or a segment of another ledger stands among them.
 */
export function listSegments(
  files: Files,
  directory: string,
  isWanted: (name: string) => boolean = () => true,
): Segment[] {
  const segments = segmentNames(files, directory)
    .filter(isWanted)
    .map((name) => readSegmentHeader(files, path.join(directory, name)));
  segments.forEach((segment, i) => {
    const before = segments[i - 1];
    const foreign = before !== undefined && segment.ledgerId !== before.ledgerId;
    // A later first event means at least one frame between the two; an equal address would be no bytes for it.
    const tangled = before !== undefined && segment.base <= before.base;
    const headless = before === undefined && (segment.base !== 0 || segment.firstSequence !== 1);
    if (foreign || tangled || headless) {
      const reason = foreign
        ? 'the segment belongs to another ledger'
        : tangled
          ? 'the segment does not follow the one before it'
          : 'the segments before this one are missing';
      throw damagedAt(segment.path, 0, segment.firstSequence, reason);
    }
  });
  return segments;
}

/* Judges what stands behind the last readable frame: nothing, a torn tail, or damage to what was durable. */

export type Tail =
  /** Only zeros, or nothing. */
  | { readonly state: 'clean' }
  /** Most likely bytes of a batch that was being written when the machine or the process stopped. */
  | { readonly state: 'torn'; readonly bytes: Buffer }
  /** A frame further on says that the unreadable one was durable. */
  | { readonly state: 'damaged'; readonly witnessSequence: number };

/** So many times the bytes behind the last readable frame are read for checksums. */
const MOST_CHECKED = 8;

/**
 * @param offset where the frame of `sequence` is due in the last segment's file and cannot be read.
 *
 * A batch reaches the disk in no particular order before its flush returns, so readable frames may stand
 * behind an unreadable one in a torn tail. durable-before distinguishes the two (frame.ts). No sender
 * can forge such a frame inside an event: a header has zero bytes, and JSON text has none (RFC 8259).
 *
 * Frames that hold do not overlap, so what a collector has written asks for little more than one reading. Headers laid
 * one inside the other, which only someone with access to the disk can do, would ask for thousands: they count as
 * damage.
 *
 * The hole: when the end of the log is damaged after it was acknowledged, no frame behind it is left to say so,
 * and it looks torn, or, zeroed, clean. The id index vouches for what its runs cover (segment-log.ts); behind that
 * no one does. The bytes are kept aside, so that nothing is thrown away.
 */
export function judgeTail(files: Files, fd: number, offset: number, sequence: number): Tail {
  const size = files.size(fd);
  if (isZeros(files, fd, offset, size)) return { state: 'clean' };
  const rest = Buffer.alloc(Math.max(0, size - offset));
  files.read(fd, rest, 0, rest.length, offset);
  let last = rest.length;
  while (last > 0 && rest[last - 1] === 0) last--;
  let budget = MOST_CHECKED * rest.length;
  for (let at = 1; at + HEADER_BYTES <= last; at++) {
    const frame = plausibleSize(rest, at, rest.length);
    if (frame === 0 || at + frame > rest.length) continue;
    const said = frameSequence(rest, at);
    const durableBefore = frameDurableBefore(rest, at);
    if (durableBefore <= sequence || durableBefore > said) continue;
    budget -= frame;
    if (budget < 0 || checksumHolds(rest, at, frame)) return { state: 'damaged', witnessSequence: said };
  }
  return { state: 'torn', bytes: rest.subarray(0, last) };
}

const ZEROS = Buffer.alloc(1 << 20);

/** Whether a file has nothing but zeros from a place to its end: as a rule it does, and a start waits for the answer. */
function isZeros(files: Files, fd: number, from: number, end: number): boolean {
  const piece = Buffer.allocUnsafe(ZEROS.length);
  for (let at = from; at < end;) {
    const read = files.read(fd, piece, 0, Math.min(piece.length, end - at), at);
    if (read === 0) return true;
    if (!piece.subarray(0, read).equals(ZEROS.subarray(0, read))) return false;
    at += read;
  }
  return true;
}
