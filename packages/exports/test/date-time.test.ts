import { describe, expect, test } from 'vitest';
import { dateTimeIn, dateTimeOf, nanosecondsOf } from '../src/values.js';
import { readInstant } from '../../collector/src/records/instant.js';

describe('a timestamp in other formats', () => {
  test.each([
    ['2026-03-02T09:31:44.120+01:00', '2026-03-02T09:31:44.120+01:00'],
    ['2026-03-02t08:31:44z', '2026-03-02T08:31:44Z'],
    ['2026-03-02T08:31:44.1234567890123Z', '2026-03-02T08:31:44.123456789Z'],
    ['2026-03-02T08:31:44-23:59', '2026-03-03T08:30:44Z'],
    ['2026-12-31T23:59:60Z', '2026-12-31T23:59:59.999999999Z'],
    ['2026-12-31T23:59:60.25Z', '2026-12-31T23:59:59.999999999Z'],
    ['0000-12-31T23:00:00-01:00', '0001-01-01T00:00:00Z'],
  ])('of %s is %s [R-712]', (sent, written) => {
    expect(dateTimeOf(sent)).toBe(written);
  });

  test.each([null, '0000-06-01T00:00:00Z', '9999-12-31T23:59:59-23:59'])(
    'of %s is undefined [R-712]',
    (sent) => {
      expect(dateTimeOf(sent)).toBeUndefined();
    },
  );

  test('is undefined where a field only looks like one [R-712]', () => {
    expect(dateTimeIn('2026-02-28T00:00:00z')).toBe('2026-02-28T00:00:00Z');
    for (const value of [
      '2026-02-30T00:00:00Z',
      '2026-13-01T00:00:00Z',
      '2026-02-28',
      'yesterday',
      7,
      null,
    ]) {
      expect(dateTimeIn(value)).toBeUndefined();
    }
  });

  test('counts nanoseconds within 64 bits [R-712]', () => {
    const nanoseconds = (text: string) => nanosecondsOf(readInstant(text));
    expect(nanoseconds('1970-01-01T00:00:01.0000000019Z')).toBe(1_000_000_001n);
    expect(nanoseconds('2554-07-21T23:34:33.709551615Z')).toBe(2n ** 64n - 1n);
    expect(nanoseconds('2554-07-21T23:34:33.709551616Z')).toBeUndefined();
    expect(nanoseconds('1969-12-31T23:59:59.9Z')).toBeUndefined();
  });
});
