import { ID_BYTES } from '../store/contract/events.js';
import { latin1, uuidText } from '../store/text.js';
import { CatalogueDamaged } from './faults.js';
import { Names } from './names.js';
import { RunIds } from './run-ids.js';
import { Statements } from './statements.js';
import { TallyChanges } from './tally.js';
/** In some 80 bytes each. */
const MOST_AWAITED = 1 << 20;
const NEW_EVENT = `INSERT INTO event (run, sequence, at, size, kind, received, sent)
  VALUES (?, ?, ?, ?, ?, ?, ?)`;
export class Tables {
    database;
    statements;
    names;
    runs;
    tally;
    /** Of a batch, by their rows: they are written once they are summed. */
    newRuns = new Map();
    /** Ids of events that records await, as bytes in Latin-1; undefined where there are too many to have them all. */
    #awaited;
    #dataVersion;
    constructor(database, cipher) {
        this.database = database;
        this.statements = new Statements(database);
        this.names = new Names(database, cipher);
        this.runs = new RunIds(this.statements);
        this.tally = new TallyChanges(this.statements);
    }
    /** False when no record awaits the event whose id stands there. */
    mayBeAwaited(source, at) {
        if (this.#awaited === undefined)
            return true;
        return this.#awaited.size > 0 && this.#awaited.has(latin1(source, at, at + ID_BYTES));
    }
    /** To be called when a transaction has begun: what another connection has changed meanwhile is not known. */
    begin() {
        const version = this.statements.first('PRAGMA data_version')?.[0];
        if (version === this.#dataVersion)
            return;
        this.forget();
        this.#dataVersion = version;
        this.#awaited = new Set();
        for (const [event] of this.statements.rows('SELECT event FROM awaited'))
            this.#noteAwaited(event);
    }
    /** After a rollback. */
    forget() {
        this.#dataVersion = undefined;
        this.names.forget();
        this.runs.forget();
        this.newRuns.clear();
        this.tally.forget();
    }
    meta(name) {
        return this.statements.first('SELECT value FROM meta WHERE name = ?', name)?.[0];
    }
    setMeta(name, value) {
        this.statements.run('INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)', name, value);
    }
    addEvent(row, event, sent) {
        const { sequence, at, size, kind, received } = event;
        this.statements.run(NEW_EVENT, row, sequence, at, size, kind, received, sent);
    }
    /** The row of an event that names no run and opens none; undefined when no such event was taken in. */
    rowOfRunless(organisation, event) {
        const sql = 'SELECT run FROM runless WHERE event = ? AND organisation = ?';
        const row = this.statements.first(sql, event, organisation)?.[0];
        return row === undefined ? undefined : Number(row);
    }
    /** The run of such an event: null where its record has none, undefined when no such event was taken in. */
    recordOfRunless(organisation, event) {
        const row = this.rowOfRunless(organisation, event);
        if (row === undefined)
            return undefined;
        const newRun = this.newRuns.get(row);
        if (newRun !== undefined)
            return uuidText(Buffer.from(newRun.id, 'latin1'));
        const found = this.statements.first('SELECT is_run, record FROM run WHERE id = ?', row);
        if (found === undefined)
            throw new CatalogueDamaged('a row that another names is not there');
        return found[0] === 1 ? uuidText(found[1]) : null;
    }
    /** Notes that a row has to be looked at again when the event comes, or becomes part of a run. */
    await(organisation, event, row) {
        const sql = 'INSERT OR IGNORE INTO awaited (event, organisation, run) VALUES (?, ?, ?)';
        this.statements.run(sql, event, organisation, row);
        this.#noteAwaited(event);
    }
    #noteAwaited(event) {
        this.#awaited?.add(Buffer.from(event).toString('latin1'));
        if (this.#awaited !== undefined && this.#awaited.size > MOST_AWAITED)
            this.#awaited = undefined;
    }
}
//# sourceMappingURL=tables.js.map