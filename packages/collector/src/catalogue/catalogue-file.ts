/**
 * The file of the catalogue: made, opened, compared with its ledger, and rebuilt where it is of no use.
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
import { CatalogueDamaged, CatalogueFault, faultOf } from './faults.js';
import { SCHEMA, VERSION } from './schema.js';

/** For a -wal of 128 MiB, twice what is kept of it. */
const INDEX_REGIONS = 4;
export const CATALOGUE_FILE = 'catalogue.sqlite';
/** Pages that who writes keeps in memory. */
export const CACHE_KIB = 32 << 10;

export type Sql = DatabaseSync;

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
    content: Content,
    mostPages: number | undefined,
  ) {
    makeEmpty(directory);
    const file = path.join(directory, CATALOGUE_FILE);
    this.#identity = identityOf(file);
    assertRoomForIndex(file);
    this.writer = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
    try {
      this.writer.exec('PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
      this.writer.exec(`PRAGMA cache_size = -${CACHE_KIB}; PRAGMA wal_autocheckpoint = 8000`);
      this.writer.exec('PRAGMA journal_size_limit = 67108864; PRAGMA secure_delete = ON');
      // Of the process: what SQLite sorts on disk has targets in it, and belongs to the owner of the catalogue.
      this.writer.exec(`PRAGMA temp_store_directory = '${directory.replaceAll("'", "''")}'`);
      if (mostPages !== undefined) this.writer.exec(`PRAGMA max_page_count = ${mostPages}`);
      assertOpens(contentOf(this.writer), content, directory);
      fillIndex(this.writer, file, INDEX_REGIONS);
      if (!isOf(this.writer, content)) empty(this.writer, content);
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
  static open(directory: string, content: Content, mostPages?: number): CatalogueFile {
    for (let attempt = 1; ; attempt++) {
      try {
        const file = new CatalogueFile(directory, content, mostPages);
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

/** What a catalogue is of. */
export interface Content {
  readonly ledgerId: string;
  /** The id of the key that its names are sealed by; undefined where they are not. */
  readonly names: string | undefined;
}

/** Who has no key of names would take them out of a catalogue that others use. @throws CatalogueFault */
export function assertOpens(found: Content | undefined, wanted: Content, directory: string): void {
  if (wanted.names !== undefined || found?.names === undefined || found.ledgerId !== wanted.ledgerId) return;
  throw new CatalogueFault(
    `the names of the catalogue in ${directory} are encrypted, and there is no key of them here: run it where ` +
      'the keys are; if they are lost, remove that directory, and it is made again without names',
  );
}

/** Removes the catalogue of a directory. A process that has it open keeps what was removed. */
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

/** Whether it is a catalogue of this version and ledger; by which key its names are sealed is seen behind the lock. */
function isOf(database: Sql, { ledgerId }: Content): boolean {
  return contentOf(database)?.ledgerId === ledgerId;
}

/** Undefined of another version. */
export function contentOf(database: Sql): Content | undefined {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  if (version !== VERSION) return undefined;
  const meta = database.prepare('SELECT value FROM meta WHERE name = ?');
  const [ledgerId, names] = ['ledger', 'names'].map((name) => meta.get(name)?.['value']);
  if (ledgerId === undefined) return undefined;
  return { ledgerId: String(ledgerId), names: names === undefined ? undefined : String(names) };
}

/** Makes it a catalogue of which nothing was taken in. Readers see it as it was, or empty. */
function empty(database: Sql, content: Content): void {
  database.exec('BEGIN IMMEDIATE');
  try {
    // Another process may have done so meanwhile, and more.
    if (!isOf(database, content)) clear(database, content);
    database.exec('COMMIT');
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/** Empties it within a transaction of the caller. */
export function clear(database: Sql, content: Content): void {
  const made = database.prepare(
    "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'",
  );
  for (const { type, name } of made.all())
    database.exec(`DROP ${String(type)} "${String(name).replaceAll('"', '""')}"`);
  database.exec(SCHEMA);
  database.exec(`PRAGMA user_version = ${VERSION}`);
  noteContent(database, content);
}

/** Within a transaction of the caller. */
export function noteContent(database: Sql, { ledgerId, names }: Content): void {
  const insert = database.prepare('INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)');
  insert.run('ledger', ledgerId);
  if (names !== undefined) insert.run('names', names);
}
