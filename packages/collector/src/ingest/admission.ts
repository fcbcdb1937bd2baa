/**
 * Keeps the line in front of the ledger short while more comes than it can store, so that what is accepted is
 * accepted soon. Without it each connection may have an event in the line, and every sender waits for all of them.
 *
 * The measure is how many events wait for their answer, and nothing that the processor does. The answers come once a
 * turn of the loop, so the line grows whichever of the two threads is the slower one. Its limit is what was lately
 * answered in {@link LINE_MS}. A burst goes beyond it and passes by itself; only when the line was long in most of some
 * periods is a request refused, and until it was short in most of some seconds: those who were refused come back only
 * then. A key that has less than its part of the line, one of as many as there are keys in it, may make it longer, up
 * to twice its limit (docs/internals/adr/0013-overload.md).
 */
import type { Principal } from '../access/principal.js';
import type { RingWriter } from '../ledger/ring.js';

/** What waits should be answered within this time, in milliseconds. */
export const LINE_MS = 16;
/** So many may always wait: with smaller batches the ledger could do less. */
export const SHORT_LINE = 320;
export const PERIOD_MS = 100;
/**
 * A period was long when its events found, on average, more than so much of the limit; the second while in overload.
 */
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

  /**
   * How many events of a key may stand in the line that can wait outside of it, so that it stays short for those that
   * cannot: at least one. Nothing is refused for it.
   * @param now monotonic clock, milliseconds.
   */
  placesFor(share: Share, now: number): number {
    if (now >= this.#endsAt) this.#endPeriod(now);
    const keys = share.waiting > 0 ? this.#keys : this.#keys + 1;
    return Math.ceil(this.#limit / Math.max(this.#overloaded ? 4 : 2, keys));
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

/*
 * Keeps one key from holding all of the queue, be it with bodies that it has announced and does not send, or with
 * events that come faster than the ledger can store them, or that take longer than others.
 *
 * What an event takes is known afterwards, so it is the key's next events that are refused. What is taken before that
 * is bounded by the bytes of a key that the ledger has: a body of any content takes a few times what a plain one of its
 * size does. That holds from the first event on, also of a key that sends alone: its others wait for their turn.
 */

/** What a key's events hold of the queue, from their promise to their answer. */
export interface Share {
  bytes: number;
  events: number;
  /** Of the events those that have come and wait for the ledger (backlog.ts). */
  waiting: number;
  /** Milliseconds of either thread that its events took at `chargedAt`, less what they may take. */
  owedMs: number;
  /** Monotonic clock, milliseconds. */
  chargedAt: number;
  /** Events that the ledger has, and their bytes. */
  entered: number;
  enteredBytes: number;
  /** Those that have come and may not enter yet, oldest first. */
  readonly held: Held[];
}

interface Held {
  readonly bytes: number;
  readonly enter: () => void;
}

export function newShare(): Share {
  return { bytes: 0, events: 0, waiting: 0, owedMs: 0, chargedAt: 0, entered: 0, enteredBytes: 0, held: [] };
}

/** While the queue is crowded a key may hold so much of it, and no more. */
const PART = 0.25;
/** The same in bytes, while other keys send too, and at any time of what the ledger has: of 64 MiB two bodies of a MiB. */
const SHARED_PART = 1 / 32;
/** So long after two keys have sent, they are taken to share the queue, in milliseconds. */
const SHARED_MS = 60_000;
/** The milliseconds of an event that are not counted: it takes a tenth of that, on a thread that is not held up. */
const FREE_MS = 0.1;
/**
 * While keys share, the share of a thread's time that each may have in the long run, and the milliseconds that it may
 * owe.
 */
const TIME_PART = 0.5;
const MOST_OWED_MS = 100;
/** From this on it has one event at a time in the queue: another key waits for no more than that one. */
const MUCH_OWED_MS = 50;

export class FairShare {
  readonly #shares = new WeakMap<Principal, Share>();
  /** Who sent last. */
  #latest: Share | undefined;
  /** When that was another key than the one before. */
  #sharedAt = -Infinity;

  constructor(
    private readonly ring: Pick<RingWriter<unknown>, 'capacity' | 'crowded' | 'reserve' | 'extend'>,
  ) {}

  of(principal: Principal): Share {
    let share = this.#shares.get(principal);
    if (share === undefined) this.#shares.set(principal, (share = newShare()));
    return share;
  }

  /**
   * Promises room for one event, or returns false: the queue is full, or crowded or shared and the key has its part.
   * Every true is followed by one `settle` with all that was promised to the event and not given back.
   * @param now monotonic clock, milliseconds.
   */
  reserve(share: Share, bytes: number, now: number): boolean {
    this.#sends(share, now);
    const most = share.events > 0 ? MUCH_OWED_MS : MOST_OWED_MS;
    if (this.#shared(now) && owedMs(share, now) > most) return false;
    if (this.#exceeds(share, bytes, share.events, now) || !this.ring.reserve(bytes)) return false;
    share.bytes += bytes;
    share.events++;
    return true;
  }

  /** Promises more to an event that was promised some. */
  extend(share: Share, more: number, now: number): boolean {
    if (this.#exceeds(share, more, share.events - 1, now) || !this.ring.extend(more)) return false;
    share.bytes += more;
    return true;
  }

  /** An event has arrived, and is smaller than what it was promised. */
  shrink(share: Share, unused: number): void {
    share.bytes -= unused;
  }

  /** An event has arrived: it enters the ring now, or after the answers to events of its key that entered before. */
  enter(share: Share, bytes: number, now: number, enter: () => void): void {
    share.held.push({ bytes, enter });
    this.#letEnter(share, now);
  }

  /** The ledger has answered an event that entered. */
  answered(share: Share, bytes: number, now: number): void {
    share.entered--;
    share.enteredBytes -= bytes;
    this.settle(share, bytes);
    this.#letEnter(share, now);
  }

  /** The event has its answer: it no longer counts against the key. */
  settle(share: Share, bytes: number): void {
    share.bytes -= bytes;
    share.events--;
  }

  /** Counts what an event of the key has taken of a thread, in milliseconds. */
  charge(share: Share, tookMs: number, now: number): void {
    share.owedMs = owedMs(share, now) + Math.max(0, tookMs - FREE_MS);
    share.chargedAt = Math.max(share.chargedAt, now);
  }

  #letEnter(share: Share, now: number): void {
    for (let next = share.held[0]; next !== undefined; next = share.held[0]) {
      if (share.entered > 0) {
        if (share.enteredBytes + next.bytes > SHARED_PART * this.ring.capacity.bytes) return;
        if (this.#shared(now) && owedMs(share, now) > MUCH_OWED_MS) return;
      }
      share.held.shift();
      share.entered++;
      share.enteredBytes += next.bytes;
      next.enter();
    }
  }

  #sends(share: Share, now: number): void {
    if (this.#latest === share) return;
    if (this.#latest !== undefined) this.#sharedAt = now;
    this.#latest = share;
  }

  #shared(now: number): boolean {
    return now < this.#sharedAt + SHARED_MS;
  }

  /** @param others events that the key has in the queue beside this one. */
  #exceeds(share: Share, bytes: number, others: number, now: number): boolean {
    const { capacity, crowded } = this.ring;
    if (others > 0 && share.bytes + bytes > SHARED_PART * capacity.bytes && this.#shared(now)) return true;
    if (!crowded) return false;
    return share.bytes + bytes > PART * capacity.bytes || share.events + 1 > PART * capacity.events;
  }
}

function owedMs({ owedMs: owed, chargedAt }: Share, now: number): number {
  return Math.max(0, owed - Math.max(0, now - chargedAt) * TIME_PART);
}
