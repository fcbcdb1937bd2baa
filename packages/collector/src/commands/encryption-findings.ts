/** Findings about the keys of encrypted payloads: where they are, and whether every mirror is up to date. */
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
  return `payloads are encrypted, but their keys are not in ${directories.join(', ')}`;
}

export function keysUnfinished(directories: readonly string[]): string {
  return (
    `an earlier start began to make payload keys in ${directories.join(', ')} and did not finish; no event ` +
    'is encrypted with them, and the next start continues'
  );
}

/** Findings about the payload keys; empty if payloads are not encrypted. @throws KeysUnfit */
export function encryptionFindings(dataDir: string): StoreFinding[] {
  const places = readKeyPlaces(dataDir);
  if (hasKeys(places)) return keyFindings(dataDir, places, keyInventory(places));
  const begun = begunKeys(dataDir);
  if (begun !== undefined)
    return [{ severity: 'warning', subject: 'encryption', message: keysUnfinished(begun) }];
  const isLost = notesKeys(dataDir) && sharedKeyPlaces(dataDir) === undefined;
  return isLost ? [{ severity: 'damage', subject: 'encryption', message: keysLost(places) }] : [];
}

/** Findings about existing keys. */
export function keyFindings(
  dataDir: string,
  { directories, kek }: KeyPlaces,
  { buckets, epoch, epochBegun, directories: held }: KeyInventory,
): StoreFinding[] {
  const findings: StoreFinding[] = [];
  const found = (severity: StoreFinding['severity'], message: string) =>
    findings.push({ severity, subject: 'encryption', message });
  found(
    'ok',
    `new payloads are encrypted; the keys of ${counted(buckets, 'range')} of the log are under epoch ` +
      `${epoch}, begun ${epochBegun.slice(0, 10)}, wrapped by ${kek === '' ? 'the file kek beside them' : kek}`,
  );
  const right = held.find(({ isThere, kekFault }) => isThere && kekFault === undefined);
  for (const { directory, isThere, behind, kekFault } of held) {
    if (kekFault !== undefined && right === undefined)
      found('damage', `${kekFault}, and no other directory has it`);
    else if (kekFault !== undefined)
      found(
        'damage',
        `${kekFault}; the one in ${right?.directory} is used, and the next start copies it there`,
      );
    const lacking = behind - Number(kekFault !== undefined);
    const refill = `collector encryption-keys copy --mirror ${directory}`;
    if (!isThere) found('damage', `${directory} holds no keys: mount it, or refill it: ${refill}`);
    else if (lacking > 0)
      found(
        'damage',
        `${directory} is not up to date: ${differencesIn({ directories, kek }, directory).join(', ')}`,
      );
    else if (kekFault === undefined) found('ok', `${directory} has all keys`);
  }
  const [first = ''] = directories;
  // A mirror of a log can be recreated.
  if (directories.length < 2 && readMirrorNote(dataDir) === undefined)
    found(
      'warning',
      'the keys are in only one directory, and without them no payload can be read: add a mirror on ' +
        'another disk (collector encryption-keys copy --mirror DIR)',
    );
  if (isOnDiskOf(dataDir, first))
    found(
      'warning',
      `${first} is on the disk of the data: access to that disk gives access to the keys ` +
        '(docs/guide/encryption.md)',
    );
  return findings;
}

function isOnDiskOf(dataDir: string, directory: string): boolean {
  return exists(directory) && fs.statSync(directory).dev === fs.statSync(dataDir).dev;
}
