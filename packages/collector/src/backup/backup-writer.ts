/**
 * The directory of back-ups as one run writes it (backup-files.ts tells what is in it). The run holds its lock.
 *
 * In the order in which things come to stable storage: a file, its name, its line in the catalogue, the manifest. So
 * whatever ends a run, every manifest that is there finds all that it names, and the next run finds what is done.
 */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { BackupDamaged, LogDiffers, NotThisBackup } from './backup-fault.js';
import {
  BackupFiles,
  formatMarker,
  MANIFESTS,
  MARKER,
  namesIn,
  type BackupIdentity,
  requireNoLink,
} from './backup-files.js';
import { formatEntry, readCatalogue, type CatalogueEntry } from './catalogue.js';
import { DurableFile, makeDirectory, syncDirectory } from './durable.js';
import { grow, type Grown } from './growing-file.js';
import { CATALOGUE, formatManifest, manifestName, type Manifest, type Noted } from './manifest.js';

const DRAFTS = 'drafts';
/** One run adds less to the catalogue than this. Lines further behind are written anew, if they were any. */
const MOST_UNNOTED = 16 << 20;
/** Made before the marker is. */
const LOCK = 'lock';

/**
 * Whether back-ups of this log may go into the directory: it is empty or new, or holds some already.
 * @throws NotThisBackup
 */
export function assertMayHold(root: string, { ledgerId, origin }: BackupIdentity): void {
  const names = namesIn(root);
  // To open a pipe would wait for ever, and a link may lead to the lock, or the keys, of the collector itself.
  const lock = fs.lstatSync(path.join(root, LOCK), { throwIfNoEntry: false });
  if (lock?.isFile() === false) throw new NotThisBackup(`${LOCK} in ${root} is no file of ours`);
  if (names.includes(MARKER)) {
    const { identity } = new BackupFiles(root);
    if (identity.ledgerId === ledgerId && identity.origin === origin) return;
    throw new NotThisBackup(`${root} holds the back-ups of another log, ${identity.origin}`);
  }
  // What a run leaves that was ended before the marker was there, and what mkfs makes.
  const other = names.find((name) => ![LOCK, DRAFTS, 'lost+found'].includes(name));
  if (other !== undefined) throw new NotThisBackup(`${root} holds ${other}, and no back-up of a log`);
}

export class BackupWriter {
  readonly files: BackupFiles;
  /** The last one that was made. */
  readonly newest: Manifest | undefined;
  /** Bytes and files that were written so far. */
  readonly written = { bytes: 0, files: 0 };
  readonly #root: string;
  readonly #catalogue = new Map<string, string>();
  #catalogueBytes = 0;
  #drafts = 0;

  /**
   * To be called with the lock held. What a run that was ended left half done is gone on return.
   * @throws NotThisBackup, BackupDamaged
   */
  constructor(root: string, identity: BackupIdentity) {
    this.#root = root;
    assertMayHold(root, identity);
    fs.rmSync(path.join(root, DRAFTS), { recursive: true, force: true });
    makeDirectory(path.join(root, DRAFTS));
    if (!namesIn(root).includes(MARKER)) this.#appear(MARKER, Buffer.from(formatMarker(identity)));
    this.files = new BackupFiles(root);
    const last = this.files.manifestNames().at(-1);
    this.newest = last && this.files.manifest(last);
    this.#readCatalogue();
  }

  /** The hash of a file that was written whole, and never changes. */
  hashOf(file: string): string | undefined {
    return this.#catalogue.get(file);
  }

