/**
 * The catalogue: a table of all records of a log, derived from it. An update takes in what the log holds behind it; a
 * question is answered from what is committed then, and never from a row that does not say what its events say.
 */
import path from 'node:path';
import type { SQLInputValue, StatementSync } from 'node:sqlite';
import { CatalogueBusy, CatalogueDamaged, CatalogueFault, PackedReader } from './packing.js';
import {
  CatalogueFile,
  faultOf,
  isBusy,
  removeFile,
  UNFINISHED,
  holderOf,
  noteHolder,
  contentId,
} from './catalogue-file.js';
import { BEGINNING, type Cursor, type EventLog } from '../store/contract/events.js';
import {
  countedPages,
  type CountedRecord,
  type CountedRows,
  recordPages,
  type RecordSelection,
  modelsNamed,
  queryOf,
  type FeedbackAsked,
  type RunFilter,
} from './questions.js';
import { eachEntry, logBytesIn, unpackEntries, type EventEntry } from './packed-entries.js';
import { unpackSummary, tallyOf, type Tally } from './packed-summary.js';
import { beganBySender, type RunSummary } from './run-summary.js';
import { listing, Tables, textsOf, type Row, type Texts } from './tables.js';
import { Updating, type Updated, type UpdateOptions } from './updating.js';
import { isNoId, uuidBytes, uuidText } from '../store/text.js';

export {
  beganBySender,
  CatalogueBusy,
  CatalogueDamaged,
  CatalogueFault,
  logBytesIn,
  modelsNamed,
  unpackEntries,
};
export type {
  Cursor,
  EventEntry,
  EventLog,
  FeedbackAsked,
  RecordSelection,
  RunFilter,
  RunSummary,
  Tally,
  Updated,
  UpdateOptions,
};

/** Where the catalogue of a data directory is. */
export function catalogueDirectory(dataDir: string): string {
  return path.join(dataDir, 'catalogue');
}

export interface CatalogueOptions {
  /** Where the file is made: for its owner alone, as is the directory when it is made. */
  readonly directory: string;
  readonly ledgerId: string;
  /** As the log has it. */
  readonly names?: EventLog['names'];
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

/** A record of an export: where its events are, and what links it to others. */
export interface PlacedRecord {
  readonly row: number;
  readonly firstSequence: number;
  /** The run of what it is nested in, or null when that is none; undefined when it is nested in nothing. */
  readonly parent: string | null | undefined;
  readonly hasChildren: boolean;
  readonly isInCircle: boolean;
  /** As {@link unpackEntries} takes them. */
  chunks(): Uint8Array[];
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

const HAS_PARTS = 'EXISTS (SELECT 1 FROM part WHERE part.run = run.id)';
const PLACED = `run.first_sequence, above.is_run, above.record, run.circle, ${HAS_PARTS},
  EXISTS (SELECT 1 FROM run AS child WHERE child.parent = run.id), run.entries`;

export class Catalogue {
  #file: CatalogueFile;
  readonly #texts: Texts;
  #tables: Tables;
  #updating: Promise<unknown> = Promise.resolve();
  /** A question has found it so: the next update rebuilds it. */
  #isDamaged = false;
  /** The newest event that is taken in was seen there in this log. */
  #seen: { readonly log: EventLog; readonly at: number | undefined } | undefined;
  readonly #rows: CountedRows = {
    all: (sql, ...values) => this.#all(sql, ...values),
    nameId: (text) => this.#nameId(text),
    name: (id) => this.#name(id),
    parts: (row) => this.#parts(row),
  };
  readonly #names = new Map<number, string>();
  readonly #circles = new Map<number, readonly string[]>();

  private constructor(
    private readonly options: CatalogueOptions,
    file: CatalogueFile,
  ) {
    this.#file = file;
    this.#texts = textsOf(options.names);
    this.#tables = new Tables(file.writer, this.#texts);
  }

