import { expect, test } from 'vitest';
import { daysUntilFull, GrowthWatch } from '../../src/operate/status.js';

const MINUTE = 60_000;

function watched(minutes: number, bytesPerMinute: number, eventsPerMinute: number): GrowthWatch {
  const watch = new GrowthWatch();
  for (let i = 0; i <= minutes * 60; i++) {
    const at = i * 1000;
    watch.note({ at, bytes: 1e6 + (i / 60) * bytesPerMinute, events: (i / 60) * eventsPerMinute });
  }
  return watch;
}

test('growth is not told before it was watched for ten minutes', () => {
  const watch = watched(9, 1000, 10);
  const early = watch.growth({ at: 9 * MINUTE, bytes: 1e6 + 9000, events: 90 });
  expect(early).toEqual({
    ...{
      watchedMs: 9 * MINUTE,
      eventsPerHour: undefined,
      bytesPerHour: undefined,
      diskBytesPerDay: undefined,
    },
  });
  expect(daysUntilFull(early, 1e9)).toBeUndefined();
});

test('growth is what came since the oldest look, index and tree included where the disk is meant', () => {
  const watch = watched(60, 1000, 10);
  const growth = watch.growth({ at: 60 * MINUTE, bytes: 1e6 + 60_000, events: 600 });
  expect(growth.bytesPerHour).toBeCloseTo(60_000, 6);
  expect(growth.eventsPerHour).toBeCloseTo(600, 6);
  expect(growth.diskBytesPerDay).toBeCloseTo(24 * (60_000 + 600 * 64), 6);
  expect(daysUntilFull(growth, 24 * (60_000 + 600 * 64) * 3)).toBeCloseTo(3, 9);
});

test('a day is looked back on at most, and what does not grow never fills the disk', () => {
  const watch = watched(25 * 60, 0, 0);
  const growth = watch.growth({ at: 25 * 60 * MINUTE, bytes: 1e6, events: 0 });
  expect(growth.watchedMs).toBeLessThanOrEqual(24 * 60 * MINUTE);
  expect(growth.watchedMs).toBeGreaterThan(23 * 60 * MINUTE);
  expect(daysUntilFull(growth, 1)).toBe(Infinity);
});
