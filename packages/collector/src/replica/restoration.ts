/**
 * The place of a restored copy: `restoring/` in an empty directory, until the copy is verified. Then it is
 * moved into place. A collector does not start while `restoring/` exists, for example after an interrupted
 * restore.
 */
import fs from 'node:fs';
import path from 'node:path';
import { nodeFiles } from '../files.js';
import { RESTORING } from '../store/open.js';
import { Unusable } from '../unusable.js';

/** @throws Unusable if it is not an empty directory. */
function assertEmpty(directory: string): void {
  const found = fs.statSync(directory, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isDirectory()) {
    throw new Unusable(`${directory} is not a directory: give a new one or an empty one`);
  }
  const other = nodeFiles.list(directory).find((name) => name !== 'lost+found');
  if (other === undefined) return;
  throw new Unusable(`${directory} is not empty, it holds ${other}: give a new directory or an empty one`);
}

export class Restoration {
  /** The directory of the copy until it is verified. */
  readonly copy: string;
  readonly #isNew: boolean;

  /** @throws Unusable */
  constructor(private readonly directory: string) {
    assertEmpty(directory);
    this.#isNew = !fs.existsSync(directory);
    this.copy = path.join(directory, RESTORING);
  }

  /** On return the directory is a data directory, on stable storage. */
  take(): void {
    const names = nodeFiles.list(this.copy).filter((name) => name !== 'checkpoints');
    const move = (name: string) =>
      nodeFiles.rename(path.join(this.copy, name), path.join(this.directory, name));
    nodeFiles.syncDirectory(this.copy);
    names.forEach(move);
    nodeFiles.syncDirectory(this.directory);
    move('checkpoints');
    fs.rmdirSync(this.copy);
    nodeFiles.syncDirectory(this.directory);
  }

  /** Restores the previous state of the directory. */
  discard(): void {
    fs.rmSync(this.copy, { recursive: true, force: true });
    if (this.#isNew) fs.rmSync(this.directory, { recursive: true, force: true });
  }
}
