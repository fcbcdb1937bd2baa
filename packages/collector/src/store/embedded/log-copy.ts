/**
 * Copies the segments of a log to another directory, with or without a running collector.
 *
 * A copy grows with the log: complete segments are copied once, the last one is extended. Entries that a
 * checkpoint of the copy covers are never overwritten. Later entries may be, because a collector takes back a
 * batch that it failed to flush.
 */
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../../files.js';
import { LogDiffers, type Copied, type LogCopy, type Progress } from '../contract/copy.js';
import { footerOf, segmentFiles } from './compacted-segment.js';
import { HASH_BYTES, leafHash } from '../../tree/merkle.js';
import {
  frameCommitment,
  frameEnvelope,
  frameIsOwn,
  frameReceivedAt,
  HEADER_BYTES,
  plausibleSize,
} from './frame.js';
import { framesOf, offsetIn, readToEnd, segmentPieces, walk, type LogEnd } from './log-frames.js';
import {
  damagedAt,
  listSegments,
  SEGMENT_HEADER_BYTES,
  segmentNames,
  type Segment,
  sizeOf,
} from './segment.js';

interface CopiedSegment {
  readonly name: string;
  readonly bytes: number;
  /** Number of bytes that a checkpoint of the copy covers. */
  readonly agreed: number;
  readonly pieces: () => Generator<Uint8Array>;
}

const DRAFT = 'segment.draft';
const FLUSH_BYTES = 1 << 20;
const CLOCK = new Int32Array(new SharedArrayBuffer(4));

/**
 * Reads the log for a copy. On return the readable part is on stable storage.
 * @param options.signed minimum number of entries; undefined accepts a truncated log up to its last whole
 * frame.
 * @param options.agreed number of entries that the newest checkpoint of the copy covers; 0 if there is no
 * copy yet.
 * @returns undefined if there is no log.
 * @throws StoreDamaged
 */
export function copiedLog(
  dataDir: string,
  { signed, agreed }: { readonly signed: number | undefined; readonly agreed: number },
): LogCopy | undefined {
  const directory = path.join(dataDir, 'ledger');
  const cut = signed === undefined ? headless(directory) : undefined;
  const segments = listSegments(segmentFiles, directory, (name) => name !== cut);
  const last = segments.at(-1);
  if (last === undefined) return undefined;
  const { end, own, lastReceivedAt, agreedUntil } = endOf(segments, last, agreed);
  if (end.nextSequence <= (signed ?? 0)) {
    const reason = `the log ends too early: a checkpoint was signed over ${signed} entries`;
    throw damagedAt(last.path, end.offset, end.nextSequence, reason);
  }
  const copied = segments.map((segment, i): CopiedSegment => {
    const next = segments[i + 1];
    const until = next?.base ?? end.address;
    return {
      name: path.basename(segment.path),
      bytes: offsetIn(segment, until),
      agreed: agreedUntil > segment.base ? offsetIn(segment, Math.min(until, agreedUntil)) : 0,
      pieces: () => segmentPieces(segmentFiles, segment, until),
    };
  });
  return {
    ...{ ledgerId: last.ledgerId, events: end.nextSequence - 1 - own, entries: end.nextSequence - 1 },
    ...{ lastReceivedAt, endsWhole: endsWhole(end), growing: path.basename(last.path) },
    copyTo: (directory, grewIn, onProgress) =>
      copySegments(copied, path.dirname(last.path), path.join(directory, 'ledger'), {
        ...{ agreed, grewIn, onProgress },
      }),
    leaves: (from) => leavesOf(segments, from),
  };
}

function* leavesOf(segments: readonly Segment[], from: number): ReturnType<LogCopy['leaves']> {
  const first = Math.max(
    0,
    segments.findLastIndex(({ firstSequence }) => firstSequence <= from),
  );
  let hashes = Buffer.alloc(0);
  for (const block of walk(segmentFiles, segments.slice(first))) {
    const bytes = block.offsets.length * HASH_BYTES;
    if (hashes.length < bytes) hashes = Buffer.alloc(bytes);
    let count = 0;
    for (const { buffer, offset, sequence } of framesOf(block)) {
      if (sequence < from) continue;
      const envelope = frameEnvelope(buffer, offset);
      leafHash(envelope, frameCommitment(buffer, offset), hashes, count++ * HASH_BYTES);
    }
    yield { hashes, count };
  }
}

/** The name of the last segment if it is shorter than its header. */
function headless(directory: string): string | undefined {
  const name = segmentNames(nodeFiles, directory).at(-1);
  if (name === undefined) return undefined;
  return fs.statSync(path.join(directory, name)).size < SEGMENT_HEADER_BYTES ? name : undefined;
}

