import fc from 'fast-check';
import { expect, test } from 'vitest';
import { aligned, counted, printable, size } from '../../src/cli/output.js';

/** Control characters of Unicode, its separators of lines and paragraphs, and changes of direction. */
const DANGEROUS = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/u;

test('[R-866] whatever is printed, a terminal gets no control character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(printable(text)).not.toMatch(DANGEROUS);
      const json = JSON.stringify({ [text]: text });
      expect(JSON.parse(printable(json))).toEqual({ [text]: text });
    }),
  );
  expect(printable('\u001b[2J\r\n\u009b1m\u202e')).toBe('\\u001b[2J\\u000d\\u000a\\u009b1m\\u202e');
});

test('[R-866] tables are aligned, also around escaped text', () => {
  expect(
    aligned([
      ['A', 'B'],
      ['1\n', 'x'],
      ['22', ''],
    ]),
  ).toEqual(['A        B', '1\\u000a  x', '22']);
});

test('numbers have separators, and sizes have units', () => {
  expect([counted(0, 'event'), counted(1, 'event'), counted(1200, 'event')]).toEqual([
    ...['0 events', '1 event', '1,200 events'],
  ]);
  expect([0, 1023, 1024, 1536, 5 << 20, 2 ** 33].map(size)).toEqual([
    ...['0 B', '1023 B', '1.0 KiB', '1.5 KiB', '5.0 MiB', '8.0 GiB'],
  ]);
});
