/** A stretch of the log in memory: what was passed of it, as bytes, and readable as what is read again. */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { ID_BYTES, type EventFacts, type ReadEvents } from '../store/event-log.js';
import { uuidText } from '../store/uuid-text.js';
import type { PassedEntry } from '../store/event-log.js';

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
  #used = 0;

  constructor(private readonly most: number) {
    this.source = Buffer.allocUnsafeSlow(Math.min(MOST_BYTES, most * BYTES_AN_EVENT) + MORE_BYTES);
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
    for (const [place, from] of [entry.eventIdAt, entry.runIdAt, entry.parentIdAt].entries()) {
      source.copy(this.source, at + place * ID_BYTES, from, from + ID_BYTES);
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
      runId: isNoId(this.source, runAt) ? undefined : uuidText(this.source, runAt),
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

export function isNoId(source: Uint8Array, at = 0): boolean {
  for (let i = at; i < at + ID_BYTES; i++) if (source[i] !== 0) return false;
  return true;
}

/** @param id in its text form. */
export function idBytes(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}
