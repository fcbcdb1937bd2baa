/** What in a data directory is neither a file nor a directory: a pipe, on which a reader would wait for ever. */
import fs from 'node:fs';
import path from 'node:path';
import { exists } from '../store/embedded/files.js';
import { CommandFailure, EXIT } from './exit-codes.js';

/** Of what proves the log. */
export const PROOF_DIRECTORIES = ['checkpoints', 'checkpoints/rotations', 'tree'] as const;
/** Of the log and its proof. */
export const LOG_DIRECTORIES = ['ledger', ...PROOF_DIRECTORIES] as const;
/** With what finds an event by its id. */
const DIRECTORIES = [...LOG_DIRECTORIES, 'index'] as const;

/**
 * @param directories that the command reads; it need not have the permission for others.
 * @throws CommandFailure when there is no log in the data directory, or one that a reader would wait at.
 */
export function assertReadable(dataDir: string, directories: readonly string[] = DIRECTORIES): void {
  if (!exists(path.join(dataDir, 'ledger'))) {
    throw new CommandFailure(`${dataDir} holds no ledger`, EXIT.notFound);
  }
  checkRegular(dataDir, directories);
}

/**
 * @param directories that files are read from without a look at each.
 * @throws CommandFailure that names the first one, or whatever the system says.
 */
export function checkRegular(dataDir: string, directories: readonly string[] = DIRECTORIES): void {
  for (const directory of directories.map((name) => path.join(dataDir, name))) {
    if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) continue;
    for (const name of fs.readdirSync(directory)) {
      const file = path.join(directory, name);
      const stat = fs.statSync(file, { throwIfNoEntry: false });
      if (stat === undefined || stat.isFile() || stat.isDirectory()) continue;
      throw new CommandFailure(`${file} is no regular file, and was not opened`, EXIT.failure);
    }
  }
}
