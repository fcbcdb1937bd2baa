/** Finds circles of runs that are nested in each other, and marks their rows. */
import { CatalogueDamaged } from './faults.js';
import type { Statements } from './statements.js';

/** Sets or clears the circle of a row, and marks its summary as stale. */
const MARK = 'UPDATE run SET circle = ?, summed = iif(summed > 0, -1, summed) WHERE id = ?';

export class Circles {
  constructor(private readonly statements: Statements) {}

  /**
   * Nests a row in another, or in none. On return the circle that it leaves is unmarked, and the one that it
   * closes is marked.
   */
  nest(row: number, parent: number | null): void {
    const [old, circle] = this.#parentOf(row);
    if (old === parent) return;
    if (circle !== null)
      for (const member of [...this.#membersFrom(row)]) this.statements.run(MARK, null, member);
    this.statements.run('UPDATE run SET parent = ? WHERE id = ?', parent, row);
    if (parent !== null) this.close(row);
  }

  /** Marks the circle that a row closes, if there is one. */
  close(row: number): void {
    const [, circle] = this.#parentOf(row);
    if (circle !== null || !this.#isUnderItself(row)) return;
    for (const member of [...this.#membersFrom(row)]) this.statements.run(MARK, 1, member);
  }

  /** The rows of the circle of a row. */
  *#membersFrom(row: number): Generator<number> {
    let at = row;
    do {
      const [parent] = this.#parentOf(at);
      yield at;
      if (parent === null) throw new CatalogueDamaged('broken parent cycle');
      at = parent;
    } while (at !== row);
  }

  /**
   * Searches upwards and downwards from the row, one row at a time on each side, and stops when one side
   * ends: so attaching a chain or a tree costs as much as its smaller side.
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
      // An open statement would pin this process's view of the file.
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
