/**
 * The bounded queue between the HTTP thread and the ledger thread: a ring in shared memory with one writer
 * and one reader. An event's bytes are copied once, into the ring; nothing is allocated for it, and a full
 * ring does not grow.
 *
 * Data. Each event is a contiguous run of bytes: organisation, key id, room for the salt, body. An event that
 * does not fit before the end begins at 0. The reader fills the room for the salt, so that salt and body can
 * be hashed and copied as one. Slots. `SLOT_WORDS` 32-bit words per event, at its number modulo the capacity:
 *   0 offset  1 length of organisation | length of key id << 8  2 length of body
 *   3 kind | profile << 8 | door << 16
 *   4-5 received_at as a double  6 answer  7 microseconds that it took
 *   Words 0 to 5 belong to the writer until it publishes, then they are fixed; 6 and 7 belong to the reader.
 * Control. Word 0: the number of published events, modulo 2^32, which only the writer changes. Doorbell. One
 * word, shared by all rings of a ledger and notified at each publication; the reader sleeps on it.
 *
 * Answers return in messages, one per batch: `Answered`. Messages of 64 events each, in place of the ring,
 * would cost 6 microseconds per event in garbage collection alone
 * (docs/internals/adr/0002-two-threads-one-ring.md).
 */
import type { MessagePort } from 'node:worker_threads';
import {
  DOORS,
  EVENT_KINDS,
  PROFILES,
  SALT_BYTES,
  type Door,
  type EventKind,
  type Profile,
} from '@clinical-events/protocol';
import type { Fault } from './examine.js';

const SLOT_WORDS = 8;
/**
 * Events are published when this number is staged: the ledger starts on them while the rest of the tick is
 * read.
 */
const PUBLISH_EVERY = 64;

/** The result of an event in the ring, in word 6 of its slot. */
export const ANSWER = {
  accepted: 1,
  conflict: 2,
  fault: 3,
  notCommitted: 4,
  unknown: 5,
  unreadable: 6,
  erased: 7,
} as const;
export type Answer = keyof typeof ANSWER;
const ANSWER_NAMES = Object.fromEntries(Object.entries(ANSWER).map(([name, code]) => [code, name])) as Record<
  number,
  Answer
>;

export interface RingMemory {
  readonly data: SharedArrayBuffer;
  readonly slots: SharedArrayBuffer;
  readonly control: SharedArrayBuffer;
  readonly doorbell: SharedArrayBuffer;
}

/** Every event below `upTo` (modulo 2^32) is answered; `faults` has the faulty ones by event number. */
export interface Answered {
  readonly upTo: number;
  readonly faults?: readonly (readonly [number, Fault])[];
}

/** A slot keeps an offset in 31 bits; a larger offset would point to another event's bytes. */
const MAX_RING_BYTES = 2 ** 31 - 1;

/**
 * @param bytes of data.
 * @param events capacity, rounded up to a power of two so that counting may wrap.
 * @throws RangeError above `MAX_RING_BYTES`.
 */
export function createRingMemory(bytes: number, events: number, doorbell: SharedArrayBuffer): RingMemory {
  if (bytes > MAX_RING_BYTES) throw new RangeError(`a queue has at most ${MAX_RING_BYTES} bytes`);
  const capacity = 2 ** Math.ceil(Math.log2(events));
  return {
    data: new SharedArrayBuffer(bytes),
    slots: new SharedArrayBuffer(capacity * SLOT_WORDS * 4),
    control: new SharedArrayBuffer(4),
    doorbell,
  };
}

/** The sender of an event, and the rules that apply. */
export interface Sender {
  readonly organisation: string;
  readonly keyId: string;
}

/** The HTTP side. `T` is what the caller needs for its answer. */
export class RingWriter<T> {
  readonly #data: Buffer;
  readonly #words: Int32Array;
  readonly #doubles: Float64Array;
  readonly #control: Int32Array;
  readonly #doorbell: Int32Array;
  readonly #mask: number;
  readonly #waiting: (T | undefined)[];
  /** Bytes of the ring that each waiting event holds, including a skipped end. */
  readonly #held: Int32Array;
  /** Bytes that are never reserved: the largest end of the ring that an event may skip. */
  readonly #spare: number;
  #head = 0;
  #usedBytes = 0;
  #reservedBytes = 0;
  #reservedEvents = 0;
  #pushed = 0;
  #published = 0;
  #answered = 0;

