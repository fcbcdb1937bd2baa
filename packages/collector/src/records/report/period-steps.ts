/** A period in days, or, where these would be too many for a page, in weeks, months or years: of UTC, weeks from Monday. */

export type StepUnit = 'day' | 'week' | 'month' | 'year';

export interface PeriodSteps {
  readonly unit: StepUnit;
  /** When each begins, ascending; the first is that of the beginning of the period. Milliseconds since 1970. */
  readonly starts: readonly number[];
}

export const DAY_MS = 86_400_000;

/** So many days are shown as days, and so on. */
const MOST_DAYS = 120;
const MOST_WEEKS_DAYS = 840;
const MOST_MONTHS_DAYS = 3660;

/** @param until the end of the period, which is not part of it. No step when it is not later than `since`. */
export function stepsOf(since: number, until: number): PeriodSteps {
  const days = (until - since) / DAY_MS;
  const unit: StepUnit =
    days <= MOST_DAYS
      ? 'day'
      : days <= MOST_WEEKS_DAYS
        ? 'week'
        : days <= MOST_MONTHS_DAYS
          ? 'month'
          : 'year';
  const starts: number[] = [];
  for (let at = beginningOf(unit, since); at < until; at = next(unit, at)) starts.push(at);
  return { unit, starts };
}

/**
 * The step that has this time: one of the period.
 * @param guess is looked at first: most events are of the day of the one before.
 */
export function stepAt({ starts }: PeriodSteps, time: number, guess = 0): number {
  if ((starts[guess] ?? Infinity) <= time && time < (starts[guess + 1] ?? Infinity)) return guess;
  let [low, high] = [0, starts.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= time) low = middle;
    else high = middle;
  }
  return low;
}

function beginningOf(unit: StepUnit, time: number): number {
  const day = Math.floor(time / DAY_MS) * DAY_MS;
  const date = new Date(day);
  if (unit === 'day') return day;
  // 1 January 1970 was a Thursday.
  if (unit === 'week') return day - ((((day / DAY_MS + 3) % 7) + 7) % 7) * DAY_MS;
  return firstOf(date.getUTCFullYear(), unit === 'month' ? date.getUTCMonth() : 0);
}

function next(unit: StepUnit, at: number): number {
  if (unit === 'day') return at + DAY_MS;
  if (unit === 'week') return at + 7 * DAY_MS;
  const date = new Date(at);
  return unit === 'month'
    ? firstOf(date.getUTCFullYear(), date.getUTCMonth() + 1)
    : firstOf(date.getUTCFullYear() + 1, 0);
}

/** The first of a month. `Date.UTC` would take the years 0 to 99 for 1900 to 1999. */
function firstOf(year: number, month: number): number {
  return new Date(0).setUTCFullYear(year, month, 1);
}
