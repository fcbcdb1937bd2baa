/**
 * Compares a catalogue exactly with the log, without writing to it: another catalogue is made from the same
 * part of the log, and SQLite prints the rows of each record in both.
 */
import fs from 'node:fs';
import path from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import { eventsOf } from '../privacy/actions.js';
import { SequenceSet } from '../privacy/sequence-set.js';
import type { EventLog } from '../store/contract/events.js';
import { uuidText } from '../store/text.js';
import { openWithoutWriting } from '../unwritten-database.js';
import { Catalogue, CatalogueDamaged } from './catalogue.js';
import { CATALOGUE_FILE, contentOf } from './catalogue-file.js';
import { CALL_COLUMNS, CALL_NAME_COLUMNS, NAME_COLUMNS, SUMMARY_COLUMNS, type Value } from './columns.js';
import { faultOf } from './faults.js';
import { readName } from './names.js';
import { INDEXES } from './schema.js';
import { listing, type Row, Statements } from './statements.js';

export interface CatalogueCheckOptions {
  /** Directory of the catalogue. */
  readonly directory: string;
  /** An empty directory for the other catalogue. */
  readonly scratch: string;
  readonly onProgress?: (sequence: number, of: number) => void;
}

export interface DifferingRecord {
  /** Null if the name cannot be decrypted. */
  readonly organisation: string | null;
  /** Id of the run, or of a record without a run. */
  readonly recordId: string;
  readonly isRun: boolean;
  /**
   * `missing`: the catalogue has no row. `unknown`: the log has no such record. `differs`: the row differs.
   */
  readonly found: 'missing' | 'unknown' | 'differs';
}

export type CatalogueCheck =
  /**
   * `old`: another version, so that the next update rebuilds it. `closed`: the key of its names is missing.
   * `changed`: another process wrote to it during the check. `foreign`: it belongs to another log, another
   * history of this one, or another key of names.
   */
  | { readonly state: 'none' | 'old' | 'closed' | 'changed' | 'damaged' | 'foreign' }
  | {
      readonly state: 'compared';
      /** The last sequence in the catalogue. */
      readonly through: number;
      /** Number of records in the log or the catalogue. */
      readonly records: number;
      readonly differing: number;
      /** The first MOST_NAMED of them, in the order of the log. */
      readonly named: readonly DifferingRecord[];
      /** Whether the counts of all records are right, if they can be compared. */
      readonly isCounted: boolean;
    };

/** Limit of named records; with more, an operator rebuilds the catalogue anyway. */
const MOST_NAMED = 100_000;

/**
 * @throws CatalogueFault if `scratch` has no room or the catalogue cannot be read; and the errors of the log.
 */
export async function checkCatalogue(log: EventLog, options: CatalogueCheckOptions): Promise<CatalogueCheck> {
  const file = path.join(options.directory, CATALOGUE_FILE);
  const stat = fs.lstatSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return { state: 'none' };
  if (!stat.isFile()) return { state: 'damaged' };
  const before = changedAt(file);
  // Another process may have it open: then a snapshot is read. Otherwise it is opened as immutable
  // (unwritten-database.ts).
  const isOpen = ['-wal', '-shm'].every((end) => fs.existsSync(file + end));
  let check: CatalogueCheck;
  try {
    using database = openWithoutWriting(file);
    check = await compare(database, log, options);
  } catch (error) {
    if (!isDamage(error, options.directory)) throw faultOf(error, options.scratch);
    check = { state: 'damaged' };
  }
  return !isOpen && changedAt(file) !== before ? { state: 'changed' } : check;
}

/** SQLITE_ERROR: a table or column is missing. */
function isDamage(error: unknown, directory: string): boolean {
  return (
    (error as { errcode?: unknown }).errcode === 1 || faultOf(error, directory) instanceof CatalogueDamaged
  );
}

function changedAt(file: string): string {
  const stat = fs.statSync(file, { bigint: true, throwIfNoEntry: false });
  return `${stat?.ino}:${stat?.size}:${stat?.mtimeNs}`;
}

