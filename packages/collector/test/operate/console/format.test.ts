import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  ago,
  bytes,
  count,
  days,
  duration,
  milliseconds,
  rate,
} from '../../../src/operate/console/format.js';

/** With plain spaces. */
const plain = (text: string) => text.replaceAll('\u00a0', ' ');
const texts = <T>(format: (value: T) => string, values: readonly T[]) =>
  values.map((value) => plain(format(value)));

test('numbers have separators of thousands', () => {
  expect(texts(count, [0, 7, 999, 1000, 12_345, 1_234_567, 999.6])).toEqual([
    ...['0', '7', '999', '1,000', '12,345', '1,234,567', '1,000'],
  ]);
  fc.assert(
    fc.property(fc.nat(), (number) => {
      expect(Number(count(number).replaceAll(',', ''))).toBe(number);
      expect(count(number)).toMatch(/^\d{1,3}(,\d{3})*$/);
    }),
  );
});

test('rates, bytes and latencies have about three digits, and their unit', () => {
  expect(texts(rate, [0, 0.04, 0.25, 9.94, 9.96, 1204.4])).toEqual(['0', '0', '0.3', '9.9', '10', '1,204']);
  expect(texts(bytes, [0, 1023, 1024, 1536, 1024 ** 2 - 1, 5.9e9, 1.31e12])).toEqual([
    ...['0 B', '1,023 B', '1 KiB', '1.5 KiB', '1 MiB', '5.5 GiB', '1.2 TiB'],
  ]);
  expect(texts(milliseconds, [0, 0.01, 1.24, 48.2, 999, 999.6, 2450, 60_000])).toEqual([
    ...['0 ms', '< 0.1 ms', '1.2 ms', '48 ms', '999 ms', '1 s', '2.5 s', '60 s'],
  ]);
});

test('durations are coarse, and rounded down', () => {
  const hour = 3_600_000;
  expect(texts(duration, [-5, 0, 59_999, 60_000, hour, 47.9 * hour, 48 * hour, 900 * hour])).toEqual([
    ...['0 s', '0 s', '59 s', '1 min', '1 h', '47 h', '2 days', '37 days'],
  ]);
  expect(texts((ms: number) => ago(0, ms), [-10, 999, 1000])).toEqual(['just now', 'just now', '1 s ago']);
  expect(texts(days, [0, 0.5, 1, 1.99, 214.7, 3650, 1e9])).toEqual([
    ...['under 1 h', '12 h', '1 day', '1 day', '214 days', 'over 10 years', 'over 10 years'],
  ]);
});
