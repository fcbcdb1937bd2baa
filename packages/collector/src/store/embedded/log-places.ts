/**
 * Places in the embedded log. A pass reads the segments from the first to the last. Events are found by the id index
 * as far as it covers the log and agrees with it; what it does not cover is noted during the pass, in memory: about 22
 * bytes an event, of the newest in a running collector, and of all in a directory whose index was lost.
 */
import path from 'node:path';
import { systemCode } from '../../system-code.js';
import {
  ID_BYTES,
  type AskedEvents,
  type EventPlace,
  type EventPlaces,
  type FoundEvent,
  type LogPart,
  type PassedEvent,
  type ReadEvents,
} from '../event-places.js';
import { StoreDamaged } from '../store.js';
import { EventReader } from './event-reader.js';
import { exists, type Files } from './files.js';
import {
  checksumHolds,
  frameEventId,
  frameIsOwn,
  frameOrganisation,
  frameRunId,
  frameSequence,
  HEADER_BYTES,
  plausibleSize,
} from './frame.js';
import { IdIndexError } from './id-index/id-index-error.js';
import { IdIndexReader } from './id-index/id-index-reader.js';
import { RecentTable } from './id-index/recent-table.js';
import { PassedFrame } from './passed-frame.js';
import { ReadFrames } from './read-frames.js';
import { listSegments, SEGMENT_HEADER_BYTES, type Segment } from './segment.js';

/** Neighbours with no more than this between them are read by one call: to copy it takes less than to call again. */
const GAP_BYTES = 4 << 10;
/** Organisation and key id behind a frame's header. */
const SENDER_BYTES = 512;
const TABLE_SLOTS = 1 << 18;

export class LogPlaces implements EventPlaces {
  readonly bytes: number;
  readonly #reader: EventReader;
  readonly #segments: readonly Segment[];
  readonly #index: IdIndexReader;
  /** The log up to here is in the index. */
  readonly #coveredTo: number;
  readonly #checkedTo: number;
  /** The events behind that. */
  readonly #newer: RecentTable[] = [];
  readonly #descriptors = new Map<Segment, number>();
  readonly #found: number[] = [];
  #window: Buffer = Buffer.allocUnsafe(HEADER_BYTES + SENDER_BYTES);
  #read = Buffer.alloc(0);
  #spare = Buffer.alloc(0);

