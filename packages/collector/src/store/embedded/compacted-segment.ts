/**
 * A segment without the payloads of its erased events (docs/internals/formats.md). It reads at its original
 * size, with every frame at its original address: live frames are identical, erased ones have payload state 2
 * and zeros as extension and payload. Readers, the id index and proofs are not affected.
 *
 *   offset  size  field; little-endian
 *        0     8  "CLINSEGC"
 *        8    72  as in the original segment (segment.ts)
 *       80        groups of frames
 *                 for each group: kind (4): 0 unpacked, 1 packed | expanded size (8) | stored size (8)
 *                   | CRC-32 of its stored bytes (4)
 *                 for each compaction, oldest first: sequence of the newest erasure carried out (8)
 *                   | time, milliseconds since 1970 UTC (8) | id of the entry of that erasure (16)
 *     end-36   8  "CLINSEGF"
 *            8+8  offset of the first row, expanded size of the segment
 *          4+4+4  number of groups, number of compactions, CRC-32 of the rows and of the 24 bytes before this
 *
 *   A packed group: length of the block (4) | block, by Zstandard (RFC 8878) | commitments of erased frames
 *   | live frames. The block has, for each frame in order: 0 and its size (4) if it is live; 1, bytes 4 to 31
 *   of the frame and the envelope if it is erased.
 *
 * A damaged group reads as zeros, which readers report as damage.
 */
import { crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import path from 'node:path';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { type Files, nodeFiles } from '../../files.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import { uuidText } from '../text.js';
import {
  envelopeEnd,
  frameCommitment,
  frameEnvelope,
  frameIsOwn,
  frameKind,
  framePayloadState,
  frameSequence,
  ERASED,
  sealFrame,
  setFramePayloadState,
} from './frame.js';
import { type FramePlace, offsetIn, readFrames } from './log-frames.js';
import { COMPACTED_MAGIC, damagedAt, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, type Segment } from './segment.js';

const FOOTER_MAGIC = 'CLINSEGF';
const FOOTER_BYTES = 36;
const ROW_BYTES = 24;
const COMPACTION_BYTES = 32;
const SEGMENT = /\.segment(\.draft)?$/;
/** Expanded size of a group, which is read as a whole. */
const GROUP_BYTES = 512 << 10;
const FLUSH_BYTES = 1 << 20;
const COMMITMENT_BYTES = 32;
/** The fixed fields of a frame between checksum and commitment. */
const [FIXED_FROM, FIXED_TO] = [4, 32];
const ENVELOPE_AT = 64;

interface Group {
  readonly isPacked: boolean;
  /** Expanded offset and size. */
  readonly at: number;
  readonly size: number;
  /** Stored offset and length. */
  readonly offset: number;
  readonly length: number;
  readonly crc: number;
}

interface Expanded {
  readonly groups: readonly Group[];
  readonly size: number;
  /** The expanded bytes of the group that was read last. */
  last: { readonly group: Group; readonly bytes: Buffer } | undefined;
}

/** A file layer that presents compacted segments in their original layout. */
export function expanding(files: Files): Files {
  const open = new Map<number, Expanded>();
  return {
    ...files,
    open(file, flags) {
      const fd = files.open(file, flags);
      const expanded = flags === 'wx+' || !SEGMENT.test(file) ? undefined : tableOf(files, fd);
      if (expanded !== undefined) open.set(fd, expanded);
      return fd;
    },
    close(fd) {
      open.delete(fd);
      files.close(fd);
    },
    size: (fd) => open.get(fd)?.size ?? files.size(fd),
    read(fd, target, offset, length, position) {
      const expanded = open.get(fd);
      if (expanded === undefined) return files.read(fd, target, offset, length, position);
      return readExpanded(files, fd, expanded, { target, offset, length, position });
    },
  };
}

/** Expanded segments on the local file system. */
export const segmentFiles = expanding(nodeFiles);

/** One compaction of a segment. */
export interface Compaction {
  /** The entry of the newest erasure whose bytes it removed, by sequence and id. */
  readonly through: number;
  readonly entryId: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** The compactions of a segment, oldest first; empty if it was never compacted. */
export function compactionsOf(files: Files, file: string): Compaction[] {
  const fd = files.open(file, 'r');
  try {
    const tail = tailOf(files, fd);
    if (tail === undefined) return [];
    const { rows, groups } = tail;
    const compactions: Compaction[] = [];
    for (let at = groups * ROW_BYTES; at < rows.length; at += COMPACTION_BYTES)
      compactions.push({
        through: Number(rows.readBigUInt64LE(at)),
        at: Number(rows.readBigUInt64LE(at + 8)),
        entryId: uuidText(rows, at + 16),
      });
    return compactions;
  } finally {
    files.close(fd);
  }
}

/** The footer of a compacted segment, which differs between compactions; undefined for any other segment. */
export function footerOf(file: string): Buffer | undefined {
  const fd = nodeFiles.open(file, 'r');
  try {
    return tailOf(nodeFiles, fd)?.footer;
  } finally {
    nodeFiles.close(fd);
  }
}

interface SegmentTail {
  readonly footer: Buffer;
  /** Offset of the rows, and the rows of groups, then of compactions. */
  readonly from: number;
  readonly rows: Buffer;
  readonly groups: number;
}

/** @returns undefined if the file is not a compacted segment, or its table is damaged. */
function tailOf(files: Files, fd: number): SegmentTail | undefined {
  const magic = Buffer.alloc(8);
  files.read(fd, magic, 0, 8, 0);
  if (magic.toString('latin1') !== COMPACTED_MAGIC) return undefined;
  const end = files.size(fd);
  const footer = Buffer.alloc(FOOTER_BYTES);
  files.read(fd, footer, 0, FOOTER_BYTES, end - FOOTER_BYTES);
  const [from, groups] = [Number(footer.readBigUInt64LE(8)), footer.readUInt32LE(24)];
  const length = groups * ROW_BYTES + footer.readUInt32LE(28) * COMPACTION_BYTES;
  if (footer.toString('latin1', 0, 8) !== FOOTER_MAGIC || from + length !== end - FOOTER_BYTES)
    return undefined;
  const rows = Buffer.alloc(length);
  files.read(fd, rows, 0, length, from);
  return crcOf(rows, footer) === footer.readUInt32LE(32) ? { footer, from, rows, groups } : undefined;
}

function tableOf(files: Files, fd: number): Expanded | undefined {
  const tail = tailOf(files, fd);
  if (tail === undefined) return undefined;
  const { rows, from, footer } = tail;
  const size = Number(footer.readBigUInt64LE(16));
  const groups: Group[] = [];
  let [at, offset] = [SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES];
  for (let row = 0; row < tail.groups * ROW_BYTES; row += ROW_BYTES) {
    const group = {
      ...{ isPacked: rows.readUInt32LE(row) === 1, at, size: Number(rows.readBigUInt64LE(row + 4)), offset },
      ...{ length: Number(rows.readBigUInt64LE(row + 12)), crc: rows.readUInt32LE(row + 20) },
    };
    groups.push(group);
    at += group.size;
    offset += group.length;
  }
  return at === size && offset === from ? { groups, size, last: undefined } : undefined;
}

function crcOf(rows: Buffer, footer: Buffer): number {
  return crc32(footer.subarray(8, 32), crc32(rows));
}

interface Wanted {
  readonly target: Uint8Array;
  readonly offset: number;
  readonly length: number;
  readonly position: number;
}

function readExpanded(files: Files, fd: number, expanded: Expanded, wanted: Wanted): number {
  const { target, offset, position } = wanted;
  const length = Math.max(0, Math.min(wanted.length, expanded.size - position));
  let at = position;
  const end = position + length;
  if (at < SEGMENT_HEADER_BYTES && at < end) {
    const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
    files.read(fd, header, 0, header.length, 0);
    header.write(SEGMENT_MAGIC, 'latin1');
    const some = header.subarray(at, end);
    target.set(some, offset);
    at += some.length;
  }
  for (let i = groupAt(expanded.groups, at); at < end; i++) {
    const group = expanded.groups[i];
    if (group === undefined) break;
    const some = Math.min(end, group.at + group.size) - at;
    const into = offset + at - position;
    if (group.isPacked) {
      const from = at - group.at;
      target.set(groupBytes(files, fd, expanded, group).subarray(from, from + some), into);
    } else files.read(fd, target, into, some, group.offset + at - group.at);
    at += some;
  }
  return length;
}

/** The index of the group that contains an expanded offset. */
function groupAt(groups: readonly Group[], at: number): number {
  let [low, high] = [0, groups.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if ((groups[middle]?.at ?? Infinity) <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

function groupBytes(files: Files, fd: number, expanded: Expanded, group: Group): Buffer {
  if (expanded.last?.group === group) return expanded.last.bytes;
  const packed = Buffer.alloc(group.length);
  files.read(fd, packed, 0, packed.length, group.offset);
  const bytes =
    (crc32(packed) === group.crc ? unpacked(packed, group.size) : undefined) ?? Buffer.alloc(group.size);
  expanded.last = { group, bytes };
  return bytes;
}

/** @returns undefined if the bytes are not a packed group. */
function unpacked(packed: Buffer, size: number): Buffer | undefined {
  const bytes = Buffer.alloc(size);
  try {
    const blockEnd = 4 + packed.readUInt32LE(0);
    const block = zstdDecompressSync(packed.subarray(4, blockEnd), { maxOutputLength: size + 4096 });
    const erased = countErased(block);
    let commitmentAt = blockEnd;
    let liveAt = blockEnd + erased * COMMITMENT_BYTES;
    let to = 0;
    for (let at = 0; at < block.length;) {
      if (block[at] === 0) {
        const length = block.readUInt32LE(at + 1);
        to += packed.copy(bytes, to, liveAt, liveAt + length);
        liveAt += length;
        at += 5;
        continue;
      }
      const length = erasedLength(block, at);
      block.copy(bytes, to + FIXED_FROM, at + 1, at + 1 + FIXED_TO - FIXED_FROM);
      packed.copy(bytes, to + FIXED_TO, commitmentAt, commitmentAt + COMMITMENT_BYTES);
      block.copy(bytes, to + ENVELOPE_AT, at + 1 + FIXED_TO - FIXED_FROM, at + length);
      commitmentAt += COMMITMENT_BYTES;
      const frame = bytes.readUInt32LE(to + 4);
      setFramePayloadState(bytes, to, ERASED);
      sealFrame(bytes, to, frame);
      to += frame;
      at += length;
    }
    return to === size ? bytes : undefined;
  } catch {
    return undefined;
  }
}

function countErased(block: Buffer): number {
  let count = 0;
  for (let at = 0; at < block.length; at += block[at] === 0 ? 5 : erasedLength(block, at))
    if (block[at] !== 0) count++;
  return count;
}

/** The length of an erased frame's record in a block, including its marker. */
function erasedLength(block: Buffer, at: number): number {
  const envelope = at + 1 + FIXED_TO - FIXED_FROM;
  return envelopeEnd(block, envelope - ENVELOPE_AT) - at;
}

/** Writes the groups of a segment frame by frame. */
class GroupWriter {
  #frames: { readonly bytes: Buffer; readonly isErased: boolean }[] = [];
  #size = 0;
  #isPacked = false;
  #holdsActions = false;
  #at = SEGMENT_HEADER_BYTES;
  #readAt = SEGMENT_HEADER_BYTES;
  #unflushed = 0;
  readonly #rows: Buffer[] = [];

  constructor(
    private readonly files: Files,
    private readonly fd: number,
  ) {}

  /**
   * Adds a frame. Actions are in separate, unpacked groups, so that following their pointers expands no
   * group.
   */
  add(frame: Buffer, isErased: boolean): void {
    const isAction = frameKind(frame, 0) === ENTRY_KINDS.lifecycleAction;
    if (isAction !== this.#holdsActions && this.#frames.length > 0) this.#flush();
    this.#holdsActions = isAction;
    this.#frames.push({ bytes: Buffer.from(frame), isErased });
    this.#size += frame.length;
    this.#isPacked ||= isErased;
    if (this.#size >= GROUP_BYTES) this.#flush();
  }

  /** Writes the rows and the footer. On return the file is complete and on stable storage. */
  end(compactions: readonly Compaction[]): void {
    if (this.#frames.length > 0) this.#flush();
    const rows = Buffer.concat([...this.#rows, ...compactions.map(compactionRow)]);
    const footer = Buffer.alloc(FOOTER_BYTES);
    footer.write(FOOTER_MAGIC, 'latin1');
    footer.writeBigUInt64LE(BigInt(this.#at), 8);
    footer.writeBigUInt64LE(BigInt(this.#readAt), 16);
    footer.writeUInt32LE(this.#rows.length, 24);
    footer.writeUInt32LE(compactions.length, 28);
    footer.writeUInt32LE(crcOf(rows, footer), 32);
    this.#write(Buffer.concat([rows, footer]));
    this.files.datasync(this.fd);
  }

  #flush(): void {
    const bytes = this.#isPacked ? this.#packed() : Buffer.concat(this.#frames.map((frame) => frame.bytes));
    const row = Buffer.alloc(ROW_BYTES);
    row.writeUInt32LE(this.#isPacked ? 1 : 0);
    row.writeBigUInt64LE(BigInt(this.#size), 4);
    row.writeBigUInt64LE(BigInt(bytes.length), 12);
    row.writeUInt32LE(crc32(bytes), 20);
    this.#rows.push(row);
    this.#write(bytes);
    this.#readAt += this.#size;
    this.#frames = [];
    this.#size = 0;
    this.#isPacked = false;
  }

  #packed(): Buffer {
    const block: Buffer[] = [];
    const commitments: Buffer[] = [];
    const live: Buffer[] = [];
    for (const { bytes, isErased } of this.#frames) {
      if (isErased) {
        block.push(Buffer.from([1]), bytes.subarray(FIXED_FROM, FIXED_TO), frameEnvelope(bytes, 0));
        commitments.push(frameCommitment(bytes, 0));
      } else {
        const mark = Buffer.alloc(5);
        mark.writeUInt32LE(bytes.length, 1);
        block.push(mark);
        live.push(bytes);
      }
    }
    const compressed = zstdCompressSync(Buffer.concat(block));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(compressed.length);
    return Buffer.concat([length, compressed, ...commitments, ...live]);
  }

  #write(bytes: Buffer): void {
    this.files.write(this.fd, bytes, bytes.length, this.#at);
    this.#at += bytes.length;
    this.#unflushed += bytes.length;
    // Small flushes, so that the flush of a batch never waits for a whole segment.
    if (this.#unflushed < FLUSH_BYTES) return;
    this.files.datasync(this.fd);
    this.#unflushed = 0;
  }
}

function compactionRow({ through, at, entryId }: Compaction): Buffer {
  const row = Buffer.alloc(COMPACTION_BYTES);
  row.writeBigUInt64LE(BigInt(through));
  row.writeBigUInt64LE(BigInt(at), 8);
  row.write(entryId.replaceAll('-', ''), 16, 'hex');
  return row;
}

/** The payloads to remove from a segment. */
export interface Removal {
  readonly erased: SequenceSet;
  /** The newest erasure among those that erased them. */
  readonly newest: Pick<Compaction, 'through' | 'entryId'>;
}

/**
 * Rewrites a segment without the payloads of erased events. The new file is read back and compared with the
 * segment, then durably takes its name; after an error the segment is unchanged. Readers continue with the
 * old file if they have it open.
 * @param next the following segment; the current segment is never compacted.
 * @param pause called after each slice of work, about 512 KiB.
 * @throws StoreDamaged if the segment is damaged, or the bytes read back differ.
 */
export async function compactSegment(
  files: Files,
  segment: Segment,
  next: Segment,
  { erased, newest }: Removal,
  pause: () => Promise<void>,
): Promise<void> {
  const expanded = expanding(files);
  const slices = new Slices(pause);
  const compactions = [...compactionsOf(files, segment.path), { ...newest, at: Date.now() }];
  const draft = `${segment.path}.draft`;
  files.remove(draft);
  const fd = files.open(draft, 'wx+');
  try {
    const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
    const source = expanded.open(segment.path, 'r');
    expanded.read(source, header, 0, header.length, 0);
    expanded.close(source);
    header.write(COMPACTED_MAGIC, 'latin1');
    files.write(fd, header, header.length, 0);
    const writer = new GroupWriter(files, fd);
    for (const { buffer, offset, size } of readFrames(expanded, [segment], { until: next.base })) {
      writer.add(buffer.subarray(offset, offset + size), isErased(buffer, offset, erased));
      await slices.took(size);
    }
    writer.end(compactions);
    await assertSame(expanded, [segment, { ...segment, path: draft }], next, erased, slices);
  } catch (error) {
    files.close(fd);
    files.remove(draft);
    throw error;
  }
  files.close(fd);
  files.rename(draft, segment.path);
  files.syncDirectory(path.dirname(segment.path));
}

/** Pauses after each half MiB of work. */
class Slices {
  #bytes = 0;

  constructor(private readonly pause: () => Promise<void>) {}

  took(bytes: number): Promise<void> | undefined {
    this.#bytes += bytes;
    if (this.#bytes < GROUP_BYTES) return undefined;
    this.#bytes = 0;
    return this.pause();
  }
}

function isErased(frame: Buffer, offset: number, erased: SequenceSet): boolean {
  if (frameIsOwn(frame, offset)) return false;
  return framePayloadState(frame, offset) === ERASED || erased.has(frameSequence(frame, offset));
}

/** @throws StoreDamaged at the first frame that differs. */
async function assertSame(
  files: Files,
  [segment, draft]: readonly [Segment, Segment],
  next: Segment,
  erased: SequenceSet,
  slices: Slices,
): Promise<void> {
  const written = readFrames(files, [draft], { until: next.base });
  try {
    for (const { buffer, offset, size, address } of readFrames(files, [segment], { until: next.base })) {
      const there = written.next();
      if (there.done || !isSame(buffer.subarray(offset, offset + size), there.value, erased)) {
        const place = offsetIn(segment, address);
        const reason = 'a compacted frame differs from the original';
        throw damagedAt(draft.path, place, frameSequence(buffer, offset), reason);
      }
      await slices.took(2 * size);
    }
  } finally {
    // Closes its file.
    written.return({ address: 0, offset: 0, nextSequence: 0 });
  }
}

function isSame(frame: Buffer, { buffer, offset, size }: FramePlace, erased: SequenceSet): boolean {
  const written = buffer.subarray(offset, offset + size);
  if (!isErased(frame, 0, erased)) return written.equals(frame);
  const isLeafSame =
    frameEnvelope(written, 0).equals(frameEnvelope(frame, 0)) &&
    frameCommitment(written, 0).equals(frameCommitment(frame, 0));
  return isLeafSame && size === frame.length && framePayloadState(written, 0) === ERASED;
}