  /** @throws CatalogueFault when the file cannot be made or opened. */
  static open(options: CatalogueOptions): Catalogue {
    return new Catalogue(
      options,
      CatalogueFile.open(options.directory, contentId(options), options.mostPages),
    );
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
    const { mostEntries = ENTRIES } = this.options;
    // Encryption may have begun since it was opened.
    if (log.names?.id !== this.options.names?.id)
      throw new CatalogueFault(
        'the names of the catalogue are encrypted from now on: it has to be opened again',
      );
    const lock = () => this.#lock(options.signal);
    const seenAt = this.#seen?.log === log ? this.#seen.at : undefined;
    const updating = new Updating(
      this.#tables,
      log,
      contentId(this.options),
      options,
      lock,
      mostEntries,
      seenAt,
    );
    try {
      const updated = await updating.run();
      this.#seen = { log, at: updating.newestAt };
      return updated;
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
    const { directory, mostPages } = this.options;
    this.#file = CatalogueFile.open(directory, contentId(this.options), mostPages);
    this.#tables = new Tables(this.#file.writer, this.#texts);
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
      const query = queryOf(filter, { texts: this.#texts, nameId: (text) => this.#nameId(text) });
      if (query === undefined) return [];
      const sql = `SELECT ${COLUMNS} FROM run ${query.where} ${query.order}`;
      const statement = listing(this.#file.reader, sql);
      return statement.iterate(...query.values) as unknown as Iterable<Row>;
    });
    for (const row of this.#each(rows)) yield this.#ask(() => this.#runOf(row));
  }

  /** The answers to a question, of which each step may find the catalogue damaged. */
  *#each<Answer>(answers: Iterable<Answer>): Generator<Answer> {
    const iterator = answers[Symbol.iterator]();
    try {
      for (;;) {
        const next = this.#ask(() => iterator.next());
        if (next.done === true) return;
        yield next.value;
      }
    } finally {
      iterator.return?.();
    }
  }

  /** How many records match; the order makes no difference. With a limit, no more than it are counted. */
  count(filter: RunFilter = {}): number {
    return this.#ask(() => {
      this.#checkSettled();
      const query = queryOf(filter, { texts: this.#texts, nameId: (text) => this.#nameId(text) });
      if (query === undefined) return 0;
      const { where, values } = query;
      const { limit } = filter;
      const sql =
        limit === undefined
          ? `SELECT count(*) FROM run ${where}`
          : `SELECT count(*) FROM (SELECT 1 FROM run ${where} LIMIT ${limit})`;
      return Number(this.#first(sql, ...values)?.[0]);
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

  /** All that have an event. */
  organisations(): string[] {
    return this.#ask(() => {
      const names: string[] = [];
      const sql = 'SELECT min(organisation) FROM run INDEXED BY run_organisation WHERE organisation > ?';
      for (let id = 0; ;) {
        const next = this.#first(sql, id)?.[0];
        if (typeof next !== 'number') return names;
        names.push(this.#name(next));
        id = next;
      }
    });
  }

  /** The ids before and behind one among those of all records. */
  neighbours(recordId: string): string[] {
    return this.#ask(() => {
      const id = uuidBytes(recordId);
      const rows = ['< ? ORDER BY record DESC', '> ? ORDER BY record'].map((which) =>
        this.#first(`SELECT record FROM run INDEXED BY run_record WHERE record ${which} LIMIT 1`, id),
      );
      return rows.flatMap((row) => (row === undefined ? [] : uuidText(row[0] as Uint8Array)));
    });
  }

  /** The records of a selection in its order, some at a time: between two of these others can have their turn. */
  *placed(selection: RecordSelection): Generator<PlacedRecord[]> {
    for (const page of this.#pages(PLACED, selection)) {
      const records = page.map(([, id, first, isRun, above, circle, hasParts, hasChildren, entries]) => ({
        ...{ row: Number(id), firstSequence: Number(first), isInCircle: circle !== null },
        parent: isRun === null ? undefined : isRun === 1 ? uuidText(above as Uint8Array) : null,
        hasChildren: hasChildren === 1,
        chunks: () => this.#chunks(Number(id), hasParts === 1, entries as Uint8Array),
      }));
      yield records.filter((record) => isWithin(selection, record));
    }
  }

  /**
   * Calls for each record of a selection what is counted of it, some at a time. `since` and `until` are not looked at but
   * for when a record began.
   * @returns the sequence up to which it has come, at most the last.
   */
  *counted(selection: RecordSelection, visit: (record: CountedRecord) => void): Generator<number> {
    this.#checkSettled();
    yield* this.#each(countedPages(this.#rows, selection, visit));
  }

  *#pages(columns: string, selection: RecordSelection): Generator<readonly Row[]> {
    this.#checkSettled();
    yield* this.#each(recordPages(this.#rows, columns, selection));
  }

  #chunks(row: number, hasParts: boolean, inline: Uint8Array): Uint8Array[] {
    return hasParts ? [...this.#ask(() => this.#parts(row)), inline] : [inline];
  }

  #parts(row: number): Uint8Array[] {
    const parts = this.#all('SELECT entries FROM part WHERE run = ? ORDER BY number', row);
    return parts.map(([entries]) => entries as Uint8Array);
  }

  /** The models of all records, and the versions of each: null where a record of it says none. */
  models(): { readonly model: string; readonly version: string | null }[] {
    return this.#ask(() =>
      this.#all('SELECT DISTINCT model, version FROM run WHERE model IS NOT NULL').map(
        ([model, version]) => ({
          model: this.#name(Number(model)),
          version: version === null ? null : this.#name(Number(version)),
        }),
      ),
    );
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
    const id = uuidBytes(eventId);
    const { sequence } = this.cursor;
    const found = await log.find(organisation, id, sequence);
    return this.#ask(() => {
      const own = this.#nameId(organisation);
      if (found === undefined || own === undefined || found.sequence >= sequence) return undefined;
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

