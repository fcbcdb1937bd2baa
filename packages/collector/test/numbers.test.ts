import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  bucketOf,
  DELAY_BOUNDS_MS,
  DELAYS,
  gauge,
  histogram,
  quantile,
  TIME_BOUNDS_MS,
  TIMES,
  within,
} from '../src/numbers.js';

test.each([
  [TIMES, 0.1, 10_000],
  [DELAYS, 10, 900_000],
])('bounds rise by a seventh at most, and include those that are shown', (scale, first, last) => {
  const { bounds, shown } = scale;
  expect([bounds[0], bounds.at(-1)]).toEqual([first, last]);
  for (const [i, bound] of bounds.entries()) {
    const before = bounds[i - 1];
    if (before === undefined) continue;
    expect(bound).toBeGreaterThan(before);
    expect(bound / before).toBeLessThan(1.15);
  }
  expect(shown.filter((bound) => !bounds.includes(bound))).toEqual([]);
});

test('a quantile is in the bucket of the value of its rank', () => {
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

test('a declared number is omitted while it is unknown, and a missing part has none', () => {
  interface Part {
    readonly size: number | undefined;
    readonly ready: boolean;
  }
  const numbers = [
    gauge<Part>({ name: 'size', help: '', read: ({ size }) => size }),
    gauge<Part>({ name: 'ready', help: '', each: ({ ready }) => [[{ of: 'x' }, ready]] }),
  ];
  const [size, ready] = within(({ part }: { part?: Part }) => part, numbers);
  expect(size?.lines({})).toEqual([]);
  expect(size?.lines({ part: { size: undefined, ready: true } })).toEqual([]);
  expect(size?.lines({ part: { size: 0, ready: true } })).toEqual([{ labels: {}, value: 0 }]);
  expect(ready?.lines({ part: { size: 0, ready: true } })).toEqual([{ labels: { of: 'x' }, value: 1 }]);
});

test('[R-1435] a delay of minutes has its bucket: the counts add up, and the sum includes all', () => {
  const counts = new Array<number>(DELAY_BOUNDS_MS.length + 1).fill(0);
  const delays = [1, 900, 45_000, 240_000, 900_000, 2_000_000];
  for (const delay of delays) {
    const bucket = bucketOf(DELAY_BOUNDS_MS, delay);
    counts[bucket] = (counts[bucket] ?? 0) + 1;
  }
  const sum = delays.reduce((total, delay) => total + delay);
  const { lines } = histogram<null>({ name: 'd', help: '', scale: DELAYS, read: () => ({ counts, sum }) });
  const text = lines(null).map(({ metricName, labels, value }) => `${metricName} ${labels['le']} ${value}`);
  expect(text).toEqual([
    ...['0.2 1', '0.5 1', '1 2', '2 2', '5 2', '10 2', '20 2', '50 3', '100 3', '200 3'].map(
      (bucket) => `d_bucket ${bucket}`,
    ),
    ...['d_bucket 500 4', 'd_bucket 900 5', 'd_bucket +Inf 6'],
    ...['d_sum undefined 3185.901', 'd_count undefined 6'],
  ]);
});
