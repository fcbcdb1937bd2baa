/** Limits attempts to sign in, by address: a burst, then a steady rate. */

const BURST = 120;
const PER_SECOND = 2;
const MOST_ADDRESSES = 10_000;

export class Attempts {
  readonly #clock: () => number;
  /** The address that tried longest ago comes first. */
  readonly #addresses = new Map<string, { readonly left: number; readonly at: number }>();

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** The number of addresses in memory. */
  get size(): number {
    return this.#addresses.size;
  }

  /** Counts an attempt. @returns whether it is permitted. */
  take(address: string): boolean {
    const now = this.#clock();
    const { left, at } = this.#addresses.get(address) ?? { left: BURST, at: now };
    const refilled = Math.min(BURST, left + (Math.max(0, now - at) / 1000) * PER_SECOND);
    this.#addresses.delete(address);
    for (const oldest of this.#addresses.keys())
      if (this.#addresses.size >= MOST_ADDRESSES) this.#addresses.delete(oldest);
      else break;
    this.#addresses.set(address, { left: Math.max(0, refilled - 1), at: now });
    return refilled >= 1;
  }
}
