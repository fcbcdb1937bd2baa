/**
 * What `--read-group` opens to a group: the files that a reader of runs and proofs needs, by their names.
 *
 * A directory of mode 02750 or 02710 is open to its group, to list or only to enter. The set-group-id bit
 * gives new files the group of the directory; {@link admit} gives them their mode. So every thread and every
 * command keeps to the modes without knowing the option.
 */
import fs from 'node:fs';
import path from 'node:path';

export const PRIVATE = { file: 0o600, directory: 0o700 } as const;
/** The mode of a file, of a directory that readers may list, and of one that they may only enter. */
export const OPEN = { file: 0o640, listed: 0o2750, entered: 0o2710 } as const;
export const SET_GROUP_ID = 0o2000;
/** Opens a file or directory only to name it (open(2)); Node.js has no constant for it. */
export const O_PATH = process.platform === 'linux' ? 0o10000000 : 0;

/** Directories in which every file is open, except the states in `checkpoints`. */
const LISTED: ReadonlySet<string> = new Set([
  ...['ledger', 'index', 'tree', 'checkpoints', 'rotations', 'holds', 'erasures'],
  // In a key directory.
  ...['epochs', 'buckets', 'actions'],
]);
const ENTERED: ReadonlySet<string> = new Set(['lifecycle', 'encryption-keys']);
/** Open files in a directory that readers may only enter. */
const FILES: ReadonlySet<string> = new Set(['lock', 'encryption-keys.json', 'names.keys']);
/** The only file in `checkpoints` with a state that readers need (tree/state-files.ts). */
const OPEN_STATE = 'mirror.json';
/** Endings of the names of files that are not complete yet. */
const DRAFT = /\.(?:draft|unfinished)$/;

/** The names below an open directory at which other open directories may be. */
export const OPEN_DIRECTORIES: readonly string[] = [...LISTED, ...ENTERED];

/** The mode of an open directory with this name; undefined if it is private. */
export function directoryMode(name: string): number | undefined {
  if (LISTED.has(name)) return OPEN.listed;
  return ENTERED.has(name) ? OPEN.entered : undefined;
}

/** Whether a file is open in an open directory. @param mode of the directory. */
export function isForReaders(file: string, mode: number): boolean {
  const name = path.basename(file).replace(DRAFT, '');
  const directory = path.basename(path.dirname(file));
  if (mode === OPEN.entered) return FILES.has(name);
  if (mode !== OPEN.listed || !LISTED.has(directory)) return false;
  return directory !== 'checkpoints' || !name.endsWith('.json') || name === OPEN_STATE;
}

function modeAbove(place: string): number {
  return fs.statSync(path.dirname(place)).mode & 0o7777;
}

/** Gives a new, private file the mode that its directory asks for, regardless of the umask. */
export function admit(fd: number, file: string): void {
  if (isForReaders(file, modeAbove(file))) fs.fchmodSync(fd, OPEN.file);
}

/** The same for a new directory. */
export function admitDirectory(directory: string): void {
  const above = modeAbove(directory);
  if (above !== OPEN.listed && above !== OPEN.entered) return;
  const mode = directoryMode(path.basename(directory));
  if (mode !== undefined) fs.chmodSync(directory, mode);
}

/** Whether a group may enter a data directory, and so connect to a socket in it. */
export function isOpenToReaders(dataDir: string): boolean {
  return (fs.statSync(dataDir).mode & 0o7777) === OPEN.entered;
}
