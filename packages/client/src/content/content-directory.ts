/**
 * Content in a directory: `<directory>/<first two digits of the hash>/<hash>`, readable by its owner alone. A file
 * appears under its name whole, by renaming, and is on stable storage before anyone is told.
 */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs/promises';
import path from 'node:path';
import type { ContentStore } from './content-store.js';

export class ContentDirectory implements ContentStore {
  readonly #root: string;
  /** Directories that are on stable storage with their names. */
  readonly #made = new Set<string>();

  constructor(directory: string) {
    this.#root = path.resolve(directory);
  }

  /** See `ContentStore.put`. @throws the file system's error; then nothing is there under the hash, or all of it. */
  async put(content: Uint8Array, sha256: string): Promise<void> {
    const directory = path.join(this.#root, sha256.slice(0, 2));
    const file = path.join(directory, sha256);
    await this.#make(directory);
    if (!(await isThere(file, content.length))) {
      const partial = `${file}.${randomUUID()}.partial`;
      try {
        await writeDurably(partial, content);
        await fs.rename(partial, file);
      } catch (error) {
        await fs.rm(partial, { force: true });
        throw error;
      }
    }
    // Also for a file that was there: whoever renamed it may have ended before this.
    await syncDirectory(directory);
  }

  async #make(directory: string): Promise<void> {
    if (this.#made.has(directory)) return;
    await fs.mkdir(directory, { recursive: true, mode: 0o700 });
    await syncDirectory(this.#root);
    await syncDirectory(path.dirname(this.#root));
    this.#made.add(directory);
  }
}

/** A file of another length under this name is damaged, and is replaced. */
async function isThere(file: string, bytes: number): Promise<boolean> {
  try {
    return (await fs.stat(file)).size === bytes;
  } catch {
    return false;
  }
}

async function writeDurably(file: string, content: Uint8Array): Promise<void> {
  const handle = await fs.open(file, 'wx', 0o600);
  try {
    await handle.writeFile(content);
    await handle.datasync();
  } finally {
    await handle.close();
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await fs.open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
