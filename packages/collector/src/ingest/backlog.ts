/**
 * Keeps the line in front of the ledger short while more comes than it can store, so that what is accepted is
 * accepted soon. Without it each connection may have an event in the line, and everybody waits for all of them.
 *
 * The measure is how many events wait for their answer, and nothing that the processor does. The answers come once a
 * turn of the loop, so the line grows whichever of the two threads is the slower one. Its limit is what was lately
 * answered in {@link LINE_MS}. A burst goes beyond it and passes by itself; only when the line was long in most of some
 * periods is anybody refused, and until it was short in most of some seconds: those who were refused come back only
 * then. A key that has less than its part of the line, one of as many as there are keys in it, may make it longer, up to
 * twice its limit (docs/internals/adr/0013-overload.md).
 */
import type { Share } from './fair-share.js';

/** What waits should be answered within so many milliseconds. */
export const LINE_MS = 16;
/** So many may always wait: with smaller batches the ledger could do less. */
export const SHORT_LINE = 320;
export const PERIOD_MS = 100;
/** A period was long when its events found, on average, more than so much of the limit; the second while in overload. */
const LONG = 3 / 4;
const STILL_LONG = 1 / 3;
/** A long period raises the score by so much, a short one lowers it by one. */
const RISE = 2;
/** From this score on it is overload, the score jumps to its highest, and the overload ends when it is 0. */
const OVERLOAD = 3 * RISE;
const HIGHEST = 30;
/** How much a period moves the rate that the line is measured by. */
const WEIGHT = 1 / 8;

export class Backlog {
  #waiting = 0;
  /** Keys with an event in the line. */
  #keys = 0;
  #limit = SHORT_LINE;
  #answeredPerMs = 0;
  #score = 0;
  #overloaded = false;
  /** Of the period that runs. */
  #endsAt = 0;
  #arrived = 0;
  /** Sum of what they found before them. */
  #found = 0;
  #answered = 0;

  /** Whether more comes, and has come for some time, than can be stored. */
  get overloaded(): boolean {
    return this.#overloaded;
  }

  /** An event takes its place in the line. Followed by one `left`. */
  entered(share: Share): void {
    this.#waiting++;
    if (share.waiting++ === 0) this.#keys++;
  }

  /** It has its answer. */
  left(share: Share): void {
    this.#waiting--;
    this.#answered++;
    if (--share.waiting === 0) this.#keys--;
  }

  /**
   * Whether an event of this key may take a place in the line. To be asked once for each that could.
   * @param now monotonic clock, milliseconds.
   * @param late it has waited before it was read, for longer than anything in the line.
   */
  admits(share: Share, now: number, late: boolean): boolean {
    if (now >= this.#endsAt) this.#endPeriod(now);
    this.#arrived++;
    this.#found += this.#waiting;
    if (!this.#overloaded) return true;
    if (late) return false;
    if (this.#waiting < this.#limit) return true;
    const keys = share.waiting > 0 ? this.#keys : this.#keys + 1;
    return this.#waiting < 2 * this.#limit && share.waiting * keys < this.#limit;
  }

  #endPeriod(now: number): void {
    const ms = now - this.#endsAt + PERIOD_MS;
    this.#answeredPerMs += (this.#answered / ms - this.#answeredPerMs) * WEIGHT;
    // When nothing came for a while, the line may have stood still or have been answered.
    const further = Math.floor(ms / PERIOD_MS) - 1;
    this.#count(this.#isLong(this.#arrived === 0 ? this.#waiting : this.#found / this.#arrived), 1);
    this.#count(this.#isLong(this.#waiting), further);
    this.#limit = Math.max(SHORT_LINE, this.#answeredPerMs * LINE_MS);
    this.#arrived = this.#found = this.#answered = 0;
    this.#endsAt = now + PERIOD_MS;
  }

  #isLong(line: number): boolean {
    return line > (this.#overloaded ? STILL_LONG : LONG) * this.#limit;
  }

  /** So many periods were long, or were not. */
  #count(long: boolean, periods: number): void {
    const score = this.#score + (long ? RISE : -1) * periods;
    this.#score = Math.min(HIGHEST, Math.max(0, score));
    if (this.#score === 0) this.#overloaded = false;
    else if (!this.#overloaded && this.#score >= OVERLOAD) {
      this.#overloaded = true;
      this.#score = HIGHEST;
    }
  }
}
