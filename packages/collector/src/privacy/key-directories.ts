/**
 * The keys of a log on disk, apart from its data: a directory, and mirrors of it. Where `--kek` names no other key, each has
 * the key that wraps the others beside them, in a file `kek`.
 */
import fs from 'node:fs';
import path from 'node:path';
import { nodeFiles, readFrom, replaceNow, type Files } from '../files.js';
import { DirectoryVault, type DirectoryVaultOptions } from './directory-vault.js';
import { KekFault, LazyKek, openKek, type KeyEncryptionKey } from './key-encryption-key.js';
import { KeyFiles, removeOverwritten } from './key-files.js';
import { COPIES, copiesBytes, copiesIn, epochName, NAMES, stateNames, type KeyCopy } from './key-record.js';
import { KeysUnfit, type KeyVault, type RecordName, VaultAway } from './key-vault.js';
import { epochRecordOf, epochsOf, newestOf, OpenedVault, unwrapped } from './opened-vault.js';
import { KeyReader } from './stored-keys.js';

const KEK_NAME = 'kek';

/** Where the keys are: the directory that is written first, its mirrors, and what wraps them. */
export interface KeyPlaces {
  /** At least one. */
  readonly directories: readonly string[];
  /** As `--kek` has it; empty: the file `kek` in each directory. */
  readonly kek: string;
  /** Directories that were among them until then (RFC 3339), and may still have the keys. */
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

/** Whether any of the directories has keys. */
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

/** For readers. @returns undefined when there are no keys. */
export function readKeys(places: KeyPlaces, files: Files = nodeFiles): KeyReader | undefined {
  if (!hasKeys(places, files)) return undefined;
  const vault = vaultOf(places, {}, files);
  return KeyReader.open(vault, kekOf(places, vault));
}

/** The log whose keys a directory has, where it is not this one; undefined where it cannot be reached too. */
export function otherLogIn(files: KeyFiles, ledgerId: string): string | undefined {
  try {
    const ledger = files.ledger();
    return ledger === ledgerId ? undefined : ledger;
  } catch (error) {
    // Whoever writes there says so.
    if (error instanceof VaultAway) return undefined;
    throw error;
  }
}

/** What wraps the keys, once it is asked for. */
export function kekOf(places: KeyPlaces, vault: KeyVault = vaultOf(places)): KeyEncryptionKey {
  return new LazyKek(() => (places.kek === '' ? kekBeside(places, vault) : openKek(places.kek)));
}

/** The file `kek` of a directory: what it holds, or why it does not wrap the keys that are there. */
interface KekFile {
  readonly directory: string;
  readonly kek?: KeyEncryptionKey;
  readonly fault?: KekFault;
}

/** Of each directory that answers. */
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
  // The same key where others may read it, say: that has to be corrected first.
  for (const { directory, fault } of found)
    if (fault !== undefined && content !== undefined && kekBytes(directory)?.equals(content) === true)
      throw fault;
  return right.kek;
}

/** Another key wraps the keys from now on: on return no directory has a file `kek` any more, and it is overwritten. */
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

/** The keys of a log, for a person. */
export interface KeyInventory {
  readonly ledger: string;
  readonly epoch: number;
  readonly epochBegun: string;
  readonly buckets: number;
  /** Copies that were made of them, and when each is to be gone (RFC 3339). */
  readonly copies: readonly KeyCopy[];
  /** Of each directory: how many files it lacks, or has in an older state or damaged. */
  readonly directories: readonly {
    readonly directory: string;
    readonly isThere: boolean;
    readonly behind: number;
    /** Why its file `kek` does not open the keys. */
    readonly kekFault?: string;
  }[];
}

/** @throws KeysUnfit when there are no keys. */
export function keyInventory(places: KeyPlaces): KeyInventory {
  const vault = vaultOf(places);
  const { ledger, epoch, begun } = newestEpoch(vault);
  const names = recordNames(vault);
  const newest = names.map((name) => newestOf(name, vault.read(name)));
  const keks = places.kek === '' ? kekFiles(places, vault) : undefined;
  return {
    ...{ ledger, epoch, epochBegun: begun, copies: copiesOf(vault).copies },
    buckets: vault.list('buckets').length,
    directories: places.directories.map((directory) => {
      const own = new KeyFiles(directory);
      const held = names.filter((name, i) => isSame(newest[i], heldIn(own, name))).length;
      const kek = keks?.find((each) => each.directory === directory);
      const lacksKek = keks !== undefined && kek?.kek === undefined;
      return {
        ...{ directory, isThere: held > 0, behind: names.length - held + Number(lacksKek) },
        ...(held > 0 && kek?.fault !== undefined && { kekFault: kek.fault.message }),
      };
    }),
  };
}

/** Undefined where the directory has no sound record of this name, or is not there. */
function heldIn(files: KeyFiles, name: RecordName): Buffer | undefined {
  try {
    return files.read(name);
  } catch (error) {
    if (error instanceof VaultAway) return undefined;
    throw error;
  }
}

function isSame(one: Buffer | undefined, other: Buffer | undefined): boolean {
  return one !== undefined && other?.equals(one) === true;
}

function newestEpoch(vault: KeyVault): NonNullable<ReturnType<typeof epochRecordOf>> {
  const number = epochsOf(vault).at(-1) ?? 1;
  const record = epochRecordOf(vault, number);
  if (record !== undefined) return record;
  throw new KeysUnfit(`${epochName(number)} is missing or damaged in ${vault.copies.join(', ')}`);
}

/** The names of all records that each directory has to hold, in an order in which each has its epoch before it. */
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
 * On return a directory that is there holds all that these hold.
 * @param until when a copy is to be gone, which is noted before it is made; a mirror has no end.
 * @throws KeysUnfit when there are no keys, or others there; KekFault; VaultAway.
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

/** On return each of them says so. @throws VaultAway where one cannot. */
async function noteCopy(vault: KeyVault, until: string): Promise<void> {
  const now = new Date().toISOString();
  const { generation, copies } = copiesOf(vault);
  const kept = [...copies.filter((copy) => copy.until > now), { made: now, until }];
  const bytes = copiesBytes({ generation: generation + 1, copies: kept });
  const done = await vault.erase(COPIES, bytes, generation);
  if (done === 'stale') throw new VaultAway('another process notes a copy; try again');
  if (done.length > 0) throw new VaultAway(`${done.join(', ')} cannot be written`);
}

/** On return a directory has no keys any more, and what its files held is overwritten. @throws when it cannot be written. */
export function eraseKeysIn(directory: string): void {
  if (!fs.existsSync(directory)) return;
  // The epochs last: keys without one would be a fault.
  for (const within of ['buckets', 'holds', 'actions', '', 'epochs']) {
    const where = path.join(directory, within);
    const names = fs.existsSync(where) ? fs.readdirSync(where) : [];
    for (const file of names.map((name) => path.join(where, name)))
      if (fs.statSync(file).isFile()) removeOverwritten(nodeFiles, file);
  }
  fs.rmSync(directory, { recursive: true });
  nodeFiles.syncDirectory(path.dirname(directory));
}

/** A directory cannot mirror itself. @throws KeysUnfit */
export function assertApart({ directories }: KeyPlaces): void {
  const places = directories.map((directory) => {
    try {
      return fs.realpathSync(directory);
    } catch {
      return path.resolve(directory);
    }
  });
  const twice = directories.find((_, i) => places.indexOf(places[i] ?? '') !== i);
  if (twice !== undefined)
    throw new KeysUnfit(`${twice} is named twice as a directory of the keys of payloads`);
}
