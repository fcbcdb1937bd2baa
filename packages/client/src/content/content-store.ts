/** Where large content is kept, so that events only refer to it. */
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { types } from 'node:util';

export interface ContentStore {
  /**
   * On return the content is durable under its hash, whole: a reader never sees a part of it. Content that is there
   * already is left as it is. It has to come to an end: what it has not answered takes memory, up to 32 MiB, and then
   * content is refused.
   * @param sha256 of the content, in lower-case hexadecimal.
   */
  put(content: Uint8Array, sha256: string): Promise<void>;
  /**
   * The same at the end of the process, when nothing can be awaited any more. Without it, what was not stored by then
   * is lost, which is told.
   */
  putNow?(content: Uint8Array, sha256: string): void;
}

/** What an event says of content: `sha256:` and the hash in lower-case hexadecimal. It does not say where it is kept. */
export function contentUri(sha256: string): string {
  return `sha256:${sha256}`;
}

export function sha256Of(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/**
 * A copy of the bytes: the caller may write over its own before they are stored.
 * @returns undefined for what is neither a text nor a Uint8Array, whatever length it says it has.
 */
export function copyOf(content: unknown): Uint8Array | undefined {
  if (typeof content === 'string') return Buffer.from(content);
  return types.isUint8Array(content) ? new Uint8Array(content) : undefined;
}

/*
 * Content in a directory: `<directory>/<first two digits of the hash>/<hash>`, readable by its owner alone. A file
 * appears under its name whole, by renaming, and is on stable storage before anyone is told.
 */

const { O_RDONLY, O_NONBLOCK } = fs.constants;
/** Whatever lies there, opening it does not wait: a pipe would, for a writer. */
const TO_READ = O_RDONLY | O_NONBLOCK;

export class ContentDirectory implements ContentStore {
  readonly #root: string | undefined;
  /** Directories that are on stable storage with their names. */
  readonly #made = new Set<string>();

  /** @param directory without a name nothing is stored: never in the working directory by a slip. */
  constructor(directory: string) {
    this.#root = directory === '' ? undefined : path.resolve(directory);
  }

  /** See `ContentStore.put`. @throws the file system's error; then nothing is there under the hash, or all of it. */
  async put(content: Uint8Array, sha256: string): Promise<void> {
    const { root, directory, file, partial } = this.#places(sha256);
    if (!this.#made.has(directory)) {
      await fs.promises.mkdir(directory, { recursive: true, mode: 0o700 });
      await syncDirectory(root);
      await syncDirectory(path.dirname(root));
      this.#made.add(directory);
    }
    if (!(await isThere(file, content.length, sha256))) {
      try {
        await writeDurably(partial, content);
        await fs.promises.rename(partial, file);
      } catch (error) {
        await fs.promises.rm(partial, { force: true });
        throw error;
      }
    }
    // Also for a file that was there: anyone who renamed it may have ended before this.
    await syncDirectory(directory);
  }

  /** See `ContentStore.putNow`. @throws as `put`. */
  putNow(content: Uint8Array, sha256: string): void {
    const { root, directory, file, partial } = this.#places(sha256);
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    if (!isThereNow(file, content.length, sha256)) {
      try {
        writeDurablyNow(partial, content);
        fs.renameSync(partial, file);
      } catch (error) {
        fs.rmSync(partial, { force: true });
        throw error;
      }
    }
    for (const synced of [directory, root, path.dirname(root)]) syncDirectoryNow(synced);
  }

  #places(sha256: string) {
    const root = this.#root;
    if (root === undefined) throw new TypeError('the directory for content has no name');
    const directory = path.join(root, sha256.slice(0, 2));
    const file = path.join(directory, sha256);
    return { root, directory, file, partial: `${file}.${randomUUID()}.partial` };
  }
}

/** A file under this name with other bytes is damaged, and is replaced. */
async function isThere(file: string, bytes: number, sha256: string): Promise<boolean> {
  try {
    const handle = await fs.promises.open(file, TO_READ);
    try {
      const stat = await handle.stat();
      return stat.isFile() && stat.size === bytes && sha256Of(await handle.readFile()) === sha256;
    } finally {
      await handle.close();
    }
  } catch {
    return false;
  }
}

function isThereNow(file: string, bytes: number, sha256: string): boolean {
  try {
    const fd = fs.openSync(file, TO_READ);
    try {
      const stat = fs.fstatSync(fd);
      return stat.isFile() && stat.size === bytes && sha256Of(fs.readFileSync(fd)) === sha256;
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return false;
  }
}

async function writeDurably(file: string, content: Uint8Array): Promise<void> {
  const handle = await fs.promises.open(file, 'wx', 0o600);
  try {
    await handle.writeFile(content);
    await handle.datasync();
  } finally {
    await handle.close();
  }
}

function writeDurablyNow(file: string, content: Uint8Array): void {
  const fd = fs.openSync(file, 'wx', 0o600);
  try {
    fs.writeFileSync(fd, content);
    fs.fdatasyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await fs.promises.open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function syncDirectoryNow(directory: string): void {
  const fd = fs.openSync(directory, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
