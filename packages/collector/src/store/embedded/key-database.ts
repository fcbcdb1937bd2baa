/**
 * API keys in `<data directory>/keys.db`, a SQLite file in WAL mode: the CLI writes it while a collector reads it.
 *
 * SQLite is right here and wrong for events: keys are few, seldom written, and written by several processes.
 */
import { closeSync, fsyncSync, openSync, statSync } from 'node:fs';
import path from 'node:path';
import { backup, DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { PROFILES } from '@clinical-events/protocol';
import { exists, makeFile, nodeFiles } from '../../files.js';
import { assertRoomForIndex, fillIndex, hasSpace } from '../../shared-index.js';
import { openWithoutWriting } from '../../unwritten-database.js';
import {
  type ApiKey,
  type KeyStore,
  KeyStoreDamaged,
  KeyStoreError,
  PERMISSIONS,
  type RotationRefusal,
} from '../contract/keys.js';
import { messageOf } from '../../system-code.js';

/** Migration n brings `user_version` from n - 1 to n. Add to the end; never edit one that was released. */
const MIGRATIONS = [
  `CREATE TABLE api_key (
     created_order   INTEGER PRIMARY KEY AUTOINCREMENT,
     key_id          TEXT NOT NULL UNIQUE,
     hash            BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
     organisation    TEXT NOT NULL,
     permissions     TEXT NOT NULL,
     profile         TEXT,
     rate_per_second REAL,
     rate_burst      INTEGER,
     note            TEXT NOT NULL,
     created_at      INTEGER NOT NULL,
     expires_at      INTEGER,
     revoked_at      INTEGER,
     rotated_from    TEXT REFERENCES api_key (key_id),
     replaced_by     TEXT REFERENCES api_key (key_id),
     CHECK ((rate_per_second IS NULL) = (rate_burst IS NULL))
   ) STRICT`,
  'ALTER TABLE api_key ADD COLUMN client_certificate TEXT',
];

/**
 * How long a call waits for another process. Readers wait for no one in WAL mode, except for the moment in which
 * a process recovers the log after a crash, so a collector's polling never really waits this long.
 */
const BUSY_TIMEOUT_MS = 5_000;

/** SQLITE_BUSY and SQLITE_LOCKED, without their extended parts. */
const BUSY_CODES = new Set([5, 6]);
/** SQLITE_CORRUPT and SQLITE_NOTADB. */
const DAMAGE_CODES = new Set([11, 26]);
/** SQLITE_FULL. */
const FULL_CODES = new Set([13]);
/** SQLITE_IOERR and SQLITE_CANTOPEN: among others, how SQLite reports that its -wal or -shm finds no space. */
const SPACE_CODES = new Set([10, 14]);

type Row = Record<string, null | number | bigint | string | Uint8Array>;

/** Where the keys of a data directory are kept. */
export function keyDatabasePath(dataDir: string): string {
  return path.join(dataDir, 'keys.db');
}

/** A new name in a directory is durable only when the directory is flushed. Windows cannot, and need not. */
function flushDirectory(directory: string): void {
  if (process.platform === 'win32') return;
  const descriptor = openSync(directory, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** SQLite gives its -wal and -shm files the mode of the database, so only this one file has to be made by hand. */
function createFile(file: string): void {
  const directory = path.dirname(file);
  if (!exists(directory)) nodeFiles.makeDirectory(directory);
  makeFile(file);
  flushDirectory(directory);
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function isOneOf(codes: ReadonlySet<number>, error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && codes.has(Number(error.errcode) & 0xff);
}

/** The embedded driver of the {@link KeyStore}. */
export class KeyDatabase implements KeyStore {
  readonly #file: string;
  readonly #database: DatabaseSync;
  readonly #inode: number;
  /** `PRAGMA data_version` counts the commits of others only. */
  #ownWrites = 0;

  /** The file has been made, but a crash came before its schema: only seen by who may not write that. */
  readonly #unwritten: boolean;

  private constructor(file: string, database: DatabaseSync, unwritten = false) {
    this.#file = file;
    this.#unwritten = unwritten;
    this.#database = database;
    this.#inode = statSync(file).ino;
  }

  /**
   * Opens the keys of a data directory, and makes the directory (mode 0700) and the file (mode 0600) when they
   * are not there.
   * @throws {@link KeyStoreError} when the file is damaged, was written by a newer collector, or cannot be opened.
   */
  static open(dataDir: string): KeyDatabase {
    const file = keyDatabasePath(dataDir);
    let database: DatabaseSync | undefined;
    try {
      createFile(file);
      // SQLite deletes the -wal of an empty file, and there the keys may be.
      if (sizeOf(file) === 0 && sizeOf(`${file}-wal`) > 0) {
        throw new KeyStoreDamaged(`the API keys in ${file} cannot be used: it is empty, but its -wal is not`);
      }
      assertRoomForIndex(file);
      database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
      prepare(database);
      fillIndex(database, file, 1);
      return new KeyDatabase(file, database);
    } catch (error) {
      database?.close();
      throw unusable(file, error);
    }
  }

  /**
   * Opens the keys of a data directory, which may be a read-only snapshot, to look at them: nothing in the directory is
   * made, migrated or written, and every write is refused.
   * @throws {@link KeyStoreError} as {@link open} does, and when there is no file.
   */
  static openReadOnly(dataDir: string): KeyDatabase {
    const file = keyDatabasePath(dataDir);
    let database: DatabaseSync | undefined;
    try {
      // SQLite would not say which file it may not open, nor why.
      closeSync(openSync(file, 'r'));
      database = openWithoutWriting(file);
      const version = schemaVersion(database);
      refuseNewer(version);
      return new KeyDatabase(file, database, version === 0);
    } catch (error) {
      database?.close();
      throw unusable(file, error);
    }
  }

  list(): Promise<ApiKey[]> {
    if (this.#unwritten) return Promise.resolve([]);
    return this.#settle(() =>
      this.#database.prepare('SELECT * FROM api_key ORDER BY created_order').all().map(apiKey),
    );
  }

  version(): Promise<string> {
    return this.#settle(() => {
      // Anyone who restores a back-up over a running collector leaves it with the old file, on which no change is
      // ever seen again. Better that the collector says so than that a revocation is missed in silence.
      if (statSync(this.#file).ino !== this.#inode) {
        throw new Error('the file was replaced while it was open; restart the collector to read the new one');
      }
      const row = this.#database.prepare('PRAGMA data_version').get();
      return `${String(row?.['data_version'])}.${this.#ownWrites}`;
    });
  }

  insert(key: ApiKey): Promise<void> {
    return this.#write(() => this.#insert(key));
  }

  insertFirst(key: ApiKey): Promise<boolean> {
    return this.#write(() => {
      if (this.#database.prepare('SELECT 1 FROM api_key LIMIT 1').get() !== undefined) return false;
      this.#insert(key);
      return true;
    });
  }

  rotate(successor: ApiKey, oldExpiresAt: number, now: number): Promise<RotationRefusal | undefined> {
    return this.#write(() => {
      const oldId = successor.rotatedFrom ?? '';
      const row = this.#database.prepare('SELECT * FROM api_key WHERE key_id = ?').get(oldId);
      if (row === undefined) return 'unknown';
      const old = apiKey(row);
      if (old.revokedAt !== undefined) return 'revoked';
      if (old.replacedBy !== undefined) return 'replaced';
      if (old.expiresAt !== undefined && old.expiresAt <= now) return 'expired';
      this.#insert(successor);
      this.#database
        .prepare(
          'UPDATE api_key SET replaced_by = ?, expires_at = min(?, ifnull(expires_at, ?)) WHERE key_id = ?',
        )
        .run(successor.keyId, oldExpiresAt, oldExpiresAt, oldId);
      return undefined;
    });
  }

  revoke(keyId: string, now: number): Promise<boolean> {
    return this.#write(() => {
      const { changes } = this.#database
        .prepare('UPDATE api_key SET revoked_at = ifnull(revoked_at, ?) WHERE key_id = ?')
        .run(now, keyId);
      return Number(changes) > 0;
    });
  }

  /**
   * Writes all keys as they are at one moment to a new file, beside anyone who is writing; its last bytes may not be on
   * stable storage on return. The same keys make the same bytes.
   * @throws KeyStoreDamaged when the copy is not sound, because this file is not.
   */
  async copyTo(file: string): Promise<void> {
    closeSync(openSync(file, 'wx', 0o600));
    try {
      await backup(this.#database, file);
    } catch (error) {
      if (isOneOf(DAMAGE_CODES, error)) throw unusable(this.#file, error);
      throw error;
    }
    const copy = openWithoutWriting(file);
    try {
      const found = copy.prepare('PRAGMA integrity_check').get()?.['integrity_check'];
      if (found === 'ok') return;
      throw new KeyStoreDamaged(`the API keys in ${this.#file} cannot be used: the file is damaged`);
    } catch (error) {
      if (!isOneOf(DAMAGE_CODES, error)) throw error;
      throw unusable(this.#file, error);
    } finally {
      copy.close();
    }
  }

  close(): Promise<void> {
    return this.#settle(() => {
      if (this.#database.isOpen) this.#database.close();
    });
  }

  #insert(key: ApiKey): void {
    const values: Record<string, SQLInputValue> = {
      key_id: key.keyId,
      hash: key.hash,
      organisation: key.organisation,
      permissions: key.permissions === 'all' ? 'all' : key.permissions.join(','),
      profile: key.profile ?? null,
      rate_per_second: key.rateLimit?.perSecond ?? null,
      rate_burst: key.rateLimit?.burst ?? null,
      client_certificate: key.clientCertificate ?? null,
      note: key.note,
      created_at: key.createdAt,
      expires_at: key.expiresAt ?? null,
      revoked_at: key.revokedAt ?? null,
      rotated_from: key.rotatedFrom ?? null,
      replaced_by: key.replacedBy ?? null,
    };
    const names = Object.keys(values);
    this.#database
      .prepare(
        `INSERT INTO api_key (${names.join(', ')}) VALUES (${names.map((name) => `:${name}`).join(', ')})`,
      )
      .run(values);
  }

  /** One write transaction. IMMEDIATE, because one that starts by reading cannot wait for another writer. */
  #write<Result>(work: () => Result): Promise<Result> {
    return this.#settle(() => {
      const result = transaction(this.#database, work);
      this.#ownWrites++;
      return result;
    });
  }

  /** `node:sqlite` is synchronous; the contract is not, because a driver for a database server cannot be. */
  #settle<Result>(work: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      try {
        resolve(work());
      } catch (error) {
        reject(unusable(this.#file, error));
      }
    });
  }
}