async function compare(
  database: DatabaseSync,
  log: EventLog,
  { scratch, onProgress }: CatalogueCheckOptions,
): Promise<CatalogueCheck> {
  const state = await stateOf(database, log);
  if (state !== 'current') return { state };
  const [found] = listing(database, 'PRAGMA integrity_check(1)').all() as unknown as Row[];
  if (found?.[0] !== 'ok') throw new CatalogueDamaged('SQLite finds it damaged');
  const rebuilt = Catalogue.open({ directory: scratch, ledgerId: log.ledgerId, names: log.names });
  let next: number;
  try {
    await rebuilt.update(log, { through: nextOf(database) - 1, onProgress });
    // The entries of the log that the catalogue covers now.
    database.exec('BEGIN');
    next = nextOf(database);
    if (next < rebuilt.cursor.sequence || (await stateOf(database, log)) !== 'current')
      return { state: 'changed' };
    await rebuilt.update(log, { through: next - 1, onProgress });
    if (rebuilt.cursor.sequence < next) return { state: 'foreign' };
  } finally {
    rebuilt.close();
  }
  using other = openWithoutWriting(path.join(scratch, CATALOGUE_FILE));
  if (!isSameFor(SCHEMA, database, other)) throw new CatalogueDamaged('it has other tables');
  return {
    state: 'compared',
    through: next - 1,
    ...(await new Comparison(database, other, log, next).run()),
  };
}

async function stateOf(
  database: DatabaseSync,
  log: EventLog,
): Promise<'current' | 'old' | 'closed' | 'foreign'> {
  const content = contentOf(database);
  if (content === undefined) return 'old';
  if (content.ledgerId !== log.ledgerId) return 'foreign';
  if (content.names !== log.names?.id) return log.names === undefined ? 'closed' : 'foreign';
  const { newest_organisation: organisation, newest_event: id, newest_at: at } = metaOf(database);
  // A log may have entries and no event.
  if (typeof organisation !== 'string' || !(id instanceof Uint8Array)) return 'current';
  return (await log.find(organisation, id))?.at === Number(at) ? 'current' : 'foreign';
}

/** Reads one snapshot. */
function metaOf(database: DatabaseSync): Readonly<Record<string, unknown>> {
  return Object.fromEntries(exactly(database, 'SELECT name, value FROM meta').all() as never);
}

function nextOf(database: DatabaseSync): number {
  const next = Number(metaOf(database)['sequence'] ?? 1);
  if (!Number.isSafeInteger(next) || next < 1) throw new CatalogueDamaged('it covers no part of a log');
  return next;
}

/** Row ids are compared as bigints, since one may be too large for a double. */
function exactly(database: DatabaseSync, sql: string): StatementSync {
  const statement = listing(database, sql);
  statement.setReadBigInts(true);
  return statement;
}

const SCHEMA = `SELECT type, name, tbl_name FROM sqlite_schema
  WHERE name NOT IN (${INDEXES.map(({ name }) => `'${name}'`).join(', ')}) ORDER BY type, name`;
/** Cursor of the next update, and the values that identify the log. */
const COUNTED = `SELECT name, value FROM meta
  WHERE name IN ('events', 'newest_organisation', 'newest_event', 'newest_at') ORDER BY name`;
const TALLY = `SELECT * FROM tally
  WHERE full OR minimum OR incomplete OR erased OR without_outcome OR orphan_events ORDER BY hour`;

/** A number that refers to no name is printed as it is. */
const nameOf = (column: string, of = 'run') =>
  `ifnull((SELECT text FROM name WHERE id = ${of}.${column}), ${of}.${column})`;
const named = (columns: readonly { readonly name: string }[], names: readonly string[], of: string) =>
  columns.map(({ name }) => (names.includes(name) ? nameOf(name, of) : `${of}.${name}`));
/** One text for several values, equal only for equal values (SQLite, quote()). */
const textOf = (values: readonly string[]) => values.map((value) => `quote(${value})`).join(` || ',' || `);
/** One text for the rows of a table that belong to a record. */
const listOf = (table: string, values: readonly string[], order: string) =>
  `(SELECT group_concat(${textOf(values)}, ';' ORDER BY ${order}) FROM ${table} WHERE ${table}.run = run.id)`;

const RECORDS = `SELECT id, first_sequence, last_sequence, summed <> events, circle IS NOT NULL, is_run,
  record,
    ${nameOf('organisation')}
  FROM run NOT INDEXED ORDER BY first_sequence`;
/** The events of a record. */
const MEMBERS = `SELECT ${textOf(['is_run', nameOf('organisation')])},
    ${listOf('event', ['sequence', 'at', 'size', 'kind', 'received'], 'sequence')},
    ${listOf('runless', ['event', nameOf('organisation', 'runless'), 'parent'], 'event, organisation')}
  FROM run WHERE id = ?`;
/** The summary of a record. */
const SAID = `SELECT ${textOf(['record', 'events', 'circle', 'last_sequence'])},
    ${textOf(named(SUMMARY_COLUMNS, NAME_COLUMNS, 'run'))},
    quote(ifnull((SELECT first_sequence FROM run AS outer WHERE outer.id = run.parent), -run.parent)),
    ${listOf('event', ['sent'], 'sequence')},
    ${listOf('call', named(CALL_COLUMNS, CALL_NAME_COLUMNS, 'call'), 'number')}
  FROM run WHERE id = ?`;
