/**
 * Holds a catalogue against the log, exactly and without writing to it: another one is made of the same part of the log
 * elsewhere, and compared with it row by row.
 */
import fs from 'node:fs';
import path from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import type { EventLog } from '../store/contract/events.js';
import { openWithoutWriting } from '../unwritten-database.js';
import { Catalogue, CatalogueDamaged } from './catalogue.js';
import { CATALOGUE_FILE, contentId, faultOf, isOf } from './catalogue-file.js';
import { unpackEntries } from './packed-entries.js';
import { listing, type Row } from './tables.js';

export interface CatalogueCheckOptions {
  /** The one that is checked. */
  readonly directory: string;
  /** An empty one, in which the other is made. */
  readonly scratch: string;
  readonly onProgress?: (sequence: number, of: number) => void;
}

export type CatalogueCheck =
  /** `stale`: of another version, ledger or history, so that the next update rebuilds it. */
  | { readonly state: 'none' | 'stale' | 'damaged' | 'changed' }
  /** @param through the last entry that is taken in. @param differing records that are not as they should be. */
  | {
      readonly state: 'compared';
      readonly through: number;
      readonly records: number;
      readonly differing: number;
    };

/** @throws CatalogueFault when there is no room in `scratch`, or what the log throws. */
export async function checkCatalogue(log: EventLog, options: CatalogueCheckOptions): Promise<CatalogueCheck> {
  const file = path.join(options.directory, CATALOGUE_FILE);
  if (!fs.existsSync(file)) return { state: 'none' };
  const before = changedAt(file);
  try {
    const database = openWithoutWriting(file);
    try {
      return await compare(database, log, options);
    } finally {
      database.close();
    }
  } catch (error) {
    if (!(faultOf(error, options.directory) instanceof CatalogueDamaged))
      throw faultOf(error, options.scratch);
    // One that was not open anywhere is read as if it did not change (unwritten-database.ts).
    return { state: changedAt(file) === before ? 'damaged' : 'changed' };
  }
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
  if (!isOf(database, contentId(log))) return { state: 'stale' };
  const [found] = listing(database, 'PRAGMA integrity_check(1)').all() as unknown as Row[];
  if (found?.[0] !== 'ok') throw new CatalogueDamaged('SQLite finds it damaged');
  if (!(await isOfLog(database, log))) return { state: 'stale' };
  const rebuilt = Catalogue.open({ directory: scratch, ledgerId: log.ledgerId, names: log.names });
  try {
    await rebuilt.update(log, { through: nextOf(database) - 1, onProgress });
    // What a collector has taken in meanwhile, and no more from now on.
    database.exec('BEGIN');
    await rebuilt.update(log, { through: nextOf(database) - 1, onProgress });
  } finally {
    rebuilt.close();
  }
  using other = openWithoutWriting(path.join(scratch, CATALOGUE_FILE));
  return { state: 'compared', through: nextOf(database) - 1, ...(await differences(database, other)) };
}

function meta(database: DatabaseSync, name: string): unknown {
  return database.prepare('SELECT value FROM meta WHERE name = ?').get(name)?.['value'];
}

function nextOf(database: DatabaseSync): number {
  return Number(meta(database, 'sequence') ?? 1);
}

async function isOfLog(database: DatabaseSync, log: EventLog): Promise<boolean> {
  const [organisation, id] = [meta(database, 'newest_organisation'), meta(database, 'newest_event')];
  if (typeof organisation !== 'string' || !(id instanceof Uint8Array)) return nextOf(database) === 1;
  return (await log.find(organisation, id))?.at === meta(database, 'newest_at');
}

const NAMES = ['organisation', 'user', 'model', 'version', 'application'] as const;
const RECORDS = `SELECT id, settled, entries, first_sequence, record, is_run, last_sequence, events,
    ${NAMES.map((name) => `(SELECT text FROM name WHERE id = run.${name})`).join(', ')},
    target, began_received, began_sender, marks, summary, circle,
    (SELECT first_sequence FROM run AS outer WHERE outer.id = run.parent)
  FROM run INDEXED BY run_first ORDER BY first_sequence`;
/** Of a row that waits to be settled, what comes behind these is of fewer events. */
const MEMBERS = 4 + 5;
const RUNLESS = `SELECT event, text, runless.parent, first_sequence FROM runless
  JOIN name ON name.id = runless.organisation JOIN run ON run.id = runless.run ORDER BY event, text`;
const TALLY = `SELECT * FROM tally WHERE full OR minimum OR incomplete OR retired OR without_outcome OR orphan_events ORDER BY hour`;
/** Between two turns of the event loop. */
const ROWS_AT_ONCE = 4096;

async function differences(
  own: DatabaseSync,
  other: DatabaseSync,
): Promise<{ records: number; differing: number }> {
  let [records, differing] = [0, 0];
  let allSettled = true;
  const [mine, theirs] = [recordsOf(own), recordsOf(other)];
  for (let a = mine.next().value, b = theirs.next().value; a !== undefined || b !== undefined;) {
    records++;
    const [first, second] = [firstOf(a), firstOf(b)];
    const isSettled = a?.row[1] === null;
    if (first <= second) allSettled &&= isSettled;
    if (a === undefined || b === undefined || first !== second || !isSame(a, b, isSettled)) differing++;
    if (first <= second) a = mine.next().value;
    if (second <= first) b = theirs.next().value;
    if (records % ROWS_AT_ONCE === 0) await new Promise(setImmediate);
  }
  for (const sql of allSettled ? [RUNLESS, TALLY] : [RUNLESS]) {
    const [a, b] = [own, other].map((database) => listing(database, sql).iterate()[Symbol.iterator]());
    for (let x = a?.next(), y = b?.next(); x?.done !== true || y?.done !== true; x = a?.next(), y = b?.next())
      if (!isDeepStrictEqual(x?.value, y?.value)) differing++;
  }
  return { records, differing };
}

interface Read {
  readonly row: Row;
  readonly parts: readonly Uint8Array[];
}

function* recordsOf(database: DatabaseSync): Generator<Read, undefined> {
  const parts = listing(database, 'SELECT entries FROM part WHERE run = ? ORDER BY number');
  for (const row of listing(database, RECORDS).iterate() as unknown as Iterable<Row>) {
    const more = parts.all(row[0] as number) as unknown as Row[];
    yield { row, parts: [...more.map(([entries]) => entries as Uint8Array), row[2] as Uint8Array] };
  }
  return undefined;
}

function firstOf(read: Read | undefined): number {
  return Number(read?.row[3] ?? Infinity);
}

/** Their events may be packed in other portions. */
function isSame(a: Read, b: Read, isSettled: boolean): boolean {
  const end = isSettled ? undefined : MEMBERS;
  if (!isDeepStrictEqual(a.row.slice(3, end), b.row.slice(3, end))) return false;
  return (
    isDeepStrictEqual(a.parts, b.parts) || isDeepStrictEqual(unpackEntries(a.parts), unpackEntries(b.parts))
  );
}
