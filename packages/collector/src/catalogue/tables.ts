/** What an update knows of the tables while it writes them. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type EventLog, ID_BYTES, type Place } from '../store/contract/events.js';
import { uuidText } from '../store/text.js';
import { CatalogueDamaged } from './faults.js';
import { Names } from './names.js';
import { Statements } from './statements.js';
import { TallyChanges } from './tally.js';

/** How many of the last bytes of an id say whether it may be awaited: in a UUID of any version they are random. */
const AWAITED_BYTES = 3;

/** A row of `event`, but for when it was sent. */
export interface EventRow extends Place {
  readonly sequence: number;
  readonly kind: number;
  readonly received: number;
}

/** A run of which nothing is written yet. */
export class NewRun {
  /** Five numbers to an event: a list of them takes a third of the memory that objects take. */
  readonly #numbers: number[] = [];

  /** @param id 16 bytes in Latin-1. */
  constructor(
    readonly organisation: number,
    readonly id: string,
  ) {}

  add({ sequence, at, size, kind, received }: EventRow): void {
    this.#numbers.push(sequence, at, size, kind, received);
  }

  /** In the order of the log. */
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

/* The rows of runs by their ids, those of the last batches of events in memory. */

const ROW = 'SELECT id FROM run INDEXED BY run_record WHERE record = ? AND organisation = ? AND is_run = 1';
/** A generation has more only by what a batch adds to it. An id takes some 100 bytes. */
const MOST_KEPT = 1 << 16;

export class RunIds {
  #young = new Map<string, number>();
  #old = new Map<string, number>();

  constructor(private readonly statements: Statements) {}

  forget(): void {
    this.#young = new Map();
    this.#old = new Map();
  }

  /** @param id 16 bytes in Latin-1. @returns undefined where there is no such run. */
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

  /** To be called when no run waits to be written: what was added stays in memory until then. */
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
  /** Of a batch, by their rows: they are written once they are summed. */
  readonly newRuns = new Map<number, NewRun>();
  /** A bit is set where records await an event whose id ends so. */
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

  /** False when no record awaits the event whose id stands there. */
  mayBeAwaited(source: Buffer, at: number): boolean {
    const [place, bit] = awaitedAt(source, at);
    return (this.#bitsAt(place) & bit) !== 0;
  }

  /** To be called when a transaction has begun: what another connection has changed meanwhile is not known. */
  begin(): void {
    const version = this.statements.first('PRAGMA data_version')?.[0];
    if (version === this.#dataVersion) return;
    this.forget();
    this.#dataVersion = version;
    this.#awaited.fill(0);
    for (const [event] of this.statements.rows('SELECT event FROM awaited'))
      this.#noteAwaited(event as Uint8Array);
  }

  /** After a rollback. */
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

  /** A number of it: 0 before it is set. */
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

  /** The row of an event that names no run and opens none; undefined when no such event was taken in. */
  rowOfRunless(organisation: number, event: Uint8Array): number | undefined {
    const sql = 'SELECT run FROM runless WHERE event = ? AND organisation = ?';
    const row = this.statements.first(sql, event, organisation)?.[0];
    return row === undefined ? undefined : Number(row);
  }

  /** The run of such an event: null where its record has none, undefined when no such event was taken in. */
  recordOfRunless(organisation: number, event: Uint8Array): string | null | undefined {
    const row = this.rowOfRunless(organisation, event);
    if (row === undefined) return undefined;
    const newRun = this.newRuns.get(row);
    if (newRun !== undefined) return uuidText(Buffer.from(newRun.id, 'latin1'));
    const found = this.statements.first('SELECT is_run, record FROM run WHERE id = ?', row);
    if (found === undefined) throw new CatalogueDamaged('a row that another names is not there');
    return found[0] === 1 ? uuidText(found[1] as Uint8Array) : null;
  }

  /** Notes that a row has to be looked at again when the event comes, or becomes part of a run. */
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

/** @param at where the id stands. */
function awaitedAt(source: Buffer, at: number): readonly [place: number, bit: number] {
  const end = source.readUIntBE(at + ID_BYTES - AWAITED_BYTES, AWAITED_BYTES);
  return [end >> 3, 1 << (end & 7)];
}
