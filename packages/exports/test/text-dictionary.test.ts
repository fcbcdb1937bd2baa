import { expect, test } from 'vitest';
import { TextDictionary } from '../src/parquet-table.js';

test('texts made to collide do not cost a search of all texts [R-712]', () => {
  // For any seed: the second word undoes the change of the first.
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
