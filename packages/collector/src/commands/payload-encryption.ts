/** How the payloads of a log are encrypted, as the options want it and the log needs it. */
import path from 'node:path';
import { exists, nodeFiles } from '../files.js';
import { copyKeys, eraseKeysIn, hasKeys, type KeyPlaces } from '../privacy/key-directories.js';
import { openKeys } from '../privacy/open-keys.js';
import { KeysUnfit } from '../privacy/key-vault.js';
import type { NotedKeys, WantedKeys } from '../store/contract/driver.js';
import {
  defaultKeys,
  forgetLeftOut,
  noteBegunKeys,
  noteKeyPlaces,
  notesKeys,
  readKeyPlaces,
} from '../store/key-places.js';
import { isShared, storeFault } from '../store/open.js';
import type { HoldKeys } from '../store/contract/requests.js';
import { openSharedRequests, sharedKeyPlaces } from '../store/open-to-read.js';
import type { Encryption } from '../store/open-to-write.js';
import { Unusable } from '../unusable.js';

/** The options of these names, as they are given. */
export interface EncryptionSettings {
  readonly dataDir: string;
  readonly encryption: 'auto' | 'on' | 'off';
  /** Directories with commas between them, or the address of a database; empty when not given. */
  readonly encryptionKeys: string;
  readonly kek: string;
}

/**
 * Encrypts the payloads of a new log unless that is refused, and those of another log from the start that asks for it.
 * A log with encrypted payloads is not opened without its keys.
 */
export function encryptionOf(
  { dataDir, encryption, encryptionKeys, kek }: EncryptionSettings,
  onTrouble: (what: string, error: unknown) => void,
): Encryption {
  return {
    suite: 1,
    async openKeys(ledgerId, isSealed, isNew) {
      const isNeeded = isSealed || notesKeys(dataDir);
      const noted = readKeyPlaces(dataDir);
      const given = encryptionKeys.split(',').filter((directory) => directory !== '');
      const places = {
        directories: given.length > 0 ? given.map((each) => path.resolve(each)) : noted.directories,
        kek: kek || noted.kek,
      };
      if (isNeeded && encryption === 'off')
        throw new Unusable('--encryption off: the payloads of this log are encrypted, and that stays');
      if (notesKeys(dataDir)) places.directories = await withLeaving(places, noted, onTrouble);
      const isThere = hasKeys(places);
      if (isNeeded && !isThere) {
        throw new KeysUnfit(
          `the payloads of this log are encrypted, and their keys are not in ${places.directories.join(', ')}. Say where ` +
            'they are by --encryption-keys; if they are lost, see docs/guide/encryption.md, "Keys that are lost"',
        );
      }
      const isWanted = encryption === 'on' || (encryption === 'auto' && isNew);
      if (!isNeeded && !isWanted) return undefined;
      // Only the default directory: one that was named may be a mount that failed.
      if (given.length === 0 && !isNeeded)
        places.directories.forEach((each) => nodeFiles.makeDirectory(each));
      if (!isNeeded && !isThere) await noteBegunKeys(dataDir, places.directories);
      let isNoted = false;
      const keys = await openKeys({
        ...{ places, ledgerId, isNeeded, onTrouble },
        known: notesKeys(dataDir) ? noted.directories : [],
        noted: () => (isNoted ? readKeyPlaces(dataDir).directories : []),
      });
      await noteKeyPlaces(dataDir, places);
      isNoted = true;
      const own = defaultKeys(dataDir);
      if (!places.directories.includes(own) && exists(own) && keys.directories.inTrouble === 0) {
        eraseKeysIn(own);
        await forgetLeftOut(dataDir, own);
      }
      return keys;
    },
  };
}

/**
 * On return every directory that is wanted has all keys that the noted ones have: then these may be left out.
 * @returns the directories to use: with those that are to be left out, while one of the others lacks their keys.
 * @throws KeysUnfit where the keys are to move to other directories, and cannot be copied there.
 */
