/**
 * An update: assigns new events of the log to records (placing.ts), then sums the records that got events
 * (summing.ts). One transaction writes rows and cursor, so that a crash leaves an older consistent state, and
 * several processes can take turns: each begins at the cursor after it got the lock.
 *
 * An update of most of a large log (a far update) sums the rows that have grown once more at its end, and
 * then makes the indexes. It takes several transactions, and no question is answered before the last one. The
 * next update finishes an interrupted one.
 */
import {
  BEGINNING,
  type Cursor,
  type EventLog,
  ID_BYTES,
  type PassedEntry,
} from '../store/contract/events.js';
import { isLater, type NameCipher } from '../privacy/name-cipher.js';
import { SequenceSet } from '../privacy/sequence-set.js';
import { uuidBytes } from '../store/text.js';
import { assertOpens, CACHE_KIB, clear, type Content, contentOf, noteContent } from './catalogue-file.js';
import { CatalogueFault } from './faults.js';
import { forget } from './forgetting.js';
import { Placing } from './placing.js';
import { INDEXES } from './schema.js';
import {
  type DueRecord,
  type FoundParent,
  runInLog,
  summedParts,
  type SummedOrNot,
  Summer,
} from './summing.js';
import type { Tables } from './tables.js';
import { type DueRow, dueRows, newRows, Writing } from './writing.js';

/** An update is far if the log has this many bytes after the cursor for each event of a batch: 128 MiB. */
const FAR_BEHIND = 4096;
/** A transaction ends with the first batch after this time, because other processes wait for it. */
const TRANSACTION_MS = 1000;
/** Longer transactions write a page less often. This many KiB of pages are cached for that. */
const FAR_TRANSACTION_MS = 10_000;
const FAR_CACHE_KIB = 64 << 10;
/** Number of batches that a far update handles as one, so that fewer records grow after they are summed. */
const FAR_BATCHES = 8;

export interface UpdateOptions {
  /** The last wanted sequence; by default the last durable one at the start. */
  readonly through?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * @param sequence the last one that was added. @param of the share of the log that was added, from 0 to 1.
   */
  readonly onProgress?: ((sequence: number, of: number) => void) | undefined;
  /** The update ends with the first batch after this time, in milliseconds. */
  readonly budgetMs?: number | undefined;
  /**
   * Skips records of many events that have hardly grown, because summing reads them whole: for a process that
   * follows a log. The next update that is not lazy sums them, and no question is answered before.
   */
  readonly isLazy?: boolean | undefined;
  /** Starts threads for a far update. */
  readonly startThreads?: (() => SummingThreads) | undefined;
}

/** Threads that sum records while the main thread writes rows. */
export interface SummingThreads {
  /**
   * @param before sequences below it were added.
   * @returns null for a record that needs the tables.
   */
  sum(records: readonly DueRecord[], before: number): Promise<readonly SummedOrNot[]>;
  stop(): Promise<void>;
}

export interface Updated {
  readonly cursor: Cursor;
  /** Whether everything wanted was added, and every due row was summed. */
  readonly complete: boolean;
}

export interface Update extends UpdateOptions {
  readonly tables: Tables;
  readonly log: EventLog;
  readonly directory: string;
  readonly ledgerId: string;
  /** Begins an exclusive write transaction. */
  readonly lock: () => Promise<void>;
  readonly mostEntries: number;
  /** The place of the newest event when this process last saw it in this log. */
  readonly seenAt?: number | undefined;
}

export class Updating {
  readonly #tables: Tables;
  readonly #log: EventLog;
  #placing: Placing;
  readonly #writing: Writing;
  #passing: AsyncGenerator<Iterable<PassedEntry>, Cursor> | undefined;
  #rest: Iterator<PassedEntry> | undefined;
  /** The end of the entries that this update has read. */
  #passed: Cursor | undefined;
  #isEnd = false;
  #isFar = false;
  #newestAt: number | undefined;
  #leavesRemnants = false;
  #threads: SummingThreads | undefined;
  readonly #newest = new Newest();

  constructor(private readonly update: Update) {
    this.#tables = update.tables;
    this.#log = update.log;
    this.#placing = new Placing(update.tables, update.log);
    this.#writing = new Writing(update.tables);
  }