/**
 * Whether a torn tail is only the beginning of one frame. Frames of one batch do not vouch for each other
 * (segment.ts).
 */
function endsWhole({ tail }: LogEnd): boolean {
  if (tail.state !== 'torn') return true;
  const { bytes } = tail;
  return bytes.length < HEADER_BYTES || plausibleSize(bytes, 0, bytes.length) > bytes.length;
}

interface Reached {
  readonly end: LogEnd;
  /** Number of the log's own entries. */
  readonly own: number;
  readonly lastReceivedAt: number | undefined;
  /** Address after the last entry that a checkpoint of the copy covers. */
  readonly agreedUntil: number;
}

/**
 * Reads the last two segments, because the last may be empty, and earlier ones that no checkpoint of the copy
 * covers.
 */
function endOf(segments: readonly Segment[], last: Segment, agreed: number): Reached {
  const holding = segments.findLastIndex(({ firstSequence }) => firstSequence <= agreed + 1);
  const from = agreed === 0 ? segments.length - 2 : Math.min(holding, segments.length - 2);
  const newest = segments.slice(Math.max(0, from));
  let own = newest[0]?.ownBefore ?? 0;
  let agreedUntil = 0;
  let lastReceivedAt: number | undefined;
  const blocks = readToEnd(segmentFiles, newest);
  let next = blocks.next();
  for (; !next.done; next = blocks.next()) {
    for (const { buffer, offset, size, address, sequence } of framesOf(next.value)) {
      if (frameIsOwn(buffer, offset)) own++;
      else lastReceivedAt = frameReceivedAt(buffer, offset);
      if (sequence === agreed) agreedUntil = address + size;
    }
  }
  if (agreed > 0 && agreedUntil === 0) agreedUntil = newest[0]?.base ?? 0;
  // A written batch may not be on stable storage yet. If a power loss removed it, a copy with the batch would
  // diverge.
  const fd = nodeFiles.open(last.path, 'r');
  try {
    nodeFiles.datasync(fd);
  } finally {
    nodeFiles.close(fd);
  }
  return { end: next.value, own, lastReceivedAt, agreedUntil };
}

interface Copying {
  readonly agreed: number;
  readonly grewIn: string | undefined;
  readonly onProgress: Progress;
}

function copySegments(
  segments: readonly CopiedSegment[],
  source: string,
  target: string,
  { agreed, grewIn, onProgress }: Copying,
): Copied {
  nodeFiles.makeDirectory(target);
  const surplus = assertSameLog(segments, source, target, agreed);
  for (const name of surplus) nodeFiles.remove(path.join(target, name));
  const isWhole = ({ name }: CopiedSegment) => {
    const file = path.join(target, name);
    if (!exists(file)) return false;
    const footer = footerOf(path.join(source, name));
    if (footer !== undefined) return footerOf(file)?.equals(footer) === true;
    return grewIn !== undefined && name < grewIn;
  };
  const wanted = segments.filter((segment) => !isWhole(segment));
  const of = wanted.reduce((sum, { bytes }) => sum + bytes, 0);
  let [done, bytes] = [0, 0];
  for (const segment of wanted) {
    bytes += copyOne(segment, source, target);
    onProgress((done += segment.bytes), of);
  }
  nodeFiles.syncDirectory(target);
  return {
    segmentsThere: segments.length - wanted.length,
    segmentsCopied: wanted.length - 1,
    bytes,
  };
}

/**
 * Compares all headers, which contain creation times, and the sizes of complete segments.
 * @returns names of segments of the copy that the log lacks and that no checkpoint of the copy covers.
 */
function assertSameLog(
  segments: readonly CopiedSegment[],
  source: string,
  target: string,
  agreed: number,
): string[] {
  const surplus: string[] = [];
  for (const name of segmentNames(nodeFiles, target)) {
    const segment = segments.find((each) => each.name === name);
    const file = path.join(target, name);
    if (segment === undefined) {
      if (Number.parseInt(name, 10) <= agreed) throw new LogDiffers(`the log has no ${name}`);
      surplus.push(name);
    } else if (segment.agreed > sizeOf(segmentFiles, file)) {
      throw new LogDiffers(`${name} of the copy is shorter than its checkpoint says: it was changed`);
    } else if (segment.agreed > 0 && !headerOf(file).equals(headerOf(path.join(source, name)))) {
      throw new LogDiffers(`${name} of the copy is a different segment`);
    }
  }
  return surplus;
}

