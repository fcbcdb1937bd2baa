/**
 * The waiting events: segments in the order of reading, taken events, and marks of done events. For events
 * that are not taken, it keeps only a count, so a million waiting events need no memory.
 */
import { survey } from './adoption.js';
import { errorCode, type SpoolFiles } from './files.js';
import {
  encodeMarks,
  type FoundFrame,
  FrameCount,
  loadMarks,
  type LostBytes,
  SegmentReader,
  type WaitingSegment,
} from './segment.js';
import { DamagedFiles } from './set-aside.js';
import type { OnDamage, OnTrouble, SpooledEvent } from './spool.js';

interface TakenEvent extends SpooledEvent {
  readonly segment: WaitingSegment;
  /** Size of its frame in bytes. */
  readonly size: number;
}

interface Reading {
  readonly segment: WaitingSegment;
  readonly fd: number;
  readonly reader: SegmentReader;
  /** Offsets of events that were done before this reading. */
  readonly done: ReadonlySet<number>;
  readonly count: FrameCount;
  /** Time of capture of the last event read. */
  readAt: number | undefined;
}

/** The events gathered by one call of `collect`, and the bytes that it may still take. */
interface Batch {
  readonly events: TakenEvent[];
  readonly count: number;
  bytes: number;
}

const hasRoom = ({ events, count, bytes }: Batch) => events.length < count && bytes > 0;

const NONE: ReadonlySet<number> = new Set();

export class Backlog {
  waiting = 0;
  waitingBytes = 0;
  /** Size of all segments, including done ones that are not removed. */
  storedBytes = 0;
  /** Interrupted writes in segments of other processes. */
  cut = 0;
  readonly #files: SpoolFiles;
  readonly #damaged: DamagedFiles;
  readonly #onTrouble: OnTrouble;
  readonly #onDamage: OnDamage;
  readonly #until: AbortSignal | undefined;
  /** Segments not read to the end, in the order of reading. This spool's own segments are last. */
  readonly #toRead: WaitingSegment[] = [];
  /** Open readings: at most one of an adopted segment, and one of the segment that this spool writes. */
  readonly #readings = new Map<WaitingSegment, Reading>();
  readonly #taken = new Set<TakenEvent>();
  /** Done segments that must not be removed yet: see `WaitingSegment.restsUntil`. */
  readonly #resting = new Set<WaitingSegment>();
  /** Events given back, oldest first. */
  #back: TakenEvent[] = [];
  #backFirst = false;
  readonly notes: DoneNotes;

  /** @param until see `SpoolOptions.reading`. */
  constructor(
    files: SpoolFiles,
    root: string,
    onTrouble: OnTrouble,
    onDamage: OnDamage = () => undefined,
    until?: AbortSignal,
  ) {
    this.#files = files;
    this.#onDamage = onDamage;
    this.#until = until;
    this.#damaged = new DamagedFiles(files, root);
    this.#onTrouble = onTrouble;
    this.notes = new DoneNotes(files, onTrouble);
  }

