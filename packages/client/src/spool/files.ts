/**
 * The file layer: every call by which the spool touches the disk, so that a test can make any of them fail. Nothing
 * here retries or hides an error. The calls that return promises run in Node's thread pool: a slow disk never holds up
 * the host application. Those that end in `Now` are for the end of the process, when nothing can be awaited any more.
 */
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from './error-code.js';
import { holdLock, HOST, lockState, type HeldLock, type LockState } from './lock.js';

export interface SpoolFiles {
  /** On return the directory exists, mode 0700 if it was made, and the names of all that was made are durable. */
  makeDirectory(directory: string): Promise<void>;
  /** The same for a directory inside the spool. @throws when a link is in its place, which may lead out of it. */
  makeInside(directory: string): Promise<void>;
  removeDirectory(directory: string): Promise<void>;
  /** Sorted by name. */
  list(directory: string): Promise<string[]>;
  /** Who owns it and its permission bits. */
  ownerOf(directory: string): Promise<{ uid: number; mode: number }>;
  /** On return the names in the directory are on stable storage. */
  syncDirectory(directory: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** No error when it is not there. */
  remove(file: string): Promise<void>;
  /**
   * `new` fails with EEXIST, `read` with ENOENT; `write` makes it if need be. What is made has mode 0600. All fail for
   * what is no regular file, links among it, and never wait for somebody at the other end of a pipe.
   */
  open(file: string, how: 'read' | 'write' | 'new'): Promise<number>;
  close(fd: number): Promise<void>;
  size(fd: number): Promise<number>;
  /** Reads until `target` is full or the file ends. */
  read(fd: number, target: Uint8Array, position: number): Promise<number>;
  /** Writes all of it or throws; after a throw any part may have been written. */
  write(fd: number, source: Uint8Array, position: number): Promise<void>;
  truncate(fd: number, size: number): Promise<void>;
  /** On return what was written to `fd` is on stable storage (fdatasync, POSIX.1-2017). */
  datasync(fd: number): Promise<void>;
  /** Sets the time of its last change to now. */
  touch(file: string): Promise<void>;
  /** The time of its last change, as the file system tells it. */
  touchedAt(file: string): Promise<number>;
  /** Opens for writing, and makes it if need be. */
  openNow(file: string): number;
  writeNow(fd: number, source: Uint8Array, position: number): void;
  datasyncNow(fd: number): void;
  /** See lock.ts. */
  holdLock(file: string): Promise<HeldLock>;
  lockState(file: string): Promise<LockState>;
  /** Differs between hosts, and between two starts of one, where that can be told. */
  readonly host: string;
}

const promised = {
  open: promisify(fs.open),
  close: promisify(fs.close),
  fstat: promisify(fs.fstat),
  read: promisify(fs.read),
  write: promisify(fs.write),
  ftruncate: promisify(fs.ftruncate),
  fdatasync: promisify(fs.fdatasync),
};

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
const PLAIN = O_NOFOLLOW | O_NONBLOCK;
const FLAGS = {
  read: O_RDONLY | PLAIN,
  write: O_RDWR | O_CREAT | PLAIN,
  new: O_RDWR | O_CREAT | O_EXCL | PLAIN,
};

/** Like those of the system; EFTYPE is what some of them call it. */
function notRegular(file: string): Error {
  return Object.assign(new Error(`${file} is no regular file`), { code: 'EFTYPE' });
}

export const nodeFiles: SpoolFiles = {
  async makeDirectory(directory) {
    const first = await fs.promises.mkdir(directory, { recursive: true, mode: 0o700 });
    if (first === undefined) return;
    for (let made = path.resolve(directory); ; made = path.dirname(made)) {
      await this.syncDirectory(path.dirname(made));
      if (made === path.resolve(first)) break;
    }
  },
  async makeInside(directory) {
    await this.makeDirectory(directory);
    if ((await fs.promises.lstat(directory)).isDirectory()) return;
    throw Object.assign(new Error(`${directory} is a link`), { code: 'ENOTDIR' });
  },
  removeDirectory: (directory) => fs.promises.rmdir(directory),
  list: async (directory) => (await fs.promises.readdir(directory)).sort(),
  async ownerOf(directory) {
    const { uid, mode } = await fs.promises.stat(directory);
    return { uid, mode: mode & 0o777 };
  },
  async syncDirectory(directory) {
    const handle = await fs.promises.open(directory, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
  rename: (from, to) => fs.promises.rename(from, to),
  remove: (file) => fs.promises.rm(file, { force: true }),
  async open(file, how) {
    let fd: number;
    try {
      fd = await promised.open(file, FLAGS[how], 0o600);
    } catch (error) {
      // A link; a directory, opened for writing; a pipe or socket that nobody reads.
      if (['ELOOP', 'EISDIR', 'ENXIO'].includes(errorCode(error) ?? '')) throw notRegular(file);
      throw error;
    }
    if (how === 'new' || (await promised.fstat(fd)).isFile()) return fd;
    await promised.close(fd);
    throw notRegular(file);
  },
  close: (fd) => promised.close(fd),
  size: async (fd) => (await promised.fstat(fd)).size,
  async read(fd, target, position) {
    let done = 0;
    while (done < target.length) {
      const { bytesRead } = await promised.read(fd, target, done, target.length - done, position + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return done;
  },
  async write(fd, source, position) {
    for (let done = 0; done < source.length;) {
      done += (await promised.write(fd, source, done, source.length - done, position + done)).bytesWritten;
    }
  },
  truncate: (fd, size) => promised.ftruncate(fd, size),
  datasync: (fd) => promised.fdatasync(fd),
  async touch(file) {
    const now = new Date();
    await fs.promises.utimes(file, now, now);
  },
  touchedAt: async (file) => (await fs.promises.stat(file)).mtimeMs,
  openNow: (file) => fs.openSync(file, FLAGS.write, 0o600),
  writeNow(fd, source, position) {
    for (let done = 0; done < source.length;) {
      done += fs.writeSync(fd, source, done, source.length - done, position + done);
    }
  },
  datasyncNow: (fd) => fs.fdatasyncSync(fd),
  holdLock,
  lockState,
  host: HOST,
};

/** @returns false when it is not there. */
export async function moved(files: SpoolFiles, from: string, to: string): Promise<boolean> {
  try {
    await files.rename(from, to);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}
