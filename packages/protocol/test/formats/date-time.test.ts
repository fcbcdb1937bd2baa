import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isDateTime } from '../../src/formats/date-time.js';

const SHAPE =
  /^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))$/;

/** RFC 3339 by other means: a regular expression for the grammar and Date for the calendar. */
function reference(text: string): boolean {
  const match = SHAPE.exec(text);
  if (match === null) return false;
  const part = (index: number) => Number(match[index] ?? 0);
  const [hour, minute, second, offsetHour, offsetMinute] = [part(4), part(5), part(6), part(8), part(9)];
  const instant = new Date(0);
  instant.setUTCFullYear(part(1), part(2) - 1, part(3));
  if (instant.getUTCMonth() !== part(2) - 1 || instant.getUTCDate() !== part(3)) return false;
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return false;
  if (second < 60) return true;
  const sign = match[7] === '-' ? -1 : 1;
  instant.setUTCHours(hour - sign * offsetHour, minute - sign * offsetMinute);
  return instant.getUTCHours() === 23 && instant.getUTCMinutes() === 59;
}

const two = (max: number) => fc.nat(max).map((n) => String(n).padStart(2, '0'));
const offset = fc.oneof(
  fc.constantFrom('Z', 'z', '', '+00:00', '-00:00', '+0100', '+24:00', '+01:60', '+1:00', 'Z+00:00'),
  fc
    .tuple(fc.constantFrom('+', '-'), two(23), two(59))
    .map(([sign, hours, minutes]) => `${sign}${hours}:${minutes}`),
);
const fraction = fc.oneof(fc.constantFrom('', '', '.', '.x', ',5'), fc.stringMatching(/^\.[0-9]{1,12}$/));
const nearDateTime = fc
  .tuple(
    fc.oneof(
      fc.constantFrom('0000', '1900', '2000', '2023', '2024', '2100', '9999'),
      fc.stringMatching(/^[0-9]{4}$/),
    ),
    two(13),
    fc.oneof(two(32), fc.constantFrom('28', '29', '30', '31')),
    fc.constantFrom('T', 'T', 't', ' ', ''),
    fc.oneof(two(24), fc.constant('23')),
    fc.oneof(two(60), fc.constant('59')),
    fc.oneof(two(61), fc.constant('60')),
    fraction,
    offset,
  )
  .map(
    ([year, month, day, t, hour, minute, second, part, zone]) =>
      `${year}-${month}-${day}${t}${hour}:${minute}:${second}${part}${zone}`,
  );

describe('isDateTime', () => {
  it.each([
    '1985-04-12T23:20:50.52Z',
    '1996-12-19T16:39:57-08:00',
    '1990-12-31T23:59:60Z',
    '1990-12-31T15:59:60-08:00',
    '1991-01-01T05:29:60+05:30',
    '1937-01-01T12:00:27.87+00:20',
    '2024-02-29T00:00:00z',
    '2000-02-29t00:00:00-00:00',
    '0000-01-01T00:00:00Z',
    `2026-03-02T09:31:44.${'1'.repeat(1000)}Z`,
  ])('accepts %s', (text) => {
    expect(isDateTime(text)).toBe(true);
  });

  it.each([
    ['nothing', ''],
    ['a date alone', '2026-03-02'],
    ['a time without an offset', '2026-03-02T09:31:44'],
    ['a space for the T', '2026-03-02 09:31:44Z'],
    ['no seconds', '2026-03-02T09:31Z'],
    ['29 February of a common year', '2023-02-29T00:00:00Z'],
    ['29 February of a common century year', '1900-02-29T00:00:00Z'],
    ['31 April', '2026-04-31T00:00:00Z'],
    ['day zero', '2026-04-00T00:00:00Z'],
    ['month 13', '2026-13-01T00:00:00Z'],
    ['hour 24', '2026-03-02T24:00:00Z'],
    ['minute 60', '2026-03-02T09:60:00Z'],
    ['second 61', '2026-12-31T23:59:61Z'],
    ['a leap second in the middle of a day', '2026-12-31T22:59:60Z'],
    ['a leap second that the offset moves off midnight', '2026-12-31T23:59:60+01:00'],
    ['an empty fraction', '2026-03-02T09:31:44.Z'],
    ['a comma before the fraction', '2026-03-02T09:31:44,5Z'],
    ['an offset without a colon', '2026-03-02T09:31:44+0100'],
    ['an offset of 24 hours', '2026-03-02T09:31:44+24:00'],
    ['something after the offset', '2026-03-02T09:31:44Z '],
    ['a minus that is not ASCII', '2026-03-02T09:31:44−01:00'],
    ['digits that are not ASCII', '２026-03-02T09:31:44Z'],
    ['a year of five digits', '12026-03-02T09:31:44Z'],
    ['the ISO week form', '2026-W10-1T09:31:44Z'],
  ])('refuses %s', (_, text) => {
    expect(isDateTime(text)).toBe(false);
  });

  it('accepts every instant that Date can print in four-digit years', () => {
    const min = new Date('0000-01-01T00:00:00Z');
    const max = new Date('9999-12-31T23:59:59Z');
    fc.assert(
      fc.property(fc.date({ noInvalidDate: true, min, max }), (date) => {
        expect(isDateTime(date.toISOString())).toBe(true);
      }),
    );
  });

  it('agrees with a reference implementation on texts that are nearly date-times', () => {
    fc.assert(
      fc.property(nearDateTime, (text) => {
        expect(isDateTime(text)).toBe(reference(text));
      }),
      { numRuns: 5000 },
    );
  });
});
