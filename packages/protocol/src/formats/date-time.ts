const MINUTES_A_DAY = 24 * 60;

/**
 * The number that two digits at `at` spell, or -1. Past the end, charCodeAt returns NaN, which is not a
 * digit.
 */
function twoDigits(text: string, at: number): number {
  const tens = text.charCodeAt(at) - 48;
  const units = text.charCodeAt(at + 1) - 48;
  return tens >= 0 && tens <= 9 && units >= 0 && units <= 9 ? tens * 10 + units : -1;
}

function isLeapYear(century: number, yearOfCentury: number): boolean {
  return yearOfCentury === 0 ? century % 4 === 0 : yearOfCentury % 4 === 0;
}

function daysIn(month: number, leapYear: boolean): number {
  if (month === 2) return leapYear ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** Whether `YYYY-MM-DD` at the start of the text is a day of the calendar. */
function isFullDate(text: string): boolean {
  if (text[4] !== '-' || text[7] !== '-') return false;
  const century = twoDigits(text, 0);
  const yearOfCentury = twoDigits(text, 2);
  const month = twoDigits(text, 5);
  const day = twoDigits(text, 8);
  if (century < 0 || yearOfCentury < 0 || month < 1 || month > 12) return false;
  return day >= 1 && day <= daysIn(month, isLeapYear(century, yearOfCentury));
}

/** The offset from UTC in minutes that fills the text from `at` to its end, or NaN. */
function offsetMinutes(text: string, at: number): number {
  const sign = text[at];
  if (sign === 'Z' || sign === 'z') return at + 1 === text.length ? 0 : NaN;
  if ((sign !== '+' && sign !== '-') || text[at + 3] !== ':' || at + 6 !== text.length) return NaN;
  const hours = twoDigits(text, at + 1);
  const minutes = twoDigits(text, at + 4);
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return NaN;
  return sign === '+' ? hours * 60 + minutes : -(hours * 60 + minutes);
}

/** The end of the fraction of a second at `at`; `at` itself without one. */
function endOfFraction(text: string, at: number): number {
  if (text[at] !== '.') return at;
  let end = at + 1;
  for (let code = text.charCodeAt(end); code >= 48 && code <= 57; code = text.charCodeAt(end)) end++;
  return end === at + 1 ? at : end;
}

/**
 * `date-time` of RFC 3339 section 5.6: a real day, a time of any precision, and an offset. `T` and `Z` may be
 * in lower case; a space in place of the `T` is not in the grammar and is refused.
 *
 * The second 60 is accepted where a leap second is possible (section 5.7), in the last minute of a day in
 * UTC. The list of actual leap seconds is not used: it grows, and validity must not depend on its version.
 *
 * Hand-written, because the calendar needs the numbers and a regular expression's groups allocate on the hot
 * path.
 */
export function isDateTime(text: string): boolean {
  if (!isFullDate(text)) return false;
  if ((text[10] !== 'T' && text[10] !== 't') || text[13] !== ':' || text[16] !== ':') return false;
  const hour = twoDigits(text, 11);
  const minute = twoDigits(text, 14);
  const second = twoDigits(text, 17);
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return false;
  const offset = offsetMinutes(text, endOfFraction(text, 19));
  if (Number.isNaN(offset)) return false;
  if (second < 60) return true;
  const minuteOfDay = (hour * 60 + minute - offset + MINUTES_A_DAY) % MINUTES_A_DAY;
  return minuteOfDay === MINUTES_A_DAY - 1;
}
