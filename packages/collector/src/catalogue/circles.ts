/** Finds the circles in which runs are nested in each other, and notes them in the rows. */
import { CatalogueDamaged } from './catalogue-file.js';
import type { Tables } from './tables.js';

/** A row as a member of circles, and its summary as one that says nothing of that. */
const MARK = 'UPDATE run SET circle = ?, settled = ifnull(settled, events) WHERE id = ?';

export class Circles {
  constructor(private readonly tables: Tables) {}

  /** To be called before a row that is part of a circle gets another parent. On return none of the circle is. */
  open(row: number): void {
    for (const member of this.#from(row)) this.tables.run(MARK, null, member);
  }

  /** To be called when a row has got another parent. On return the circle that it closes, if it does, is noted. */
  close(row: number): void {
    const [, circle] = this.#parentOf(row);
    if (circle !== null || !this.#isUnderItself(row)) return;
    for (const member of this.#from(row)) this.tables.run(MARK, 1, member);
  }

  /** The rows of the circle that a row is part of. */
  *#from(row: number): Generator<number> {
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
   * Looks up from the row and down from it, a row on each side at a time, and ends where one of them ends: what is nested
   * anew costs what the smaller side costs, so that a chain of any length takes n log n steps.
   */
  #isUnderItself(row: number): boolean {
    const below = this.#below(row);
    let [at] = this.#parentOf(row);
    while (at !== null && at !== row) {
      const [parent, circle] = this.#parentOf(at);
      // It leads into a circle of others, or nothing is left below.
      if (circle !== null || below.next().done) return false;
      at = parent;
    }
    return at === row;
  }

  *#below(row: number): Generator<number> {
    const waiting = [row];
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      for (const [child] of this.tables.rows('SELECT id FROM run WHERE parent = ?', at)) {
        waiting.push(Number(child));
        yield Number(child);
      }
    }
  }

  #parentOf(row: number): [parent: number | null, circle: number | null] {
    const [parent, circle] = this.tables.first('SELECT parent, circle FROM run WHERE id = ?', row) ?? [];
    return [(parent as number | null | undefined) ?? null, (circle as number | null | undefined) ?? null];
  }
}
