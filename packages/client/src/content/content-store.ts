/** Stores content that events refer to by its hash. */
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { types } from 'node:util';

export interface ContentStore {
  /**
   * On return the content is durable under its hash; readers never see a part of it. Existing content stays.
   * The promise must settle: pending content occupies memory, and beyond 32 MiB events are refused.
   * @param sha256 hash of the content in lower-case hexadecimal.
   */
  put(content: Uint8Array, sha256: string): Promise<void>;
  /**
   * Synchronous version for the end of the process. Without it, events with pending content are lost and
   * counted.
   */
  putNow?(content: Uint8Array, sha256: string): void;
}

/** The URI of content in an event. It does not contain the place of the content. */
export function contentUri(sha256: string): string {
  return `sha256:${sha256}`;
}

export function sha256Of(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/**
 * Copies the bytes, which the caller may overwrite.
 * @returns undefined for neither a string nor a Uint8Array.
 */
export function copyOf(content: unknown): Uint8Array | undefined {
  if (typeof content === 'string') return Buffer.from(content);
  return types.isUint8Array(content) ? new Uint8Array(content) : undefined;
}

const { O_RDONLY, O_NONBLOCK } = fs.constants;
/** Opening a pipe does not block. */
const TO_READ = O_RDONLY | O_NONBLOCK;

/**
 * Stores content in `<directory>/<first two digits of the hash>/<hash>`, readable by its owner only. A file
 * is flushed under another name and then renamed.
 */
export class ContentDirectory implements ContentStore {
  readonly #root: string | undefined;
  /** Directories that are durable. */
  readonly #made = new Set<string>();

  /**
   * @param directory an empty name refuses all content, so that none is stored in the working directory by
   * mistake.
   */
  constructor(directory: string) {
    this.#root = directory === '' ? undefined : path.resolve(directory);
  }

  /** See `ContentStore.put`. @throws the file system's error. */
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
    // The directory is flushed for an existing file too: the process that renamed it may have ended before
    // its flush.
    await syncDirectory(directory);
  }

  /** See `ContentStore.putNow`. @throws the file system's error. */
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
    if (root === undefined) throw new TypeError('the directory for content is not named');
    const directory = path.join(root, sha256.slice(0, 2));
    const file = path.join(directory, sha256);
    return { root, directory, file, partial: `${file}.${randomUUID()}.partial` };
  }
}

/** False for a damaged file, which is replaced. */
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
