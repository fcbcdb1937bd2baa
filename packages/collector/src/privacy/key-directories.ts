/**
 * The key directories of a log: the first one and its mirrors. Unless `--kek` names another key, each
 * directory contains the wrapping key in a file `kek`.
 */
import fs from 'node:fs';
import path from 'node:path';
import { counted } from '../quantity.js';
import { nodeFiles, readFrom, replaceNow, type Files } from '../files.js';
import { DirectoryVault, type DirectoryVaultOptions } from './directory-vault.js';
import { KekFault, LazyKek, openKek, type KeyEncryptionKey } from './key-encryption-key.js';
import { KeyFiles, removeOverwritten } from './key-files.js';
import {
  COPIES,
  copiesBytes,
  copiesIn,
  epochName,
  holdName,
  NAMES,
  stateNames,
  type KeyCopy,
} from './key-record.js';
import { KeysUnfit, type KeyVault, type RecordName, VaultAway } from './key-vault.js';
import { epochRecordOf, epochsOf, newestOf, OpenedVault, unwrapped } from './opened-vault.js';
import { KeyReader } from './stored-keys.js';

const KEK_NAME = 'kek';

/** The locations of the keys: the first directory, its mirrors, and the wrapping key. */
export interface KeyPlaces {
  /** The first directory and its mirrors; at least one. */
  readonly directories: readonly string[];
  /** The value of `--kek`; empty for the file `kek` in each directory. */
  readonly kek: string;
  /** Former directories, with the time of their removal (RFC 3339); they may still contain the keys. */
  readonly leftOut?: readonly LeftOut[];
}

export interface LeftOut {
  readonly directory: string;
  readonly since: string;
}

export function vaultOf(
  { directories }: KeyPlaces,
  options: Omit<DirectoryVaultOptions, 'named'> & { readonly noted?: () => readonly string[] } = {},
  files: Files = nodeFiles,
): DirectoryVault {
  const { noted, ...others } = options;
  const at = (names: readonly string[]) => names.map((directory) => new KeyFiles(directory, files));
  return new DirectoryVault(at(directories), { ...others, ...(noted && { named: () => at(noted()) }) });
}

/** Whether one of the directories has keys. */
export function hasKeys({ directories }: KeyPlaces, files: Files = nodeFiles): boolean {
  return directories.some((directory) => {
    try {
      return epochsOf(new KeyFiles(directory, files)).length > 0;
    } catch (error) {
      if (error instanceof VaultAway) return false;
      throw error;
    }
  });
}

/** Opens the keys for reading. @returns undefined if there are no keys. */
export function readKeys(places: KeyPlaces, files: Files = nodeFiles): KeyReader | undefined {
  if (!hasKeys(places, files)) return undefined;
  const vault = vaultOf(places, {}, files);
  return KeyReader.open(vault, kekOf(places, vault));
}

/**
 * The id of the log whose keys are in a directory, if it is another log. Also undefined if the directory
 * cannot be reached.
 */
export function otherLogIn(files: KeyFiles, ledgerId: string): string | undefined {
  try {
    const ledger = files.ledger();
    return ledger === ledgerId ? undefined : ledger;
  } catch (error) {
    // A later write to the directory reports this.
    if (error instanceof VaultAway) return undefined;
    throw error;
  }
}

/** The wrapping key, opened at its first use. */
export function kekOf(places: KeyPlaces, vault: KeyVault = vaultOf(places)): KeyEncryptionKey {
  return new LazyKek(() => (places.kek === '' ? kekBeside(places, vault) : openKek(places.kek)));
}

/** The file `kek` of a directory: the key in it, or the reason why it does not unwrap the keys. */
interface KekFile {
  readonly directory: string;
  readonly kek?: KeyEncryptionKey;
  readonly fault?: KekFault;
}

/** The files `kek` of the directories that exist. */
export function kekFiles({ directories }: KeyPlaces, vault: KeyVault): KekFile[] {
  const newest = epochsOf(vault).at(-1);
  const record = newest === undefined ? undefined : epochRecordOf(vault, newest);
  return directories.filter(fs.existsSync).map((directory) => {
    try {
      const kek = openKek(`file:${kekFileOf(directory)}`);
      if (record !== undefined) unwrapped(kek, record);
      return { directory, kek };
    } catch (error) {
      if (!(error instanceof KekFault)) throw error;
      return { directory, fault: error };
    }
  });
}

