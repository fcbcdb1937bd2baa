/**
 * `--read-group`: opens the files that a reader of runs and proofs needs to a group of the host, or makes
 * them private again. readers.ts has the modes and the names.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { exists } from '../files.js';
import { kekFileOf, type KeyPlaces } from '../privacy/key-directories.js';
import { KeysUnfit } from '../privacy/key-vault.js';
import {
  directoryMode,
  isForReaders,
  isOpenToReaders,
  O_PATH,
  OPEN,
  OPEN_DIRECTORIES,
  PRIVATE,
  SET_GROUP_ID,
} from '../readers.js';
import { notesKeys, readKeyPlaces } from '../store/key-places.js';
import { systemCode } from '../system-code.js';
import { Unusable } from '../unusable.js';
import type { EncryptionSettings } from './payload-encryption.js';

export interface ReadGroupSettings extends EncryptionSettings {
  /** The name or number of the group; empty if only the owner reads the files. */
  readonly readGroup: string;
}

/** Absolute, so that PATH cannot replace it. It knows the groups of a directory service too. */
const GETENT = '/usr/bin/getent';
const ANSWERED_MS = 5000;
const GROUP_BITS = 0o070;
const UNIT = '; under systemd use deploy/systemd/collector-read-group.conf';

/** The number of a group; undefined if the host has no such group. */
function groupId(group: string): number | undefined {
  const named = groupsOfHost().find(([name]) => name === group)?.[2] ?? askedGroup(group)?.[2] ?? group;
  return /^\d{1,9}$/.test(named) ? Number(named) : undefined;
}

/** The group to which a data directory is open, or its number if it has no name here; undefined if none. */
export function readGroupOf(dataDir: string): string | undefined {
  if (!isOpenToReaders(dataDir)) return undefined;
  const { gid } = fs.statSync(dataDir);
  const entry = groupsOfHost().find(([, , number]) => number === String(gid)) ?? askedGroup(String(gid));
  return entry?.[0] ?? String(gid);
}

/** The entries of group(5), split into fields: name, password, number, members. */
function groupsOfHost(): string[][] {
  try {
    return fs
      .readFileSync('/etc/group', 'utf8')
      .split('\n')
      .map((line) => line.split(':'));
  } catch {
    return [];
  }
}

function askedGroup(group: string): string[] | undefined {
  try {
    const text = execFileSync(GETENT, ['--', 'group', group], {
      ...{ encoding: 'utf8', env: {}, timeout: ANSWERED_MS, stdio: ['ignore', 'pipe', 'ignore'] },
    });
    return text.trim().split(':');
  } catch {
    return undefined;
  }
}

/**
 * The reason why the files cannot be opened to the group; undefined if they can, or no group is given. Tries
 * it with a new directory in each place, which it removes.
 */
