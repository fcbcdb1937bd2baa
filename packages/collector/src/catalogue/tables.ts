/** The statements of an update, and what it keeps in memory of the tables between them. */
import { randomInt } from 'node:crypto';
import type { SQLInputValue, StatementSync } from 'node:sqlite';
import { ID_BYTES } from '../store/event-log.js';
import type { Sql } from './catalogue-file.js';

/** A row as an update finds it. */
export interface FoundRow {
  readonly id: number;
  readonly organisation: number;
  readonly recordId: Uint8Array;
  readonly isRun: boolean;
  readonly events: number;
  readonly firstSequence: number;
  readonly lastSequence: number;
}

const FOUND = 'id, organisation, record, is_run, events, first_sequence, last_sequence';
const MOST_NAMES = 1 << 16;
const NAME_LENGTH = 256;

type Value = null | number | bigint | string | Uint8Array;
export type Row = readonly Value[];

/** A statement whose rows are lists. */
export function listing(database: Sql, sql: string): StatementSync {
  const statement = database.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

export class Tables {
  readonly #statements = new Map<string, StatementSync>();
  readonly #names = new Map<string, number>();
  readonly #awaited = new AwaitedFilter();
  #dataVersion: unknown;

  constructor(readonly database: Sql) {}

  /** Forgets what it knows of the tables: after a rollback, and when another connection has written. */
  forget(): void {
    this.#names.clear();
    this.#dataVersion = undefined;
  }

  /** To be called when a transaction has begun. */
  begin(): void {
    const version = this.first('PRAGMA data_version')?.[0];
    if (version === this.#dataVersion) return;
    this.forget();
    this.#dataVersion = version;
    this.#awaited.clear();
    for (const [event] of this.rows('SELECT event FROM awaited')) this.#awaited.add(event as Uint8Array, 0);
  }

  first(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#statement(sql).get(...values) as unknown as Row | undefined;
  }

  all(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#statement(sql).all(...values) as unknown as Row[];
  }

  rows(sql: string, ...values: SQLInputValue[]): Iterable<Row> {
    return this.#statement(sql).iterate(...values) as unknown as Iterable<Row>;
  }

  run(sql: string, ...values: SQLInputValue[]): void {
    this.#statement(sql).run(...values);
  }

  /** The number of a text, which is given one where it has none. */
  nameId(text: string): number {
    const known = this.#names.get(text);
    if (known !== undefined) return known;
    const bytes = Buffer.from(text);
    // Most texts that are not known here are new ones, as the patient of a run.
    const made =
      this.first('INSERT INTO name (text) VALUES (?) ON CONFLICT DO NOTHING RETURNING id', bytes) ??
      this.first('SELECT id FROM name WHERE text = ?', bytes);
    const id = Number(made?.[0]);
    if (text.length > NAME_LENGTH) return id;
    if (this.#names.size >= MOST_NAMES) this.#names.clear();
    this.#names.set(text, id);
    return id;
  }

  nameText(id: number): string {
    const text = this.first('SELECT text FROM name WHERE id = ?', id)?.[0];
    return Buffer.from(text as Uint8Array).toString();
  }

  rowOf(organisation: number, recordId: Uint8Array, isRun: boolean): FoundRow | undefined {
    const sql = `SELECT ${FOUND} FROM run WHERE record = ? AND organisation = ? AND is_run = ?`;
    return foundRow(this.first(sql, recordId, organisation, isRun ? 1 : 0));
  }

  rowById(id: number): FoundRow | undefined {
    return foundRow(this.first(`SELECT ${FOUND} FROM run WHERE id = ?`, id));
  }

  /** The row of an event that names no run and opens none; undefined when no such event was taken in. */
  rowOfRunless(organisation: number, event: Uint8Array): number | undefined {
    const row = this.first(
      'SELECT run FROM runless WHERE event = ? AND organisation = ?',
      event,
      organisation,
    );
    return row === undefined ? undefined : Number(row[0]);
  }

  addRunless(organisation: number, event: Uint8Array, parent: Uint8Array | null, row: number): void {
    const sql = 'INSERT INTO runless (event, organisation, parent, run) VALUES (?, ?, ?, ?)';
    this.run(sql, event, organisation, parent, row);
  }

  /** Notes that a row has to be looked at again when the event comes, or becomes part of a run. */
  await(organisation: number, event: Uint8Array, row: number): void {
    this.run(
      'INSERT OR IGNORE INTO awaited (event, organisation, run) VALUES (?, ?, ?)',
      event,
      organisation,
      row,
    );
    this.#awaited.add(event, 0);
  }

  /** False when no row waits for the event whose id stands there. */
  mayBeAwaited(source: Uint8Array, at: number): boolean {
    return this.#awaited.has(source, at);
  }

  waitingFor(organisation: number, event: Uint8Array): number[] {
    const sql = 'SELECT run FROM awaited WHERE event = ? AND organisation = ?';
    return this.all(sql, event, organisation).map(([row]) => Number(row));
  }

  #statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = listing(this.database, sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

function foundRow(row: Row | undefined): FoundRow | undefined {
  if (row === undefined) return undefined;
  const [id, organisation, recordId, isRun, events, first, last] = row;
  return {
    ...{ id: Number(id), organisation: Number(organisation), recordId: recordId as Uint8Array },
    ...{ isRun: isRun === 1, events: Number(events) },
    ...{ firstSequence: Number(first), lastSequence: Number(last) },
  };
}

const FILTER_BITS = 1 << 22;

/**
 * Which ids may be awaited: hardly any is, and every event is asked about. Half a mebibyte, whatever is in it; beyond
 * some hundred thousand ids it lets more through, and the table is asked.
 */
class AwaitedFilter {
  readonly #bits = new Uint8Array(FILTER_BITS >> 3);
  /** Senders choose the ids, and must not be able to choose where they fall. */
  readonly #seed = randomInt(2 ** 32);

  clear(): void {
    this.#bits.fill(0);
  }

  add(ids: Uint8Array, at: number): void {
    const hash = this.#hash(ids, at);
    for (const bit of [hash % FILTER_BITS, (hash >>> 10) % FILTER_BITS]) {
      this.#bits[bit >> 3] = (this.#bits[bit >> 3] ?? 0) | (1 << (bit & 7));
    }
  }

  has(ids: Uint8Array, at: number): boolean {
    const hash = this.#hash(ids, at);
    return this.#isSet(hash % FILTER_BITS) && this.#isSet((hash >>> 10) % FILTER_BITS);
  }

  #isSet(bit: number): boolean {
    return ((this.#bits[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0;
  }

  #hash(ids: Uint8Array, from: number): number {
    let hash = this.#seed;
    for (let at = from; at < from + ID_BYTES; at++) hash = Math.imul(hash ^ (ids[at] ?? 0), 0x0100_0193);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b_3c6d);
    return (hash ^ (hash >>> 13)) >>> 0;
  }
}
