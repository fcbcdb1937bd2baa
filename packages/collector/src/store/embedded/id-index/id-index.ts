import * as fs from 'node:fs';
import path from 'node:path';
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads';
import { nodeFiles } from '../../../files.js';
import { IdIndexError } from './sorted-run-format.js';
import {
  IdIndexReader,
  withDefaults,
  type IdIndexReaderOptions,
  type ReadOptions,
  clearAway,
  openChain,
} from './sorted-runs.js';
import { RecentTable, Run } from './sorted-run.js';
import type { RunAnswer, RunRequest, RunThreadData } from './merge-thread.js';

export interface IdIndexOptions extends IdIndexReaderOptions {
  /** Capacity of a table, a power of two. Default 131,072: 4 MiB per table, at most three tables. */
  readonly tableEntries?: number;
  /** The module with the file calls of the writing thread. Default `node:fs`. */
  readonly files?: string;
}

export interface IdIndexStats {
  readonly entries: number;
  readonly runs: number;
  readonly frozenTables: number;
  /** Bytes of the runs on disk, and of tables, filters and page tables in memory. */
  readonly diskBytes: number;
  readonly memoryBytes: number;
  /** Number and total time (ms) of waits of `commit` for the writing thread. */
  readonly waits: number;
  readonly waited: number;
}

/** Maximum number of full tables that wait to be written. */
const FROZEN_TABLES = 2;

/** Pause after a failed write, ms. */
const RETRY_AFTER = 1000;

/** Time without an answer after which the writing thread counts as failed, ms. */
const SILENCE = 10_000;

/** The compiled thread, even under Vitest: a thread starts from a file. */
const THREAD = new URL(
  'merge-thread.js',
  import.meta.url.replace(/\/src\/(?=store\/embedded\/id-index\/)/, '/dist/'),
);

/**
 * The index of event ids: a log-structured map from 64-bit fingerprints to addresses in the log.
 *
 * It is derived from the log, may lag behind it and may be deleted. Invariants:
 *
 *  1. A run is published only for addresses below the last `commit`, which declares them durable. So
 *     `coveredTo` never exceeds the durable end of the log, unless the log itself has lost durable bytes;
 *     runs that reach beyond `logEnd` are deleted at opening.
 *  2. Runs are published in the order of the log and cover it from its origin without a gap.
 *  3. Every entry is always in the recent table, in a frozen one or in a run that `find` searches: a table is
 *     dropped after its run is in use, a run after its merged successor is.
 *  4. An address that was added and never committed (its write failed) may be found until `abandon`. This is
 *     harmless, because the caller compares with the log.
 *
 * One thread owns the index. Its calls are synchronous and touch the disk only to read a page after a filter
 * hit; a second thread writes and merges.
 */
export class IdIndex extends IdIndexReader {
  readonly #options: ReadOptions;
  readonly #capacity: number;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #answers = new Int32Array(new SharedArrayBuffer(4));
  #answersSeen = 0;
  #recent: RecentTable;
  /** The frozen tables, oldest first; the thread writes the first one while `#writing`. */
  readonly #frozen: { table: RecentTable; from: number; to: number }[] = [];
  readonly #spare: RecentTable[] = [];
  #writing = false;
  /** Error of the last write of a table; null after a success. */
  #failure: Error | null = null;
  #retryAt = 0;
  /** Whether the thread has died of an unexpected error, so that nothing can be written any more. */
  #dead = false;
  readonly #stopped: Promise<unknown>;
  #corrupt: IdIndexError | null = null;
  /** End of the frozen entries. */
  #frozenTo: number;
  /** End of the committed entries. */
  #committed: number;
  /** Highest address added. */
  #added = -1;
  #waits = 0;
  #waited = 0;

  /**
   * Opens the index for its only writer, which holds the lock, and creates the directory. Call it before any
   * append, with the end of the recovered log as `logEnd`; then add every event from `coveredTo` on.
   * `onError` is called for discarded runs and for failed writes, which are retried.
   */
  static open(options: IdIndexOptions): IdIndex {
    const full = withDefaults(options);
    nodeFiles.makeDirectory(full.directory);
    const runs = openChain(full, false);
    clearAway(full.directory, runs);
    const { tableEntries = 131_072, files = 'node:fs' } = options;
    return new IdIndex(full, runs, tableEntries, files);
  }

