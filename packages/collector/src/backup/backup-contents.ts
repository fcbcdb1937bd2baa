/** What a back-up is made of: which bytes of which files, and where in a data directory they belong. */
import { BackupDamaged } from './backup-fault.js';
import type { BackupFiles } from './backup-files.js';
import { KEYS, SEGMENT, SIGNING_KEY, type Manifest } from './manifest.js';

/** A file of the back-up. */
export interface BackupContent {
  readonly file: string;
  /** Where it goes in the data directory. */
  readonly target: string;
  /** How many of its first bytes; all of it when not given. */
  readonly bytes?: number;
  readonly sha256: string;
}

/** In the order in which they are laid out. @throws BackupDamaged. */
export function contentsOf(files: BackupFiles, manifest: Manifest): BackupContent[] {
  const { keys, signing_keys: signingKeys, segment, access_log: accessLog } = manifest;
  const contents: BackupContent[] = files.catalogue(manifest).flatMap(({ file, sha256 }) => {
    if (KEYS.test(file)) return file === keys ? [{ file, sha256, target: 'keys.db' }] : [];
    if (SIGNING_KEY.test(file) && !signingKeys.includes(file)) return [];
    return [{ file, sha256, target: file }];
  });
  const named = [...(keys === null ? [] : [keys]), ...signingKeys];
  const lost = named.find((name) => !contents.some(({ file }) => file === name));
  if (lost !== undefined) throw new BackupDamaged(`${lost} is not in ${manifest.catalogue.file}`);
  contents.push({ ...segment, target: segment.file });
  if (accessLog !== null) contents.push({ ...accessLog, target: 'access.log' });
  // Checkpoints last: what lies there without them is no log that a collector would start on.
  const rank = ({ target }: BackupContent) =>
    SEGMENT.test(target) ? 0 : target.startsWith('checkpoints/') ? 2 : 1;
  return contents.sort((a, b) => rank(a) - rank(b));
}
