/**
 * The directory that back-ups are in:
 *
 *   backup.json                          what this is: format, ledger, origin; made first
 *   manifests/<UTC time>-<entries>.json  one for each run, made last (manifest.ts)
 *   files.sha256                         the files that never change (catalogue.ts)
 *   ledger/<sequence>.segment            the log; only the last one grows
 *   checkpoints/…                        kept checkpoints, the log's first key, rotations
 *   keys/<SHA-256>.db                    API keys, a file for each state that was met
 *   access-log/0001                      who read what; another one when the log's was begun anew
 *   signing-keys/<key id>.pem            only when asked for
 *   drafts/, lock                        of the run that is under way
 *
 * Here it is only read; nothing has to be locked for that, because nothing that a manifest names ever changes.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { systemCode } from '../system-code.js';
import { BackupDamaged, NotThisBackup } from './backup-fault.js';
import { readCatalogue, type CatalogueEntry } from './catalogue.js';
import { PIECE_BYTES } from './durable.js';
import {
  byAge,
  FORMAT,
  parseManifest,
  readManifestName,
  VERSION,
  type Manifest,
  type ManifestName,
  type Noted,
} from './manifest.js';

export const MARKER = 'backup.json';
export const MANIFESTS = 'manifests';
/** A manifest is a few kilobytes, and the marker less; a file larger than this is neither. */
const MOST_TEXT = 16 << 20;

/** Files of a back-up in the list, a hundred bytes each: more than two million, a hundred terabytes of log. */
const MOST_CATALOGUE = 256 << 20;

/** The beginning of a file, or all of it when no size is given. */
type NotedOrWhole = Omit<Noted, 'bytes'> & { readonly bytes?: number };

/** What a directory of back-ups is of. */
export interface BackupIdentity {
  readonly ledgerId: string;
  readonly origin: string;
}

export function formatMarker({ ledgerId, origin }: BackupIdentity): string {
  const marker = { format: FORMAT, version: VERSION, ledger_id: ledgerId, origin };
  return `${JSON.stringify(marker, undefined, 2)}\n`;
}

export class BackupFiles {
  readonly root: string;
  readonly identity: BackupIdentity;

  /** @throws NotThisBackup when the directory is none of back-ups. */
  constructor(root: string) {
    this.root = root;
    this.identity = readMarker(root);
  }

  /** Oldest first. @throws BackupDamaged when something else stands among them. */
  manifestNames(): ManifestName[] {
    const names = namesIn(path.join(this.root, MANIFESTS)).map((name) => {
      const read = readManifestName(name);
      if (read !== undefined) return read;
      throw new BackupDamaged(`${MANIFESTS}/${name} is no manifest; move it away`);
    });
    return names.sort(byAge);
  }

