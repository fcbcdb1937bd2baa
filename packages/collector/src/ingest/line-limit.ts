/** Lets N lines of each sort into the log in a period, and counts what it keeps out. */

export class LineLimit<Sort extends string> {
  readonly #sorts = new Map<Sort, { lines: number; unsaid: number }>();
  #period = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param tell reports how many of a sort were kept out, at the end of the period at the latest. */
  constructor(
    private readonly tell: (sort: Sort, unsaid: number) => void,
    private readonly lines = 10,
    private readonly periodMs = 1000,
  ) {}

  /**
   * @param nowMs a monotonic clock.
   * @returns whether the line may be written.
   */
  admits(sort: Sort, nowMs: number): boolean {
    const period = Math.floor(nowMs / this.periodMs);
    if (period !== this.#period) {
      this.flush();
      this.#period = period;
    }
    let count = this.#sorts.get(sort);
    if (count === undefined) this.#sorts.set(sort, (count = { lines: 0, unsaid: 0 }));
    if (count.lines >= this.lines) {
      count.unsaid++;
      this.#timer ??= setTimeout(() => this.flush(), this.periodMs - (nowMs % this.periodMs)).unref();
      return false;
    }
    count.lines++;
    return true;
  }

  /** Reports what was kept out, and begins again. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const [sort, { unsaid }] of this.#sorts) if (unsaid > 0) this.tell(sort, unsaid);
    this.#sorts.clear();
  }
}
