/**
 * Takes in what the log holds behind the cursor: puts events to their records (placing.ts), then sums the records that
 * have got any (summing.ts). Rows and cursor are written in one transaction, so that a crash leaves an older whole
 * state, and so that several processes can take turns: each begins where the cursor is once it has the lock.
 *
 * Where most of a large log is to be taken in, rows that grow after they are written are summed again once, at the end,
 * and then the indexes are made. Such an update takes several transactions, and until the last of them no question is
 * answered; whatever update comes next brings one to its end that was left.
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

/** Bytes for each event of a batch that are behind the cursor at least when an update is a far one: 128 MiB. */
const FAR_BEHIND = 4096;
/** A transaction ends with the first batch after this time: others wait for it. */
const TRANSACTION_MS = 1000;
/** The longer the transaction, the more rows come to a page before it is written. KiB of pages are kept for that. */
const FAR_TRANSACTION_MS = 10_000;
const FAR_CACHE_KIB = 64 << 10;
/** Of a far update as one: fewer records get more events after they are summed. */
const FAR_BATCHES = 8;

export interface UpdateOptions {
  /** The last sequence that is wanted; what is durable when the update begins, where it is not given. */
  readonly through?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** @param sequence the last that was taken in. @param of how much of the log is taken in, from 0 to 1, about. */
  readonly onProgress?: ((sequence: number, of: number) => void) | undefined;
  /** The update ends with the first batch after this time, in milliseconds. */
  readonly budgetMs?: number | undefined;
  /**
   * Leaves records of many events alone that have hardly grown, which are read whole else: for who follows a log. What
   * is left so is for the next update that is not lazy, before which no question is answered.
   */
  readonly isLazy?: boolean | undefined;
  /** Starts threads, for an update that takes in most of the log. */
  readonly startThreads?: (() => SummingThreads) | undefined;
}

/** They sum records while the one that started them writes rows. */
export interface SummingThreads {
  /**
   * @param before what has a lower sequence is taken in.
   * @returns null for a record for which the tables have to be asked.
   */
  sum(records: readonly DueRecord[], before: number): Promise<readonly SummedOrNot[]>;
  stop(): Promise<void>;
}

export interface Updated {
  readonly cursor: Cursor;
  /** Whether everything that was wanted is taken in, and every row is summed that had to be. */
  readonly complete: boolean;
}

export interface Update extends UpdateOptions {
  readonly tables: Tables;
  readonly log: EventLog;
  readonly directory: string;
  readonly ledgerId: string;
  /** Begins a transaction that no other process writes beside. */
  readonly lock: () => Promise<void>;
  readonly mostEntries: number;
  /** The place of the newest event, as this process saw it in this log. */
  readonly seenAt?: number | undefined;
}

export class Updating {
  readonly #tables: Tables;
  readonly #log: EventLog;
  #placing: Placing;
  readonly #writing: Writing;
  #passing: AsyncGenerator<Iterable<PassedEntry>, Cursor> | undefined;
  #rest: Iterator<PassedEntry> | undefined;
  /** Behind what this update has passed of the log. */
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

  /** Where the newest event is that was taken in, as it was seen in this log. */
  get newestAt(): number | undefined {
    return this.#newestAt;
  }

  /** Whether names were taken out or sealed again, of which the journal may have pages of before. */
  get leavesRemnants(): boolean {
    return this.#leavesRemnants;
  }

  /** On return names are sealed by the newest key, and nothing is taken in. @throws as `run`. */
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

