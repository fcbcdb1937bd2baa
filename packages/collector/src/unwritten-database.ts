/**
 * Opens an SQLite file for reading without creating files beside it, whether or not another process writes
 * it.
 */
import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { assertRoomForIndex } from './shared-index.js';

const BUSY_TIMEOUT_MS = 5_000;
/**
 * SQLITE_IOERR, SQLITE_FULL, SQLITE_CANTOPEN and SQLITE_PROTOCOL, without extended parts: a -shm that is
 * unusable and cannot be changed.
 */
const SHARED_CODES = [10, 13, 14, 15];

/**
 * SQLite reads a file in WAL mode only with its -wal and -shm, and creates them if they are missing. Both
 * exist while a collector runs and after a crash. After an orderly end neither exists; the file is then
 * opened as immutable. (Not covered: a command that opens, writes and closes it within the same milliseconds
 * can make it look damaged.) A copy may have only the -wal, with changes that the file lacks: both are then
 * copied to private files that are deleted on return.
 */
export function openWithoutWriting(file: string): DatabaseSync {
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
  const shared = statSync(`${file}-shm`, { throwIfNoEntry: false });
  if (log !== undefined && shared !== undefined) {
    let database: DatabaseSync | undefined;
    try {
      assertRoomForIndex(file);
      database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
      look(database);
      return database;
    } catch (error) {
      database?.close();
      // After a crash or a failed start, the -shm may have to grow, which a full disk prevents. A -shm copied
      // while being written may not match the -wal.
      const code = (error as { errcode?: unknown } | null)?.errcode;
      if (typeof code !== 'number' || !SHARED_CODES.includes(code & 0xff)) throw error;
    }
  }
  if (log === undefined || log.size === 0) {
    const url = pathToFileURL(file);
    url.search = '?immutable=1';
    return new DatabaseSync(url, { readOnly: true });
  }
  const directory = mkdtempSync(path.join(os.tmpdir(), 'collector-database-'));
  try {
    const copy = path.join(directory, path.basename(file));
    copyFileSync(file, copy);
    copyFileSync(`${file}-wal`, `${copy}-wal`);
    assertRoomForIndex(copy);
    const database = new DatabaseSync(copy, { readOnly: true });
    // The first read opens the -wal and the -shm; open files outlive their names.
    look(database);
    return database;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function look(database: DatabaseSync): void {
  database.prepare('PRAGMA user_version').get();
}
