/** Reads the log from its segments, with or without a running collector. */
import path from 'node:path';
import { setImmediate as breath } from 'node:timers/promises';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { systemCode } from '../../system-code.js';
import {
  BEGINNING,
  type Cursor,
  type EventFilter,
  type EventLog,
  type FoundEntries,
  type FoundEvent,
  type PassedEntry,
  type Place,
  type ReadEvents,
  type SoughtId,
  type StoredEntry,
  type StoredEvent,
} from '../contract/events.js';
import type { Actions } from '../../privacy/actions.js';
import type { KeyObject } from 'node:crypto';
import type { NameCipher } from '../../privacy/name-cipher.js';
import { NotedActions } from './action-chain.js';
import { expanding } from './compacted-segment.js';
import { uuidBytes } from '../text.js';
import { EventFinder } from './event-finder.js';
import type { Files } from '../../files.js';
import {
  checksumHolds,
  decodeFrame,
  frameDurableBefore,
  frameEventId,
  frameIsOwn,
  frameKind,
  frameOrganisation,
  frameReceivedAt,
  frameRunId,
  frameSequence,
  type FrameStart,
  plausibleSize,
} from './frame.js';
import { PassedFrames, ReadFrames } from './frame-views.js';
import { bucketOf, FrameOpener, type KeyReading } from './sealed-frame.js';
import {
  isBlank,
  numberAt,
  offsetIn,
  readToEnd,
  walk,
  wholeFrame,
  type FrameBlock,
  type SegmentEnd,
  framesOf,
} from './log-frames.js';
import { damagedAt, listSegments, type Segment, segmentNames } from './segment.js';

/** Frames with at most this gap between them are read by one call, which is faster than two. */
const GAP_BYTES = 4 << 10;
/** Maximum number of open segments. Most reads go forward, so few segments are in use at a time. */
const MOST_OPEN = 256;
/** Time after which descriptors are closed: a compacted segment occupies its old space while it is open. */
const HELD_MS = 60_000;
const NOWHERE: Place = { at: 0, size: 0 };
const ABANDONED = { sequence: 0, at: 0 };

export class LogReader implements EventLog {
  private readonly files: Files;
  readonly #directory: string;
  readonly #descriptors = new Map<string, number>();
  readonly #finder: EventFinder;
  readonly #opener: FrameOpener;
  readonly #actions: NotedActions;
  /** Time at which all descriptors were last closed. */
  #heldSince = performance.now();
  #segments: readonly Segment[] = [];
  #names = '';
  #read = Buffer.alloc(0);
  #spare = Buffer.alloc(0);

