/**
 * What the operating system calls an error, or Node in its place: `ENOENT`, `EACCES`, `ERR_…`. Undefined for an error
 * that has no such name.
 */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Whether no room is left on a file system, in a quota, or under a limit. */
export function isNoRoom(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(systemCode(error) ?? '');
}

/** What an error says, whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
