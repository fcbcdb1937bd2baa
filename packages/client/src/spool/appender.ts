/**
 * The way to the disk: events that come while a write runs gather in a group, and the next write takes all of them. One
 * write is under way at a time; in `fsync` mode its flush belongs to it.
 *
 * A group is all there or not at all, as far as this process lives to see it: when its write fails, the file is cut
 * back to where it began. After a flush that failed nothing more is appended to that segment, because the kernel may
 * have dropped what it could not write and call it clean.
 */
import { setImmediate } from 'node:timers';
import type { EventKind } from '@clinical-events/protocol';
import type { Backlog } from './backlog.js';
import { type Durability, type OnTrouble, SpoolClosed, SpoolFull, SpoolUnwritable } from './contract.js';
import { isFull, type SpoolFiles } from './files.js';
import { encodeEnd, encodeFrame, frameSize } from './frame.js';
import type { Quarantine } from './quarantine.js';
import { encodeSegmentHeader, sealOf, SEGMENT_HEADER_BYTES, segmentId, WaitingSegment } from './segment.js';

const FIRST_BUFFER_BYTES = 64 << 10;
/** A group that has so many bytes takes no more: what waits for its write should not wait forever. */
const GROUP_BYTES = 1 << 20;
/** What may wait for a disk that does not answer, in memory; more is refused. */
const PENDING_BYTES = 32 << 20;

/** Events that are written by one write. */
class Group {
  readonly segment: WaitingSegment;
  buffer: Buffer;
  bytes = 0;
  events = 0;
  readonly settled: Promise<'durable'>;
  resolve!: (fate: 'durable') => void;
  reject!: (error: Error) => void;

  constructor(segment: WaitingSegment, buffer: Buffer) {
    this.segment = segment;
    this.buffer = buffer;
    this.settled = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** Room for so many bytes behind those that it has. */
  room(bytes: number): void {
    const needed = this.bytes + bytes;
    if (needed <= this.buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.buffer.length));
    this.buffer.copy(larger, 0, 0, this.bytes);
    this.buffer = larger;
  }
}

export interface AppenderOptions {
  readonly files: SpoolFiles;
  readonly directory: string;
  readonly series: string;
  readonly durability: Durability;
  readonly key: Uint8Array | undefined;
  readonly segmentBytes: number;
  readonly maxBytes: number;
  readonly backlog: Backlog;
  readonly quarantine: Pick<Quarantine, 'bytes'>;
  readonly onTrouble: OnTrouble;
  /** Called when events have become durable. */
  readonly onAppended: () => void;
}

export class Appender {
  readonly #options: AppenderOptions;
  /** In the order in which they are written; the first one may be under way. */
  readonly #groups: Group[] = [];
  /** The group that takes what comes next. */
  #gathering: Group | undefined;
  #spare: Buffer | undefined;
  #pendingBytes = 0;
  /** The segment that the latest group goes to, and how long it will be. */
  #segment: WaitingSegment | undefined;
  #planned = 0;
  #nextSegment = 0;
  #nextNumber = 0;
  /** The segment that is being written, once its file is there. */
  #open: { segment: WaitingSegment; fd: number } | undefined;
  /** The segment that nothing more is appended to, and why what was meant for it is refused. */
  #over: { segment: WaitingSegment; reason: Error } | undefined;
  #working: Promise<void> | undefined;
  #refusal: Error | undefined;

  constructor(options: AppenderOptions) {
    this.#options = options;
  }