  constructor(
    memory: RingMemory,
    port: MessagePort,
    maxBodyBytes: number,
    /**
     * `place`: the number of earlier answers in the same message. `tookMs`: how long the ledger's thread was
     * busy with this event alone, in milliseconds.
     */
    private readonly onAnswer: (
      waiting: T,
      answer: Answer,
      fault: Fault | undefined,
      place: number,
      tookMs: number,
    ) => void,
  ) {
    this.#data = Buffer.from(memory.data);
    this.#words = new Int32Array(memory.slots);
    this.#doubles = new Float64Array(memory.slots);
    this.#control = new Int32Array(memory.control);
    this.#doorbell = new Int32Array(memory.doorbell);
    const capacity = this.#words.length / SLOT_WORDS;
    this.#mask = capacity - 1;
    this.#waiting = new Array<T | undefined>(capacity).fill(undefined);
    this.#held = new Int32Array(capacity);
    this.#spare = maxBodyBytes + MAX_SENDER_BYTES;
    port.on('message', (answered: Answered) => this.#settle(answered));
  }

  /** Events that are being received or wait for their answer. */
  get pending(): number {
    return this.#reservedEvents + ((this.#pushed - this.#answered) | 0);
  }

  /** Bytes that are reserved or used. */
  get usedBytes(): number {
    return this.#usedBytes + this.#reservedBytes;
  }

  /** The capacity, in bytes and in events. */
  get capacity(): { readonly bytes: number; readonly events: number } {
    return { bytes: this.#data.length, events: this.#mask + 1 };
  }

  /** Whether more than half of the capacity is reserved or used. */
  get crowded(): boolean {
    return 2 * this.usedBytes > this.#data.length || 2 * this.pending > this.#mask + 1;
  }

  /**
   * Reserves room for one event with a body of at most `bodyBytes`, or returns false: the queue is full.
   * Every true must be followed by exactly one `push` or `release` with the same number, plus what `extend`
   * added.
   */
  reserve(bodyBytes: number): boolean {
    const bytes = bodyBytes + MAX_SENDER_BYTES;
    if (this.pending > this.#mask) return false;
    if (this.#usedBytes + this.#reservedBytes + bytes + this.#spare > this.#data.length) return false;
    this.#reservedBytes += bytes;
    this.#reservedEvents++;
    return true;
  }

  /** Reserves `more` bytes for one event, or returns false and changes nothing. */
  extend(more: number): boolean {
    if (this.#usedBytes + this.#reservedBytes + more + this.#spare > this.#data.length) return false;
    this.#reservedBytes += more;
    return true;
  }

  release(bodyBytes: number): void {
    this.#reservedBytes -= bodyBytes + MAX_SENDER_BYTES;
    this.#reservedEvents--;
  }

  /**
   * Copies an event into the ring; `onAnswer` receives its answer, in the order of the pushes.
   * @param reserved the reservation for its body.
   * @param chunks the body in pieces, together at most `reserved` bytes.
   */
  push(
    waiting: T,
    reserved: number,
    kind: EventKind,
    profile: Profile,
    door: Door,
    { organisation, keyId }: Sender,
    receivedAt: number,
    chunks: readonly Uint8Array[],
  ): void {
    this.release(reserved);
    let bodyBytes = 0;
    for (const chunk of chunks) bodyBytes += chunk.length;
    const bytes = organisation.length + keyId.length + SALT_BYTES + bodyBytes;
    // Nothing is skipped when the previous event ended exactly at the end of the ring.
    const wraps = this.#head + bytes > this.#data.length;
    const skipped = wraps ? this.#data.length - this.#head : 0;
    const offset = wraps ? 0 : this.#head;
    let at = offset + this.#data.write(organisation, offset, 'latin1');
    at += this.#data.write(keyId, at, 'latin1') + SALT_BYTES;
    for (const chunk of chunks) {
      this.#data.set(chunk, at);
      at += chunk.length;
    }
    this.#head = at;
    const slot = this.#pushed & this.#mask;
    const word = slot * SLOT_WORDS;
    this.#words[word] = offset;
    this.#words[word + 1] = organisation.length | (keyId.length << 8);
    this.#words[word + 2] = bodyBytes;
    this.#words[word + 3] =
      EVENT_KINDS.indexOf(kind) | (PROFILES.indexOf(profile) << 8) | (DOORS.indexOf(door) << 16);
    this.#doubles[slot * (SLOT_WORDS / 2) + 2] = receivedAt;
    this.#waiting[slot] = waiting;
    this.#held[slot] = bytes + skipped;
    this.#usedBytes += bytes + skipped;
    this.#pushed = (this.#pushed + 1) | 0;
    const unpublished = (this.#pushed - this.#published) | 0;
    if (unpublished >= PUBLISH_EVERY) this.#publish();
    else if (unpublished === 1) setImmediate(this.#publish);
  }

  readonly #publish = (): void => {
    if (this.#published === this.#pushed) return;
    this.#published = this.#pushed;
    Atomics.store(this.#control, 0, this.#published);
    Atomics.add(this.#doorbell, 0, 1);
    Atomics.notify(this.#doorbell, 0);
  };

  #settle({ upTo, faults }: Answered): void {
    let nextFault = 0;
    let place = 0;
    while (this.#answered !== upTo) {
      const number = this.#answered;
      const slot = number & this.#mask;
      const waiting = this.#waiting[slot];
      this.#waiting[slot] = undefined;
      this.#usedBytes -= this.#held[slot] ?? 0;
      this.#answered = (number + 1) | 0;
      const answer = ANSWER_NAMES[this.#words[slot * SLOT_WORDS + 6] ?? 0];
      const fault = answer === 'fault' ? faults?.[nextFault++]?.[1] : undefined;
      if (waiting === undefined || answer === undefined) throw new Error('an answer for no event');
      this.onAnswer(waiting, answer, fault, place++, (this.#words[slot * SLOT_WORDS + 7] ?? 0) / 1000);
    }
  }
}

/**
 * The greatest length of organisation, key id and salt together (access/ limits the first two to 64 and 12).
 */
const MAX_SENDER_BYTES = 128;

/** An event as the reader finds it in the ring; the views are valid until its answer is sent. */
export interface Queued {
  readonly kind: EventKind;
  readonly profile: Profile;
  readonly door: Door;
  readonly organisation: string;
  readonly keyId: string;
  readonly receivedAt: number;
  /** SALT_BYTES for the reader to fill, then the body. */
  readonly salted: Buffer;
}

/** The ledger's side. */
export class RingReader {
  readonly #data: Buffer;
  readonly #words: Int32Array;
  readonly #doubles: Float64Array;
  readonly #control: Int32Array;
  readonly #mask: number;
  #taken = 0;
  #faults: (readonly [number, Fault])[] = [];
  #answered = 0;
  #sent = 0;

  constructor(
    memory: RingMemory,
    private readonly port: MessagePort,
  ) {
    this.#data = Buffer.from(memory.data);
    this.#words = new Int32Array(memory.slots);
    this.#doubles = new Float64Array(memory.slots);
    this.#control = new Int32Array(memory.control);
    this.#mask = this.#words.length / SLOT_WORDS - 1;
  }

  /** The number of published events that were not taken yet. */
  get waiting(): number {
    return (Atomics.load(this.#control, 0) - this.#taken) | 0;
  }

  /** The next event; undefined when all published events were taken. */
  take(): Queued | undefined {
    if (this.#taken === Atomics.load(this.#control, 0)) return undefined;
    const slot = this.#taken & this.#mask;
    const word = slot * SLOT_WORDS;
    this.#taken = (this.#taken + 1) | 0;
    const lengths = this.#words[word + 1] ?? 0;
    const keyStart = (this.#words[word] ?? 0) + (lengths & 255);
    const saltStart = keyStart + (lengths >> 8);
    const codes = this.#words[word + 3] ?? 0;
    return {
      kind: EVENT_KINDS[codes & 255] as EventKind,
      profile: PROFILES[(codes >> 8) & 255] as Profile,
      door: DOORS[codes >> 16] as Door,
      organisation: this.#data.toString('latin1', this.#words[word], keyStart),
      keyId: this.#data.toString('latin1', keyStart, saltStart),
      receivedAt: this.#doubles[slot * (SLOT_WORDS / 2) + 2] ?? 0,
      salted: this.#data.subarray(saltStart, saltStart + SALT_BYTES + (this.#words[word + 2] ?? 0)),
    };
  }

  /** Records the answer of the oldest taken event that has none. */
  answer(answer: Answer, fault?: Fault, tookMs = 0): void {
    const word = (this.#answered & this.#mask) * SLOT_WORDS;
    this.#words[word + 6] = ANSWER[answer];
    this.#words[word + 7] = tookMs * 1000;
    if (fault) this.#faults.push([this.#answered, fault]);
    this.#answered = (this.#answered + 1) | 0;
  }

  /** Sends the answers recorded since the last call, if any. */
  send(): void {
    if (this.#answered === this.#sent) return;
    this.#sent = this.#answered;
    const message: Answered =
      this.#faults.length > 0 ? { upTo: this.#answered, faults: this.#faults } : { upTo: this.#answered };
    this.#faults = [];
    this.port.postMessage(message);
  }
}
