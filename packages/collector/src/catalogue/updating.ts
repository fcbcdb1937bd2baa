/**
 * Takes in what the log holds behind the cursor. A batch is in memory whole; its events are put to their records
 * (batch-records.ts), new records are summed from the batch, those that were there before get their entries and are
 * settled at the end (settling.ts). Rows and cursor are written in one transaction, so that a crash leaves an older
 * whole state, and so that several processes can take turns: each begins where the cursor is once it has the lock.
 */
import { ScanningReader } from '../records/run-event.js';
import { BatchRecords, type TouchedRecord } from './batch-records.js';
import { clear, SCATTERED } from './catalogue-file.js';
import { Circles, Rows, sentAtIn, type SummedRecord } from './rows.js';
import { BEGINNING, type Cursor, type EventLog, type PassedEntry } from '../store/contract/events.js';
import { forget } from './forgetting.js';
import { LogBatch, MOST_INLINE, packEntries } from './packed-entries.js';
import { PackedWriter } from './packing.js';
import { partsOf, settleSome } from './settling.js';
import type { Tables } from './tables.js';
import { uuidBytes } from '../store/text.js';

/** Bytes of events that are objects at a time. */
const READER_BYTES = 512 << 10;
/** So many bytes to an entry of a batch have to be behind the cursor for indexes to be dropped: 128 MiB. */
const FAR_BEHIND = 4096;
/** A transaction ends with the first batch after this time: others wait for it. */
const TRANSACTION_MS = 1000;
/**
 * Where most of a log is to be taken in. Where a row goes in the index of records is as good as random: the longer the
 * transaction, the more rows come to a page before it is written. KiB of pages are kept for that.
 */
const FAR_TRANSACTION_MS = 10_000;
const FAR_CACHE_KIB = 160 << 10;

/** It returns nothing: a statement that does has a journal of its own. */
const APPEND = `UPDATE run SET entries = CAST(entries || ? AS BLOB), settled = ifnull(settled, events), events = ?,
  last_sequence = ? WHERE id = ?`;

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
}

export interface Updated {
  readonly cursor: Cursor;
  /** Whether everything that was wanted is taken in, and every row is settled that had to be. */
  readonly complete: boolean;
}

/** The newest event that is taken in: it distinguishes the log from another one. */
interface Newest {
  readonly organisation: string;
  readonly eventId: Buffer;
  readonly at: number;
}

export class Updating {
  readonly #writer = new PackedWriter();
  readonly #reader = new ScanningReader();
  readonly #batch: LogBatch;
  #passing: AsyncGenerator<Iterable<PassedEntry>, Cursor> | undefined;
  #rest: Iterator<PassedEntry> | undefined;
  /** Where the next batch begins: behind what this update has passed of the log. */
  #passed: Cursor | undefined;
  #isEnd = false;
  #newestAt: number | undefined;
  #transactionMs = TRANSACTION_MS;
  #hasForgotten = false;

  /** @param lock begins a transaction that no other process writes beside. */
  constructor(
    private readonly tables: Tables,
    private readonly log: EventLog,
    private readonly ledgerId: string,
    private readonly options: UpdateOptions,
    private readonly lock: () => Promise<void>,
    private readonly mostEntries: number,
    /** The place of the newest event, as this process saw it in this log. */
    private readonly seenAt?: number,
  ) {
    this.#batch = new LogBatch(mostEntries);
  }

  /** Where the newest event is that was taken in, as it was seen in this log. */
  get newestAt(): number | undefined {
    return this.#newestAt;
  }

