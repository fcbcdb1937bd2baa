/**
 * A segment: one file of the log. Its name is the sequence of its first entry. It begins with a header of 80
 * bytes, followed by adjacent frames (frame.ts) and zeros in preallocated space.
 *
 *   offset  size  field; little-endian
 *        0     8  "CLINSEGM"
 *        8     4  CRC-32 (ISO-HDLC) of bytes 12 to 79
 *       12     4  format version of the segment and of every frame in it, 1
 *       16     8  address of the first frame: number of bytes of frames in all earlier segments
 *       24     8  sequence of the first entry
 *       32     8  created, milliseconds since 1970 UTC
 *       40    16  ledger id, random, equal in all segments of a ledger
 *       56     8  number of the log's own entries before the first entry
 *       64     8  sequence of the newest action before the first entry; 0 if there is none
 *       72     8  address of that action; 0 if there is none
 *
 * An address counts bytes of frames since the ledger began, so it never changes, regardless of the segment
 * size. A segment ends at the first address of the next one; the last segment ends after its last frame.
 */
import fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import type { Files } from '../../files.js';
import { Unusable } from '../../unusable.js';
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
export const COMPACTED_MAGIC = 'CLINSEGC';
/** Magic numbers from before format 1 was frozen. */
const UNFINISHED = ['CLINEVNT', 'CLINEVNC'];
const VERSION = 1;
export const ACTION_BEFORE_AT = 64;
const NAME = /^\d{16}\.segment$/;

export interface Segment {
  readonly path: string;
  /** Address of the first frame. */
  readonly base: number;
  readonly firstSequence: number;
  readonly ledgerId: string;
  readonly ownBefore: number;
  /**
   * The newest action before the first entry, by the header; NO_ACTION if there is none (action-chain.ts).
   */
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

/** An error that names the file, the byte and the expected sequence. */
export function damagedAt(file: string, offset: number, sequence: number, reason: string): StoreDamaged {
  return new StoreDamaged({ where: `${path.basename(file)}, byte ${offset}`, sequence }, reason);
}

/** Thrown for a segment of a format that this version does not read. It may be undamaged. */
export class OtherFormat extends Unusable {
  override name = 'OtherFormat';
}

/** A fault of a segment header, and its offset in the header. */
interface HeaderFault {
  readonly at: number;
  readonly reason: string;
  /** Whether it means that the segment is of another format, if it is the first fault. */
  readonly isFormat?: boolean;
}

/** The content of a header, valid or not. */
interface ReadHeader {
  readonly segment: Segment;
  readonly faults: readonly HeaderFault[];
  /** The sequence of the first frame, if its header was read. */
  readonly begins: number | undefined;
}

const VERSION_AT = 12;

function otherFormat(which: string): string {
  return (
    `the segment was written by ${which} version of the collector; this version reads format ` +
    `${VERSION} only`
  );
}

/** @param beyond number of bytes to read after the header; in a compacted segment they must be unpacked. */
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
  const isFrame = plausibleSize(bytes, SEGMENT_HEADER_BYTES, held) > 0;
  const isLater = version > VERSION && !isFrame;
  const isOfFormat = (which: string) =>
    faults.push({ at: VERSION_AT, reason: otherFormat(which), isFormat: true });
  if (UNFINISHED.includes(magic)) isOfFormat('an earlier, unfinished');
  else if (held < SEGMENT_HEADER_BYTES) check(false, 0, 'the segment header is missing or cut short');
  else {
    // The table of a compacted segment of a later format may be unreadable.
    const isSegment = magic === SEGMENT_MAGIC || (isLater && magic === COMPACTED_MAGIC);
    check(isSegment, 0, 'the segment header does not begin with the magic number');
    check(crc32(header.subarray(12)) === header.readUInt32LE(8), 8, 'the segment header has changed');
    // The version is of the frames too: with a frame of this version, it was altered.
    if (isLater) isOfFormat('a later');
    else check(version === VERSION, VERSION_AT, `the segment header names format ${version}, which is wrong`);
    check(said === named, 24, `the segment header says that it is ${segmentName(said)}`);
  }
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
  const { segment, faults: found } = readHeader(files, file);
  const { firstSequence } = segment;
  // Only the first frame shows whether the version was altered; in a compacted segment it has to be unpacked.
  const [fault] = found[0]?.isFormat ? readHeader(files, file, HEADER_BYTES).faults : found;
  if (fault?.isFormat) throw new OtherFormat(`${path.basename(file)}: ${fault.reason}`);
  if (fault !== undefined) throw damagedAt(file, fault.at, firstSequence, fault.reason);
  if (segment.ownBefore >= firstSequence)
    throw damagedAt(
      file,
      56,
      firstSequence,
      "the segment header counts more of the log's own entries than exist",
    );
  return segment;
}

