/**
 * One collector a data directory.
 *
 * The lock is SQLite's, on a file of its own: an operating-system lock that goes when its process goes, however
 * that ends, and that holds between containers sharing a volume. Node has no flock; a file with a process id in
 * it lies after a kill -9 or across process namespaces, and a native addon would be one for this line alone.
 */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { exists, nodeFiles } from './files.js';

/** `isLocked` shares the lock for an instant; a collector that starts just then must not take it for another. */
const PATIENCE_MS = 250;

/** Another collector holds the directory. */
export class DirectoryInUse extends Error {
  override name = 'DirectoryInUse';
}

export interface DirectoryLock {
  release(): void;
}

/**
 * On return this process alone holds `directory`, until `release` or its end.
 * @throws DirectoryInUse when another one does.
 */
export function lockDirectory(directory: string): DirectoryLock {
  nodeFiles.makeDirectory(directory);
  const file = lockPath(directory);
  // SQLite would make it with what the umask leaves, and would not say which file it may not open.
  fs.closeSync(fs.openSync(file, 'a', 0o600));
  const database = new DatabaseSync(file, { timeout: PATIENCE_MS });
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (isLockedError(error)) {
      throw new DirectoryInUse(`${directory} is in use by another collector`, { cause: error });
    }
    throw error;
  }
  return { release: () => database.close() };
}

/** True when a collector holds `directory` now. Needs to read the lock only, and so answers on a snapshot too. */
export function isLocked(directory: string): boolean {
  const file = lockPath(directory);
  if (!exists(file)) return false;
  fs.closeSync(fs.openSync(file, 'r'));
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    // Any reading at all takes the shared lock, which the exclusive one shuts out.
    database.prepare('SELECT 1 FROM sqlite_schema').get();
    return false;
  } catch (error) {
    if (isLockedError(error)) return true;
    throw error;
  } finally {
    database.close();
  }
}

function lockPath(directory: string): string {
  return path.join(directory, 'lock');
}

function isLockedError(error: unknown): boolean {
  return error instanceof Error && error.message.includes('locked');
}