  /** Lower bound of the time of capture of waiting events; undefined if none waits. */
  get oldest(): number | undefined {
    if (this.waiting === 0) return undefined;
    let oldest = Infinity;
    for (const event of this.#taken) oldest = Math.min(oldest, event.capturedAt);
    for (const event of this.#back) oldest = Math.min(oldest, event.capturedAt);
    const unread = this.#toRead.find((segment) => segment.unread.events > 0);
    const begun = unread && this.#readings.get(unread)?.readAt;
    oldest = Math.min(oldest, begun ?? unread?.firstCapturedAt ?? Infinity);
    return Number.isFinite(oldest) ? oldest : undefined;
  }

  /** Adds a segment that is read last and still grows. */
  begin(segment: WaitingSegment): void {
    this.#toRead.push(segment);
    this.storedBytes += segment.end;
  }

  /** Adds segments that other spools left. They are read before this spool's own segments. */
  adopt(segments: readonly WaitingSegment[]): void {
    for (const segment of segments) {
      this.storedBytes += segment.end;
      this.waiting += segment.unread.events;
      this.waitingBytes += segment.unread.bytes;
    }
    const own = this.#toRead.findIndex((segment) => segment.own);
    this.#toRead.splice(own < 0 ? this.#toRead.length : own, 0, ...segments);
    for (const segment of segments) this.#finish(segment);
  }

  /** Counts durable events appended to the segment. */
  appended(segment: WaitingSegment, events: number, bytes: number): void {
    segment.end += bytes;
    segment.events += events;
    segment.unread.events += events;
    segment.unread.bytes += bytes;
    this.waiting += events;
    this.waitingBytes += bytes;
    this.storedBytes += bytes;
  }

  /** No further events will be appended to the segment. */
  complete(segment: WaitingSegment): void {
    segment.complete = true;
    this.#finish(segment);
  }

  /**
   * The events available now: see `Spool.take`. Events given back come first in every other call, so that
   * neither they nor new ones starve. One call at a time.
   */
  async collect(count: number, bytes: number): Promise<TakenEvent[]> {
    const batch: Batch = { events: [], count, bytes };
    this.#backFirst = !this.#backFirst;
    if (this.#backFirst) this.#collectBack(batch);
    await this.#collectUnread(batch);
    if (!this.#backFirst) this.#collectBack(batch);
    return batch.events;
  }

  /** No effect on an event that is not taken. */
  done(event: SpooledEvent): void {
    if (!this.isOut(event)) return;
    this.#taken.delete(event);
    const { segment, size } = event;
    this.waiting--;
    this.waitingBytes -= size;
    segment.left--;
    this.notes.add(segment, event.position.offset);
    this.#finish(segment);
  }

  giveBack(event: SpooledEvent): void {
    if (!this.isOut(event)) return;
    this.#taken.delete(event);
    this.#back.push(event);
  }

  isOut(event: SpooledEvent): event is TakenEvent {
    return this.#taken.has(event as TakenEvent);
  }

  /**
   * Recounts the segments whose rest is over. Events appended meanwhile become waiting events; segments
   * without any are removed.
   */
  async endRests(): Promise<void> {
    const rested = [...this.#resting].filter(({ restsUntil }) => restsUntil <= performance.now());
    if (rested.length > 0) await this.notes.written();
    for (const segment of rested) {
      this.#resting.delete(segment);
      this.storedBytes -= segment.end;
      try {
        await survey(this.#files, segment);
        this.adopt([segment]);
      } catch (error) {
        this.#onTrouble(`segment ${segment.name} could not be counted again`, error);
      }
    }
  }

  /** Writes the marks of done events, and closes all files. */
  async close(): Promise<void> {
    await this.notes.written();
    const readings = [...this.#readings.values()];
    this.#readings.clear();
    for (const { fd } of readings) await this.#close(fd);
  }

  #collectBack(batch: Batch): void {
    let given = 0;
    while (given < this.#back.length && hasRoom(batch)) this.#give(batch, this.#back[given++] as TakenEvent);
    if (given > 0) this.#back = this.#back.slice(given);
  }

  async #collectUnread(batch: Batch): Promise<void> {
    while (hasRoom(batch) && !this.#until?.aborted) {
      const segment = this.#toRead[0];
      if (!segment || (segment.own && !segment.complete && segment.unread.events === 0)) return;
      const reading = this.#readings.get(segment) ?? (await this.#open(segment));
      if (!reading) continue;
      const step = reading.reader.step(segment.end);
      if (step === 'more') await reading.reader.more(segment.end);
      else if (step === 'end') {
        if (!segment.complete) return;
        await this.#endReading(reading);
      } else if (step.frame) {
        const event = this.#met(reading, step);
        if (event) this.#give(batch, event);
      } else await this.#setAside(reading, step);
    }
  }

  #give(batch: Batch, event: TakenEvent): void {
    this.#taken.add(event);
    batch.events.push(event);
    batch.bytes -= event.body.length;
  }

  async #open(segment: WaitingSegment): Promise<Reading | undefined> {
    let fd: number | undefined;
    try {
      fd = await this.#files.open(segment.path, 'read');
      const done = segment.own ? NONE : await loadMarks(this.#files, segment);
      const reader = new SegmentReader(this.#files, fd, segment.context);
      const reading = { segment, fd, reader, done, count: new FrameCount(), readAt: undefined };
      this.#readings.set(segment, reading);
      return reading;
    } catch (error) {
      // Reading continues with the next segment. ENOENT: another spool adopted this one.
      if (errorCode(error) !== 'ENOENT')
        this.#onTrouble(
          `segment ${segment.name} cannot be opened; its events wait for the next start`,
          error,
        );
      if (fd !== undefined) await this.#close(fd);
      this.#pass(segment);
      this.#forget(segment);
      return undefined;
    }
  }

  #met(reading: Reading, found: FoundFrame): TakenEvent | undefined {
    const { segment, done, count } = reading;
    const { frame, offset, size } = found;
    count.meet(found, done);
    if (frame.kind === undefined || done.has(offset)) return undefined;
    reading.readAt = frame.capturedAt;
    segment.unread.events--;
    segment.unread.bytes -= size;
    segment.left++;
    const { kind, body, capturedAt } = frame;
    return { position: { segment: segment.name, offset }, kind, body, capturedAt, segment, size };
  }

  async #setAside({ segment, fd, count }: Reading, lost: LostBytes): Promise<void> {
    // In a segment of this spool, all bytes before `end` were acknowledged.
    if (!segment.own && count.isCut(lost)) {
      this.cut++;
      return;
    }
    const what =
      `${lost.size} bytes at ${lost.offset} of segment ${segment.name} are not a frame` +
      (lost.atEnd ? ', and no frame follows' : '');
    let file: string | undefined;
    try {
      file = await this.#damaged.keep(segment.name, fd, lost);
      this.#onTrouble(`${what}; ${file === undefined ? 'they are zeros' : `kept in ${file}`}`, undefined);
    } catch (error) {
      segment.keep = true;
      this.#onTrouble(`${what}; the segment is kept for the next start`, error);
    }
    const { offset, size: bytes } = lost;
    this.#onDamage({ segment: segment.name, lost: { offset, bytes }, missing: 0, kept: file });
  }

  /** Notes missing events in `damaged/` before the segment, their last trace, is removed. */
  async #noteMissing(segment: WaitingSegment, missing: number): Promise<void> {
    const { name } = segment;
    let kept: string | undefined;
    let failure: unknown;
    try {
      kept = await this.#damaged.note(name, missing);
    } catch (error) {
      segment.keep = true;
      failure = error;
    }
    this.#onTrouble(`segment ${name} is damaged: ${missing} of its events are missing`, failure);
    this.#onDamage({ segment: name, lost: undefined, missing, kept });
  }

  async #endReading(reading: Reading): Promise<void> {
    const { segment, fd, reader, count } = reading;
    const unread = segment.unread.events;
    const missing = segment.own ? unread : Math.max(unread, count.missing);
    if (reader.unreadable !== undefined) {
      // The disk may be readable at the next start.
      segment.keep = true;
      if (unread > 0) {
        this.#onTrouble(`${unread} events of segment ${segment.name} cannot be read`, reader.unreadable);
      }
    } else if (missing > 0) await this.#noteMissing(segment, missing);
    // Do not await between here and #finish: the last event could become done meanwhile, and the segment
    // would be finished twice.
    this.#pass(segment);
    segment.readToEnd = true;
    const { events, bytes } = segment.unread;
    this.waiting -= events;
    this.waitingBytes -= bytes;
    segment.unread = { events: 0, bytes: 0 };
    this.#finish(segment);
    await this.#close(fd);
  }

  /** Removes the segment if it is finished. */
  #finish(segment: WaitingSegment): void {
    if (!segment.finished) return;
    if (segment.restsUntil > performance.now()) {
      this.#resting.add(segment);
      return;
    }
    this.storedBytes -= segment.end;
    if (!segment.keep) this.notes.drop(segment);
    const reading = this.#pass(segment);
    this.notes.chore(`segment ${segment.name} is done but could not be removed`, async () => {
      if (reading) await this.#close(reading.fd);
      if (segment.keep) return;
      // The marks are removed last: without them, the events of the segment would be sent again.
      await this.#files.remove(segment.path);
      await this.#files.remove(segment.marksPath);
    });
  }

