/**
 * The events of a record, as its row has them: chunks one behind the other, in the order in which they came in.
 *
 *   chunk  how many entries, and these; the first one against zeros, each other against the one before it
 *   entry  kind, and 8 when the payload cannot be read; sequence; place, against the end of the place before; size;
 *          received_at; unless it cannot be read, the sender's time against received_at
 *
 * A record of two merged ones has chunks of both, so their sequences are in order within a chunk alone.
 */
import { randomInt } from 'node:crypto';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import {
  type EventFacts,
  ID_BYTES,
  type PassedEntry,
  type Place,
  type ReadEvents,
} from '../store/contract/events.js';
import { RepeatedText, isNoId, uuidText } from '../store/text.js';
import { CatalogueDamaged, PackedReader, type PackedWriter } from './packing.js';

/* A stretch of the log in memory: what was passed of it, as bytes, and readable as what is read again. */

/** Senders choose the ids, and must not be able to choose where they fall. */
const SEED = randomInt(2 ** 32);

const MOST_BYTES = 16 << 20;
/** For each event that it is to hold; where they are larger, it grows. */
const BYTES_AN_EVENT = 1 << 10;
/** Behind it, so that an event of any size fits. */
const MORE_BYTES = 2 << 20;

export class LogBatch implements ReadEvents {
  /** Of each event its own id, that of its run and that of its parent, and its body. */
  source: Buffer;
  count = 0;
  readonly sequences: Float64Array;
  readonly places: Float64Array;
  readonly sizes: Uint32Array;
  readonly receivedAt: Float64Array;
  readonly #kinds: Uint8Array;
  /** Where the ids stand, in the source. */
  readonly #ids: Uint32Array;
  readonly #ends: Uint32Array;
  readonly #isRead: Uint8Array;
  readonly #organisations: string[] = [];
  /** Open addressing, by the ids of events: the place of one, and 1. */
  readonly #slots: Uint32Array;
  #isIndexed = false;
  #used = 0;
  readonly #runId = new RepeatedText(uuidText);

  constructor(private readonly most: number) {
    this.source = Buffer.allocUnsafeSlow(Math.min(MOST_BYTES, most * BYTES_AN_EVENT) + MORE_BYTES);
    this.#slots = new Uint32Array(2 ** Math.ceil(Math.log2(2 * most)));
    this.sequences = new Float64Array(most);
    this.places = new Float64Array(most);
    this.receivedAt = new Float64Array(most);
    this.sizes = new Uint32Array(most);
    this.#ids = new Uint32Array(most);
    this.#ends = new Uint32Array(most);
    this.#kinds = new Uint8Array(most);
    this.#isRead = new Uint8Array(most);
  }

  get isFull(): boolean {
    return this.count >= this.most || this.#used >= MOST_BYTES;
  }

  clear(): void {
    this.count = 0;
    this.#used = 0;
    this.#isIndexed = false;
  }

  /** @param entry no entry of the log's own. */
  add(entry: PassedEntry): void {
    const i = this.count++;
    const body = entry.body();
    const bytes = 3 * ID_BYTES + (body?.length ?? 0);
    if (this.#used + bytes > this.source.length) {
      this.source = Buffer.concat([this.source], 2 * this.source.length + bytes);
    }
    const { source } = entry;
    const at = this.#used;
    const { eventIdAt, runIdAt, parentIdAt } = entry;
    // For so few bytes a call costs more than the loop.
    for (let i = 0; i < ID_BYTES; i++) {
      this.source[at + i] = source[eventIdAt + i] ?? 0;
      this.source[at + ID_BYTES + i] = source[runIdAt + i] ?? 0;
      this.source[at + 2 * ID_BYTES + i] = source[parentIdAt + i] ?? 0;
    }
    if (body !== undefined) this.source.set(body, at + 3 * ID_BYTES);
    this.#used += bytes;
    this.sequences[i] = entry.sequence;
    this.places[i] = entry.at;
    this.sizes[i] = entry.size;
    this.receivedAt[i] = entry.receivedAt;
    this.#kinds[i] = EVENT_KINDS.indexOf(entry.kind);
    this.#ids[i] = at;
    this.#ends[i] = at + bytes;
    this.#isRead[i] = body === undefined ? 0 : 1;
    this.#organisations[i] = entry.organisation;
  }

