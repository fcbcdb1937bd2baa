/** How long a reader behind the log rests, so that it takes nothing that events need. */

/** From so many events a second on, a collector may need all of its processors. */
export const BUSY_EVENTS_A_SECOND = 5000;
/** Up to so many it needs next to nothing. */
export const IDLE_EVENTS_A_SECOND = 500;
/** Time at rest for each millisecond of work: half of one processor, and a hundredth while it is busy. */
const REST = 1;
const BUSY_REST = 99;

/**
 * @param workedMs time that the reader worked since its last rest.
 * @param arrived events that were stored within `overMs`, that rest and the work included.
 * @returns milliseconds.
 */
export function restAfter(workedMs: number, arrived: number, overMs: number): number {
  const perSecond = (arrived * 1000) / overMs;
  if (perSecond <= IDLE_EVENTS_A_SECOND) return 0;
  return workedMs * (perSecond > BUSY_EVENTS_A_SECOND ? BUSY_REST : REST);
}
