/**
 * API keys in `<data directory>/keys.db`, a SQLite file in WAL mode: commands write it while a collector
 * reads it. SQLite suits keys, unlike events, because keys are few, are seldom written, and have several
 * writers.
 */
import { closeSync, fsyncSync, openSync, statSync } from 'node:fs';
import path from 'node:path';
import { backup, DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { PROFILES } from '@clinical-events/protocol';
import { exists, makeFile, nodeFiles } from '../../files.js';
import { assertRoomForIndex, fillIndex, hasSpace } from '../../shared-index.js';
import { Unusable } from '../../unusable.js';
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

/** `PRAGMA application_id` of the file: "CLKY". Files from before version 1 was frozen have 0. */
const APPLICATION_ID = 0x434c4b59;

/**
 * Migration n brings `user_version` from n - 1 to n. Add to the end; never edit one that was released. The
 * first is version 1 of docs/internals/formats.md.
 */
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
     client_certificate TEXT,
     note            TEXT NOT NULL,
     created_at      INTEGER NOT NULL,
     expires_at      INTEGER,
     revoked_at      INTEGER,
     rotated_from    TEXT REFERENCES api_key (key_id),
     replaced_by     TEXT REFERENCES api_key (key_id),
     CHECK ((rate_per_second IS NULL) = (rate_burst IS NULL))
   ) STRICT`,
];

/**
 * Time that a call waits for another process. In WAL mode readers wait only during recovery after a crash, so
 * the polling of a collector hardly ever waits this long.
 */
const BUSY_TIMEOUT_MS = 5_000;

/** SQLITE_BUSY and SQLITE_LOCKED, without their extended parts. */
const BUSY_CODES = new Set([5, 6]);
/** SQLITE_CORRUPT and SQLITE_NOTADB. */
const DAMAGE_CODES = new Set([11, 26]);
/** SQLITE_FULL. */
const FULL_CODES = new Set([13]);
/**
 * SQLITE_IOERR and SQLITE_CANTOPEN, which SQLite also reports if there is no space for its -wal or -shm file.
 */
const SPACE_CODES = new Set([10, 14]);

type Row = Record<string, null | number | bigint | string | Uint8Array>;

/** The file of the API keys of a data directory. */
export function keyDatabasePath(dataDir: string): string {
  return path.join(dataDir, 'keys.db');
}

/** Makes a new name in a directory durable. Windows does not support this and does not need it. */
function flushDirectory(directory: string): void {
  if (process.platform === 'win32') return;
  const descriptor = openSync(directory, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Creates the file with the right mode, which SQLite copies to its -wal and -shm files. */
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
  /** Own writes, which `PRAGMA data_version` does not count. */
  #ownWrites = 0;

  /** Whether the file has no schema because of a crash; possible only if it was opened read-only. */
  readonly #unwritten: boolean;

  private constructor(file: string, database: DatabaseSync, unwritten = false) {
    this.#file = file;
    this.#unwritten = unwritten;
    this.#database = database;
    this.#inode = statSync(file).ino;
  }

  /**
   * Opens the keys of a data directory. Creates the directory (mode 0700) and the file (mode 0600) if
   * necessary.
   * @throws {@link KeyStoreError} if the file is damaged, was written by a newer collector, or cannot be
   * opened.
   */
  static open(dataDir: string): KeyDatabase {
    const file = keyDatabasePath(dataDir);
    let database: DatabaseSync | undefined;
    try {
      createFile(file);
      // SQLite deletes the -wal file of an empty database, which may contain the keys.
      if (sizeOf(file) === 0 && sizeOf(`${file}-wal`) > 0) {
        throw new KeyStoreDamaged(`the API keys in ${file} cannot be used: it is empty, but its -wal is not`);
      }
      assertRoomForIndex(file);
      database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
      prepare(database, file);
      fillIndex(database, file, 1);
      return new KeyDatabase(file, database);
    } catch (error) {
      database?.close();
      throw unusable(file, error);
    }
  }

  /**
   * Opens the keys of a data directory for reading, even on a read-only snapshot. Nothing is created,
   * migrated or written, and every write is refused.
   * @throws {@link KeyStoreError} as {@link open} does, and if there is no file.
   */
  static openReadOnly(dataDir: string): KeyDatabase {
    const file = keyDatabasePath(dataDir);
    let database: DatabaseSync | undefined;
    try {
      // The error of SQLite would name neither file nor reason.
      closeSync(openSync(file, 'r'));
      database = openWithoutWriting(file);
      return new KeyDatabase(file, database, knownVersion(database, file) === 0);
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
      // After a restore over a running collector it still has the old file and would miss every later
      // revocation.
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
   * Writes a consistent snapshot of all keys to a new file, even during writes of other processes. Its last
   * bytes may not be on stable storage on return. Equal keys give equal bytes.
   * @throws KeyStoreDamaged if the copy is damaged, because this file is.
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

  /**
   * Runs one write transaction; IMMEDIATE, because a transaction that starts with a read cannot wait for a
   * writer.
   */
  #write<Result>(work: () => Result): Promise<Result> {
    return this.#settle(() => {
      const result = transaction(this.#database, work);
      this.#ownWrites++;
      return result;
    });
  }

  /** Adapts the synchronous `node:sqlite` to the asynchronous contract. */
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
    // After some errors, such as a full disk, SQLite has already rolled back.
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/** Switches a file to WAL mode and migrates it to the newest schema. */
function prepare(database: DatabaseSync, file: string): void {
  // SQLite returns BUSY without waiting if two connections switch a new file to WAL mode at the same time.
  const deadline = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      // A file that is refused is not changed.
      knownVersion(database, file);
      database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON');
      break;
    } catch (error) {
      if (!isOneOf(BUSY_CODES, error) || performance.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
  if (knownVersion(database, file) === MIGRATIONS.length) return;
  transaction(database, () => {
    // The version is read again inside the transaction: another process may have migrated the file.
    for (const migration of MIGRATIONS.slice(knownVersion(database, file))) database.exec(migration);
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${MIGRATIONS.length}`);
  });
}

