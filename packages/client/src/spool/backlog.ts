/**
 * All that waits: the segments in the order in which they are read, the events that were given out, and what is done.
 * Of events that no one has taken it holds nothing but their number, so a million of them take no memory.
 */
import type { OnDamage, OnTrouble, SpooledEvent } from './contract.js';
import { survey } from './adoption.js';
import { errorCode, type SpoolFiles } from './files.js';
import {
  DamagedBytes,
  type FoundFrame,
  FrameCount,
  type LostBytes,
  SegmentReader,
} from './segment-reader.js';
import { encodeMarks, loadMarks, type WaitingSegment } from './segment.js';

/** An event that was given out, with what the spool has to remember of it. */
interface TakenEvent extends SpooledEvent {
  readonly segment: WaitingSegment;
  /** Of its frame, in bytes. */
  readonly size: number;
}

interface Reading {
  readonly segment: WaitingSegment;
  readonly fd: number;
  readonly reader: SegmentReader;
  /** Done before this spool read it: not given out. */
  readonly done: ReadonlySet<number>;
  readonly count: FrameCount;
}

/** What a call of `collect` has gathered, and how much more it takes. */
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
  /** Of all segments, those done among them that are still there. */
  storedBytes = 0;
  /** Writes that were cut off before they were acknowledged, in segments of others. */
  cut = 0;
  readonly #files: SpoolFiles;
  readonly #damaged: DamagedBytes;
  readonly #onTrouble: OnTrouble;
  readonly #onDamage: OnDamage;
  readonly #until: AbortSignal | undefined;
  /** Not read to the end; the first one is being read. */
  readonly #toRead: WaitingSegment[] = [];
  #reading: Reading | undefined;
  /** Of the event that was read last. */
  #readAt: number | undefined;
  readonly #taken = new Set<TakenEvent>();
  /** Done, and not to be removed yet: see `WaitingSegment.restsUntil`. */
  readonly #resting = new Set<WaitingSegment>();
  /** Given back, oldest first. */
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
    this.#damaged = new DamagedBytes(files, root);
    this.#onTrouble = onTrouble;
    this.notes = new DoneNotes(files, onTrouble);
  }

  /** No event that waits was captured before, as far as that can be told; undefined when none waits. */
  get oldest(): number | undefined {
    if (this.waiting === 0) return undefined;
    let oldest = Infinity;
    for (const event of this.#taken) oldest = Math.min(oldest, event.capturedAt);
    for (const event of this.#back) oldest = Math.min(oldest, event.capturedAt);
    const unread = this.#toRead.find((segment) => segment.unread.events > 0);
    const begun = unread === this.#reading?.segment ? this.#readAt : undefined;
    oldest = Math.min(oldest, begun ?? unread?.firstCapturedAt ?? Infinity);
    return Number.isFinite(oldest) ? oldest : undefined;
  }

  /** A segment that will be read behind all others, and may still grow. */
  begin(segment: WaitingSegment): void {
    this.#toRead.push(segment);
    this.storedBytes += segment.end;
  }

  /** Segments that other spools have left: they are read before what this spool has begun and not come to yet. */
  adopt(segments: readonly WaitingSegment[]): void {
    for (const segment of segments) {
      this.storedBytes += segment.end;
      this.waiting += segment.unread.events;
      this.waitingBytes += segment.unread.bytes;
    }
    this.#toRead.splice(this.#reading ? 1 : 0, 0, ...segments);
    for (const segment of segments) this.#finish(segment);
  }

  /** Events have been appended to the segment and are durable. */
  appended(segment: WaitingSegment, events: number, bytes: number): void {
    segment.end += bytes;
    segment.events += events;
    segment.unread.events += events;
    segment.unread.bytes += bytes;
    this.waiting += events;
    this.waitingBytes += bytes;
    this.storedBytes += bytes;
  }

  /** Nothing more will be appended to the segment. */
  complete(segment: WaitingSegment): void {
    segment.complete = true;
    this.#finish(segment);
  }

  /**
   * The next events, as many as there are now: see `Spool.take`. Those given back come first every other time, so that
   * neither they nor the new ones wait forever. One call at a time.
   */
  async collect(count: number, bytes: number): Promise<TakenEvent[]> {
    const batch: Batch = { events: [], count, bytes };
    this.#backFirst = !this.#backFirst;
    if (this.#backFirst) this.#collectBack(batch);
    await this.#collectUnread(batch);
    if (!this.#backFirst) this.#collectBack(batch);
    return batch.events;
  }

  /** Nothing happens when the event is not out: done, or given back, before. */
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

  /** Looks once more at segments whose rest is over: what they have gained waits, and the others are removed. */
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
        this.#onTrouble(`segment ${segment.name} could not be looked at once more`, error);
      }
    }
  }

  /** Takes no more notice of anything. On return all files are closed, and what is done is noted. */
  async close(): Promise<void> {
    await this.notes.written();
    const reading = this.#reading;
    this.#reading = undefined;
    if (reading) await this.#close(reading.fd);
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
      const reading = this.#reading ?? (await this.#open(segment));
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
      this.#readAt = undefined;
      this.#reading = { segment, fd, reader, done, count: new FrameCount() };
      return this.#reading;
    } catch (error) {
      // Whatever is wrong with this one, the next one is read. One that is gone was adopted by another spool.
      if (errorCode(error) !== 'ENOENT')
        this.#onTrouble(
          `segment ${segment.name} cannot be opened; its events wait for the next start`,
          error,
        );
      if (fd !== undefined) await this.#close(fd);
      this.#toRead.shift();
      this.#forget(segment);
      return undefined;
    }
  }

  #met({ segment, done, count }: Reading, found: FoundFrame): TakenEvent | undefined {
    const { frame, offset, size } = found;
    count.meet(found, done);
    if (frame.kind === undefined || done.has(offset)) return undefined;
    this.#readAt = frame.capturedAt;
    segment.unread.events--;
    segment.unread.bytes -= size;
    segment.left++;
    const { kind, body, capturedAt } = frame;
    return { position: { segment: segment.name, offset }, kind, body, capturedAt, segment, size };
  }

  async #setAside({ segment, fd, count }: Reading, lost: LostBytes): Promise<void> {
    // What this spool has acknowledged is no write that was cut off, whatever it looks like now.
    if (!segment.own && count.isCut(lost)) {
      this.cut++;
      return;
    }
    const what =
      `${lost.size} bytes at ${lost.offset} of segment ${segment.name} are no whole frame` +
      (lost.atEnd ? ', nor is what is behind them' : '');
    let file: string | undefined;
    try {
      file = await this.#damaged.keep(segment.name, fd, lost);
      this.#onTrouble(`${what}; ${file === undefined ? 'they are zeros' : `kept in ${file}`}`, undefined);
    } catch (error) {
      segment.keep = true;
      this.#onTrouble(`${what}; the segment is left for the next start`, error);
    }
    const { offset, size: bytes } = lost;
    this.#onDamage({ segment: segment.name, lost: { offset, bytes }, missing: 0, kept: file });
  }

  /** Events that are not there are noted in `damaged/` before the segment goes, and with it the last trace of them. */
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
      // Whatever the disk could not read now, it may at the next start.
      segment.keep = true;
      if (unread > 0) {
        this.#onTrouble(`${unread} events of segment ${segment.name} cannot be read`, reader.unreadable);
      }
    } else if (missing > 0) await this.#noteMissing(segment, missing);
    // From here on nothing is awaited: meanwhile its last event may be done, and the segment be finished. So far it
    // could not be: events of it were not read, or another spool has begun it.
    this.#reading = undefined;
    this.#toRead.shift();
    segment.readToEnd = true;
    const { events, bytes } = segment.unread;
    this.waiting -= events;
    this.waitingBytes -= bytes;
    segment.unread = { events: 0, bytes: 0 };
    this.#finish(segment);
    await this.#close(fd);
  }

  /** Forgets the segment when nothing in it is needed any more, and has its files removed. */
  #finish(segment: WaitingSegment): void {
    if (!segment.finished) return;
    if (segment.restsUntil > performance.now()) {
      this.#resting.add(segment);
      return;
    }
    this.storedBytes -= segment.end;
    if (!segment.keep) this.notes.drop(segment);
    const next = this.#toRead.indexOf(segment);
    if (next >= 0) this.#toRead.splice(next, 1);
    const reading = this.#reading?.segment === segment ? this.#reading : undefined;
    if (reading) this.#reading = undefined;
    this.notes.chore(`segment ${segment.name}, which is done, could not be removed`, async () => {
      if (reading) await this.#close(reading.fd);
      if (segment.keep) return;
      // In this order: marks without a segment mean nothing.
      await this.#files.remove(segment.path);
      await this.#files.remove(segment.marksPath);
    });
  }

  /** Of a file that was only read, so that nothing can be lost by it. */
  async #close(fd: number): Promise<void> {
    try {
      await this.#files.close(fd);
    } catch (error) {
      this.#onTrouble('a segment could not be closed', error);
    }
  }

  #forget(segment: WaitingSegment): void {
    this.storedBytes -= segment.end;
    this.waiting -= segment.unread.events;
    this.waitingBytes -= segment.unread.bytes;
  }
}

