/**
 * The way to the disk: events that come while a write runs gather in a group, and the next write takes all of them. One
 * write is under way at a time; in `fsync` mode its flush belongs to it.
 *
 * A group is all there or not at all, as far as this process lives to see it: when its write fails, the file is cut
 * back to where it began. Nothing more is appended to that segment: its numbers are used up, by which events are sealed,
 * and after a flush that failed the kernel may have dropped what it could not write and call it clean.
 */
import path from 'node:path';
import { setImmediate } from 'node:timers';
import type { EventKind } from '@clinical-events/protocol';
import type { Backlog } from './backlog.js';
import { type Durability, type OnTrouble, SpoolClosed, SpoolFull, SpoolUnwritable } from './contract.js';
import { errorCode, isFull, type SpoolFiles } from './files.js';
import { encodeEnd, encodeFrame, frameSize } from './frame.js';
import type { ProcessDirectory } from './process-directory.js';
import type { Quarantine } from './quarantine.js';
import { encodeSegmentHeader, sealOf, SEGMENT_HEADER_BYTES, segmentId, WaitingSegment } from './segment.js';

const FIRST_BUFFER_BYTES = 64 << 10;
/** A group that has so many bytes takes no more: what waits for its write should not wait forever. */
const GROUP_BYTES = 1 << 20;
/** What may wait for a disk that does not answer, in memory; more is refused. */
const PENDING_BYTES = 32 << 20;

interface PendingEvent {
  readonly kind: EventKind;
  readonly capturedAt: number;
  /** Of its body, in the buffer of the group. */
  readonly from: number;
  readonly to: number;
}

/** Events that are written by one write, into one segment. */
class Group {
  readonly events: PendingEvent[] = [];
  #bodies = Buffer.allocUnsafe(FIRST_BUFFER_BYTES);
  #filled = 0;
  /** What their frames take. */
  bytes = 0;
  readonly settled: Promise<'durable'>;
  resolve!: (fate: 'durable') => void;
  reject!: (error: Error) => void;

  constructor() {
    this.settled = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** @param size of its frame. */
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

  /** The frames of all its events, as they stand in the segment behind what it has. */
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

/** What is written just now. */
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
  /** Called when the directory is not there any more. On return `moveTo` was called. @throws SpoolUnwritable, SpoolFull */
  readonly onHomeGone: () => Promise<void>;
}

export class Appender {
  readonly #options: AppenderOptions;
  #home: ProcessDirectory;
  /** In the order in which they are written; the first one may be under way. */
  readonly #groups: Group[] = [];
  /** The group that takes what comes next. */
  #gathering: Group | undefined;
  #pendingBytes = 0;
  #nextSegment = 0;
  /** The segment that is being written, once its file is there. */
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
      const held = `${maxBytes} bytes, ${quarantine.bytes} of them in quarantine`;
      return Promise.reject(new SpoolFull(`the spool holds ${held}, and takes no more`));
    }
    if (this.#pendingBytes > 0 && this.#pendingBytes + size > PENDING_BYTES) {
      return Promise.reject(new SpoolFull(`${PENDING_BYTES} bytes wait for the disk to be written`));
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

  /** On return all that was appended before has been made durable or refused. */
  async flush(): Promise<void> {
    await Promise.allSettled(this.#groups.map((group) => group.settled));
  }

  /** Refuses all that comes from now on. */
  refuse(error: Error): void {
    this.#refusal = error;
  }

  /** What is written from now on goes there, but for a write that is under way. */
  moveTo(home: ProcessDirectory): void {
    this.#home = home;
    this.#nextSegment = 0;
  }

  /** Refuses what comes from now on. On return what came before is durable or refused, and the segment has its end. */
  async close(): Promise<void> {
    this.refuse(new SpoolClosed('the spool is closed'));
    await this.#working;
    await this.#finish();
  }

  /**
   * At the end of the process: writes all that has not been written, one way or another. What is under way is written
   * again: both put the same bytes in the same place.
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

  /** Events that are not written. */
  get unwritten(): number {
    return this.#groups.reduce((sum, { events }) => sum + events.length, 0);
  }

  /** Where the group goes, and its frames there. */
  #writeOf(group: Group): Write {
    const { segmentBytes, key } = this.#options;
    let segment = this.#isHome ? this.#open?.segment : undefined;
    if (!segment || (segment.events > 0 && segment.end + group.bytes > segmentBytes)) {
      const id = segmentId(this.#home.series, this.#nextSegment++);
      segment = new WaitingSegment(this.#home.path, id, key && sealOf(key, id));
    }
    return { group, segment, frames: group.encode(segment) };
  }

  /** Whether the segment that is open is in the directory of this spool. */
  get #isHome(): boolean {
    return this.#open !== undefined && path.dirname(this.#open.segment.path) === this.#home.path;
  }

  async #work(): Promise<void> {
    // What is appended in this turn of the event loop goes with the first.
    await new Promise((resolve) => setImmediate(resolve));
    for (let group = this.#groups[0]; group; group = this.#groups[0]) {
      if (this.#gathering === group) this.#gathering = undefined;
      const failure = await this.#settle(group);
      // At the end of the process all is written by then.
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

  /** Writes the group, into another directory if the one of this spool is gone. @returns why it is refused. */
  async #settle(group: Group): Promise<Error | undefined> {
    for (let moves = 0; ; moves++) {
      const failure = await this.#attempt(group);
      if (failure !== 'home gone') return failure;
      if (moves > 0) return new SpoolUnwritable(`${this.#home.path} was taken away`);
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
      // Whoever took this process for dead has renamed the file, and may not have found this write in it.
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
        ? new SpoolFull('there is no room on the disk', { cause: error })
        : new SpoolUnwritable('the event could not be written', { cause: error });
    } finally {
      this.#write = undefined;
    }
    segment.firstCapturedAt ??= group.events[0]?.capturedAt;
    backlog.appended(segment, group.events.length, frames.length);
    return undefined;
  }

  /** On return the segment's file is there, with its header and, in `fsync` mode, its name on stable storage. */
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

  /** Ends the segment that was written so far. Without the frame that ends it, whoever adopts it reads it to count. */
  async #finish(): Promise<void> {
    if (!this.#open) return;
    const { files, onTrouble } = this.#options;
    const { segment, fd } = this.#open;
    try {
      await files.write(fd, encodeEnd(segment.context, segment.events, Date.now()), segment.end);
    } catch (error) {
      onTrouble('the end of a segment could not be written; its events are there', error);
    }
    await this.#leave();
  }

  /** Nothing more is appended to the segment that is open; what was acknowledged in it stays. */
  async #leave(): Promise<void> {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    await this.#close(open.fd);
    this.#options.backlog.complete(open.segment);
  }

  /** Leaves the segment. @returns whether nothing of a group that could not be written is there any more. */
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

  /** Takes back a segment that has been made and holds nothing. */
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
