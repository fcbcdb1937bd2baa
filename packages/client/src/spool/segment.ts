/**
 * The segment format of docs/internals/formats.md ("Spool"): header, frames and marks, and the reader of
 * frames. All integers are little-endian, except those in the segment id.
 *
 * Header of 64 bytes: 0 "CLINSPOL", 8 version (1), 9 cipher (0 none, 1 AES-256-GCM), 12 size (64), 16 segment
 * id (13 bytes of the series, 3 bytes big-endian number), 32 key check (16 bytes), 60 CRC-32 of bytes 0 to
 * 59.
 *
 * Frame: 0 CRC-32 of the segment id and bytes 4 to the end, 4 marker FF 5A CE FE, 8 size, 12 kind (index in
 * EVENT_KINDS; 255 ends the segment), 13 flags (1 sealed), 16 time of capture in Unix milliseconds (8 bytes),
 * 24 number of frames before it (8 bytes), 32 body; if sealed, ciphertext and a tag of 16 bytes.
 */
import path from 'node:path';
import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { reading, type SpoolFiles } from './files.js';
import { KEY_CHECK_BYTES, Seal, TAG_BYTES } from './seal.js';

const SERIES_BYTES = 13;
const SEGMENT_NAME = /^([0-9a-f]{32})\.segment$/;
export const SERIES_NAME = /^[0-9a-f]{26}$/;

/**
 * A new series, in hex: 6 bytes of Unix milliseconds and 7 random bytes. Later series sort after earlier
 * ones.
 */
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

/** The name of the segment in this file; undefined for other files. */
export function segmentNameOf(file: string): string | undefined {
  return SEGMENT_NAME.exec(file)?.[1];
}

export const SEGMENT_HEADER_BYTES = 64;
/** A larger file is not a segment: no client writes one, and reading it could take forever. */
export const MAX_SEGMENT_BYTES = 256 << 20;
const MAGIC = Buffer.from('CLINSPOL');
/** The magic before version 1 was frozen. */
const EARLIER_MAGIC = Buffer.from('CE-SPOOL');
const VERSION = 1;

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

/**
 * `earlier`: written before version 1 was frozen. `later`: another version or cipher. `damaged`: the
 * checksum or the magic is wrong.
 */
export type SegmentHeader =
  { readonly id: Buffer; readonly keyCheck: Buffer | undefined } | 'earlier' | 'later' | 'damaged';

export function decodeSegmentHeader(header: Buffer): SegmentHeader {
  if (header.length < SEGMENT_HEADER_BYTES) return 'damaged';
  if (crc32(header.subarray(0, 60)) !== header.readUInt32LE(60)) return 'damaged';
  if (header.subarray(0, 8).equals(EARLIER_MAGIC)) return 'earlier';
  if (!header.subarray(0, 8).equals(MAGIC)) return 'damaged';
  if (header[8] !== VERSION || (header[9] as number) > 1) return 'later';
  return {
    id: Buffer.from(header.subarray(16, 32)),
    keyCheck: header[9] === 1 ? Buffer.from(header.subarray(32, 32 + KEY_CHECK_BYTES)) : undefined,
  };
}

export const FRAME_HEADER_BYTES = 32;
/** UTF-8 text does not contain the byte FF, so no event contains the marker. */
const MARKER = Buffer.from([0xff, 0x5a, 0xce, 0xfe]);
const MARKER_OFFSET = 4;
const SEALED = 1;
const END_OF_SEGMENT = 255;
/** Times and numbers stay below 2^53, so a double holds them exactly. */
const HIGH = 0x1_0000_0000;
/** The latest time that a Date can hold. */
export const LATEST = 8.64e15;

/** Values that all frames of a segment share. */
export interface FrameContext {
  /** CRC-32 of the segment id: a frame of another segment in the same disk blocks fails the checksum. */
  readonly checksumStart: number;
  readonly seal: Seal | undefined;
  /** Sealed frames are read without their bodies, to count events without the key. */
  readonly blind?: boolean;
}

export interface Frame {
  /** Undefined for the frame that ends a segment. */
  readonly kind: EventKind | undefined;
  readonly capturedAt: number;
  /** Events written to the segment before this frame. */
  readonly number: number;
  /** A copy. */
  readonly body: Buffer;
}

