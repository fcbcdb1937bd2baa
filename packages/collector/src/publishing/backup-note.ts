/** `checkpoints/backup.json`: when `collector backup` was done last, for the console of a running collector. */
import { isInstant, StateFile } from './state-file.js';

/** Named as in the file. Not where it went: that is for who may read the access log. */
export interface BackupNote {
  /** When the run began: an instant, RFC 3339 in UTC. What was acknowledged by then is in it. */
  readonly at: string;
  /** How many events it holds. */
  readonly events: number;
}

const FILE = new StateFile('backup.json', 'when a back-up was made', isBackupNote);

/**
 * @returns undefined when none was noted.
 * @throws StateFileDamaged that names the file, or the system's error when it cannot be read.
 */
export function readBackupNote(dataDir: string): BackupNote | undefined {
  return FILE.read(dataDir);
}

/** On return the file holds this. @throws the system's error. */
export function writeBackupNote(dataDir: string, note: BackupNote): void {
  FILE.write(dataDir, note);
}

function isBackupNote(value: unknown): value is BackupNote {
  if (typeof value !== 'object' || value === null) return false;
  const { at, events } = value as Record<string, unknown>;
  return isInstant(at) && Number.isSafeInteger(events) && Number(events) >= 0;
}
