/**
 * The catalogue: a table of all records of a log, derived from it. An update takes in what the log holds behind it; a
 * question is answered from what is committed then, and never from a row that does not say what its events say.
 */
import type { SQLInputValue, StatementSync } from 'node:sqlite';
import { uuidText } from '../store/uuid-text.js';
import {
  CatalogueBusy,
  CatalogueDamaged,
  CatalogueFault,
  CatalogueFile,
  faultOf,
  isBusy,
  removeFile,
  UNFINISHED,
} from './catalogue-file.js';
import type { Cursor, EventLog } from '../store/event-log.js';
import { BEGINNING } from '../store/event-log.js';
import { holderOf, noteHolder } from './lock-holder.js';
import { idBytes, isNoId } from './log-batch.js';
import { unpackEntries, type EventEntry } from './packed-entries.js';
import { unpackSummary } from './packed-summary.js';
import { queryOf, type RunFilter } from './run-filter.js';
import type { RunSummary } from './run-summary.js';
import { listing, Tables, type Row } from './tables.js';
import { Updating, type Updated, type UpdateOptions } from './updating.js';

export { CatalogueBusy, CatalogueDamaged, CatalogueFault };
export type { Cursor, EventEntry, EventLog, RunFilter, RunSummary, Updated, UpdateOptions };

export interface CatalogueOptions {
  /** Where the file is made: for its owner alone, as is the directory when it is made. */
  readonly directory: string;
  readonly ledgerId: string;
  /** How long an update waits for another process. */
  readonly waitMs?: number;
  /** Called while an update waits, about ten times a second. @param holder who is waited for, in words. */
  readonly onWait?: (elapsedMs: number, holder: string) => void;
  /** Entries to a batch, and pages of the file; tests make them few. */
  readonly mostEntries?: number;
  readonly mostPages?: number;
}

/** A record, and where its events are. */
export interface CatalogueRun extends RunSummary {
  /** Its row: the same as long as the record is not merged with another. */
  readonly row: number;
  /** Its events in the order of the log. */
  events(): EventEntry[];
}

/** Where an event is: its run, or null when it is of none, and the row of its record. */
export interface EventRecord {
  readonly runId: string | null;
  readonly row: number;
}

const WAIT_MS = 60_000;
const STEP_MS = 100;
const ENTRIES = 32_768;
/** Each run of a circle names the others, so naming all would be the square of their number. */
const MOST_OF_A_CIRCLE = 100;

const COLUMNS = `id, record, organisation, is_run, first_sequence, last_sequence, began_received, began_sender, marks,
  target, user, model, version, application, summary, entries`;

export class Catalogue {
  #file: CatalogueFile;
  #tables: Tables;
  #updating: Promise<unknown> = Promise.resolve();
  /** A question has found it so: the next update rebuilds it. */
  #isDamaged = false;
  readonly #names = new Map<number, string>();
  readonly #circles = new Map<number, readonly string[]>();

  private constructor(
    private readonly options: CatalogueOptions,
    file: CatalogueFile,
  ) {
    this.#file = file;
    this.#tables = new Tables(file.writer);
  }

  /** @throws CatalogueFault when the file cannot be made or opened. */
  static open(options: CatalogueOptions): Catalogue {
    return new Catalogue(options, CatalogueFile.open(options.directory, options.ledgerId, options.mostPages));
  }

