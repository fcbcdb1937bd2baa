/** A statement whose rows are lists. */
export function listing(database, sql) {
    const statement = database.prepare(sql);
    statement.setReturnArrays(true);
    return statement;
}
export class Statements {
    database;
    #made = new Map();
    constructor(database) {
        this.database = database;
    }
    first(sql, ...values) {
        return this.#of(sql).get(...values);
    }
    all(sql, ...values) {
        return this.#of(sql).all(...values);
    }
    /** Another question by the same text ends it. */
    rows(sql, ...values) {
        return this.#of(sql).iterate(...values);
    }
    run(sql, ...values) {
        this.#of(sql).run(...values);
    }
    #of(sql) {
        let statement = this.#made.get(sql);
        if (statement === undefined)
            this.#made.set(sql, (statement = listing(this.database, sql)));
        return statement;
    }
}
//# sourceMappingURL=statements.js.map