  /** The place of the newest event that was added. */
  get newestAt(): number | undefined {
    return this.#newestAt;
  }

  /** Whether names were removed or encrypted again, so that the journal may hold older pages. */
  get leavesRemnants(): boolean {
    return this.#leavesRemnants;
  }

  /** On return all names are encrypted by the newest key. Adds no events. @throws as `run`. */
  async reseal(): Promise<void> {
    await this.#transaction(() => Promise.resolve());
  }

  async run(): Promise<Updated> {
    const { budgetMs = Infinity, onProgress } = this.update;
    const until = performance.now() + budgetMs;
    try {
      await this.#transaction(async () => {
        await this.#checkLog();
        this.#expectMuch();
      });
      let complete: boolean;
      do complete = await this.#steps(until);
      while (!complete && performance.now() < until);
      const cursor = this.#cursor();
      onProgress?.(cursor.sequence - 1, this.#share(cursor));
      return { cursor, complete };
    } finally {
      await this.#passing?.return(BEGINNING);
      await this.#threads?.stop();
    }
  }

  /** Runs one transaction. @returns whether the update is complete. */
  async #steps(until: number): Promise<boolean> {
    let complete = false;
    await this.#transaction(async (mayGoOn) => {
      do complete = await this.#step();
      while (!complete && mayGoOn() && performance.now() < until);
    });
    return complete;
  }

  /** On return the writes of `work` are committed; if it throws, nothing is written. */
  async #transaction(work: (mayGoOn: () => boolean) => Promise<unknown>): Promise<void> {
    const { database } = this.#tables;
    this.update.signal?.throwIfAborted();
    await this.update.lock();
    const most = this.#isFar ? FAR_TRANSACTION_MS : TRANSACTION_MS;
    const began = performance.now();
    try {
      await this.#begin();
      await work(() => performance.now() - began < most);
      this.#placing.flush();
      this.#tables.tally.write();
      database.exec('COMMIT');
    } catch (error) {
      this.#placing = new Placing(this.#tables, this.#log);
      this.#tables.forget();
      // A full disk may have ended the transaction.
      if (database.isTransaction) database.exec('ROLLBACK');
      throw error;
    }
  }

  /**
   * Checks the file after getting the lock, because another process may have changed it. On return all names
   * are encrypted by the newest key.
   * @throws CatalogueFault, without a write, if the file's key is newer than the known ones.
   */
  async #begin(): Promise<void> {
    const { names } = this.#tables;
    const newest = this.#log.names;
    if (newest?.id !== names.cipher?.id) {
      names.use(newest);
      // Another process may have encrypted the names again.
      this.#leavesRemnants = true;
    }
    const found = contentOf(this.#tables.database);
    if (found === undefined || found.ledgerId !== this.update.ledgerId)
      throw new CatalogueFault('another process has replaced the catalogue: open it again');
    if (found.names !== newest?.id) await this.#takeNames(found, newest);
    this.#tables.begin();
  }

  get #content(): Content {
    return { ledgerId: this.update.ledgerId, names: this.#tables.names.cipher?.id };
  }

  /** Handles a new key of names, whose predecessor may be destroyed, and the start of encryption. */
  async #takeNames(found: Content, newest: NameCipher | undefined): Promise<void> {
    const { directory, signal } = this.update;
    const { database, names } = this.#tables;
    assertOpens(found, this.#content, directory);
    this.#leavesRemnants = true;
    if (newest !== undefined && found.names !== undefined && isLater(found.names, newest.id))
      throw new CatalogueFault(
        `the names of the catalogue in ${directory} are encrypted by a newer key than the ones here: if ` +
          'that key is lost, remove that directory, and it is rebuilt',
      );
    const older = found.names === undefined ? undefined : this.#log.olderNames?.(found.names);
    if (newest === undefined || older === undefined) {
      clear(database, this.#content);
      this.#tables.forget();
      return;
    }
    names.use(older);
    this.#tables.begin();
    // Otherwise names of erased events would be encrypted once more, until the update reaches the action.
    await this.#forgetErased(this.#cursor().sequence, Infinity);
    names.reseal(newest, signal);
    noteContent(database, this.#content);
  }

  /**
   * Empties the catalogue if the log does not have its newest event in the same place: it belongs to another
   * log, or to a longer one.
   */
  async #checkLog(): Promise<void> {
    const [organisation, eventId, at] = ['organisation', 'event', 'at'].map((name) =>
      this.#tables.meta(`newest_${name}`),
    );
    // A log may have entries and no event.
    if (typeof organisation !== 'string' || !(eventId instanceof Uint8Array)) return;
    this.#newestAt = Number(at);
    if (this.#newestAt === this.update.seenAt) return;
    const found = await this.#log.find(organisation, eventId);
    if (found?.at === this.#newestAt) return;
    this.#newestAt = undefined;
    clear(this.#tables.database, this.#content);
    this.#tables.forget();
    this.#tables.begin();
  }

  /**
   * A far update drops the indexes. An update with a time budget is not a far update, unless the indexes are
   * missing: making an index blocks the process for seconds.
   */
  #expectMuch(): void {
    const { budgetMs, isLazy } = this.update;
    const { at } = this.#cursor();
    const behind = this.#log.extent - at;
    const isMuch =
      budgetMs === undefined &&
      isLazy !== true &&
      behind >= Math.max(at, FAR_BEHIND * this.update.mostEntries);
    const { database } = this.#tables;
    if (isMuch) for (const { name } of INDEXES) database.exec(`DROP INDEX IF EXISTS ${name}`);
    this.#isFar = isMuch || !this.#hasIndex('run_due');
    if (isMuch) database.exec(`PRAGMA cache_size = -${FAR_CACHE_KIB}`);
  }

  /** @returns whether the update is complete. */
  async #step(): Promise<boolean> {
    this.update.signal?.throwIfAborted();
    const cursor = this.#cursor();
    if (cursor.sequence !== this.#passed?.sequence) await this.#passFrom(cursor);
    const next = await this.#place();
    await this.#sum(newRows(this.#tables), next.sequence);
    this.#tables.newRuns.clear();
    this.#tables.runs.turn();
    if (next.sequence !== cursor.sequence) {
      this.#tables.setMeta('sequence', next.sequence);
      this.#tables.setMeta('at', next.at);
      this.update.onProgress?.(next.sequence - 1, this.#share(next));
      if (this.#isFar) return false;
    }
    await this.#forgetErased(next.sequence, next.sequence);
    const isSummed = !(await this.#sumSome(next.sequence));
    return isSummed && next.sequence === cursor.sequence && !this.#makeIndex();
  }

  #cursor(): Cursor {
    const sequence = this.#tables.meta('sequence');
    if (sequence === undefined) return BEGINNING;
    return { sequence: Number(sequence), at: Number(this.#tables.meta('at')) };
  }

  #share({ at }: Cursor): number {
    return this.#log.extent === 0 ? 1 : Math.min(1, at / this.#log.extent);
  }

  async #passFrom(cursor: Cursor): Promise<void> {
    await this.#passing?.return(BEGINNING);
    const { through } = this.update;
    this.#passing = this.#log.pass(cursor, through === undefined ? {} : { through });
    this.#rest = undefined;
    this.#passed = cursor;
    this.#isEnd = false;
  }

  /** Assigns the events of a batch to records. @returns the cursor after it. */
  async #place(): Promise<Cursor> {
    let { sequence, at } = this.#passed ?? BEGINNING;
    let placed = 0;
    const most = this.update.mostEntries * (this.#isFar ? FAR_BATCHES : 1);
    while (placed < most && !this.#isEnd) {
      const entry = this.#rest?.next();
      if (entry !== undefined && entry.done !== true) {
        const { value } = entry;
        ({ sequence, at } = value);
        sequence++;
        if (value.isOwn) continue;
        placed++;
        this.#newest.note(value);
        // A promise is rare here: one for each event would double the cost.
        const waits = this.#placing.place(value);
        if (waits !== undefined) await waits;
        continue;
      }
      const next = await this.#passing?.next();
      if (next === undefined || next.done === true) {
        this.#isEnd = true;
        if (next !== undefined && next.value.sequence > sequence) ({ sequence, at } = next.value);
      } else this.#rest = next.value[Symbol.iterator]();
    }
    this.#passed = { sequence, at };
    if (placed > 0) this.#note(placed);
    return this.#passed;
  }

  #note(placed: number): void {
    const { organisation, eventId, at } = this.#newest;
    this.#placing.flush();
    this.#tables.setMeta('newest_organisation', organisation);
    this.#tables.setMeta('newest_event', eventId);
    this.#tables.setMeta('newest_at', at);
    this.#newestAt = at;
    this.#tables.setMeta('events', this.#tables.metaNumber('events') + placed);
  }

  /**
   * Removes data of events that were erased.
   * @param before sequences below it were added.
   * @param actions only actions with a lower sequence are applied; those that were not added yet are applied
   *   again later.
   */
  async #forgetErased(before: number, actions: number): Promise<void> {
    const done = this.#tables.metaNumber('forgotten');
    let isForgotten = false;
    for (const { said, sequence } of this.#log.actions?.().logged ?? []) {
      if (said.does !== 'erase' || sequence <= done || sequence >= actions) continue;
      const taken = SequenceSet.ofStretches([{ first: 1, end: before }]);
      for (const { organisation, sequences } of said.keys)
        await forget(this.#tables, this.#log, organisation, sequences.within(taken));
      if (sequence < before) this.#tables.setMeta('forgotten', sequence);
      isForgotten = true;
    }
    if (!isForgotten) return;
    this.#tables.names.dropUnused();
    this.#leavesRemnants = true;
  }

  /** Sums some due records. @returns whether there may be more. */
  async #sumSome(before: number): Promise<boolean> {
    const isIndexed = this.#hasIndex('run_due');
    const from = isIndexed ? 0 : this.#tables.metaNumber('summed');
    const isLazy = this.update.isLazy === true;
    const due = dueRows(this.#tables, from, { isLazy, isIndexed });
    const last = due.at(-1);
    // A summed row may be due again, if a circle closed since.
    if (last === undefined && from === 0) return false;
    if (!isIndexed) this.#tables.setMeta('summed', last === undefined ? 0 : last.row);
    await this.#sum(due, before);
    return true;
  }

  /** On return the rows match their events. @param before sequences below it were added. */
  async #sum(records: Iterable<DueRow>, before: number): Promise<void> {
    if (this.#isFar) this.#threads ??= this.update.startThreads?.();
    const summer = new Summer(this.#log, (organisation, id) => this.#findParent(before, organisation, id));
    const threads = this.#threads;
    const parts = summedParts(
      records,
      (part) => summer.sum(part),
      threads && ((part) => threads.sum(part, before)),
    );
    for await (const [part, summed] of parts) {
      for (const [i, row] of part.entries()) {
        const own = summed[i] ?? (await summer.sum([row]))[0];
        if (own == null) throw new TypeError('a record was not summed');
        this.#writing.write(row, own);
      }
    }
  }

  async #findParent(
    before: number,
    organisation: string,
    eventId: string,
  ): Promise<{ readonly run: FoundParent }> {
    const own = this.#tables.names.known(organisation);
    const record = own === undefined ? undefined : this.#tables.recordOfRunless(own, uuidBytes(eventId));
    return { run: record === undefined ? await runInLog(this.#log, before, organisation, eventId) : record };
  }

  #hasIndex(name: string): boolean {
    const sql = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?";
    return this.#tables.statements.first(sql, name) !== undefined;
  }

  /** Makes one missing index. @returns whether there may be more. */
  #makeIndex(): boolean {
    const missing = INDEXES.find(({ name }) => !this.#hasIndex(name));
    if (missing === undefined) return false;
    // SQLite sorts in as much memory as its page cache has.
    this.#tables.database.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
    this.#tables.database.exec(missing.sql);
    return true;
  }
}

/** The newest event that was added: it distinguishes this log from another. */
class Newest {
  organisation = '';
  readonly eventId = Buffer.alloc(ID_BYTES);
  at = 0;

  note({ organisation, source, eventIdAt, at }: PassedEntry): void {
    this.organisation = organisation;
    source.copy(this.eventId, 0, eventIdAt, eventIdAt + ID_BYTES);
    this.at = at;
  }
}