/** Number of rows between two turns of the event loop. */
const ROWS_AT_ONCE = 4096;

interface Read {
  readonly id: bigint;
  readonly first: number;
  readonly last: number;
  /** Whether its row waits to be summed again. */
  readonly isDue: boolean;
  readonly isInCircle: boolean;
  readonly isRun: boolean;
  readonly record: Uint8Array;
  readonly organisation: Value | undefined;
}

class Comparison {
  readonly #named: DifferingRecord[] = [];
  readonly #gone: SequenceSet;
  readonly #ownTexts: Statements;
  readonly #otherTexts: Statements;

  /** @param next the first sequence that is not in the catalogue. */
  constructor(
    private readonly own: DatabaseSync,
    private readonly other: DatabaseSync,
    private readonly log: EventLog,
    next: number,
  ) {
    this.#ownTexts = new Statements(own);
    this.#otherTexts = new Statements(other);
    // Events that were erased after the covered part: their payloads are unreadable, but the rows may have
    // their names.
    const since = (log.actions?.().logged ?? []).filter(({ sequence }) => sequence >= next);
    const gone = since.map(({ said }) => (said.does === 'erase' ? eventsOf(said.keys) : SequenceSet.EMPTY));
    this.#gone = SequenceSet.union(gone);
  }

  async run() {
    let [records, differing] = [0, 0];
    let allSummed = this.#gone.size === 0;
    const [mine, theirs] = [recordsOf(this.own), recordsOf(this.other)];
    for (let a = mine.next().value, b = theirs.next().value; a !== undefined || b !== undefined;) {
      records++;
      const [first = Infinity, second = Infinity] = [a?.first, b?.first];
      if (first <= second) allSummed &&= a?.isDue === false;
      const found = first < second ? 'unknown' : second < first ? 'missing' : 'differs';
      const read = first <= second ? a : b;
      if (read !== undefined && (found !== 'differs' || !this.#isSame(a, b))) {
        differing++;
        if (differing <= MOST_NAMED) this.#named.push(this.#name(read, found));
      }
      if (first <= second) a = mine.next().value;
      if (second <= first) b = theirs.next().value;
      if (records % ROWS_AT_ONCE === 0) await new Promise(setImmediate);
    }
    const isCounted = [COUNTED, ...(allSummed ? [TALLY] : [])].every((sql) =>
      isSameFor(sql, this.own, this.other),
    );
    return { records, differing, named: this.#named, isCounted };
  }

  #isSame(a: Read | undefined, b: Read | undefined): boolean {
    if (a === undefined || b === undefined) return false;
    const isEqual = (sql: string) =>
      isDeepStrictEqual(this.#ownTexts.first(sql, a.id), this.#otherTexts.first(sql, b.id));
    return isEqual(MEMBERS) && (a.isDue || this.#isOfGone(a) || isEqual(SAID));
  }

  /** Whether its row may depend on an erased event. A circle may depend on an event of another run. */
  #isOfGone({ id, first, last, isInCircle }: Read): boolean {
    if (this.#gone.size === 0) return false;
    if (isInCircle) return true;
    if (!this.#gone.meets(first, last + 1)) return false;
    const events = exactly(this.own, 'SELECT sequence FROM event WHERE run = ?').all(id) as unknown as Row[];
    return events.some(([sequence]) => this.#gone.has(Number(sequence)));
  }

  #name({ record, isRun, organisation }: Read, found: DifferingRecord['found']): DifferingRecord {
    return { organisation: this.#readable(organisation), recordId: uuidText(record), isRun, found };
  }

  #readable(organisation: Value | undefined): string | null {
    try {
      return readName(organisation, this.log.names);
    } catch (error) {
      if (error instanceof CatalogueDamaged) return null;
      throw error;
    }
  }
}

function isSameFor(sql: string, own: DatabaseSync, other: DatabaseSync): boolean {
  const [a, b] = [own, other].map((database) => exactly(database, sql).iterate() as unknown as Iterator<Row>);
  for (;;) {
    const [x, y] = [a?.next(), b?.next()];
    if (!isDeepStrictEqual(x, y)) return false;
    if (x?.done === true) return true;
  }
}

function* recordsOf(database: DatabaseSync): Generator<Read, undefined> {
  for (const row of exactly(database, RECORDS).iterate() as unknown as Iterable<Row>) {
    const [id, first, last, due, circle, isRun, record, organisation] = row;
    yield {
      ...{ id: id as bigint, first: Number(first), last: Number(last), isDue: due === 1n },
      ...{ isInCircle: circle === 1n, isRun: isRun === 1n, record: record as Uint8Array, organisation },
    };
  }
  return undefined;
}
