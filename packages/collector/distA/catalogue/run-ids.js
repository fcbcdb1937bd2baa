const ROW = 'SELECT id FROM run INDEXED BY run_record WHERE record = ? AND organisation = ? AND is_run = 1';
/** A generation has more only by what a batch adds to it. An id takes some 100 bytes. */
const MOST_KEPT = 1 << 17;
export class RunIds {
    statements;
    #young = new Map();
    #old = new Map();
    constructor(statements) {
        this.statements = statements;
    }
    forget() {
        this.#young = new Map();
        this.#old = new Map();
    }
    /** @param id 16 bytes in Latin-1. @returns undefined where there is no such run. */
    find(organisation, id) {
        const key = `${id}${organisation}`;
        const young = this.#young.get(key);
        if (young !== undefined)
            return young;
        const row = this.#old.get(key) ?? this.statements.first(ROW, Buffer.from(id, 'latin1'), organisation)?.[0];
        if (row === undefined)
            return undefined;
        this.#young.set(key, Number(row));
        return Number(row);
    }
    add(organisation, id, row) {
        this.#young.set(`${id}${organisation}`, row);
    }
    /** To be called when no run waits to be written: what was added stays in memory until then. */
    turn() {
        if (this.#young.size < MOST_KEPT)
            return;
        this.#old = this.#young;
        this.#young = new Map();
    }
}
//# sourceMappingURL=run-ids.js.map