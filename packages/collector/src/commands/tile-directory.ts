/**
 * A directory of tiles as it is served (C2SP tlog-tiles):
 *
 *   checkpoint                              the signed note; in place of the one before when all that it needs is there
 *   tile/<level>/<number>[.p/<width>]       hashes
 *   tile/entries/<number>[.p/<width>]       entries
 *   .collector-drafts/                      files that are being written; gone when an export ends
 *
 * Every file appears whole, by a rename, and is on stable storage by then: a reader, or a crash at any point, finds a
 * checkpoint and everything below it. Files are written by the thread pool, some at a time, because each flush waits
 * for the disk.
 */
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { TILE_HASHES, tilePath } from '../integrity/merkle.js';
import { systemCode } from '../system-code.js';

const CHECKPOINT = 'checkpoint';
const TILES = 'tile';
const DRAFTS = '.collector-drafts';
const PARTIAL = '.p';
/** Files that are being written at once at most. */
const AT_ONCE = 32;

const pool = {
  open: promisify(fs.open),
  write: promisify(fs.write),
  datasync: promisify(fs.fdatasync),
  close: promisify(fs.close),
  rename: promisify(fs.rename),
};

/** There is something else in the directory, and nothing of a log. */
export class NotATileDirectory extends Error {
  override name = 'NotATileDirectory';
}

export class TileDirectory {
  /** False when nothing had been exported here: then no file has to be looked for. */
  readonly #used: boolean;
  readonly #made = new Set<string>();
  readonly #writing = new Set<Promise<void>>();
  #drafts = 0;
  #written = 0;
  #failure: Error | undefined;

  /**
   * On return the directory exists.
   * @throws NotATileDirectory when it holds other files, and no checkpoint.
   */
  constructor(readonly root: string) {
    fs.mkdirSync(root, { recursive: true });
    const names = fs.readdirSync(root);
    const other = names.find((name) => name !== TILES && name !== DRAFTS);
    if (other !== undefined && !names.includes(CHECKPOINT)) {
      throw new NotATileDirectory(`${root} holds ${other}, and no tiles of a log`);
    }
    this.#used = names.length > 0;
    // Of an export that was interrupted.
    this.#removeDrafts();
  }

  /** How many files were written so far. */
  get written(): number {
    return this.#written;
  }

  /** The signed note; undefined before the first export has ended. */
  checkpoint(): string | undefined {
    return this.#read(CHECKPOINT)?.toString();
  }

  /** Whether the tile is there, by its size in bytes. */
  holds(level: number | 'entries', index: number, width: number, bytes: number): boolean {
    const file = path.join(this.root, tilePath(level, index, width));
    return this.#used && fs.statSync(file, { throwIfNoEntry: false })?.size === bytes;
  }

  /** What is there of a tile: of this width, or else the full one. */
  tile(level: number | 'entries', index: number, width: number): Buffer | undefined {
    return this.#read(tilePath(level, index, width)) ?? this.#read(tilePath(level, index, TILE_HASHES));
  }

  /**
   * Writes the tile, unless it is there as it should be. It may not be there on return, but is after `flush`.
   * @throws the system's error of this file or of one before it.
   */
  async put(level: number | 'entries', index: number, width: number, bytes: Buffer): Promise<void> {
    const name = tilePath(level, index, width);
    if (this.#used && this.#read(name)?.equals(bytes)) return;
    this.#written++;
    await this.#room();
    const writing = this.#write(name, bytes)
      .catch((error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error));
      })
      .then(() => void this.#writing.delete(writing));
    this.#writing.add(writing);
  }

  /** On return every tile is there, on stable storage. */
  async flush(): Promise<void> {
    await Promise.all(this.#writing);
    this.#throwFailure();
    for (const directory of this.#made) syncDirectory(path.join(this.root, directory));
  }

  /** Puts the checkpoint in the place of the one before. On return it is on stable storage. */
  async setCheckpoint(note: string): Promise<void> {
    if (this.checkpoint() === note) return;
    await this.#write(CHECKPOINT, Buffer.from(note));
    syncDirectory(this.root);
  }

  /** Removes the partial tiles whose full tile is there, which no checkpoint needs any more. */
  clearAway(): void {
    if (this.#used && fs.existsSync(path.join(this.root, TILES))) this.#clear(TILES);
  }

  /** Leaves nothing behind that is half written. */
  async close(): Promise<void> {
    await Promise.all(this.#writing);
    this.#removeDrafts();
  }

  #removeDrafts(): void {
    fs.rmSync(path.join(this.root, DRAFTS), { recursive: true, force: true });
  }

  #clear(directory: string): void {
    const entries = fs.readdirSync(path.join(this.root, directory), { withFileTypes: true });
    const files = new Set(entries.filter((entry) => entry.isFile()).map(({ name }) => name));
    for (const entry of entries) {
      const name = path.join(directory, entry.name);
      if (!entry.isDirectory()) continue;
      if (!entry.name.endsWith(PARTIAL)) this.#clear(name);
      else if (files.has(entry.name.slice(0, -PARTIAL.length)))
        fs.rmSync(path.join(this.root, name), { recursive: true });
    }
  }

  async #room(): Promise<void> {
    this.#throwFailure();
    // The pool hands its files on only while this thread is at rest.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#writing.size >= AT_ONCE) await Promise.race(this.#writing);
  }

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    this.#makeDirectory(path.dirname(name));
    this.#makeDirectory(DRAFTS);
    const draft = path.join(this.root, DRAFTS, `${process.pid}-${this.#drafts++}`);
    const fd = await pool.open(draft, 'wx');
    try {
      for (let done = 0; done < bytes.length;) {
        done += (await pool.write(fd, bytes, done, bytes.length - done)).bytesWritten;
      }
      await pool.datasync(fd);
    } finally {
      await pool.close(fd);
    }
    await pool.rename(draft, path.join(this.root, name));
  }

  #makeDirectory(directory: string): void {
    if (this.#made.has(directory)) return;
    fs.mkdirSync(path.join(this.root, directory), { recursive: true });
    // Each name on the way is one of the directory above it.
    for (let at = directory; !this.#made.has(at); at = path.dirname(at)) this.#made.add(at);
  }

  #read(name: string): Buffer | undefined {
    try {
      return fs.readFileSync(path.join(this.root, name));
    } catch (error) {
      const code = systemCode(error);
      if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
      throw error;
    }
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/** On return the names in the directory are on stable storage. Windows cannot flush one, and need not. */
function syncDirectory(directory: string): void {
  if (process.platform === 'win32') return;
  const fd = fs.openSync(directory, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
