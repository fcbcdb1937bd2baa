/** Where a spool on the disk is, and by what it is sealed, as the host has said it. */
import path from 'node:path';
import { types } from 'node:util';
import { SpoolKeyWrong, SpoolUnwritable, type SpoolOptions } from './contract.js';
import { KEY_BYTES } from './sealing.js';

/**
 * @throws SpoolUnwritable without the name of a directory: never the working directory by a slip. SpoolKeyWrong for a
 * key that is none: where one is meant, nothing is ever written in the clear.
 */
export function placeOf({ directory, key }: Pick<SpoolOptions, 'directory' | 'key'>): {
  readonly root: string;
  readonly key: Uint8Array | undefined;
} {
  if (typeof directory !== 'string' || directory === '') {
    throw new SpoolUnwritable('the directory of the spool has no name');
  }
  const given: unknown = key;
  if (given !== undefined && !(types.isUint8Array(given) && given.length === KEY_BYTES)) {
    throw new SpoolKeyWrong(`the key of a spool has ${KEY_BYTES} bytes, in a Uint8Array`);
  }
  return { root: path.resolve(directory), key };
}
