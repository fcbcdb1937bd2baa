/** The state of the tables during an update. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type EventLog, ID_BYTES, type Place } from '../store/contract/events.js';
import { uuidText } from '../store/text.js';
import { CatalogueDamaged } from './faults.js';
import { Names } from './names.js';
import { Statements } from './statements.js';
import { TallyChanges } from './tally.js';

/** Number of last bytes of an id that select a bit of the bitmap: they are random in every UUID version. */
const AWAITED_BYTES = 3;

/** A row of `event` without the sender's time. */
export interface EventRow extends Place {
  readonly sequence: number;
  readonly kind: number;
  readonly received: number;
}

/** A run without a row. */
export class NewRun {
  /** Five numbers for each event: a list of numbers takes a third of the memory of objects. */
  readonly #numbers: number[] = [];

  /** @param id 16 bytes in Latin-1. */
  constructor(
    readonly organisation: number,
    readonly id: string,
  ) {}

  add({ sequence, at, size, kind, received }: EventRow): void {
    this.#numbers.push(sequence, at, size, kind, received);
  }

  /** Its events in the order of the log. */
  events(): EventRow[] {
    const rows: EventRow[] = [];
    const numbers = this.#numbers.values();
    const next = () => Number(numbers.next().value);
    for (let sequence; (sequence = numbers.next().value) !== undefined;)
      rows.push({ sequence, at: next(), size: next(), kind: next(), received: next() });
    return rows;
  }
}

const NEW_EVENT = `INSERT INTO event (run, sequence, at, size, kind, received, sent)
  VALUES (?, ?, ?, ?, ?, ?, ?)`;

/* The row ids of runs; the ids of the last batches are in memory. */

const ROW = 'SELECT id FROM run INDEXED BY run_record WHERE record = ? AND organisation = ? AND is_run = 1';
/** Limit of a generation, which a batch may exceed. An id takes about 100 bytes. */
const MOST_KEPT = 1 << 16;

export class RunIds {
  #young = new Map<string, number>();
  #old = new Map<string, number>();

  constructor(private readonly statements: Statements) {}

  forget(): void {
    this.#young = new Map();
    this.#old = new Map();
  }

  /** @param id 16 bytes in Latin-1. @returns undefined if there is no such run. */
  find(organisation: number, id: string): number | undefined {
    const key = `${id}${organisation}`;
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const row =
      this.#old.get(key) ?? this.statements.first(ROW, Buffer.from(id, 'latin1'), organisation)?.[0];
    if (row === undefined) return undefined;
    this.#young.set(key, Number(row));
    return Number(row);
  }

  add(organisation: number, id: string, row: number): void {
    this.#young.set(`${id}${organisation}`, row);
  }

  /** Call it when no run waits to be written: added ids stay in memory until then. */
  turn(): void {
    if (this.#young.size < MOST_KEPT) return;
    this.#old = this.#young;
    this.#young = new Map();
  }
}

export class Tables {
  readonly statements: Statements;
  readonly names: Names;
  readonly runs: RunIds;
  readonly tally: TallyChanges;
  /** New runs of a batch by row; they are written after they were summed. */
  readonly newRuns = new Map<number, NewRun>();
  /** A bitmap over the last bytes of awaited ids. */
  readonly #awaited = new Uint8Array(2 ** (8 * AWAITED_BYTES - 3));
  readonly #insertEvent: StatementSync;
  #dataVersion: unknown;

  constructor(
    readonly database: DatabaseSync,
    cipher: EventLog['names'],
  ) {
    this.statements = new Statements(database);
    this.names = new Names(database, cipher);
    this.runs = new RunIds(this.statements);
    this.tally = new TallyChanges(this.statements);
    this.#insertEvent = database.prepare(NEW_EVENT);
  }

  /** Returns false if no record awaits the event whose id is at this offset. */
  mayBeAwaited(source: Buffer, at: number): boolean {
    const [place, bit] = awaitedAt(source, at);
    return (this.#bitsAt(place) & bit) !== 0;
  }

  /**
   * Brings the data in memory up to date. Call it at the start of a transaction: another connection may have
   * changed the tables.
   */
  begin(): void {
    const version = this.statements.first('PRAGMA data_version')?.[0];
    if (version === this.#dataVersion) return;
    this.forget();
    this.#dataVersion = version;
    this.#awaited.fill(0);
    for (const [event] of this.statements.rows('SELECT event FROM awaited'))
      this.#noteAwaited(event as Uint8Array);
  }

  /** Discards all data in memory. Call it after a rollback. */
  forget(): void {
    this.#dataVersion = undefined;
    this.names.forget();
    this.runs.forget();
    this.newRuns.clear();
    this.tally.forget();
  }

  meta(name: string): unknown {
    return this.statements.first('SELECT value FROM meta WHERE name = ?', name)?.[0];
  }

  /** A number in the table `meta`, 0 until it is set. */
  metaNumber(name: 'events' | 'forgotten' | 'summed'): number {
    const value = this.meta(name);
    return value === undefined ? 0 : Number(value);
  }

  setMeta(name: string, value: number | string | Uint8Array): void {
    this.statements.run('INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)', name, value);
  }

  addEvent(row: number, event: EventRow, sent: number | null): void {
    const { sequence, at, size, kind, received } = event;
    this.#insertEvent.run(row, sequence, at, size, kind, received, sent);
  }

  /**
   * The row of an event that neither names nor opens a run; undefined if the event is not in the catalogue.
   */
  rowOfRunless(organisation: number, event: Uint8Array): number | undefined {
    const sql = 'SELECT run FROM runless WHERE event = ? AND organisation = ?';
    const row = this.statements.first(sql, event, organisation)?.[0];
    return row === undefined ? undefined : Number(row);
  }

  /**
   * The run of such an event: null if its record has none, undefined if the event is not in the catalogue.
   */
  recordOfRunless(organisation: number, event: Uint8Array): string | null | undefined {
    const row = this.rowOfRunless(organisation, event);
    if (row === undefined) return undefined;
    const newRun = this.newRuns.get(row);
    if (newRun !== undefined) return uuidText(Buffer.from(newRun.id, 'latin1'));
    const found = this.statements.first('SELECT is_run, record FROM run WHERE id = ?', row);
    if (found === undefined) throw new CatalogueDamaged('a row that another row names is missing');
    return found[0] === 1 ? uuidText(found[1] as Uint8Array) : null;
  }

  /** Marks a row to be summed again when the event arrives, or becomes part of a run. */
  await(organisation: number, event: Uint8Array, row: number): void {
    const sql = 'INSERT OR IGNORE INTO awaited (event, organisation, run) VALUES (?, ?, ?)';
    this.statements.run(sql, event, organisation, row);
    this.#noteAwaited(event);
  }

  #noteAwaited(event: Uint8Array): void {
    const [place, bit] = awaitedAt(Buffer.from(event.buffer, event.byteOffset, event.length), 0);
    this.#awaited[place] = this.#bitsAt(place) | bit;
  }

  #bitsAt(place: number): number {
    const bits = this.#awaited[place];
    if (bits === undefined) throw new RangeError('an id beyond the bitmap');
    return bits;
  }
}

/** @param at offset of the id. */
function awaitedAt(source: Buffer, at: number): readonly [place: number, bit: number] {
  const end = source.readUIntBE(at + ID_BYTES - AWAITED_BYTES, AWAITED_BYTES);
  return [end >> 3, 1 << (end & 7)];
}
