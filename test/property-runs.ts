/**
 * The number of tries, and the seed. `npm test` and `.ci/run` try each kind of fault a few times;
 * `npm run campaign` runs the files that import this one in full (vitest.config.ts).
 */
import fc from 'fast-check';

const isCampaign = process.env['PROPERTY_RUNS'] === 'all';

/** Printed at the start of every run and chosen by vitest.config.ts. `SEED=N npm run campaign` repeats its choices. */
export const SEED = Number(process.env['TESTS_SEED']);
fc.configureGlobal({ seed: SEED });

/** @param all in a campaign. @param few by `npm test` and `.ci/run`. */
export function runs(all: number, few = Math.ceil(all / 10)): number {
  return isCampaign ? all : few;
}

/** mulberry32: a small generator whose whole state is its seed. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** A whole number from 0 to below `limit`. */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * limit);
  }

  chance(oneIn: number): boolean {
    return this.below(oneIn) === 0;
  }

  of<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }

  uuid(): string {
    const hex = Array.from({ length: 32 }, () => this.below(16).toString(16)).join('');
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  }
}

/** Of a test file. */
export const random = new Random(SEED);
