/** The statements of an update, and what it keeps in memory of the tables between them. */
import type { SQLInputValue, StatementSync } from 'node:sqlite';
import type { Sql } from './catalogue-file.js';
import { hashOf } from './packed-entries.js';
import { TallyChanges } from './packed-summary.js';
import { CatalogueDamaged } from './packing.js';
import type { EventLog } from '../store/contract/events.js';

/** A row as an update finds it. */
export interface FoundRow {
  readonly id: number;
  readonly organisation: number;
  readonly recordId: Uint8Array;
  readonly isRun: boolean;
  readonly events: number;
  /** Bytes of its entries that stand in the row itself. */
  readonly inline: number;
  readonly firstSequence: number;
  readonly lastSequence: number;
}

const FOUND = `SELECT id, organisation, record, is_run, events, length(entries), first_sequence,
  last_sequence FROM run`;
/** Made once: a statement is found by its text, and a new text has to be read for that. */
const ROW_OF = `${FOUND} WHERE record = ? AND organisation = ? AND is_run = ?`;
const ROW_BY_ID = `${FOUND} WHERE id = ?`;
const MOST_NAMES = 1 << 16;
const NAME_LENGTH = 256;

/** How names stand in the file: as they are, or encrypted where payloads are. */
export interface Texts {
  toBytes(text: string): Buffer;
  /** @throws CatalogueDamaged for what is no name. */
  toText(bytes: Uint8Array): string;
}

/** @param names how they have to be encrypted, if they have to be. */
export function textsOf(names: EventLog['names']): Texts {
  if (names === undefined)
    return { toBytes: (text) => Buffer.from(text), toText: (bytes) => Buffer.from(bytes).toString() };
  return {
    toBytes: (text) => names.seal(text),
    toText(bytes) {
      const text = names.open(bytes);
      if (text === undefined) throw new CatalogueDamaged('a name does not open by the key of names');
      return text;
    },
  };
}

type Value = null | number | bigint | string | Uint8Array;
export type Row = readonly Value[];

/** A statement whose rows are lists. */
export function listing(database: Sql, sql: string): StatementSync {
  const statement = database.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

export class Tables {
  readonly tally = new TallyChanges();
  readonly #statements = new Map<string, StatementSync>();
  readonly #names = new Map<string, number>();
  readonly #awaited = new IdFilter(1 << 22);
  /** Of every row, as long as this has written them all. */
  readonly #rows = new IdFilter(1 << 25);
  #knowsRows = false;
  #knowsAwaited = false;
  #dataVersion: unknown;

  constructor(
    readonly database: Sql,
    readonly texts: Texts,
  ) {}

  /** Forgets what it knows of the tables: after a rollback, and when another connection has written. */
  forget(): void {
    this.#names.clear();
    this.#dataVersion = undefined;
    this.#knowsRows = false;
    this.tally.forget();
  }

  /** To be called when a transaction has begun. */
  begin(): void {
    const version = this.first('PRAGMA data_version')?.[0];
    if (version === this.#dataVersion) return;
    this.forget();
    this.#dataVersion = version;
    this.#rows.clear();
    this.#knowsRows = this.first('SELECT id FROM run LIMIT 1') === undefined;
    this.#knowsAwaited = false;
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
    const bytes = this.texts.toBytes(text);
    const made =
      this.first('SELECT id FROM name WHERE text = ?', bytes) ??
      this.first('INSERT INTO name (text) VALUES (?) RETURNING id', bytes);
    const id = Number(made?.[0]);
    if (text.length > NAME_LENGTH) return id;
    if (this.#names.size >= MOST_NAMES) this.#names.clear();
    this.#names.set(text, id);
    return id;
  }

  /** Takes the texts out that no row has any more, also those that a row had before it was settled again. Reads every row. */
  dropNames(): void {
    const named = ['organisation', 'user', 'model', 'version', 'application'];
    const used = named.map((column) => `SELECT ${column} FROM run WHERE ${column} IS NOT NULL`);
    this.run(`DELETE FROM name WHERE id NOT IN (${used.join(' UNION ')})`);
    this.#names.clear();
  }

  rowOf(organisation: number, recordId: Uint8Array, isRun: boolean): FoundRow | undefined {
    if (this.#knowsRows && !this.#rows.has(recordId, 0)) return undefined;
    return foundRow(this.first(ROW_OF, recordId, organisation, isRun ? 1 : 0));
  }

  /** Notes that a row was made of that id. */
  noteRow(recordId: Uint8Array): void {
    if (this.#knowsRows) this.#rows.add(recordId, 0);
  }

  deleteRow(id: number): void {
    const [isRun, marks, began] =
      this.first('SELECT is_run, marks, began_received FROM run WHERE id = ?', id) ?? [];
    this.tally.add({ isRun: isRun === 1, marks: Number(marks), beganReceived: Number(began) }, -1);
    this.run('DELETE FROM run WHERE id = ?', id);
  }

  rowById(id: number): FoundRow | undefined {
    return foundRow(this.first(ROW_BY_ID, id));
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
    // Only now: an update that has nothing to take in does not ask.
    if (!this.#knowsAwaited) {
      this.#awaited.clear();
      for (const [event] of this.rows('SELECT event FROM awaited')) this.#awaited.add(event as Uint8Array, 0);
      this.#knowsAwaited = true;
    }
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
  const [id, organisation, recordId, isRun, events, inline, first, last] = row;
  return {
    ...{ id: Number(id), organisation: Number(organisation), recordId: recordId as Uint8Array },
    ...{ isRun: isRun === 1, events: Number(events), inline: Number(inline) },
    ...{ firstSequence: Number(first), lastSequence: Number(last) },
  };
}

/**
 * Which ids may be in a table, where hardly one is that is asked for. Of always the same size: with more ids than an
 * eighth of its bits it lets more through, and the table is asked.
 */
class IdFilter {
  readonly #bits: Uint8Array;

  constructor(private readonly size: number) {
    this.#bits = new Uint8Array(size >> 3);
  }

  clear(): void {
    this.#bits.fill(0);
  }

  add(ids: Uint8Array, at: number): void {
    const hash = hashOf(ids, at);
    this.#set(hash % this.size);
    this.#set(this.#other(hash));
  }

  has(ids: Uint8Array, at: number): boolean {
    const hash = hashOf(ids, at);
    return this.#isSet(hash % this.size) && this.#isSet(this.#other(hash));
  }

  #other(hash: number): number {
    return (Math.imul(hash, 0x9e37_79b1) >>> 7) % this.size;
  }

  #set(bit: number): void {
    this.#bits[bit >> 3] = (this.#bits[bit >> 3] ?? 0) | (1 << (bit & 7));
  }

  #isSet(bit: number): boolean {
    return ((this.#bits[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0;
  }
}
