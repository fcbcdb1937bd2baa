import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compareInstants,
  cutTo,
  epochMilliseconds,
  fractionDigits,
  instantOf,
  millisecondsBetween,
  readInstant,
  utcText,
} from '../../src/records/instant.js';

const milliseconds = fc.integer({ min: Date.UTC(0, 0, 1) - 1900 * 366 * 86_400_000, max: 253402300799999 });

describe('readInstant', () => {
  test('agrees with Date on everything that Date can read', () => {
    const offset = fc.constantFrom('Z', '+00:00', '-00:00', '+01:00', '-23:59', '+05:45');
    fc.assert(
      fc.property(
        fc.date({
          min: new Date('0000-01-01T00:00:00Z'),
          max: new Date('9999-12-31T00:00:00Z'),
          noInvalidDate: true,
        }),
        offset,
        (date, zone) => {
          const text = date.toISOString().replace('Z', zone);
          expect(epochMilliseconds(readInstant(text))).toBe(Date.parse(text));
        },
      ),
      { numRuns: 1000 },
    );
  });

  test('takes T and Z in lower case', () => {
    expect(readInstant('1985-04-12t23:20:50.52z')).toEqual(readInstant('1985-04-12T23:20:50.520+00:00'));
  });
});

describe('compareInstants', () => {
  const order = [
    ...['2026-12-31T23:59:58Z', '2026-12-31T23:59:59.1234567891Z', '2026-12-31T23:59:59.12345678911Z'],
    ...['2026-12-31T23:59:59.2Z', '2026-12-31T23:59:59.999999Z', '2026-12-31T23:59:60Z'],
    ...['2027-01-01T00:59:60.5+01:00', '2027-01-01T00:00:00Z'],
  ];

  test('compares all digits, and puts a leap second between its neighbours', () => {
    const shuffled = [...order].reverse().map((text) => ({ text, at: readInstant(text) }));
    shuffled.sort((a, b) => compareInstants(a.at, b.at));
    expect(shuffled.map(({ text }) => text)).toEqual(order);
  });

  test.each([
    ['2026-03-02T09:31:44+01:00', '2026-03-02T08:31:44.000Z'],
    ['2026-03-02T08:31:44.10Z', '2026-03-02T08:31:44.1Z'],
  ])('%s is %s', (a, b) => {
    expect(compareInstants(readInstant(a), readInstant(b))).toBe(0);
  });
});

test('cutTo returns what a clock of that many digits would have shown', () => {
  const cut = (text: string, digits: number) => cutTo(readInstant(text), digits);
  expect(cut('2026-03-02T08:31:03.1204Z', 3)).toEqual(readInstant('2026-03-02T08:31:03.12Z'));
  expect(cut('2026-03-02T08:31:03.1204Z', 0)).toEqual(readInstant('2026-03-02T08:31:03Z'));
  expect(cut('2016-12-31T23:59:60.75Z', 1)).toEqual(readInstant('2016-12-31T23:59:60.7Z'));
  expect(['10:00:00Z', '10:00:00.50+01:00'].map((time) => fractionDigits(`2026-03-02T${time}`))).toEqual([
    0, 2,
  ]);
});

test('a time of the collector is the same instant as its text', () => {
  fc.assert(
    fc.property(milliseconds, (time) => {
      const instant = instantOf(time);
      expect(epochMilliseconds(instant)).toBe(time);
      if (utcText(time).length === 24) expect(readInstant(utcText(time))).toEqual(instant);
    }),
  );
});

test('utcText writes the same as toISOString', () => {
  fc.assert(
    fc.property(fc.array(milliseconds, { maxLength: 5 }), (times) => {
      for (const time of times) expect(utcText(time)).toBe(new Date(time).toISOString());
    }),
  );
});

test.each([
  ['2026-03-02T08:31:44.1Z', '2026-03-02T08:31:44.6195Z', 519.5],
  ['2026-03-02T08:31:44.9Z', '2026-03-02T08:31:45Z', 100],
  ['2026-03-02T09:31:45+01:00', '2026-03-02T08:31:44.999Z', -1],
  ['2026-12-31T23:59:60.5Z', '2027-01-01T00:00:00Z', 0],
])('from %s to %s are %s milliseconds', (a, b, between) => {
  expect(millisecondsBetween(readInstant(a), readInstant(b))).toBe(between);
});