function kekBeside(places: KeyPlaces, vault: KeyVault): KeyEncryptionKey {
  const found = kekFiles(places, vault);
  const right = found.find(({ kek }) => kek !== undefined);
  if (right?.kek === undefined)
    throw found[0]?.fault ?? new KekFault(`no file kek in ${places.directories.join(', ')}`);
  const content = kekBytes(right.directory);
  // A fault of another copy of the same key, such as its mode, must be corrected first.
  for (const { directory, fault } of found)
    if (fault !== undefined && content !== undefined && kekBytes(directory)?.equals(content) === true)
      throw fault;
  return right.kek;
}

/** Overwrites and removes the file `kek` of each directory, after an exchange for another key. */
export function eraseKekFiles({ directories }: KeyPlaces): void {
  for (const file of directories.map(kekFileOf)) if (fs.existsSync(file)) removeOverwritten(nodeFiles, file);
}

export function kekFileOf(directory: string): string {
  return path.join(directory, KEK_NAME);
}

export function kekBytes(directory: string, files: Files = nodeFiles): Buffer | undefined {
  const file = kekFileOf(directory);
  try {
    return files.look(file) === undefined ? undefined : readFrom(files, file);
  } catch {
    return undefined;
  }
}

export function writeKek(directory: string, kek: Buffer, files: Files): void {
  if (files.look(directory) === undefined) throw new VaultAway(`there is no directory ${directory}`);
  if (kekBytes(directory, files)?.equals(kek) !== true) replaceNow(files, kekFileOf(directory), kek);
}

/** A summary of the keys of a log. */
export interface KeyInventory {
  readonly ledger: string;
  readonly epoch: number;
  readonly epochBegun: string;
  readonly buckets: number;
  /** Copies made by `copy`, with the time until which each is kept (RFC 3339). */
  readonly copies: readonly KeyCopy[];
  /** For each directory, the number of files that are missing, outdated or damaged. */
  readonly directories: readonly {
    readonly directory: string;
    readonly isThere: boolean;
    readonly behind: number;
    /** Why its file `kek` does not open the keys. */
    readonly kekFault?: string;
  }[];
}

/** @throws KeysUnfit if there are no keys. */
export function keyInventory(places: KeyPlaces): KeyInventory {
  const vault = vaultOf(places);
  const { ledger, epoch, begun } = newestEpoch(vault);
  const names = recordNames(vault);
  const keks = places.kek === '' ? kekFiles(places, vault) : undefined;
  return {
    ...{ ledger, epoch, epochBegun: begun, copies: copiesOf(vault).copies },
    buckets: vault.list('buckets').length,
    directories: places.directories.map((directory) => {
      const different = differencesOf(vault, directory, names).length;
      const isThere = different < names.length;
      const kek = keks?.find((each) => each.directory === directory);
      const lacksKek = keks !== undefined && kek?.kek === undefined;
      return {
        ...{ directory, isThere, behind: different + Number(lacksKek) },
        ...(isThere && kek?.fault !== undefined && { kekFault: kek.fault.message }),
      };
    }),
  };
}

/** A record of a directory that differs from the newest one of all directories. */
interface Difference {
  readonly name: RecordName;
  readonly state: 'missing' | 'damaged' | 'outdated';
}

/** Compares records of a directory with the newest ones of the vault. */
function differencesOf(vault: KeyVault, directory: string, names: readonly RecordName[]): Difference[] {
  const own = new KeyFiles(directory);
  return names.flatMap((name) => {
    const newest = newestOf(name, vault.read(name));
    const held = heldIn(own, name);
    if (newest !== undefined && held?.equals(newest) === true) return [];
    const isThere = fs.existsSync(path.join(directory, name));
    return [{ name, state: held !== undefined ? 'outdated' : isThere ? 'damaged' : 'missing' }];
  });
}

const KIND_OF_RECORD: Readonly<Record<string, string>> = {
  ...{ epochs: 'epoch key', buckets: 'bucket', holds: 'hold key', actions: 'noted action' },
  ...{ [NAMES]: `file ${NAMES}`, [COPIES]: `file ${COPIES}` },
};

/** The differences of a directory from the newest records, as phrases such as `2 buckets missing`. */
export function differencesIn(places: KeyPlaces, directory: string): string[] {
  const vault = vaultOf(places);
  const differences = differencesOf(vault, directory, recordNames(vault));
  const kindOf = ({ name }: Difference) => KIND_OF_RECORD[name.split('/')[0] ?? ''] ?? 'record';
  const groups = Map.groupBy(differences, (each) => `${kindOf(each)} ${each.state}`);
  return [...groups.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [`${counted(1 + others.length, kindOf(first))} ${first.state}`],
  );
}

