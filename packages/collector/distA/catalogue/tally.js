import { OUTCOME_WORDS } from '../records/vocabulary.js';
import { LEVELS, MISSING, placeOf, wordAt } from './columns.js';
const HOUR_MS = 3_600_000;
/** The first are by the level of a run. */
const COUNTS = [...LEVELS, 'without_outcome', 'orphan_events'];
const ADD = `INSERT INTO tally (hour, ${COUNTS.join(', ')}) VALUES (?, ${COUNTS.map(() => '?').join(', ')})
  ON CONFLICT (hour) DO UPDATE SET ${COUNTS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`;
/** What of a row is counted. */
const COUNTED = ['is_run', 'began_received', 'level', 'outcome', 'missing', 'orphan_events'];
const NO_START = 1 << MISSING.indexOf('inference-start');
const NO_OUTCOME = OUTCOME_WORDS.indexOf('none');
/** What the rows of a transaction have added so far. */
export class TallyChanges {
    statements;
    #hours = new Map();
    constructor(statements) {
        this.statements = statements;
    }
    /** To be called before a row goes or says something else: one that is summed is counted no longer. */
    takeOut(row) {
        const sql = `SELECT ${COUNTED.join(', ')} FROM run WHERE id = ? AND summed <> 0`;
        const counted = this.statements.first(sql, row);
        if (counted !== undefined)
            this.#add(counted, -1);
    }
    /** @param cells of a row that is summed now. */
    add(isRun, cells) {
        const [, ...summary] = COUNTED;
        this.#add([isRun ? 1 : 0, ...summary.map((column) => cells(placeOf(column)) ?? null)], 1);
    }
    #add([isRun, began, level, outcome, missing, orphans], sign) {
        const hour = Math.floor(Number(began) / HOUR_MS);
        const sums = this.#hours.get(hour) ?? new Array(COUNTS.length).fill(0);
        this.#hours.set(hour, sums);
        const add = (count, value) => {
            const place = COUNTS.indexOf(count);
            sums[place] = (sums[place] ?? 0) + sign * value;
        };
        add('orphan_events', Number(orphans));
        // A record without a start is no run that began.
        if (isRun !== 1 || (Number(missing) & NO_START) !== 0)
            return;
        add(wordAt(LEVELS, level), 1);
        if (outcome === NO_OUTCOME)
            add('without_outcome', 1);
    }
    /** On return the table says it too, within the transaction of the caller. */
    write() {
        for (const [hour, sums] of this.#hours)
            if (sums.some((sum) => sum !== 0))
                this.statements.run(ADD, hour, ...sums);
        this.forget();
    }
    forget() {
        this.#hours.clear();
    }
}
export function tallyOf(database, since) {
    const hour = Math.floor(since / HOUR_MS);
    const sums = COUNTS.map((name) => `ifnull(sum(${name}), 0) AS ${name}`).join(', ');
    const sql = `SELECT ${sums}, (SELECT value FROM meta WHERE name = 'events') AS events FROM tally WHERE hour >= ?`;
    const found = database.prepare(sql).get(hour);
    const of = (name) => Number(found?.[name] ?? 0);
    return {
        ...{ since: hour * HOUR_MS, full: of('full'), minimum: of('minimum') },
        ...{ incomplete: of('incomplete'), retired: of('retired') },
        ...{ withoutOutcome: of('without_outcome'), orphanEvents: of('orphan_events'), events: of('events') },
    };
}
//# sourceMappingURL=tally.js.map