/** The newest checkpoint of a data directory. */
import fs from 'node:fs';
import path from 'node:path';

/**
 * @returns the number of entries that it covers, or undefined without a checkpoint. Signatures are not
 * checked.
 */
export function signedSize(dataDir) {
  const file = path.join(dataDir, 'checkpoints', 'latest');
  if (!fs.existsSync(file)) return undefined;
  // C2SP tlog-checkpoint: the origin, the size, the root, each a line.
  const [, size] = fs.readFileSync(file, 'utf8').split('\n');
  if (!/^\d+$/.test(size)) throw new Error(`${file} is not a checkpoint`);
  return Number(size);
}