export function frameSize(bodyBytes: number, { seal }: { readonly seal: unknown }): number {
  return FRAME_HEADER_BYTES + bodyBytes + (seal === undefined ? 0 : TAG_BYTES);
}

/**
 * Writes a frame into `target` at `offset`. A number is never used twice in a segment, because it is the
 * nonce.
 */
export function encodeFrame(
  target: Buffer,
  offset: number,
  context: FrameContext,
  kind: EventKind | undefined,
  capturedAt: number,
  number: number,
  body: Uint8Array,
): void {
  const size = frameSize(body.length, context);
  const start = offset + FRAME_HEADER_BYTES;
  target.set(MARKER, offset + MARKER_OFFSET);
  target.writeUInt32LE(size, offset + 8);
  target[offset + 12] = kind === undefined ? END_OF_SEGMENT : EVENT_KINDS.indexOf(kind);
  target[offset + 13] = context.seal ? SEALED : 0;
  target.writeUInt16LE(0, offset + 14);
  writeUint64(target, capturedAt, offset + 16);
  writeUint64(target, number, offset + 24);
  if (context.seal) {
    const header = target.subarray(offset + 4, start);
    context.seal.sealInto(target, start, nonceOf(target, offset), header, body);
  } else target.set(body, start);
  target.writeUInt32LE(crc32(target.subarray(offset + 4, offset + size), context.checksumStart), offset);
}

const NO_BODY = Buffer.alloc(0);

/** Encodes the optional frame that ends a segment and states its number of events. */
export function encodeEnd(context: FrameContext, events: number, capturedAt: number): Buffer {
  const frame = Buffer.alloc(frameSize(0, context));
  encodeFrame(frame, 0, context, undefined, capturedAt, events, NO_BODY);
  return frame;
}

/**
 * The size of the frame at `offset`, or 0 if the bytes there cannot be a frame header.
 * @param room bytes left in the segment.
 */
export function plausibleSize(source: Buffer, offset: number, room: number): number {
  if (source.compare(MARKER, 0, MARKER.length, offset + MARKER_OFFSET, offset + 8) !== 0) return 0;
  const size = source.readUInt32LE(offset + 8);
  return size >= FRAME_HEADER_BYTES && size <= room ? size : 0;
}

/** @returns undefined if the bytes are not a frame of this segment, or cannot be decrypted. */
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
  if (context.blind) return { kind, capturedAt, number, body: NO_BODY };
  const body = context.seal?.open(nonceOf(source, offset), source.subarray(offset + 4, start), content);
  return body && { kind, capturedAt, number, body };
}

/** Unix time in milliseconds. */
export function frameCapturedAt(source: Buffer, offset: number): number {
  return readUint64(source, offset + 16);
}

/**
 * Whether the last bytes of a segment are an interrupted write: the start of a frame that would end beyond
 * them.
 */
