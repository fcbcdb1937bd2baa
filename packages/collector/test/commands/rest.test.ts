import { describe, expect, test } from 'vitest';
import {
  BUSY_EVENTS_A_SECOND,
  IDLE_EVENTS_A_SECOND,
  restAfter,
} from '../../src/commands/serve/follower-thread.js';

/** The share of one processor that is used. */
const share = (workedMs: number, arrived: number, overMs: number): number =>
  workedMs / (workedMs + restAfter(workedMs, arrived, overMs));

describe('[R-1020] a reader that follows the log', () => {
  test('does not rest while few events come', () => {
    expect(share(20, IDLE_EVENTS_A_SECOND / 5, 200)).toBe(1);
  });

  test('uses half of a processor while some events come', () => {
    expect(share(20, IDLE_EVENTS_A_SECOND / 5 + 1, 200)).toBeCloseTo(0.5);
    expect(share(35, BUSY_EVENTS_A_SECOND / 5, 200)).toBeCloseTo(0.5);
  });

  test('uses almost no processor time while many events come', () => {
    expect(share(20, BUSY_EVENTS_A_SECOND / 5 + 1, 200)).toBeCloseTo(0.01);
    expect(share(35, 100_000, 2000)).toBeCloseTo(0.01);
  });
});
