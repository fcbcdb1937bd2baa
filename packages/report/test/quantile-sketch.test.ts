import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { QuantileSketch, RELATIVE_ERROR } from '../src/statistics.js';

const values = fc.array(fc.double({ min: 0.001, max: 1e10, noNaN: true }), {
  minLength: 100,
  maxLength: 300,
});

function sketchOf(some: readonly number[]): QuantileSketch {
  const sketch = new QuantileSketch();
  for (const value of some) sketch.add(value);
  return sketch;
}

test('[R-715] a percentile is within half a per cent of the value at its rank', () => {
  fc.assert(
    fc.property(values, fc.constantFrom(50, 95, 99), (some, percent) => {
      const rank = Math.ceil((percent * some.length) / 100);
      const exact = some.toSorted((a, b) => a - b)[rank - 1] ?? NaN;
      const told = sketchOf(some).quantile(percent / 100) ?? NaN;
      expect(Math.abs(told / exact - 1)).toBeLessThanOrEqual(RELATIVE_ERROR * 1.000_001);
    }),
  );
});

test('a percentile is not told of fewer values than it needs', () => {
  const sketch = new QuantileSketch();
  expect(sketch.quantile(0.5)).toBeNull();
  sketch.add(0);
  expect(sketch.quantile(0.5)).toBe(0);
  for (let n = 2; n < 20; n++) sketch.add(0);
  expect([sketch.quantile(0.5), sketch.quantile(0.95)]).toEqual([0, null]);
  sketch.add(0);
  expect([sketch.quantile(0.95), sketch.quantile(0.99)]).toEqual([0, null]);
  for (let n = 20; n < 100; n++) sketch.add(0);
  expect(sketch.quantile(0.99)).toBe(0);
});

describe('a percentile is exact where its bucket has one value [R-1875]', () => {
  test('however often it was added, and whichever sketch it was added to', () => {
    const whole = sketchOf(Array.from({ length: 200 }, () => 1000));
    expect(whole.percentiles()).toEqual({ p50: 1000, p95: 1000, p99: 1000, relative_error: 0 });
    const other = sketchOf([1000, 250]);
    other.merge(whole);
    expect(other.percentiles()).toEqual({ p50: 1000, p95: 1000, p99: 1000, relative_error: 0 });
    other.merge(sketchOf([1001]));
    expect(other.percentiles()).toMatchObject({ relative_error: RELATIVE_ERROR });
    expect(new QuantileSketch().percentiles()).toEqual({
      p50: null,
      p95: null,
      p99: null,
      relative_error: 0,
    });
  });

  test('and is within the error that it names otherwise', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 5000 }), { minLength: 1, maxLength: 300 }), (some) => {
        const sorted = some.toSorted((a, b) => a - b);
        const { p50, relative_error: error } = sketchOf(some).percentiles();
        const exact = sorted[Math.ceil(some.length / 2) - 1] ?? NaN;
        expect(Math.abs((p50 ?? NaN) - exact)).toBeLessThanOrEqual(error * 1.000_001 * exact);
      }),
    );
  });
});
