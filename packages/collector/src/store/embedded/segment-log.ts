/**
 * The log open for writing: one writer appends to the last segment and flushes once per batch.
 *
 * Order at a crash. A batch is written and flushed before `commit` returns. Rolling to a new segment:
 *   1. zeros are written to `next.segment` and flushed, ahead of time, by the thread pool
 *   2. its header is written and flushed
 *   3. it is renamed to its name, and the directory flushed
 *   4. the old segment's zeros are cut off (cosmetic: readers stop at the next segment's first address)
 * A crash before 3 leaves a `next.segment`, which the next start removes; a crash after 3 leaves an empty
 * last segment.
 */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import {
  CommitUnknown,
  LogChanged,
  NotCommitted,
  type StoreDamaged,
  type Cursor,
} from '../contract/events.js';
import type { Files, HeldFile, NamedFile } from '../../files.js';
import {
  frameDurableBefore,
  ENCRYPTED,
  frameIsOwn,
  frameKind,
  framePayloadLength,
  framePayloadState,
  frameSequence,
  type FrameStart,
  HEADER_BYTES,
  NO_ACTION,
  ERASED,
} from './frame.js';
import {
  judgeTail,
  damagedAt,
  encodeSegmentHeader,
  listSegments,
  SEGMENT_HEADER_BYTES,
  segmentName,
  sizeOf,
  type Segment,
} from './segment.js';
import { sealedExtensionHolds } from './sealed-frame.js';
import { ActionTrail } from './action-chain.js';
import { bytesAt, offsetIn, readFrames, type FramePlace, type SegmentEnd, wholeFrame } from './log-frames.js';

/** Bytes after the last readable frame, which a start moved to a separate file. */
export interface TornTail {
  readonly bytes: number;
  readonly keptIn: string;
  readonly sequence: number;
}

export interface SegmentLogOptions {
  readonly directory: string;
  readonly segmentBytes: number;
  readonly files: Files;
  /** Id of a new ledger; random by default. */
  readonly ledgerId?: string;
  /** The lock on the data directory; undefined if nothing else can write there. */
  readonly lock?: HeldFile | undefined;
  /** Called when the next segment cannot be allocated; the current one still has room. */
  readonly onRoomTrouble: (error: unknown) => void;
  /** Address up to which the log was durable according to the id index; 0 if unknown. */
  readonly vouchedTo: number;
  /** Number of entries that a signed checkpoint covers. */
  readonly vouchedEntries: number;
}

/**
 * Pause after a failed allocation of the next segment. Without it, every batch would fill a nearly full disk
 * with zeros.
 */
const ROOM_REST_MS = 1000;
/** Time within which the files must have been checked before a batch is written or acknowledged. */
const LOOK_EVERY_MS = 1000;
/**
 * Number of bytes that are read back from the segment header and from the first frame of the newest batch.
 */
const READ_BACK_BYTES = SEGMENT_HEADER_BYTES;
const PROVING_ZEROS = Buffer.alloc(4096);

/** Contents of the last segment at a start. */
interface Found {
  readonly end: SegmentEnd;
  readonly own: number;
  readonly newestOwn: ReadonlyMap<number, Buffer>;
  /** Whether the segment holds events with payloads. */
  readonly hasEvents: boolean;
  /** Copy of the newest frame with an encrypted payload. */
  readonly newestSealed: Buffer | undefined;
  /** The actions up to the end of the segment. */
  readonly trail: ActionTrail;
}

const NOTHING: Found = {
  ...{ end: { address: 0, offset: 0, nextSequence: 1 }, own: 0, newestOwn: new Map() },
  ...{ hasEvents: false, newestSealed: undefined, trail: new ActionTrail(NO_ACTION) },
};

