/**
 * Limits the number of events that wait for the ledger while more arrive than it can store. Without a limit,
 * each connection could have one event waiting, and every sender would wait for all of them.
 *
 * The measure is the number of events without an answer, not processor load. Answers arrive once per turn of
 * the event loop, so the line grows whichever thread is the slower one. Its limit is the number of events
 * answered in {@link LINE_MS} at the recent rate. A short burst may exceed it. Refusals begin only after the
 * line was long in most of several periods. They end only after it was short for several seconds, because
 * refused clients return only then. A key with less than its share of the line (one divided by the number of
 * keys in it) may lengthen it to twice the limit (docs/internals/adr/0013-overload.md).
 */
import type { Principal } from '../access/principal.js';
import type { RingWriter } from '../ledger/ring.js';

/** The time within which waiting events should be answered, in milliseconds. */
export const LINE_MS = 16;
/** This number of events may always wait: smaller batches would lower the ledger's throughput. */
export const SHORT_LINE = 320;
export const PERIOD_MS = 100;
/**
 * A period counts as long when its events found, on average, more than this share of the limit; the second
 * value applies in overload.
 */
const LONG = 3 / 4;
const STILL_LONG = 1 / 3;
/** A long period raises the score by this much, a short one lowers it by one. */
const RISE = 2;
/** The score at which overload begins; it then jumps to its maximum. Overload ends at 0. */
const OVERLOAD = 3 * RISE;
const HIGHEST = 30;
/** The weight of one period in the rate from which the limit is computed. */
const WEIGHT = 1 / 8;

export class Backlog {
  #waiting = 0;
  /** Keys with an event in the line. */
  #keys = 0;
  #limit = SHORT_LINE;
  #answeredPerMs = 0;
  #score = 0;
  #overloaded = false;
  /** Events of the current period. */
  #endsAt = 0;
  #arrived = 0;
  /** Sum of the line's lengths that they found on arrival. */
  #found = 0;
  #answered = 0;

  /** Whether more events have been arriving for some time than can be stored. */
  get overloaded(): boolean {
    return this.#overloaded;
  }

  /** An event joins the line. One `left` must follow. */
  entered(share: Share): void {
    this.#waiting++;
    if (share.waiting++ === 0) this.#keys++;
  }

  /** An event was answered. */
  left(share: Share): void {
    this.#waiting--;
    this.#answered++;
    if (--share.waiting === 0) this.#keys--;
  }

  /**
   * Whether an event of this key may join the line. Call once for each event that could.
   * @param now monotonic clock, milliseconds.
   * @param late whether it waited unread for longer than any event in the line.
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
   * The number of this key's events that may join the line when they could wait outside it: at least one.
   * Keeps the line short for events that cannot wait; never a reason to refuse an event.
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
    // After a silence the age of the line is unknown: it may have stalled or been answered.
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

  /** Records a number of periods that were long, or were not. */
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
 * Keeps one key from occupying the whole queue, with bodies that it announces and does not send, with events
 * that arrive faster than the ledger stores them, or with events that are expensive to examine.
 *
 * The cost of an event is known only afterwards, so it is charged to the key's next events. Before that, the
 * bytes of a key that are in the ledger are bounded: the worst body costs a few times as much as a plain one
 * of its size. The bound also holds for a key that sends alone; its other events wait for their turn.
 */

/** The part of the queue that a key's events occupy, from reservation to answer. */
export interface Share {
  bytes: number;
  events: number;
  /** Events that have arrived and wait for the ledger (Backlog). */
  waiting: number;
  /** Milliseconds of either thread that its events had used by `chargedAt`, minus its allowance. */
  owedMs: number;
  /** Monotonic clock, milliseconds. */
  chargedAt: number;
  /** Events that are in the ledger, and their bytes. */
  entered: number;
  enteredBytes: number;
  /** Events that have arrived and may not enter yet, oldest first. */
  readonly held: Held[];
}

interface Held {
  readonly bytes: number;
  readonly enter: () => void;
}

export function newShare(): Share {
  return { bytes: 0, events: 0, waiting: 0, owedMs: 0, chargedAt: 0, entered: 0, enteredBytes: 0, held: [] };
}

/** The largest part of the queue that a key may hold while the queue is crowded. */
const PART = 0.25;
/**
 * The same in bytes while other keys send, and always for bytes in the ledger: with a queue of 64 MiB, two
 * bodies of 1 MiB.
 */
const SHARED_PART = 1 / 32;
/** Two keys count as sharing the queue for this time after both have sent, in milliseconds. */
const SHARED_MS = 60_000;
/**
 * Milliseconds of an event that are not charged: ten times what it takes on a thread that runs undisturbed.
 */
const FREE_MS = 0.1;
/**
 * While keys share: the part of a thread's time that each may use in the long run, and its largest debt in
 * ms.
 */
const TIME_PART = 0.5;
const MOST_OWED_MS = 100;
/**
 * With at least this debt, a key may have one event at a time in the queue, so that others wait for one event
 * at most.
 */
const MUCH_OWED_MS = 50;

export class FairShare {
  readonly #shares = new WeakMap<Principal, Share>();
  /** The key that sent last. */
  #latest: Share | undefined;
  /** When the sending key last changed. */
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
   * Reserves room for one event. Returns false when the queue is full, or is crowded or shared and the key
   * already holds its share. After each true, `settle` must be called once with all that was reserved and not
   * returned.
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

  /** Reserves more for an event that has a reservation. */
  extend(share: Share, more: number, now: number): boolean {
    if (this.#exceeds(share, more, share.events - 1, now) || !this.ring.extend(more)) return false;
    share.bytes += more;
    return true;
  }

  /** An event has arrived and is smaller than its reservation. */
  shrink(share: Share, unused: number): void {
    share.bytes -= unused;
  }

  /** An event has arrived: it enters the ring now, or after earlier events of its key were answered. */
  enter(share: Share, bytes: number, now: number, enter: () => void): void {
    share.held.push({ bytes, enter });
    this.#letEnter(share, now);
  }

  /** The ledger has answered an event that had entered. */
  answered(share: Share, bytes: number, now: number): void {
    share.entered--;
    share.enteredBytes -= bytes;
    this.settle(share, bytes);
    this.#letEnter(share, now);
  }

  /** The event was answered and no longer counts against the key. */
  settle(share: Share, bytes: number): void {
    share.bytes -= bytes;
    share.events--;
  }

  /** Charges the thread time that an event has used to its key, in milliseconds. */
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

  /** @param others the number of other events that the key has in the queue. */
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
