/** Why a back-up cannot be made or used. The messages name places, never what is stored there. */

/** The directory holds something else, or the back-ups of another log. */
export class NotThisBackup extends Error {
  override name = 'NotThisBackup';
}

/** What stands in the back-up is not what was written there. */
export class BackupDamaged extends Error {
  override name = 'BackupDamaged';
}

/** The log does not go on from the one that was backed up here. */
export class LogDiffers extends Error {
  override name = 'LogDiffers';
}

/** Whether the system, or SQLite, says that there is no room left. */
export function isNoRoom(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // SQLITE_FULL
  if ('errcode' in error && error.errcode === 13) return true;
  return 'code' in error && ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(String(error.code));
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
