import fc from 'fast-check';
import { expect, test } from 'vitest';
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