  organisation(index: number): string {
    return this.#organisations[index] ?? '';
  }

  kind(index: number): EventKind {
    return EVENT_KINDS[this.#kinds[index] ?? 0] ?? 'outcome';
  }

  /** Where in the source its own id stands; behind it that of its run, and that of its parent. */
  idsAt(index: number): number {
    return this.#ids[index] ?? 0;
  }

  /** The place of an event in the batch; -1 when it is not there. */
  find(organisation: string, id: Uint8Array): number {
    if (!this.#isIndexed) this.#index();
    for (let slot = this.#slotOf(id, 0); ; slot = (slot + 1) & (this.#slots.length - 1)) {
      const index = (this.#slots[slot] ?? 0) - 1;
      if (index < 0) return -1;
      if (this.#hasId(index, id) && this.organisation(index) === organisation) return index;
    }
  }

  #index(): void {
    this.#slots.fill(0);
    for (let i = 0; i < this.count; i++) {
      let slot = this.#slotOf(this.source, this.idsAt(i));
      while (this.#slots[slot] !== 0) slot = (slot + 1) & (this.#slots.length - 1);
      this.#slots[slot] = i + 1;
    }
    this.#isIndexed = true;
  }

  #slotOf(source: Uint8Array, at: number): number {
    return hashOf(source, at) & (this.#slots.length - 1);
  }

  #hasId(index: number, id: Uint8Array): boolean {
    const at = this.idsAt(index);
    for (let i = 0; i < ID_BYTES; i++) if (this.source[at + i] !== id[i]) return false;
    return true;
  }

  /** Nothing that is made of them here asks by which key or profile an event came. */
  facts(index: number): EventFacts {
    const at = this.idsAt(index);
    const runAt = at + ID_BYTES;
    return {
      sequence: this.sequences[index] ?? 0,
      kind: this.kind(index),
      profile: 'minimum',
      organisation: this.organisation(index),
      keyId: '',
      receivedAt: this.receivedAt[index] ?? 0,
      eventId: uuidText(this.source, at),
      runId: isNoId(this.source, runAt) ? undefined : this.#runId.of(this.source, runAt, runAt + ID_BYTES),
      payloadState: this.#isRead[index] === 1 ? 'plain' : 'encrypted',
    };
  }

  bodyFrom(index: number): number {
    return this.#isRead[index] === 1 ? this.idsAt(index) + 3 * ID_BYTES : -1;
  }

  bodyTo(index: number): number {
    return this.#ends[index] ?? 0;
  }

  body(index: number): string | undefined {
    const from = this.bodyFrom(index);
    return from < 0 ? undefined : this.source.toString('utf8', from, this.bodyTo(index));
  }
}

/** A number of 32 bits. */
export function hashOf(ids: Uint8Array, from: number): number {
  let hash = SEED;
  for (let at = from; at < from + ID_BYTES; at++) hash = Math.imul(hash ^ (ids[at] ?? 0), 0x0100_0193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b_3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** An event of a record. Times in milliseconds since 1970. */
export interface EventEntry extends Place {
  readonly kind: EventKind;
  readonly sequence: number;
  readonly receivedAt: number;
  /** By the sender's clock; undefined when the payload cannot be read. */
  readonly sentAt: number | undefined;
}

const UNREADABLE = 8;

/**
 * @param indices of the events in the batch, in the order of their sequences.
 * @param sentAt of one of them, by its place among these.
 */
export function packEntries(
  writer: PackedWriter,
  batch: LogBatch,
  indices: readonly number[],
  sentAt: (place: number) => number | undefined,
): void {
  const packer = new EntryPacker(writer, indices.length);
  for (let place = 0; place < indices.length; place++) {
    const i = indices[place] ?? 0;
    const [at, receivedAt, size] = [batch.places[i] ?? 0, batch.receivedAt[i] ?? 0, batch.sizes[i] ?? 0];
    packer.add(batch.kind(i), batch.sequences[i] ?? 0, at, size, receivedAt, sentAt(place));
  }
}

/** The same for entries that were unpacked, in the order of the log. */
export function packAgain(writer: PackedWriter, entries: readonly EventEntry[]): void {
  const packer = new EntryPacker(writer, entries.length);
  for (const { kind, sequence, at, size, receivedAt, sentAt } of entries)
    packer.add(kind, sequence, at, size, receivedAt, sentAt);
}

/** Longer entries are moved out of the row, so that what is added to it next costs no more. */
export const MOST_INLINE = 512;

/** Writes entries, each as what it is behind the one before. Takes no object of each: a batch has 32,768 of them. */
class EntryPacker {
  #sequence = 0;
  #end = 0;
  #receivedAt = 0;

  constructor(
    private readonly writer: PackedWriter,
    count: number,
  ) {
    writer.count(count);
  }

  add(
    kind: EventKind,
    sequence: number,
    at: number,
    size: number,
    receivedAt: number,
    sentAt: number | undefined,
  ): void {
    const { writer } = this;
    writer.count(EVENT_KINDS.indexOf(kind) | (sentAt === undefined ? UNREADABLE : 0));
    writer.count(sequence - this.#sequence);
    writer.count(at - this.#end);
    writer.count(size);
    writer.signed(receivedAt - this.#receivedAt);
    if (sentAt !== undefined) writer.signed(sentAt - receivedAt);
    this.#sequence = sequence;
    this.#end = at + size;
    this.#receivedAt = receivedAt;
  }
}

/**
 * @returns all entries, in the order of the log.
 * @throws CatalogueDamaged for what {@link packEntries} has not made.
 */
export function unpackEntries(chunks: readonly Uint8Array[]): EventEntry[] {
  const entries: EventEntry[] = [];
  const order = { isKept: true, before: 0 };
  for (const bytes of chunks) {
    eachEntry(new PackedReader(bytes), (kind, receivedAt, sentAt, size, at, sequence) => {
      if (sequence < order.before) order.isKept = false;
      order.before = sequence;
      entries.push({ kind, sequence, at, size, receivedAt, sentAt });
    });
  }
  return order.isKept ? entries : entries.sort((a, b) => a.sequence - b.sequence);
}

type Visit = (
  kind: EventKind,
  receivedAt: number,
  sentAt: number | undefined,
  size: number,
  at: number,
  sequence: number,
) => void;

/**
 * Goes through the entries of some chunks without an object for each, as they stand there.
 * @throws CatalogueDamaged for what {@link packEntries} has not made.
 */
export function eachEntry(reader: PackedReader, visit: Visit): void {
  while (!reader.isAtEnd) {
    let [sequence, end, receivedAt] = [0, 0, 0];
    for (let left = reader.count(); left > 0; left--) {
      const mark = reader.count();
      const kind = kindOf(mark);
      sequence += reader.count();
      const at = end + reader.count();
      const size = reader.count();
      receivedAt += reader.signed();
      const sentAt = (mark & UNREADABLE) === 0 ? receivedAt + reader.signed() : undefined;
      end = at + size;
      visit(kind, receivedAt, sentAt, size, at, sequence);
    }
  }
}

/**
 * The same for the times alone.
 * @throws CatalogueDamaged for what {@link packEntries} has not made.
 */
export function eachTime(
  reader: PackedReader,
  visit: (kind: EventKind, receivedAt: number, sentAt: number | undefined) => void,
): void {
  while (!reader.isAtEnd) {
    let receivedAt = 0;
    for (let left = reader.count(); left > 0; left--) {
      const mark = reader.count();
      const kind = kindOf(mark);
      reader.skip(3);
      receivedAt += reader.signed();
      visit(kind, receivedAt, (mark & UNREADABLE) === 0 ? receivedAt + reader.signed() : undefined);
    }
  }
}

function kindOf(mark: number): EventKind {
  const kind = EVENT_KINDS[mark & (UNREADABLE - 1)];
  if (kind === undefined) throw new CatalogueDamaged('an entry of no kind');
  return kind;
}

/** About how much log the events of some chunks take: the sum of their sizes. */
export function logBytesIn(bytes: Uint8Array): number {
  let sum = 0;
  eachEntry(new PackedReader(bytes), (_kind, _receivedAt, _sentAt, size) => (sum += size));
  return sum;
}