  /** Closes a file that was only read: an error loses no data. */
  async #close(fd: number): Promise<void> {
    try {
      await this.#files.close(fd);
    } catch (error) {
      this.#onTrouble('a segment could not be closed', error);
    }
  }

  /** Stops reading the segment. @returns its reading, whose file must be closed. */
  #pass(segment: WaitingSegment): Reading | undefined {
    const reading = this.#readings.get(segment);
    this.#readings.delete(segment);
    const at = this.#toRead.indexOf(segment);
    if (at >= 0) this.#toRead.splice(at, 1);
    return reading;
  }

  #forget(segment: WaitingSegment): void {
    this.storedBytes -= segment.end;
    this.waiting -= segment.unread.events;
    this.waitingBytes -= segment.unread.bytes;
  }
}

/**
 * Limit of the marks in memory, a few MiB, while the disk accepts none. Further done events are not marked:
 * they are sent again after a restart, and the collector recognises the duplicates.
 */
const MOST_MARKS = 1 << 17;

/** Writes marks of done events, one operation at a time. */
export class DoneNotes {
  readonly #files: SpoolFiles;
  readonly #onTrouble: OnTrouble;
  /** Segments with marks that are not written. */
  readonly #marked = new Set<WaitingSegment>();
  /** Segments whose marks are queued to be written. */
  readonly #noting = new Set<WaitingSegment>();
  /** Segments that were dropped while their marks were being written. */
  readonly #dropped = new Set<WaitingSegment>();
  #chores: Promise<void> = Promise.resolve();
  /** Number of marks that are not written. */
  #unwritten = 0;