/**
 * The version of the file, 0 without a schema.
 * @throws Unusable for another version or another database; KeyStoreDamaged if the version was altered.
 */
function knownVersion(database: DatabaseSync, file: string): number {
  const pragma = (name: string) => Number(database.prepare(`PRAGMA ${name}`).get()?.[name]);
  const [application, version] = [pragma('application_id'), pragma('user_version')];
  if (application !== APPLICATION_ID && (application !== 0 || version !== 0))
    throw new Unusable('it was written before version 1 of its format: begin a new data directory');
  const hasTables = () => database.prepare('SELECT 1 FROM sqlite_schema').get() !== undefined;
  if (version < 1 && application === APPLICATION_ID)
    throw new KeyStoreDamaged(
      `the API keys in ${file} cannot be used: their schema is ${version}, which no collector writes`,
    );
  if (version === 0 && hasTables()) throw new Unusable('it is a database of another program');
  if (version <= MIGRATIONS.length) return version;
  throw new Unusable(
    `it was written by a newer collector (schema ${version}; this one supports ${MIGRATIONS.length})`,
  );
}

function unusable(file: string, error: unknown): KeyStoreError {
  if (error instanceof KeyStoreError) return error;
  const reason = reasonOf(file, error);
  const Kind = isOneOf(DAMAGE_CODES, error) ? KeyStoreDamaged : KeyStoreError;
  return new Kind(`the API keys in ${file} cannot be used: ${reason}`, { cause: error });
}

/** Maps the several errors of SQLite for a full disk to one text. */
function reasonOf(file: string, error: unknown): string {
  if (isOneOf(FULL_CODES, error) || (isOneOf(SPACE_CODES, error) && !hasSpace(path.dirname(file)))) {
    return 'no space left on device';
  }
  return messageOf(error);
}

/** Converts a row. Refuses values that this version never writes. */
function apiKey(row: Row): ApiKey {
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