function transaction<Result>(database: DatabaseSync, work: () => Result): Result {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    // Some errors (a full disk, for one) have rolled back already.
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/** Brings a freshly opened file, empty or not, to WAL mode and the newest schema. */
function prepare(database: DatabaseSync): void {
  // SQLite answers BUSY without waiting when two connections turn a new file to WAL mode at the same moment.
  const deadline = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON');
      break;
    } catch (error) {
      if (!isOneOf(BUSY_CODES, error) || performance.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
  if (schemaVersion(database) === MIGRATIONS.length) return;
  transaction(database, () => {
    // Asked again inside the transaction: another process may have migrated in between.
    const version = schemaVersion(database);
    refuseNewer(version);
    for (const migration of MIGRATIONS.slice(version)) database.exec(migration);
    database.exec(`PRAGMA user_version = ${MIGRATIONS.length}`);
  });
}

function refuseNewer(version: number): void {
  if (version <= MIGRATIONS.length) return;
  throw new Error(
    `it was written by a newer collector (schema ${version}; this one knows ${MIGRATIONS.length})`,
  );
}

function schemaVersion(database: DatabaseSync): number {
  return Number(database.prepare('PRAGMA user_version').get()?.['user_version']);
}

function unusable(file: string, error: unknown): KeyStoreError {
  if (error instanceof KeyStoreError) return error;
  const reason = reasonOf(file, error);
  const Kind = isOneOf(DAMAGE_CODES, error) ? KeyStoreDamaged : KeyStoreError;
  return new Kind(`the API keys in ${file} cannot be used: ${reason}`, { cause: error });
}

/** SQLite has one text for a full disk and others for the same disk when it wants to map memory. */
function reasonOf(file: string, error: unknown): string {
  if (isOneOf(FULL_CODES, error) || (isOneOf(SPACE_CODES, error) && !hasSpace(path.dirname(file)))) {
    return 'no space left on device';
  }
  return messageOf(error);
}

/** A row as the contract wants it. What this version would never write is refused, not guessed at. */
function apiKey(row: Row): ApiKey {
  // A file of an older collector, opened for reading only, lacks the newer columns.
  const value = (name: string) => row[name] ?? undefined;
  const text = (name: string): string | undefined =>
    value(name) === undefined ? undefined : String(value(name));
  const number = (name: string): number | undefined =>
    value(name) === undefined ? undefined : Number(value(name));
  const keyId = text('key_id') ?? '';
  const oneOf = <Name extends string>(known: readonly Name[], name: string): Name => {
    const found = known.find((candidate) => candidate === name);
    if (found === undefined)
      throw new Error(`key ${keyId} has "${name}", which this collector does not know`);
    return found;
  };
  const permissions = text('permissions') ?? '';
  const profile = text('profile');
  const perSecond = number('rate_per_second');
  return {
    keyId,
    hash: row['hash'] as Uint8Array,
    organisation: text('organisation') ?? '',
    permissions:
      permissions === 'all' ? 'all' : permissions.split(',').map((kind) => oneOf(PERMISSIONS, kind)),
    profile: profile === undefined ? undefined : oneOf(PROFILES, profile),
    rateLimit: perSecond === undefined ? undefined : { perSecond, burst: number('rate_burst') ?? 1 },
    clientCertificate: text('client_certificate'),
    note: text('note') ?? '',
    createdAt: number('created_at') ?? 0,
    expiresAt: number('expires_at'),
    revokedAt: number('revoked_at'),
    rotatedFrom: text('rotated_from'),
    replacedBy: text('replaced_by'),
  };
}
