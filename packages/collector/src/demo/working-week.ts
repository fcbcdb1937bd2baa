/**
 * When things happen in a hospital: how busy each hour of the week is, and from that when the episodes of a period
 * begin. Hours are those on the hospital's walls, one hour ahead of UTC the whole year.
 */
import { DAY, HOUR, type Period } from './period.js';

/** What the clocks on the walls are ahead of UTC. */
export const WALL_AHEAD = HOUR;

/** How busy each hour of the week is, Monday at midnight first; only the proportions count. */
export type WorkingWeek = readonly number[];

/** 1 January 1970 was a Thursday. */
const MONDAY_SHIFT = 3 * DAY;

/** @param day busyness by hour. @param weekend what remains of it on Saturdays and Sundays. */
export function workingWeek(day: (hour: number) => number, weekend: number): WorkingWeek {
  return Array.from({ length: 7 * 24 }, (_, hour) => day(hour % 24) * (hour < 5 * 24 ? 1 : weekend));
}

export function hourOfWeek(at: number): number {
  return Math.floor((at + WALL_AHEAD + MONDAY_SHIFT) / HOUR) % (7 * 24);
}

/**
 * Spreads episodes over a period, more of them where the week is busier.
 * @returns the start of an episode, a whole millisecond: ascending with its number. `shift` is from 0 up to but not 1.
 */
export function spread(
  week: WorkingWeek,
  { since, until }: Period,
  episodes: number,
): (number: number, shift: number) => number {
  // The period in pieces within which the week is equally busy: whole hours, but for the first and the last.
  const starts: number[] = [];
  const sums: number[] = [];
  let sum = 0;
  for (let at = since; at < until; at = (Math.floor(at / HOUR) + 1) * HOUR) {
    starts.push(at);
    sums.push(sum);
    const end = Math.min(until, (Math.floor(at / HOUR) + 1) * HOUR);
    // Nothing is quite impossible: a period may lie in a night on which no one works.
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
    // The last digit of a sum can carry it over.
    return Math.min(at, end - 1);
  };
}

/** The first instant from `at` on at which someone works there, on a quarter of an hour: for appointments. */
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
