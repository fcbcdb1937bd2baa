/** Lays a back-up out as a data directory. */
import fs from 'node:fs';
import path from 'node:path';
import { systemCode } from '../system-code.js';
import { contentsOf } from './backup-contents.js';
import { namesIn, type BackupFiles } from './backup-files.js';
import { DurableFile, makeDirectory, syncDirectory } from './durable.js';
import type { Manifest } from './manifest.js';

/** The directory that was to be restored to is not empty. */
export class NotEmpty extends Error {
  override name = 'NotEmpty';
}

/** @throws NotEmpty, also of what is no directory; the system's error when it cannot be read. */
export function assertEmpty(directory: string): void {
  if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() === false) {
    throw new NotEmpty(`${directory} is no directory: give a new one or an empty one`);
  }
  const other = namesIn(directory).find((name) => name !== 'lost+found');
  if (other === undefined) return;
  throw new NotEmpty(`${directory} is not empty, it holds ${other}: give a new directory or an empty one`);
}

/**
 * On return the directory holds what the manifest tells of, on stable storage, every byte of it as it was written.
 * Checkpoints are laid out last, and the newest of all: a collector does not start on what a kill leaves.
 * @param onProgress bytes that are there, and of how many.
 * @param complete puts what is no part of the back-up beside what was laid out, before any checkpoint is there.
 * @throws NotEmpty; BackupDamaged, and whatever the system says: then what was laid out has been removed.
 */
export function layOut(
  files: BackupFiles,
  manifest: Manifest,
  directory: string,
  onProgress: (bytes: number, of: number) => void,
  complete: () => void = () => undefined,
): void {
  assertEmpty(directory);
  const contents = contentsOf(files, manifest);
  const of = contents.reduce((sum, { file, bytes }) => sum + (bytes ?? files.size(file)), 0);
  const isNew = !fs.existsSync(directory);
  makeDirectory(directory);
  try {
    let done = 0;
    const write = (target: string, fill: (write: (piece: Uint8Array) => void) => void) => {
      const full = path.join(directory, target);
      makeDirectory(path.dirname(full));
      const file = DurableFile.open(full, 'new');
      let position = 0;
      try {
        fill((piece) => {
          file.write(piece, position);
          position += piece.length;
        });
        file.flush();
      } finally {
        file.close();
      }
      onProgress((done += position), of);
    };
    // Each directory is flushed once, when all of it is there, and before a checkpoint speaks of it.
    for (const content of contents) write(content.target, (take) => files.read(content, take));
    for (const [name, note] of Object.entries(manifest.cosigned)) {
      write(`checkpoints/${name}`, (take) => take(Buffer.from(note)));
    }
    complete();
    syncAll(directory);
    write('checkpoints/latest', (take) => take(Buffer.from(manifest.checkpoint)));
    syncDirectory(path.join(directory, 'checkpoints'));
  } catch (error) {
    clear(directory, isNew);
    throw error;
  }
}

/** The names in a directory and below it. */
function syncAll(directory: string): void {
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory() && entry.name !== 'lost+found') syncAll(path.join(directory, entry.name));
  }
  syncDirectory(directory);
}

function clear(directory: string, isNew: boolean): void {
  try {
    for (const name of namesIn(directory)) {
      if (name !== 'lost+found') fs.rmSync(path.join(directory, name), { recursive: true, force: true });
    }
    if (isNew) fs.rmdirSync(directory);
  } catch (error) {
    // What stopped it may stop this too; a collector does not start there, and a restore says what is left.
    const code = systemCode(error);
    if (code !== 'EIO' && code !== 'EROFS') throw error;
  }
}