export class SegmentLog {
  /** The segments, oldest first; the last one is written to. Never empty after `open`. */
  readonly segments: Segment[];
  /** Address after the last durable frame. */
  end: number;
  /** The sequence that the next event gets. */
  nextSequence: number;
  /** Number of the log's own entries. */
  ownEntries: number;
  /** By kind, the body of the newest own entry in the last segment when the log was opened. */
  readonly newestOwn: ReadonlyMap<number, Buffer>;
  /** The newest frame with an encrypted payload in the newest segment with events when the log was opened. */
  readonly newestSealed: Buffer | undefined;
  /** The newest action in the log. */
  newestAction: FrameStart;
  /** Whether each action of the last segment named the one before it when the log was opened. */
  readonly isChained: boolean;
  readonly tornTail: TornTail | undefined;
  /** Duration of the last flush of a batch. */
  flushMs = 0;
  readonly #options: SegmentLogOptions;
  #fd: number;
  /** Identity and expected size of the current segment. */
  #held: NamedFile;
  /** Expected bytes of the current segment at its header and at the newest batch. */
  #written: { readonly offset: number; readonly bytes: Buffer }[] = [];
  #lookedAt = performance.now();
  /** Offset in the current segment's file where the next frame goes. */
  #offset: number;
  #room: Promise<void> | undefined;
  /** Pending while the log rolls to the next segment; never rejects. */
  #rolling: Promise<void> | undefined;
  #broken: CommitUnknown | undefined;
  #restUntil = 0;

  private constructor(
    options: SegmentLogOptions,
    segments: Segment[],
    fd: number,
    held: NamedFile,
    { end, own, newestOwn, newestSealed, trail }: Found,
    tornTail: TornTail | undefined,
  ) {
    this.#options = options;
    this.segments = segments;
    this.#fd = fd;
    this.#held = held;
    this.end = end.address;
    this.#offset = end.offset;
    this.nextSequence = end.nextSequence;
    this.ownEntries = (segments.at(-1)?.ownBefore ?? 0) + own;
    this.newestOwn = newestOwn;
    this.newestSealed = newestSealed;
    this.newestAction = trail.newest;
    this.isChained = trail.isWhole;
    this.tornTail = tornTail;
  }

  /**
   * Opens or creates the log. On return the last segment ends after a whole frame, all frames are on stable
   * storage, and a torn tail has been moved to `torn/`.
   * @throws StoreDamaged if the last segment is damaged before its end or ends too early, or if the segments
   * do not follow each other.
   */
  static async open(options: SegmentLogOptions): Promise<SegmentLog> {
    const { files, directory } = options;
    files.makeDirectory(directory);
    files.remove(nextPath(directory));
    // An earlier process may have been killed after it created a name and before it flushed the directory.
    files.syncDirectory(path.dirname(directory));
    files.syncDirectory(directory);
    const segments = listSegments(files, directory);
    const last = segments.at(-1);
    if (last === undefined) {
      assertReaches(options, segmentName(1), NOTHING.end);
      const log = new SegmentLog(options, segments, -1, NOTHING_HELD, NOTHING, undefined);
      await log.#roll(options.ledgerId ?? randomBytes(16).toString('hex'), 0);
      return log;
    }
    assertComplete(files, segments);
    const { lastBatch, ...lastFound } = findEnd(files, last);
    const found = {
      ...lastFound,
      newestSealed: lastFound.newestSealed ?? sealedBefore(files, segments, lastFound),
    };
    const fd = files.open(last.path, 'r+');
    const { end } = found;
    const tornTail = repairTail(options, last, fd, end, lastBatch);
    const log = new SegmentLog(options, segments, fd, heldNow(files, last.path), found, tornTail);
    log.#remember(0, log.#readBack(0));
    if (end.offset > lastBatch) log.#remember(lastBatch, log.#readBack(lastBatch));
    return log;
  }