export function readGroupFault(settings: ReadGroupSettings): string | undefined {
  const { readGroup, dataDir } = settings;
  if (readGroup === '') return undefined;
  const gid = groupId(readGroup);
  if (gid === undefined) return `there is no group ${readGroup} on this host`;
  const places = keysOf(settings);
  const keys = places?.directories ?? [];
  const database = keys.find((directory) => directory.includes('://'));
  if (database !== undefined)
    return 'the payload keys are in PostgreSQL, which cannot be opened to a group of this host';
  const beside = places && kekBesideKeys(places);
  if (beside !== undefined)
    return (
      `the key that wraps the payload keys is beside them (${beside}): keep it elsewhere, by --kek ` +
      'file:PATH or command:PROGRAM at the first start, later by collector encryption-keys rewrap'
    );
  for (const directory of [dataDir, ...keys]) {
    const fault = trialFault(directory, gid, readGroup);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** The payload keys that a start would use; undefined if payloads are not encrypted. */
function keysOf({ dataDir, encryption, encryptionKeys, kek }: ReadGroupSettings): KeyPlaces | undefined {
  const isNew = !exists(path.join(dataDir, 'ledger'));
  if (!notesKeys(dataDir) && encryption !== 'on' && (encryption === 'off' || !isNew)) return undefined;
  const noted = notedKeys(dataDir);
  const given = encryptionKeys.split(',').filter((directory) => directory !== '');
  const resolved = given.map((each) => (each.includes('://') ? each : path.resolve(each)));
  return { directories: given.length > 0 ? resolved : noted.directories, kek: kek || noted.kek };
}

/** The noted keys; none if the note is invalid, which the start reports. */
function notedKeys(dataDir: string): KeyPlaces {
  try {
    return readKeyPlaces(dataDir);
  } catch (error) {
    if (error instanceof KeysUnfit) return { directories: [], kek: '' };
    throw error;
  }
}

/** The file that is the wrapping key, or would become it, in a key directory. */
function kekBesideKeys({ directories, kek }: KeyPlaces): string | undefined {
  const beside = directories.map(kekFileOf);
  const [, file] = /^file:(.*)$/s.exec(kek) ?? [];
  if (file !== undefined && directories.some((each) => path.resolve(file).startsWith(each + path.sep)))
    return file;
  return kek === '' ? beside[0] : beside.find((each) => exists(each));
}

/** Why a directory in this one cannot be opened to the group; undefined also without such a directory. */
function trialFault(within: string, gid: number, group: string): string | undefined {
  if (process.platform === 'win32') return 'files on this system have no groups';
  let trial: string;
  try {
    trial = fs.mkdtempSync(path.join(within, '.read-group-'));
  } catch {
    // The start reports a directory that it cannot write.
    return undefined;
  }
  try {
    return openFault(trial, OPEN.listed, { gid, group });
  } finally {
    fs.rmdirSync(trial);
  }
}

/**
 * Opens the files to the group, or makes them private again. The caller holds the lock of the directory.
 * @throws Unusable if a file cannot be opened.
 */
export function applyReadGroup(settings: ReadGroupSettings): void {
  const { dataDir, readGroup } = settings;
  const { directories: noted, leftOut = [] } = notedKeys(dataDir);
  const former = [...noted, ...leftOut.map(({ directory }) => directory)];
  const wanted = readGroup === '' ? [] : [dataDir, ...(keysOf(settings)?.directories ?? [])];
  for (const directory of [dataDir, ...former])
    if (!wanted.includes(directory) && isMarked(directory)) close(directory);
  if (wanted.length === 0) return;
  const gid = groupId(readGroup);
  if (gid === undefined) throw new Unusable(`--read-group: there is no group ${readGroup} on this host`);
  for (const directory of wanted)
    if (exists(directory)) openAll(fs.realpathSync(directory), OPEN.entered, { gid, group: readGroup });
}

/** A group, and the name by which it was given. */
interface Group {
  readonly gid: number;
  readonly group: string;
}

/** Whether the option has opened a directory or one in it. */
function isMarked(directory: string): boolean {
  const places = [directory, ...OPEN_DIRECTORIES.map((name) => path.join(directory, name))];
  return places.some((each) => {
    const found = fs.lstatSync(each, { throwIfNoEntry: false });
    return found?.isDirectory() === true && (found.mode & SET_GROUP_ID) !== 0;
  });
}

/** @throws Unusable */
function openAll(directory: string, mode: number, to: Group): void {
  const opened = (place: string, wanted: number) => {
    const fault = openFault(place, wanted, to);
    if (fault !== undefined) throw new Unusable(`--read-group: ${fault}`);
  };
  // First, so that what other processes create meanwhile is open.
  opened(directory, mode);
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    const place = path.join(directory, entry.name);
    const open = directoryMode(entry.name);
    if (open !== undefined && entry.isSymbolicLink())
      throw new Unusable(`--read-group: ${place} is a symbolic link: mount its disk there`);
    const within = entry.isDirectory() ? open : undefined;
    if (within !== undefined) openAll(place, within, to);
    else if (entry.isFile() && isForReaders(place, mode)) opened(place, OPEN.file);
    else if (entry.isFile() || entry.isDirectory()) withhold(place, to.gid);
  }
}

/** Makes everything that the option opened private. @throws Unusable */
function close(directory: string): void {
  const place = fs.realpathSync(directory);
  closeAll(place, OPEN.entered);
  if ((fs.statSync(place).mode & GROUP_BITS) !== 0)
    throw new Unusable(`${directory} is open to a group and cannot be made private: chmod 700`);
}

/** Closes each directory last: while it is marked, another start repeats this. */
function closeAll(directory: string, mode: number): void {
  changed(directory, (name) => setMode(name, PRIVATE.directory | SET_GROUP_ID));
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    const place = path.join(directory, entry.name);
    const within = entry.isDirectory() ? directoryMode(entry.name) : undefined;
    if (within !== undefined) closeAll(place, within);
    else if (entry.isFile() && isForReaders(place, mode))
      changed(place, (name) => setMode(name, PRIVATE.file));
  }
  changed(directory, (name) => setMode(name, PRIVATE.directory));
}