  /** The next sequence that an update takes in. */
  get cursor(): Cursor {
    return this.#ask(() => {
      const value = (name: string) => this.#first('SELECT value FROM meta WHERE name = ?', name)?.[0];
      const sequence = value('sequence');
      return sequence === undefined ? BEGINNING : { sequence: Number(sequence), at: Number(value('at')) };
    });
  }

  /**
   * Takes in what the log holds behind the cursor. A catalogue of another log is emptied first, and one that is damaged
   * is rebuilt once.
   * @throws CatalogueBusy when another process writes for longer than is waited, CatalogueFault, or what the log throws.
   */
  update(log: EventLog, options: UpdateOptions = {}): Promise<Updated> {
    const update = this.#updating.then(() => this.#update(log, options));
    this.#updating = update.catch(() => undefined);
    return update;
  }

  async #update(log: EventLog, options: UpdateOptions): Promise<Updated> {
    if (this.#isDamaged) this.#remove();
    // Removed while it was open: others do not see what would be written.
    if (this.#isDamaged || !this.#file.isCurrent) this.#reopen();
    try {
      return await this.#run(log, options);
    } catch (error) {
      const fault = faultOf(error, this.options.directory);
      if (!(fault instanceof CatalogueDamaged)) throw fault;
      this.#remove();
      this.#reopen();
    }
    try {
      return await this.#run(log, options);
    } catch (error) {
      throw faultOf(error, this.options.directory);
    }
  }

  async #run(log: EventLog, options: UpdateOptions): Promise<Updated> {
    const { ledgerId, mostEntries = ENTRIES } = this.options;
    const lock = () => this.#lock(options.signal);
    try {
      return await new Updating(this.#tables, log, ledgerId, options, lock, mostEntries).run();
    } finally {
      this.#names.clear();
      this.#circles.clear();
    }
  }

  /** Only what stands there and is not another's that was rebuilt meanwhile. */
  #remove(): void {
    const { isCurrent } = this.#file;
    this.#file.close();
    if (isCurrent) removeFile(this.options.directory);
  }

  #reopen(): void {
    this.#isDamaged = false;
    this.#file.close();
    const { directory, ledgerId, mostPages } = this.options;
    this.#file = CatalogueFile.open(directory, ledgerId, mostPages);
    this.#tables = new Tables(this.#file.writer);
  }

  /** Begins a transaction that no other process writes beside. Waits in steps, so that the process goes on meanwhile. */
  async #lock(signal: AbortSignal | undefined): Promise<void> {
    const { directory, waitMs = WAIT_MS, onWait } = this.options;
    const { writer } = this.#file;
    const began = performance.now();
    writer.exec('PRAGMA busy_timeout = 0');
    for (;;) {
      try {
        writer.exec('BEGIN IMMEDIATE');
        break;
      } catch (error) {
        if (!isBusy(error)) throw error;
        const elapsed = performance.now() - began;
        const holder = holderOf(directory);
        if (elapsed >= waitMs) {
          throw new CatalogueBusy(`${holder} has been writing the catalogue in ${directory} for too long`, {
            cause: error,
          });
        }
        onWait?.(elapsed, holder);
      }
      await new Promise((resolve) => setTimeout(resolve, STEP_MS));
      signal?.throwIfAborted();
    }
    writer.exec('PRAGMA busy_timeout = 5000');
    noteHolder(directory);
  }

  /**
   * The records that match, in the order of the filter, as they are when the first one is asked for: an update meanwhile
   * is not seen. While they are read, the file cannot be made smaller.
   * @throws CatalogueFault when an update was left before its end; CatalogueDamaged, and the next update rebuilds it. So
   *   do the others.
   */
  *runs(filter: RunFilter = {}): Generator<CatalogueRun> {
    const rows = this.#ask(() => {
      this.#checkSettled();
      const query = queryOf(filter, (text) => this.#nameId(text));
      if (query === undefined) return [];
      const sql = `SELECT ${COLUMNS} FROM run ${query.where} ${query.order}`;
      const statement = listing(this.#file.reader, sql);
      return statement.iterate(...query.values) as unknown as Iterable<Row>;
    });
    const iterator = rows[Symbol.iterator]();
    try {
      for (;;) {
        const next = this.#ask(() => iterator.next());
        if (next.done === true) return;
        yield this.#ask(() => this.#runOf(next.value));
      }
    } finally {
      iterator.return?.();
    }
  }

  /** How many records match; the order and the limit of the filter make no difference. */
  count(filter: RunFilter = {}): number {
    return this.#ask(() => {
      this.#checkSettled();
      const query = queryOf(filter, (text) => this.#nameId(text));
      if (query === undefined) return 0;
      return Number(this.#first(`SELECT count(*) FROM run ${query.where}`, ...query.values)?.[0]);
    });
  }

  /**
   * The records of that id, runs first. @param recordId in its text form, or its first hexadecimal digits.
   * @param most of an id that is short.
   */
  run(organisation: string | undefined, recordId: string, most = 16): CatalogueRun[] {
    const digits = recordId.replaceAll('-', '').toLowerCase();
    if (!/^[0-9a-f]{1,32}$/.test(digits)) return [];
    return this.#ask(() => {
      this.#checkSettled();
      const bound = (filler: string) => Buffer.from(digits.padEnd(32, filler), 'hex');
      const own = organisation === undefined ? undefined : this.#nameId(organisation);
      if (organisation !== undefined && own === undefined) return [];
      const sql = `SELECT ${COLUMNS} FROM run INDEXED BY run_record WHERE record BETWEEN ? AND ?
        ${own === undefined ? '' : 'AND organisation = ?'} ORDER BY record, is_run DESC, organisation LIMIT ?`;
      const values = [bound('0'), bound('f'), ...(own === undefined ? [] : [own]), most];
      return this.#all(sql, ...values).map((row) => this.#runOf(row));
    });
  }

  /** The runs that are nested in a record, in the order of their ids. */
  children({ row }: Pick<CatalogueRun, 'row'>): string[] {
    return this.#ask(() => {
      const sql = 'SELECT record FROM run WHERE parent = ? ORDER BY record';
      return this.#all(sql, row).map(([record]) => uuidText(record as Uint8Array));
    });
  }

  /** The runs of the circle that a run is part of, in the order of their ids and at most 100; empty when there is none. */
  cycle({ row }: Pick<CatalogueRun, 'row'>): readonly string[] {
    return this.#ask(() => {
      const known = this.#circles.get(row);
      if (known !== undefined) return known;
      const rows: number[] = [];
      const ids: string[] = [];
      for (let at = row; rows.length === 0 || at !== row;) {
        const [record, circle, parent] =
          this.#first('SELECT record, circle, parent FROM run WHERE id = ?', at) ?? [];
        if (circle !== 1) return [];
        rows.push(at);
        ids.push(uuidText(record as Uint8Array));
        at = Number(parent);
      }
      const named = ids.sort().slice(0, MOST_OF_A_CIRCLE);
      for (const member of rows) this.#circles.set(member, named);
      return named;
    });
  }

  /** The record that an event is of; undefined when the catalogue has no such event. */
  async recordOfEvent(
    log: EventLog,
    organisation: string,
    eventId: string,
  ): Promise<EventRecord | undefined> {
    const id = idBytes(eventId);
    const found = await log.find(organisation, id);
    return this.#ask(() => {
      const own = this.#nameId(organisation);
      if (found === undefined || own === undefined || found.sequence >= this.cursor.sequence)
        return undefined;
      const [row, isRun, record] = isNoId(found.runId)
        ? (this.#first(
            `SELECT run.id, is_run, record FROM runless JOIN run ON run.id = runless.run
             WHERE event = ? AND runless.organisation = ?`,
            ...[id, own],
          ) ?? [])
        : (this.#first(
            'SELECT id, is_run, record FROM run WHERE record = ? AND organisation = ? AND is_run = 1',
            ...[Buffer.from(found.runId), own],
          ) ?? []);
      if (row === undefined) return undefined;
      return { row: Number(row), runId: isRun === 1 ? uuidText(record as Uint8Array) : null };
    });
  }

  /** The record of a row; undefined when there is no such row, or no longer. */
  byRow(row: number): CatalogueRun | undefined {
    return this.#ask(() => {
      this.#checkSettled();
      const found = this.#first(`SELECT ${COLUMNS} FROM run WHERE id = ?`, row);
      return found && this.#runOf(found);
    });
  }

  /** On return the files are closed; what was asked for lazily ends. */
  close(): void {
    this.#file.close();
  }

  #runOf(row: Row): CatalogueRun {
    const [id, record, organisation, isRun, firstSequence, lastSequence, received, sender, marks, ...rest] =
      row;
    const [target, user, model, version, application, summary, entries] = rest;
    const began = { received: Number(received), sender: Number(sender) };
    const name = (value: Row[number] | undefined) => (value === null ? null : this.#name(Number(value)));
    return {
      row: Number(id),
      organisation: this.#name(Number(organisation)),
      recordId: uuidText(record as Uint8Array),
      isRun: isRun === 1,
      firstSequence: Number(firstSequence),
      lastSequence: Number(lastSequence),
      began,
      targetId: target instanceof Uint8Array ? Buffer.from(target).toString() : null,
      userId: name(user),
      modelId: name(model),
      modelVersion: name(version),
      application: name(application),
      ...unpackSummary(summary as Uint8Array, Number(marks), began),
      events: () => this.#ask(() => this.#events(Number(id), entries as Uint8Array)),
    };
  }

  #events(row: number, inline: Uint8Array): EventEntry[] {
    const parts = this.#all('SELECT entries FROM part WHERE run = ? ORDER BY number', row);
    return unpackEntries([...parts.map(([entries]) => entries as Uint8Array), inline]);
  }

  #checkSettled(): void {
    const unsettled = this.#first(
      'SELECT id FROM run INDEXED BY run_settled WHERE settled IS NOT NULL LIMIT 1',
    );
    if (unsettled === undefined) return;
    throw new CatalogueFault(UNFINISHED);
  }

  #nameId(text: string): number | undefined {
    const id = this.#first('SELECT id FROM name WHERE text = ?', Buffer.from(text))?.[0];
    return id === undefined ? undefined : Number(id);
  }

  #name(id: number): string {
    let text = this.#names.get(id);
    if (text === undefined) {
      const found = this.#first('SELECT text FROM name WHERE id = ?', id)?.[0];
      if (!(found instanceof Uint8Array)) throw new CatalogueDamaged('a text that a row names is not there');
      text = Buffer.from(found).toString();
      if (this.#names.size >= 4096) this.#names.clear();
      this.#names.set(id, text);
    }
    return text;
  }

  #first(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#statement(sql).get(...values) as unknown as Row | undefined;
  }

  #all(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#statement(sql).all(...values) as unknown as Row[];
  }

  #statement(sql: string): StatementSync {
    return this.#asking.get(this.#file, sql);
  }

  readonly #asking = new Statements();

  #ask<Answer>(question: () => Answer): Answer {
    try {
      return question();
    } catch (error) {
      const fault = faultOf(error, this.options.directory);
      if (fault instanceof CatalogueDamaged) this.#isDamaged = true;
      throw fault;
    }
  }
}

/** Statements of the connection that reads, made once. */
class Statements {
  #file: CatalogueFile | undefined;
  readonly #statements = new Map<string, StatementSync>();

  get(file: CatalogueFile, sql: string): StatementSync {
    if (file !== this.#file) this.#statements.clear();
    this.#file = file;
    let statement = this.#statements.get(sql);
    if (statement === undefined) this.#statements.set(sql, (statement = listing(file.reader, sql)));
    return statement;
  }
}