  /**
   * Makes room for a batch; rolls to a new segment if the current one is full.
   * @returns undefined if there is room already.
   * @throws NotCommitted if no room can be made.
   */
  makeRoom(bytes: number): Promise<void> | undefined {
    if (this.#broken) throw this.#broken;
    if (this.#rolling !== undefined) return this.#rolling.then(() => this.makeRoom(bytes));
    const left = this.#options.segmentBytes - this.#offset;
    if (bytes <= left) {
      // Allocates the next segment early, so that rolling does not wait, but not immediately, so that a
      // ledger of a few events takes one segment instead of two.
      const early = left < this.#options.segmentBytes * 0.75 && performance.now() >= this.#restUntil;
      if (early) this.#room ??= this.#prepare(this.#options.segmentBytes);
      return undefined;
    }
    return this.#rollOnce(bytes);
  }

  /**
   * Rolls to a new segment, unless the current one is empty. On return everything that was durable before the
   * call is in closed segments. May run while a batch makes room; batches wait only for the rename.
   * @throws NotCommitted, CommitUnknown
   */
  async endSegment(): Promise<void> {
    const segment = this.#current;
    while (segment === this.#current && this.#offset > SEGMENT_HEADER_BYTES) {
      if (this.#broken) throw this.#broken;
      await (this.#rolling ?? (this.#room ??= this.#prepare(this.#options.segmentBytes)));
      if (this.#rolling === undefined && segment === this.#current) await this.#rollOnce(0);
    }
  }

  /** Only one roll may run at a time: two would take the same file. */
  #rollOnce(bytes: number): Promise<void> {
    const rolled = this.#roll(this.#current.ledgerId, bytes);
    this.#rolling = rolled
      .catch(() => undefined)
      .finally(() => {
        this.#rolling = undefined;
      });
    return rolled;
  }

  /**
   * Writes and flushes the frames of one batch. On return they are durable, and `end` and `nextSequence` are
   * after them.
   * @param own number of the log's own entries in the batch.
   * @param newestAction the newest action after this batch.
   * @throws NotCommitted if nothing is stored: the written range is durably zeroed.
   * @throws CommitUnknown otherwise; every later call throws it too.
   */
  commit(frames: Buffer, bytes: number, entries: number, own = 0, newestAction = this.newestAction): void {
    const { files } = this.#options;
    this.#lookWhenDue();
    try {
      files.write(this.#fd, frames, bytes, this.#offset);
    } catch (error) {
      this.#undo(bytes, error);
      throw new NotCommitted('the batch could not be written', { cause: error });
    }
    // After a start the segment may not be preallocated and grows with each batch.
    this.#held = { ...this.#held, size: Math.max(this.#held.size, this.#offset + bytes) };
    const begun = performance.now();
    try {
      files.datasync(this.#fd);
    } catch (error) {
      // After a failed flush the kernel may mark the pages clean, so a later successful flush proves nothing.
      throw this.#breakWith('the flush of a batch failed', error);
    }
    this.flushMs = performance.now() - begun;
    // A process that was suspended during the flush may have lost its lock.
    this.#lookWhenDue();
    this.#remember(this.#offset, Buffer.from(frames.subarray(0, Math.min(bytes, READ_BACK_BYTES))));
    this.#offset += bytes;
    this.end += bytes;
    this.nextSequence += entries;
    this.ownEntries += own;
    this.newestAction = newestAction;
  }

  /**
   * Checks that the lock and the current segment are the files that this process opened, that the segment has
   * the expected size, and that two ranges of it are unchanged. Changes elsewhere are found by the next
   * start, `doctor` and `verify`.
   * @throws CommitUnknown with the name of the file, as every later call does; LogChanged if it is the
   * segment.
   */
  look(): void {
    if (this.#broken) throw this.#broken;
    this.#lookedAt = performance.now();
    const { files, lock } = this.#options;
    let isLocked: boolean;
    let change: string | undefined;
    try {
      isLocked = lock === undefined || files.look(lock.path)?.id === lock.id;
      change = isLocked ? this.#change() : `${lock?.path} was removed or replaced`;
    } catch (error) {
      throw this.#breakWith('the files of the ledger cannot be checked', error);
    }
    if (change === undefined) return;
    const message = `${change} while the collector ran`;
    throw isLocked ? (this.#broken = new LogChanged(message)) : this.#breakWith(message);
  }

  /**
   * Tries a write after a failure. On return the next segment is allocated, and zeros after the last frame
   * were written and flushed.
   * @throws NotCommitted, CommitUnknown
   */
  async prove(): Promise<void> {
    if (this.#broken) throw this.#broken;
    const { files, segmentBytes } = this.#options;
    try {
      await (this.#room ??= this.#prepare(segmentBytes));
      const zeros = Math.min(PROVING_ZEROS.length, Math.max(0, this.#held.size - this.#offset));
      files.write(this.#fd, PROVING_ZEROS, zeros, this.#offset);
    } catch (error) {
      throw new NotCommitted('the log still cannot be written', { cause: error });
    }
    try {
      files.datasync(this.#fd);
    } catch (error) {
      throw this.#breakWith('a flush failed', error);
    }
  }

  /** Reads `length` bytes at an address of the log, fewer at its end. */
  readAt(address: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    const read = (fd: number, offset: number) => this.#options.files.read(fd, bytes, 0, length, offset);
    return bytes.subarray(0, this.#at(address, read) ?? 0);
  }

  /** A copy of the frame at an address; undefined if there is no valid frame. */
  frameAt(address: number): Buffer | undefined {
    return this.#at(address, (fd, offset) => wholeFrame(this.#options.files, fd, offset));
  }

  /** Calls `read` with the segment of an address and the offset in it. */
  #at<Read>(address: number, read: (fd: number, offset: number) => Read): Read | undefined {
    const { files } = this.#options;
    const segment = this.segments.findLast((candidate) => candidate.base <= address);
    if (segment === undefined) return undefined;
    const fd = segment === this.#current ? this.#fd : files.open(segment.path, 'r');
    try {
      return read(fd, offsetIn(segment, address));
    } finally {
      if (fd !== this.#fd) files.close(fd);
    }
  }

  /**
   * The segments from an address on, and a file layer that reads the last one through the writer's
   * descriptor, even if the file was removed or replaced. Both are valid until the next write.
   */
  written(address: number): { readonly files: Files; readonly segments: readonly Segment[] } {
    const { files } = this.#options;
    const fd = this.#fd;
    const own = this.#current.path;
    return {
      files: {
        ...files,
        open: (file, flags) => (file === own ? fd : files.open(file, flags)),
        close: (each) => {
          if (each !== fd) files.close(each);
        },
      },
      segments: this.segments.slice(this.segments.findLastIndex(({ base }) => base <= address)),
    };
  }

  /** The frame of a cursor's hint; without a hint, the first frame of its segment. */
  before({ sequence, at }: Cursor): { address: number; sequence: number } {
    if (at > 0) return { address: at, sequence: frameSequence(this.readAt(at, HEADER_BYTES), 0) };
    const segment = this.segments.findLast(({ firstSequence }) => firstSequence <= sequence);
    return { address: segment?.base ?? 0, sequence: segment?.firstSequence ?? 1 };
  }

  /**
   * Every frame from an address on, for rebuilding derived data. Reads the segment from its first frame, so
   * that a damaged frame is reported with its own sequence and an address within a frame is detected.
   * @throws RangeError if no frame begins at the address and the log does not end there.
   */
  *framesFrom(address: number): Generator<FramePlace, void> {
    if (address === this.end) return;
    const first = this.segments.findLastIndex((segment) => segment.base <= address);
    let met = false;
    for (const frame of readFrames(this.#options.files, this.segments.slice(Math.max(0, first)))) {
      if (frame.address < address) continue;
      met ||= frame.address === address;
      if (!met) break;
      yield frame;
    }
    if (!met) throw new RangeError(`no frame of the log begins at ${address}`);
  }

  /** The address of the first frame. */
  get start(): number {
    return this.segments[0]?.base ?? this.end;
  }

  /** The file and offset of an address, for messages. */
  placeOf(address: number): { file: string; offset: number } {
    const segment = this.segments.findLast((candidate) => candidate.base <= address) ?? this.#current;
    return { file: path.basename(segment.path), offset: offsetIn(segment, address) };
  }

  async close(): Promise<void> {
    await this.#rolling;
    await this.#room?.catch(() => undefined);
    this.#options.files.close(this.#fd);
    this.#options.files.remove(nextPath(this.#options.directory));
  }

  /** See segment.ts. */
  get ledgerId(): string {
    return this.#current.ledgerId;
  }

  get #current(): Segment {
    const last = this.segments.at(-1);
    if (last === undefined) throw new Error('the log has no segment');
    return last;
  }

  #prepare(size: number): Promise<void> {
    const { files, directory, onRoomTrouble } = this.#options;
    const room = files.createZeroed(nextPath(directory), size);
    room.catch((error: unknown) => {
      // Allows the next attempt.
      this.#room = undefined;
      this.#restUntil = performance.now() + ROOM_REST_MS;
      try {
        // On a full disk its zeros would take the last space.
        files.remove(nextPath(directory));
      } catch {
        // The next attempt overwrites it.
      }
      onRoomTrouble(error);
    });
    return room;
  }

  /**
   * On return the current segment is empty and has room for `bytes` of frames, even beyond the segment size.
   */
  async #roll(ledgerId: string, bytes: number): Promise<void> {
    const { files, directory, segmentBytes } = this.#options;
    // Never creates a segment in a directory that another process has taken over.
    if (this.#fd >= 0) this.look();
    const size = Math.max(segmentBytes, SEGMENT_HEADER_BYTES + bytes);
    let fd: number;
    let held: NamedFile;
    try {
      if (size > segmentBytes) {
        // The allocated segment is too small for this batch.
        await this.#room;
        this.#room = undefined;
      }
      await (this.#room ??= this.#prepare(size));
      this.#room = undefined;
      fd = files.open(nextPath(directory), 'r+');
    } catch (error) {
      throw new NotCommitted('no room for a new segment', { cause: error });
    }
    // Read only now: a batch may have been written during the allocation. Nothing is awaited from here on.
    const end = this.#offset;
    const segment: Segment = {
      path: path.join(directory, segmentName(this.nextSequence)),
      base: this.end,
      firstSequence: this.nextSequence,
      ledgerId,
      ownBefore: this.ownEntries,
      actionBefore: this.newestAction,
    };
    const header = encodeSegmentHeader(segment, Date.now());
    try {
      files.write(fd, header, SEGMENT_HEADER_BYTES, 0);
      files.datasync(fd);
      // Read before the rename: another process could change the file under its final name.
      held = heldNow(files, nextPath(directory));
    } catch (error) {
      files.close(fd);
      throw new NotCommitted('a new segment could not be written', { cause: error });
    }
    try {
      files.rename(nextPath(directory), segment.path);
      files.syncDirectory(directory);
    } catch (error) {
      files.close(fd);
      throw this.#breakWith('the name of a new segment could not be made durable', error);
    }
    const before = this.#fd;
    this.segments.push(segment);
    this.#fd = fd;
    this.#held = held;
    this.#written = [];
    this.#remember(0, Buffer.from(header.subarray(0, READ_BACK_BYTES)));
    this.#offset = SEGMENT_HEADER_BYTES;
    if (before < 0) return;
    try {
      files.truncate(before, end);
      files.close(before);
    } catch {
      // Its frames are on stable storage; only zeros remain after them: see step 4 above.
    }
  }

  /** Zeroes the range of a partly written batch, so that a restart finds none of it. */
  #undo(bytes: number, cause: unknown): void {
    const { files } = this.#options;
    try {
      const behind = Math.min(bytes, Math.max(0, files.size(this.#fd) - this.#offset));
      files.write(this.#fd, Buffer.alloc(behind), behind, this.#offset);
      files.datasync(this.#fd);
      this.#held = { ...this.#held, size: files.size(this.#fd) };
    } catch (error) {
      throw this.#breakWith('a partly written batch could not be undone', new AggregateError([cause, error]));
    }
  }

  #lookWhenDue(): void {
    if (performance.now() - this.#lookedAt >= LOOK_EVERY_MS) this.look();
  }

  /** @returns a sentence that names the change of the current segment; undefined if there is none. */
  #change(): string | undefined {
    const { files } = this.#options;
    const file = this.#current.path;
    const { id, size } = this.#held;
    const now = files.look(file);
    if (now?.id !== id) return `${file} was removed or replaced`;
    if (now.size !== size) return `${file} was changed from ${size} to ${now.size} bytes`;
    const isThere = this.#written.every(({ offset, bytes }) =>
      this.#readBack(offset).subarray(0, bytes.length).equals(bytes),
    );
    return isThere ? undefined : `${file} was overwritten`;
  }

  /** Keeps the bytes of the header and of the newest batch. */
  #remember(offset: number, bytes: Buffer): void {
    this.#written = [...this.#written.slice(0, 1), { offset, bytes }];
  }

  #readBack(offset: number): Buffer {
    const bytes = Buffer.alloc(READ_BACK_BYTES);
    return bytes.subarray(0, this.#options.files.read(this.#fd, bytes, 0, bytes.length, offset));
  }

  #breakWith(message: string, cause?: unknown): CommitUnknown {
    this.#broken = new CommitUnknown(message, { cause });
    return this.#broken;
  }
}

/**
 * @throws StoreDamaged if a segment is shorter than the header of the next one implies: it was cut short, or
 * a segment between them is missing.
 */
function assertComplete(files: Files, segments: readonly Segment[]): void {
  segments.forEach((segment, i) => {
    const next = segments[i + 1];
    if (next === undefined) return;
    if (sizeOf(files, segment.path) >= offsetIn(segment, next.base)) return;
    const reason = `the segment does not follow ${path.basename(segment.path)}, which is too short`;
    throw damagedAt(next.path, 0, next.firstSequence, reason);
  });
}

/** The error for a log that lacks durable events at its end. */
function endsTooEarly(file: string, offset: number, sequence: number): StoreDamaged {
  return damagedAt(
    file,
    offset,
    sequence,
    'the log ends too early: the id index holds durable events after its end (if the index is of ' +
      'another copy of this ledger, delete index/)',
  );
}

/**
 * @throws StoreDamaged if the log ends before the address or the entry that the index or a checkpoint covers.
 */
function assertReaches(options: SegmentLogOptions, file: string, end: SegmentEnd): void {
  if (end.address < options.vouchedTo) throw endsTooEarly(file, end.offset, end.nextSequence);
  if (end.nextSequence > options.vouchedEntries) return;
  const reason = `the log ends too early: a checkpoint was signed over ${options.vouchedEntries} entries`;
  throw damagedAt(file, end.offset, end.nextSequence, reason);
}

/** The identity of the current segment before the log has one. */
const NOTHING_HELD: NamedFile = { id: '', size: 0 };

function heldNow(files: Files, file: string): NamedFile {
  const held = files.look(file);
  if (held === undefined) throw new Error(`${file} was removed`);
  return held;
}

function nextPath(directory: string): string {
  return path.join(directory, 'next.segment');
}

/** Reads a whole segment. The frames from offset `lastBatch` on may not be on stable storage. */
function findEnd(files: Files, segment: Segment): Found & { readonly lastBatch: number } {
  const frames = readFrames(files, [segment]);
  // The frames of a batch share one durable-before, which is their first sequence.
  let lastDurableBefore = -1;
  let lastBatch = SEGMENT_HEADER_BYTES;
  let own = 0;
  let hasEvents = false;
  let sealed: { offset: number; size: number } | undefined;
  const trail = new ActionTrail(segment.actionBefore);
  const newestOwn = new Map<number, Buffer>();
  for (;;) {
    const next = frames.next();
    if (next.done) {
      const newestSealed = sealed && bytesAt(files, segment, sealed.offset, sealed.size);
      return { end: next.value, own, newestOwn, hasEvents, newestSealed, trail, lastBatch };
    }
    const { buffer, offset: at, size, address } = next.value;
    const durableBefore = frameDurableBefore(buffer, at);
    if (durableBefore !== lastDurableBefore) {
      lastDurableBefore = durableBefore;
      lastBatch = offsetIn(segment, address);
    }
    if (!frameIsOwn(buffer, at)) {
      // A payload removed by a compaction does not show which keys the log is encrypted with.
      if (framePayloadState(buffer, at) === ERASED) continue;
      hasEvents = true;
      const isSealed = framePayloadState(buffer, at) === ENCRYPTED && sealedExtensionHolds(buffer, at);
      if (isSealed) sealed = { offset: offsetIn(segment, address), size };
      continue;
    }
    own++;
    trail.pass(buffer, at, address);
    const body = buffer.subarray(at + size - framePayloadLength(buffer, at), at + size);
    newestOwn.set(frameKind(buffer, at), Buffer.from(body));
  }
}

/** The newest encrypted frame in the segments before the last one, if the last one has no event. */
function sealedBefore(files: Files, segments: readonly Segment[], last: Found): Buffer | undefined {
  let { hasEvents } = last;
  for (let i = segments.length - 2; i >= 0 && !hasEvents; i--) {
    const segment = segments[i];
    const found = segment && findEnd(files, segment);
    if (found?.newestSealed !== undefined) return found.newestSealed;
    hasEvents = found?.hasEvents ?? false;
  }
  return undefined;
}

function repairTail(
  options: SegmentLogOptions,
  segment: Segment,
  fd: number,
  end: SegmentEnd,
  lastBatch: number,
): TornTail | undefined {
  const { files, directory } = options;
  const tail = judgeTail(files, fd, end.offset, end.nextSequence);
  if (tail.state === 'damaged') {
    files.close(fd);
    const witness = `event ${tail.witnessSequence} after it shows that it was durable`;
    const reason = `the frame is damaged (${witness})`;
    throw damagedAt(segment.path, end.offset, end.nextSequence, reason);
  }
  try {
    assertReaches(options, segment.path, end);
  } catch (error) {
    files.close(fd);
    throw error;
  }
  // The last batch may come from the page cache although its flush failed. It is written and flushed again,
  // so that it is durable before any repeat of its events is answered.
  const batch = Buffer.alloc(end.offset - lastBatch);
  files.read(fd, batch, 0, batch.length, lastBatch);
  files.write(fd, batch, batch.length, lastBatch);
  let torn: TornTail | undefined;
  if (tail.state === 'torn') {
    torn = keepTornTail(options, directory, tail.bytes, end.nextSequence);
    files.write(fd, Buffer.alloc(tail.bytes.length), tail.bytes.length, end.offset);
  }
  files.datasync(fd);
  return torn;
}

function keepTornTail(
  { files }: SegmentLogOptions,
  directory: string,
  bytes: Buffer,
  sequence: number,
): TornTail {
  const kept = path.join(directory, 'torn');
  files.makeDirectory(kept);
  // The random part keeps two starts at the same millisecond apart.
  const name = `${String(sequence).padStart(16, '0')}-${Date.now()}-${randomBytes(4).toString('hex')}.bytes`;
  const file = path.join(kept, name);
  const fd = files.open(file, 'wx+');
  try {
    files.write(fd, bytes, bytes.length, 0);
    files.datasync(fd);
  } catch (error) {
    // The start fails and may be retried many times: a partial copy must not remain each time.
    files.remove(file);
    throw error;
  } finally {
    files.close(fd);
  }
  files.syncDirectory(kept);
  return { bytes: bytes.length, keptIn: file, sequence };
}
