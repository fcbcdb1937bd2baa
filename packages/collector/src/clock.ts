/** Detects that the clock was set, by comparison with the monotonic clock of the process. */

/**
 * The smallest step, in milliseconds. Smaller differences come from a time server that slews the clock, or
 * from measurement.
 */
const LEAST_MS = 1000;

/** The clock was set by `by` milliseconds; negative if it was set back. */
export interface ClockStep {
  /** The time of the step by the new clock, in milliseconds since 1970 UTC. */
  readonly at: number;
  readonly by: number;
}

export class SteppingClock {
  /** Bounds of the clock's lead over the monotonic clock. */
  #ahead: { readonly least: number; readonly most: number } | undefined;

  /**
   * @param at the clock's reading, in milliseconds since 1970 UTC.
   * @param asked a time before the reading, on the clock of `performance.now`; `answered`: a time after it.
   * @returns by how much the clock was set since the last reading, at least.
   */
  read(at: number, asked: number, answered = asked): ClockStep | undefined {
    const [before, ahead] = [this.#ahead, { least: at - answered, most: at - asked }];
    this.#ahead = ahead;
    if (before === undefined) return undefined;
    const by = Math.max(0, ahead.least - before.most) || Math.min(0, ahead.most - before.least);
    return Math.abs(by) > LEAST_MS ? { at, by } : undefined;
  }
}

/** The direction and size of a step. */
export function describeStep({ at, by }: ClockStep): string {
  const seconds = Math.round(Math.abs(by) / 1000);
  return `${by > 0 ? 'forward' : 'back'} by ${seconds} s, to ${new Date(at).toISOString()}`;
}
