import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatByteSize, formatDuration, parseByteSize, parseDuration } from '../../src/quantity.js';

test('invalid quantities are refused', () => {
  const bad = [
    ...['', ' ', '-1', '+1', '1.5MiB', '1e3', '0x10', 'MiB', '1 MiB', '1MB', '1kB', '1mib', '1M', '1s '],
    ...['1S', '9e9GiB'],
  ];
  for (const text of [...bad, '99999999999999GiB', '1000000000000000', '1constructor', '1toString']) {
    expect(parseByteSize(text), text).toBeUndefined();
    expect(parseDuration(text), text).toBeUndefined();
  }
});

test('any text is read as a whole number of bytes and milliseconds or not at all', () => {
  const texts = fc.oneof(fc.string(), fc.stringMatching(/^\d{1,16}[A-Za-z]{0,3}$/));
  fc.assert(
    fc.property(texts, (text) => {
      for (const value of [parseByteSize(text), parseDuration(text)]) {
        expect(value === undefined || (Number.isSafeInteger(value) && value >= 0)).toBe(true);
      }
    }),
  );
});

test('a shown value is read back the same', () => {
  const values = fc.oneof(
    fc.nat(),
    fc.nat(4096).map((n) => n * 1024),
    fc.nat(4096).map((n) => n * 60_000),
  );
  fc.assert(
    fc.property(values, (value) => {
      expect(parseByteSize(formatByteSize(value))).toBe(value);
      expect(parseDuration(formatDuration(value))).toBe(value);
    }),
  );
  expect([formatByteSize(0), formatByteSize(1000), formatByteSize(65_536)]).toEqual(['0', '1000', '64KiB']);
  expect([formatDuration(0), formatDuration(65_000), formatDuration(86_400_000)]).toEqual([
    '0ms',
    '65s',
    '1d',
  ]);
});
