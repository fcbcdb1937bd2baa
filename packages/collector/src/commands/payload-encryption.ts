/** How the payloads of a log are encrypted, as the options want it and the log needs it. */
import path from 'node:path';
import { nodeFiles } from '../files.js';
import { hasKeys, KeysUnfit, KeyWriter, keysOnDisk } from '../privacy/key-directory.js';
import type { NotedKeys, WantedKeys } from '../store/contract/driver.js';
import { noteBegunKeys, noteKeyPlaces, notesKeys, readKeyPlaces } from '../store/key-places.js';
import { isShared, storeFault } from '../store/open.js';
import { sharedKeyPlaces } from '../store/open-to-read.js';
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
      const isThere = hasKeys(keysOnDisk, places);
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
      const keys = KeyWriter.open({
        ...{ files: keysOnDisk, places, ledgerId, isNeeded, namesKey, onTrouble },
        known: notesKeys(dataDir) ? noted.directories : [],
        noted: () => readKeyPlaces(dataDir).directories,
      });
      await noteKeyPlaces(dataDir, places);
      return keys;
    },
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
