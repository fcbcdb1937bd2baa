/** Locks a data directory for a command that writes it. */
import { DirectoryInUse, type DirectoryLock, lockDirectory, LockUnfit } from '../store/directory-lock.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { checkDataDirectory } from './regular-files.js';

/**
 * Locks the data directory until the lock is released or the process ends.
 * @param advice appended to the message if another process holds the lock.
 * @throws CommandFailure if it is locked, or a file is not of the expected type.
 */
export function holdDirectory(dataDir: string, advice = ''): DirectoryLock {
  checkDataDirectory(dataDir);
  try {
    return lockDirectory(dataDir);
  } catch (error) {
    if (error instanceof DirectoryInUse)
      throw new CommandFailure(error.message + advice, EXIT.inUse, { cause: error });
    if (error instanceof LockUnfit) throw new CommandFailure(error.message, EXIT.damaged, { cause: error });
    throw error;
  }
}
