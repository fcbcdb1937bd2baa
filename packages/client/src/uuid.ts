/**
 * Ids that sort by the time they were made: UUID version 7 (RFC 9562 section 5.7). Within one source they rise without
 * an exception, also within a millisecond and when the clock is set back a little (section 6.2, method 1: 12 bits of
 * counter in rand_a). The other 62 bits are random, so that two sources do not meet.
 */
import { randomFillSync } from 'node:crypto';

/** A clock that is further behind than this has been put right: ids follow it, and once do not rise. */
const LONGEST_STEP_BACK_MS = 10_000;
const COUNTER_END = 0x1000;
const POOL_BYTES = 4000;
const BYTES_AN_ID = 10;

export class UuidSource {
  readonly #now: () => number;
  readonly #pool = Buffer.alloc(POOL_BYTES);
  #at = POOL_BYTES;
  #milliseconds = -Infinity;
  #counter = 0;

  /** @param now Unix time in milliseconds. */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** In the textual form of section 4, in lower case. */
  next(): string {
    if (this.#at === POOL_BYTES) {
      randomFillSync(this.#pool);
      this.#at = 0;
    }
    const at = this.#at;
    this.#at += BYTES_AN_ID;
    const now = this.#now();
    if (now > this.#milliseconds || now < this.#milliseconds - LONGEST_STEP_BACK_MS) {
      this.#milliseconds = now;
      this.#startCounting(at);
    } else if (++this.#counter === COUNTER_END) {
      this.#milliseconds++;
      this.#startCounting(at);
    }
    // The variant, 10xx.
    this.#pool[at] = 0x80 | ((this.#pool[at] as number) & 0x3f);
    const time = this.#milliseconds.toString(16).padStart(12, '0');
    const counter = (0x7000 | this.#counter).toString(16);
    const random = this.#pool.toString('hex', at, at + 8);
    return `${time.slice(0, 8)}-${time.slice(8)}-${counter}-${random.slice(0, 4)}-${random.slice(4)}`;
  }

  /** From a random number in the lower half, so that there is room above it. */
  #startCounting(at: number): void {
    this.#counter = this.#pool.readUInt16BE(at + 8) & 0x7ff;
  }
}
