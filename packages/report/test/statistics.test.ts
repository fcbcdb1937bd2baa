import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OutcomeWaiting, QuantileSketch, RELATIVE_ERROR, shareOf } from '../src/statistics.js';

function sketchOf(values: readonly number[]): QuantileSketch {
  const sketch = new QuantileSketch();
  for (const value of values) sketch.add(value);
  return sketch;
}

test('[R-715] a percentile is within the error that it names of the value at its rank', () => {
  const values = fc.array(fc.double({ min: 0.001, max: 1e10, noNaN: true }), { minLength: 100 });
  fc.assert(
    fc.property(values, (some) => {
      const sorted = some.toSorted((a, b) => a - b);
      const { relative_error: error, ...percentiles } = sketchOf(some).percentiles();
      for (const [name, percentile] of Object.entries(percentiles)) {
        const exact = sorted[Math.ceil((Number(name.slice(1)) * some.length) / 100) - 1] ?? NaN;
        expect(Math.abs((percentile ?? NaN) / exact - 1)).toBeLessThanOrEqual(error * 1.000_001);
      }
    }),
  );
});

test('p95 needs 20 values and p99 100', () => {
  const percentiles = (count: number) => sketchOf(Array<number>(count).fill(7)).percentiles();
  expect(percentiles(0)).toEqual({ p50: null, p95: null, p99: null, relative_error: 0 });
  expect(percentiles(1)).toMatchObject({ p50: 7, p95: null });
  expect(percentiles(19)).toMatchObject({ p95: null });
  expect(percentiles(20)).toMatchObject({ p95: 7, p99: null });
  expect(percentiles(100)).toMatchObject({ p99: 7 });
});

test('a percentile is exact where its bucket has one value, also after a merge [R-715]', () => {
  const sketch = sketchOf([1000, 250]);
  sketch.merge(sketchOf(Array<number>(200).fill(1000)));
  expect(sketch.percentiles()).toEqual({ p50: 1000, p95: 1000, p99: 1000, relative_error: 0 });
  sketch.merge(sketchOf([1001]));
  expect(sketch.percentiles()).toMatchObject({ relative_error: RELATIVE_ERROR });
});

/**
 * Remission under 6-mercaptopurine, in weeks: E. J. Freireich and others, Blood 21 (1963) 699-716, the sample
 * of most textbooks on the estimate. Of 21 patients, 12 were still in remission when last seen.
 */
const RELAPSED = [6, 6, 6, 7, 10, 13, 16, 22, 23];
const STILL_WELL = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
const STAYED_WELL = [
  [6, 0.857],
  [7, 0.807],
  [10, 0.753],
  [13, 0.69],
  [16, 0.627],
] as const;

function waitingOf(came: readonly number[], waits: readonly number[]): OutcomeWaiting {
  const waiting = new OutcomeWaiting();
  for (const day of came) waiting.addOutcome(day + 0.9);
  for (const day of waits) waiting.addNone(day + 0.1);
  return waiting;
}

test('[R-715] the share of runs with an outcome is the published estimate while ten runs wait', () => {
  const curve = waitingOf(RELAPSED, STILL_WELL).curve();
  for (const [week, well] of STAYED_WELL) expect(1 - (curve[week]?.share ?? NaN)).toBeCloseTo(well, 3);
  expect(curve.at(-1)).toMatchObject({ day: 17, waiting: 10 });
});

test('young runs do not count as runs without an outcome', () => {
  const waiting = waitingOf(Array<number>(50).fill(2), Array<number>(50).fill(1));
  expect(waiting.curve().map(({ share }) => share)).toEqual([0, 0, 1]);
  expect(waiting.medianDays()).toBe(2);
});

test('a merge counts all runs, and days beyond the bounds count as the bound', () => {
  const merged = waitingOf(RELAPSED, []);
  merged.merge(waitingOf([-3, 1e9], STILL_WELL));
  expect(merged.curve()).toEqual(waitingOf([...RELAPSED, 0, 400], STILL_WELL).curve());
  expect(new OutcomeWaiting().medianDays()).toBeNull();
});

/**
 * R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Stat. Med. 17 (1998), table I,
 * method 3.
 */
test.each([
  [81, 263, 0.2553, 0.3662],
  [15, 148, 0.0624, 0.1605],
  [0, 20, 0, 0.1611],
  [1, 29, 0.0061, 0.1718],
])('[R-715] the interval of %i of %i is the published one', (count, of, low, high) => {
  const share = shareOf(count, of);
  expect(share.share).toBe(count / of);
  expect(share.low).toBeCloseTo(low, 4);
  expect(share.high).toBeCloseTo(high, 4);
});

test('an interval contains its share and stays within 0 and 1; 0 of 0 has none', () => {
  expect(shareOf(0, 0)).toEqual({ count: 0, of: 0, share: null, low: null, high: null });
  fc.assert(
    fc.property(fc.nat(1e6), fc.nat(1e6), (a, b) => {
      const { share, low, high } = shareOf(Math.min(a, b), Math.max(a, b, 1));
      expect(low).toBeGreaterThanOrEqual(0);
      expect(low).toBeLessThanOrEqual(share ?? NaN);
      expect(high).toBeGreaterThanOrEqual(share ?? NaN);
      expect(high).toBeLessThanOrEqual(1);
    }),
  );
});