  /** One transaction. @returns whether nothing is left to do. */
  async #steps(until: number): Promise<boolean> {
    let complete = false;
    await this.#transaction(async (mayGoOn) => {
      do complete = await this.#step();
      while (!complete && mayGoOn() && performance.now() < until);
    });
    return complete;
  }

  /** On return what `work` has written is committed, or, where it threw, nothing of it is. */
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
      // A full disk may have ended it already.
      if (database.isTransaction) database.exec('ROLLBACK');
      throw error;
    }
  }

  /**
   * What another process has made of the file since it was opened shows only behind the lock, and so which key of names is
   * the newest. On return names are sealed by that one.
   * @throws CatalogueFault, and nothing is written, where the file's key is newer than those here.
   */
  async #begin(): Promise<void> {
    const { names } = this.#tables;
    const newest = this.#log.names;
    if (newest?.id !== names.cipher?.id) {
      names.use(newest);
      // Another process may have sealed them again.
      this.#leavesRemnants = true;
    }
    const found = contentOf(this.#tables.database);
    if (found === undefined || found.ledgerId !== this.update.ledgerId)
      throw new CatalogueFault('another process has made another catalogue of it: it has to be opened again');
    if (found.names !== newest?.id) await this.#takeNames(found, newest);
    this.#tables.begin();
  }

  get #content(): Content {
    return { ledgerId: this.update.ledgerId, names: this.#tables.names.cipher?.id };
  }

  /** The key of names was replaced since the file was written, and may be gone by now; or encryption has begun. */
  async #takeNames(found: Content, newest: NameCipher | undefined): Promise<void> {
    const { directory, signal } = this.update;
    const { database, names } = this.#tables;
    assertOpens(found, this.#content, directory);
    this.#leavesRemnants = true;
    if (newest !== undefined && found.names !== undefined && isLater(found.names, newest.id))
      throw new CatalogueFault(
        `the names of the catalogue in ${directory} are encrypted by a newer key than those here: if that one is lost, ` +
          'remove that directory, and it is made again',
      );
    const older = found.names === undefined ? undefined : this.#log.olderNames?.(found.names);
    if (newest === undefined || older === undefined) {
      clear(database, this.#content);
      this.#tables.forget();
      return;
    }
    names.use(older);
    this.#tables.begin();
    // Or the names of what is erased would be sealed once more, until the update passes the action.
    await this.#forgetErased(this.#cursor().sequence, Infinity);
    names.reseal(newest, signal);
    noteContent(database, this.#content);
  }

  /**
   * Empties a catalogue whose newest event the log does not have where it was: it is of another log, or of a longer
   * one.
   */
  async #checkLog(): Promise<void> {
    const [organisation, eventId, at] = ['organisation', 'event', 'at'].map((name) =>
      this.#tables.meta(`newest_${name}`),
    );
    // There may be entries and no event.
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
   * A far update does without the indexes. One with a budget of time is none, unless it finds that they are missing:
   * to make an index takes seconds, in which the process does nothing else.
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

  /** @returns whether nothing is left to do. */
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

  /** Places the events of a batch. @returns the cursor after it. */
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
        // Hardly ever one: a promise for each event would cost as much as the rest.
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
   * Takes out what was made of events that were erased since.
   * @param before what has a lower sequence is taken in.
   * @param actions by those with a lower sequence; those that are not taken in themselves are met again.
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

  /** Sums some records. @returns whether there may be more. */
  async #sumSome(before: number): Promise<boolean> {
    const isIndexed = this.#hasIndex('run_due');
    const from = isIndexed ? 0 : this.#tables.metaNumber('summed');
    const isLazy = this.update.isLazy === true;
    const due = dueRows(this.#tables, from, { isLazy, isIndexed });
    const last = due.at(-1);
    // One that was summed may be due again: of a circle that has closed since.
    if (last === undefined && from === 0) return false;
    if (!isIndexed) this.#tables.setMeta('summed', last === undefined ? 0 : last.row);
    await this.#sum(due, before);
    return true;
  }

  /** On return their rows say what their events say. @param before what has a lower sequence is taken in. */
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

  /** Makes one of them, where one is missing: whatever update has dropped it. @returns whether there may be more. */
  #makeIndex(): boolean {
    const missing = INDEXES.find(({ name }) => !this.#hasIndex(name));
    if (missing === undefined) return false;
    // SQLite sorts in as much memory as it keeps of pages.
    this.#tables.database.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
    this.#tables.database.exec(missing.sql);
    return true;
  }
}

/** The newest event that is taken in: it distinguishes the log from another one. */
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
