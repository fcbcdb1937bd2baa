/** Finds the circles in which runs are nested in each other, and notes them in the rows. */
import { CatalogueDamaged } from './catalogue-faults.js';
import type { Tables } from './tables.js';

/** A row as a member of circles, and its summary as one that says nothing of that. */
const MARK = 'UPDATE run SET circle = ?, settled = ifnull(settled, events) WHERE id = ?';

export class Circles {
  /** Rows that are in no circle: while no parent changes, nothing that leads to them or from them alone is either. */
  readonly #clear = new Set<number>();

  constructor(private readonly tables: Tables) {}

  /** To be called before a row gets another parent. @returns the rows of its circle, which on return are in none. */
  open(row: number): number[] {
    this.#clear.clear();
    const [, circle] = this.#parentOf(row);
    const members = circle === null ? [] : [...this.#membersFrom(row)];
    for (const member of members) this.tables.run(MARK, null, member);
    return members;
  }

  /** To be called when a row has got another parent. On return the circle that it closes, if it does, is noted. */
  close(row: number): void {
    const [, circle] = this.#parentOf(row);
    if (circle !== null || !this.#isUnderItself(row)) return;
    for (const member of this.#membersFrom(row)) this.tables.run(MARK, 1, member);
  }

  /** The rows of the circle that a row is part of. */
  *#membersFrom(row: number): Generator<number> {
    let at = row;
    do {
      // Before the caller writes to it.
      const [parent] = this.#parentOf(at);
      yield at;
      if (parent === null) throw new CatalogueDamaged('a circle that does not close');
      at = parent;
    } while (at !== row);
  }

  /**
   * Looks up from the row and down from it, a row on each side at a time, and ends where one side ends. What it has seen
   * on that side is clear then. So a look costs what the smaller side costs, and those of a batch visit a row twice.
   */
  #isUnderItself(row: number): boolean {
    const seenBelow: number[] = [row];
    const below = this.#below(row, seenBelow);
    try {
      return this.#isMet(row, below, seenBelow);
    } finally {
      // A statement that was left in the middle would hold what this process sees of the file where it is.
      below.return();
    }
  }

  #isMet(row: number, below: Iterator<number>, seenBelow: readonly number[]): boolean {
    const above: number[] = [row];
    let [at] = this.#parentOf(row);
    while (at !== row) {
      const [parent, circle] = at === null ? [null, null] : this.#parentOf(at);
      const isEndAbove = at === null || circle !== null || this.#clear.has(at);
      if (isEndAbove || below.next().done === true) {
        for (const seen of isEndAbove ? above : seenBelow) this.#clear.add(seen);
        return false;
      }
      above.push(at ?? row);
      at = parent;
    }
    return true;
  }

  *#below(row: number, seen: number[]): Generator<number, void> {
    for (let next = 0; next < seen.length; next++) {
      for (const [child] of this.tables.rows('SELECT id FROM run WHERE parent = ?', seen[next] ?? row)) {
        if (this.#clear.has(Number(child))) continue;
        seen.push(Number(child));
        yield Number(child);
      }
    }
  }

  #parentOf(row: number): [parent: number | null, circle: number | null] {
    const [parent, circle] = this.tables.first('SELECT parent, circle FROM run WHERE id = ?', row) ?? [];
    return [(parent as number | null | undefined) ?? null, (circle as number | null | undefined) ?? null];
  }
}
