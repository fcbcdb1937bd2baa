/** What is found of the keys of encrypted payloads: where they are, and whether every mirror is up to date. */
import fs from 'node:fs';
import { exists } from '../files.js';
import {
  differencesIn,
  hasKeys,
  type KeyInventory,
  keyInventory,
  type KeyPlaces,
} from '../privacy/key-directories.js';
import { counted } from '../quantity.js';
import type { StoreFinding } from '../store/findings.js';
import { begunKeys, notesKeys, readKeyPlaces } from '../store/key-places.js';
import { sharedKeyPlaces } from '../store/open-to-read.js';
import { readMirrorNote } from '../tree/state-files.js';

export function keysLost({ directories }: KeyPlaces): string {
  return `payloads are encrypted, and their keys are not in ${directories.join(', ')}`;
}

export function keysUnfinished(directories: readonly string[]): string {
  return (
    `a start has begun to make the keys of payloads in ${directories.join(', ')} and did not finish; no event is ` +
    'encrypted by them, and the next start continues'
  );
}

/** What is found of the keys of payloads; nothing where payloads are not encrypted. @throws KeysUnfit */
export function encryptionFindings(dataDir: string): StoreFinding[] {
  const places = readKeyPlaces(dataDir);
  if (hasKeys(places)) return keyFindings(dataDir, places, keyInventory(places));
  const begun = begunKeys(dataDir);
  if (begun !== undefined)
    return [{ severity: 'warning', subject: 'encryption', message: keysUnfinished(begun) }];
  const isLost = notesKeys(dataDir) && sharedKeyPlaces(dataDir) === undefined;
  return isLost ? [{ severity: 'damage', subject: 'encryption', message: keysLost(places) }] : [];
}

/** What is found of keys that are there. */
export function keyFindings(
  dataDir: string,
  { directories, kek }: KeyPlaces,
  { buckets, epoch, epochBegun, directories: held }: KeyInventory,
): StoreFinding[] {
  const about = (severity: StoreFinding['severity'], message: string): StoreFinding => {
    return { severity, subject: 'encryption', message };
  };
  const findings = [
    about(
      'ok',
      `payloads are encrypted; the keys of ${counted(buckets, 'stretch', 'stretches')} of the log are under epoch ` +
        `${epoch}, begun ${epochBegun.slice(0, 10)}, and ${kek === '' ? 'the file kek beside them' : kek}`,
    ),
  ];
  const right = held.find(({ isThere, kekFault }) => isThere && kekFault === undefined);
  for (const { directory, isThere, behind, kekFault } of held) {
    if (kekFault !== undefined)
      findings.push(
        about(
          'damage',
          right === undefined
            ? `${kekFault}, and no other directory has it`
            : `${kekFault}; that of ${right.directory} is used, and the next start copies it there`,
        ),
      );
    const lacking = behind - Number(kekFault !== undefined);
    if (!isThere)
      findings.push(
        about(
          'damage',
          `${directory} holds no keys: mount it, or fill it again (collector encryption-keys copy --mirror ${directory})`,
        ),
      );
    else if (lacking > 0)
      findings.push(
        about(
          'damage',
          `${directory} is not up to date: ${differencesIn({ directories, kek }, directory).join(', ')}`,
        ),
      );
    else if (kekFault === undefined) findings.push(about('ok', `${directory} has all keys`));
  }
  const [first = ''] = directories;
  // A mirror of a log can be made again.
  if (directories.length < 2 && readMirrorNote(dataDir) === undefined) {
    findings.push(
      about(
        'warning',
        'the keys are in one directory alone, and without them no payload can be read again: name a mirror on another ' +
          'disk (collector encryption-keys copy --mirror DIR)',
      ),
    );
  }
  if (isOnDiskOf(dataDir, first)) {
    findings.push(
      about(
        'warning',
        `${first} is on the disk of the data: who has that disk has the keys (docs/guide/encryption.md)`,
      ),
    );
  }
  return findings;
}

function isOnDiskOf(dataDir: string, directory: string): boolean {
  return exists(directory) && fs.statSync(directory).dev === fs.statSync(dataDir).dev;
}
