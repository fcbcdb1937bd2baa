/**
 * The file of the catalogue: created, opened, compared with its ledger, and rebuilt if it is unusable.
 *
 * It is derived, so it is never repaired. A file of another version or ledger is emptied in one transaction.
 * A file that SQLite calls damaged is removed: other processes keep their open file, and detect the removal
 * by the file's identity.
 */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { handOver, makeFile } from '../files.js';
import { assertRoomForIndex, fillIndex } from '../shared-index.js';
import { systemCode } from '../system-code.js';
import { CatalogueDamaged, CatalogueFault, faultOf } from './faults.js';
import { SCHEMA, VERSION } from './schema.js';

/** Room in the index of a -wal file of 128 MiB, twice its kept size. */
const INDEX_REGIONS = 4;
export const CATALOGUE_FILE = 'catalogue.sqlite';
/** Page cache of the writer in KiB. */
export const CACHE_KIB = 32 << 10;

export type Sql = DatabaseSync;

/** Time that a statement waits for another process, except for the lock of an update. */
const BUSY_TIMEOUT_MS = 5000;
const ATTEMPTS = 3;

/** A connection that writes, and one that reads committed data. */
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
      // This applies to the whole process: SQLite's temporary files contain targets, and belong to the owner
      // of the catalogue.
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
   * On return the file exists, readable for its owner only, and belongs to this ledger; an unusable file was
   * replaced by an empty one.
   * @param mostPages limits the size of the file, for tests.
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

  /** Whether the file still has its name. */
  get isCurrent(): boolean {
    return identityOf(path.join(this.directory, CATALOGUE_FILE)) === this.#identity;
  }

  close(): void {
    // A member is missing if the constructor threw.
    for (const database of [this.reader, this.writer] as (Sql | undefined)[]) {
      if (database?.isOpen === true) database.close();
    }
  }
}

/** The log of a catalogue, and the key of its names. */
export interface Content {
  readonly ledgerId: string;
  /** Id of the key that encrypts its names; undefined if they are not encrypted. */
  readonly names: string | undefined;
}

/**
 * Checks that the names can be decrypted: without the key, an update would remove the names from a catalogue
 * that others use. @throws CatalogueFault
 */
export function assertOpens(found: Content | undefined, wanted: Content, directory: string): void {
  if (wanted.names !== undefined || found?.names === undefined || found.ledgerId !== wanted.ledgerId) return;
  throw new CatalogueFault(
    `the names of the catalogue in ${directory} are encrypted, and their key is not here: run it where the ` +
      'keys are; if they are lost, remove that directory, and it is rebuilt without names',
  );
}

/** Removes the catalogue of a directory. Other processes keep their open file. */
export function removeFile(directory: string): void {
  for (const end of ['', '-wal', '-shm'])
    fs.rmSync(path.join(directory, CATALOGUE_FILE + end), { force: true });
}

function identityOf(file: string): string {
  const stat = fs.statSync(file, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? '' : `${stat.dev}:${stat.ino}`;
}

/**
 * Creates directory and file for their owner only; the parent directory must exist. SQLite's other files
 * inherit mode and owner.
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
  if (!fs.lstatSync(file).isFile()) throw new CatalogueFault(`${file} is not a regular file: move it away`);
}

/** Whether it has this version and ledger. The key of names is compared under the lock. */
function isOf(database: Sql, { ledgerId }: Content): boolean {
  return contentOf(database)?.ledgerId === ledgerId;
}

/** Returns undefined for another version. */
export function contentOf(database: Sql): Content | undefined {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  if (version !== VERSION) return undefined;
  const meta = database.prepare('SELECT value FROM meta WHERE name = ?');
  const [ledgerId, names] = ['ledger', 'names'].map((name) => meta.get(name)?.['value']);
  if (ledgerId === undefined) return undefined;
  return { ledgerId: String(ledgerId), names: names === undefined ? undefined : String(names) };
}

/** Makes an empty catalogue. Readers see the old one or the empty one. */
function empty(database: Sql, content: Content): void {
  database.exec('BEGIN IMMEDIATE');
  try {
    // Another process may have done the same, or more.
    if (!isOf(database, content)) clear(database, content);
    database.exec('COMMIT');
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/** Empties the file within the caller's transaction. */
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

/** Writes the content to the table `meta`. Call it within a transaction. */
export function noteContent(database: Sql, { ledgerId, names }: Content): void {
  const insert = database.prepare('INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)');
  insert.run('ledger', ledgerId);
  if (names !== undefined) insert.run('names', names);
}