function looksCut(source: Buffer, offset: number, bytes: number): boolean {
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
 * Marks: a file next to the segment that lists done events in batches: CRC-32 of the segment id and bytes 4
 * to the end, their number N, and N offsets of frames. It is never flushed: events of a lost mark are sent
 * again.
 */

const MARKS_HEADER_BYTES = 8;
const MARK_BYTES = 4;
/** Upper bound: one batch for each event of a full segment. */
const MOST_MARKS_BYTES = (MARKS_HEADER_BYTES + MARK_BYTES) * (MAX_SEGMENT_BYTES / FRAME_HEADER_BYTES);

export function encodeMarks(offsets: readonly number[], checksumStart: number): Buffer {
  const batch = Buffer.alloc(MARKS_HEADER_BYTES + MARK_BYTES * offsets.length);
  batch.writeUInt32LE(offsets.length, 4);
  offsets.forEach((offset, i) => batch.writeUInt32LE(offset, MARKS_HEADER_BYTES + MARK_BYTES * i));
  batch.writeUInt32LE(crc32(batch.subarray(4), checksumStart), 0);
  return batch;
}

/**
 * Stops at the first invalid batch.
 * @returns the offsets of done frames, and the end of the valid batches.
 */
function decodeMarks(file: Buffer, checksumStart: number): { done: Set<number>; end: number } {
  const done = new Set<number>();
  let end = 0;
  while (end + MARKS_HEADER_BYTES <= file.length) {
    const next = end + MARKS_HEADER_BYTES + MARK_BYTES * file.readUInt32LE(end + 4);
    if (next > file.length) break;
    if (crc32(file.subarray(end + 4, next), checksumStart) !== file.readUInt32LE(end)) break;
    for (let at = end + MARKS_HEADER_BYTES; at < next; at += MARK_BYTES) done.add(file.readUInt32LE(at));
    end = next;
  }
  return { done, end };
}

/** @returns the offsets of done frames. Sets `marksEnd`. */
export async function loadMarks(files: SpoolFiles, segment: WaitingSegment): Promise<ReadonlySet<number>> {
  const marks = await reading(files, segment.marksPath, async (fd) => {
    const bytes = Buffer.alloc(Math.min(MOST_MARKS_BYTES, await files.size(fd)));
    await files.read(fd, bytes, 0);
    return decodeMarks(bytes, segment.context.checksumStart);
  });
  segment.marksEnd = marks?.end ?? 0;
  return marks?.done ?? new Set();
}

/** The in-memory state of a segment with events that are not done. */
export class WaitingSegment {
  readonly name: string;
  readonly id: Buffer;
  readonly path: string;
  readonly marksPath: string;
  readonly context: FrameContext;
  /** Whether this spool began the segment, so that its content is known. */
  readonly own: boolean;
  /** End of the bytes that may be read. */
  end = SEGMENT_HEADER_BYTES;
  /** No further frames will be appended. */
  complete: boolean;
  /** Number of appended events. */
  events = 0;
  /** Events that have not been read and are not done, and their size. */
  unread = { events: 0, bytes: 0 };
  /** Events that have been read and are not done. */
  left = 0;
  readToEnd = false;
  /** Time of its first event. */
  firstCapturedAt: number | undefined;
  /** The file must stay: a part of it could not be read or copied to `damaged/`. */
  keep = false;
  /**
   * Until this time, by performance.now(), the file is not removed: its writer may have been paused and may
   * still append to it.
   */
  restsUntil = 0;
  /** Offsets of done events whose marks are not on disk. */
  readonly marks: number[] = [];
  /** Number of these marks, from the first, that are being written. */
  marksInFlight = 0;
  /** End of the valid batches in the file of marks. */
  marksEnd = 0;

  /**
   * @param leftAs the name under which another spool left it; undefined for a segment begun here.
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

  /**
   * Whether the segment is no longer needed. Damage in another spool's segment is known only after reading
   * all of it.
   */
  get finished(): boolean {
    if (!this.complete || this.left > 0) return false;
    return this.readToEnd || (this.own && this.unread.events === 0);
  }
}

const PIECE_BYTES = 256 << 10;
/** A failed read is repeated in blocks of this size, so that a bad sector hides only its own block. */
const BLOCK_BYTES = 4096;

export interface FoundFrame {
  readonly frame: Frame;
  readonly offset: number;
  readonly size: number;
}

/** Bytes that are not a frame. */
export interface LostBytes {
  readonly frame: undefined;
  readonly offset: number;
  readonly size: number;
  /** No frame follows. */
  readonly atEnd: boolean;
  /** They are an interrupted write: see `looksCut`. */
  readonly cut: boolean;
}

/**
 * Reads the frames of a segment in order. After damage it continues at the next frame, found by its marker.
 */
export class SegmentReader {
  /** The last read error. Unreadable bytes count as zeros. */
  unreadable: unknown;
  readonly #files: SpoolFiles;
  readonly #fd: number;
  readonly #context: FrameContext;
  /** Contains #filled bytes of the file, starting at offset #from. */
  #window: Buffer = Buffer.allocUnsafe(PIECE_BYTES);
  #from = SEGMENT_HEADER_BYTES;
  #filled = 0;
  #offset = SEGMENT_HEADER_BYTES;
  #lostFrom: number | undefined;
  #cut = false;
  #needed = 0;
  #fileEnd = Infinity;

  constructor(files: SpoolFiles, fd: number, context: FrameContext) {
    this.#files = files;
    this.#fd = fd;
    this.#context = context;
  }

  /**
   * The next frame or lost bytes before `end`, from memory.
   * @returns 'more' if `more` must be called first, 'end' if nothing follows.
   */
  step(end: number): FoundFrame | LostBytes | 'more' | 'end' {
    const limit = Math.min(end, this.#fileEnd);
    for (;;) {
      const offset = this.#offset;
      const room = limit - offset;
      if (room <= 0) return this.#lost(true) ?? 'end';
      const at = offset - this.#from;
      const has = this.#filled - at;
      if (has < Math.min(FRAME_HEADER_BYTES, room)) return this.#askFor(FRAME_HEADER_BYTES);
      const size = room < FRAME_HEADER_BYTES ? 0 : plausibleSize(this.#window, at, room);
      if (size > has) return this.#askFor(size);
      const frame = size === 0 ? undefined : decodeFrame(this.#window, at, size, this.#context);
      if (frame) {
        const lost = this.#lost(false);
        if (lost) return lost;
        this.#offset += size;
        return { frame, offset, size };
      }
      if (this.#lostFrom === undefined) {
        this.#lostFrom = offset;
        this.#cut = looksCut(this.#window, at, room);
      }
      this.#offset = Math.min(limit, this.#nextMarked(at));
    }
  }

  /** All frames and lost bytes before `end`, in order. */
  async *all(end: number): AsyncGenerator<FoundFrame | LostBytes, void, undefined> {
    for (let step = this.step(end); step !== 'end'; step = this.step(end)) {
      if (step === 'more') await this.more(end);
      else yield step;
    }
  }

  /** Reads the next piece before `end` into memory. */
  async more(end: number): Promise<void> {
    const limit = Math.min(end, this.#fileEnd);
    const rest = this.#window.subarray(Math.min(this.#filled, this.#offset - this.#from), this.#filled);
    const bytes = Math.max(this.#needed, PIECE_BYTES);
    const window = this.#window.length === bytes ? this.#window : Buffer.allocUnsafe(bytes);
    window.set(rest);
    this.#window = window;
    this.#from = this.#offset;
    this.#filled = rest.length;
    const position = this.#from + this.#filled;
    const wanted = Math.min(bytes - this.#filled, limit - position);
    const got = await this.#read(position, wanted);
    this.#filled += got;
    if (got === 0) this.#fileEnd = position;
  }

  async #read(position: number, wanted: number): Promise<number> {
    const target = this.#window.subarray(this.#filled, this.#filled + wanted);
    try {
      return await this.#files.read(this.#fd, target, position);
    } catch {
      const block = target.subarray(0, BLOCK_BYTES - (position % BLOCK_BYTES));
      try {
        return await this.#files.read(this.#fd, block, position);
      } catch (error) {
        this.unreadable = error;
        block.fill(0);
        return block.length;
      }
    }
  }

  #askFor(bytes: number): 'more' {
    this.#needed = bytes;
    return 'more';
  }

  /** The lost bytes that end here, if any. */
  #lost(atEnd: boolean): LostBytes | undefined {
    if (this.#lostFrom === undefined) return undefined;
    const offset = this.#lostFrom;
    this.#lostFrom = undefined;
    return { frame: undefined, offset, size: this.#offset - offset, atEnd, cut: atEnd && this.#cut };
  }

  /** Where the next frame may begin: at a marker, or at the end of the window, which may cut one in two. */
  #nextMarked(at: number): number {
    const filled = this.#window.subarray(0, this.#filled);
    const found = filled.indexOf(MARKER, at + MARKER_OFFSET + 1);
    if (found >= 0) return this.#from + found - MARKER_OFFSET;
    return this.#from + Math.max(at + 1, this.#filled - MARKER.length - MARKER_OFFSET + 1);
  }
}

/** Counts the missing events of a segment from its frames. */
export class FrameCount {
  events = 0;
  /** Events among them that are done. */
  done = 0;
  /** Number of events written to the segment, according to its frame numbers. */
  #written = 0;
  #ended = false;
  #marks = 0;

  /** Called for each frame in order, with the offsets of done frames. */
  meet({ frame, offset }: FoundFrame, done: ReadonlySet<number>): void {
    this.#marks = done.size;
    if (frame.kind === undefined) this.#ended = true;
    else {
      this.events++;
      if (done.has(offset)) this.done++;
    }
    this.#written = Math.max(this.#written, frame.number + (frame.kind === undefined ? 0 : 1));
  }

  /** Whether the bytes are an interrupted write. The frame that ends a segment cannot be followed by one. */
  isCut({ cut }: LostBytes): boolean {
    return cut && !this.#ended;
  }

  /**
   * Number of missing events that are not done. Without an end frame, events lost after the last frame are
   * not counted.
   */
  get missing(): number {
    return Math.max(0, this.#written - this.events - (this.#marks - this.done));
  }
}
