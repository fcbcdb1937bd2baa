/**
 * Writes events to segments. Events that arrive during a write form a group, which the next write stores as a
 * whole. One write, with its flush in `fsync` mode, is in progress at a time.
 *
 * After a failed write the file is truncated to the start of the group, and nothing more is appended to that
 * segment: its frame numbers are used, and after a failed flush the kernel may have dropped unwritten pages.
 */
import path from 'node:path';
import { setImmediate } from 'node:timers';
import type { EventKind } from '@clinical-events/protocol';
import type { Backlog } from './backlog.js';
import { errorCode, isFull, type SpoolFiles } from './files.js';
import type { ProcessDirectory } from './process-directory.js';
import {
  encodeEnd,
  encodeFrame,
  encodeSegmentHeader,
  frameSize,
  sealOf,
  SEGMENT_HEADER_BYTES,
  segmentId,
  WaitingSegment,
} from './segment.js';
import type { Quarantine } from './set-aside.js';
import { type Durability, type OnTrouble, SpoolClosed, SpoolFull, SpoolUnwritable } from './spool.js';

const FIRST_BUFFER_BYTES = 64 << 10;
/** A group of this size is closed, so that its write does not take too long. */
const GROUP_BYTES = 1 << 20;
/** Limit of the events in memory that wait for a write. More are refused. */
const PENDING_BYTES = 32 << 20;

interface PendingEvent {
  readonly kind: EventKind;
  readonly capturedAt: number;
  /** Offset of the body in the buffer of the group. */
  readonly from: number;
  readonly to: number;
}

/** Events that one write stores in one segment. */
class Group {
  readonly events: PendingEvent[] = [];
  #bodies = Buffer.allocUnsafe(FIRST_BUFFER_BYTES);
  #filled = 0;
  /** Size of their frames. */
  bytes = 0;
  readonly settled: Promise<'durable'>;
  resolve!: (outcome: 'durable') => void;
  reject!: (error: Error) => void;

