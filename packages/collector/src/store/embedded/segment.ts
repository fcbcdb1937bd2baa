/**
 * A segment: one file of the log. Its name is the sequence of its first entry, its first 80 bytes a header,
 * the rest frames without a gap (frame.ts), then zeros where room was made ahead.
 *
 *   offset  size  field; little-endian
 *        0     8  "CLINSEGM"
 *        8     4  CRC-32 (ISO-HDLC) of bytes 12 to 79
 *       12     4  format version of the segment and of every frame in it, 1
 *       16     8  address of the first frame: how many bytes of frames all earlier segments hold
 *       24     8  sequence of the first entry
 *       32     8  created, milliseconds since 1970 UTC
 *       40    16  ledger id, random, the same in every segment of a ledger
 *       56     8  how many of all entries before are the log's own
 *       64     8  sequence of the newest action before the first entry; 0 when there is none
 *       72     8  address of that action; 0 when there is none
 *
 * An address counts bytes of frames since the ledger began, so it names a place forever, whatever the
 * segment size was then. A segment ends where the next one's first address says; only the last one ends
 * where its frames do.
 */
import fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import type { Files } from '../../files.js';
import { StoreDamaged } from '../contract/events.js';
import {
  HEADER_BYTES,
  checksumHolds,
  frameDurableBefore,
  frameSequence,
  plausibleSize,
  type FrameStart,
} from './frame.js';

export const SEGMENT_HEADER_BYTES = 80;
export const SEGMENT_MAGIC = 'CLINSEGM';
/** Before format 1 was frozen, with and without compaction. */
const UNFINISHED = ['CLINEVNT', 'CLINEVNC'];
const VERSION = 1;
export const ACTION_BEFORE_AT = 64;
const NAME = /^\d{16}\.segment$/;

export interface Segment {
  readonly path: string;
  /** Address of its first frame. */
  readonly base: number;
  readonly firstSequence: number;
  readonly ledgerId: string;
  readonly ownBefore: number;
  /** The newest action before its first entry, as its header says: action-chain.ts. NO_ACTION when there is none. */
  readonly actionBefore: FrameStart;
}

export function segmentName(firstSequence: number): string {
  return `${String(firstSequence).padStart(16, '0')}.segment`;
}

export function encodeSegmentHeader(segment: Omit<Segment, 'path'>, created: number): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  header.write(SEGMENT_MAGIC, 0, 'latin1');
  header.writeUInt32LE(VERSION, 12);
  header.writeBigUInt64LE(BigInt(segment.base), 16);
  header.writeBigUInt64LE(BigInt(segment.firstSequence), 24);
  header.writeBigUInt64LE(BigInt(created), 32);
  header.write(segment.ledgerId, 40, 'hex');
  header.writeBigUInt64LE(BigInt(segment.ownBefore), 56);
  header.writeBigUInt64LE(BigInt(segment.actionBefore.sequence), ACTION_BEFORE_AT);
  header.writeBigUInt64LE(BigInt(segment.actionBefore.address), ACTION_BEFORE_AT + 8);
  header.writeUInt32LE(crc32(header.subarray(12)), 8);
  return header;
}

/** Names the file, the byte in it and the sequence that is due there. */
export function damagedAt(file: string, offset: number, sequence: number, reason: string): StoreDamaged {
  return new StoreDamaged({ where: `${path.basename(file)} at byte ${offset}`, sequence }, reason);
}

/** What is wrong with the header of a segment, and at which of its bytes. */
interface HeaderFault {
  readonly at: number;
  readonly reason: string;
}

/** A header and what it says, whether or not that can be believed. */
interface ReadHeader {
  readonly segment: Segment;
  readonly faults: readonly HeaderFault[];
  /** The sequence that the first frame has, if there is one and enough of it was read. */
  readonly begins: number | undefined;
}

const VERSION_AT = 12;

function otherFormat(which: string): string {
  return `the segment was written by ${which} version of the collector; this version reads format ${VERSION} only`;
}

