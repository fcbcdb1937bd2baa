/**
 * The tree on disk: a file of hashes per level, and the checkpoints.
 *
 *   tree/level-<L>                  the hashes of level L, 32 bytes each; tile N of a level (C2SP tlog-tiles)
 *                                   begins at byte 8192 N
 *   checkpoints/latest              the newest checkpoint
 *   checkpoints/<size>.checkpoint   kept checkpoints, by size in 16 digits
 *
 * There is one file per level instead of one per tile: ten million events are 39,000 tiles, and each partial
 * tile would need a new file each second. `collector proof --tiles` writes the directory of tiles of the
 * standard.
 */
import path from 'node:path';
import { systemCode } from '../../system-code.js';
import { HeadMoved, type TreeReader, type TreeStore } from '../contract/tree.js';
import type { Files } from '../../files.js';

const HASH_BYTES = 32;
/** Maximum bytes read of a checkpoint. */
const MAX_NOTE_BYTES = 1 << 20;

export class TreeFiles implements TreeStore {
  readonly #files: Files;
  readonly #tree: string;
  readonly #checkpoints: string;
  /** Descriptors of the levels, opened at first use. */
  readonly #levels: (number | undefined)[] = [];
  readonly #dirty = new Set<number>();
  #namesDirty = false;

  private constructor(
    files: Files,
    dataDirectory: string,
    private readonly writable: boolean,
  ) {
    this.#files = files;
    this.#tree = path.join(dataDirectory, 'tree');
    this.#checkpoints = path.join(dataDirectory, 'checkpoints');
  }

  /** Opens the tree for writing. The caller holds the lock of the data directory. */
  static open(dataDirectory: string, files: Files): TreeFiles {
    const tree = new TreeFiles(files, dataDirectory, true);
    files.makeDirectory(tree.#tree);
    files.makeDirectory(tree.#checkpoints);
    return tree;
  }

  /** Opens the tree for reading, even while a collector runs. Creates nothing. */
  static read(dataDirectory: string, files: Files): TreeReader {
    return new TreeFiles(files, dataDirectory, false);
  }

  hashes(level: number, first: number, count: number): Promise<Buffer> {
    return promised(() => {
      const fd = this.#levelFile(level);
      if (fd === undefined) return Buffer.alloc(0);
      const bytes = Buffer.allocUnsafe(count * HASH_BYTES);
      const got = this.#files.read(fd, bytes, 0, bytes.length, first * HASH_BYTES);
      return bytes.subarray(0, got - (got % HASH_BYTES));
    });
  }

  hashCount(level: number): Promise<number> {
    return promised(() => {
      const fd = this.#levelFile(level);
      return fd === undefined ? 0 : Math.floor(this.#files.size(fd) / HASH_BYTES);
    });
  }

  put(level: number, first: number, hashes: Buffer): Promise<void> {
    return promised(() => {
      const fd = this.#levelFile(level, true);
      if (fd === undefined) throw new Error(`level ${level} cannot be created`);
      this.#dirty.add(fd);
      this.#files.write(fd, hashes, hashes.length, first * HASH_BYTES);
    });
  }

  async flush(): Promise<void> {
    if (this.#namesDirty) {
      this.#files.syncDirectory(this.#tree);
      this.#namesDirty = false;
    }
    const dirty = [...this.#dirty];
    // The flushes run one after the other, so that none is still running when all hashes are put again after
    // a failure.
    for (const fd of dirty) {
      await this.#files.datasyncLater(fd);
      this.#dirty.delete(fd);
    }
  }

  head(): Promise<string | undefined> {
    return promised(() => this.#readNote('latest'));
  }

  /** Check and swap are atomic, because the lock excludes a second sequencer. */
  async swapHead(expected: string | undefined, note: string, keptSize?: number): Promise<void> {
    const head = this.#readNote('latest');
    if (head !== expected) {
      const is = head === undefined ? 'is missing' : 'is not the one that this collector has written';
      throw new HeadMoved(`checkpoints/latest ${is}: another process changed it`);
    }
    const bytes = Buffer.from(note);
    // The kept copy is written first: a kept checkpoint that was never published does no harm.
    if (keptSize !== undefined) {
      await this.#files.replace(path.join(this.#checkpoints, keptName(keptSize)), bytes);
    }
    await this.#files.replace(path.join(this.#checkpoints, 'latest'), bytes);
  }

  close(): Promise<void> {
    return promised(() => {
      for (const fd of this.#levels) if (fd !== undefined) this.#files.close(fd);
      this.#levels.length = 0;
    });
  }

  /** The descriptor of a level; undefined if it does not exist and `make` is false. */
  #levelFile(level: number, make = false): number | undefined {
    const open = this.#levels[level];
    if (open !== undefined) return open;
    const name = `level-${level}`;
    const isThere = this.#list(this.#tree).includes(name);
    if (!isThere && !make) return undefined;
    const flags = this.writable ? (isThere ? 'r+' : 'wx+') : 'r';
    this.#namesDirty ||= !isThere;
    return (this.#levels[level] = this.#files.open(path.join(this.#tree, name), flags));
  }

  #list(directory: string): string[] {
    try {
      return this.#files.list(directory);
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return [];
      throw error;
    }
  }

  #readNote(name: string): string | undefined {
    if (!this.#list(this.#checkpoints).includes(name)) return undefined;
    const fd = this.#files.open(path.join(this.#checkpoints, name), 'r');
    try {
      const bytes = Buffer.alloc(Math.min(this.#files.size(fd), MAX_NOTE_BYTES));
      return bytes.toString('utf8', 0, this.#files.read(fd, bytes, 0, bytes.length, 0));
    } finally {
      this.#files.close(fd);
    }
  }
}

/** Works synchronously: a read from the page cache is faster than a switch to the thread pool. */
function promised<Value>(work: () => Value): Promise<Value> {
  return new Promise((resolve) => resolve(work()));
}

function keptName(size: number): string {
  return `${String(size).padStart(16, '0')}.checkpoint`;
}