  /** See `Spool.append`. */
  append(kind: EventKind, body: Uint8Array): Promise<'durable'> {
    if (this.#refusal) return Promise.reject(this.#refusal);
    const { maxBytes, backlog, quarantine } = this.#options;
    // 64 bytes more than needed at most: the seal is not known yet.
    const estimate = body.length + SEGMENT_HEADER_BYTES;
    if (backlog.storedBytes + quarantine.bytes + this.#pendingBytes + estimate > maxBytes) {
      const held = `${maxBytes} bytes, ${quarantine.bytes} of them in quarantine`;
      return Promise.reject(new SpoolFull(`the spool holds ${held}, and takes no more`));
    }
    if (this.#pendingBytes > 0 && this.#pendingBytes + estimate > PENDING_BYTES) {
      return Promise.reject(new SpoolFull(`${PENDING_BYTES} bytes wait for the disk to be written`));
    }
    const group = this.#groupFor(body.length);
    const { context } = group.segment;
    const size = frameSize(body.length, context);
    const capturedAt = Date.now();
    group.room(size);
    encodeFrame(group.buffer, group.bytes, context, kind, capturedAt, this.#nextNumber++, body);
    group.segment.firstCapturedAt ??= capturedAt;
    group.bytes += size;
    group.events++;
    this.#planned += size;
    this.#pendingBytes += size;
    if (group.bytes >= GROUP_BYTES) this.#gathering = undefined;
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
      const { segment } = group;
      if (this.#open?.segment !== segment) {
        this.#open = { segment, fd: files.openNow(segment.path) };
        files.writeNow(this.#open.fd, encodeSegmentHeader(segment.id, segment.context.seal), 0);
      }
      files.writeNow(this.#open.fd, group.buffer.subarray(0, group.bytes), segment.end);
      if (durability === 'fsync') files.datasyncNow(this.#open.fd);
      segment.end += group.bytes;
      this.#groups.shift();
    }
  }

  /** Events that are not written. */
  get unwritten(): number {
    return this.#groups.reduce((sum, { events }) => sum + events, 0);
  }

  /** The group for a body of so many bytes. */
  #groupFor(bytes: number): Group {
    const { segmentBytes } = this.#options;
    const segment = this.#segment;
    const fits =
      segment !== undefined &&
      segment !== this.#over?.segment &&
      (this.#planned === SEGMENT_HEADER_BYTES ||
        this.#planned + frameSize(bytes, segment.context) <= segmentBytes);
    const target = fits ? segment : this.#newSegment();
    if (this.#gathering?.segment === target) return this.#gathering;
    const group = new Group(target, this.#spare ?? Buffer.allocUnsafe(FIRST_BUFFER_BYTES));
    this.#spare = undefined;
    this.#gathering = group;
    this.#groups.push(group);
    this.#working ??= this.#work();
    return group;
  }

  #newSegment(): WaitingSegment {
    const { series, directory, key } = this.#options;
    // Its end is written later, and must not take a number from among those of the next segment.
    if (this.#segment) this.#segment.endNumber = this.#nextNumber++;
    const id = segmentId(series, this.#nextSegment++);
    this.#segment = new WaitingSegment(directory, id, key && sealOf(key, id));
    this.#planned = SEGMENT_HEADER_BYTES;
    return this.#segment;
  }

  async #work(): Promise<void> {
    // What is appended in this turn of the event loop goes with the first.
    await new Promise((resolve) => setImmediate(resolve));
    for (let group = this.#groups[0]; group; group = this.#groups[0]) {
      if (this.#gathering === group) this.#gathering = undefined;
      const failure = await this.#write(group);
      // At the end of the process all is written by then.
      if (this.#groups[0] === group) this.#groups.shift();
      this.#pendingBytes -= group.bytes;
      if (failure) {
        if (group.segment === this.#segment) this.#planned -= group.bytes;
        group.reject(failure);
      } else {
        this.#options.backlog.appended(group.segment, group.events, group.bytes);
        group.resolve('durable');
        this.#options.onAppended();
      }
      if (group.buffer.length <= GROUP_BYTES) this.#spare ??= group.buffer;
    }
    this.#working = undefined;
  }

  async #write(group: Group): Promise<Error | undefined> {
    const { files, durability } = this.#options;
    const { segment } = group;
    if (segment === this.#over?.segment) return this.#over.reason;
    let written = false;
    try {
      const fd = await this.#turnTo(segment);
      await files.write(fd, group.buffer.subarray(0, group.bytes), segment.end);
      written = true;
      if (durability === 'fsync') await files.datasync(fd);
      return undefined;
    } catch (error) {
      const undone = await this.#undo(segment);
      if (written || !undone) await this.#abandon(segment);
      if (!undone) {
        const message = 'the event could be neither made durable nor taken back';
        return new SpoolUnwritable(message, { cause: error, uncertain: true });
      }
      if (!isFull(error)) return new SpoolUnwritable('the event could not be written', { cause: error });
      const reason = new SpoolFull('there is no room on the disk', { cause: error });
      if (this.#open?.segment === segment) {
        // Only its going makes room, and it goes once it is sent and no more can be appended to it.
        this.#over = { segment, reason };
        await this.#finish();
      }
      return reason;
    }
  }

  /** On return the segment's file is there, with its header and, in `fsync` mode, its name on stable storage. */
  async #turnTo(segment: WaitingSegment): Promise<number> {
    if (this.#open?.segment === segment) return this.#open.fd;
    await this.#finish();
    const { files, durability, directory, backlog } = this.#options;
    const fd = await files.open(segment.path, 'new');
    try {
      await files.write(fd, encodeSegmentHeader(segment.id, segment.context.seal), 0);
      if (durability === 'fsync') await files.syncDirectory(directory);
    } catch (error) {
      await this.#discard(segment, fd);
      throw error;
    }
    this.#open = { segment, fd };
    backlog.begin(segment);
    return fd;
  }

  /** Ends the segment that was written so far. Only a reader that counts misses the frame that ends it. */
  async #finish(): Promise<void> {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    const { files, onTrouble, backlog } = this.#options;
    const { segment, fd } = open;
    try {
      const number = segment.endNumber ?? this.#nextNumber++;
      const end = encodeEnd(segment.context, segment.events, Date.now(), number);
      await files.write(fd, end, segment.end);
    } catch (error) {
      onTrouble('the end of a segment could not be written; its events are there', error);
    }
    await this.#close(fd);
    backlog.complete(segment);
  }

  /** @returns whether nothing of a group that could not be written is there any more. */
  async #undo(segment: WaitingSegment): Promise<boolean> {
    const { files, durability } = this.#options;
    if (this.#open?.segment !== segment) return true;
    try {
      await files.truncate(this.#open.fd, segment.end);
      if (durability === 'fsync') await files.datasync(this.#open.fd);
      return true;
    } catch {
      return false;
    }
  }

  /** Nothing more is appended to the segment; what was acknowledged in it stays. */
  async #abandon(segment: WaitingSegment): Promise<void> {
    this.#over = { segment, reason: unwritable() };
    const open = this.#open;
    if (open?.segment !== segment) return;
    this.#open = undefined;
    await this.#close(open.fd);
    this.#options.backlog.complete(segment);
  }

  /** Takes back a segment that has been made and holds nothing. */
  async #discard(segment: WaitingSegment, fd: number): Promise<void> {
    await this.#close(fd);
    try {
      await this.#options.files.remove(segment.path);
    } catch (error) {
      // Its name is taken: the next one gets another.
      this.#over = { segment, reason: unwritable() };
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

function unwritable(): SpoolUnwritable {
  return new SpoolUnwritable('the segment that it was meant for cannot be written');
}