  /** A place for a file that is being made. */
  draft(): string {
    return path.join(this.#root, DRAFTS, String(this.#drafts++));
  }

  /** Puts a small file in its place, and flushes both. Its line in the catalogue is for the caller to add. */
  put(file: string, bytes: Uint8Array): CatalogueEntry {
    this.#appear(file, bytes);
    return { file, sha256: hash('sha256', bytes, 'hex') };
  }

  /** Flushes a draft, and gives it its name. */
  adopt(draft: string, file: string): void {
    const written = DurableFile.open(draft, 'there');
    try {
      written.sync();
      this.written.bytes += written.bytes;
    } finally {
      written.close();
    }
    this.#name(draft, file);
  }

  /** On return the file holds the pieces and begins with what the newest manifest noted of it. */
  grow(file: string, pieces: Iterable<Uint8Array>, onPiece: (bytes: number) => void): Grown {
    const noted = [this.newest?.segment, this.newest?.access_log].find((each) => each?.file === file);
    const target = this.#place(file);
    const isThere = fs.lstatSync(target, { throwIfNoEntry: false }) !== undefined;
    if (!isThere && noted !== undefined) throw new BackupDamaged(`${file} is not in the back-up any more`);
    const grown = grow({ path: target, noted: noted ?? undefined, isThere, pieces, onPiece });
    const known = this.#catalogue.get(file);
    if (known !== undefined && known !== grown.sha256) {
      if (!isThere) fs.rmSync(target);
      throw new LogDiffers(`${file} is not the one that was backed up before`);
    }
    if (!isThere) syncDirectory(path.dirname(target));
    this.written.bytes += grown.written;
    if (grown.written > 0) this.written.files++;
    return grown;
  }

  /** A name for an access log that goes on from none that is there. */
  newAccessLog(): string {
    const numbers = namesIn(path.join(this.#root, 'access-log')).map(Number);
    const next = this.newest === undefined ? 1 : Math.max(0, ...numbers) + 1;
    return `access-log/${String(next).padStart(4, '0')}`;
  }

  /** Adds lines for files that are on stable storage. On return the lines are too. */
  add(entries: readonly CatalogueEntry[]): void {
    const unknown = entries.filter(({ file }) => !this.#catalogue.has(file));
    if (unknown.length === 0) return;
    const bytes = Buffer.from(unknown.map(formatEntry).join(''), 'latin1');
    const target = path.join(this.#root, CATALOGUE);
    const isThere = fs.existsSync(target);
    const file = DurableFile.open(target, isThere ? 'there' : 'new');
    try {
      file.write(bytes, this.#catalogueBytes);
      file.flush();
    } finally {
      file.close();
    }
    if (!isThere) syncDirectory(this.#root);
    this.#catalogueBytes += bytes.length;
    this.written.bytes += bytes.length;
    for (const { file: name, sha256 } of unknown) this.#catalogue.set(name, sha256);
  }

  /** What a manifest is to say of the catalogue as it is now. */
  noteCatalogue(): Noted {
    const bytes = fs.readFileSync(path.join(this.#root, CATALOGUE)).subarray(0, this.#catalogueBytes);
    return { file: CATALOGUE, bytes: bytes.length, sha256: hash('sha256', bytes, 'hex') };
  }

  /** The end of a run: from now on this back-up is there. @returns the name of the manifest. */
  finish(manifest: Manifest): string {
    const name = manifestName(manifest);
    this.#appear(`${MANIFESTS}/${name}`, Buffer.from(formatManifest(manifest)));
    return name;
  }

  /** Leaves nothing behind that is half done. */
  close(): void {
    fs.rmSync(path.join(this.#root, DRAFTS), { recursive: true, force: true });
  }

  #appear(file: string, bytes: Uint8Array): void {
    const draft = this.draft();
    const written = DurableFile.open(draft, 'new');
    try {
      written.write(bytes, 0);
      written.flush();
    } finally {
      written.close();
    }
    this.written.bytes += bytes.length;
    this.#name(draft, file);
  }

  #name(draft: string, file: string): void {
    const target = this.#place(file);
    fs.renameSync(draft, target);
    syncDirectory(path.dirname(target));
    this.written.files++;
  }

  /**
   * Where a file goes, in a directory that is there on return.
   * @throws BackupDamaged when a link leads out of the back-up.
   */
  #place(file: string): string {
    const target = path.join(this.#root, file);
    const directory = path.dirname(target);
    makeDirectory(directory);
    requireNoLink(this.#root, path.dirname(file));
    return target;
  }

  /** What the newest manifest noted has to be there; whole lines behind that are of a run that was ended. */
  #readCatalogue(): void {
    const noted = this.newest === undefined ? [] : this.files.catalogue(this.newest);
    const target = path.join(this.#root, CATALOGUE);
    if (!fs.existsSync(target)) return;
    const most = (this.newest?.catalogue.bytes ?? 0) + MOST_UNNOTED;
    const { entries, bytes } = readCatalogue(beginning(target, most).toString('latin1'));
    for (const { file, sha256 } of [...noted, ...entries]) this.#catalogue.set(file, sha256);
    this.#catalogueBytes = bytes;
    const file = DurableFile.open(target, 'there');
    try {
      if (file.bytes > bytes) file.truncate(bytes);
      file.flush();
    } finally {
      file.close();
    }
  }
}

/** At most so many bytes of a file. */
function beginning(target: string, most: number): Buffer {
  const file = DurableFile.open(target, 'there');
  try {
    return file.read(0, Math.min(file.bytes, most));
  } finally {
    file.close();
  }
}
