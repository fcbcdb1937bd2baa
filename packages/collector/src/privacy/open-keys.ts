/** Opens or creates the key directories of a log, for the one process that writes it. */
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
  /**
   * Directories that had keys. If one of them is empty, a mount has probably failed, and it is not filled.
   */
  readonly known?: readonly string[];
  /** The currently noted directories: a command may have added a mirror. */
  readonly noted?: () => readonly string[];
  readonly files?: Files;
}

/**
 * Opens the keys, or creates them if there are none and none are needed.
 * @throws KeysUnfit if they belong to another log, or are needed and missing; KekFault; VaultAway.
 */
export async function openKeys(options: DirectoryKeysOptions): Promise<PayloadKeys> {
  const { places, ledgerId, known = [], isNeeded = false, onTrouble, files = nodeFiles } = options;
  assertApart(places);
  const noted = () => {
    try {
      return options.noted?.() ?? [];
    } catch (error) {
      onTrouble('the note about the key directories cannot be read', error);
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

/** Creates a key-encryption key, durably in the first directory and, if there are several, in one more. */
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
    throw new VaultAway('too few key directories can be written', { cause: failure });
}

/**
 * Writes the right file `kek` to each directory with keys.
 * @param had directories that had keys before this start.
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
      onTrouble(`the file kek of ${directory} is replaced by the right one of another directory`, fault);
    try {
      writeKek(directory, content, files);
    } catch (error) {
      onTrouble(`the file kek of ${directory} cannot be written`, error);
    }
  }
}
