/**
 * The file of the catalogue: made, opened, held against the ledger that it is of, and rebuilt where it is of no use.
 *
 * It is derived, so nothing in it is repaired. What is of another version or ledger is emptied in one transaction, which
 * other processes see whole. What SQLite calls damaged is removed: processes that have it open keep what they have, and
 * see by the file's identity that it is no longer the one under its name.
 */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { handOver, makeFile } from '../files.js';
import { assertRoomForIndex, fillIndex } from '../shared-index.js';
import { systemCode } from '../system-code.js';
import type { EventLog } from '../store/contract/events.js';
import { TALLY } from './packed-summary.js';
import { CatalogueBusy, CatalogueDamaged, CatalogueFault } from './packing.js';

/*
 * Which process writes the catalogue, in a file beside it. SQLite decides who does; the file is only read while it says
 * that another one does, and believed only while the process that it names runs: a process id alone is given out again.
 */

const NAME = 'updating';
const MOST_BYTES = 256;
/** No link is followed, and a pipe under that name is not waited for. */
const NO_OTHER = fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK;

/** Notes this process. What cannot be noted is not: it is only for a message. */
export function noteHolder(directory: string): void {
  try {
    const { O_WRONLY, O_CREAT, O_TRUNC } = fs.constants;
    const fd = fs.openSync(path.join(directory, NAME), O_WRONLY | O_CREAT | O_TRUNC | NO_OTHER, 0o600);
    handOver(fd, directory);
    fs.writeSync(fd, markOf(process.pid) ?? '');
    fs.closeSync(fd);
  } catch {
    // A file of another user.
  }
}

/** @returns in words who writes the catalogue. */
export function holderOf(directory: string): string {
  let noted = '';
  try {
    const fd = fs.openSync(path.join(directory, NAME), fs.constants.O_RDONLY | NO_OTHER);
    const bytes = Buffer.alloc(MOST_BYTES);
    noted = bytes.toString('latin1', 0, fs.readSync(fd, bytes, 0, MOST_BYTES, 0));
    fs.closeSync(fd);
  } catch {
    // Nothing is noted.
  }
  const pid = Number.parseInt(noted, 10);
  return pid > 0 && markOf(pid) === noted ? `process ${pid}` : 'another process';
}

/** The process by its id, its id space and when it was started, in the clock ticks of the kernel (proc(5)). */
function markOf(pid: number): string | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name stands in brackets and may have anything in it; the start is field 22, and the state is field 3.
    const started = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
    return `${pid} ${fs.readlinkSync('/proc/self/ns/pid')} ${started}`;
  } catch {
    return undefined;
  }
}

/** Counts up with every change of a table, or of what a row means. */
const VERSION = 6;
/** For a -wal of 128 MiB, twice what is kept of it. */
const INDEX_REGIONS = 4;
export const CATALOGUE_FILE = 'catalogue.sqlite';

/** Result codes of SQLite without their extended parts: https://www.sqlite.org/rescode.html */
const CODE = {
  error: 1,
  busy: 5,
  locked: 6,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  notADb: 26,
};

/**
 * Of no use to an update, and where a row goes in them is as good as random. So an update that takes in most of a log
 * does without and makes them at its end (updating.ts). A question names its index, and is refused meanwhile.
 */
export const SCATTERED: readonly { readonly name: string; readonly sql: string }[] = [
  { name: 'run_last', sql: 'CREATE INDEX run_last ON run (last_sequence)' },
  ...['target', 'user'].map((column) => ({
    name: `run_${column}`,
    sql: `CREATE INDEX run_${column} ON run (${column}, began_received) WHERE ${column} IS NOT NULL`,
  })),
];
/** Why a question is refused while an update is on its way. */
export const UNFINISHED = 'the catalogue is being brought up to date: its update has not come to its end';