/** Whether all directories have the newest state of a hold's key; false if one cannot be read. */
export function isHoldKeyEverywhere(places: KeyPlaces, hold: string): boolean {
  const vault = vaultOf(places);
  const names = [holdName(hold)];
  try {
    if (vault.read(holdName(hold)).length === 0) return true;
  } catch (error) {
    if (error instanceof VaultAway) return false;
    throw error;
  }
  return places.directories.every((directory) => differencesOf(vault, directory, names).length === 0);
}

/** The record in a directory; undefined if it is missing or invalid, or the directory cannot be read. */
function heldIn(files: KeyFiles, name: RecordName): Buffer | undefined {
  try {
    return files.read(name);
  } catch (error) {
    if (error instanceof VaultAway) return undefined;
    throw error;
  }
}

function newestEpoch(vault: KeyVault): NonNullable<ReturnType<typeof epochRecordOf>> {
  const number = epochsOf(vault).at(-1) ?? 1;
  const record = epochRecordOf(vault, number);
  if (record !== undefined) return record;
  throw new KeysUnfit(`${epochName(number)} is missing or damaged in ${vault.copies.join(', ')}`);
}

/** The names of all records that each directory must contain; epochs before the states under them. */
function recordNames(vault: KeyVault): RecordName[] {
  const copies = vault.read(COPIES).length > 0 ? [COPIES] : [];
  const names = [...vault.list('epochs'), NAMES, ...stateNames(vault), ...vault.list('actions'), ...copies];
  return [...new Set(names)];
}

function copiesOf(vault: KeyVault): { generation: number; copies: readonly KeyCopy[] } {
  const newest = newestOf(COPIES, vault.read(COPIES));
  return (newest && copiesIn(newest)) ?? { generation: 0, copies: [] };
}

/**
 * Copies all records to an existing directory.
 * @param until time until which a copy is kept, noted before it is made; undefined for a mirror.
 * @throws KeysUnfit if there are no keys, or the directory has the keys of another log; KekFault; VaultAway.
 */
export async function copyKeys(places: KeyPlaces, to: string, until?: string): Promise<void> {
  const vault = vaultOf(places);
  const there = new KeyFiles(to);
  if (otherLogIn(there, newestEpoch(vault).ledger) !== undefined)
    throw new KeysUnfit(`the keys in ${to} are those of another log`);
  if (until !== undefined) await noteCopy(vault, until);
  const opened = new OpenedVault(vault, kekOf(places, vault));
  if (places.kek === '') {
    const right = kekFiles(places, vault).find(({ kek }) => kek !== undefined);
    const kek = right && kekBytes(right.directory);
    if (kek !== undefined) writeKek(to, kek, nodeFiles);
  }
  for (const name of recordNames(vault)) {
    const { bytes } = opened.due(name);
    if (bytes !== undefined) there.put(name, bytes);
  }
}

/** Notes a copy in each directory. @throws VaultAway if one cannot be written. */
async function noteCopy(vault: KeyVault, until: string): Promise<void> {
  const now = new Date().toISOString();
  const { generation, copies } = copiesOf(vault);
  const kept = [...copies.filter((copy) => copy.until > now), { made: now, until }];
  const bytes = copiesBytes({ generation: generation + 1, copies: kept });
  const done = await vault.erase(COPIES, bytes, generation);
  if (done === 'stale') throw new VaultAway('another process has noted a copy; try again');
  if (done.length > 0) throw new VaultAway(`${done.join(', ')} cannot be written`);
}

/** Overwrites and removes all files of a key directory. @throws the error of the file system. */
export function eraseKeysIn(directory: string): void {
  if (!fs.existsSync(directory)) return;
  // Epochs last: key states without their epoch would be a fault.
  for (const within of ['buckets', 'holds', 'actions', '', 'epochs']) {
    const where = path.join(directory, within);
    const names = fs.existsSync(where) ? fs.readdirSync(where) : [];
    for (const file of names.map((name) => path.join(where, name)))
      if (fs.statSync(file).isFile()) removeOverwritten(nodeFiles, file);
  }
  fs.rmSync(directory, { recursive: true });
  nodeFiles.syncDirectory(path.dirname(directory));
}

/** Checks that no directory is named twice. @throws KeysUnfit */
export function assertApart({ directories }: KeyPlaces): void {
  const places = directories.map((directory) => {
    try {
      return fs.realpathSync(directory);
    } catch {
      return path.resolve(directory);
    }
  });
  const twice = directories.find((_, i) => places.indexOf(places[i] ?? '') !== i);
  if (twice !== undefined) throw new KeysUnfit(`${twice} is named twice as a key directory`);
}
