/** Finds the circles in which runs are nested in each other, and notes them in the rows. */
import { CatalogueDamaged } from './faults.js';
import type { Statements } from './statements.js';

/** A row as a member of circles, and its summary as one that says nothing of that. */
const MARK = 'UPDATE run SET circle = ?, summed = iif(summed > 0, -1, summed) WHERE id = ?';

export class Circles {
  constructor(private readonly statements: Statements) {}

  /** Nests a row in another, or in none. On return the circle that it leaves is open, and the one that it closes is noted. */
  nest(row: number, parent: number | null): void {
    const [old, circle] = this.#parentOf(row);
    if (old === parent) return;
    if (circle !== null)
      for (const member of [...this.#membersFrom(row)]) this.statements.run(MARK, null, member);
    this.statements.run('UPDATE run SET parent = ? WHERE id = ?', parent, row);
    if (parent !== null) this.close(row);
  }

  /** On return the circle that a row closes, if it does, is noted. */
  close(row: number): void {
    const [, circle] = this.#parentOf(row);
    if (circle !== null || !this.#isUnderItself(row)) return;
    for (const member of [...this.#membersFrom(row)]) this.statements.run(MARK, 1, member);
  }

  /** The rows of the circle that a row is part of. */
  *#membersFrom(row: number): Generator<number> {
    let at = row;
    do {
      const [parent] = this.#parentOf(at);
      yield at;
      if (parent === null) throw new CatalogueDamaged('a circle that does not close');
      at = parent;
    } while (at !== row);
  }

  /**
   * Looks up from the row and down from it, a row on each side at a time, and ends where one side ends: so to hang a
   * chain or a tree on another costs what the smaller side costs.
   */
  #isUnderItself(row: number): boolean {
    const below = this.#below(row);
    try {
      for (let [at] = this.#parentOf(row); at !== row;) {
        if (at === null || below.next().done === true) return false;
        const [parent, circle] = this.#parentOf(at);
        if (circle !== null) return false;
        at = parent;
      }
      return true;
    } finally {
      // A statement that is left half-way holds what this process sees of the file where it is.
      below.return();
    }
  }

  *#below(row: number): Generator<number, void> {
    const seen = [row];
    for (const at of seen) {
      for (const [child] of this.statements.rows('SELECT id FROM run WHERE parent = ?', at)) {
        seen.push(Number(child));
        yield Number(child);
      }
    }
  }

  #parentOf(row: number): [parent: number | null, circle: number | null] {
    const [parent, circle] = this.statements.first('SELECT parent, circle FROM run WHERE id = ?', row) ?? [];
    return [(parent as number | null | undefined) ?? null, (circle as number | null | undefined) ?? null];
  }
}
