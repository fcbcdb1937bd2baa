import fc from 'fast-check';
import { expect, test } from 'vitest';
import { shareOf } from '../src/statistics.js';

/** R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Stat. Med. 17 (1998), table I, method 3. */
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

test('a share of nothing is not known', () => {
  expect(shareOf(0, 0)).toEqual({ count: 0, of: 0, share: null, low: null, high: null });
});

test('the interval holds the share and stays within 0 and 1', () => {
  fc.assert(
    fc.property(fc.nat(1e6), fc.nat(1e6), (a, b) => {
      const { share, low, high } = shareOf(Math.min(a, b), Math.max(a, b, 1));
      if (share === null || low === null || high === null) throw new Error('not known');
      expect(low).toBeGreaterThanOrEqual(0);
      expect(low).toBeLessThanOrEqual(share);
      expect(high).toBeGreaterThanOrEqual(share);
      expect(high).toBeLessThanOrEqual(1);
    }),
  );
});
