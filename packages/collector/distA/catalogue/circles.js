/** Finds the circles in which runs are nested in each other, and notes them in the rows. */
import { CatalogueDamaged } from './faults.js';
/** A row as a member of circles, and its summary as one that says nothing of that. */
const MARK = 'UPDATE run SET circle = ?, summed = iif(summed > 0, -1, summed) WHERE id = ?';
export class Circles {
    statements;
    constructor(statements) {
        this.statements = statements;
    }
    /** Nests a row in another, or in none. On return the circle that it leaves is open, and the one that it closes is noted. */
    nest(row, parent) {
        const [old, circle] = this.#parentOf(row);
        if (old === parent)
            return;
        if (circle !== null)
            for (const member of [...this.#membersFrom(row)])
                this.statements.run(MARK, null, member);
        this.statements.run('UPDATE run SET parent = ? WHERE id = ?', parent, row);
        if (parent !== null)
            this.close(row);
    }
    /** On return the circle that a row closes, if it does, is noted. */
    close(row) {
        const [, circle] = this.#parentOf(row);
        if (circle !== null || !this.#isUnderItself(row))
            return;
        for (const member of [...this.#membersFrom(row)])
            this.statements.run(MARK, 1, member);
    }
    /** The rows of the circle that a row is part of. */
    *#membersFrom(row) {
        let at = row;
        do {
            const [parent] = this.#parentOf(at);
            yield at;
            if (parent === null)
                throw new CatalogueDamaged('a circle that does not close');
            at = parent;
        } while (at !== row);
    }
    /**
     * Looks up from the row and down from it, a row on each side at a time, and ends where one side ends: so to hang a
     * chain or a tree on another costs what the smaller side costs.
     */
    #isUnderItself(row) {
        const below = this.#below(row);
        try {
            for (let [at] = this.#parentOf(row); at !== row;) {
                if (at === null || below.next().done === true)
                    return false;
                const [parent, circle] = this.#parentOf(at);
                if (circle !== null)
                    return false;
                at = parent;
            }
            return true;
        }
        finally {
            // A statement that is left half-way holds what this process sees of the file where it is.
            below.return();
        }
    }
    *#below(row) {
        const seen = [row];
        for (const at of seen) {
            for (const [child] of this.statements.rows('SELECT id FROM run WHERE parent = ?', at)) {
                seen.push(Number(child));
                yield Number(child);
            }
        }
    }
    #parentOf(row) {
        const [parent, circle] = this.statements.first('SELECT parent, circle FROM run WHERE id = ?', row) ?? [];
        return [parent ?? null, circle ?? null];
    }
}
//# sourceMappingURL=circles.js.map