const TABLES = `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
  -- Texts that many rows have, and name by number. The target of a record is hardly that of another.
  CREATE TABLE name (id INTEGER PRIMARY KEY, text BLOB NOT NULL) STRICT;
  CREATE UNIQUE INDEX name_text ON name (text);
  -- A record. Its id is the sequence of an event of it. settled: of how many events the summary is, where it is not of all.
  CREATE TABLE run (
    id INTEGER PRIMARY KEY, record BLOB NOT NULL, organisation INTEGER NOT NULL, is_run INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL, events INTEGER NOT NULL, settled INTEGER,
    began_received INTEGER NOT NULL, began_sender INTEGER NOT NULL, marks INTEGER NOT NULL,
    target BLOB, user INTEGER, model INTEGER, version INTEGER, application INTEGER,
    parent INTEGER, circle INTEGER, summary BLOB NOT NULL, entries BLOB NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX run_record ON run (record, organisation, is_run);
  CREATE INDEX run_first ON run (first_sequence);
  CREATE INDEX run_received ON run (began_received);
  CREATE INDEX run_sender ON run (began_sender);
  CREATE INDEX run_organisation ON run (organisation, began_received);
  CREATE INDEX run_model ON run (model, began_received) WHERE model IS NOT NULL;
  CREATE INDEX run_contradicted ON run (began_received) WHERE marks & 28 = 8;
  CREATE INDEX run_conflict ON run (began_received) WHERE marks & 32 <> 0;
  CREATE INDEX run_failed ON run (began_received) WHERE marks & 64 <> 0;
  CREATE INDEX run_incomplete ON run (began_received) WHERE marks & 3 = 2;
  CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
  CREATE INDEX run_settled ON run (id) WHERE settled IS NOT NULL;
  -- More entries of a record that has many, or that was merged with another.
  CREATE TABLE part (number INTEGER PRIMARY KEY, run INTEGER NOT NULL, entries BLOB NOT NULL) STRICT;
  CREATE INDEX part_run ON part (run);
  -- Events that name no run and open none, and the record that they are of.
  CREATE TABLE runless (
    event BLOB NOT NULL, organisation INTEGER NOT NULL, parent BLOB, run INTEGER NOT NULL,
    PRIMARY KEY (event, organisation)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX runless_run ON runless (run);
  -- Events that a record names as parents, and that have not come or are of no run yet.
  CREATE TABLE awaited (
    event BLOB NOT NULL, organisation INTEGER NOT NULL, run INTEGER NOT NULL,
    PRIMARY KEY (event, organisation, run)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX awaited_run ON awaited (run);
  ${TALLY}
`;

export type Sql = DatabaseSync;

/** What SQLite says went wrong; undefined for what it did not say. */
function sqliteCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  return typeof code === 'number' ? code & 0xff : undefined;
}

/** @returns the same as a fault of the catalogue, in words; what is none comes back as it is. */
export function faultOf(error: unknown, directory: string): unknown {
  if (error instanceof CatalogueFault) return error;
  if (isBusy(error))
    return new CatalogueBusy(`another process holds the catalogue in ${directory}`, { cause: error });
  const code = sqliteCode(error);
  if (code === CODE.error && (error as Error).message.startsWith('no such index')) {
    return new CatalogueFault(UNFINISHED, { cause: error });
  }
  if (code === CODE.corrupt || code === CODE.notADb) {
    return new CatalogueDamaged(`the catalogue in ${directory} is damaged`, { cause: error });
  }
  if (code === CODE.full || systemCode(error) === 'ENOSPC') {
    return new CatalogueFault(`no room for the catalogue in ${directory}: make room`, {
      cause: error,
    });
  }
  if (code === CODE.ioError) {
    return new CatalogueFault(
      `the catalogue in ${directory} cannot be read or written: look after the disk`,
      { cause: error },
    );
  }
  const isDenied = ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '');
  if (isDenied || code === CODE.readOnly || code === CODE.cannotOpen) {
    return new CatalogueFault(`the catalogue in ${directory} cannot be written: run as its owner`, {
      cause: error,
    });
  }
  return error;
}

/** True for an error that says that another connection holds what is asked for. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === CODE.busy || code === CODE.locked;
}

/** How long a statement waits for another process, but for the lock of an update. */
const BUSY_TIMEOUT_MS = 5000;
const ATTEMPTS = 3;

/** A connection that writes, and one that reads what is committed. */
export class CatalogueFile {
  readonly writer: Sql;
  readonly reader: Sql;
  readonly #identity: string;

