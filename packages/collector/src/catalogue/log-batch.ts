/** A stretch of the log in memory: what was passed of it, as bytes, and readable as what is read again. */
import { randomInt } from 'node:crypto';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { type EventFacts, ID_BYTES, type PassedEntry, type ReadEvents } from '../store/event-log.js';
import { RepeatedText } from '../store/repeated-text.js';
import { isNoId, uuidText } from '../store/uuid-text.js';

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
