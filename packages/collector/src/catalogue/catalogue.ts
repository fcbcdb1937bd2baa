/**
 * The catalogue: tables of all records of a log, derived from it. An update adds new entries of the log. A
 * question reads the committed state, and never a row that does not match its events.
 */
import fs from 'node:fs';
import path from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { CountedRun } from '../records/counted-run.js';
import { BEGINNING, type Cursor, type EventLog } from '../store/contract/events.js';
import { isNoId, uuidBytes, uuidText } from '../store/text.js';
import { CATALOGUE_FILE, contentOf, removeFile } from './catalogue-file.js';
import { beganIn, namesIn, piecesIn, SUMMARY_COLUMNS, type Value, wordAt } from './columns.js';
import { CatalogueDamaged, CatalogueFault, faultOf, UNFINISHED } from './faults.js';
import { type NamedRuns, type NameKind, namedRuns } from './named-runs.js';
import { Names } from './names.js';
import {
  type CatalogueRun,
  countedPages,
  type EventEntry,
  type EventRecord,
  type PageQuery,
  type PlacedRecord,
  queryOf,
  type ReadPage,
  type RunFilter,
  type Source,
} from './questions.js';
import type { RunSummary } from './run-summary.js';
import { IS } from './schema.js';
import { listing, type Row, Statements } from './statements.js';
import { type Tally, tallyOf } from './tally.js';
import { type CatalogueOptions, TakingIn } from './taking-in.js';
import type { Updated, UpdateOptions } from './updating.js';

export { beganBySender } from './run-summary.js';
export { CatalogueBusy, CatalogueDamaged, CatalogueFault } from './faults.js';
export { modelsNamed, type FeedbackAsked, type RunFilter } from './questions.js';
export type { CatalogueRun, EventEntry, EventRecord, PlacedRecord } from './questions.js';
export type {
  CatalogueOptions,
  Cursor,
  EventLog,
  NamedRuns,
  NameKind,
  RunSummary,
  Tally,
  Updated,
  UpdateOptions,
};

/** The directory of a data directory's catalogue. */
export function catalogueDirectory(dataDir: string): string {
  return path.join(dataDir, 'catalogue');
}

/** On return the directory has no catalogue: the next update makes one from the log. */
export function removeCatalogue(directory: string): void {
  removeFile(directory);
}

/** Whether a directory has a catalogue. */
export function hasCatalogue(directory: string): boolean {
  return fs.existsSync(path.join(directory, CATALOGUE_FILE));
}

/**
 * Called at the start of a collector, because only a collector replaces the key of names. On return all names
 * in the catalogue are encrypted by the newest key, or the catalogue is removed and the next update makes
 * another.
 * @param onTrouble gets the reason of a removal.
 */
export async function resealCatalogue(
  directory: string,
  log: EventLog,
  onTrouble: (error: unknown) => void,
): Promise<void> {
  try {
    const { ledgerId, names } = log;
    const takingIn = new TakingIn({ directory, ledgerId, names });
    try {
      await takingIn.reseal(log);
    } finally {
      takingIn.close(false);
    }
  } catch (error) {
    onTrouble(faultOf(error, directory));
    removeFile(directory);
  }
}

/** Limit of the runs listed for a circle: complete lists would grow with the square of its size. */
const MOST_OF_A_CIRCLE = 100;

const OWN = 'id, record, organisation, is_run, first_sequence, last_sequence';
const COLUMNS = `${OWN}, ${SUMMARY_COLUMNS.map(({ name }) => name).join(', ')}`;
const OWN_COLUMNS = OWN.split(',').length;
const EVENTS = 'SELECT sequence, at, size, kind, received, sent FROM event WHERE run = ?';
const ABOVE = 'FROM run AS above WHERE above.id = run.parent';
const PLACED = `id, first_sequence, (SELECT is_run ${ABOVE}), (SELECT record ${ABOVE}), circle,
  EXISTS (SELECT 1 FROM run AS child WHERE child.parent = run.id)`;
const PAGE_ROWS = 1024;

export class Catalogue {
  readonly #takingIn: TakingIn;
  #questions: Source & { readonly database: DatabaseSync };
  /** Set when a question found damage: the next update rebuilds the file. */
  #isDamaged = false;
  readonly #circles = new Map<number, readonly string[]>();