/** Takes the rights of the group on something that readers do not need. */
function withhold(place: string, gid: number): void {
  changed(place, (name, found) => {
    if (found.gid === gid && (found.mode & GROUP_BITS) !== 0)
      setMode(name, found.mode & 0o7777 & ~GROUP_BITS);
    return undefined;
  });
}

/** Opens a file or directory to a group. @returns the reason why that is not possible. */
function openFault(place: string, mode: number, { gid, group }: Group): string | undefined {
  const notMember = `this process is not in the group ${group}, and so cannot give it files${UNIT}`;
  const notKept =
    `the file system of ${path.dirname(place)} keeps no groups and access rights, or the group ${group} is ` +
    `not known in this container${UNIT}`;
  const isMember =
    process.getuid?.() === 0 || [process.getegid?.(), ...(process.getgroups?.() ?? [])].includes(gid);
  return changed(place, (name, found) => {
    if ((found.mode & 0o7777) === mode && found.gid === gid) return undefined;
    if (!isMember) return notMember;
    if (found.gid !== gid && !setGroup(name, found.uid, gid)) return notKept;
    if (!setMode(name, mode & 0o777)) return notKept;
    if ((mode & SET_GROUP_ID) === 0 || setMode(name, mode)) return undefined;
    return `this process may not set the set-group-id bit of a directory${UNIT}`;
  });
}

/**
 * Calls `change` with a name of the file that no other process can replace by a link. The descriptor only
 * names the file: closing one that can read would release the lock of this process on the file `lock`.
 * @returns its result; undefined if there is no such file.
 */
function changed<Result>(
  place: string,
  change: (name: string, found: fs.Stats) => Result,
): Result | undefined {
  if (process.platform !== 'linux') return change(place, fs.lstatSync(place));
  let fd: number;
  try {
    fd = fs.openSync(place, O_PATH | fs.constants.O_NOFOLLOW);
  } catch (error) {
    // Another process has removed it.
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const found = fs.fstatSync(fd);
    return found.isSymbolicLink() ? undefined : change(`/proc/self/fd/${fd}`, found);
  } finally {
    fs.closeSync(fd);
  }
}

/** @returns whether the file system has kept it. */
function setGroup(name: string, uid: number, gid: number): boolean {
  return isKept(
    () => fs.chownSync(name, uid, gid),
    () => fs.statSync(name).gid === gid,
  );
}

function setMode(name: string, mode: number): boolean {
  return isKept(
    () => fs.chmodSync(name, mode),
    () => (fs.statSync(name).mode & 0o7777) === mode,
  );
}

function isKept(change: () => void, look: () => boolean): boolean {
  try {
    change();
    return look();
  } catch (error) {
    if (['EPERM', 'EINVAL', 'ENOSYS', 'EOPNOTSUPP', 'ENOTSUP'].includes(systemCode(error) ?? ''))
      return false;
    throw error;
  }
}
