/** `checkpoints/copied-key.json`: which signing key an operator has said to have a copy of elsewhere. */
import { isInstant, isLine, StateFile } from './state-file.js';

/** Named as in the file. */
interface CopiedKey {
  /** When it was said: an instant, RFC 3339 in UTC. */
  readonly at: string;
  /** The verifier key of the private key that was copied. */
  readonly key: string;
}

const FILE = new StateFile('copied-key.json', 'which signing key was copied', isCopiedKey);

/**
 * @returns undefined when none was noted.
 * @throws StateFileDamaged that names the file, or the system's error when it cannot be read.
 */
export function readCopiedKey(dataDir: string): CopiedKey | undefined {
  return FILE.read(dataDir);
}

/** On return the file holds this. @throws the system's error. */
export function writeCopiedKey(dataDir: string, copied: CopiedKey): void {
  FILE.write(dataDir, copied);
}

function isCopiedKey(value: unknown): value is CopiedKey {
  if (typeof value !== 'object' || value === null) return false;
  const { at, key } = value as Record<string, unknown>;
  return isInstant(at) && isLine(key);
}