/** @param beyond how many bytes after it are read too: of a compacted segment they have to be unpacked. */
function readHeader(files: Files, file: string, beyond = 0): ReadHeader {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES + beyond);
  const fd = files.open(file, 'r');
  let held: number;
  try {
    held = files.read(fd, bytes, 0, bytes.length, 0);
  } finally {
    files.close(fd);
  }
  const header = bytes.subarray(0, SEGMENT_HEADER_BYTES);
  const named = Number.parseInt(path.basename(file), 10);
  const said = Number(header.readBigUInt64LE(24));
  const ownBefore = Number(header.readBigUInt64LE(56));
  const actionBefore = {
    sequence: Number(header.readBigUInt64LE(ACTION_BEFORE_AT)),
    address: Number(header.readBigUInt64LE(ACTION_BEFORE_AT + 8)),
  };
  const magic = header.toString('latin1', 0, 8);
  const version = header.readUInt32LE(12);
  const faults: HeaderFault[] = [];
  const check = (holds: boolean, at: number, reason: string) => {
    if (!holds) faults.push({ at, reason });
  };
  if (UNFINISHED.includes(magic)) check(false, VERSION_AT, otherFormat('an earlier, unfinished'));
  else if (held < SEGMENT_HEADER_BYTES) check(false, 0, 'the segment header is missing or cut short');
  else {
    check(magic === SEGMENT_MAGIC, 0, 'the segment header does not begin as one');
    check(crc32(header.subarray(12)) === header.readUInt32LE(8), 8, 'the segment header has changed');
    check(version === VERSION, VERSION_AT, otherFormat('a later'));
    check(said === named, 24, `the segment header says that it is ${segmentName(said)}`);
  }
  const isFrame = plausibleSize(bytes, SEGMENT_HEADER_BYTES, held) > 0;
  return {
    segment: {
      ...{ path: file, base: Number(header.readBigUInt64LE(16)), firstSequence: named, ownBefore },
      ...{ actionBefore },
      ledgerId: header.toString('hex', 40, 56),
    },
    faults,
    begins: isFrame && frameSequence(bytes, SEGMENT_HEADER_BYTES) === said ? said : undefined,
  };
}

function readSegmentHeader(files: Files, file: string): Segment {
  const { segment, faults } = readHeader(files, file);
  const { firstSequence } = segment;
  const [fault] = faults;
  if (fault?.at === VERSION_AT) throw new Error(`${path.basename(file)}: ${fault.reason}`);
  if (fault !== undefined) throw damagedAt(file, fault.at, firstSequence, fault.reason);
  if (segment.ownBefore >= firstSequence)
    throw damagedAt(file, 56, firstSequence, 'the segment counts more entries of its own than there are');
  return segment;
}

/** A segment as it is found, for a reader that continues where the collector would refuse. */
export interface SurveyedSegment extends Segment {
  readonly name: string;
  /** What is wrong with its header: then nothing else in it can be believed. */
  readonly faults: readonly string[];
}

/**
 * The segments in a directory in their order, whatever their headers say; none without the directory. When a segment was
 * created is no evidence: it can be changed together with the checksum.
 * @param ledgerId of the ledger; undefined when nothing says it: then it is the one that most of them have.
 * @param irregular is called with each name of a segment that is not a file, like a pipe, on which a reader would wait.
 */
export function surveySegments(
  files: Files,
  directory: string,
  ledgerId: string | undefined,
  irregular: (name: string) => void = () => undefined,
): SurveyedSegment[] {
  const names = fs.existsSync(directory) ? segmentNames(files, directory) : [];
  const found = names.flatMap((name) => {
    const file = path.join(directory, name);
    if (fs.statSync(file, { throwIfNoEntry: false })?.isFile())
      return [readHeader(files, file, HEADER_BYTES)];
    irregular(name);
    return [];
  });
  const common = ledgerId ?? mostCommon(found.map(({ segment }) => segment.ledgerId));
  const surveyed = found.map(({ segment, faults, begins }): SurveyedSegment => {
    const reasons = faults.map(({ reason }) => reason);
    if (segment.ledgerId !== common) reasons.push('the segment belongs to another ledger');
    // Of two files that have changed names each is read in the place of the other.
    const firstSequence = begins ?? segment.firstSequence;
    return { ...segment, name: path.basename(segment.path), firstSequence, faults: reasons };
  });
  return surveyed.sort((a, b) => a.firstSequence - b.firstSequence);
}

function mostCommon(texts: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const most = Math.max(...counts.values());
  return texts.find((text) => counts.get(text) === most);
}

/** In bytes, as these files have it. */
export function sizeOf(files: Files, file: string): number {
  const fd = files.open(file, 'r');
  try {
    return files.size(fd);
  } finally {
    files.close(fd);
  }
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
