/**
 * Checks that files and directories in a data directory have the expected type: a reader would wait forever
 * on a pipe, and the system's error for a directory in place of a file does not name it.
 */
import fs from 'node:fs';
import path from 'node:path';
import { exists } from '../files.js';
import { checkpointDirectory, isShared, RESTORING, type StoreSettings } from '../store/open.js';
import { isAccessLogName } from '../tree/access-chain.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { printable } from './terminal.js';

/** The files that prove the log. */
export const PROOF_DIRECTORIES = ['checkpoints', 'checkpoints/rotations', 'tree'] as const;
/** The log and its proof. */
export const LOG_DIRECTORIES = ['ledger', ...PROOF_DIRECTORIES] as const;
/** The log, its proof, and the files that find an event by its id. */
const DIRECTORIES = [...LOG_DIRECTORIES, 'index'] as const;
/** Names of files in these directories; `torn` and `rotations` are directories. */
const FILE_NAME = /\.(segment|note|vkey|checkpoint)$|^latest$|^level-/;

/**
 * @param directories that the command reads; others need not be accessible.
 * @throws CommandFailure if there is no log in the data directory, or a file of another type is in it.
 */
export function assertReadable(dataDir: string, directories: readonly string[] = DIRECTORIES): void {
  assertLedger(dataDir);
  checkRegular(dataDir, directories);
}

/** @throws CommandFailure if there is no log in the data directory. */
export function assertLedger(dataDir: string): void {
  if (exists(path.join(dataDir, 'ledger'))) return;
  throw new CommandFailure(
    `${dataDir} holds no ledger; name the data directory with --data-dir`,
    EXIT.notFound,
  );
}

/**
 * @param directories whose files are read later without a check.
 * @throws CommandFailure that names the first unexpected type; or the system's error.
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
      throw new CommandFailure(`${file} is not a regular file and was not opened`, EXIT.failure);
    }
  }
}

const IS_DIRECTORY = 'a directory, and must be a file';

/** The same check for everything that a start reads. Derived files are rebuilt, so they are not checked. */
export function checkDataDirectory(dataDir: string): void {
  const keys = path.join(dataDir, 'keys.db');
  if (fs.statSync(keys, { throwIfNoEntry: false })?.isDirectory() === true)
    throw misplaced(keys, IS_DIRECTORY);
  if (exists(path.join(dataDir, RESTORING)))
    throw new CommandFailure(
      `a restore to ${dataDir} was interrupted: remove the directory and restore the back-up again`,
      EXIT.damaged,
    );
  checkRegular(dataDir);
}

function misplaced(file: string, what: string): CommandFailure {
  return new CommandFailure(`${file} is ${what}`, EXIT.damaged);
}

/** Whether there are segments, or a checkpoint, which proves that there were some. */
export function holdsLog(dataDir: string): boolean {
  return (
    holds(path.join(dataDir, 'ledger'), /\.segment$/) ||
    holds(checkpointDirectory(dataDir), /^latest$|\.checkpoint$/)
  );
}

/** What other programs have too: it shows nothing. */
const COMMON = ['lock', 'ledger', 'lost+found'];
/** Any of these shows that a directory is a data directory, also before the first start and after a loss. */
const OWN = [
  'keys.db',
  'access.sock',
  'signing-keys',
  'encryption-keys',
  'encryption-keys.json',
  'kek',
  RESTORING,
];

/**
 * Refuses a directory of something else, in which a log would be begun among other files. The directory of a
 * collector on a log in a database has no log.
 * @throws CommandFailure
 */
export function assertOwn({ dataDir, store }: StoreSettings): void {
  if (isShared({ store })) return;
  if (fs.statSync(dataDir, { throwIfNoEntry: false })?.isDirectory() !== true || holdsLog(dataDir)) return;
  if (holds(path.join(dataDir, 'index'), /\.run$/) || holds(path.join(dataDir, 'tree'), /^level-/)) return;
  const names = fs.readdirSync(dataDir).filter((name) => !COMMON.includes(name) && !name.startsWith('.'));
  const [other] = names;
  if (other === undefined || names.some((name) => OWN.includes(name) || isAccessLogName(name))) return;
  throw usage(
    `${dataDir} holds ${printable(other)} and no log, so it is not a data directory: give a new directory ` +
      'or an empty one with --data-dir',
  );
}

/**
 * A truncated log looks like a complete one; a checkpoint reveals the difference.
 * @param claimed the size of the newest checkpoint, read before the log.
 * @throws CommandFailure if fewer entries can be read.
 */
export function assertReaches(entries: number, claimed: number): void {
  if (entries >= claimed) return;
  throw new CommandFailure(
    `the log can be read up to entry ${entries} only, but a checkpoint covers ${claimed} entries; see ` +
      'collector verify',
    EXIT.damaged,
  );
}

/** Whether the directory exists and contains a matching name. */
export function holds(directory: string, isOne: RegExp): boolean {
  if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) return false;
  return fs.readdirSync(directory).some((name) => isOne.test(name));
}

/**
 * @throws CommandFailure if one of the directories is inside the other: a copy must be separate from its
 *   source.
 */
export function assertApart(directory: string, other: string, what: string): void {
  const [one, two] = [directory, other].map(real);
  const holds = (outer = '', inner = '') => inner === outer || inner.startsWith(`${outer}${path.sep}`);
  if (holds(one, two) || holds(two, one))
    throw usage(`${directory} and ${what}, ${other}, must not be inside one another`);
}

/** The real path of a directory that need not exist yet. */
export function real(directory: string): string {
  const resolved = path.resolve(directory);
  if (fs.existsSync(resolved)) return fs.realpathSync(resolved);
  return path.join(real(path.dirname(resolved)), path.basename(resolved));
}
