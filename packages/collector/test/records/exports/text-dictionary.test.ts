import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TextDictionary } from '../../../src/records/exports/text-dictionary.js';

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
    { numRuns: 30 },
  );
});

test('it grows, and says when too many texts have come to one place [R-712]', () => {
  const dictionary = new TextDictionary();
  for (let i = 0; i < 10_000; i++) {
    const bytes = Buffer.from(String(i));
    expect(dictionary.placeOf(bytes, 0, bytes.length)).toBe(i);
  }
  expect(dictionary.isCrowded).toBe(false);
});