  constructor(files: SpoolFiles, onTrouble: OnTrouble) {
    this.#files = files;
    this.#onTrouble = onTrouble;
  }

  add(segment: WaitingSegment, offset: number): void {
    if (this.#unwritten >= MOST_MARKS) return;
    this.#unwritten++;
    segment.marks.push(offset);
    this.#marked.add(segment);
  }

  /** Discards the marks of a segment that is being removed. */
  drop(segment: WaitingSegment): void {
    this.#marked.delete(segment);
    this.#unwritten -= segment.marks.splice(segment.marksInFlight).length;
    if (segment.marksInFlight > 0) this.#dropped.add(segment);
  }

  /** Runs the work after all queued work, and reports its error. */
  chore(failed: string, work: () => Promise<void>): void {
    this.#chores = this.#chores.then(work).catch((error: unknown) => this.#onTrouble(failed, error));
  }

  /** Queues the writing of all marks. */
  write(): void {
    for (const segment of this.#marked) {
      // At most one entry in the queue for each segment, even if the disk hangs.
      if (this.#noting.has(segment)) continue;
      this.#noting.add(segment);
      this.chore('done events could not be marked', () => {
        this.#noting.delete(segment);
        return this.#mark(segment);
      });
    }
  }

  /** On return all marks are written, and all queued work is done. */
  written(): Promise<void> {
    this.write();
    return this.#chores;
  }

  /** Writes all marks synchronously, at the end of the process. */
  writeNow(): void {
    for (const segment of this.#marked) {
      // The batch in progress is repeated: both writes store the same bytes at the same place.
      const { marks, marksInFlight, context } = segment;
      const batches = [marks.slice(0, marksInFlight), marks.slice(marksInFlight)].filter(
        (some) => some.length > 0,
      );
      const bytes = Buffer.concat(batches.map((some) => encodeMarks(some, context.checksumStart)));
      this.#files.writeNow(this.#files.openNow(segment.marksPath), bytes, segment.marksEnd);
    }
    this.#marked.clear();
  }

  async #mark(segment: WaitingSegment): Promise<void> {
    // False if it was dropped meanwhile.
    if (!this.#marked.delete(segment)) return;
    const marks = segment.marks.slice();
    segment.marksInFlight = marks.length;
    const batch = encodeMarks(marks, segment.context.checksumStart);
    try {
      const fd = await this.#files.open(segment.marksPath, 'write');
      try {
        await this.#files.write(fd, batch, segment.marksEnd);
      } finally {
        await this.#files.close(fd);
      }
    } catch (error) {
      if (this.#dropped.delete(segment)) this.#unwritten -= marks.length;
      else if (errorCode(error) === 'ENOENT') {
        // Another process adopted the directory: these events are sent again.
        this.#unwritten -= segment.marks.splice(0).length;
        return;
      } else this.#marked.add(segment);
      throw error;
    } finally {
      segment.marksInFlight = 0;
    }
    this.#dropped.delete(segment);
    this.#unwritten -= segment.marks.splice(0, marks.length).length;
    segment.marksEnd += batch.length;
  }
}