  constructor() {
    this.settled = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** @param size bytes of its frame. */
  add(kind: EventKind, capturedAt: number, body: Uint8Array, size: number): void {
    const to = this.#filled + body.length;
    if (to > this.#bodies.length) {
      const larger = Buffer.allocUnsafe(Math.max(to, 2 * this.#bodies.length));
      this.#bodies.copy(larger, 0, 0, this.#filled);
      this.#bodies = larger;
    }
    this.#bodies.set(body, this.#filled);
    this.events.push({ kind, capturedAt, from: this.#filled, to });
    this.#filled = to;
    this.bytes += size;
  }

  /** The frames to append to the segment. */
  encode({ context, events: number }: WaitingSegment): Buffer {
    const frames = Buffer.allocUnsafe(this.bytes);
    let at = 0;
    this.events.forEach(({ kind, capturedAt, from, to }, i) => {
      encodeFrame(frames, at, context, kind, capturedAt, number + i, this.#bodies.subarray(from, to));
      at += frameSize(to - from, context);
    });
    return frames;
  }
}

/** The write in progress. */
interface Write {
  readonly group: Group;
  readonly segment: WaitingSegment;
  readonly frames: Buffer;
}

export interface AppenderOptions {
  readonly files: SpoolFiles;
  readonly home: ProcessDirectory;
  readonly durability: Durability;
  readonly key: Uint8Array | undefined;
  readonly segmentBytes: number;
  readonly maxBytes: number;
  readonly backlog: Backlog;
  readonly quarantine: Pick<Quarantine, 'bytes'>;
  readonly onTrouble: OnTrouble;
  /** Called when events have become durable. */
  readonly onAppended: () => void;
  /** Called when the directory no longer exists. Calls `moveTo`. @throws SpoolUnwritable, SpoolFull */
  readonly onHomeGone: () => Promise<void>;
}

export class Appender {
  readonly #options: AppenderOptions;
  #home: ProcessDirectory;
  /** In the order of their writes; the first may be in progress. */
  readonly #groups: Group[] = [];
  /** The group that receives the next events. */
  #gathering: Group | undefined;
  #pendingBytes = 0;
  #nextSegment = 0;
  /** The current segment, once its file exists. */
  #open: { segment: WaitingSegment; fd: number } | undefined;
  #write: Write | undefined;
  #working: Promise<void> | undefined;
  #refusal: Error | undefined;

  constructor(options: AppenderOptions) {
    this.#options = options;
    this.#home = options.home;
  }

  /** See `Spool.append`. */
  append(kind: EventKind, body: Uint8Array): Promise<'durable'> {
    if (this.#refusal) return Promise.reject(this.#refusal);
    const { maxBytes, segmentBytes, backlog, quarantine, key } = this.#options;
    const size = frameSize(body.length, { seal: key });
    if (
      backlog.storedBytes + quarantine.bytes + this.#pendingBytes + size + SEGMENT_HEADER_BYTES >
      maxBytes
    ) {
      const limit = `${maxBytes} bytes, including ${quarantine.bytes} in quarantine`;
      return Promise.reject(new SpoolFull(`the spool has reached its limit of ${limit}`));
    }
    if (this.#pendingBytes > 0 && this.#pendingBytes + size > PENDING_BYTES) {
      return Promise.reject(new SpoolFull(`more than ${PENDING_BYTES} bytes wait to be written to disk`));
    }
    let group = this.#gathering;
    if (!group || group.bytes + size > Math.min(GROUP_BYTES, segmentBytes - SEGMENT_HEADER_BYTES)) {
      group = new Group();
      this.#gathering = group;
      this.#groups.push(group);
      this.#working ??= this.#work();
    }
    group.add(kind, Date.now(), body, size);
    this.#pendingBytes += size;
    return group.settled;
  }

  /** On return all earlier appends are durable or refused. */
  async flush(): Promise<void> {
    await Promise.allSettled(this.#groups.map((group) => group.settled));
  }

  /** Refuses later appends. */
  refuse(error: Error): void {
    this.#refusal = error;
  }

  /** Later writes go to this directory. */
  moveTo(home: ProcessDirectory): void {
    this.#home = home;
    this.#nextSegment = 0;
  }

  /** Refuses later appends. On return earlier ones are durable or refused, and the segment is complete. */
  async close(): Promise<void> {
    this.refuse(new SpoolClosed('the spool is closed'));
    await this.#working;
    await this.#finish();
  }

  /**
   * Writes all pending events synchronously, at the end of the process. The write in progress is repeated:
   * both store the same bytes at the same place.
   */
  writeNow(): void {
    this.refuse(new SpoolClosed('the process is ending'));
    const { files, durability } = this.#options;
    for (let group = this.#groups[0]; group; group = this.#groups[0]) {
      const { segment, frames } = this.#write?.group === group ? this.#write : this.#writeOf(group);
      if (this.#open?.segment !== segment) {
        this.#open = { segment, fd: files.openNow(segment.path) };
        files.writeNow(this.#open.fd, encodeSegmentHeader(segment.id, segment.context.seal), 0);
      }
      files.writeNow(this.#open.fd, frames, segment.end);
      if (durability === 'fsync') files.datasyncNow(this.#open.fd);
      segment.end += frames.length;
      segment.events += group.events.length;
      this.#groups.shift();
    }
  }

  /** Number of events that are not written. */
  get unwritten(): number {
    return this.#groups.reduce((sum, { events }) => sum + events.length, 0);
  }

  /** Chooses the segment of the group, and encodes its frames. */
  #writeOf(group: Group): Write {
    const { segmentBytes, key } = this.#options;
    let segment = this.#isHome ? this.#open?.segment : undefined;
    if (!segment || (segment.events > 0 && segment.end + group.bytes > segmentBytes)) {
      const id = segmentId(this.#home.series, this.#nextSegment++);
      segment = new WaitingSegment(this.#home.path, id, key && sealOf(key, id));
    }
    return { group, segment, frames: group.encode(segment) };
  }

  /** Whether the open segment is in the current directory. */
  get #isHome(): boolean {
    return this.#open !== undefined && path.dirname(this.#open.segment.path) === this.#home.path;
  }

  async #work(): Promise<void> {
    // The first group includes all events of this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    for (let group = this.#groups[0]; group; group = this.#groups[0]) {
      if (this.#gathering === group) this.#gathering = undefined;
      const failure = await this.#settle(group);
      // writeNow may have removed the group.
      if (this.#groups[0] === group) this.#groups.shift();
      this.#pendingBytes -= group.bytes;
      if (failure) group.reject(failure);
      else {
        group.resolve('durable');
        this.#options.onAppended();
      }
    }
    this.#working = undefined;
  }

  /**
   * Writes the group, to a new directory if the current one is gone.
   * @returns the error if the group is refused.
   */
  async #settle(group: Group): Promise<Error | undefined> {
    for (let moves = 0; ; moves++) {
      const failure = await this.#attempt(group);
      if (failure !== 'home gone') return failure;
      if (moves > 0) return new SpoolUnwritable(`${this.#home.path} was removed`);
      try {
        await this.#options.onHomeGone();
      } catch (error) {
        return error as Error;
      }
    }
  }

  async #attempt(group: Group): Promise<Error | 'home gone' | undefined> {
    const { files, durability, backlog } = this.#options;
    const write = this.#writeOf(group);
    const { segment, frames } = write;
    this.#write = write;
    try {
      const fd = await this.#turnTo(segment);
      await files.write(fd, frames, segment.end);
      if (durability === 'fsync') await files.datasync(fd);
      // ENOENT: another process adopted the segment, and may have read it before this write.
      await files.touchedAt(segment.path);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') {
        await this.#leave();
        return 'home gone';
      }
      if (!(await this.#undone(segment))) {
        const message = 'the event could be neither made durable nor taken back';
        return new SpoolUnwritable(message, { cause: error, uncertain: true });
      }
      return isFull(error)
        ? new SpoolFull('the disk is full', { cause: error })
        : new SpoolUnwritable('the event could not be written', { cause: error });
    } finally {
      this.#write = undefined;
    }
    segment.firstCapturedAt ??= group.events[0]?.capturedAt;
    backlog.appended(segment, group.events.length, frames.length);
    return undefined;
  }

  /** On return the segment's file exists with its header; in `fsync` mode its name is on stable storage. */
  async #turnTo(segment: WaitingSegment): Promise<number> {
    if (this.#open?.segment === segment) return this.#open.fd;
    await (this.#isHome ? this.#finish() : this.#leave());
    const { files, durability, backlog } = this.#options;
    const fd = await files.open(segment.path, 'new');
    try {
      await files.write(fd, encodeSegmentHeader(segment.id, segment.context.seal), 0);
      if (durability === 'fsync') await files.syncDirectory(this.#home.path);
    } catch (error) {
      await this.#discard(segment, fd);
      throw error;
    }
    this.#open = { segment, fd };
    backlog.begin(segment);
    return fd;
  }

  /**
   * Ends the current segment. Without its end frame, an adopter must read the segment to count its events.
   */
  async #finish(): Promise<void> {
    if (!this.#open) return;
    const { files, onTrouble } = this.#options;
    const { segment, fd } = this.#open;
    try {
      await files.write(fd, encodeEnd(segment.context, segment.events, Date.now()), segment.end);
    } catch (error) {
      onTrouble('the end of a segment could not be written; its events are intact', error);
    }
    await this.#leave();
  }

  /** Closes the current segment. */
  async #leave(): Promise<void> {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    await this.#close(open.fd);
    this.#options.backlog.complete(open.segment);
  }

  /** Leaves the segment after a failed write. @returns whether the group was removed from it. */
  async #undone(segment: WaitingSegment): Promise<boolean> {
    const { files, durability } = this.#options;
    if (this.#open?.segment !== segment) return true;
    let undone = true;
    try {
      await files.truncate(this.#open.fd, segment.end);
      if (durability === 'fsync') await files.datasync(this.#open.fd);
    } catch {
      undone = false;
    }
    await this.#leave();
    return undone;
  }

  /** Removes a new segment without events. */
  async #discard(segment: WaitingSegment, fd: number): Promise<void> {
    await this.#close(fd);
    try {
      await this.#options.files.remove(segment.path);
    } catch (error) {
      this.#options.onTrouble('a segment without events could not be removed', error);
    }
  }

  async #close(fd: number): Promise<void> {
    try {
      await this.#options.files.close(fd);
    } catch (error) {
      this.#options.onTrouble('a segment could not be closed', error);
    }
  }
}