  /** @throws BackupDamaged; Error when a later version wrote it. */
  manifest({ name }: ManifestName): Manifest {
    const manifest = parseManifest(this.#text(`${MANIFESTS}/${name}`), name);
    const { ledgerId, origin } = this.identity;
    if (manifest.ledger_id === ledgerId && manifest.origin === origin) return manifest;
    throw new BackupDamaged(`${MANIFESTS}/${name} is of ${manifest.origin}, and ${MARKER} says ${origin}`);
  }

  /** The files that do not change, as they were when the manifest was made. @throws BackupDamaged. */
  catalogue({ catalogue }: Pick<Manifest, 'catalogue'>): CatalogueEntry[] {
    if (catalogue.bytes > MOST_CATALOGUE)
      throw new BackupDamaged(`${catalogue.file} is too large to be one of ours`);
    const pieces: Buffer[] = [];
    this.read(catalogue, (piece) => pieces.push(Buffer.from(piece)));
    const { entries, bytes } = readCatalogue(Buffer.concat(pieces).toString('latin1'));
    if (bytes === catalogue.bytes) return entries;
    throw new BackupDamaged(`${catalogue.file} holds a line that is none`);
  }

  /**
   * Reads the beginning of a file, or all of one of which the size is not noted.
   * @param take is given the bytes in order, before they are known to be right; they are valid during the call.
   * @param earlier what is noted of shorter beginnings of it, the shortest first.
   * @throws BackupDamaged when they are not as they were written.
   */
  read(noted: NotedOrWhole, take: (piece: Buffer) => void, earlier: readonly Noted[] = []): void {
    const { file, bytes, sha256 } = noted;
    const found = createHash('sha256');
    let [position, next] = [0, 0];
    const compare = () => {
      for (; earlier[next]?.bytes === position; next++) {
        if (found.copy().digest('hex') === earlier[next]?.sha256) continue;
        throw new BackupDamaged(`${file} in the back-up is not as it was written, before byte ${position}`);
      }
    };
    compare();
    this.#pieces(file, bytes, (piece) => {
      for (let at = 0; at < piece.length;) {
        const until = Math.min(piece.length, at + (earlier[next]?.bytes ?? Infinity) - position);
        found.update(piece.subarray(at, until));
        position += until - at;
        at = until;
        compare();
      }
      take(piece);
    });
    const due = bytes ?? earlier.at(-1)?.bytes ?? 0;
    if (position < due) {
      throw new BackupDamaged(`${file} in the back-up ends at byte ${position}, and ${due} were written`);
    }
    if (found.digest('hex') === sha256) return;
    throw new BackupDamaged(`${file} in the back-up is not as it was written`);
  }

  /** @throws BackupDamaged when it is not there, or no regular file of the back-up itself. */
  size(file: string): number {
    const stat = fs.lstatSync(path.join(this.root, file), { throwIfNoEntry: false });
    if (stat === undefined) throw new BackupDamaged(`${file} is not in the back-up any more`);
    requireNoLink(this.root, path.dirname(file));
    if (stat.isSymbolicLink()) throw linkIn(file);
    if (stat.isFile()) return stat.size;
    throw new BackupDamaged(`${file} in the back-up is no file`);
  }

  #pieces(file: string, bytes: number | undefined, take: (piece: Buffer) => void): void {
    const most = Math.min(bytes ?? Infinity, this.size(file));
    const fd = fs.openSync(path.join(this.root, file), 'r');
    try {
      const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, Math.max(1, most)));
      let position = 0;
      while (position < most) {
        const got = fs.readSync(fd, piece, 0, Math.min(piece.length, most - position), position);
        if (got === 0) break;
        take(piece.subarray(0, got));
        position += got;
      }
    } finally {
      fs.closeSync(fd);
    }
  }

  #text(file: string): string {
    if (this.size(file) > MOST_TEXT) throw new BackupDamaged(`${file} is too large to be one of ours`);
    return fs.readFileSync(path.join(this.root, file), 'utf8');
  }
}

/**
 * For a directory in a back-up.
 * @throws BackupDamaged when a link leads out of the back-up: what is read there nobody has backed up, and whoever may
 *   write there could have any file of ours written over, the log itself before all.
 */
export function requireNoLink(root: string, directory: string): void {
  const there = fs.realpathSync(path.join(root, directory));
  if (there !== path.join(fs.realpathSync(root), directory)) throw linkIn(directory);
}

function linkIn(file: string): BackupDamaged {
  return new BackupDamaged(`${file} in the back-up is a symbolic link, which leads out of it`);
}

function readMarker(root: string): BackupIdentity {
  const file = path.join(root, MARKER);
  const none = new NotThisBackup(`${root} is no directory of back-ups: ${MARKER} in it is not ours`);
  let text: string;
  try {
    const stat = fs.statSync(file);
    if (!stat.isFile() || stat.size > MOST_TEXT) throw none;
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    const code = systemCode(error);
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    throw new NotThisBackup(`${root} is no directory of back-ups: there is no ${MARKER} in it`);
  }
  let marker: Partial<Record<string, unknown>> | null;
  try {
    marker = JSON.parse(text) as typeof marker;
  } catch {
    throw none;
  }
  if (marker?.['format'] !== FORMAT) throw none;
  if (typeof marker['version'] === 'number' && marker['version'] > VERSION) {
    throw new NotThisBackup(`${root} was written by a later version of the collector`);
  }
  const identity = { ledgerId: String(marker['ledger_id']), origin: String(marker['origin']) };
  if (formatMarker(identity) !== text) throw new BackupDamaged(`${file} is not as it was written`);
  return identity;
}

/** Sorted; none when there is no such directory. */
export function namesIn(directory: string): string[] {
  try {
    return fs.readdirSync(directory).sort();
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  }
}