/** A segment for readers that continue where the collector refuses. */
export interface SurveyedSegment extends Segment {
  readonly name: string;
  /** Faults of the header; if there are any, the rest of the header is not trusted. */
  readonly faults: readonly string[];
  /** Whether the segment is of another format. */
  readonly isOtherFormat: boolean;
}

/**
 * The segments of a directory in order, with or without valid headers; empty if there is no directory.
 * Creation times are not compared, since they can be changed together with the checksum.
 * @param ledgerId expected id of the ledger; by default the most common one.
 * @param irregular called with the name of each segment that is not a regular file, such as a pipe.
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
    // If two files have exchanged names, each is read by the sequence of its content.
    const firstSequence = begins ?? segment.firstSequence;
    const isOtherFormat = faults[0]?.isFormat === true;
    return { ...segment, name: path.basename(segment.path), firstSequence, faults: reasons, isOtherFormat };
  });
  return surveyed.sort((a, b) => a.firstSequence - b.firstSequence);
}

function mostCommon(texts: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const most = Math.max(...counts.values());
  return texts.find((text) => counts.get(text) === most);
}

/** The size of a file in bytes. */
export function sizeOf(files: Files, file: string): number {
  const fd = files.open(file, 'r');
  try {
    return files.size(fd);
  } finally {
    files.close(fd);
  }
}

/** The names of the segments in a directory, oldest first. */
export function segmentNames(files: Files, directory: string): string[] {
  return files.list(directory).filter((name) => NAME.test(name));
}

/**
 * The segments in a directory, oldest first.
 * @param isWanted selects segments by name; by default all.
 * @throws StoreDamaged if a header is damaged, or a segment belongs to another ledger or does not follow the
 * previous one.
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
    // A higher first sequence means at least one frame in between, so equal addresses are impossible.
    const tangled = before !== undefined && segment.base <= before.base;
    const headless = before === undefined && (segment.base !== 0 || segment.firstSequence !== 1);
    if (foreign || tangled || headless) {
      const reason = foreign
        ? 'the segment belongs to another ledger'
        : tangled
          ? 'the segment does not follow the previous one'
          : 'the segments before this one are missing';
      throw damagedAt(segment.path, 0, segment.firstSequence, reason);
    }
  });
  return segments;
}

/** The state of the bytes after the last readable frame. */
export type Tail =
  /** Nothing, or only zeros. */
  | { readonly state: 'clean' }
  /** Most likely bytes of a batch that was being written when the machine or the process stopped. */
  | { readonly state: 'torn'; readonly bytes: Buffer }
  /** A later frame says that the unreadable one was durable. */
  | { readonly state: 'damaged'; readonly witnessSequence: number };

/** Limit on the bytes read for checksums, as a multiple of the tail. */
const MOST_CHECKED = 8;

/**
 * Judges the bytes after the last readable frame.
 * @param offset offset of the unreadable frame of `sequence` in the last segment.
 *
 * A batch reaches the disk in any order before its flush returns, so readable frames may follow an unreadable
 * one in a torn tail; durable-before distinguishes this from damage (frame.ts). No sender can forge a frame
 * inside an event: a header has zero bytes, and JSON text has none (RFC 8259).
 *
 * Valid frames do not overlap, so one reading is enough for a log that a collector wrote. Nested headers,
 * which only an attacker with access to the disk can write, would need thousands and count as damage.
 *
 * Limitation: damage at the end of the log leaves no later frame as a witness and looks torn or clean. The id
 * index covers older entries (segment-log.ts). Torn bytes are kept in `torn/`.
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

/** Whether a file has only zeros from an offset on, the usual case at a start. */
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
