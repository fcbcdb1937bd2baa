/**
 * Reproducible random numbers, and the times at which things happen in a hospital. The generator is sfc32: it
 * is small and fast and has 128 bits of state, from which ids are drawn too.
 */
import { hash } from 'node:crypto';
import { DAY, HOUR, type Period } from './planned-run.js';

const WARM_UP = 12;
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function hex(byte: number): string {
  return HEX[byte & 0xff] ?? '';
}

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  private constructor(a: number, b: number, c: number) {
    this.#a = a | 0;
    this.#b = b | 0;
    this.#c = c | 0;
    for (let round = 0; round < WARM_UP; round++) this.word();
  }

  /**
   * Independent sources from one text: the same stream and number give the same source.
   * @returns a function of two whole numbers that are not negative.
   */
  static family(text: string): (stream: number, number: number) => Random {
    const digest = hash('sha256', text, 'buffer');
    const [a, b, c] = [digest.readInt32LE(0), digest.readInt32LE(4), digest.readInt32LE(8)];
    return (stream, number) =>
      new Random(
        a ^ Math.imul(stream + 1, 0x9e3779b1),
        b ^ (number % 0x1_0000_0000),
        c ^ Math.floor(number / 0x1_0000_0000),
      );
  }

  /** 32 random bits, with a sign. */
  word(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum;
  }

  /** At least 0 and below 1. */
  fraction(): number {
    return (this.word() >>> 0) / 0x1_0000_0000;
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.fraction();
  }

  /** A whole number, both ends included. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.fraction() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  /** @param list not empty. */
  pick<Entry>(list: readonly Entry[]): Entry {
    return list[Math.floor(this.fraction() * list.length)] as Entry;
  }

  /** Some of the entries without repetition, in the order of the list. */
  some<Entry>(list: readonly Entry[], count: number): Entry[] {
    let wanted = count;
    return list.filter((_, place) => {
      if (!this.chance(wanted / (list.length - place))) return false;
      wanted--;
      return true;
    });
  }

  /** Mean 0, standard deviation 1. */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.fraction()));
    return radius * Math.cos(2 * Math.PI * this.fraction());
  }

  /** Resembles most waiting times: half are below the median, and a few are much longer. */
  logNormal(median: number, spread: number): number {
    return median * Math.exp(spread * this.normal());
  }

  /** A UUID of version 4. */
  uuid(): string {
    const [a, b, c, d] = [this.word(), this.word(), this.word(), this.word()];
    return (
      `${hex(a >>> 24)}${hex(a >>> 16)}${hex(a >>> 8)}${hex(a)}-${hex(b >>> 24)}${hex(b >>> 16)}-` +
      `${hex(((b >>> 8) & 0x0f) | 0x40)}${hex(b)}-${hex(((c >>> 24) & 0x3f) | 0x80)}${hex(c >>> 16)}-` +
      `${hex(c >>> 8)}${hex(c)}${hex(d >>> 24)}${hex(d >>> 16)}${hex(d >>> 8)}${hex(d)}`
    );
  }
}

/** The hospital's clocks are ahead of UTC, by the same time all year. */
export const WALL_AHEAD = HOUR;

/** How busy each hour of the week is, from Monday at midnight; only the proportions count. */
export type WorkingWeek = readonly number[];

/** 1 January 1970 was a Thursday. */
const MONDAY_SHIFT = 3 * DAY;

/** @param weekend the share that remains on Saturdays and Sundays. */
export function workingWeek(day: (hour: number) => number, weekend: number): WorkingWeek {
  return Array.from({ length: 7 * 24 }, (_, hour) => day(hour % 24) * (hour < 5 * 24 ? 1 : weekend));
}

export function hourOfWeek(at: number): number {
  return Math.floor((at + WALL_AHEAD + MONDAY_SHIFT) / HOUR) % (7 * 24);
}

/**
 * Spreads episodes over a period, more of them in the busier hours of the week.
 * @returns the start of an episode in whole milliseconds, ascending with its number. `shift` is at least 0,
 * below 1.
 */
export function spread(
  week: WorkingWeek,
  { since, until }: Period,
  episodes: number,
): (number: number, shift: number) => number {
  // Pieces of the period that are equally busy throughout: whole hours, except the first and the last.
  const starts: number[] = [];
  const sums: number[] = [];
  let sum = 0;
  for (let at = since; at < until; at = (Math.floor(at / HOUR) + 1) * HOUR) {
    starts.push(at);
    sums.push(sum);
    const end = Math.min(until, (Math.floor(at / HOUR) + 1) * HOUR);
    // The weight stays above 0, because the period may be a night without work.
    sum += (end - at) * Math.max(1e-6, week[hourOfWeek(at)] ?? 0);
  }
  starts.push(until);
  sums.push(sum);
  return (number, shift) => {
    const wanted = ((number + shift) / episodes) * sum;
    let [low, high] = [0, sums.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((sums[middle] as number) <= wanted) low = middle;
      else high = middle;
    }
    const [start, end] = [starts[low] as number, starts[low + 1] as number];
    const [before, after] = [sums[low] as number, sums[low + 1] as number];
    const at = start + Math.floor(((wanted - before) / (after - before)) * (end - start));
    // Rounding of the sums can reach the end of the piece.
    return Math.min(at, end - 1);
  };
}

/** The first quarter-hour at or after `at` within office hours. */
export function nextOfficeHour(at: number): number {
  const quarter = HOUR / 4;
  let instant = Math.ceil(at / quarter) * quarter;
  for (;;) {
    const hour = hourOfWeek(instant);
    const [day, ofDay] = [Math.floor(hour / 24), hour % 24];
    if (day < 5 && ofDay >= 8 && ofDay < 17) return instant;
    instant = (Math.floor(instant / HOUR) + 1) * HOUR;
  }
}
