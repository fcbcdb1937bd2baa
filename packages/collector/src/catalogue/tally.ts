/**
 * Counts of runs that began in each hour, by level: updated with the rows in the same transaction, so that a
 * question reads one row for each hour. With triggers, SQLite would keep a journal of each statement in a
 * file, which took a third of the time of an update.
 */
import type { DatabaseSync } from 'node:sqlite';
import { OUTCOME_WORDS } from '../records/vocabulary.js';
import { type Cells, LEVELS, MISSING, placeOf, wordAt } from './columns.js';
import type { Row, Statements } from './statements.js';

/** Counts of runs that have a start, and of events. */
export interface Tally {
  /** Start of its first hour, in milliseconds since 1970. */
  readonly since: number;
  readonly full: number;
  readonly minimum: number;
  readonly incomplete: number;
  readonly erased: number;
  /** Number of runs of all levels that have no outcome. */
  readonly withoutOutcome: number;
  /** Events of records that began then, whose run has no start or whose parent is missing. */
  readonly orphanEvents: number;
  /** Number of events in the catalogue, at any time. */
  readonly events: number;
}

const HOUR_MS = 3_600_000;
/** The columns of counts; the first ones are the counts of the levels. */
const COUNTS = [...LEVELS, 'without_outcome', 'orphan_events'] as const;
const ADD = `INSERT INTO tally (hour, ${COUNTS.join(', ')}) VALUES (?, ${COUNTS.map(() => '?').join(', ')})
  ON CONFLICT (hour) DO UPDATE SET
  ${COUNTS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`;

/** Columns that the counts depend on. */
const COUNTED = ['is_run', 'began_received', 'level', 'outcome', 'missing', 'orphan_events'] as const;
const NO_START = 1 << MISSING.indexOf('inference-start');
const NO_OUTCOME = OUTCOME_WORDS.indexOf('none');

/** The changes of a transaction. */
export class TallyChanges {
  readonly #hours = new Map<number, number[]>();

  constructor(private readonly statements: Statements) {}

  /** Subtracts a row that was summed. Call it before the row is deleted or changed. */
  takeOut(row: number): void {
    const sql = `SELECT ${COUNTED.join(', ')} FROM run WHERE id = ? AND summed <> 0`;
    const counted = this.statements.first(sql, row);
    if (counted !== undefined) this.#add(counted, -1);
  }

  /** @param cells of a row that was summed. */
  add(isRun: boolean, cells: Cells): void {
    const [, ...summary] = COUNTED;
    this.#add([isRun ? 1 : 0, ...summary.map((column) => cells(placeOf(column)) ?? null)], 1);
  }

  #add([isRun, began, level, outcome, missing, orphans]: Row, sign: 1 | -1): void {
    const hour = Math.floor(Number(began) / HOUR_MS);
    const sums = this.#hours.get(hour) ?? new Array<number>(COUNTS.length).fill(0);
    this.#hours.set(hour, sums);
    const add = (count: (typeof COUNTS)[number], value: number) => {
      const place = COUNTS.indexOf(count);
      const sum = sums[place];
      if (sum === undefined) throw new RangeError('no such count');
      sums[place] = sum + sign * value;
    };
    add('orphan_events', Number(orphans));
    // A record without a start is not a run that began.
    if (isRun !== 1 || (Number(missing) & NO_START) !== 0) return;
    add(wordAt(LEVELS, level), 1);
    if (outcome === NO_OUTCOME) add('without_outcome', 1);
  }

  /** Writes the changes to the table, within the caller's transaction. */
  write(): void {
    for (const [hour, sums] of this.#hours)
      if (sums.some((sum) => sum !== 0)) this.statements.run(ADD, hour, ...sums);
    this.forget();
  }

  forget(): void {
    this.#hours.clear();
  }
}

export function tallyOf(database: DatabaseSync, since: number): Tally {
  const hour = Math.floor(since / HOUR_MS);
  const sums = COUNTS.map((name) => `ifnull(sum(${name}), 0) AS ${name}`).join(', ');
  const sql = `SELECT ${sums}, ifnull((SELECT value FROM meta WHERE name = 'events'), 0) AS events
    FROM tally WHERE hour >= ?`;
  const found = database.prepare(sql).get(hour);
  const of = (name: string) => Number(found?.[name]);
  return {
    ...{ since: hour * HOUR_MS, full: of('full'), minimum: of('minimum') },
    ...{ incomplete: of('incomplete'), erased: of('erased') },
    ...{ withoutOutcome: of('without_outcome'), orphanEvents: of('orphan_events'), events: of('events') },
  };
}