async function withLeaving(
  { directories, kek }: KeyPlaces,
  noted: KeyPlaces,
  onTrouble: (what: string, error: unknown) => void,
): Promise<string[]> {
  const isThere = (directory: string) => hasKeys({ directories: [directory], kek });
  const leaving = noted.directories.filter((each) => !directories.includes(each) && isThere(each));
  if (leaving.length === 0) return [...directories];
  const isMove = directories.every((each) => !noted.directories.includes(each));
  let isLacking = false;
  for (const directory of directories) {
    try {
      // A directory that had keys and has none is a mount that failed.
      if (noted.directories.includes(directory) && !isThere(directory))
        throw new KeysUnfit(`${directory} has no keys any more`);
      await copyKeys({ directories: [...new Set([...noted.directories, ...directories])], kek }, directory);
    } catch (error) {
      if (isMove)
        throw new KeysUnfit(`the keys in ${leaving.join(', ')} cannot be copied to ${directory}`, {
          cause: error,
        });
      onTrouble(`the keys of payloads in ${leaving.join(', ')} cannot be copied to ${directory}`, error);
      isLacking = true;
    }
  }
  return isLacking ? [...directories, ...leaving] : [...directories];
}

/**
 * The keys of legal holds, for a command beside the collectors: where they are, every collector and mirror finds them.
 * @throws KeysUnfit, KekFault, VaultAway
 */
export async function openHoldKeys(
  { dataDir, store, encryptionKeys, kek }: EncryptionSettings & { readonly store: string },
  ledgerId: string,
): Promise<HoldKeys> {
  if (isShared({ store })) {
    if (kek === '')
      throw new Unusable(
        '--kek: the payloads of this log are encrypted; say what wraps their keys, as its collectors do',
      );
    const shared = await openSharedRequests({ store });
    return shared.openHoldKeys(encryptionKeys, kek).finally(() => shared.close());
  }
  const places = readKeyPlaces(dataDir);
  const keys = await openKeys({
    ...{ places, ledgerId, isNeeded: true, known: places.directories, onTrouble: () => undefined },
  });
  return {
    newHoldKey: (action) => keys.newHoldKey(action),
    destroyHold: (action) => keys.destroyHold(action),
    close: () => Promise.resolve(),
  };
}

/**
 * Payloads of a log in a database are encrypted from its first event on or not at all, because its collectors must agree.
 * Their keys are in a database on another cluster.
 */
export async function sharedKeysOf(
  { dataDir, encryption, encryptionKeys, kek }: EncryptionSettings,
  { ledgerId, noted, isNew, isEncrypted }: NotedKeys,
  onTrouble: (what: string, error: unknown) => void,
): Promise<WantedKeys | undefined> {
  const known = sharedKeyPlaces(dataDir);
  if (noted === undefined && (isEncrypted || (known !== undefined && !isNew)))
    throw new Unusable(
      'the payloads of this log are encrypted, and its table encryption does not say any more where their keys are: find out ' +
        "who has changed it, and as the schema's owner INSERT INTO encryption (keys) VALUES ('postgres://…')",
    );
  if (noted === undefined && (encryption === 'off' || (encryption === 'auto' && encryptionKeys === '')))
    return undefined;
  if (noted !== undefined && encryption === 'off')
    throw new Unusable('--encryption off: the payloads of this log are encrypted, and that stays');
  if (noted === undefined && !isNew)
    throw new Unusable(
      '--encryption: this log has payloads in the clear, and encryption in a database begins with the log',
    );
  const address = encryptionKeys || noted || '';
  const fault = isShared({ store: address }) ? await storeFault(address) : 'it is no address postgres://…';
  if (fault !== undefined)
    throw new Unusable(
      `--encryption-keys: the keys of a log in a database are in a database on another cluster: ${fault}`,
    );
  const places = { directories: [address], kek: kek || known?.kek || '' };
  if (places.kek === '')
    throw new Unusable('--kek: keys in a database have to be wrapped by a key that is not there');
  const onOpened = () => noteKeyPlaces(dataDir, places);
  return { places, ledgerId, isNeeded: noted !== undefined, onTrouble, onOpened };
}
