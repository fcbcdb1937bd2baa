/** Whether everything in a directory of back-ups is as it was written. Writes nothing, and needs no lock. */
import { BackupDamaged } from './backup-fault.js';
import type { BackupFiles } from './backup-files.js';
import type { CatalogueEntry } from './catalogue.js';
import { CATALOGUE, type Manifest, type Noted } from './manifest.js';

export interface BackupCheck {
  /** Oldest first; those that could be read. */
  readonly manifests: readonly Manifest[];
  /** What is wrong, in words. */
  readonly faults: readonly string[];
  /** Bytes that were read. */
  readonly bytes: number;
}

/** @param onProgress bytes that were read, and of how many. */
export function checkBackup(
  files: BackupFiles,
  onProgress: (bytes: number, of: number) => void,
): BackupCheck {
  const faults: string[] = [];
  /** @returns undefined when what was looked at is damaged. */
  const checked = <Result>(look: () => Result): Result | undefined => {
    try {
      return look();
    } catch (error) {
      if (!(error instanceof BackupDamaged)) throw error;
      faults.push(error.message);
      return undefined;
    }
  };
  const names = checked(() => files.manifestNames()) ?? [];
  const manifests = names.flatMap((name) => checked(() => files.manifest(name)) ?? []);
  const newest = manifests.at(-1);
  if (newest === undefined) return { manifests, faults, bytes: 0 };

  const whole = checked(() => files.catalogue(newest)) ?? [];
  faults.push(...unlisted(manifests, new Set(whole.map(({ file }) => file))));
  // A segment that is whole by now was noted as it grew; it is read once all the same.
  const notes = notesByFile(manifests);
  const entries = new Map<string, CatalogueEntry & { readonly bytes?: number }>();
  for (const [file, noted] of notes) {
    const longest = noted.at(-1);
    if (longest !== undefined) entries.set(file, longest);
  }
  for (const entry of whole) entries.set(entry.file, entry);
  const there = [...entries.values()].filter(({ file }) => checked(() => files.size(file)) !== undefined);
  const of = there.reduce((sum, { file, bytes }) => sum + (bytes ?? files.size(file)), 0);
  let bytes = 0;
  const onPiece = (piece: Buffer) => onProgress((bytes += piece.length), of);
  for (const entry of there) checked(() => files.read(entry, onPiece, notes.get(entry.file)));
  return { manifests, faults, bytes };
}

/** What all manifests say of files that grow: by file, the shortest first. */
function notesByFile(manifests: readonly Manifest[]): Map<string, Noted[]> {
  const notes = new Map<string, Noted[]>();
  for (const { catalogue, segment, access_log: accessLog } of manifests) {
    for (const noted of [catalogue, segment, ...(accessLog === null ? [] : [accessLog])]) {
      const known = notes.get(noted.file);
      if (known === undefined) notes.set(noted.file, [noted]);
      else known.push(noted);
    }
  }
  for (const each of notes.values()) each.sort((a, b) => a.bytes - b.bytes);
  return notes;
}

/** Files that a manifest names and the list does not have. */
function unlisted(manifests: readonly Manifest[], listed: ReadonlySet<string>): string[] {
  const named = manifests.flatMap(({ keys, signing_keys: signingKeys }) => [keys ?? [], signingKeys].flat());
  return [...new Set(named)]
    .filter((file) => !listed.has(file))
    .map((file) => `${file} is not in ${CATALOGUE}`);
}