  async run(): Promise<Updated> {
    const until = performance.now() + (this.options.budgetMs ?? Infinity);
    try {
      await this.#transaction(async () => {
        await this.#checkLog();
        this.#expectMuch();
      });
      let complete: boolean;
      do complete = await this.#steps(until);
      while (!complete && performance.now() < until);
      const cursor = this.#cursor();
      this.options.onProgress?.(cursor.sequence - 1, this.#share(cursor));
      // Or pages of before would stay in the journal.
      if (this.#hasForgotten) this.tables.database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      return { cursor, complete };
    } finally {
      await this.#passing?.return(BEGINNING);
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
    const { database } = this.tables;
    this.options.signal?.throwIfAborted();
    await this.lock();
    const began = performance.now();
    try {
      this.tables.begin();
      await work(() => performance.now() - began < this.#transactionMs);
      this.tables.tally.write(database);
      database.exec('COMMIT');
    } catch (error) {
      this.tables.forget();
      // A full disk may have ended it already.
      if (database.isTransaction) database.exec('ROLLBACK');
      throw error;
    }
  }

  /**
   * Empties a catalogue whose newest event the log does not have where it was: it is of another log, or of a longer
   * one.
   */
  async #checkLog(): Promise<void> {
    const newest = this.#newest();
    if (newest === undefined) return;
    this.#newestAt = newest.at;
    if (newest.at === this.seenAt) return;
    const found = await this.log.find(newest.organisation, newest.eventId);
    if (found?.at === newest.at) return;
    this.#newestAt = undefined;
    clear(this.tables.database, this.ledgerId);
    this.tables.forget();
    this.tables.begin();
  }

  /** Takes in a batch; where there is none, settles some rows. @returns whether nothing is left to do. */
  async #step(): Promise<boolean> {
    this.options.signal?.throwIfAborted();
    const cursor = this.#cursor();
    if (cursor.sequence !== this.#passed?.sequence) await this.#passFrom(cursor);
    const next = await this.#fill();
    if (next.sequence === cursor.sequence) {
      await this.#forgetRetired(cursor.sequence);
      const isLazy = this.options.isLazy === true;
      return !(await settleSome(this.tables, this.log, cursor.sequence, isLazy)) && !this.#makeScattered();
    }
    if (this.#batch.count > 0) await this.#take(next);
    this.#setCursor(next);
    this.options.onProgress?.(next.sequence - 1, this.#share(next));
    return false;
  }

  /**
   * Where most of a large log is still to be taken in, drops the indexes that cost most to keep, and makes
   * transactions long. An update with a budget of time does not: to make one takes seconds, in which the process does
   * nothing else.
   */
  #expectMuch(): void {
    const { budgetMs, isLazy } = this.options;
    const { at } = this.#cursor();
    const behind = this.log.extent - at;
    if (budgetMs !== undefined || isLazy === true) return;
    if (behind < Math.max(at, FAR_BEHIND * this.mostEntries)) return;
    const { database } = this.tables;
    for (const { name } of SCATTERED) database.exec(`DROP INDEX IF EXISTS ${name}`);
    database.exec(`PRAGMA cache_size = -${FAR_CACHE_KIB}`);
    this.#transactionMs = FAR_TRANSACTION_MS;
  }

  /** Makes one of them, where one is missing: whatever update has dropped it. @returns whether there may be more. */
  #makeScattered(): boolean {
    const sql = "SELECT name FROM sqlite_schema WHERE type = 'index'";
    const there = new Set(this.tables.all(sql).map(([name]) => name));
    const missing = SCATTERED.find(({ name }) => !there.has(name));
    if (missing !== undefined) this.tables.database.exec(missing.sql);
    return missing !== undefined;
  }

  #share({ at }: Cursor): number {
    return this.log.extent === 0 ? 1 : Math.min(1, at / this.log.extent);
  }

