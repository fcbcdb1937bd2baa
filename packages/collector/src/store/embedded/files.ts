/**
 * The file layer: every call by which the ledger touches the disk, so that a test can make any of them fail.
 * Nothing here retries or hides an error.
 */
import fs from 'node:fs';

export interface Files {
  open(path: string, flags: 'r' | 'r+' | 'wx+'): number;
  close(fd: number): void;
  size(fd: number): number;
  /** Reads up to `length` bytes; fewer only at the end of the file. */
  read(fd: number, target: Uint8Array, offset: number, length: number, position: number): number;
  /** Writes all of it or throws; after a throw any part may have been written. */
  write(fd: number, source: Uint8Array, length: number, position: number): void;
  /** On return what was written to `fd` is on stable storage (fdatasync, POSIX.1-2017). */
  datasync(fd: number): void;
  truncate(fd: number, size: number): void;
  rename(from: string, to: string): void;
  remove(path: string): void;
  makeDirectory(path: string): void;
  list(directory: string): string[];
  /** On return the names in the directory are on stable storage. */
  syncDirectory(path: string): void;
  /**
   * Creates `path` with `size` zero bytes that are on stable storage when the promise resolves. Written, not
   * merely reserved: only blocks that exist and were written can be overwritten without a journal commit.
   */
  createZeroed(path: string, size: number): Promise<void>;
}

const ZEROS = Buffer.alloc(1 << 20);

export const nodeFiles: Files = {
  open: (path, flags) => fs.openSync(path, flags, 0o600),
  close: (fd) => fs.closeSync(fd),
  size: (fd) => fs.fstatSync(fd).size,
  read(fd, target, offset, length, position) {
    let done = 0;
    while (done < length) {
      const got = fs.readSync(fd, target, offset + done, length - done, position + done);
      if (got === 0) break;
      done += got;
    }
    return done;
  },
  write(fd, source, length, position) {
    let done = 0;
    while (done < length) done += fs.writeSync(fd, source, done, length - done, position + done);
  },
  datasync: (fd) => fs.fdatasyncSync(fd),
  truncate: (fd, size) => fs.ftruncateSync(fd, size),
  rename: (from, to) => fs.renameSync(from, to),
  remove: (path) => fs.rmSync(path, { force: true }),
  makeDirectory: (path) => void fs.mkdirSync(path, { recursive: true, mode: 0o700 }),
  list: (directory) => fs.readdirSync(directory).sort(),
  syncDirectory(path) {
    const fd = fs.openSync(path, 'r');
    try {
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  },
  async createZeroed(path, size) {
    const handle = await fs.promises.open(path, 'w', 0o600);
    try {
      for (let at = 0; at < size; at += ZEROS.length) {
        await handle.write(ZEROS, 0, Math.min(ZEROS.length, size - at), at);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
};
