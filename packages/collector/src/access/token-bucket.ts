/** How many events a key may send: a bucket of tokens that fills at a steady rate, one token an event. */
import type { RateLimit } from '../store/key-store.js';

/**
 * The bucket of one key in one ingest thread: N threads or collectors let through N times the rate. An exact common
 * limit would cost a round trip between threads for each event, and its purpose is to contain a sender that has run
 * wild, not to bill one.
 */
export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #lastMs: number | undefined;
  /** How often there was none to take. */
  refused = 0;

  /** A full bucket. */
  constructor(limit: RateLimit) {
    this.#perMs = limit.perSecond / 1000;
    this.#burst = limit.burst;
    this.#tokens = limit.burst;
  }

  /**
   * Takes a token if there is one.
   * @param nowMs a monotonic clock such as `performance.now()`. Should it go back all the same, nothing is
   *   refilled for it, and refilling goes on from the new time instead of waiting for the old one to come again.
   * @returns 0 when a token was taken, else in how many whole seconds (at least 1) one will be there.
   */
  take(nowMs: number): number {
    const passed = nowMs - (this.#lastMs ?? nowMs);
    this.#lastMs = nowMs;
    if (passed > 0) this.#tokens = Math.min(this.#burst, this.#tokens + passed * this.#perMs);
    if (this.#tokens >= 1) {
      this.#tokens -= 1;
      return 0;
    }
    this.refused++;
    return Math.max(1, Math.ceil((1 - this.#tokens) / this.#perMs / 1000));
  }
}
