/** Whether the key that signs the checkpoints outlives the disk of the data directory. */
import fs from 'node:fs';
import type { Config } from '../config.js';
import { exists } from '../files.js';
import { StateFileDamaged, readCopiedKey } from '../transparency/state-files.js';
import { readHistory, type KeyHistory } from '../transparency/key-history.js';
import { PrivateKeys, SigningKeyFault } from '../transparency/private-keys.js';
import { typed } from './typed.js';

export type KeyPlace = Pick<Config, 'dataDir' | 'signingKeys' | 'signingCommand'>;

/** Whether the private keys are not on that disk; undefined while there are none. Asks the file system that they are on. */
export function liesElsewhere({ dataDir, signingKeys, signingCommand }: KeyPlace): boolean | undefined {
  if (signingCommand !== '') return true;
  if (!exists(signingKeys)) return undefined;
  return fs.statSync(signingKeys).dev !== fs.statSync(dataDir).dev;
}

/** Whether an operator has said that the current key was copied. @throws SigningKeyFault, or the system's error. */
export function isCopied(dataDir: string, { current }: KeyHistory = readHistory(dataDir)): boolean {
  try {
    return readCopiedKey(dataDir)?.key === current.vkey;
  } catch (error) {
    if (error instanceof StateFileDamaged) return false;
    throw error;
  }
}

/** @throws as {@link isCopied}. */
export function diesWithDisk(place: KeyPlace, history?: KeyHistory): boolean {
  return liesElsewhere(place) === false && !isCopied(place.dataDir, history);
}

/**
 * Whether the next start would miss the file of the current key on that disk, or what tells which key it is.
 * @throws the system's error when that cannot be told.
 */
export function isGone({ dataDir, signingKeys }: KeyPlace): boolean {
  let history: KeyHistory;
  try {
    history = readHistory(dataDir);
  } catch (error) {
    if (error instanceof SigningKeyFault) return true;
    throw error;
  }
  const file = new PrivateKeys(signingKeys).pathOf(history.current);
  const found = fs.statSync(file, { throwIfNoEntry: false });
  return found === undefined || !found.isFile() || found.size === 0;
}

/** For whoever has just got the first key; empty when there is nothing to say. Ends with a line break otherwise. */
export function escrowNotice(place: KeyPlace): string {
  if (!diesWithDisk(place)) return '';
  return typed(
    `
The key that signs the log is stored only on this disk, in ${place.signingKeys}. Without it the log cannot be continued.
Copy it to a safe place, then confirm the copy:

collector signing-key copied
`,
    place.dataDir,
  );
}
