/**
 * Places in the embedded log. A pass reads the segments from the first to the last. Events are found by the id index
 * as far as it covers the log and agrees with it; what it does not cover is noted during the pass, in memory: about 22
 * bytes an event, of the newest in a running collector, and of all in a directory whose index was lost.
 */
import path from 'node:path';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import type { EventPlace, EventPlaces, FoundEvent, PassedEvent } from '../event-places.js';
import { StoreDamaged, type StoredEvent } from '../store.js';
import { EventReader } from './event-reader.js';
import { exists, type Files } from './files.js';
import {
  checksumHolds,
  decodeFrame,
  frameEventId,
  frameKind,
  frameOrganisation,
  frameReceivedAt,
  frameRunId,
  frameSequence,
  HEADER_BYTES,
  plausibleSize,
} from './frame.js';
import { IdIndexError } from './id-index/id-index-error.js';
import { IdIndexReader } from './id-index/id-index-reader.js';
import { RecentTable } from './id-index/recent-table.js';
import { listSegments, SEGMENT_HEADER_BYTES, type Segment } from './segment.js';

/** Neighbours with no more than this between them are read by one call. */
const GAP_BYTES = 16 << 10;
/** One call reads no more, but for an event that is larger. */
const READ_BYTES = 4 << 20;
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
  /** The events behind that. */
  readonly #newer: RecentTable[] = [];
  readonly #descriptors = new Map<Segment, number>();
  readonly #found: number[] = [];
  #window: Buffer = Buffer.allocUnsafe(READ_BYTES);

  constructor(
    dataDirectory: string,
    private readonly files: Files,
    indexed = true,
  ) {
    const ledger = path.join(dataDirectory, 'ledger');
    // Before the segments are looked at: an index only grows, and would speak of events that came since.
    this.#index = IdIndexReader.read({ directory: indexed ? indexDirectory(dataDirectory, ledger) : ledger });
    this.#segments = listSegments(files, ledger);
    this.#reader = new EventReader(dataDirectory, files);
    this.#coveredTo = this.#agreesWithLog() ? this.#index.coveredTo : 0;
    const last = this.#segments.at(-1);
    this.bytes = last === undefined ? 0 : last.base + files.size(this.#open(last)) - SEGMENT_HEADER_BYTES;
  }

  /** For a reader that knows the places: nothing can be found by its id. */
  static forReading(dataDirectory: string, files: Files): Pick<LogPlaces, 'read' | 'close'> {
    return new LogPlaces(dataDirectory, files, false);
  }

  *pass(): Generator<PassedEvent, number> {
    const frames = this.#reader.frames(this.#segments);
    const passed = new PassedFrame();
    for (;;) {
      const next = frames.next();
      if (next.done) return next.value.nextSequence;
      const { buffer, offset, size, address } = next.value;
      passed.come(buffer, offset, size, address);
      if (address >= this.#coveredTo) this.#note(passed);
      yield passed;
    }
  }

  read(places: readonly EventPlace[], take: (event: StoredEvent, index: number) => void): void {
    for (let first = 0; first < places.length;) {
      const start = places[first];
      if (start === undefined) return;
      const segment = this.#segmentOf(start.address);
      const limit = this.#endOf(segment);
      let last = first;
      let end = start.address + start.size;
      for (let next = places[last + 1]; next !== undefined; next = places[last + 1]) {
        const nextEnd = next.address + next.size;
        const near = next.address - end <= GAP_BYTES && nextEnd - start.address <= READ_BYTES;
        if (!near || nextEnd > limit) break;
        end = nextEnd;
        last++;
      }
      const bytes = this.#read(segment, start.address, end - start.address);
      for (; first <= last; first++) {
        const place = places[first];
        if (place === undefined) break;
        const at = place.address - start.address;
        if (plausibleSize(bytes, at, bytes.length) !== place.size || !checksumHolds(bytes, at, place.size)) {
          throw this.#damaged(segment, place.address);
        }
        take(decodeFrame(bytes, at), first);
      }
    }
  }

  find(organisation: string, eventId: string): FoundEvent | undefined {
    const id = Buffer.from(eventId.replaceAll('-', ''), 'hex');
    if (id.length !== 16) return undefined;
    for (const address of this.#candidates(organisation, id)) {
      const segment = this.#segmentOf(address);
      const header = this.#read(segment, address, HEADER_BYTES + SENDER_BYTES);
      const size = plausibleSize(header, 0, header.length);
      if (size === 0) throw this.#damaged(segment, address);
      if (!frameEventId(header, 0).equals(id) || frameOrganisation(header, 0) !== organisation) continue;
      return { address, size, runId: uuidOrNone(frameRunId(header, 0)) };
    }
    return undefined;
  }

  async close(): Promise<void> {
    for (const fd of this.#descriptors.values()) this.files.close(fd);
    this.#descriptors.clear();
    await this.#index.close();
  }

  #candidates(organisation: string, id: Buffer): readonly number[] {
    const index = this.#index;
    index.fingerprint(organisation, id, 0);
    const { hi, lo } = index;
    let count = 0;
    for (const table of this.#newer) count = table.find(hi, lo, this.#found, count);
    if (this.#coveredTo > 0) {
      const indexed: number[] = [];
      try {
        const found = index.find(hi, lo, indexed);
        for (let i = 0; i < found; i++) {
          const address = indexed[i] ?? 0;
          if (address < this.#coveredTo) this.#found[count++] = address;
        }
      } catch (error) {
        if (!(error instanceof IdIndexError)) throw error;
        throw new Error('the id index is damaged: see collector doctor', { cause: error });
      }
    }
    return this.#found.slice(0, count);
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

  /** Whether the newest event of each run of the index stands in the log where the run says (event-finder.ts). */
  #agreesWithLog(): boolean {
    for (const { hi, lo, address } of this.#index.newestOfRuns()) {
      const segment = this.#segments.findLast(({ base }) => base <= address);
      if (segment === undefined) return false;
      const header = this.#read(segment, address, HEADER_BYTES + SENDER_BYTES);
      if (plausibleSize(header, 0, header.length) === 0) return false;
      this.#index.fingerprint(frameOrganisation(header, 0), frameEventId(header, 0), 0);
      if (this.#index.hi !== hi || this.#index.lo !== lo) return false;
    }
    return true;
  }

  /** Valid until the next call; shorter only where the file ends. */
  #read(segment: Segment, address: number, length: number): Buffer {
    if (length > this.#window.length) this.#window = Buffer.allocUnsafe(length);
    const offset = address - segment.base + SEGMENT_HEADER_BYTES;
    const held = this.files.read(this.#open(segment), this.#window, 0, length, offset);
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

/** Where there is no index, any directory without runs will do. */
function indexDirectory(dataDirectory: string, otherwise: string): string {
  const directory = path.join(dataDirectory, 'index');
  return exists(directory) ? directory : otherwise;
}

class PassedFrame implements PassedEvent {
  source: Buffer = Buffer.alloc(0);
  address = 0;
  size = 0;
  eventIdAt = 0;
  runIdAt = 0;
  #offset = 0;

  come(source: Buffer, offset: number, size: number, address: number): void {
    this.source = source;
    this.address = address;
    this.size = size;
    this.#offset = offset;
    this.eventIdAt = offset + EVENT_ID_AT;
    this.runIdAt = offset + RUN_ID_AT;
  }

  get sequence(): number {
    return frameSequence(this.source, this.#offset);
  }

  get kind(): EventKind {
    const kind = EVENT_KINDS[frameKind(this.source, this.#offset)];
    if (kind === undefined) throw new RangeError('a frame written by a later version of the collector');
    return kind;
  }

  get organisation(): string {
    return frameOrganisation(this.source, this.#offset);
  }

  get receivedAt(): number {
    return frameReceivedAt(this.source, this.#offset);
  }

  decode(): StoredEvent {
    return decodeFrame(this.source, this.#offset);
  }
}

/** Where the ids stand in a frame, as frame.ts has it. */
const PROBE = Buffer.alloc(HEADER_BYTES);
const EVENT_ID_AT = frameEventId(PROBE, 0).byteOffset - PROBE.byteOffset;
const RUN_ID_AT = frameRunId(PROBE, 0).byteOffset - PROBE.byteOffset;

function uuidOrNone(bytes: Buffer): string | undefined {
  const hex = bytes.toString('hex');
  if (/^0+$/.test(hex)) return undefined;
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
