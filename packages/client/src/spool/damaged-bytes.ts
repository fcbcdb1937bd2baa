/**
 * What could not be read as frames is not thrown away: it goes to files of its own in `damaged/`, as it is. Of events that
 * are missing a note is left there. Both stay until somebody takes them away.
 */
import path from 'node:path';
import { errorCode } from './error-code.js';
import type { SpoolFiles } from './files.js';
import type { LostBytes } from './segment-reader.js';

const CHUNK_BYTES = 1 << 20;
const ZEROS = Buffer.alloc(CHUNK_BYTES);
const BYTES = '.bytes';
const MISSING = '.missing';

/** A file in `damaged/`. */
export interface KeptDamage {
  readonly path: string;
  readonly bytes: number;
  /** For a note: how many events a segment had lost when it was read. */
  readonly missing: number | undefined;
}

export class DamagedBytes {
  readonly directory: string;
  readonly #files: SpoolFiles;

  constructor(files: SpoolFiles, root: string) {
    this.#files = files;
    this.directory = path.join(root, 'damaged');
  }

  /**
   * On return the bytes are durable in a file named by where they were, unless they are all zeros.
   * @param name of the segment, or of the file, in which they are.
   * @returns its path.
   */
  async keep(
    name: string,
    fd: number,
    lost: Pick<LostBytes, 'offset' | 'size'>,
  ): Promise<string | undefined> {
    const file = path.join(this.directory, `${name}-${lost.offset}${BYTES}`);
    let copy: number | undefined;
    try {
      for (let done = 0; done < lost.size; done += CHUNK_BYTES) {
        const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, lost.size - done));
        const got = await this.#files.read(fd, chunk, lost.offset + done);
        if (copy === undefined && chunk.equals(ZEROS.subarray(0, chunk.length))) continue;
        if (copy === undefined) {
          await this.#files.makeInside(this.directory);
          copy = await this.#files.open(file, 'write');
        }
        await this.#files.write(copy, chunk.subarray(0, got), done);
      }
      if (copy === undefined) return undefined;
      await this.#files.datasync(copy);
      await this.#files.syncDirectory(this.directory);
      return file;
    } finally {
      if (copy !== undefined) await this.#files.close(copy);
    }
  }

  /**
   * On return it is durable that so many events of the segment were missing when it was read, of which no byte is left.
   * @returns the path of the note.
   */
  async note(segment: string, missing: number): Promise<string> {
    const file = path.join(this.directory, `${segment}${MISSING}`);
    await this.#files.makeInside(this.directory);
    const fd = await this.#files.open(file, 'write');
    try {
      const text = Buffer.from(`${JSON.stringify({ segment, missing_events: missing })}\n`);
      await this.#files.write(fd, text, 0);
      await this.#files.truncate(fd, text.length);
      await this.#files.datasync(fd);
      await this.#files.syncDirectory(this.directory);
      return file;
    } finally {
      await this.#files.close(fd);
    }
  }

  /** What was kept and noted so far. @throws the system's error. */
  async all(): Promise<KeptDamage[]> {
    const names = await this.#files.list(this.directory).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return [];
      throw error;
    });
    const kept: KeptDamage[] = [];
    for (const name of names) kept.push(await this.#kept(path.join(this.directory, name)));
    return kept;
  }

  async #kept(file: string): Promise<KeptDamage> {
    let fd: number;
    try {
      fd = await this.#files.open(file, 'read');
    } catch {
      // Whatever it is, it is none of the spool's, and must not hide the others.
      return { path: file, bytes: 0, missing: undefined };
    }
    try {
      const bytes = await this.#files.size(fd);
      if (!file.endsWith(MISSING)) return { path: file, bytes, missing: undefined };
      const note = Buffer.alloc(Math.min(bytes, 256));
      const text = note.subarray(0, await this.#files.read(fd, note, 0)).toString();
      const missing = /"missing_events":(\d{1,15})\}/.exec(text)?.[1];
      return { path: file, bytes, missing: missing === undefined ? undefined : Number(missing) };
    } finally {
      await this.#files.close(fd);
    }
  }
}
