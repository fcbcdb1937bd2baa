/** Writes summed records into their rows. */
import type { Place } from '../store/contract/events.js';
import { uuidBytes } from '../store/text.js';
import { Circles } from './circles.js';
import { CALL_COLUMNS, CALL_NAME_COLUMNS, NAME_COLUMNS, SUMMARY_COLUMNS, type Value } from './columns.js';
import { CatalogueDamaged } from './faults.js';
import { IS } from './schema.js';
import type { DueRecord, Summed } from './summing.js';
import type { EventRow, Tables } from './tables.js';

/** Number of rows that are read together, and of their events. */
const MOST_ROWS = 512;
/**
 * Number of events above which a record is summed lazily: when it has grown by an eighth, so that the total
 * reading is linear.
 */
const MANY_EVENTS = 1024;
const GROWN = `(events < ${MANY_EVENTS} OR summed < 0 OR events * 8 >= summed * 9)`;

const WRITTEN = ['record', 'first_sequence', 'last_sequence', ...SUMMARY_COLUMNS.map(({ name }) => name)];
const INSERT = `INSERT INTO run (id, organisation, is_run, events, summed, ${WRITTEN.join(', ')})
  VALUES (?1, ?2, 1, ?3, ?3, ${WRITTEN.map(() => '?').join(', ')})`;
/** A circle that closed or opened after the record was read makes it due again. */
const UPDATE = `UPDATE run SET events = ?2, summed = iif(circle IS ?3, ?2, -1),
  ${WRITTEN.map((name) => `${name} = ?`).join(', ')} WHERE id = ?1`;
const SENT = 'UPDATE event SET sent = ? WHERE run = ? AND sequence = ? AND sent IS NOT ?';
const CALL_INSERT = `INSERT INTO call (run, ${CALL_COLUMNS.map(({ name }) => name).join(', ')})
  VALUES (?, ${CALL_COLUMNS.map(() => '?').join(', ')})`;

/** The positions of columns whose values are stored in another form. */
interface Converted {
  readonly names: readonly number[];
  /** Stored as a bigint, because SQLite stores a whole number of type number as REAL. */
  readonly any: readonly number[];
}

function convertedOf(
  columns: readonly { readonly name: string; readonly type: string }[],
  names: readonly string[],
): Converted {
  const where = (is: (column: (typeof columns)[number]) => boolean) =>
    columns.flatMap((column, place) => (is(column) ? place : []));
  return { names: where(({ name }) => names.includes(name)), any: where(({ type }) => type === 'ANY') };
}

const CONVERTED = convertedOf(SUMMARY_COLUMNS, NAME_COLUMNS);
const CONVERTED_CALL = convertedOf(CALL_COLUMNS, CALL_NAME_COLUMNS);
const EVENTS = 'SELECT sequence, at, size FROM event WHERE run = ?';

/** A record whose row does not match its events. */
export interface DueRow extends DueRecord {
  readonly organisation: number;
  readonly parent: number | null;
  readonly wasSummed: boolean;
  readonly places: readonly (Place & Pick<EventRow, 'sequence'>)[];
  /** A record without a row, with all data for it. */
  readonly unwritten?: readonly EventRow[];
}

/**
 * Some due records, in the order of their rows.
 * @param behind only rows after this one.
 * @param isLazy skips records of many events that have hardly grown.
 */
export function dueRows(
  { statements }: Pick<Tables, 'statements'>,
  behind: number,
  { isLazy, isIndexed }: { readonly isLazy: boolean; readonly isIndexed: boolean },
): DueRow[] {
  const sql = `SELECT id, organisation, circle, summed, parent
    FROM run ${isIndexed ? 'INDEXED BY run_due' : 'NOT INDEXED'}
    WHERE ${IS.due} AND id > ?${isLazy ? ` AND ${GROWN}` : ''}
    ORDER BY id LIMIT ${isIndexed ? MOST_ROWS : 4 * MOST_ROWS}`;
  return statements.all(sql, behind).map(([id, organisation, circle, summed, parent]) => {
    const events = statements.all(EVENTS, Number(id));
    if (events.length === 0) throw new CatalogueDamaged('a row without events');
    return {
      ...{ row: Number(id), organisation: Number(organisation), isInCircle: circle !== null },
      ...{ wasSummed: summed !== 0, parent: parent as number | null },
      places: events.map(([sequence, at, size]) => ({
        ...{ sequence: Number(sequence), at: Number(at), size: Number(size) },
      })),
    };
  });
}

/** The records without a row, in the order of their future rows. */
export function* newRows({ newRuns }: Pick<Tables, 'newRuns'>): Generator<DueRow> {
  for (const [row, run] of newRuns) {
    const { organisation } = run;
    const events = run.events();
    yield {
      ...{ row, organisation, isInCircle: false, parent: null, wasSummed: false },
      ...{ places: events, unwritten: events },
    };
  }
}

export class Writing {
  readonly #circles: Circles;

  constructor(private readonly tables: Tables) {
    this.#circles = new Circles(tables.statements);
  }

  /** On return the row matches its events. */
  write(due: DueRow, summed: Summed): void {
    const { row, organisation, parent, places, wasSummed, unwritten } = due;
    const { statements, tally } = this.tables;
    if (wasSummed) tally.takeOut(row);
    const written = [uuidBytes(summed.recordId), summed.firstSequence, summed.lastSequence];
    const values = this.#stored(summed.values, CONVERTED);
    if (unwritten !== undefined)
      statements.run(INSERT, row, organisation, places.length, ...written, ...values);
    else statements.run(UPDATE, row, places.length, summed.isInCircle ? 1 : null, ...written, ...values);
    if (wasSummed) statements.run('DELETE FROM call WHERE run = ?', row);
    for (const call of summed.calls) statements.run(CALL_INSERT, row, ...this.#stored(call, CONVERTED_CALL));
    tally.add(summed.isRun, (place) => summed.values[place]);
    for (const [place, sent] of summed.sent.entries()) this.#writeEvent(due, place, sent);
    const outer = this.#parentOf(summed, organisation);
    if (outer !== parent) this.#circles.nest(row, outer);
    for (const eventId of summed.awaits) this.tables.await(organisation, uuidBytes(eventId), row);
  }

  #writeEvent({ row, places, unwritten }: DueRow, place: number, sent: number | null): void {
    const event = unwritten?.[place];
    if (event !== undefined) return this.tables.addEvent(row, event, sent);
    const sequence = places[place]?.sequence;
    if (sequence === undefined) throw new TypeError('a record was summed of other events');
    this.tables.statements.run(SENT, sent, row, sequence, sent);
  }

  #stored(values: readonly Value[], { names, any }: Converted): Value[] {
    const numbered = values.slice();
    for (const place of names) {
      const name = numbered[place];
      if (typeof name === 'string') numbered[place] = this.tables.names.idOf(name);
    }
    for (const place of any) {
      const number = numbered[place];
      if (Number.isSafeInteger(number)) numbered[place] = BigInt(number as number);
    }
    return numbered;
  }

  #parentOf({ parent }: Summed, organisation: number): number | null {
    if (parent === null) return null;
    const row =
      this.tables.rowOfRunless(organisation, uuidBytes(parent.eventId)) ??
      (parent.run === null
        ? undefined
        : this.tables.runs.find(organisation, uuidBytes(parent.run).toString('latin1')));
    if (row === undefined) throw new CatalogueDamaged('a run of the log has no row');
    return row;
  }
}
