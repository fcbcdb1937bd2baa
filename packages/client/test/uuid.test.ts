import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UuidSource } from '../src/event.js';

const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const timeOf = (id: string) => parseInt(id.slice(0, 8) + id.slice(9, 13), 16);

test('[R-861] ids are UUIDs of version 7 that begin with the time', () => {
  const now = 1_764_000_000_123;
  const id = new UuidSource(() => now).next();
  expect(id).toMatch(V7);
  expect(timeOf(id)).toBe(now);
});

test('[R-861] ids rise if the clock stops, advances, or goes back a little', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: -9000, max: 50 }), { minLength: 1, maxLength: 200 }),
      (offsets) => {
        let now = 1_764_000_000_000;
        const source = new UuidSource(() => now);
        let last = source.next();
        for (const offset of offsets) {
          now = 1_764_000_000_000 + offset;
          const id = source.next();
          expect(id).toMatch(V7);
          expect(id > last).toBe(true);
          last = id;
        }
      },
    ),
  );
});

test('[R-861] more ids than the counter holds within a millisecond rise too, and are all different', () => {
  const source = new UuidSource(() => 1_764_000_000_000);
  const ids = Array.from({ length: 20_000 }, () => source.next());
  expect(new Set(ids).size).toBe(ids.length);
  expect([...ids].sort()).toEqual(ids);
  expect(timeOf(ids.at(-1) ?? '')).toBeLessThan(1_764_000_000_000 + 12);
});

test('ids follow a clock that was far ahead and is corrected', () => {
  let now = 2_000_000_000_000;
  const source = new UuidSource(() => now);
  source.next();
  now = 1_764_000_000_000;
  expect(timeOf(source.next())).toBe(now);
});
