/**
 * The walk over the frames of the log, in order, across segments and in bounded memory. All readers use it.
 * It checks the checksum and the sequence of each frame. At damage it stops or, for `collector verify`,
 * reports the damage and continues with the next valid frame.
 *
 * After damage the walk searches for the next frame byte by byte. No sender can hide one inside an event: a
 * header has zero bytes, and JSON text has none (RFC 8259).
 */
import assert from 'node:assert/strict';
import type { Files } from '../../files.js';
import { checksumHolds, frameSequence, type FrameStart, HEADER_BYTES, plausibleSize } from './frame.js';
import {
  judgeTail,
  type Tail,
  damagedAt,
  encodeSegmentHeader,
  SEGMENT_HEADER_BYTES,
  type Segment,
} from './segment.js';

/** Size of a read, unless a frame is larger; fits in the cache of a core. */
const WINDOW_BYTES = 256 << 10;

/** Consecutive frames of one segment. The object and its buffer are reused for the next block. */
export interface FrameBlock {
  readonly kind: 'frames';
  buffer: Buffer;
  /** Start of each frame in `buffer`; at least one. */
  offsets: number[];
  /** End of the last frame in `buffer`. */
  end: number;
  /** Sequence of the first frame by its position; its header has the same one unless it was changed. */
  sequence: number;
  /** Address and file offset of the start of `buffer`. */
  address: number;
  position: number;
  segment: Segment;
}

/** A part of a segment that holds no readable frame. */
export interface Damage {
  /**
   * `damaged`: the bytes of one frame. `unreadable`: bytes in the place of `count` events, which may be 0.
   * `missing`: `count` events without bytes. `torn`: bytes after the last frame of the log, most likely of a
   * batch that was never acknowledged. `spare`: bytes after the last frame of another segment. `empty`: a
   * segment without frames that is not the last one. `overlap`: a segment whose header places it `count`
   * events before the end of the previous one.
   */
  readonly kind: 'damaged' | 'unreadable' | 'missing' | 'torn' | 'spare' | 'empty' | 'overlap';
  readonly segment: Segment;
  readonly position: number;
  readonly bytes: number;
  readonly sequence: number;
  readonly count: number;
}

/** The position of a frame in `buffer`. The object is reused for the next frame. */
export interface FramePlace {
  buffer: Buffer;
  offset: number;
  size: number;
  address: number;
  sequence: number;
}

/** The end of the readable frames of the last segment. */
export interface SegmentEnd {
  /** Address after the last frame. */
  readonly address: number;
  /** Offset in the last segment's file. */
  readonly offset: number;
  readonly nextSequence: number;
}

export type LogEnd = SegmentEnd & { readonly tail: Tail };

export interface WalkOptions {
  /** A frame of the first segment at which the walk starts. */
  readonly from?: FrameStart | undefined;
  /** Address at which the frames end; all frames before it are durable. */
  readonly until?: number;
  /** `stop`: throws or, in the last segment, ends. `continue`: reports the damage and continues. */
  readonly onDamage?: 'stop' | 'continue';
  /** With `continue`: number of events that a signed checkpoint covers. They cannot be a torn tail. */
  readonly covered?: number;
  /** A buffer of an earlier walk to reuse. */
  readonly window?: Buffer;
}

/**
 * Yields every frame of `segments`. The bytes after the last frame are not judged: see `judgeTail` in
 * segment.ts.
 * @param segments consecutive segments.
 * @returns the end of the readable frames of the last segment.
 * @throws StoreDamaged without `continue`: at the first invalid frame before a known end of the frames.
 */
export function walk(
  files: Files,
  segments: readonly Segment[],
  options?: WalkOptions & { readonly onDamage?: 'stop' },
): Generator<FrameBlock, SegmentEnd>;
export function walk(
  files: Files,
  segments: readonly Segment[],
  options: WalkOptions,
): Generator<FrameBlock | Damage, SegmentEnd>;
export function walk(
  files: Files,
  segments: readonly Segment[],
  options: WalkOptions = {},
): Generator<FrameBlock | Damage, SegmentEnd> {
  const [first] = segments;
  return first === undefined ? nothing() : new Walk(files, segments, first, options).items();
}

// eslint-disable-next-line require-yield -- a log without a segment has no frames
function* nothing(): Generator<never, SegmentEnd> {
  return { address: 0, offset: SEGMENT_HEADER_BYTES, nextSequence: 1 };
}

