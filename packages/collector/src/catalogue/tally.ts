/**
 * How many runs began in each hour, by how complete they are: kept with the rows, so that a question costs a row an hour.
 * Whoever writes rows notes what they add; it is written in the same transaction. Triggers would see to that by
 * themselves, but SQLite then keeps a journal of each statement in a file, which took a third of the time of an update.
 */
import type { DatabaseSync } from 'node:sqlite';
import { MARKS, ORPHAN, outcomeMark } from './packed-summary.js';

/** Counts of runs that have a start, and of events. */
export interface Tally {
  /** When the first of its hours begins, in milliseconds since 1970. */
  readonly since: number;
  readonly full: number;
  readonly minimum: number;
  readonly incomplete: number;
  /** Of all of these. */
  readonly withoutOutcome: number;
  /** Of records that began then: events whose run has no start, or whose parent is not there. */
  readonly orphanEvents: number;
  /** How many events of the log are taken in, whenever they came. */
  readonly events: number;
}

const HOUR_MS = 3_600_000;
/** The first three are by the level of a run, in the order of its marks. */
const NAMES = ['full', 'minimum', 'incomplete', 'without_outcome', 'orphan_events'] as const;
const [WITHOUT_OUTCOME, ORPHAN_EVENTS] = [3, 4];

export const TALLY = `
  -- By the hour in which the collector had the first event of a record, since 1970.
  CREATE TABLE tally (hour INTEGER PRIMARY KEY, ${NAMES.map((name) => `${name} INTEGER NOT NULL`).join(', ')}) STRICT;
`;
const ADD = `INSERT INTO tally (hour, ${NAMES.join(', ')}) VALUES (?, ${NAMES.map(() => '?').join(', ')})
  ON CONFLICT (hour) DO UPDATE SET ${NAMES.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`;

/** What of a row is counted. */
export interface TalliedRow {
  readonly isRun: boolean;
  readonly marks: number;
  readonly beganReceived: number;
}

/** What the rows of a transaction have added so far. */
export class TallyChanges {
  readonly #hours = new Map<number, Float64Array>();

  /** @param sign -1 for a row that is no longer there, or no longer says so. */
  add({ isRun, marks, beganReceived }: TalliedRow, sign: 1 | -1): void {
    const hour = Math.floor(beganReceived / HOUR_MS);
    let sums = this.#hours.get(hour);
    if (sums === undefined) this.#hours.set(hour, (sums = new Float64Array(NAMES.length)));
    const add = (count: number, value: number) => (sums[count] = (sums[count] ?? 0) + sign * value);
    add(ORPHAN_EVENTS, Math.floor(marks / ORPHAN));
    // A record without a start is no run that began.
    if (!isRun || (marks & MARKS.noStart) !== 0) return;
    add(marks & MARKS.level, 1);
    if ((marks & MARKS.outcome) === outcomeMark('none')) add(WITHOUT_OUTCOME, 1);
  }

  /** On return the table says it too, within the transaction of the caller. */
  write(database: DatabaseSync): void {
    const statement = database.prepare(ADD);
    for (const [hour, sums] of this.#hours) if (sums.some((sum) => sum !== 0)) statement.run(hour, ...sums);
    this.forget();
  }

  forget(): void {
    this.#hours.clear();
  }
}

export function tallyOf(database: DatabaseSync, since: number): Tally {
  const hour = Math.floor(since / HOUR_MS);
  const sums = NAMES.map((name) => `ifnull(sum(${name}), 0) AS ${name}`).join(', ');
  const sql = `SELECT ${sums}, (SELECT value FROM meta WHERE name = 'events') AS events FROM tally WHERE hour >= ?`;
  const found = database.prepare(sql).get(hour);
  const of = (name: string) => Number(found?.[name] ?? 0);
  return {
    ...{ since: hour * HOUR_MS, full: of('full'), minimum: of('minimum'), incomplete: of('incomplete') },
    ...{ withoutOutcome: of('without_outcome'), orphanEvents: of('orphan_events'), events: of('events') },
  };
}