function headerOf(file: string): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  const fd = segmentFiles.open(file, 'r');
  try {
    segmentFiles.read(fd, header, 0, header.length, 0);
    return header;
  } finally {
    segmentFiles.close(fd);
  }
}

/** Copies a segment. A compacted segment, even if compacted during the copy, replaces the earlier copy. */
function copyOne(segment: CopiedSegment, source: string, target: string): number {
  const isCompacted = () => footerOf(path.join(source, segment.name)) !== undefined;
  if (isCompacted()) return replace(segment, source, target);
  try {
    return extend(segment, target);
  } catch (error) {
    if (!(error instanceof LogDiffers) || !isCompacted()) throw error;
    return replace(segment, source, target);
  }
}

/** Replaces a segment of the copy. @returns the number of bytes written. */
function replace({ name }: CopiedSegment, source: string, target: string): number {
  const draft = path.join(target, DRAFT);
  nodeFiles.remove(draft);
  const [from, to] = [nodeFiles.open(path.join(source, name), 'r'), nodeFiles.open(draft, 'wx+')];
  const size = nodeFiles.size(from);
  try {
    const writer = new GentleWriter(to);
    const piece = Buffer.allocUnsafe(FLUSH_BYTES);
    for (let at = 0; at < size;) {
      const held = nodeFiles.read(from, piece, 0, piece.length, at);
      if (held === 0) throw new Error(`${name} became shorter while it was copied`);
      writer.write(piece.subarray(0, held), at);
      at += held;
    }
    nodeFiles.datasync(to);
  } finally {
    nodeFiles.close(from);
    nodeFiles.close(to);
  }
  nodeFiles.rename(draft, path.join(target, name));
  nodeFiles.syncDirectory(target);
  return size;
}

/** Compares the existing part of a segment and writes the rest. @returns the number of bytes written. */
function extend(segment: CopiedSegment, target: string): number {
  const file = path.join(target, segment.name);
  if (!exists(file)) begin(segment, target, file);
  const fd = nodeFiles.open(file, 'r+');
  try {
    const writer = new GentleWriter(fd);
    let [at, held, written] = [0, nodeFiles.size(fd), 0];
    for (const piece of segment.pieces()) {
      const there = Math.min(piece.length, Math.max(0, held - at));
      const same = commonLength(fd, at, piece.subarray(0, there));
      if (same < there && at + same < segment.agreed) {
        throw new LogDiffers(`${segment.name} of the copy differs from byte ${at + same} on`);
      }
      if (same < there) nodeFiles.truncate(fd, (held = at + same));
      writer.write(piece.subarray(same), at + same);
      written += piece.length - same;
      at += piece.length;
    }
    if (held > at) nodeFiles.truncate(fd, at);
    nodeFiles.datasync(fd);
    return written;
  } finally {
    nodeFiles.close(fd);
  }
}

/** Creates a segment with its header, under its name only when the header is durable. */
function begin(segment: CopiedSegment, target: string, file: string): void {
  const draft = path.join(target, DRAFT);
  nodeFiles.remove(draft);
  const fd = nodeFiles.open(draft, 'wx+');
  const pieces = segment.pieces();
  try {
    const header = pieces.next().value as Uint8Array;
    nodeFiles.write(fd, header, header.length, 0);
    nodeFiles.datasync(fd);
  } finally {
    pieces.return(undefined);
    nodeFiles.close(fd);
  }
  nodeFiles.rename(draft, file);
  nodeFiles.syncDirectory(target);
}

function commonLength(fd: number, at: number, piece: Uint8Array): number {
  if (piece.length === 0) return 0;
  const there = Buffer.allocUnsafe(piece.length);
  const held = nodeFiles.read(fd, there, 0, there.length, at);
  if (held === piece.length && there.equals(piece)) return held;
  let same = 0;
  while (same < held && there[same] === piece[same]) same++;
  return same;
}

/**
 * Flushes while it writes and pauses after each flush for the time that it worked, because a collector may
 * use the disk. With 500 events a second on the same disk of a busy machine, their 99th percentile latency
 * was 73 to 136 ms during a back-up, 111 to 252 ms without the pauses, and 5 to 187 ms without a back-up.
 */
class GentleWriter {
  #unflushed = 0;
  #since = performance.now();

  constructor(private readonly fd: number) {}

  write(bytes: Uint8Array, position: number): void {
    nodeFiles.write(this.fd, bytes, bytes.length, position);
    this.#unflushed += bytes.length;
    if (this.#unflushed < FLUSH_BYTES) return;
    nodeFiles.datasync(this.fd);
    this.#unflushed = 0;
    Atomics.wait(CLOCK, 0, 0, performance.now() - this.#since);
    this.#since = performance.now();
  }
}
