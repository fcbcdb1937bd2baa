import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatRateLimit, parseRateLimit, TokenBucket } from '../../src/access/principal.js';

test('[R-409] a full bucket admits its burst at once and then gives the time to wait', () => {
  const bucket = new TokenBucket({ perSecond: 1, burst: 3 });
  expect([1, 2, 3, 4].map(() => bucket.take(1000))).toEqual([0, 0, 0, 1]);
  expect(bucket.take(1999)).toBe(1);
  expect(bucket.take(2000)).toBe(0);
  expect(bucket.take(2000)).toBe(1);
});

test('a clock that goes back neither refills the bucket nor locks the key out', () => {
  const bucket = new TokenBucket({ perSecond: 1, burst: 1 });
  expect(bucket.take(1e9)).toBe(0);
  expect(bucket.take(0)).toBe(1);
  expect(bucket.take(999)).toBe(1);
  expect(bucket.take(1001)).toBe(0);
});

test('any series of requests admits at most burst plus rate times time', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 50 }),
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 200 }),
      (perSecond, burst, gaps) => {
        const bucket = new TokenBucket({ perSecond, burst });
        let now = 0;
        let passed = 0;
        for (const gap of gaps) {
          now += gap;
          if (bucket.take(now) === 0) passed++;
          expect(passed).toBeLessThanOrEqual(burst + (perSecond * now) / 1000 + 1e-6);
        }
      },
    ),
  );
});

test('a rate limit is read as it is written', () => {
  expect(parseRateLimit('100/s')).toEqual({ perSecond: 100, burst: 100 });
  expect(parseRateLimit('0.5/s')).toEqual({ perSecond: 0.5, burst: 1 });
  expect(parseRateLimit('100/s:500')).toEqual({ perSecond: 100, burst: 500 });
  for (const bad of [
    '',
    '100',
    '0/s',
    '100/m',
    '100/s:0',
    '-1/s',
    '1e3/s',
    '100/s:',
    ' 100/s',
    '100/s:1.5',
    'NaN/s',
  ]) {
    expect(parseRateLimit(bad), bad).toBeUndefined();
  }
});

test('every rate limit that can be written is read back the same', () => {
  const limits = fc.record({
    perSecond: fc.integer({ min: 1, max: 9_999_999 }).map((thousandths) => thousandths / 1000),
    burst: fc.integer({ min: 1, max: 9_999_999 }),
  });
  fc.assert(
    fc.property(limits, (limit) => {
      expect(parseRateLimit(formatRateLimit(limit))).toEqual(limit);
    }),
  );
});
