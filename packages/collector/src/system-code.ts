/**
 * What the operating system calls an error, or Node in its place: `ENOENT`, `EACCES`, `ERR_…`. Undefined for an error
 * that has no such name.
 */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** What an error says, whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
