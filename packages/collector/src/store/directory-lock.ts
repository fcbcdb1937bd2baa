/**
 * The lock that allows one collector per data directory.
 *
 * It is an operating-system lock that SQLite takes on a separate file. It ends with its process, and works
 * between containers that share a volume. Node has no flock; a file with a process id is wrong after a kill
 * -9 or across process namespaces, and a native addon would be needed for nothing else.
 *
 * A lock belongs to a file, not to its name: after a removal of the name a second collector can lock a new
 * file. So the first one checks the name once a second and stops (SegmentLog), and the second one waits for
 * that.
 */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type HeldFile, exists, makeFile, nodeFiles } from '../files.js';
import { OPEN } from '../readers.js';

/** A starting collector waits this long, because `isLocked` takes a shared lock for an instant. */
const PATIENCE_MS = 250;

/** Time in which a collector notices that its lock file was removed, answers its last requests and ends. */
const NAMELESS_MS = 3000;

/** Thrown if another collector has locked the directory. */
export class DirectoryInUse extends Error {
  override name = 'DirectoryInUse';
}

/** Thrown if `lock` is not the lock file of a collector. */
export class LockUnfit extends Error {
  override name = 'LockUnfit';
}

export interface DirectoryLock {
  readonly file: HeldFile;
  release(): void;
}

/**
 * Locks a directory until `release` or the end of this process.
 * @throws DirectoryInUse if another process has locked it; LockUnfit.
 */
export function lockDirectory(directory: string): DirectoryLock {
  nodeFiles.makeDirectory(directory);
  const file = lockPath(directory);
  // SQLite would create it with the umask, and its error would not name the file.
  const fault = lockFault(directory);
  if (fault !== undefined) throw new LockUnfit(fault);
  const isNew = !exists(file);
  makeFile(file);
  const database = new DatabaseSync(file, { timeout: PATIENCE_MS });
  let held: HeldFile;
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    held = { path: file, id: nodeFiles.look(file)?.id ?? '' };
  } catch (error) {
    database.close();
    if (isLockedError(error)) {
      throw new DirectoryInUse(`${directory} is in use by another collector`, { cause: error });
    }
    throw error;
  }
  if (isNew && exists(path.join(directory, 'ledger'))) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, NAMELESS_MS);
  }
  return { file: held, release: () => database.close() };
}

/** Whether a collector has locked `directory`. Only reads the lock file, so it works on a snapshot too. */
export function isLocked(directory: string): boolean {
  const file = lockPath(directory);
  if (!exists(file) || lockFault(directory) !== undefined) return false;
  fs.closeSync(fs.openSync(file, 'r'));
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    // Any read takes the shared lock, which the exclusive lock excludes.
    database.prepare('SELECT 1 FROM sqlite_schema').get();
    return false;
  } catch (error) {
    if (isLockedError(error)) return true;
    throw error;
  } finally {
    database.close();
  }
}

/** The fault of the lock file; undefined if a collector can lock it. */
export function lockFault(directory: string): string | undefined {
  const file = lockPath(directory);
  const found = fs.statSync(file, { throwIfNoEntry: false });
  if (found === undefined || (found.isFile() && found.size === 0)) return undefined;
  return (
    `${file} is not an empty file and so not the lock of a collector: move it away while no ` +
    'collector runs there'
  );
}

function lockPath(directory: string): string {
  return path.join(directory, 'lock');
}

function isLockedError(error: unknown): boolean {
  return error instanceof Error && error.message.includes('locked');
}

/**
 * Checks whether other users can enter a data directory. This is only reported, because group access may be
 * intended for a back-up, unless --read-group opened it. Files that the collector creates are private or open
 * to that group, regardless of the umask.
 * @returns the fault and its fix; undefined if there is none.
 */
export function exposureOf(dataDirectory: string): string | undefined {
  // On Windows Node derives modes from one read-only bit.
  if (process.platform === 'win32') return undefined;
  const { mode } = fs.statSync(dataDirectory);
  if ((mode & 0o077) === 0 || (mode & 0o7777) === OPEN.entered) return undefined;
  return `${dataDirectory} can be entered by other users; it holds patient data: chmod 700`;
}
