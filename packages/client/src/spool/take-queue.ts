/** Calls of `take` that wait, first come, first served. */
import type { SpooledEvent } from './contract.js';

interface Taker {
  readonly count: number;
  readonly bytes: number;
  readonly resolve: (events: SpooledEvent[]) => void;
}

interface Source {
  /** The next events, as many as there are now. One call at a time; does not throw. */
  collect(count: number, bytes: number): Promise<SpooledEvent[]>;
  giveBack(event: SpooledEvent): void;
}

export class TakeQueue {
  readonly #source: Source;
  readonly #waiting: Taker[] = [];
  #serving: Promise<void> | undefined;
  /** How often `serve` was called: between an empty answer and its arrival something may have come. */
  #calls = 0;
  #closed = false;

  constructor(source: Source) {
    this.#source = source;
  }

  /** See `Spool.take`. */
  take(count: number, bytes: number, signal?: AbortSignal): Promise<SpooledEvent[]> {
    if (!(count >= 1 && bytes >= 1))
      return Promise.reject(new RangeError('take needs a count and bytes from 1 on'));
    if (this.#closed || signal?.aborted) return Promise.resolve([]);
    return new Promise((resolve) => {
      const leave = () => {
        const place = this.#waiting.indexOf(taker);
        if (place >= 0) this.#waiting.splice(place, 1);
        resolve([]);
      };
      const taker: Taker = {
        count,
        bytes,
        resolve: (events) => {
          signal?.removeEventListener('abort', leave);
          resolve(events);
        },
      };
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.push(taker);
      this.serve();
    });
  }

  /** Called when there may be something to take. */
  serve(): void {
    this.#calls++;
    if (this.#waiting.length > 0) this.#serving ??= this.#serve();
  }

  /** On return every call has been answered, and none gets anything any more. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const taker of this.#waiting.splice(0)) taker.resolve([]);
    await this.#serving;
  }

  async #serve(): Promise<void> {
    for (let taker = this.#waiting[0]; taker; taker = this.#waiting[0]) {
      const calls = this.#calls;
      const events = await this.#source.collect(taker.count, taker.bytes);
      if (this.#waiting[0] !== taker) {
        // It was aborted, or all is closed.
        for (const event of events) this.#source.giveBack(event);
      } else if (events.length > 0) {
        this.#waiting.shift();
        taker.resolve(events);
      } else if (this.#calls === calls) break;
    }
    this.#serving = undefined;
  }
}
