/** Opens the keys of a log in directories for the one process that writes it, or makes them. */
import { nodeFiles, type Files } from '../files.js';
import { KeyFiles } from './key-files.js';
import {
  assertApart,
  hasKeys,
  kekBytes,
  kekFiles,
  kekOf,
  type KeyPlaces,
  otherLogIn,
  vaultOf,
  writeKek,
} from './key-directories.js';
import { isKekFile, newKekFile } from './key-encryption-key.js';
import { KeysUnfit, type KeyVault, VaultAway } from './key-vault.js';
import { PayloadKeys, type PayloadKeysOptions } from './payload-keys.js';

export interface DirectoryKeysOptions extends Omit<PayloadKeysOptions, 'vault' | 'kek' | 'hasPlaces'> {
  readonly places: KeyPlaces;
  /** Directories that had keys: one of them without any is a mount that failed, and is not filled. */
  readonly known?: readonly string[];
  /** The directories as they are noted by now: a command may have named another mirror. */
  readonly noted?: () => readonly string[];
  readonly files?: Files;
}

/**
 * For the one process that writes the log. Makes keys where there are none.
 * @throws KeysUnfit when they are those of another log, or are needed and not there; KekFault; VaultAway.
 */
export async function openKeys(options: DirectoryKeysOptions): Promise<PayloadKeys> {
  const { places, ledgerId, known = [], isNeeded = false, onTrouble, files = nodeFiles } = options;
  assertApart(places);
  const noted = () => {
    try {
      return options.noted?.() ?? [];
    } catch (error) {
      onTrouble('it cannot be seen which directories have the keys of payloads', error);
      return [];
    }
  };
  for (const directory of places.directories) {
    const other = otherLogIn(new KeyFiles(directory, files), ledgerId);
    if (other !== undefined)
      throw new KeysUnfit(`the keys in ${directory} are those of another log (${other})`);
  }
  const vault = vaultOf(places, { ledgerId, known, noted }, files);
  const isOwnKek = places.kek === '';
  const had = places.directories.filter((each) => hasKeys({ directories: [each], kek: '' }, files));
  if (isOwnKek && !isNeeded && !hasKeys(places, files)) makeKek(places, files);
  const keys = await PayloadKeys.open({ ...options, vault, kek: kekOf(places, vault) });
  if (isOwnKek) levelKekFiles(places, vault, { had, onTrouble, files });
  return keys;
}

/** On return there is a key to wrap others by, durably in the first directory and in one more where there are several. */
function makeKek({ directories }: KeyPlaces, files: Files): void {
  const there = directories.map((directory) => kekBytes(directory, files));
  const kek = there.find((bytes) => bytes !== undefined && isKekFile(bytes)) ?? newKekFile();
  let written = 0;
  let failure: unknown;
  for (const [i, directory] of directories.entries()) {
    try {
      writeKek(directory, kek, files);
      written++;
    } catch (error) {
      failure = error;
      if (i === 0) break;
    }
  }
  if (written < Math.min(2, directories.length))
    throw new VaultAway('too few of the directories of keys can be written', { cause: failure });
}

/**
 * On return each directory with keys that can be written has the right file `kek`.
 * @param had those that had keys before this start.
 */
function levelKekFiles(
  places: KeyPlaces,
  vault: KeyVault,
  {
    had,
    onTrouble,
    files,
  }: Pick<DirectoryKeysOptions, 'onTrouble'> & { readonly had: readonly string[]; readonly files: Files },
): void {
  const found = kekFiles(places, vault);
  const right = found.find(({ kek }) => kek !== undefined);
  const content = right && kekBytes(right.directory, files);
  for (const { directory, fault } of found) {
    if (
      fault === undefined ||
      content === undefined ||
      !hasKeys({ directories: [directory], kek: '' }, files)
    )
      continue;
    if (had.includes(directory))
      onTrouble(
        `the file kek of ${directory} is not used: that of another directory is the right one`,
        fault,
      );
    try {
      writeKek(directory, content, files);
    } catch (error) {
      onTrouble(`the file kek of ${directory} cannot be written`, error);
    }
  }
}
