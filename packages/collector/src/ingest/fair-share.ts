/**
 * Keeps one key from holding all of the queue, be it with bodies that it has announced and does not send, or with
 * events that come faster than the ledger can store them.
 */
import type { Principal } from '../access/principal.js';
import type { RingWriter } from '../ledger/ring.js';

/** What a key's events hold of the queue, from their promise to their answer. */
export interface Share {
  bytes: number;
  events: number;
}

/** While the queue is crowded a key may hold so much of it, and no more. */
const PART = 0.25;

export class FairShare {
  readonly #shares = new WeakMap<Principal, Share>();

  constructor(
    private readonly ring: Pick<RingWriter<unknown>, 'capacity' | 'crowded' | 'reserve' | 'extend'>,
  ) {}

  of(principal: Principal): Share {
    let share = this.#shares.get(principal);
    if (share === undefined) this.#shares.set(principal, (share = { bytes: 0, events: 0 }));
    return share;
  }

  /**
   * Promises room for one event, or returns false: the queue is full, or crowded and the key has its part.
   * Every true is followed by one `settle` with all that was promised to the event and not given back.
   */
  reserve(share: Share, bytes: number): boolean {
    if (this.#exceeds(share, bytes) || !this.ring.reserve(bytes)) return false;
    share.bytes += bytes;
    share.events++;
    return true;
  }

  /** Promises more to an event that was promised some. */
  extend(share: Share, more: number): boolean {
    if (this.#exceeds(share, more) || !this.ring.extend(more)) return false;
    share.bytes += more;
    return true;
  }

  /** An event has arrived, and is smaller than what it was promised. */
  shrink(share: Share, unused: number): void {
    share.bytes -= unused;
  }

  /** The event has its answer: it no longer counts against the key. */
  settle(share: Share, bytes: number): void {
    share.bytes -= bytes;
    share.events--;
  }

  #exceeds(share: Share, bytes: number): boolean {
    if (!this.ring.crowded) return false;
    const { capacity } = this.ring;
    return share.bytes + bytes > PART * capacity.bytes || share.events + 1 > PART * capacity.events;
  }
}
