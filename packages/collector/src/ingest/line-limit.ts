/** Lets so many lines a second of each sort into the log, and counts what it keeps out. */

const LINES_PER_SECOND = 10;

export class LineLimit<Sort extends string> {
  readonly #sorts = new Map<Sort, { lines: number; unsaid: number }>();
  #second = 0;

  /** @param tell says how many of a sort were kept out in a second that is over. */
  constructor(private readonly tell: (sort: Sort, unsaid: number) => void) {}

  /**
   * @param nowMs a monotonic clock.
   * @returns whether the line may be written.
   */
  admits(sort: Sort, nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#second) {
      this.flush();
      this.#second = second;
    }
    let count = this.#sorts.get(sort);
    if (count === undefined) this.#sorts.set(sort, (count = { lines: 0, unsaid: 0 }));
    if (count.lines >= LINES_PER_SECOND) {
      count.unsaid++;
      return false;
    }
    count.lines++;
    return true;
  }

  /** Tells what was kept out, and begins anew. */
  flush(): void {
    for (const [sort, { unsaid }] of this.#sorts) if (unsaid > 0) this.tell(sort, unsaid);
    this.#sorts.clear();
  }
}
