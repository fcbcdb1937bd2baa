/**
 * What in a data directory is not of the kind that its name stands for: a pipe, on which a reader would wait forever, or
 * a directory in the place of a file, of which the system's error would not say the name.
 */
import fs from 'node:fs';
import path from 'node:path';
import { exists } from '../files.js';
import { DirectoryInUse, type DirectoryLock, lockDirectory, LockUnfit } from '../store/directory-lock.js';
import { checkpointDirectory, RESTORING } from '../store/open.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';

/** Of what proves the log. */
export const PROOF_DIRECTORIES = ['checkpoints', 'checkpoints/rotations', 'tree'] as const;
/** Of the log and its proof. */
export const LOG_DIRECTORIES = ['ledger', ...PROOF_DIRECTORIES] as const;
/** With what finds an event by its id. */
const DIRECTORIES = [...LOG_DIRECTORIES, 'index'] as const;
/** Names of files in the directories; `torn` and `rotations` are directories themselves. */
const FILE_NAME = /\.(segment|note|vkey|checkpoint)$|^latest$|^level-/;

/**
 * @param directories that the command reads; it need not have the permission for others.
 * @throws CommandFailure when there is no log in the data directory, or one that a reader would wait at.
 */
export function assertReadable(dataDir: string, directories: readonly string[] = DIRECTORIES): void {
  assertLedger(dataDir);
  checkRegular(dataDir, directories);
}

/** @throws CommandFailure when there is no log in the data directory. */
export function assertLedger(dataDir: string): void {
  if (exists(path.join(dataDir, 'ledger'))) return;
  throw new CommandFailure(
    `${dataDir} holds no ledger; name the data directory by --data-dir`,
    EXIT.notFound,
  );
}

/**
 * @param directories that files are read from without a look at each.
 * @throws CommandFailure that names the first one, or whatever the system says.
 */
export function checkRegular(dataDir: string, directories: readonly string[] = DIRECTORIES): void {
  for (const directory of directories.map((name) => path.join(dataDir, name))) {
    const found = fs.statSync(directory, { throwIfNoEntry: false });
    if (found === undefined) continue;
    if (!found.isDirectory()) throw misplaced(directory, 'not a directory, and must be one');
    for (const name of fs.readdirSync(directory)) {
      const file = path.join(directory, name);
      const stat = fs.statSync(file, { throwIfNoEntry: false });
      if (stat?.isDirectory() === true && FILE_NAME.test(name)) throw misplaced(file, IS_DIRECTORY);
      if (stat === undefined || stat.isFile() || stat.isDirectory()) continue;
      throw new CommandFailure(`${file} is no regular file, and was not opened`, EXIT.failure);
    }
  }
}

const IS_DIRECTORY = 'a directory, and must be a file';

/** The same of all that a start reads, What is derived is rebuilt, and the access log keeps no event out. */
export function checkDataDirectory(dataDir: string): void {
  const keys = path.join(dataDir, 'keys.db');
  if (fs.statSync(keys, { throwIfNoEntry: false })?.isDirectory() === true)
    throw misplaced(keys, IS_DIRECTORY);
  if (exists(path.join(dataDir, RESTORING)))
    throw new CommandFailure(
      `a restore to ${dataDir} was cut short: remove the directory, and restore the back-up again`,
      EXIT.damaged,
    );
  checkRegular(dataDir);
}

function misplaced(file: string, what: string): CommandFailure {
  return new CommandFailure(`${file} is ${what}`, EXIT.damaged);
}

/**
 * On return this process alone holds the data directory, until the lock is released or the process ends.
 * @throws CommandFailure, also when something there is not of the kind that its name stands for.
 * @param advice follows what is said when another process holds it.
 */
export function holdDirectory(dataDir: string, advice = ''): DirectoryLock {
  checkDataDirectory(dataDir);
  try {
    return lockDirectory(dataDir);
  } catch (error) {
    if (error instanceof DirectoryInUse)
      throw new CommandFailure(error.message + advice, EXIT.inUse, { cause: error });
    if (error instanceof LockUnfit) throw new CommandFailure(error.message, EXIT.damaged, { cause: error });
    throw error;
  }
}

/** Segments, or a checkpoint, which says that there were some. */
export function holdsLog(dataDir: string): boolean {
  return (
    holds(path.join(dataDir, 'ledger'), /\.segment$/) ||
    holds(checkpointDirectory(dataDir), /^latest$|\.checkpoint$/)
  );
}

/**
 * The end of the log looks the same where the disk has lost it; a checkpoint knows its size.
 * @param claimed the size that the newest checkpoint had before the log was read.
 * @throws CommandFailure when fewer entries can be read.
 */
export function assertReaches(entries: number, claimed: number): void {
  if (entries >= claimed) return;
  throw new CommandFailure(
    `the log can be read up to entry ${entries}, and a checkpoint was signed over ${claimed} entries; see collector verify`,
    EXIT.damaged,
  );
}

/** Whether it is a directory and such a name is in it. */
export function holds(directory: string, isOne: RegExp): boolean {
  if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) return false;
  return fs.readdirSync(directory).some((name) => isOne.test(name));
}

/** @throws CommandFailure if one of the directories lies in the other: a copy is outside of what it is a copy of. */
export function assertApart(directory: string, other: string, what: string): void {
  const [one, two] = [directory, other].map(real);
  const holds = (outer = '', inner = '') => inner === outer || inner.startsWith(`${outer}${path.sep}`);
  if (holds(one, two) || holds(two, one))
    throw usage(`${directory} and ${what}, ${other}, are one inside the other`);
}

/** The real path, of a directory that may not be there yet. */
export function real(directory: string): string {
  const resolved = path.resolve(directory);
  if (fs.existsSync(resolved)) return fs.realpathSync(resolved);
  return path.join(real(path.dirname(resolved)), path.basename(resolved));
}
