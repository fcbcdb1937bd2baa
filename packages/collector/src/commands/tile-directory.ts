/**
 * A directory of tiles as it is served (C2SP tlog-tiles):
 *
 *   checkpoint                              the signed note; in place of the one before when all that it needs is there
 *   tile/<level>/<number>[.p/<width>]       hashes
 *   tile/entries/<number>[.p/<width>]       entries
 *   .collector-drafts/                      files that are being written; gone when an export ends
 *
 * Every file appears whole, by a rename, and is on stable storage by then: a reader, or a crash at any point, finds a
 * checkpoint and everything below it. Files are written some at a time, because each flush waits for the disk.
 */
import fs from 'node:fs';
import path from 'node:path';
import { TILE_HASHES, tilePath } from '../tree/merkle.js';
import { systemCode } from '../system-code.js';
import { nodeFiles } from '../files.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';

const CHECKPOINT = 'checkpoint';
const TILES = 'tile';
const DRAFTS = '.collector-drafts';
const PARTIAL = '.p';
/** Files that are being written at once at most. */
const AT_ONCE = 32;

export class TileDirectory {
  /** How many files were written so far. */
  written = 0;
  readonly #made = new Set<string>();
  readonly #writing = new Set<Promise<void>>();
  #drafts = 0;
  #failure: Error | undefined;

  /**
   * On return the directory exists.
   * @throws CommandFailure when it holds other files, and no checkpoint.
   */
  constructor(readonly root: string) {
    try {
      fs.mkdirSync(root, { recursive: true });
      const names = fs.readdirSync(root);
      const other = names.find((name) => name !== TILES && name !== DRAFTS);
      if (other !== undefined && !names.includes(CHECKPOINT))
        throw usage(`${root} holds ${other}, and no tiles of a log; give an empty directory, or a new one`);
    } catch (error) {
      const code = systemCode(error);
      if (code === 'ENOTDIR' || code === 'EEXIST') throw usage(`${root} is not a directory`);
      throw error;
    }
    // Of an export that was interrupted.
    this.#removeDrafts();
  }

  /** The signed note; undefined before the first export has ended. */
  checkpoint(): string | undefined {
    return this.#read(CHECKPOINT)?.toString();
  }

  /** Whether a full tile is there, by its size in bytes. */
  holds(level: number | 'entries', index: number, bytes: number): boolean {
    const file = path.join(this.root, tilePath(level, index, TILE_HASHES));
    return fs.statSync(file, { throwIfNoEntry: false })?.size === bytes;
  }

  /**
   * Writes the tile, unless it is there as it should be. It may not be there on return, but is after `flush`.
   * @param before its width in the earlier export, 0 without one: of that much nothing may have changed.
   * @throws CommandFailure when something has; the system's error of this file or of one before it.
   */
  async put(
    level: number | 'entries',
    index: number,
    before: number,
    width: number,
    bytes: Buffer,
  ): Promise<void> {
    if (before > 0)
      this.#assertUnchanged(level, index, before, bytes.subarray(0, (before * bytes.length) / width));
    const name = tilePath(level, index, width);
    if (this.#read(name)?.equals(bytes)) return;
    this.written++;
    this.#throwFailure();
    // The pool hands its files on only while this thread is at rest.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#writing.size >= AT_ONCE) await Promise.race(this.#writing);
    const writing = this.#write(name, bytes)
      .catch((error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error));
      })
      .then(() => void this.#writing.delete(writing));
    this.#writing.add(writing);
  }

  /** A file that is missing or cut short is written again. */
  #assertUnchanged(level: number | 'entries', index: number, width: number, bytes: Buffer): void {
    const name = tilePath(level, index, width);
    const there = (this.#read(name) ?? this.#read(tilePath(level, index, TILE_HASHES)))?.subarray(
      0,
      bytes.length,
    );
    if (there === undefined || there.length < bytes.length || there.equals(bytes)) return;
    throw new CommandFailure(
      `${this.root}/${name} is not what this log has there: it was changed; export into an empty directory`,
      EXIT.damaged,
    );
  }

  /** Puts the checkpoint in the place of the one before, once every tile is there. On return all is on stable storage. */
  async finish(note: string): Promise<void> {
    await Promise.all(this.#writing);
    this.#throwFailure();
    for (const directory of this.#made) nodeFiles.syncDirectory(path.join(this.root, directory));
    if (this.checkpoint() !== note) {
      await this.#write(CHECKPOINT, Buffer.from(note));
      nodeFiles.syncDirectory(this.root);
    }
    if (fs.existsSync(path.join(this.root, TILES))) this.#clear(TILES);
  }

  /** Leaves nothing behind that is half written. */
  async close(): Promise<void> {
    await Promise.all(this.#writing);
    this.#removeDrafts();
  }

  #removeDrafts(): void {
    fs.rmSync(path.join(this.root, DRAFTS), { recursive: true, force: true });
  }

  /** Removes the partial tiles whose full tile is there, which no checkpoint needs any more. */
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

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    this.#makeDirectory(path.dirname(name));
    this.#makeDirectory(DRAFTS);
    const draft = path.join(this.root, DRAFTS, `${process.pid}-${this.#drafts++}`);
    await fs.promises.writeFile(draft, bytes, { flag: 'wx', flush: true });
    await fs.promises.rename(draft, path.join(this.root, name));
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