  constructor(dataDirectory: string, files: Files, keys: KeyReading = {}) {
    this.files = expanding(files);
    this.#directory = path.join(dataDirectory, 'ledger');
    this.#finder = new EventFinder(dataDirectory, this);
    this.#actions = new NotedActions({
      files: this.files,
      segments: () => this.#listedSegments(),
      open: (segment) => this.#open(segment),
      blocks: () => this.#blocks(BEGINNING),
    });
    this.#opener = FrameOpener.of(dataDirectory, files, {
      ...keys,
      erased: () => this.actions().erased,
    });
  }

  actions(): Actions {
    return this.#actions.get();
  }

  buckets(places: readonly Place[]): (number | undefined)[] {
    if (places.length === 0) return [];
    return Array.from(this.#gather(places), (offset) => bucketOf(this.#read, offset));
  }

  get ledgerId(): string {
    return this.#listedSegments()[0]?.ledgerId ?? '';
  }

  get names(): NameCipher | undefined {
    this.#opener.readAgain();
    return this.#opener.keys?.names();
  }

  olderNames(id: string): NameCipher | undefined {
    return this.#opener.keys?.namesBy(id);
  }

  holdKey(action: string): KeyObject | undefined {
    this.#opener.readAgain();
    return this.#opener.keys?.holdKey(action);
  }

  get extent(): number {
    const last = this.#listedSegments().at(-1);
    return last === undefined ? 0 : last.base + this.files.size(this.#open(last)) - offsetIn(last, last.base);
  }

  pass(from: Cursor = BEGINNING, { through }: { readonly through?: number } = {}) {
    const frames = new PassedFrames(this.#opener);
    return this.#batches((block): Iterable<PassedEntry> => frames.of(block), from, through);
  }

  scan(filter: EventFilter, from: Cursor = BEGINNING) {
    const matches = matcher(filter);
    return this.#batches((block) => this.#decoded(block, matches) as Iterable<StoredEvent>, from);
  }

  entries(from: Cursor = BEGINNING) {
    return this.#batches((block) => this.#decoded(block, () => true), from);
  }

  async end(): Promise<Cursor> {
    const blocks = this.#blocks({ sequence: Number.MAX_SAFE_INTEGER, at: 0 });
    for (;;) {
      const next = blocks.next();
      if (next.done) return next.value;
      await breath();
    }
  }

  read(places: readonly Place[]): Promise<ReadEvents> {
    return new Promise((resolve) => resolve(this.#readNow(places)));
  }

  find(organisation: string, id: Uint8Array, before?: number): Promise<FoundEvent | undefined> {
    return this.#finder.find(organisation, id, before);
  }

  async withId({ eventId, organisation, known }: SoughtId): Promise<FoundEntries> {
    const id = uuidBytes(eventId);
    const entries: StoredEntry[] = [];
    for (const each of organisation === undefined ? new Set([...known, OF_THE_LOG]) : [organisation]) {
      const found = await this.find(each, id);
      const frame = found && this.frameAt(found.at);
      if (frame === undefined) continue;
      this.#opener.readAgain();
      entries.push(this.#entry(frame, 0, frame.length));
    }
    if (entries.length === 0 && organisation === undefined) return this.#scanFor(id);
    entries.sort((a, b) => a.sequence - b.sequence);
    return { entries, nextSequence: this.#finder.nextSequence };
  }

  async #scanFor(id: Buffer): Promise<FoundEntries> {
    const entries: StoredEntry[] = [];
    const hasId = (buffer: Buffer, offset: number) => frameEventId(buffer, offset).equals(id);
    const scan = this.#batches((block) => this.#decoded(block, hasId), BEGINNING);
    for (;;) {
      const next = await scan.next();
      if (next.done) return { entries, nextSequence: next.value.sequence };
      for (const entry of next.value) entries.push(kept(entry));
    }
  }

  async close(): Promise<void> {
    this.#closeAll();
    await this.#finder.close();
  }

  *#decoded(block: FrameBlock, matches: Matches): Generator<StoredEntry, void> {
    for (const { buffer, offset, size } of framesOf(block))
      if (matches(buffer, offset)) yield this.#entry(buffer, offset, size);
  }

  #entry(buffer: Buffer, offset: number, size: number): StoredEntry {
    this.#opener.open(buffer, offset, size);
    return decodeFrame(buffer, offset);
  }

  /** The current segments. */
  #listedSegments(): readonly Segment[] {
    if (performance.now() - this.#heldSince > HELD_MS) this.#closeAll();
    const names = segmentNames(this.files, this.#directory).join();
    if (names !== this.#names) {
      this.#segments = listSegments(this.files, this.#directory);
      this.#names = names;
    }
    return this.#segments;
  }

  async *#batches<Batch>(
    batchOf: (block: FrameBlock) => Batch,
    from: Cursor,
    through?: number,
  ): AsyncGenerator<Batch, Cursor, undefined> {
    const blocks = this.#blocks(from, through);
    try {
      for (;;) {
        const next = blocks.next();
        if (next.done) return next.value;
        this.#opener.readAgain();
        if (this.#actions.overlooks(next.value)) this.#opener.readAgain();
        yield batchOf(next.value);
        await breath();
      }
    } finally {
      // Closes the current file.
      blocks.return(ABANDONED);
    }
  }

  /** The blocks from a cursor on, cut to the wanted range and, without `through`, to durable entries. */
  *#blocks(from: Cursor, through?: number): Generator<FrameBlock, Cursor> {
    if (through !== undefined && through < from.sequence) return from;
    const segments = this.#listedSegments();
    const first = Math.max(
      0,
      segments.findLastIndex(({ firstSequence }) => firstSequence <= from.sequence),
    );
    const wanted = segments.slice(first);
    const start = this.#start(wanted, from);
    const blocks =
      through === undefined
        ? readToEnd(this.files, wanted, start, from.at > 0)
        : walk(this.files, wanted, { from: start });
    try {
      for (;;) {
        const next = blocks.next();
        if (next.done) return { sequence: next.value.nextSequence, at: next.value.address };
        const block = next.value;
        const isNewest = block.segment === wanted.at(-1);
        const most = through ?? (isNewest ? this.#durable(block) : Infinity);
        const last = cut(block, from.sequence, most);
        if (block.offsets.length > 0) yield block;
        if (most <= last) return { sequence: most + 1, at: block.address + block.end };
      }
    } finally {
      blocks.return(NO_END);
    }
  }

  /** The frame at the hint of a cursor if the log confirms it; undefined to start at the first frame. */
  #start([segment, next]: readonly Segment[], { sequence, at }: Cursor): FrameStart | undefined {
    if (segment === undefined || at <= segment.base || at > (next?.base ?? Infinity)) return undefined;
    const frame = at === next?.base ? undefined : this.#frameIn(segment, at);
    if (frame !== undefined) {
      const found = frameSequence(frame, 0);
      return found > sequence || found < segment.firstSequence ? undefined : { address: at, sequence: found };
    }
    if (next !== undefined) return undefined;
    return this.#isEnd(segment, offsetIn(segment, at)) ? { address: at, sequence } : undefined;
  }

  /** Whether the log ends at an offset: zeros follow it, and the byte before it is not zero. */
  #isEnd(segment: Segment, offset: number): boolean {
    const before = Buffer.alloc(1);
    this.files.read(this.#open(segment), before, 0, 1, offset - 1);
    return before[0] !== 0 && isBlank(this.files, this.#open(segment), offset);
  }

  /**
   * The last durable sequence of a block of the last segment. Each frame vouches for all batches before its
   * own. The last batch may not be flushed yet, so it is flushed here and read again.
   */
  #durable({ buffer, offsets, end, address, segment }: FrameBlock): number {
    const newest = numberAt(offsets, offsets.length - 1);
    const durable = frameDurableBefore(buffer, newest) - 1;
    const first = Math.max(0, offsets.length - 1 - (frameSequence(buffer, newest) - durable - 1));
    const offset = offsets[first] ?? end;
    this.#flush(segment);
    const again = Buffer.allocUnsafe(end - offset);
    const held = this.files.read(
      this.#open(segment),
      again,
      0,
      again.length,
      offsetIn(segment, address + offset),
    );
    return held === again.length && again.equals(buffer.subarray(offset, end)) ? Infinity : durable;
  }

  #flush(segment: Segment): void {
    try {
      this.files.datasync(this.#open(segment));
    } catch (error) {
      // A read-only file has no unflushed data.
      const code = systemCode(error);
      if (code !== 'EROFS' && code !== 'EINVAL') throw error;
    }
  }

  #readNow(places: readonly Place[]): ReadEvents {
    const offsets = this.#gather(places);
    this.#opener.readAgain();
    // This comes after all checks: a place may be requested twice, and an opened frame no longer matches its
    // checksum.
    for (const [index, { size }] of places.entries())
      this.#opener.open(this.#read, numberAt(offsets, index), size);
    const actions = this.actions();
    return new ReadFrames(this.#read, offsets, (sequence) => actions.erasureOf(sequence));
  }

  /** Reads the frames at these places into `#read`. @returns the offset of each. */
  #gather(places: readonly Place[]): Float64Array {
    const order = Uint32Array.from(places, (_, index) => index);
    const placeOf = (index: number) => places[index] ?? NOWHERE;
    order.sort((a, b) => placeOf(a).at - placeOf(b).at);
    if (order.length > 0) this.#know(placeOf(numberAt(order, order.length - 1)).at);
    const offsets = new Float64Array(places.length);
    const ranges: ReadRange[] = [];
    let filled = 0;
    for (let first = 0; first < order.length;) {
      const range = this.#range(order, first, placeOf);
      ranges.push(range);
      for (; first < range.end; first++) {
        const index = numberAt(order, first);
        offsets[index] = filled + placeOf(index).at - range.at;
      }
      filled += range.size;
    }
    [this.#read, this.#spare] = [this.#spare, this.#read];
    if (filled > this.#read.length) this.#read = Buffer.allocUnsafeSlow(filled);
    let filledTo = 0;
    for (const { segment, at, size } of ranges) {
      const held = this.files.read(this.#open(segment), this.#read, filledTo, size, offsetIn(segment, at));
      if (held < size) throw changed(segment, at);
      filledTo += size;
    }
    for (const [index, { at, size }] of places.entries()) {
      const offset = numberAt(offsets, index);
      const holds = checksumHolds(this.#read, offset, size);
      if (plausibleSize(this.#read, offset, filled) !== size || !holds)
        throw changed(this.#segmentOf(at), at);
    }
    return offsets;
  }

  /** The range to read with one call from this place on. */
  #range(order: Uint32Array, first: number, placeOf: (index: number) => Place): ReadRange {
    const { at, size } = placeOf(numberAt(order, first));
    const segment = this.#segmentOf(at);
    const limit = this.#segments[this.#segments.indexOf(segment) + 1]?.base ?? Infinity;
    let to = at + size;
    let end = first + 1;
    for (; end < order.length; end++) {
      const next = placeOf(numberAt(order, end));
      const nextTo = next.at + next.size;
      if (next.at - to > GAP_BYTES || nextTo > limit) break;
      to = Math.max(to, nextTo);
    }
    return { segment, at, size: to - at, end };
  }

  /** A copy of the valid frame at an address; undefined if there is none. */
  frameAt(address: number): Buffer | undefined {
    this.#know(address);
    return this.#segments.length === 0 ? undefined : this.#frameIn(this.#segmentOf(address), address);
  }

  /** Lists the segments again if the address may be in a new one. */
  #know(address: number): void {
    if (address >= (this.#segments.at(-1)?.base ?? 0)) this.#listedSegments();
  }

  #frameIn(segment: Segment, address: number): Buffer | undefined {
    return wholeFrame(this.files, this.#open(segment), offsetIn(segment, address));
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
    if (segment === undefined) throw new RangeError('the log is empty');
    return segment;
  }

  #open(segment: Segment): number {
    let fd = this.#descriptors.get(segment.path);
    if (fd === undefined) {
      if (this.#descriptors.size >= MOST_OPEN) this.#closeOldest();
      fd = this.files.open(segment.path, 'r');
      this.#descriptors.set(segment.path, fd);
    }
    return fd;
  }

  #closeAll(): void {
    for (const fd of this.#descriptors.values()) this.files.close(fd);
    this.#descriptors.clear();
    this.#heldSince = performance.now();
  }

  #closeOldest(): void {
    const [oldest] = this.#descriptors;
    if (oldest === undefined) return;
    this.files.close(oldest[1]);
    this.#descriptors.delete(oldest[0]);
  }
}

/** The organisation of the log's own entries, which no sender has. */
const OF_THE_LOG = '';
const NO_END: SegmentEnd & { tail: { state: 'clean' } } = {
  ...{ address: 0, offset: 0, nextSequence: 0 },
  tail: { state: 'clean' },
};

/** A contiguous range of a segment with one or more requested frames. */
interface ReadRange {
  readonly segment: Segment;
  readonly at: number;
  readonly size: number;
  /** Index after the last place in it, in address order. */
  readonly end: number;
}

/** Cuts a block to a range of sequences. @returns the last sequence before the cut. */
function cut(block: FrameBlock, from: number, through: number): number {
  const first = frameSequence(block.buffer, numberAt(block.offsets, 0));
  const last = first + block.offsets.length - 1;
  if (through < last) {
    const count = through - first + 1;
    block.end = block.offsets[count] ?? block.end;
    block.offsets.length = count;
  }
  if (from > first) {
    block.offsets.splice(0, from - first);
    block.sequence = from;
  }
  return last;
}

function changed(segment: Segment, address: number): Error {
  const reason = 'a frame has changed since it was read';
  return damagedAt(segment.path, offsetIn(segment, address), segment.firstSequence, reason);
}

type Matches = (buffer: Buffer, offset: number) => boolean;

/** Decides from the header alone, without decoding. */
function matcher({ kinds, organisation, runId, eventId, since, until }: EventFilter): Matches {
  const bytesOf = (id: string | undefined) => (id === undefined ? undefined : uuidBytes(id));
  const run = bytesOf(runId);
  const event = bytesOf(eventId);
  return (buffer, offset) => {
    if (frameIsOwn(buffer, offset)) return false;
    if (kinds && !kinds.has(EVENT_KINDS[frameKind(buffer, offset)] as EventKind)) return false;
    if (event && !frameEventId(buffer, offset).equals(event)) return false;
    if (run && !frameRunId(buffer, offset).equals(run)) return false;
    if (organisation !== undefined && frameOrganisation(buffer, offset) !== organisation) return false;
    const receivedAt = frameReceivedAt(buffer, offset);
    return (since === undefined || receivedAt >= since) && (until === undefined || receivedAt < until);
  };
}

/** A copy of an entry, whose views the next block overwrites. */
function kept(entry: StoredEntry): StoredEntry {
  const salted = Buffer.from(entry.salted);
  return {
    ...entry,
    envelope: Buffer.from(entry.envelope),
    commitment: Buffer.from(entry.commitment),
    salted,
    body: salted.subarray(salted.length - entry.body.length),
  };
}
