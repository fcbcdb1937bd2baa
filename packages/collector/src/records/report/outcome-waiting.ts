/**
 * How long it takes until the outcome of a run is reported, told without taking "not yet" for "never": a run of
 * yesterday has hardly had the time. The share that is known after so many days is the estimate of E. L. Kaplan and
 * P. Meier, "Nonparametric estimation from incomplete observations", Journal of the American Statistical Association
 * 53 (1958) 457-481: a run without an outcome counts among those that wait for as many days as it is old, and no longer.
 */

/** Waiting is counted in whole days; longer is counted as this. */
const MOST_DAYS = 400;
/** Where fewer runs than this still wait, the share is not told any more: one outcome would move it by 10 %. */
const LEAST_WAITING = 10;

/** After `day` whole days: the share of runs with an outcome, and how many runs the day was asked of. */
export interface WaitingDay {
  readonly day: number;
  readonly share: number;
  readonly waiting: number;
}

export class OutcomeWaiting {
  /** Runs by the day on which their first outcome came, and by their age where none has come. */
  readonly #came: number[] = [];
  readonly #waits: number[] = [];

  /** @param days from the start to the first outcome. */
  addOutcome(days: number): void {
    count(this.#came, days);
  }

  /** @param days how old the run is. */
  addNone(days: number): void {
    count(this.#waits, days);
  }

  merge(other: OutcomeWaiting): void {
    for (const [day, runs] of other.#came.entries()) if (runs > 0) count(this.#came, day, runs);
    for (const [day, runs] of other.#waits.entries()) if (runs > 0) count(this.#waits, day, runs);
  }

  /** From day 0 on, as far as enough runs are old enough. */
  curve(): WaitingDay[] {
    const days = Math.max(this.#came.length, this.#waits.length);
    let waiting = sum(this.#came) + sum(this.#waits);
    let without = 1;
    const curve: WaitingDay[] = [];
    for (let day = 0; day < days && waiting >= LEAST_WAITING; day++) {
      const came = this.#came[day] ?? 0;
      without *= 1 - came / waiting;
      curve.push({ day, share: 1 - without, waiting });
      waiting -= came + (this.#waits[day] ?? 0);
    }
    return curve;
  }

  /** The day by which half of the runs have an outcome; null when that is not so within what is known. */
  medianDays(): number | null {
    return this.curve().find(({ share }) => share >= 0.5)?.day ?? null;
  }
}

function count(days: number[], day: number, runs = 1): void {
  const at = Math.min(Math.max(Math.floor(day), 0), MOST_DAYS);
  while (days.length <= at) days.push(0);
  days[at] = (days[at] ?? 0) + runs;
}

function sum(days: readonly number[]): number {
  return days.reduce((all, runs) => all + runs, 0);
}
