/**
 * Percentiles of any number of durations in bounded memory: each value is counted in a bucket whose bounds are 1 %
 * apart, so that a percentile is told within half a per cent of itself, whatever the values are. After C. Masson,
 * J. E. Rim, H. K. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
 * PVLDB 12 (2019) 2195-2205. Two sketches make the one that all their values would have made.
 */

/** What a percentile may be off by, of its value. */
export const RELATIVE_ERROR = 0.005;

const GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);
const LOG_GAMMA = Math.log(GAMMA);
/** Milliseconds. What is beyond is counted as the bound: so there are at most 3,200 buckets. */
const LEAST = 1e-3;
const MOST = 1e11;
const ZERO = -Infinity;

export class QuantileSketch {
  readonly #buckets = new Map<number, number>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** @param value milliseconds, not below 0. */
  add(value: number): void {
    this.#put(value < LEAST ? ZERO : Math.ceil(Math.log(Math.min(value, MOST)) / LOG_GAMMA), 1);
  }

  merge(other: QuantileSketch): void {
    for (const [bucket, count] of other.#buckets) this.#put(bucket, count);
  }

  /**
   * The value at the nearest rank, within {@link RELATIVE_ERROR}.
   * @param q above 0, at most 1.
   * @returns null when there are too few values to tell it from the largest: none at all, or, for a `q` above a half,
   *   fewer than 1 / (1 - q).
   */
  quantile(q: number): number | null {
    // 1 / (1 - 0.95) is a little more than 20 in doubles. Half of the values are told from the others always.
    const needed = q > 0.5 ? Math.round(1 / (1 - q)) : 1;
    if (this.#count < needed) return null;
    let before = Math.ceil(q * this.#count - 1e-9);
    for (const bucket of [...this.#buckets.keys()].sort((a, b) => a - b)) {
      before -= this.#buckets.get(bucket) ?? 0;
      if (before <= 0) return bucket === ZERO ? 0 : (2 * GAMMA ** bucket) / (GAMMA + 1);
    }
    return null;
  }

  #put(bucket: number, count: number): void {
    this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + count);
    this.#count += count;
  }
}
