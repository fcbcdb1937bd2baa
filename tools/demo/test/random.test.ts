import { validateEvent } from '@clinical-events/protocol/validate';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Random } from '../src/random.js';

function drawn<Value>(count: number, draw: () => Value): Value[] {
  return Array.from({ length: count }, draw);
}

test('[R-717] the same text and numbers give the same draws, and others give others', () => {
  fc.assert(
    fc.property(fc.string(), fc.nat(), fc.nat(), (text, stream, number) => {
      const words = (source: Random) => drawn(5, () => source.word());
      const family = Random.family(text);
      expect(words(family(stream, number))).toEqual(words(Random.family(text)(stream, number)));
      expect(words(family(stream, number))).not.toEqual(words(family(stream, number + 1)));
      expect(words(family(stream, number))).not.toEqual(words(family(stream + 1, number)));
      expect(words(family(stream, number))).not.toEqual(words(Random.family(`${text}.`)(stream, number)));
    }),
  );
});

test('fractions are spread evenly, and normal ones around 0', () => {
  const random = Random.family('even')(0, 0);
  const tenths = new Array<number>(10).fill(0);
  for (const value of drawn(20_000, () => random.fraction()))
    tenths[Math.floor(10 * value)] = (tenths[Math.floor(10 * value)] ?? 0) + 1;
  for (const count of tenths) expect(Math.abs(count - 2000)).toBeLessThan(200);
  const normal = drawn(20_000, () => random.normal());
  const mean = normal.reduce((sum, value) => sum + value, 0) / normal.length;
  const variance = normal.reduce((sum, value) => sum + (value - mean) ** 2, 0) / normal.length;
  expect(Math.abs(mean)).toBeLessThan(0.05);
  expect(Math.abs(variance - 1)).toBeLessThan(0.05);
  const waits = drawn(9999, () => random.logNormal(300, 0.5)).sort((a, b) => a - b);
  expect(Math.abs((waits[4999] ?? 0) - 300)).toBeLessThan(15);
});

test('the first draws of neighbouring sources have nothing to do with each other', () => {
  const family = Random.family('neighbours');
  const first = Array.from({ length: 5000 }, (_, number) => family(3, number).fraction());
  const together = first
    .slice(1)
    .reduce((sum, value, at) => sum + (value - 0.5) * ((first[at] ?? 0) - 0.5), 0);
  expect(Math.abs(together / 5000 / (1 / 12))).toBeLessThan(0.06);
});

test('whole numbers reach both ends and go no further', () => {
  const random = Random.family('ends')(0, 0);
  expect(new Set(drawn(500, () => random.integer(3, 6)))).toEqual(new Set([3, 4, 5, 6]));
  expect(drawn(500, () => random.between(2, 2.5)).every((value) => value >= 2 && value < 2.5)).toBe(true);
});

test('some of a list are as many as were asked for, none twice, in their order', () => {
  const random = Random.family('some')(0, 0);
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat()), fc.nat(10), (list, count) => {
      const some = random.some(list, count);
      expect(some).toHaveLength(Math.min(count, list.length));
      expect(list.filter((entry) => some.includes(entry))).toEqual(some);
    }),
  );
});

test('ids are UUIDs of version 4, none twice', () => {
  const random = Random.family('ids')(0, 0);
  const ids = drawn(5000, () => random.uuid());
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) {
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
  const event = { event_id: ids[0], timestamp: '2026-03-04T05:06:07Z', protocol_version: '1', outcome: {} };
  expect(validateEvent('outcome', 'minimum', { ...event, system_metadata: {} })).toBeUndefined();
});
