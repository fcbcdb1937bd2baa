import { expect, test } from 'vitest';
import { OutcomeWaiting } from '../src/statistics.js';

/**
 * Remission under 6-mercaptopurine, in weeks: E. J. Freireich and others, Blood 21 (1963) 699-716, the sample of most
 * textbooks on the estimate. Of 21 patients 12 were still in remission when last seen.
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

test('[R-715] the share with an outcome is the published estimate, as long as ten are left', () => {
  const curve = waitingOf(RELAPSED, STILL_WELL).curve();
  for (const [week, well] of STAYED_WELL) expect(1 - (curve[week]?.share ?? NaN)).toBeCloseTo(well, 3);
  expect(curve.at(-1)).toMatchObject({ day: 17, waiting: 10 });
});

test('runs that are too young do not look like runs without an outcome', () => {
  const waiting = waitingOf(new Array<number>(50).fill(2), new Array<number>(50).fill(1));
  expect(waiting.curve().map(({ share }) => share)).toEqual([0, 0, 1]);
  expect(waiting.medianDays()).toBe(2);
});

test('two make that of all their runs, and days before the start or beyond all bounds are counted', () => {
  const merged = waitingOf(RELAPSED, []);
  merged.merge(waitingOf([-3, 1e9], STILL_WELL));
  expect(merged.curve()).toEqual(waitingOf([...RELAPSED, 0, 400], STILL_WELL).curve());
  expect(new OutcomeWaiting().curve()).toEqual([]);
  expect(new OutcomeWaiting().medianDays()).toBeNull();
});
