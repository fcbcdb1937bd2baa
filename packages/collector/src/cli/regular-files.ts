/** What in a data directory is neither a file nor a directory: a pipe, on which a reader would wait for ever. */
import fs from 'node:fs';
import path from 'node:path';
import { CommandFailure, EXIT } from './exit-codes.js';

/** Those whose files are read without a look; segments are looked at one by one (segment-survey.ts). */
const DIRECTORIES = ['checkpoints', 'checkpoints/rotations', 'tree'];

/** @throws CommandFailure that names the first one, or whatever the system says. */
export function checkRegular(dataDir: string): void {
  for (const directory of DIRECTORIES.map((name) => path.join(dataDir, name))) {
    if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) continue;
    for (const name of fs.readdirSync(directory)) {
      const file = path.join(directory, name);
      const stat = fs.statSync(file, { throwIfNoEntry: false });
      if (stat === undefined || stat.isFile() || stat.isDirectory()) continue;
      throw new CommandFailure(`${file} is no regular file, and was not opened`, EXIT.failure);
    }
  }
}
