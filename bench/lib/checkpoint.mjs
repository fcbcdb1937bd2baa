/** The newest checkpoint of a data directory. */
import fs from 'node:fs';
import path from 'node:path';

/** @returns how many entries of the log it speaks of, or undefined when there is none. Its signatures are not looked at. */
export function signedSize(dataDir) {
  const file = path.join(dataDir, 'checkpoints', 'latest');
  if (!fs.existsSync(file)) return undefined;
  // C2SP tlog-checkpoint: the origin, the size, the root, each a line.
  const [, size] = fs.readFileSync(file, 'utf8').split('\n');
  if (!/^\d+$/.test(size)) throw new Error(`${file} is no checkpoint`);
  return Number(size);
}
