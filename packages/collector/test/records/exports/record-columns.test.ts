import { expect, test } from 'vitest';
import { millisecondsOf, timeIn } from '../../../src/records/exports/record-columns.js';

test.each([
  ['2026-03-02T08:31:44Z', Date.UTC(2026, 2, 2, 8, 31, 44)],
  ['2026-03-02t08:31:44.9876543z', Date.UTC(2026, 2, 2, 8, 31, 44, 987)],
  ['2024-02-29T23:59:59-23:59', Date.UTC(2024, 2, 1, 23, 58, 59)],
  ['1969-12-31T23:59:59.9995Z', -1],
])('%s is a time of a column [R-712]', (text, milliseconds) => {
  expect(timeIn(text)).toBe(text);
  expect(millisecondsOf(text)).toBe(milliseconds);
});

test.each([
  '2026-02-30T00:00:00Z',
  '2026-02-29T00:00:00Z',
  '2026-00-10T00:00:00Z',
  '2026-13-10T00:00:00Z',
  '2026-03-00T00:00:00Z',
  '2026-03-02T24:00:00Z',
  '2026-03-02T08:31:60Z',
  '2026-03-02T08:31:44',
  '2026-03-02T08:31:44+24:00',
  '2026-03-02 08:31:44Z',
  '2026-03-02',
  '',
  7,
  null,
])('%s is none [R-712]', (value) => {
  expect(timeIn(value)).toBeUndefined();
});

test('many days, one after the other, are told apart [R-712]', () => {
  const days = Array.from({ length: 4000 }, (_, i) => new Date(Date.UTC(1999, 0, 1 + 7 * i)).toISOString());
  for (const day of [...days, ...days.toReversed()]) expect(millisecondsOf(day)).toBe(Date.parse(day));
});
