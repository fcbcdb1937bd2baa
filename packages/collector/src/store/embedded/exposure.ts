/** Whether a data directory is open to other users of the host than its owner. */
import fs from 'node:fs';

/**
 * Only told, never changed: a group that may read can be meant, for a back-up. What the collector itself makes in the
 * directory is for its owner alone, whatever the umask.
 * @returns what is wrong and how to fix it, or undefined when nothing is.
 */
export function exposureOf(dataDirectory: string): string | undefined {
  // The modes that Node tells on Windows are made up from one read-only bit.
  if (process.platform === 'win32' || (fs.statSync(dataDirectory).mode & 0o077) === 0) return undefined;
  return `${dataDirectory} can be entered by other users; it holds patient data: chmod 700`;
}
