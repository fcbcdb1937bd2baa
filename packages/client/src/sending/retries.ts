/** Events that were sent in vain and wait for their next turn, in memory. Few: the sender takes no new ones when full. */
import type { SpooledEvent } from '../spool/spool.js';

export interface Retry {
  readonly event: SpooledEvent;
  /** How often it was sent in vain. */
  readonly attempts: number;
  /** Not before, by performance.now(). */
  readonly dueAt: number;
}

const MOST_EVENTS = 1024;
const MOST_BYTES = 8 << 20;

export class Retries {
  readonly #waiting = new Set<Retry>();
  #bytes = 0;
  #earliest = Infinity;

  get full(): boolean {
    return this.#waiting.size >= MOST_EVENTS || this.#bytes >= MOST_BYTES;
  }

  /** When the next one is due; Infinity when there is none. */
  get earliest(): number {
    return this.#earliest;
  }

  add(retry: Retry): void {
    this.#waiting.add(retry);
    this.#bytes += retry.event.body.length;
    this.#earliest = Math.min(this.#earliest, retry.dueAt);
  }

  /** Takes the one that has been due for longest. */
  takeDue(now: number): Retry | undefined {
    if (now < this.#earliest) return undefined;
    let first: Retry | undefined;
    let second = Infinity;
    for (const retry of this.#waiting) {
      if (!first || retry.dueAt < first.dueAt) {
        second = first?.dueAt ?? Infinity;
        first = retry;
      } else second = Math.min(second, retry.dueAt);
    }
    this.#earliest = second;
    if (!first) return undefined;
    this.#waiting.delete(first);
    this.#bytes -= first.event.body.length;
    return first;
  }

  takeAll(): readonly Retry[] {
    const all = [...this.#waiting];
    this.#waiting.clear();
    [this.#bytes, this.#earliest] = [0, Infinity];
    return all;
  }
}