/* Writes down what is done, a little at a time, and one thing after the other. */

/**
 * Marks that may wait for a disk that takes none, some MiB. What is done beyond that is not noted: the next spool on the
 * directory sends it again, and the collector knows it for a duplicate.
 */
const MOST_MARKS = 1 << 17;

export class DoneNotes {
  readonly #files: SpoolFiles;
  readonly #onTrouble: OnTrouble;
  /** Those with marks that are not written down, and those for which that is on its way. */
  readonly #marked = new Set<WaitingSegment>();
  readonly #noting = new Set<WaitingSegment>();
  /** Those among the latter that were dropped meanwhile. */
  readonly #dropped = new Set<WaitingSegment>();
  #chores: Promise<void> = Promise.resolve();
  /** Marks that are not written down. */
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

  /** What is done in the segment needs no writing down any more. */
  drop(segment: WaitingSegment): void {
    this.#marked.delete(segment);
    this.#unwritten -= segment.marks.splice(segment.marksInFlight).length;
    if (segment.marksInFlight > 0) this.#dropped.add(segment);
  }

  /** Does this behind all that is under way; what goes wrong is told. */
  chore(failed: string, work: () => Promise<void>): void {
    this.#chores = this.#chores.then(work).catch((error: unknown) => this.#onTrouble(failed, error));
  }

  /** Has written down what is done by now. */
  write(): void {
    for (const segment of this.#marked) {
      // Once only, however long the disk does not answer.
      if (this.#noting.has(segment)) continue;
      this.#noting.add(segment);
      this.chore('what is done could not be noted', () => {
        this.#noting.delete(segment);
        return this.#mark(segment);
      });
    }
  }

  /** On return what was done before is written down, and all chores are done. */
  written(): Promise<void> {
    this.write();
    return this.#chores;
  }

  /** As `write`, at the end of the process. */
  writeNow(): void {
    for (const segment of this.#marked) {
      // A batch that is being written just now is written again as it is: both put the same bytes there.
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
    // It may have been dropped meanwhile.
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
        // Its directory was adopted: what is done in it is sent again.
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
