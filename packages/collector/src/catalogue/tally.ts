/**
 * How many runs began in each hour, by how complete they are. Triggers keep it with the rows, in their transactions, so
 * that it is the sum of them whatever wrote them, and a question costs a row an hour.
 */
import type { DatabaseSync } from 'node:sqlite';

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

/** What a row adds to each count, by its marks (packed-summary.ts). A record without a start is no run that began. */
const COUNTS: Readonly<Record<string, string>> = {
  full: began('& 3 = 0'),
  minimum: began('& 3 = 1'),
  incomplete: began('& 3 = 2'),
  without_outcome: began('& 28 = 24'),
  orphan_events: 'ROW.marks / 65536',
};
const NAMES = Object.keys(COUNTS);

function began(condition: string): string {
  return `(ROW.is_run = 1 AND ROW.marks & 32768 = 0 AND ROW.marks ${condition})`;
}

/** A statement of a trigger. Every hour that a row is taken from has been added to. */
function changed(row: 'old' | 'new'): string {
  const hour = `${row}.began_received / ${HOUR_MS}`;
  const terms = Object.entries(COUNTS).map(([name, term]) => [name, term.replaceAll('ROW', row)] as const);
  const set = (sign: string, of: (name: string, term: string) => string) =>
    terms.map(([name, term]) => `${name} = ${name} ${sign} ${of(name, term)}`).join(', ');
  if (row === 'old') return `UPDATE tally SET ${set('-', (_, term) => term)} WHERE hour = ${hour};`;
  return `INSERT INTO tally (hour, ${NAMES.join(', ')}) VALUES (${hour}, ${terms.map(([, term]) => term).join(', ')})
    ON CONFLICT (hour) DO UPDATE SET ${set('+', (name) => `excluded.${name}`)};`;
}

export const TALLY = `
  -- By the hour in which the collector had the first event of a record, since 1970.
  CREATE TABLE tally (hour INTEGER PRIMARY KEY, ${NAMES.map((name) => `${name} INTEGER NOT NULL`).join(', ')}) STRICT;
  CREATE TRIGGER run_inserted AFTER INSERT ON run BEGIN ${changed('new')} END;
  CREATE TRIGGER run_deleted AFTER DELETE ON run BEGIN ${changed('old')} END;
  CREATE TRIGGER run_summed AFTER UPDATE OF marks, began_received ON run
    WHEN old.marks <> new.marks OR old.began_received <> new.began_received
    BEGIN ${changed('old')} ${changed('new')} END;
`;

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
