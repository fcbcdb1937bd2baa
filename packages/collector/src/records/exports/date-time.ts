/**
 * A sender's timestamp in the date-times of other formats. RFC 3339 allows what they do not: lower case, an offset of
 * more than 14 hours, the year 0, a leap second. They get no finer than a nanosecond; the records themselves do.
 */
import { readInstant, type Instant } from '../instant.js';

/** What XML Schema and FHIR both take: FHIR's own pattern, with the nine digits of R5, and without the leap second. */
const COMMON =
  /^(?!0000)\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-](0\d|1[0-3]):[0-5]\d|[+-]14:00)$/;
const FIRST_SECOND = Date.parse('0001-01-01T00:00:00Z');
const LAST_SECOND = Date.parse('9999-12-31T23:59:59Z');

/**
 * @param timestamp as the protocol's schemas have accepted it, or null.
 * @returns the same instant: as sent where that is possible, else in UTC. A leap second is the last moment before it.
 *   Undefined where there is no timestamp, or its instant is not in the years 1 to 9999.
 */
export function dateTimeOf(timestamp: string | null): string | undefined {
  if (timestamp === null) return undefined;
  const text = timestamp.toUpperCase();
  if (COMMON.test(text)) return text;
  const { seconds, fraction } = withoutLeap(readInstant(timestamp));
  const milliseconds = seconds * 1000;
  if (milliseconds < FIRST_SECOND || milliseconds > LAST_SECOND) return undefined;
  const whole = new Date(milliseconds).toISOString().slice(0, -'.000Z'.length);
  return `${whole}${fraction === '' ? '' : `.${fraction.slice(0, 9)}`}Z`;
}

/**
 * @param value what may be a date-time, from a field that the protocol does not check.
 * @returns undefined when it is none.
 */
export function dateTimeIn(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const text = value.toUpperCase();
  return COMMON.test(text) && hasDay(text) ? text : undefined;
}

/** The day of the time before, which most times are of. */
let lastDay = '';

/** @param text that begins as a date-time does. @returns whether its month has such a day. */
export function hasDay(text: string): boolean {
  const day = text.slice(0, 'YYYY-MM-DD'.length);
  if (day === lastDay) return true;
  const date = new Date(day);
  // Date takes 30 February for 2 March.
  if (Number.isNaN(date.getTime()) || !date.toISOString().startsWith(day)) return false;
  lastDay = day;
  return true;
}

const NANOS_PER_SECOND = 1_000_000_000n;
export const LAST_NANOSECOND = 2n ** 64n - 1n;

/** @returns nanoseconds since 1970 UTC; undefined before that, and after 2554, when 64 bits are full. */
export function nanosecondsOf(instant: Instant): bigint | undefined {
  const { seconds, fraction } = withoutLeap(instant);
  const nanos = BigInt(seconds) * NANOS_PER_SECOND + BigInt(fraction.slice(0, 9).padEnd(9, '0'));
  return nanos >= 0n && nanos <= LAST_NANOSECOND ? nanos : undefined;
}

/** None of these formats has a leap second. */
function withoutLeap(instant: Instant): Instant {
  return /^\d*$/.test(instant.fraction) ? instant : { seconds: instant.seconds, fraction: '999999999' };
}
