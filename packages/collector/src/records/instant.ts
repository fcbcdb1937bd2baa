/**
 * Instants of senders' clocks: an RFC 3339 date-time with all its digits, so that two events of the same
 * millisecond keep the sender's order. `Date` has only milliseconds and no leap seconds.
 */

/** Instants are compared by seconds, then by the text of their fractions. */
export interface Instant {
  /** Whole seconds since 1970 UTC, rounded down; for a leap second, the preceding second. */
  readonly seconds: number;
  /** The digits after the point without trailing zeros. For a leap second they begin with {@link LEAP}. */
  readonly fraction: string;
}

/** Sorts after every digit: 23:59:60 is later than 23:59:59.999 and earlier than 00:00:00. */
const LEAP = '~';

/** @param text a date-time that the protocol's schemas accepted. */
export function readInstant(text: string): Instant {
  const days = daysOf(four(text, 0), two(text, 5), two(text, 8));
  const second = two(text, 17);
  const digits = fractionDigits(text);
  const end = digits === 0 ? 19 : 20 + digits;
  let last = end;
  while (last > 20 && text[last - 1] === '0') last--;
  const fraction = last > 20 ? text.slice(20, last) : '';
  const time = days * 86_400 + two(text, 11) * 3600 + two(text, 14) * 60 - offsetSeconds(text, end);
  return second === 60
    ? { seconds: time + 59, fraction: LEAP + fraction }
    : { seconds: time + second, fraction };
}

/** @param milliseconds since 1970 UTC. */
export function instantOf(milliseconds: number): Instant {
  const seconds = Math.floor(milliseconds / 1000);
  const rest = milliseconds - seconds * 1000;
  return { seconds, fraction: rest === 0 ? '' : String(rest).padStart(3, '0').replace(/0+$/, '') };
}

/** Compares two instants: negative if `a` is earlier, 0 if they are equal. */
export function compareInstants(a: Instant, b: Instant): number {
  if (a.seconds !== b.seconds) return a.seconds - b.seconds;
  if (a.fraction === b.fraction) return 0;
  return a.fraction < b.fraction ? -1 : 1;
}

/** The number of digits after the point of a date-time. */
export function fractionDigits(text: string): number {
  let end = 20;
  if (text[19] !== '.') return 0;
  while (isDigit(text.charCodeAt(end))) end++;
  return end - 20;
}

/** The instant truncated to a number of digits of a second. */
export function cutTo({ seconds, fraction }: Instant, digits: number): Instant {
  const kept = fraction.slice(0, fraction.startsWith(LEAP) ? digits + 1 : digits);
  return { seconds, fraction: kept.replace(/0+$/, '') };
}

const TWO_DIGITS = Array.from({ length: 60 }, (_, n) => String(n).padStart(2, '0'));
const DAY_MS = 86_400_000;
let lastDay = { number: 0, text: '1970-01-01' };

/**
 * The same as `toISOString` at a fifth of the cost: a record has the receipt times of all events, mostly of
 * one day.
 * @param milliseconds since 1970 UTC, whole.
 */
export function utcText(milliseconds: number): string {
  const number = Math.floor(milliseconds / DAY_MS);
  if (number !== lastDay.number) {
    lastDay = { number, text: new Date(milliseconds).toISOString().slice(0, -'T00:00:00.000Z'.length) };
  }
  const time = milliseconds - number * DAY_MS;
  const seconds = Math.floor(time / 1000);
  const minutes = Math.floor(seconds / 60);
  const hour = TWO_DIGITS[Math.floor(minutes / 60)] ?? '';
  const minute = TWO_DIGITS[minutes % 60] ?? '';
  const second = TWO_DIGITS[seconds % 60] ?? '';
  const rest = time % 1000;
  const thousandths = rest >= 100 ? String(rest) : rest >= 10 ? `0${rest}` : `00${rest}`;
  return `${lastDay.text}T${hour}:${minute}:${second}.${thousandths}Z`;
}

/** The time from `a` to `b` in milliseconds, to the microsecond. Leap seconds have no length, as in POSIX. */
export function millisecondsBetween(a: Instant, b: Instant): number {
  const microseconds = (b.seconds - a.seconds) * 1e6 + microsecondsOf(b) - microsecondsOf(a);
  return microseconds / 1000;
}

/** Milliseconds since 1970 UTC, rounded down. */
export function epochMilliseconds({ seconds, fraction }: Instant): number {
  return seconds * 1000 + Math.floor(microsecondsOf({ seconds, fraction }) / 1000);
}

function microsecondsOf({ fraction }: Instant): number {
  if (fraction === '') return 0;
  if (fraction.startsWith(LEAP)) return 1e6;
  let microseconds = 0;
  for (let at = 0; at < 6; at++) {
    microseconds = microseconds * 10 + (at < fraction.length ? fraction.charCodeAt(at) - 48 : 0);
  }
  return microseconds;
}

function offsetSeconds(text: string, at: number): number {
  const sign = text[at];
  if (sign !== '+' && sign !== '-') return 0;
  const seconds = two(text, at + 1) * 3600 + two(text, at + 4) * 60;
  return sign === '+' ? seconds : -seconds;
}

function two(text: string, at: number): number {
  return text.charCodeAt(at) * 10 + text.charCodeAt(at + 1) - 528;
}

function four(text: string, at: number): number {
  return two(text, at) * 100 + two(text, at + 2);
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** A cache of dates as YYYYMMDD and their days; two dates of one month never share a slot. */
const KNOWN_DATES = 32;
const knownDates = new Float64Array(KNOWN_DATES);
const knownDays = new Float64Array(KNOWN_DATES);

/** The days of a date since 1970, cached: the times of a record are on a few days. */
function daysOf(year: number, month: number, day: number): number {
  const date = (year * 100 + month) * 100 + day;
  const place = day & (KNOWN_DATES - 1);
  if (knownDates[place] !== date) {
    knownDates[place] = date;
    knownDays[place] = daysFromCivil(year, month, day);
  }
  return knownDays[place] ?? 0;
}

/**
 * Days since 1970-01-01 in the Gregorian calendar. Years begin in March here, so that the leap day comes
 * last.
 */
function daysFromCivil(year: number, month: number, day: number): number {
  const shifted = month > 2 ? year : year - 1;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

/** The day of the last call: most times of a record are on one day. */
let lastExistingDay = '';

/** @param text begins like a date-time. @returns whether its month has such a day. */
export function hasDay(text: string): boolean {
  const day = text.slice(0, 'YYYY-MM-DD'.length);
  if (day === lastExistingDay) return true;
  const date = new Date(day);
  // Date reads 30 February as 2 March.
  if (Number.isNaN(date.getTime()) || !date.toISOString().startsWith(day)) return false;
  lastExistingDay = day;
  return true;
}
