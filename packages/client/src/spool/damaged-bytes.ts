/** What could not be read as frames is not thrown away: it goes to files of its own, as it is. */
import path from 'node:path';
import type { SpoolFiles } from './files.js';
import type { LostBytes } from './segment-reader.js';

const CHUNK_BYTES = 1 << 20;

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
    const file = path.join(this.directory, `${name}-${lost.offset}.bytes`);
    let copy: number | undefined;
    try {
      for (let done = 0; done < lost.size; done += CHUNK_BYTES) {
        const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, lost.size - done));
        const got = await this.#files.read(fd, chunk, lost.offset + done);
        if (copy === undefined && chunk.every((byte) => byte === 0)) continue;
        if (copy === undefined) {
          await this.#files.makeDirectory(this.directory);
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
}
