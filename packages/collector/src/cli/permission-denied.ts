/** What the system did not let this user do, whatever was wrapped around its answer on the way. */
import { systemCode } from '../system-code.js';

/** @returns the file that was refused, or undefined when the error comes from something else. */
export function deniedPath(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    // A port below 1024 is refused with EACCES too, but has no path.
    if (!('path' in at && typeof at.path === 'string')) continue;
    const code = systemCode(at);
    if (code === 'EACCES' || code === 'EPERM') return at.path;
  }
  return undefined;
}