  async #passFrom(cursor: Cursor): Promise<void> {
    await this.#passing?.return(BEGINNING);
    const { through } = this.options;
    this.#passing = this.log.pass(cursor, through === undefined ? {} : { through });
    this.#rest = undefined;
    this.#passed = cursor;
    this.#isEnd = false;
  }

  /** On return the batch holds what comes next. @returns the cursor behind it. */
  async #fill(): Promise<Cursor> {
    const batch = this.#batch;
    batch.clear();
    let { sequence, at } = this.#passed ?? BEGINNING;
    while (!batch.isFull && !this.#isEnd) {
      const entry = this.#rest?.next();
      if (entry !== undefined && entry.done !== true) {
        const { value } = entry;
        if (!value.isOwn) batch.add(value);
        sequence = value.sequence + 1;
        at = value.at;
        continue;
      }
      const next = await this.#passing?.next();
      if (next === undefined || next.done === true) {
        this.#isEnd = true;
        if (next !== undefined && next.value.sequence > sequence) ({ sequence, at } = next.value);
      } else this.#rest = next.value[Symbol.iterator]();
    }
    this.#passed = { sequence, at };
    return this.#passed;
  }

  /** Takes out what was made of events that were retired since, all of which are taken in. */
  async #forgetRetired(before: number): Promise<void> {
    const done = Number(this.#get('forgotten') ?? 0);
    let isForgotten = false;
    for (const { said, sequence } of this.log.actions?.().logged ?? []) {
      if (said.does !== 'retire' || sequence <= done || sequence >= before) continue;
      for (const { organisation, sequences } of said.keys)
        await forget(this.tables, this.log, organisation, sequences);
      this.#set('forgotten', sequence);
      isForgotten = true;
    }
    if (!isForgotten) return;
    this.tables.dropNames();
    this.#hasForgotten = true;
  }

  async #take(next: Cursor): Promise<void> {
    const batch = this.#batch;
    const placing = new BatchRecords(this.tables, this.log, batch, next.sequence);
    const touched = await placing.place();
    const rows = new Rows(this.tables, this.log, next.sequence, placing);
    const nested = [...placing.adopted];
    const sized = touched.map((record) => {
      // Two that were merged have theirs one behind the other.
      record.indices.sort((a, b) => a - b);
      return { record, bytes: record.indices.reduce((sum, i) => sum + (batch.sizes[i] ?? 0), 0) };
    });
    for (const part of partsOf(sized, READER_BYTES)) {
      this.#reader.begin(batch);
      nested.push(
        ...(await this.#write(
          part.map(({ record }) => record),
          rows,
        )),
      );
    }
    const circles = new Circles(this.tables);
    for (const row of nested) circles.close(row);
    const last = batch.count - 1;
    this.#set('newest_organisation', batch.organisation(last));
    this.#set('newest_event', uuidBytes(batch.facts(last).eventId));
    this.#newestAt = batch.places[last] ?? 0;
    this.#set('newest_at', this.#newestAt);
    this.#set('events', Number(this.#get('events') ?? 0) + batch.count);
  }

  /** @returns the rows that are nested in others. */
  async #write(touched: readonly TouchedRecord[], rows: Rows): Promise<number[]> {
    const nested: number[] = [];
    const records = touched.map(({ id, organisation, indices }) => ({
      ...{ id, organisation, isCircle: false },
      events: indices.map((index) => this.#reader.event(index)),
    }));
    const fresh = records.filter((_, i) => isFresh(touched[i]));
    const located = await rows.locateOutside(fresh);
    let next = 0;
    for (const [i, record] of records.entries()) {
      const row = touched[i];
      if (row === undefined) continue;
      const entries = this.#entries(row, record);
      if (isFresh(row)) {
        if (rows.insert(row, record, located[next++] ?? new Map(), entries) !== null) nested.push(row.id);
      } else if (row.isNew) rows.insertUnsettled(row, row.before + row.indices.length, entries);
      else this.#append(row, entries);
    }
    return nested;
  }

  #entries({ indices }: TouchedRecord, { events }: SummedRecord): Buffer {
    packEntries(this.#writer, this.#batch, indices, (place) => {
      const event = events[place];
      return event && sentAtIn(event);
    });
    return this.#writer.take();
  }

  #append(row: TouchedRecord, entries: Uint8Array): void {
    const { tables } = this;
    const { id, before, inline, indices, lastSequence } = row;
    tables.run(APPEND, entries, before + indices.length, lastSequence, id);
    if (row.isMoved) {
      tables.run(
        'UPDATE run SET record = ?, first_sequence = ? WHERE id = ?',
        row.recordId,
        row.firstSequence,
        id,
      );
    }
    if (inline + entries.length <= MOST_INLINE) return;
    tables.run('INSERT INTO part (run, entries) SELECT id, entries FROM run WHERE id = ?', id);
    tables.run("UPDATE run SET entries = x'' WHERE id = ?", id);
  }

  #cursor(): Cursor {
    const [sequence, at] = [this.#get('sequence'), this.#get('at')];
    return sequence === undefined ? BEGINNING : { sequence: Number(sequence), at: Number(at) };
  }

  #setCursor({ sequence, at }: Cursor): void {
    this.#set('sequence', sequence);
    this.#set('at', at);
  }

  #newest(): Newest | undefined {
    const [organisation, eventId] = [this.#get('newest_organisation'), this.#get('newest_event')];
    if (typeof organisation !== 'string' || !(eventId instanceof Uint8Array)) return undefined;
    return { organisation, eventId: Buffer.from(eventId), at: Number(this.#get('newest_at')) };
  }

  #get(name: string): unknown {
    return this.tables.first('SELECT value FROM meta WHERE name = ?', name)?.[0];
  }

  #set(name: string, value: number | string | Uint8Array): void {
    this.tables.run('INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)', name, value);
  }
}

/** A record that the batch has all events of. */
function isFresh(record: TouchedRecord | undefined): boolean {
  return record?.isNew === true && record.before === 0;
}
