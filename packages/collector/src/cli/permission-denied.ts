/** What the system did not let this user do, whatever was wrapped around its answer on the way. */

/** @returns the file that was refused, or undefined when the error comes from something else. */
export function deniedPath(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    // A port below 1024 is refused with EACCES too, but has no path.
    if (!('code' in at && 'path' in at && typeof at.path === 'string')) continue;
    if (at.code === 'EACCES' || at.code === 'EPERM') return at.path;
  }
  return undefined;
}
