/** The statistics of a report, each with its source. */

/** The largest error of a percentile, relative to its value. */
export const RELATIVE_ERROR = 0.005;

const GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);
const LOG_GAMMA = Math.log(GAMMA);
/** In milliseconds. Values beyond are counted as the bound, so there are at most 3,200 buckets. */
const LEAST = 1e-3;
const MOST = 1e11;
const ZERO = -Infinity;

/** `only` is the common value of the bucket if all its values are equal. */
interface Bucket {
  count: number;
  only: number | undefined;
}

/** In milliseconds; null if there are too few values. */
export interface Percentiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
  /** The largest error, relative to the value; 0 when each of the three is exact. */
  readonly relative_error: number;
}

/**
 * Percentiles of any number of durations in bounded memory, within half a per cent, and exact where all
 * values of a bucket are equal. After C. Masson, J. E. Rim, H. K. Lee, "DDSketch: a fast and fully-mergeable
 * quantile sketch with relative-error guarantees", PVLDB 12 (2019) 2195-2205.
 */
export class QuantileSketch {
  readonly #buckets = new Map<number, Bucket>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** @param value milliseconds, not below 0. */
  add(value: number): void {
    const bucket = value < LEAST ? ZERO : Math.ceil(Math.log(Math.min(value, MOST)) / LOG_GAMMA);
    this.#put(bucket, { count: 1, only: value });
  }

  merge(other: QuantileSketch): void {
    for (const [bucket, values] of other.#buckets) this.#put(bucket, values);
  }

  percentiles(): Percentiles {
    const found = [0.5, 0.95, 0.99].map((q) => this.#bucketAt(q));
    const [p50 = null, p95 = null, p99 = null] = found.map((bucket) =>
      bucket === undefined ? null : this.#valueOf(bucket),
    );
    const isExact = found.every((bucket) => bucket === undefined || this.#only(bucket) !== undefined);
    return { p50, p95, p99, relative_error: isExact ? 0 : RELATIVE_ERROR };
  }

  /** @returns undefined without values and, for `q` above 0.5, with fewer than 1 / (1 - q). */
  #bucketAt(q: number): number | undefined {
    // Rounded, because 1 / (1 - 0.95) is a little more than 20 in doubles.
    const needed = q > 0.5 ? Math.round(1 / (1 - q)) : 1;
    if (this.#count < needed) return undefined;
    let before = Math.ceil(q * this.#count - 1e-9);
    for (const bucket of [...this.#buckets.keys()].sort((a, b) => a - b)) {
      before -= this.#buckets.get(bucket)?.count ?? 0;
      if (before <= 0) return bucket;
    }
    return undefined;
  }

  #valueOf(bucket: number): number {
    return this.#only(bucket) ?? (bucket === ZERO ? 0 : (2 * GAMMA ** bucket) / (GAMMA + 1));
  }

  #only(bucket: number): number | undefined {
    return this.#buckets.get(bucket)?.only;
  }

  #put(at: number, { count, only }: Bucket): void {
    this.#count += count;
    const bucket = this.#buckets.get(at);
    if (bucket === undefined) {
      this.#buckets.set(at, { count, only });
      return;
    }
    bucket.count += count;
    if (bucket.only !== only) bucket.only = undefined;
  }
}

/** Waiting is counted in whole days; longer waits are counted as this number. */
const MOST_DAYS = 400;
/** The curve ends where fewer runs wait: one outcome would change the share by 10 %. */
const LEAST_WAITING = 10;

/** The share of runs with an outcome after `day` whole days, and the runs that waited on that day. */
export interface WaitingDay {
  readonly day: number;
  readonly share: number;
  readonly waiting: number;
}

/**
 * The time until the outcome of a run: the estimate of E. L. Kaplan and P. Meier, "Nonparametric estimation
 * from incomplete observations", Journal of the American Statistical Association 53 (1958) 457-481. A run
 * without an outcome waits for as many days as it is old.
 */
export class OutcomeWaiting {
  /** Runs by the day of their first outcome; runs without one by their age. */
  readonly #came: number[] = [];
  readonly #waits: number[] = [];

  /** @param days from the start to the first outcome. */
  addOutcome(days: number): void {
    count(this.#came, days);
  }

  /** @param days how old the run is. */
  addNone(days: number): void {
    count(this.#waits, days);
  }

  merge(other: OutcomeWaiting): void {
    for (const [day, runs] of other.#came.entries()) if (runs > 0) count(this.#came, day, runs);
    for (const [day, runs] of other.#waits.entries()) if (runs > 0) count(this.#waits, day, runs);
  }

  /** From day 0, up to the day on which too few runs wait. */
  curve(): WaitingDay[] {
    const days = Math.max(this.#came.length, this.#waits.length);
    let waiting = sum(this.#came) + sum(this.#waits);
    let without = 1;
    const curve: WaitingDay[] = [];
    for (let day = 0; day < days && waiting >= LEAST_WAITING; day++) {
      const came = this.#came[day] ?? 0;
      without *= 1 - came / waiting;
      curve.push({ day, share: 1 - without, waiting });
      waiting -= came + (this.#waits[day] ?? 0);
    }
    return curve;
  }

  /** The day by which half of the runs have an outcome; null when the curve does not reach half. */
  medianDays(): number | null {
    return this.curve().find(({ share }) => share >= 0.5)?.day ?? null;
  }
}

function count(days: number[], day: number, runs = 1): void {
  const at = Math.min(Math.max(Math.floor(day), 0), MOST_DAYS);
  while (days.length <= at) days.push(0);
  days[at] = (days[at] ?? 0) + runs;
}

function sum(days: readonly number[]): number {
  return days.reduce((all, runs) => all + runs, 0);
}

/** A share with its 95 % interval; the share and its bounds are null for 0 of 0. */
export interface Share {
  readonly count: number;
  readonly of: number;
  readonly share: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

/** The quantile of the normal distribution for 95 %, two-sided. */
const Z = 1.959_963_984_540_054;

/**
 * The score interval of E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
 * Journal of the American Statistical Association 22 (1927) 209-212. It stays within 0 and 1 and is accurate
 * for few cases too.
 */
export function shareOf(count: number, of: number): Share {
  if (of === 0) return { count, of, share: null, low: null, high: null };
  const p = count / of;
  const z2 = Z * Z;
  const centre = p + z2 / (2 * of);
  const half = Z * Math.sqrt((p * (1 - p)) / of + z2 / (4 * of * of));
  const scale = 1 + z2 / of;
  // Rounding of doubles would move these bounds away from the share.
  const low = count === 0 ? 0 : (centre - half) / scale;
  const high = count === of ? 1 : (centre + half) / scale;
  return { count, of, share: p, low, high };
}
