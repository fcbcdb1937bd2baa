/** How `backup` and `restore` end when they cannot do what they were asked to. */
import { BackupDamaged, isNoRoom, LogDiffers, NotThisBackup } from '../backup/backup-fault.js';
import { NotEmpty } from '../backup/restoration.js';
import { SigningKeyFault } from '../transparency/private-keys.js';
import { DirectoryInUse } from '../store/open.js';
import { StoreDamaged } from '../store/store.js';
import { systemCode } from '../system-code.js';
import { CommandFailure, EXIT, type ExitCode } from './exit-codes.js';
import { printable } from './printable.js';

/**
 * @param directory of the back-ups.
 * @param whenFull what is left as it was when there is no room.
 * @returns what to throw instead.
 */
export function backupFailure(error: unknown, directory: string, whenFull: string): unknown {
  const failure = (message: string, code: ExitCode) => new CommandFailure(message, code, { cause: error });
  if (isNoRoom(error)) return failure(`no room is left (${codeOf(error)}); ${whenFull}`, EXIT.failure);
  if (!(error instanceof Error)) return error;
  // Names in it may be somebody else's.
  const message = printable(error.message);
  if (error instanceof DirectoryInUse) {
    return failure(`another back-up is being written to ${directory}`, EXIT.inUse);
  }
  if (error instanceof NotThisBackup || error instanceof NotEmpty) return failure(message, EXIT.usage);
  if (error instanceof BackupDamaged) {
    return failure(
      `${directory}: ${message}; docs/OPERATIONS.md, "A damaged back-up", says what to do`,
      EXIT.damaged,
    );
  }
  if (error instanceof LogDiffers) {
    return failure(
      `this log does not go on from the one in ${directory}: ${message}. Nothing there was changed; ` +
        'docs/OPERATIONS.md, "A log that has parted from its back-up", says what to do',
      EXIT.damaged,
    );
  }
  if (error instanceof StoreDamaged) {
    return failure(`${message}; the back-ups before are whole; see collector verify`, EXIT.damaged);
  }
  if (error instanceof SigningKeyFault) {
    return failure(message, error.reason === 'key-missing' ? EXIT.notFound : EXIT.damaged);
  }
  return error;
}

function codeOf(error: unknown): string {
  return systemCode(error) ?? 'full';
}