  private constructor(private readonly options: CatalogueOptions) {
    this.#takingIn = new TakingIn(options);
    this.#questions = this.#asking();
  }

  /** @throws CatalogueFault if the file cannot be created or opened. */
  static open(options: CatalogueOptions): Catalogue {
    return new Catalogue(options);
  }

  #asking(): Source & { readonly database: DatabaseSync } {
    const database = this.#takingIn.file.reader;
    return {
      database,
      statements: new Statements(database),
      names: new Names(database, this.#takingIn.names),
    };
  }

  /** The start of the next update. */
  get cursor(): Cursor {
    return this.#ask(({ statements }) => {
      const all = statements.all(
        "SELECT name, value FROM meta WHERE name IN ('at', 'sequence') ORDER BY name",
      );
      const [at, sequence] = all.map(([, value]) => Number(value));
      return at === undefined || sequence === undefined ? BEGINNING : { sequence, at };
    });
  }

  /**
   * Adds the entries of the log after the cursor. Empties a catalogue of another log first, and rebuilds a
   * damaged one once.
   * @throws CatalogueBusy if another process writes for too long; CatalogueFault; and the errors of the log.
   */
  async update(log: EventLog, options: UpdateOptions = {}): Promise<Updated> {
    try {
      return await this.#takingIn.update(log, options, this.#isDamaged);
    } finally {
      this.#circles.clear();
      this.#questions.names.use(this.#takingIn.names);
      if (this.#takingIn.file.reader !== this.#questions.database) {
        this.#isDamaged = false;
        this.#questions = this.#asking();
      }
    }
  }

  /**
   * The matching records in the order of the filter, as they are at the first call of `next`: a later update
   * is not visible. While they are read, the file cannot shrink.
   * @throws CatalogueFault if an update was interrupted; CatalogueDamaged, and the next update rebuilds the
   *   file. The other questions throw the same errors.
   */
  *runs(filter: RunFilter = {}): Generator<CatalogueRun> {
    for (const row of this.#rows(COLUMNS, filter)) yield this.#ask(() => this.#runOf(row));
  }

  #rows(columns: string, filter: RunFilter): Generator<Row> {
    const rows = this.#ask(({ database, names }) => {
      this.#checkSummed();
      const query = queryOf(filter, (text) => names.known(text));
      if (query === undefined) return [];
      const statement = listing(database, query.select(columns));
      return statement.iterate(...query.values) as unknown as Iterable<Row>;
    });
    return this.#each(rows);
  }

  /** Wraps the answers to a question, each step of which may find damage. */
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

  /** The number of matching records, at most the limit of the filter. */
  count(filter: RunFilter = {}): number {
    return this.#ask(({ statements, names }) => {
      this.#checkSummed();
      const query = queryOf(filter, (text) => names.known(text));
      if (query === undefined) return 0;
      return Number(statements.first(query.count, ...query.values)?.[0]);
    });
  }

  /**
   * The records with an id, runs first.
   * @param recordId in text form, or its first hexadecimal digits.
   * @param most limits the records of an incomplete id.
   */
  run(organisation: string | undefined, recordId: string, most = 16): CatalogueRun[] {
    const digits = recordId.replaceAll('-', '').toLowerCase();
    if (!/^[0-9a-f]{1,32}$/.test(digits)) return [];
    return this.#ask(({ statements, names }) => {
      this.#checkSummed();
      const bound = (filler: string) => Buffer.from(digits.padEnd(32, filler), 'hex');
      const own = organisation === undefined ? undefined : names.known(organisation);
      if (organisation !== undefined && own === undefined) return [];
      const sql = `SELECT ${COLUMNS} FROM run INDEXED BY run_record WHERE record BETWEEN ? AND ?
        ${own === undefined ? '' : 'AND organisation = ?'}
        ORDER BY record, is_run DESC, organisation LIMIT ?`;
      const values = [bound('0'), bound('f'), ...(own === undefined ? [] : [own]), most];
      return statements.all(sql, ...values).map((row) => this.#runOf(row));
    });
  }

  /** The organisations that have an event. */
  organisations(): string[] {
    return this.#ask(({ statements, names }) => {
      const found: string[] = [];
      const sql = 'SELECT min(organisation) FROM run INDEXED BY run_organisation WHERE organisation > ?';
      for (let id = 0; ;) {
        const next = statements.first(sql, id)?.[0];
        if (typeof next !== 'number') return found;
        found.push(names.nameOf(next));
        id = next;
      }
    });
  }

  /** The ids before and after an id, among the ids of all records. */
  neighbours(recordId: string): string[] {
    return this.#ask(({ statements }) => {
      const id = uuidBytes(recordId);
      const rows = ['< ? ORDER BY record DESC', '> ? ORDER BY record'].map((which) =>
        statements.first(`SELECT record FROM run INDEXED BY run_record WHERE record ${which} LIMIT 1`, id),
      );
      return rows.flatMap((row) => (row === undefined ? [] : uuidText(row[0] as Uint8Array)));
    });
  }

  /**
   * The matching records in the order of the filter, in pages, between which the caller may do other work.
   */
  *placed(filter: RunFilter): Generator<PlacedRecord[]> {
    let page: PlacedRecord[] = [];
    for (const [id, first, isRun, above, circle, hasChildren] of this.#rows(PLACED, filter)) {
      page.push({
        ...{ row: Number(id), firstSequence: Number(first), isInCircle: circle !== null },
        parent: isRun === null ? undefined : isRun === 1 ? uuidText(above as Uint8Array) : null,
        hasChildren: hasChildren === 1,
        places: () => this.#events(Number(id)),
      });
      if (page.length < PAGE_ROWS) continue;
      yield page;
      page = [];
    }
    if (page.length > 0) yield page;
  }

  /**
   * Calls `visit` for each matching record, in no order, in pages.
   * @param startReading starts a reader that reads pages of the file ahead at this sequence; pages that it
   *   cannot read are read here.
   * @returns after each page, the sequence that it has reached.
   */
  async *counted(
    filter: RunFilter,
    visit: (record: CountedRun) => void,
    startReading?: (file: string, sequence: number, query: PageQuery) => ReadPage,
  ): AsyncGenerator<number> {
    this.#checkSummed();
    const { sequence } = this.cursor;
    const file = path.join(this.options.directory, CATALOGUE_FILE);
    const start = startReading && ((query: PageQuery) => startReading(file, sequence, query));
    try {
      yield* countedPages(this.#questions, filter, visit, start);
    } catch (error) {
      throw this.#fault(error);
    }
  }

  /** The names in the matching records, the most frequent first. */
  *names(kind: NameKind, filter: RunFilter = {}): Generator<NamedRuns> {
    this.#checkSummed();
    yield* this.#each(namedRuns(this.#questions, kind, filter));
  }

  /** The runs that are nested in a record, by id. */
  children({ row }: Pick<CatalogueRun, 'row'>): string[] {
    return this.#ask(({ statements }) => {
      const sql = 'SELECT record FROM run WHERE parent = ? ORDER BY record';
      return statements.all(sql, row).map(([record]) => uuidText(record as Uint8Array));
    });
  }

  /** The runs of a run's circle by id, at most 100; empty without a circle. */
  cycle({ row }: Pick<CatalogueRun, 'row'>): readonly string[] {
    return this.#ask(({ statements }) => {
      const known = this.#circles.get(row);
      if (known !== undefined) return known;
      const rows: number[] = [];
      const ids: string[] = [];
      for (let at = row; rows.length === 0 || at !== row;) {
        const [record, circle, parent] =
          statements.first('SELECT record, circle, parent FROM run WHERE id = ?', at) ?? [];
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

  /** The record of an event; undefined if the catalogue lacks the event. */
  async recordOfEvent(
    log: Pick<EventLog, 'find'>,
    organisation: string,
    eventId: string,
  ): Promise<EventRecord | undefined> {
    const id = uuidBytes(eventId);
    const { sequence } = this.cursor;
    const found = await log.find(organisation, id, sequence);
    return this.#ask(({ statements, names }) => {
      const own = names.known(organisation);
      if (found === undefined || own === undefined || found.sequence >= sequence) return undefined;
      const [row, isRun, record] = isNoId(found.runId)
        ? (statements.first(
            `SELECT run.id, is_run, record FROM runless JOIN run ON run.id = runless.run
             WHERE event = ? AND runless.organisation = ?`,
            ...[id, own],
          ) ?? [])
        : (statements.first(
            'SELECT id, is_run, record FROM run WHERE record = ? AND organisation = ? AND is_run = 1',
            ...[Buffer.from(found.runId), own],
          ) ?? []);
      if (row === undefined) return undefined;
      const recordId = uuidText(record as Uint8Array);
      return { row: Number(row), recordId, runId: isRun === 1 ? recordId : null };
    });
  }

  /**
   * Until the release, all questions read the state that is committed now.
   * @returns false, without a snapshot, if the last update was interrupted or names were encrypted by another
   *   key since.
   */
  hold(): boolean {
    this.release();
    return this.#ask(({ database }) => {
      database.exec('BEGIN');
      const mayAsk = this.#opensNames() && !this.#hasDue();
      if (!mayAsk) this.release();
      return mayAsk;
    });
  }

  release(): void {
    this.#ask(({ database }) => {
      if (database.isOpen && database.isTransaction) database.exec('COMMIT');
    });
  }

  /** False if the next update makes another file: this one was replaced, or a question found damage. */
  get isCurrent(): boolean {
    return !this.#isDamaged && this.#takingIn.file.isCurrent;
  }

  /** Whether the next update must empty the journal, which other processes were reading. */
  get hasRemnants(): boolean {
    return this.#takingIn.hasRemnants;
  }

  /**
   * Runs that began in the hour of `since` or later, by the collector's clock and level. It also answers
   * during an update: a record counts by its current row.
   */
  tally(since: number): Tally {
    return this.#ask(({ database }) => tallyOf(database, since));
  }

  /** Closes the files, and removes a damaged catalogue. Running generators end. */
  close(): void {
    this.#takingIn.close(this.#isDamaged);
  }

  #runOf(row: Row): CatalogueRun {
    const [id, record, organisation, isRun, firstSequence, lastSequence] = row;
    const cells = (place: number): Value | undefined => row[OWN_COLUMNS + place];
    const { names } = this.#questions;
    return {
      row: Number(id),
      organisation: names.nameOf(Number(organisation)),
      recordId: uuidText(record as Uint8Array),
      isRun: isRun === 1,
      firstSequence: Number(firstSequence),
      lastSequence: Number(lastSequence),
      began: beganIn(cells),
      ...namesIn(cells, names),
      ...piecesIn(cells),
      events: () => this.#events(Number(id)),
    };
  }

  #events(row: number): EventEntry[] {
    return this.#ask(({ statements }) =>
      statements.all(EVENTS, row).map(([sequence, at, size, kind, received, sent]) => ({
        kind: wordAt(EVENT_KINDS, kind),
        sequence: Number(sequence),
        at: Number(at),
        size: Number(size),
        receivedAt: Number(received),
        sentAt: sent === null ? undefined : Number(sent),
      })),
    );
  }

  #checkSummed(): void {
    if (this.#hasDue()) throw new CatalogueFault(UNFINISHED);
  }

  /**
   * Whether a row waits to be summed. Also true during an update of most of the log, when the index is
   * missing.
   */
  #hasDue(): boolean {
    return this.#ask(({ statements }) => {
      const isIndexed = statements.first("SELECT 1 FROM sqlite_schema WHERE name = 'run_due'") !== undefined;
      return (
        !isIndexed ||
        statements.first(`SELECT 1 FROM run INDEXED BY run_due WHERE ${IS.due} LIMIT 1`) !== undefined
      );
    });
  }

  #opensNames(): boolean {
    try {
      return contentOf(this.#questions.database)?.names === this.#takingIn.names?.id;
    } catch {
      // A damaged file may have names under any key.
      return true;
    }
  }

  #ask<Answer>(question: (asked: Source & { readonly database: DatabaseSync }) => Answer): Answer {
    try {
      return question(this.#questions);
    } catch (error) {
      throw this.#fault(error);
    }
  }

  #fault(error: unknown): unknown {
    const fault = faultOf(error, this.options.directory);
    if (!(fault instanceof CatalogueDamaged)) return fault;
    if (!this.#opensNames()) return new CatalogueFault(UNFINISHED, { cause: error });
    this.#isDamaged = true;
    return fault;
  }
}