  constructor(
    dataDirectory: string,
    private readonly files: Files,
    share?: PlacesShare,
  ) {
    const ledger = path.join(dataDirectory, 'ledger');
    // Before the segments are looked at: an index only grows, and would speak of events that came since.
    this.#index = IdIndexReader.read({
      directory: share?.coveredTo === 0 ? ledger : indexDirectory(dataDirectory, ledger),
      verify: share === undefined,
    });
    this.#segments = listSegments(files, ledger);
    this.#reader = new EventReader(dataDirectory, files);
    this.#coveredTo = share?.coveredTo ?? (this.#agreesWithLog() ? this.#index.coveredTo : 0);
    this.#checkedTo = share?.checkedTo ?? 0;
    const last = this.#segments.at(-1);
    this.bytes = last === undefined ? 0 : last.base + files.size(this.#open(last)) - SEGMENT_HEADER_BYTES;
  }

  /** For a thread beside another, which tells it what it knows. Not for passing the last part. */
  static beside(dataDirectory: string, files: Files, share: PlacesShare): LogPlaces {
    return new LogPlaces(dataDirectory, files, share);
  }

  /** For a thread beside this one. */
  get share(): PlacesShare {
    return { coveredTo: this.#coveredTo, checkedTo: this.#segments.at(-1)?.base ?? 0 };
  }

  parts(most: number): LogPart[] {
    // A part is some segments; what the index does not cover is noted by who passes the last.
    const froms = [0];
    for (const { base } of this.#segments) {
      if (base > this.#coveredTo || froms.length >= most) break;
      if (base >= (froms.length * this.bytes) / most) froms.push(base);
    }
    return froms.map((from, i) => ({ from, to: froms[i + 1] ?? Infinity }));
  }

  *pass({ from, to }: LogPart = { from: 0, to: Infinity }): Generator<PassedEvent, number> {
    const frames = this.#reader.frames(this.#segments.filter(({ base }) => base >= from));
    const passed = new PassedFrame();
    try {
      for (;;) {
        const next = frames.next();
        if (next.done) return next.value.nextSequence;
        const { buffer, offset, size, address } = next.value;
        if (address >= to) return frameSequence(buffer, offset);
        if (frameIsOwn(buffer, offset)) continue;
        passed.come(buffer, offset, size, address);
        if (address >= this.#coveredTo) this.#note(passed);
        yield passed;
      }
    } finally {
      // Closes the file that it was in.
      frames.return(ABANDONED);
    }
  }

  read(places: readonly EventPlace[]): ReadEvents {
    const order = Uint32Array.from(places, (_, index) => index);
    const placeOf = (index: number) => places[index] ?? NOWHERE;
    order.sort((a, b) => placeOf(a).address - placeOf(b).address);
    const offsets = new Float64Array(places.length);
    const stretches: Stretch[] = [];
    let filled = 0;
    for (let first = 0; first < order.length;) {
      const stretch = this.#stretch(order, first, placeOf);
      stretches.push(stretch);
      for (; first < stretch.end; first++) {
        const index = order[first] ?? 0;
        offsets[index] = filled + placeOf(index).address - stretch.address;
      }
      filled += stretch.size;
    }
    [this.#read, this.#spare] = [this.#spare, this.#read];
    if (filled > this.#read.length) this.#read = Buffer.allocUnsafeSlow(filled);
    let at = 0;
    for (const { segment, address, size } of stretches) {
      const offset = address - segment.base + SEGMENT_HEADER_BYTES;
      const held = this.files.read(this.#open(segment), this.#read, at, size, offset);
      if (held < size) throw this.#damaged(segment, address);
      at += size;
    }
    for (const [index, { address, size }] of places.entries()) {
      const offset = offsets[index] ?? 0;
      const isChecked = address < this.#checkedTo || checksumHolds(this.#read, offset, size);
      if (plausibleSize(this.#read, offset, filled) !== size || !isChecked) {
        throw this.#damaged(this.#segmentOf(address), address);
      }
    }
    return new ReadFrames(this.#read, offsets);
  }

  /** What to read with one call from this place on. */
  #stretch(order: Uint32Array, first: number, placeOf: (index: number) => EventPlace): Stretch {
    const { address, size } = placeOf(order[first] ?? 0);
    const segment = this.#segmentOf(address);
    const limit = this.#endOf(segment);
    let to = address + size;
    let end = first + 1;
    for (; end < order.length; end++) {
      const next = placeOf(order[end] ?? 0);
      const nextTo = next.address + next.size;
      if (next.address - to > GAP_BYTES || nextTo > limit) break;
      to = Math.max(to, nextTo);
    }
    return { segment, address, size: to - address, end };
  }

  find(organisation: string, ids: Buffer, at: number): FoundEvent | undefined {
    const count = this.#candidates(organisation, ids, at);
    for (let i = 0; i < count; i++) {
      const address = this.#found[i] ?? 0;
      const segment = this.#segmentOf(address);
      const header = this.#readHeader(segment, address);
      const size = plausibleSize(header, 0, header.length);
      if (size === 0) throw this.#damaged(segment, address);
      const isIt = ids.compare(frameEventId(header, 0), 0, ID_BYTES, at, at + ID_BYTES) === 0;
      if (!isIt || frameOrganisation(header, 0) !== organisation) continue;
      return { address, size, runId: frameRunId(header, 0) };
    }
    return undefined;
  }

  findingOrder(asked: AskedEvents): Uint32Array {
    const { count, ids } = asked;
    const index = this.#index;
    const order = new Uint32Array(count);
    // The fingerprint, by which pages of the index are ordered, and behind it the number.
    for (let from = 0; from < count; from += ORDERED_AT_ONCE) {
      const keys = new Float64Array(Math.min(ORDERED_AT_ONCE, count - from));
      for (let i = 0; i < keys.length; i++) {
        index.fingerprint(asked.organisation(from + i), ids, asked.at(from + i));
        keys[i] = index.hi * ORDERED_AT_ONCE + i;
      }
      keys.sort();
      for (const [i, key] of keys.entries()) order[from + i] = from + (key % ORDERED_AT_ONCE);
    }
    return order;
  }

  flush(): void {
    const last = this.#segments.at(-1);
    if (last === undefined) return;
    try {
      this.files.datasync(this.#open(last));
    } catch (error) {
      // Where nothing can be written, nothing waits to be.
      const code = systemCode(error);
      if (code !== 'EROFS' && code !== 'EINVAL') throw error;
    }
  }

  async close(): Promise<void> {
    for (const fd of this.#descriptors.values()) this.files.close(fd);
    this.#descriptors.clear();
    await this.#index.close();
  }

  /** @returns how many there are in `#found`. */
  #candidates(organisation: string, ids: Buffer, at: number): number {
    const index = this.#index;
    index.fingerprint(organisation, ids, at);
    const { hi, lo } = index;
    let count = 0;
    try {
      const indexed = this.#coveredTo > 0 ? index.find(hi, lo, this.#found) : 0;
      for (let i = 0; i < indexed; i++) {
        const address = this.#found[i] ?? 0;
        if (address < this.#coveredTo) this.#found[count++] = address;
      }
    } catch (error) {
      if (!(error instanceof IdIndexError)) throw error;
      throw new Error('the id index is damaged: see collector doctor', { cause: error });
    }
    for (const table of this.#newer) count = table.find(hi, lo, this.#found, count);
    return count;
  }

  #note(passed: PassedFrame): void {
    const index = this.#index;
    index.fingerprint(passed.organisation, passed.source, passed.eventIdAt);
    let table = this.#newer.at(-1);
    if (table === undefined || table.count >= table.limit) {
      table = new RecentTable(TABLE_SLOTS << Math.min(this.#newer.length, 4));
      this.#newer.push(table);
    }
    table.add(index.hi, index.lo, passed.address);
  }

  /** Whether the newest event of each run of the index stands in the log where the run says, and ends where the index does (event-finder.ts). */
  #agreesWithLog(): boolean {
    let to = 0;
    for (const { hi, lo, address } of this.#index.newestOfRuns()) {
      const segment = this.#segments.findLast(({ base }) => base <= address);
      if (segment === undefined) return false;
      const header = this.#readHeader(segment, address);
      const size = plausibleSize(header, 0, header.length);
      if (size === 0) return false;
      this.#index.fingerprint(frameOrganisation(header, 0), frameEventId(header, 0), 0);
      if (this.#index.hi !== hi || this.#index.lo !== lo) return false;
      to = address + size;
    }
    return to === this.#index.coveredTo;
  }

  /** Valid until the next call; shorter only where the file ends. */
  #readHeader(segment: Segment, address: number): Buffer {
    const offset = address - segment.base + SEGMENT_HEADER_BYTES;
    const held = this.files.read(this.#open(segment), this.#window, 0, this.#window.length, offset);
    return this.#window.subarray(0, held);
  }

  #segmentOf(address: number): Segment {
    const segments = this.#segments;
    let low = 0;
    let high = segments.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((segments[middle]?.base ?? Infinity) <= address) low = middle;
      else high = middle - 1;
    }
    const segment = segments[low];
    if (segment === undefined) throw new RangeError('a place in a log that is empty');
    return segment;
  }

  #endOf(segment: Segment): number {
    return this.#segments[this.#segments.indexOf(segment) + 1]?.base ?? Infinity;
  }

  #open(segment: Segment): number {
    let fd = this.#descriptors.get(segment);
    if (fd === undefined) {
      // Readers go back for single events, but mostly forward: few segments are in use at a time.
      if (this.#descriptors.size >= MOST_OPEN) this.#closeOldest();
      fd = this.files.open(segment.path, 'r');
      this.#descriptors.set(segment, fd);
    }
    return fd;
  }

  #closeOldest(): void {
    const [oldest] = this.#descriptors;
    if (oldest === undefined) return;
    this.files.close(oldest[1]);
    this.#descriptors.delete(oldest[0]);
  }

  #damaged(segment: Segment, address: number): StoreDamaged {
    const offset = address - segment.base + SEGMENT_HEADER_BYTES;
    const { firstSequence } = segment;
    return new StoreDamaged(
      { file: path.basename(segment.path), offset, sequence: firstSequence },
      'a frame that was whole a moment ago does not hold what was written',
    );
  }
}

const MOST_OPEN = 256;
/** With 32 bits before it, it is a whole number that a double holds. */
const ORDERED_AT_ONCE = 1 << 20;
const ABANDONED = { address: 0, offset: 0, nextSequence: 0, tail: { state: 'clean' } } as const;
const NOWHERE: EventPlace = { address: 0, size: 0 };

/** What one that has passed a log tells another that reads in it. */
export interface PlacesShare {
  /** Only what is before it is found, and of that perhaps not all. That the index is the log's has been seen to. */
  readonly coveredTo: number;
  /** What is before it was passed whole, and nobody writes there any more: its checksums are not looked at once more. */
  readonly checkedTo: number;
}

/** Neighbours in a segment. */
interface Stretch {
  readonly segment: Segment;
  readonly address: number;
  readonly size: number;
  /** The place behind the last one, in the order of addresses. */
  readonly end: number;
}

/** Where there is no index, any directory without runs will do. */
function indexDirectory(dataDirectory: string, otherwise: string): string {
  const directory = path.join(dataDirectory, 'index');
  return exists(directory) ? directory : otherwise;
}
