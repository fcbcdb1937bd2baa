import { expect, test } from 'vitest';
import { describeStep, SteppingClock } from '../src/clock.js';

const AT = Date.parse('2026-05-01T12:00:00Z');

test('[R-1430] a clock that was set is distinguished from a running one, and from a slow answer', () => {
  const clock = new SteppingClock();
  expect(clock.read(AT, 1000)).toBeUndefined();
  expect(clock.read(AT + 60_000, 61_000)).toBeUndefined();
  // By a second at most, as a time server slews it.
  expect(clock.read(AT + 61_000 + 999, 62_000)).toBeUndefined();
  // It is the time of some moment of the 50 seconds that the answer took.
  expect(clock.read(AT + 100_000, 70_000, 120_000)).toBeUndefined();
  const step = clock.read(AT + 130_000 + 7_200_000, 131_000);
  expect(step).toMatchObject({ at: AT + 7_330_000 });
  expect(clock.read(AT + 131_000, 132_000)).toEqual({ at: AT + 131_000, by: -7_200_000 });
  expect(describeStep({ at: AT, by: -7_200_400 })).toBe('back by 7200 s, to 2026-05-01T12:00:00.000Z');
  expect(describeStep({ at: AT, by: 1500 })).toBe('forward by 2 s, to 2026-05-01T12:00:00.000Z');
});
