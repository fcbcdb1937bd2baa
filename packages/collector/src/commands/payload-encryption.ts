/** Selects and opens the keys that encrypt the payloads of a log. */
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

/** The configuration options for the encryption of payloads. */
export interface EncryptionSettings {
  readonly dataDir: string;
  readonly encryption: 'auto' | 'on' | 'off';
  /** Comma-separated directories, or the address of a database; empty if not given. */
  readonly encryptionKeys: string;
  readonly kek: string;
}

/**
 * Encrypts the payloads of a new log unless encryption is off, and those of an existing log once a start asks
 * for it. A log with encrypted payloads is not opened without its keys.
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
        throw new Unusable('--encryption off: the payloads of this log are encrypted and stay encrypted');
      if (notesKeys(dataDir)) places.directories = await withLeaving(places, noted, onTrouble);
      const isThere = hasKeys(places);
      if (isNeeded && !isThere) {
        throw new KeysUnfit(
          'the payloads of this log are encrypted, and their keys are not in ' +
            `${places.directories.join(', ')}. Name their directories with --encryption-keys; if they are ` +
            'lost, see docs/guide/encryption.md, "Keys that are lost"',
        );
      }
      const isWanted = encryption === 'on' || (encryption === 'auto' && isNew);
      if (!isNeeded && !isWanted) return undefined;
      // Only the default directory is created: a named one may be a mount that failed.
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
 * Copies all noted keys to the wanted directories, so that the others can be dropped.
 * @returns the directories to use; they include directories to be dropped while another one lacks their keys.
 * @throws KeysUnfit if the keys move to other directories and cannot be copied there.
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
      // A noted directory without keys is a mount that failed.
      if (noted.directories.includes(directory) && !isThere(directory))
        throw new KeysUnfit(`${directory} no longer holds keys`);
      await copyKeys({ directories: [...new Set([...noted.directories, ...directories])], kek }, directory);
    } catch (error) {
      if (isMove)
        throw new KeysUnfit(`the keys in ${leaving.join(', ')} cannot be copied to ${directory}`, {
          cause: error,
        });
      onTrouble(`the payload keys in ${leaving.join(', ')} cannot be copied to ${directory}`, error);
      isLacking = true;
    }
  }
  return isLacking ? [...directories, ...leaving] : [...directories];
}

/**
 * Opens the keys of legal holds for a command. They are stored where every collector and mirror finds them.
 * @throws KeysUnfit, KekFault, VaultAway
 */
export async function openHoldKeys(
  { dataDir, store, encryptionKeys, kek }: EncryptionSettings & { readonly store: string },
  ledgerId: string,
): Promise<HoldKeys> {
  if (isShared({ store })) {
    if (kek === '')
      throw new Unusable(
        '--kek: the payloads of this log are encrypted; give the KEK that its collectors use',
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
 * Selects the keys of a log in a database, which are in a database on another cluster. The payloads are
 * encrypted from the first event or never, because all collectors must agree.
 */
export async function sharedKeysOf(
  { dataDir, encryption, encryptionKeys, kek }: EncryptionSettings,
  { ledgerId, noted, isNew, isEncrypted }: NotedKeys,
  onTrouble: (what: string, error: unknown) => void,
): Promise<WantedKeys | undefined> {
  const known = sharedKeyPlaces(dataDir);
  if (noted === undefined && (isEncrypted || (known !== undefined && !isNew)))
    throw new Unusable(
      'the payloads of this log are encrypted, but its table encryption no longer names the key database: ' +
        'find out who ' +
        "changed it, and as the owner of the schema INSERT INTO encryption (keys) VALUES ('postgres://…')",
    );
  if (noted === undefined && (encryption === 'off' || (encryption === 'auto' && encryptionKeys === '')))
    return undefined;
  if (noted !== undefined && encryption === 'off')
    throw new Unusable('--encryption off: the payloads of this log are encrypted and stay encrypted');
  if (noted === undefined && !isNew)
    throw new Unusable(
      '--encryption: a log in a database is encrypted from its first event; this one has unencrypted ' +
        'payloads',
    );
  const address = encryptionKeys || noted || '';
  const fault = isShared({ store: address }) ? await storeFault(address) : 'not a postgres://… address';
  if (fault !== undefined)
    throw new Unusable(
      `--encryption-keys: the keys of a log in a database must be in a database on another cluster: ${fault}`,
    );
  const places = { directories: [address], kek: kek || known?.kek || '' };
  if (places.kek === '')
    throw new Unusable('--kek: keys in a database must be wrapped by a KEK that is stored elsewhere');
  const onOpened = () => noteKeyPlaces(dataDir, places);
  return { places, ledgerId, isNeeded: noted !== undefined, onTrouble, onOpened };
}
