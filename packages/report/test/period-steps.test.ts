import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY_MS } from '../../collector/src/quantity.js';
import { stepAt, stepsOf } from '../src/run-tally.js';

const time = fc.integer({ min: Date.UTC(1970, 0, 1), max: Date.UTC(2060, 0, 1) });

test('each time of a period is in the last step that has begun', () => {
  fc.assert(
    fc.property(time, time, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (a, b, part) => {
      const [since, until] = [Math.min(a, b), Math.max(a, b) + 1];
      const steps = stepsOf(since, until);
      const at = Math.floor(since + (until - since) * part);
      const step = stepAt(steps, at);
      expect(steps.starts[step]).toBeLessThanOrEqual(at);
      expect(steps.starts[step + 1] ?? Infinity).toBeGreaterThan(at);
      expect(steps.starts.length).toBeLessThanOrEqual(123);
    }),
  );
});

test('a long period has steps of weeks, months or years', () => {
  const units = [120, 121, 841, 3661].map((days) => {
    const { unit, starts } = stepsOf(Date.UTC(2026, 0, 14), Date.UTC(2026, 0, 14) + days * DAY_MS);
    return [unit, new Date(starts[0] ?? 0).toISOString().slice(0, 10)];
  });
  expect(units).toEqual([
    ['day', '2026-01-14'],
    ['week', '2026-01-12'],
    ['month', '2026-01-01'],
    ['year', '2026-01-01'],
  ]);
});