  private constructor(options: ReadOptions, runs: Run[], tableEntries: number, files: string) {
    super(options, runs);
    this.#options = options;
    this.#capacity = tableEntries;
    this.#recent = new RecentTable(2 * tableEntries);
    this.#frozenTo = this.#committed = this.coveredTo;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const workerData: RunThreadData = {
      port: port2,
      answers: this.#answers.buffer,
      directory: options.directory,
      key: this.key,
      filterMemory: options.filterMemory,
      images: runs.map((run) => ({ ...run.image, filter: null })),
      files,
    };
    this.#worker = new Worker(THREAD, {
      workerData,
      transferList: [port2],
      // It allocates little: a small young generation keeps its memory at a few MiB.
      resourceLimits: { maxYoungGenerationSizeMb: 2 },
    });
    this.#worker.unref();
    this.#stopped = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.on('error', (error: Error) => {
      this.#dead = true;
      this.#writing = false;
      this.#fail(error);
    });
  }

  /**
   * Number of entries that `add` accepts before the next `commit`; a larger batch must be refused. Reading it
   * also retries a failed write, because a ledger that refuses batches has nothing to commit.
   */
  get room(): number {
    if (this.#recent.count >= this.#capacity) this.#turnOver();
    return this.#recent.limit - this.#recent.count;
  }

  override find(hi: number, lo: number, out: number[]): number {
    this.#refuseIfCorrupt();
    try {
      let found = this.#recent.find(hi, lo, out, 0);
      for (const { table } of this.#frozen) found = table.find(hi, lo, out, found);
      return this.findInRuns(hi, lo, out, found);
    } catch (error) {
      if (error instanceof IdIndexError) this.#condemn(error);
      throw error;
    }
  }

  /** Adds an event; addresses must rise. @throws IdIndexError `full` if there is no `room`. */
  add(hi: number, lo: number, address: number): void {
    if (address <= this.#added || address < this.#committed) {
      throw new RangeError(`address ${address} comes after ${this.#added}, committed to ${this.#committed}`);
    }
    if (this.#recent.count >= this.#recent.limit) {
      throw new IdIndexError('full', 'the index cannot write its tables', { cause: this.#failure });
    }
    this.#recent.add(hi, lo, address);
    this.#added = address;
  }

  /**
   * Declares that all entries below `to` are durable and added. Freezes a full table. Waits for the writing
   * thread only if all tables are full and writes succeed; in both cases memory is bounded.
   */
  commit(to: number): void {
    if (to < this.#committed || to <= this.#added) {
      throw new RangeError(`commit to ${to} after ${this.#committed}, with ${this.#added} added`);
    }
    this.#refuseIfCorrupt();
    this.#committed = to;
    this.#turnOver();
  }

  #turnOver(): void {
    this.#takeAnswers();
    if (this.#recent.count >= this.#capacity && this.#added < this.#committed) {
      // Between full and overfull a busy thread gets time; most of the remaining slots are kept for a batch.
      const overfull = this.#recent.count >= this.#capacity * 1.125;
      while (overfull && this.#frozen.length >= FROZEN_TABLES && this.#failure === null) this.#wait();
      if (this.#frozen.length < FROZEN_TABLES) this.#freeze();
    }
    this.#write();
  }

  /**
   * Publishes all committed entries, so that the next start has nothing to add, and stops. If that fails,
   * `onError` is called and the next start adds them. Entries without a commit mean that the write of the log
   * failed: then nothing is published, as with `abandon`.
   */
  override async close(): Promise<void> {
    this.#failure = null;
    this.#retryAt = 0;
    if (this.#added < this.#committed && this.#committed > this.#frozenTo) this.#freeze();
    this.#write();
    while (this.#writing) {
      this.#wait();
      this.#write();
    }
    this.#worker.ref();
    this.#post({ kind: 'close' });
    await this.#stopped;
    await super.close();
  }

  /** Stops without publishing, for a ledger whose log is in doubt. */
  async abandon(): Promise<void> {
    await this.#worker.terminate();
    this.#port.close();
    await super.close();
  }

  stats(): IdIndexStats {
    const tables = [this.#recent, ...this.#frozen.map(({ table }) => table)];
    const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
    return {
      entries: sum(tables.map((table) => table.count)) + sum(this.runs.map((run) => run.header.count)),
      runs: this.runs.length,
      frozenTables: this.#frozen.length,
      diskBytes: sum(this.runs.map((run) => run.layout.fileBytes)),
      memoryBytes:
        sum([...tables, ...this.#spare].map((table) => table.memory.byteLength)) +
        sum(this.runs.map((run) => run.memory)),
      waits: this.#waits,
      waited: this.#waited,
    };
  }

  #freeze(): void {
    this.#frozen.push({ table: this.#recent, from: this.#frozenTo, to: this.#committed });
    this.#frozenTo = this.#committed;
    this.#recent = this.#spare.pop() ?? new RecentTable(2 * this.#capacity);
  }

  /** Writes one table at a time, oldest first, so that a failed write leaves no gap in the chain. */
  #write(): void {
    const oldest = this.#frozen[0];
    if (oldest === undefined || this.#writing || this.#dead) return;
    if (this.#failure !== null && performance.now() < this.#retryAt) return;
    const { table, from, to } = oldest;
    this.#writing = true;
    this.#post({ kind: 'write', table: table.memory, count: table.count, from, to });
  }

  #post(request: RunRequest): void {
    this.#port.postMessage(request);
  }

  #takeAnswers(): void {
    const posted = Atomics.load(this.#answers, 0);
    for (; this.#answersSeen !== posted; this.#answersSeen = (this.#answersSeen + 1) | 0) {
      const { message } = receiveMessageOnPort(this.#port) as { message: RunAnswer };
      if (message.kind === 'published') this.#takeIn(message);
      else this.#takeFailure(message);
    }
  }

  #takeIn({ image, replaces }: RunAnswer & { kind: 'published' }): void {
    const run = Run.share(this.#options.directory, image);
    if (replaces.length === 0) {
      this.runs.push(run);
      this.#writing = false;
      this.#failure = null;
      const written = this.#frozen.shift();
      written?.table.clear();
      if (written) this.#spare.push(written.table);
      return;
    }
    const first = this.runs.findIndex((old) => old.image.name === replaces[0]);
    for (const old of this.runs.splice(first, replaces.length, run)) old.close();
    this.#post({ kind: 'delete', names: replaces });
  }

  #takeFailure({ what, message, code, run }: RunAnswer & { kind: 'failed' }): void {
    const error =
      code === 'corrupt'
        ? new IdIndexError(code, message, {}, run)
        : Object.assign(new Error(message), { code });
    if (error instanceof IdIndexError) this.#condemn(error);
    if (what === 'merge') return this.#options.onError(error);
    this.#writing = false;
    this.#fail(error);
  }

  #wait(): void {
    const since = performance.now();
    const silent = Atomics.wait(this.#answers, 0, this.#answersSeen, SILENCE) === 'timed-out';
    this.#waits++;
    this.#waited += performance.now() - since;
    this.#takeAnswers();
    if (silent) {
      this.#writing = false;
      this.#fail(new Error('the writing thread does not respond'));
    }
  }

  #fail(error: Error): void {
    this.#failure = error;
    this.#retryAt = performance.now() + RETRY_AFTER;
    this.#options.onError(error);
  }

  #refuseIfCorrupt(): void {
    if (this.#corrupt !== null) throw this.#corrupt;
  }

  /**
   * A damaged run is deleted immediately, so that the next opening does not trust it even without `verify`.
   */
  #condemn(error: IdIndexError): void {
    if (error.run !== undefined) fs.rmSync(path.join(this.#options.directory, error.run), { force: true });
    this.#corrupt = error;
  }
}
