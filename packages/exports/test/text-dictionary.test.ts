import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TextDictionary } from '../src/parquet-table.js';
import { runs } from '../../../test/property-runs.js';

test('each text has the place at which it came in, and stands there [R-712]', () => {
  const dictionary = new TextDictionary();
  const text = fc.oneof(fc.constantFrom('', 'a', 'ab', 'b', 'é', 'a\0'), fc.string({ unit: 'binary' }));
  fc.assert(
    fc.property(fc.array(text, { maxLength: 3000, size: 'max' }), (texts) => {
      dictionary.clear();
      const places = new Map<string, number>();
      for (const each of texts) {
        const known = each.toWellFormed();
        if (!places.has(known)) places.set(known, places.size);
        const bytes = Buffer.from(`?${each}?`);
        expect(dictionary.placeOf(bytes, 1, bytes.length - 1)).toBe(places.get(known));
        expect(dictionary.is(places.get(known) ?? -1, bytes, 1, bytes.length - 1)).toBe(true);
        expect(dictionary.is(places.get(known) ?? -1, bytes, 0, bytes.length - 1)).toBe(false);
      }
      expect(dictionary.size).toBe(places.size);
      const expected = [...places.keys()].map((each) => {
        const bytes = Buffer.from(each);
        const length = Buffer.alloc(4);
        length.writeUInt32LE(bytes.length);
        return Buffer.concat([length, bytes]);
      });
      expect(dictionary.bytes()).toEqual(Buffer.concat(expected));
    }),
    { numRuns: runs(30) },
  );
});

test('texts that are made to collide are not looked for among all of them [R-712]', () => {
  // Whatever the hash began with: what the first word changes is taken back by the second.
  const PAIRS = 14;
  const texts = Array.from({ length: 1 << PAIRS }, (_, n) => {
    const bytes = Buffer.alloc(8 * PAIRS);
    for (let pair = 0; pair < PAIRS; pair++) {
      if ((n & (1 << pair)) === 0) continue;
      bytes.writeUInt32LE(0x8000_0000, 8 * pair);
      bytes.writeUInt32LE(0x8001_0000, 8 * pair + 4);
    }
    return bytes;
  });
  const dictionary = new TextDictionary();
  let compared = 0;
  const is = dictionary.is.bind(dictionary);
  dictionary.is = (...asked) => {
    compared++;
    return is(...asked);
  };
  for (const text of texts) {
    const place = dictionary.placeOf(text, 0, text.length);
    expect(is(place, text, 0, text.length)).toBe(true);
  }
  expect(dictionary.isCrowded).toBe(true);
  expect(compared).toBeGreaterThan(60 * texts.length);
  expect(compared).toBeLessThanOrEqual(64 * texts.length);
});
