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
import { nodeFiles } from './files.js';

/** `isLocked` holds the lock for an instant; a collector that starts just then must not take it for another. */
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
  const database = new DatabaseSync(path.join(directory, 'lock'), { timeout: PATIENCE_MS });
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (error instanceof Error && error.message.includes('locked')) {
      throw new DirectoryInUse(`${directory} is in use by another collector`, { cause: error });
    }
    throw error;
  }
  return { release: () => database.close() };
}

/** True when a collector holds `directory` now. */
export function isLocked(directory: string): boolean {
  if (!fs.existsSync(path.join(directory, 'lock'))) return false;
  try {
    lockDirectory(directory).release();
    return false;
  } catch (error) {
    if (error instanceof DirectoryInUse) return true;
    throw error;
  }
}
