import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bucketOf, quantile, TIME_BOUNDS_MS } from '../../src/ledger/buckets.js';

test('the bounds of times rise by a seventh at most, and have the round numbers among them exactly', () => {
  expect(TIME_BOUNDS_MS[0]).toBe(0.1);
  expect(TIME_BOUNDS_MS.at(-1)).toBe(10_000);
  for (const [i, bound] of TIME_BOUNDS_MS.entries()) {
    const before = TIME_BOUNDS_MS[i - 1];
    if (before === undefined) continue;
    expect(bound).toBeGreaterThan(before);
    expect(bound / before).toBeLessThan(1.15);
  }
  const round = [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
  expect(round.filter((ms) => !TIME_BOUNDS_MS.includes(ms))).toEqual([]);
});

test('a quantile lies in the bucket in which the value of its rank lies', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0.001, max: 9999, noNaN: true }), { minLength: 1, maxLength: 200 }),
      fc.double({ min: 0.01, max: 1, noNaN: true }),
      (values, q) => {
        const counts = new Float64Array(TIME_BOUNDS_MS.length + 1);
        for (const value of values) {
          const bucket = bucketOf(TIME_BOUNDS_MS, value);
          counts[bucket] = (counts[bucket] ?? 0) + 1;
        }
        const sorted = values.toSorted((a, b) => a - b);
        const exact = sorted[Math.max(0, Math.ceil(q * values.length - 1e-9) - 1)] ?? 0;
        const found = quantile(TIME_BOUNDS_MS, counts, q) ?? NaN;
        const bucket = bucketOf(TIME_BOUNDS_MS, exact);
        expect(found).toBeGreaterThanOrEqual(TIME_BOUNDS_MS[bucket - 1] ?? 0);
        expect(found).toBeLessThanOrEqual(TIME_BOUNDS_MS[bucket] ?? 0);
      },
    ),
  );
});