  private constructor(
    readonly directory: string,
    ledgerId: string,
    mostPages: number | undefined,
  ) {
    makeEmpty(directory);
    const file = path.join(directory, CATALOGUE_FILE);
    this.#identity = identityOf(file);
    assertRoomForIndex(file);
    this.writer = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
    try {
      this.writer.exec('PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
      this.writer.exec('PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 8000');
      this.writer.exec('PRAGMA journal_size_limit = 67108864; PRAGMA secure_delete = ON');
      // Of the process: what SQLite sorts on disk has targets in it, and belongs to the owner of the catalogue.
      this.writer.exec(`PRAGMA temp_store_directory = '${directory.replaceAll("'", "''")}'`);
      if (mostPages !== undefined) this.writer.exec(`PRAGMA max_page_count = ${mostPages}`);
      assertMayEmpty(this.writer, ledgerId, directory);
      fillIndex(this.writer, file, INDEX_REGIONS);
      if (!isOf(this.writer, ledgerId)) empty(this.writer, ledgerId);
      this.reader = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
      this.reader.exec('PRAGMA query_only = ON; PRAGMA cache_size = -8192');
      this.reader.prepare('SELECT count(*) FROM meta').get();
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /**
   * On return the file is there, for its owner alone, and of this ledger: empty, where what stood there was of no use.
   * @param mostPages how large the file may become; tests make it small.
   * @throws CatalogueFault.
   */
  static open(directory: string, ledgerId: string, mostPages?: number): CatalogueFile {
    for (let attempt = 1; ; attempt++) {
      try {
        const file = new CatalogueFile(directory, ledgerId, mostPages);
        if (file.isCurrent) return file;
        file.close();
        if (attempt === ATTEMPTS)
          throw new CatalogueFault(`another process removes the catalogue in ${directory}`);
      } catch (error) {
        const fault = faultOf(error, directory);
        if (!(fault instanceof CatalogueDamaged) || attempt === ATTEMPTS) throw fault;
        removeFile(directory);
      }
    }
  }

  /** Whether it is still what stands under its name. */
  get isCurrent(): boolean {
    return identityOf(path.join(this.directory, CATALOGUE_FILE)) === this.#identity;
  }

  close(): void {
    // Where the constructor has thrown there may be none.
    for (const database of [this.reader, this.writer] as (Sql | undefined)[]) {
      if (database?.isOpen === true) database.close();
    }
  }
}

/** What a catalogue is of: the ledger, and where its names are encrypted the key that they are encrypted by. */
export function contentId({
  ledgerId,
  names,
}: Pick<EventLog, 'ledgerId'> & Partial<Pick<EventLog, 'names'>>): string {
  return names === undefined ? ledgerId : `${ledgerId}/${names.id}`;
}

/** Who has not the key of names would take them out of a catalogue that others use. @throws CatalogueFault */
function assertMayEmpty(database: Sql, id: string, directory: string): void {
  if (contentOf(database)?.startsWith(`${id}/`) !== true) return;
  throw new CatalogueFault(
    `the names of the catalogue in ${directory} are encrypted, and there is no key of them here: run it where ` +
      'the keys are; if they are lost, remove that directory, and it is made again without names',
  );
}

/** Removes the catalogue of a directory. Who has it open goes on with what was removed. */
export function removeFile(directory: string): void {
  for (const end of ['', '-wal', '-shm'])
    fs.rmSync(path.join(directory, CATALOGUE_FILE + end), { force: true });
}

function identityOf(file: string): string {
  const stat = fs.statSync(file, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? '' : `${stat.dev}:${stat.ino}`;
}

/**
 * Makes directory and file for their owner alone; the directory's own parent is there. SQLite makes its other files by the
 * mode and owner of this one.
 */
function makeEmpty(directory: string): void {
  try {
    fs.mkdirSync(directory, 0o700);
    handOver(directory, path.dirname(directory));
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
  }
  const file = path.join(directory, CATALOGUE_FILE);
  makeFile(file);
  if (!fs.lstatSync(file).isFile()) throw new CatalogueFault(`${file} is no regular file: move it away`);
}

/** Whether it is a catalogue of this version and ledger. */
function isOf(database: Sql, ledgerId: string): boolean {
  return contentOf(database) === ledgerId;
}

/** What a catalogue of this version is of (contentId); undefined of another version. */
export function contentOf(database: Sql): string | undefined {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  if (version !== VERSION) return undefined;
  const row = database.prepare("SELECT value FROM meta WHERE name = 'ledger'").get();
  return row === undefined ? undefined : String(row['value']);
}

/** Makes it the catalogue of a ledger of which nothing was taken in. Readers see it as it was, or empty. */
function empty(database: Sql, ledgerId: string): void {
  database.exec('BEGIN IMMEDIATE');
  try {
    // Another process may have done so meanwhile, and more.
    if (!isOf(database, ledgerId)) clear(database, ledgerId);
    database.exec('COMMIT');
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/** Empties it within a transaction of the caller. */
export function clear(database: Sql, ledgerId: string): void {
  const tables = database.prepare(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
  );
  for (const { name } of tables.all()) database.exec(`DROP TABLE "${String(name).replaceAll('"', '""')}"`);
  database.exec(TABLES);
  for (const { sql } of SCATTERED) database.exec(sql);
  database.exec(`PRAGMA user_version = ${VERSION}`);
  database.prepare("INSERT INTO meta (name, value) VALUES ('ledger', ?)").run(ledgerId);
}
