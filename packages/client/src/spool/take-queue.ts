/** Lets a call of `Spool.take` wait until its spool has events. */
import type { SpooledEvent } from './spool.js';

interface Source {
  /** Returns the events available now. One call at a time; does not throw. */
  collect(count: number, bytes: number): Promise<SpooledEvent[]>;
  giveBack(event: SpooledEvent): void;
}

interface Taker {
  readonly count: number;
  readonly bytes: number;
  readonly resolve: (events: SpooledEvent[]) => void;
}

export class TakeQueue {
  readonly #source: Source;
  #taker: Taker | undefined;
  #serving: Promise<void> | undefined;
  /** Calls of `serve`: detects events that arrive while `collect` returns none. */
  #calls = 0;
  #closed = false;

  constructor(source: Source) {
    this.#source = source;
  }

  /** See `Spool.take`. */
  take(count: number, bytes: number, signal?: AbortSignal): Promise<SpooledEvent[]> {
    if (!(count >= 1 && bytes >= 1))
      return Promise.reject(new RangeError('count and bytes must be at least 1'));
    if (this.#closed || signal?.aborted) return Promise.resolve([]);
    if (this.#taker) return Promise.reject(new Error('one call of take at a time'));
    return new Promise((resolve) => {
      const leave = () => taker.resolve([]);
      const taker: Taker = {
        ...{ count, bytes },
        resolve: (events) => {
          signal?.removeEventListener('abort', leave);
          if (this.#taker === taker) this.#taker = undefined;
          resolve(events);
        },
      };
      signal?.addEventListener('abort', leave, { once: true });
      this.#taker = taker;
      this.serve();
    });
  }

  /** Called when events may be available. */
  serve(): void {
    this.#calls++;
    if (this.#taker) this.#serving ??= this.#serve();
  }

  /** On return the waiting call has its answer. Later calls return no events. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#taker?.resolve([]);
    await this.#serving;
  }

  async #serve(): Promise<void> {
    for (let taker = this.#taker; taker; taker = this.#taker) {
      const calls = this.#calls;
      const events = await this.#source.collect(taker.count, taker.bytes);
      if (this.#taker !== taker) {
        // The call was aborted, or the spool is closed.
        for (const event of events) this.#source.giveBack(event);
      } else if (events.length > 0) taker.resolve(events);
      else if (this.#calls === calls) break;
    }
    this.#serving = undefined;
  }
}
