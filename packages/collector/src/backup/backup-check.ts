/**
 * Whether everything in a directory of back-ups is as it was written. Writes nothing, and needs no lock.
 *
 * Manifests are taken a page at a time, so that an hourly back-up of ten years needs no more memory than one of a few
 * months; a file that grows is read once for each page.
 */
import { BackupDamaged } from './backup-fault.js';
import type { BackupFiles } from './backup-files.js';
import type { CatalogueEntry } from './catalogue.js';
import { CATALOGUE, type Manifest, type ManifestName, type Noted } from './manifest.js';

export interface BackupCheck {
  /** How many manifests could be read. */
  readonly backups: number;
  /** Of these. */
  readonly oldest: Manifest | undefined;
  readonly newest: Manifest | undefined;
  /** What is wrong, in words. */
  readonly faults: readonly string[];
  /** Bytes that were read. */
  readonly bytes: number;
}

/** What is noted by the manifests of a page, some 400 bytes for each of them. */
const PAGE = 4096;

type Checked = <Result>(look: () => Result) => Result | undefined;
type Expected = CatalogueEntry & { readonly bytes?: number };

/** @param onProgress bytes that were read, and of how many, as far as that is known by then. */
export function checkBackup(
  files: BackupFiles,
  onProgress: (bytes: number, of: number) => void,
  page = PAGE,
): BackupCheck {
  const faults = new Set<string>();
  /** @returns undefined when what was looked at is damaged. */
  const checked: Checked = (look) => {
    try {
      return look();
    } catch (error) {
      if (!(error instanceof BackupDamaged)) throw error;
      faults.add(error.message);
      return undefined;
    }
  };
  const names = checked(() => files.manifestNames()) ?? [];
  let [backups, bytes, of] = [0, 0, 0];
  let oldest: Manifest | undefined;
  let newest: Manifest | undefined;
  // Files that never change, by the newest back-up that can be read; they are read with its page.
  let whole: CatalogueEntry[] | undefined;
  const unlisted = new Set<string>();
  for (let end = names.length; end > 0; end -= page) {
    const notes = new Map<string, Noted[]>();
    const manifests = manifestsOf(files, names.slice(Math.max(0, end - page), end), checked);
    for (const manifest of manifests) {
      backups++;
      newest ??= manifest;
      oldest = manifest;
      whole ??= checked(() => files.catalogue(manifest)) ?? [];
      for (const file of named(manifest)) unlisted.add(file);
      for (const noted of growing(manifest)) addTo(notes, noted);
    }
    for (const each of notes.values()) each.sort((a, b) => a.bytes - b.bytes);
    const listed = end === names.length ? (whole ?? []) : [];
    const there = expected(notes, listed).filter(({ file }) => checked(() => files.size(file)) !== undefined);
    of += there.reduce((sum, entry) => sum + (entry.bytes ?? files.size(entry.file)), 0);
    const onPiece = (piece: Buffer) => onProgress((bytes += piece.length), of);
    for (const entry of there) checked(() => files.read(entry, onPiece, notes.get(entry.file)));
  }
  for (const { file } of whole ?? []) unlisted.delete(file);
  for (const file of unlisted) faults.add(`${file} is not in ${CATALOGUE}`);
  return { backups, oldest, newest, faults: [...faults], bytes };
}

/** The newest first. */
function* manifestsOf(
  files: BackupFiles,
  names: readonly ManifestName[],
  checked: Checked,
): Generator<Manifest> {
  for (const name of names.toReversed()) {
    const manifest = checked(() => files.manifest(name));
    if (manifest !== undefined) yield manifest;
  }
}

/** What a manifest says of files that grow. */
function growing({ catalogue, segment, access_log: accessLog }: Manifest): Noted[] {
  return [catalogue, segment, ...(accessLog === null ? [] : [accessLog])];
}

/** Files that are in the list, if it is whole. */
function named({ keys, signing_keys: signingKeys }: Manifest): string[] {
  return [...(keys === null ? [] : [keys]), ...signingKeys];
}

function addTo(notes: Map<string, Noted[]>, noted: Noted): void {
  const known = notes.get(noted.file);
  if (known === undefined) notes.set(noted.file, [noted]);
  // Most often a run finds most files as they were.
  else if (known.at(-1)?.sha256 !== noted.sha256 || known.at(-1)?.bytes !== noted.bytes) known.push(noted);
}

/** A segment that is whole by now was noted as it grew; it is read once all the same. */
function expected(
  notes: ReadonlyMap<string, readonly Noted[]>,
  listed: readonly CatalogueEntry[],
): Expected[] {
  const entries = new Map<string, Expected>();
  for (const [file, noted] of notes) {
    const longest = noted.at(-1);
    if (longest !== undefined) entries.set(file, longest);
  }
  for (const entry of listed) entries.set(entry.file, entry);
  return [...entries.values()];
}
