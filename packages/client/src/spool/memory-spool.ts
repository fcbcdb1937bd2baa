/**
 * The spool in memory, for tests and for hosts without a writable disk. All of it is lost when the process
 * ends.
 */
import type { EventKind } from '@clinical-events/protocol';
import {
  type OnTrouble,
  type Refusal,
  type Spool,
  SpoolClosed,
  type SpooledEvent,
  SpoolFull,
  type SpoolOptions,
  type SpoolState,
} from './spool.js';
import { TakeQueue } from './take-queue.js';

const MAX_BYTES = 64 << 20;
/** Approximate memory of an event in addition to its body. */
const OVERHEAD_BYTES = 256;

export class MemorySpool implements Spool {
  readonly #maxBytes: number;
  readonly #onTrouble: OnTrouble;
  readonly #taken = new Set<SpooledEvent>();
  /** Events before #next are taken or done. */
  #events: SpooledEvent[] = [];
  #next = 0;
  #returned: SpooledEvent[] = [];
  #bytes = 0;
  #quarantined = 0;
  #appended = 0;
  #closed = false;
  readonly #queue: TakeQueue;

  /** @throws RangeError */
  constructor({ maxBytes = MAX_BYTES, onTrouble = () => undefined }: SpoolOptions) {
    if (!(maxBytes >= 1)) throw new RangeError('maxBytes must be at least 1');
    this.#maxBytes = maxBytes;
    this.#onTrouble = onTrouble;
    this.#queue = new TakeQueue({
      collect: (count, bytes) => Promise.resolve(this.#collect(count, bytes)),
      giveBack: (event) => this.giveBack(event),
    });
  }

  append(kind: EventKind, body: Uint8Array): Promise<'durable'> {
    if (this.#closed) return Promise.reject(new SpoolClosed('the spool is closed'));
    const bytes = body.length + OVERHEAD_BYTES;
    if (this.#bytes + bytes > this.#maxBytes) {
      return Promise.reject(new SpoolFull(`the spool has reached its limit of ${this.#maxBytes} bytes`));
    }
    this.#bytes += bytes;
    const position = { segment: 'memory', offset: this.#appended++ };
    this.#events.push({ position, kind, body: Buffer.from(body), capturedAt: Date.now() });
    this.#queue.serve();
    return Promise.resolve('durable');
  }

  take(count: number, bytes: number, signal?: AbortSignal): Promise<SpooledEvent[]> {
    return this.#queue.take(count, bytes, signal);
  }

  done(event: SpooledEvent): void {
    if (this.#taken.delete(event)) this.#bytes -= event.body.length + OVERHEAD_BYTES;
  }

  giveBack(event: SpooledEvent): void {
    if (!this.#taken.delete(event)) return;
    this.#returned.push(event);
    this.#queue.serve();
  }

  quarantine(event: SpooledEvent, { status }: Refusal): Promise<void> {
    if (!this.#taken.has(event)) return Promise.resolve();
    this.#quarantined++;
    this.done(event);
    this.#onTrouble(
      `an event was refused (${status}) and dropped: a spool in memory has no quarantine`,
      undefined,
    );
    return Promise.resolve();
  }

  get state(): SpoolState {
    const waiting = this.#events.length - this.#next + this.#returned.length + this.#taken.size;
    const held = [...this.#taken, ...this.#returned, ...this.#events.slice(this.#next, this.#next + 1)];
    const oldest = held.reduce((least, event) => Math.min(least, event.capturedAt), Infinity);
    return {
      ...{ waiting, waitingBytes: this.#bytes, quarantined: this.#quarantined, cut: 0, watched: 0 },
      ...(waiting > 0 && { oldest: new Date(oldest).toISOString() }),
    };
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#queue.close();
    const { waiting } = this.state;
    if (waiting > 0) this.#onTrouble(`${waiting} events are lost: the spool was in memory only`, undefined);
  }

  #collect(count: number, bytes: number): SpooledEvent[] {
    const events: SpooledEvent[] = [];
    for (let left = bytes; events.length < count && left > 0;) {
      const event = this.#returned.shift() ?? this.#events[this.#next++];
      if (!event) {
        this.#events = [];
        this.#next = 0;
        break;
      }
      this.#taken.add(event);
      events.push(event);
      left -= event.body.length;
    }
    if (this.#next > 1024 && this.#next * 2 > this.#events.length) {
      this.#events = this.#events.slice(this.#next);
      this.#next = 0;
    }
    return events;
  }
}