  /**
   * From now on, until it is released, all questions are answered from what is committed now.
   * @returns whether that can be asked: false, and nothing is held, when an update was left before its end.
   */
  hold(): boolean {
    this.release();
    return this.#ask(() => {
      this.#file.reader.exec('BEGIN');
      const isSettled = this.#unsettled() === undefined;
      if (!isSettled) this.release();
      return isSettled;
    });
  }

  release(): void {
    const { reader } = this.#file;
    if (reader.isOpen && reader.isTransaction) this.#ask(() => reader.exec('COMMIT'));
  }

  /** False when the next update makes another file: it is not the one under its name, or a question found it damaged. */
  get isCurrent(): boolean {
    return !this.#isDamaged && this.#file.isCurrent;
  }

  /**
   * Runs that began in the hour of `since` or later, by the collector's clock and by how complete they are. It may be asked
   * before an update has come to its end: a record counts by what its row says.
   */
  tally(since: number): Tally {
    return this.#ask(() => tallyOf(this.#file.reader, since));
  }

  /** On return the files are closed, and removed when they are damaged; what was asked for lazily ends. */
  close(): void {
    if (this.#isDamaged) this.#remove();
    else this.#file.close();
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
      targetId: target instanceof Uint8Array ? this.#texts.toText(target) : null,
      userId: name(user),
      modelId: name(model),
      modelVersion: name(version),
      application: name(application),
      ...unpackSummary(new PackedReader(summary as Uint8Array), Number(marks), began),
      events: () => this.#ask(() => this.#events(Number(id), entries as Uint8Array)),
    };
  }

  #events(row: number, inline: Uint8Array): EventEntry[] {
    return unpackEntries(this.#chunks(row, true, inline));
  }

  #checkSettled(): void {
    if (this.#unsettled() !== undefined) throw new CatalogueFault(UNFINISHED);
  }

  #unsettled(): Row | undefined {
    return this.#first('SELECT id FROM run INDEXED BY run_settled WHERE settled IS NOT NULL LIMIT 1');
  }

  #nameId(text: string): number | undefined {
    const id = this.#first('SELECT id FROM name WHERE text = ?', this.#texts.toBytes(text))?.[0];
    return id === undefined ? undefined : Number(id);
  }

  #name(id: number): string {
    let text = this.#names.get(id);
    if (text === undefined) {
      const found = this.#first('SELECT text FROM name WHERE id = ?', id)?.[0];
      if (!(found instanceof Uint8Array)) throw new CatalogueDamaged('a text that a row names is not there');
      text = this.#texts.toText(found);
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

/** Whether one of its events is in the time of a selection, by its clock. */
function isWithin({ since, until, clock }: RecordSelection, record: PlacedRecord): boolean {
  // What else is asked stands in columns.
  if (since === undefined || clock === 'sender') return true;
  let found = false;
  for (const chunk of record.chunks()) {
    eachEntry(new PackedReader(chunk), (_, receivedAt) => {
      if (receivedAt >= since && receivedAt < (until ?? Infinity)) found = true;
    });
  }
  return found;
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