const DAMAGED = 'the frame is damaged';
const ZEROS = Buffer.alloc(WINDOW_BYTES);
const CLEAN: Tail = { state: 'clean' };
/** Largest distance of a frame found by a search from the expected sequence. */
const MOST_SKIPPED = 2 ** 32;
/**
 * Limit on the bytes read for checksums during a search, as a multiple of the segment size. Damage needs one
 * reading; nested headers, which only an attacker with access to the disk can write, would need thousands.
 */
const MOST_CHECKED = 8;

class Walk {
  readonly #block: FrameBlock;
  readonly #files: Files;
  readonly #segments: readonly Segment[];
  readonly #options: WalkOptions;
  readonly #continues: boolean;
  readonly #covered: number;
  #fd = -1;
  /** Number of valid bytes in the window, from `block.position` on. */
  #held = 0;
  /** File offset at which reading ends. */
  #limit = 0;
  #position = 0;
  /** The expected sequence of the next event. */
  #due = 1;
  /** End of the last frame of the segment. */
  #end = 0;
  /** Bytes that a search of the segment may still read for checksums. */
  #budget = 0;

  constructor(files: Files, segments: readonly Segment[], first: Segment, options: WalkOptions) {
    this.#files = files;
    this.#segments = segments;
    this.#options = options;
    this.#continues = options.onDamage === 'continue';
    this.#covered = options.covered ?? 0;
    const buffer = options.window ?? Buffer.allocUnsafe(WINDOW_BYTES);
    this.#block = {
      ...{
        kind: 'frames',
        buffer,
        offsets: [],
        end: 0,
        sequence: 1,
        address: 0,
        position: 0,
        segment: first,
      },
    };
  }

  *items(): Generator<FrameBlock | Damage, SegmentEnd> {
    const { from } = this.#options;
    for (const [i, segment] of this.#segments.entries()) {
      if (!this.#continues) this.#begin(i, segment);
      else if (segment.firstSequence > this.#due) {
        // Between segments they are reported at the end of the first one.
        yield this.#damage('missing', segment, 0, 0, segment.firstSequence - this.#due);
        this.#due = segment.firstSequence;
      }
      this.#fd = this.#files.open(segment.path, 'r');
      try {
        this.#enter(i, segment, i === 0 ? from : undefined);
        if (this.#continues) yield* this.#oddSegment(segment);
        yield* this.#frames(segment);
        if (this.#continues) yield* this.#gapAfter(segment);
      } finally {
        this.#files.close(this.#fd);
      }
    }
    const { segment } = this.#block;
    return {
      ...{ address: addressOf(segment, this.#position), offset: this.#position },
      nextSequence: this.#due,
    };
  }

  #begin(i: number, segment: Segment): void {
    if (i === 0) this.#due = this.#options.from?.sequence ?? segment.firstSequence;
    else if (this.#due !== segment.firstSequence) {
      const reason = 'the segment does not begin where the previous one ends';
      throw damagedAt(segment.path, 0, this.#due, reason);
    }
  }

  #enter(i: number, segment: Segment, from: FrameStart | undefined): void {
    const bound = this.#segments[i + 1]?.base ?? this.#options.until;
    const isBounded = bound !== undefined && !this.#continues;
    this.#limit = isBounded ? offsetIn(segment, bound) : this.#files.size(this.#fd);
    this.#position = this.#end = from === undefined ? SEGMENT_HEADER_BYTES : offsetIn(segment, from.address);
    this.#block.segment = segment;
    this.#held = 0;
    this.#budget = MOST_CHECKED * this.#limit;
  }

  *#frames(segment: Segment): Generator<FrameBlock | Damage, void> {
    while (this.#position < this.#limit) {
      if (this.#take()) yield this.#block;
      else if (this.#continues) yield* this.#pastDamage(segment);
      else if (this.#isBounded(segment)) throw damagedAt(segment.path, this.#position, this.#due, DAMAGED);
      else return;
    }
  }

  /** Whether the end of the frames of a segment is known. */
  #isBounded(segment: Segment): boolean {
    return segment !== this.#segments.at(-1) || this.#options.until !== undefined;
  }

  /** Fills the block with the valid consecutive frames from here on. @returns whether there is one. */
  #take(): boolean {
    const block = this.#block;
    let size = this.#reach(this.#position);
    const { buffer } = block;
    const offsets: number[] = [];
    let at = this.#position - block.position;
    while (size > 0 && at + size <= this.#held) {
      if (frameSequence(buffer, at) !== this.#due + offsets.length || !checksumHolds(buffer, at, size)) break;
      offsets.push(at);
      at += size;
      size = plausibleSize(buffer, at, this.#held);
    }
    if (offsets.length === 0) return false;
    this.#give(offsets, at);
    return true;
  }

  /** Sets the block to these frames and moves past them. */
  #give(offsets: number[], end: number): void {
    const block = this.#block;
    block.offsets = offsets;
    block.end = end;
    block.sequence = this.#due;
    this.#position = this.#end = block.position + end;
    this.#due += offsets.length;
  }

  /**
   * The size of a frame at a position by its header, or 0. On return the window holds all of it if the file
   * does.
   */
  #reach(position: number): number {
    const block = this.#block;
    let at = position - block.position;
    if (at < 0 || at + HEADER_BYTES > this.#held) {
      this.#move(position, WINDOW_BYTES);
      at = 0;
    }
    const size = plausibleSize(block.buffer, at, this.#held);
    if (at + size <= this.#held || position + size > this.#limit) return size;
    this.#move(position, size);
    return plausibleSize(block.buffer, 0, this.#held);
  }

  #move(position: number, bytes: number): void {
    const block = this.#block;
    if (bytes > block.buffer.length) block.buffer = Buffer.allocUnsafe(bytes);
    const wanted = Math.max(0, Math.min(block.buffer.length, this.#limit - position));
    block.position = position;
    block.address = addressOf(block.segment, position);
    this.#held = this.#files.read(this.#fd, block.buffer, 0, wanted, position);
  }

  /** The size of the valid frame at a position, or 0. On return the window holds all of it. */
  #frameSize(position: number): number {
    const size = this.#reach(position);
    const at = position - this.#block.position;
    return size > 0 && at + size <= this.#held && checksumHolds(this.#block.buffer, at, size) ? size : 0;
  }

  /* The methods below serve a walk that continues past damage. */

  *#oddSegment(segment: Segment): Generator<Damage> {
    const isEmpty =
      this.#frameSize(SEGMENT_HEADER_BYTES) === 0 &&
      this.#lastByte(SEGMENT_HEADER_BYTES) === SEGMENT_HEADER_BYTES;
    const overlap = this.#due - segment.firstSequence;
    if (isEmpty && segment !== this.#segments.at(-1)) yield this.#damage('empty', segment, 0, 0, 0);
    else if (overlap > 0) yield this.#damage('overlap', segment, 0, 0, overlap);
  }

  /** Yields a valid frame with an unexpected sequence as it is, and reports anything else as damage. */
  *#pastDamage(segment: Segment): Generator<FrameBlock | Damage, void> {
    const size = this.#frameSize(this.#position);
    if (size === 0) {
      yield* this.#pastBytes(segment);
      return;
    }
    const skipped = this.#skipped(segment, size);
    if (skipped > 0) yield this.#damage('missing', segment, this.#position, 0, skipped);
    this.#due += skipped;
    const at = this.#position - this.#block.position;
    this.#give([at], at + size);
    yield this.#block;
  }

  /** Moves to the next valid frame or to the end of the segment. */
  *#pastBytes(segment: Segment): Generator<Damage, void> {
    const start = this.#position;
    if (segment === this.#segments.at(-1) && this.#due > this.#covered) {
      // Usually the tail is preallocated zeros, which `judgeTail` would read in full.
      const tail =
        this.#lastByte(start) === start ? CLEAN : judgeTail(this.#files, this.#fd, start, this.#due);
      if (tail.state === 'torn') yield this.#damage('torn', segment, start, tail.bytes.length, 0);
      if (tail.state !== 'damaged') {
        this.#position = this.#limit;
        return;
      }
      // A running collector may have written the frame after it was read here. A frame that was durable
      // before the witness was written is readable after the witness was read.
      this.#held = 0;
      this.#limit = this.#files.size(this.#fd);
      if (this.#frameSize(start) > 0) return;
    }
    const found = this.#nextFrame(start + 1);
    if (found === undefined) {
      const end = this.#lastByte(start);
      this.#position = this.#limit;
      const count = Math.max(0, this.#firstAfter(segment) - this.#due);
      const isSpare = count === 0 && this.#budget > 0;
      if (end > start) yield* this.#range(segment, start, end, count, isSpare ? 'spare' : 'unreadable');
      return;
    }
    this.#position = found;
    this.#frameSize(found);
    const count = frameSequence(this.#block.buffer, found - this.#block.position) - this.#due;
    yield* this.#range(segment, start, found, Math.max(0, count), 'unreadable');
  }

  /**
   * Reports the bytes from `start` to `end`, in the place of `count` events, as damage: event by event if
   * their sizes add up.
   */
  *#range(
    segment: Segment,
    start: number,
    end: number,
    count: number,
    kind: Damage['kind'],
  ): Generator<Damage, void> {
    const ends = this.#ends(start, end, count);
    if (ends.length === 0) {
      yield this.#damage(kind, segment, start, end - start, count);
      this.#due += count;
      return;
    }
    let at = start;
    for (const next of ends) {
      yield this.#damage('damaged', segment, at, next - at, 1);
      at = next;
      this.#due++;
    }
  }

  /** The end of each of `count` damaged frames in these bytes; empty if it cannot be determined. */
  #ends(start: number, end: number, count: number): number[] {
    const ends: number[] = [];
    let at = start;
    while (ends.length + 1 < count) {
      const header = Buffer.alloc(HEADER_BYTES);
      const size = plausibleSize(header, 0, this.#files.read(this.#fd, header, 0, header.length, at));
      if (size === 0 || at + size >= end) return [];
      at += size;
      ends.push(at);
    }
    return count === 0 ? [] : [...ends, end];
  }

  /** Reports the events that are missing between this segment and the next one. */
  *#gapAfter(segment: Segment): Generator<Damage, void> {
    const next = this.#segments[this.#segments.indexOf(segment) + 1];
    const missing = next === undefined ? 0 : next.firstSequence - this.#due;
    if (missing <= 0) return;
    yield this.#damage('missing', segment, this.#end, 0, missing);
    this.#due += missing;
  }

  /**
   * The number of events that are missing before the frame here, which has an unexpected sequence. It is 0 if
   * the frames after it do not continue from it: then its header was changed, or it replaced another frame.
   */
  #skipped(segment: Segment, size: number): number {
    const block = this.#block;
    const said = frameSequence(block.buffer, this.#position - block.position);
    const next = this.#position + size;
    const follows =
      this.#frameSize(next) > 0
        ? frameSequence(block.buffer, next - block.position)
        : this.#firstAfter(segment);
    // The look-ahead may have moved the window.
    this.#frameSize(this.#position);
    return follows > said ? Math.max(0, said - this.#due) : 0;
  }

  /** The first event of the next segment; for the last segment, the first event that no checkpoint covers. */
  #firstAfter(segment: Segment): number {
    const next = this.#segments[this.#segments.indexOf(segment) + 1];
    return next?.firstSequence ?? this.#covered + 1;
  }

  /**
   * The position of the next valid frame with a plausible sequence, from a position on; undefined if the
   * segment has none or the budget is used up.
   */
  #nextFrame(from: number): number | undefined {
    const window = Buffer.allocUnsafe(WINDOW_BYTES);
    for (let start = from; start + HEADER_BYTES <= this.#limit; start += WINDOW_BYTES - HEADER_BYTES + 1) {
      const held = this.#files.read(this.#fd, window, 0, window.length, start);
      for (let at = 0; at + HEADER_BYTES <= held; at++) {
        const size = plausibleSize(window, at, held);
        if (size === 0 || start + at + size > this.#limit) continue;
        const ahead = frameSequence(window, at) - this.#due;
        if (ahead < 0 || ahead > MOST_SKIPPED) continue;
        this.#budget -= size;
        if (this.#budget <= 0) return undefined;
        if (this.#frameSize(start + at) > 0) return start + at;
      }
    }
    return undefined;
  }

  /** The end of the last non-zero byte from a position on. */
  #lastByte(from: number): number {
    const window = Buffer.allocUnsafe(WINDOW_BYTES);
    for (let end = this.#limit; end > from;) {
      const start = Math.max(from, end - WINDOW_BYTES);
      const held = this.#files.read(this.#fd, window, 0, end - start, start);
      if (window.compare(ZEROS, 0, held, 0, held) !== 0) {
        for (let at = held; at > 0; at--) if (window[at - 1] !== 0) return start + at;
      }
      end = start;
    }
    return from;
  }

  #damage(kind: Damage['kind'], segment: Segment, position: number, bytes: number, count: number): Damage {
    return { kind, segment, position, bytes, sequence: this.#due, count };
  }
}

/** The number at an index. Asserts that there is one: a missing address must never be read as 0. */
export function numberAt(list: ArrayLike<number>, index: number): number {
  const found = list[index];
  assert(found !== undefined);
  return found;
}

/** Reads bytes of a segment; fewer at its end. */
export function bytesAt(files: Files, { path }: Segment, position: number, bytes: number): Buffer {
  const fd = files.open(path, 'r');
  try {
    const target = Buffer.alloc(Math.max(0, Math.min(bytes, files.size(fd) - position)));
    return target.subarray(0, files.read(fd, target, 0, target.length, position));
  } finally {
    files.close(fd);
  }
}

/** A copy of the frame at an offset of an open segment; undefined if there is no valid frame. */
export function wholeFrame(files: Files, fd: number, offset: number): Buffer | undefined {
  // Reads no further than the frame: unpacking the bytes after it may be expensive (compacted-segment.ts).
  const header = Buffer.alloc(HEADER_BYTES);
  const size = plausibleSize(header, 0, files.read(fd, header, 0, header.length, offset));
  if (size === 0 || size > files.size(fd) - offset) return undefined;
  const frame = Buffer.alloc(size);
  files.read(fd, frame, 0, size, offset);
  return checksumHolds(frame, 0, size) ? frame : undefined;
}

/** Like {@link walk}, one frame at a time; skips damage. */
export function* readFrames(
  files: Files,
  segments: readonly Segment[],
  options: WalkOptions = {},
): Generator<FramePlace, SegmentEnd> {
  const items = walk(files, segments, options);
  try {
    for (;;) {
      const next = items.next();
      if (next.done) return next.value;
      if (next.value.kind === 'frames') yield* framesOf(next.value);
    }
  } finally {
    items.return(NOWHERE);
  }
}

/** The frames of a block. */
export function* framesOf(block: FrameBlock): Generator<FramePlace, void> {
  const { buffer, offsets, end, address, sequence } = block;
  const place = { buffer, offset: 0, size: 0, address: 0, sequence: 0 };
  for (let i = 0; i < offsets.length; i++) {
    const offset = numberAt(offsets, i);
    place.offset = offset;
    place.size = (offsets[i + 1] ?? end) - offset;
    place.address = address + offset;
    place.sequence = sequence + i;
    yield place;
  }
}

const NOWHERE: SegmentEnd = { address: 0, offset: 0, nextSequence: 0 };

/**
 * Like {@link walk}, and judges the bytes after the last frame.
 * @param glance skips the judgement if the first bytes there are zeros; for readers that poll.
 * @throws StoreDamaged at the first damaged frame that had been durable.
 */
export function* readToEnd(
  files: Files,
  segments: readonly Segment[],
  from?: FrameStart,
  glance = false,
): Generator<FrameBlock, LogEnd> {
  let end = yield* walk(files, segments, { from });
  const last = segments.at(-1);
  if (last === undefined) return { ...end, tail: { state: 'clean' } };
  for (;;) {
    const tail = tailOf(files, last, end, glance);
    if (tail.state !== 'damaged') return { ...end, tail };
    // A running collector may have written the frame after it was read here. A frame that was durable before
    // the witness was written is readable after the witness was read; otherwise it is damaged.
    const from = { address: end.address, sequence: end.nextSequence };
    const again = yield* walk(files, [last], { from });
    if (again.address === end.address) throw damagedAt(last.path, end.offset, end.nextSequence, DAMAGED);
    end = again;
  }
}

function tailOf(files: Files, last: Segment, { offset, nextSequence }: SegmentEnd, glance: boolean): Tail {
  const fd = files.open(last.path, 'r');
  try {
    if (glance && isBlank(files, fd, offset)) return { state: 'clean' };
    return judgeTail(files, fd, offset, nextSequence);
  } finally {
    files.close(fd);
  }
}

/** Whether the header of a frame at an offset would be all zeros. */
export function isBlank(files: Files, fd: number, offset: number): boolean {
  const header = Buffer.alloc(HEADER_BYTES);
  files.read(fd, header, 0, header.length, offset);
  return header.every((byte) => byte === 0);
}

export function offsetIn({ base }: Segment, address: number): number {
  return address - base + SEGMENT_HEADER_BYTES;
}

function addressOf({ base }: Segment, offset: number): number {
  return offset - SEGMENT_HEADER_BYTES + base;
}

/**
 * Yields the bytes of a segment for a copy: the header, then frames up to a frame boundary, each checked. A
 * piece is valid until the next one is requested.
 * @throws StoreDamaged at the first damaged byte range.
 */
export function* segmentPieces(files: Files, segment: Segment, until: number): Generator<Uint8Array> {
  yield headerOf(files, segment);
  for (const { buffer, offsets, end } of walk(files, [segment], { until }))
    yield buffer.subarray(offsets[0], end);
}

/** Reads the header again, because the listing may be older than the copy. */
function headerOf(files: Files, segment: Segment): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  const fd = files.open(segment.path, 'r');
  try {
    files.read(fd, header, 0, header.length, 0);
  } finally {
    files.close(fd);
  }
  const created = Number(BigInt.asUintN(53, header.readBigUInt64LE(32)));
  if (header.equals(encodeSegmentHeader(segment, created))) return header;
  throw damagedAt(segment.path, 0, segment.firstSequence, 'the segment header has changed');
}
