/**
 * The file layer: every call by which the spool touches the disk, so that a test can make any of them fail. Nothing
 * here retries or hides an error. The calls that return promises run in Node's thread pool: a slow disk never holds up
 * the host application. Those that end in `Now` are for the end of the process, when nothing can be awaited any more.
 */
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

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
   * what is no regular file, links among it, and never wait for someone at the other end of a pipe.
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
  /** See `holdLock` and `lockState` below. */
  holdLock(file: string): Promise<HeldLock>;
  lockState(file: string): Promise<LockState>;
  /** Differs between hosts, and between two starts of one, where that can be told. */
  readonly host: string;
}

/** What tells this host from others with which it may share a directory: its boot, on Linux; elsewhere its name. */
export const HOST = hostIdentity();

function hostIdentity(): string {
  try {
    return fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return os.hostname();
  }
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
      // A link; a directory, opened for writing; a pipe or socket that no one reads.
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

/** Reads from the file while it is open. @returns undefined when it is not there. */
export async function reading<T>(
  files: SpoolFiles,
  file: string,
  read: (fd: number) => Promise<T>,
): Promise<T | undefined> {
  let fd: number;
  try {
    fd = await files.open(file, 'read');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return await read(fd);
  } finally {
    await files.close(fd);
  }
}

/** The names in the directory; none when it is not there. */
export async function namesIn(files: SpoolFiles, directory: string): Promise<string[]> {
  try {
    return await files.list(directory);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

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

/*
 * A lock that goes when its holder goes, however that ends, without native code: the holder listens on a Unix socket
 * in its directory, and anyone who wants to know tries to connect. The kernel answers for it, also while the holder's
 * event loop is busy, and refuses the connection once no one listens.
 *
 * What lost. A file with a process id and the start time from /proc: a container does not see the processes of another
 * one, takes its living neighbour for dead, and has never seen the process of which it is the restart. A file touched
 * again and again: a holder that is stopped, or whose clock is set, seems dead. Node has no flock.
 *
 * The kernel answers for its own processes only. Of directories shared between hosts see process-directory.ts.
 */

/** `free`: no one listens. `missing`: there is no such socket. Whatever else the system answers is `held`. */
export type LockState = 'held' | 'free' | 'missing';

export interface HeldLock {
  release(): Promise<void>;
}

/** sun_path of the systems that Node runs on holds 103 bytes at least, with the zero that ends it. */
const LONGEST_PATH = 103;

/**
 * A path of any length for the calls on sockets: through the descriptor of its directory, where there is a /proc.
 * @throws RangeError where there is none.
 */
function reachable(file: string): { name: string; fd: number | undefined } {
  if (Buffer.byteLength(file) <= LONGEST_PATH) return { name: file, fd: undefined };
  if (process.platform !== 'linux') {
    throw new RangeError(`the path of the spool is too long: ${LONGEST_PATH} bytes are left for ${file}`);
  }
  const fd = fs.openSync(path.dirname(file), 'r');
  return { name: `/proc/self/fd/${fd}/${path.basename(file)}`, fd };
}

/** On return this thread holds the lock until `release` or its end. Does not keep the process running. */
export async function holdLock(file: string): Promise<HeldLock> {
  const { name, fd } = reachable(file);
  // Only now: Node removes the socket by its name when it stops listening.
  const closeDirectory = () => {
    if (fd !== undefined) fs.closeSync(fd);
  };
  const server = net.createServer((socket) => socket.destroy());
  try {
    await new Promise<void>((resolve, reject) => {
      // Exclusive, or in a worker of node:cluster the primary would listen, and outlive it.
      server.once('error', reject).listen({ path: name, exclusive: true }, resolve);
    });
  } catch (error) {
    closeDirectory();
    throw error;
  }
  // Running out of descriptors while accepting does not end the listening.
  server.on('error', () => undefined).unref();
  return {
    release: () =>
      new Promise((resolve) => {
        server.close(() => {
          closeDirectory();
          resolve();
        });
      }),
  };
}

export async function lockState(file: string): Promise<LockState> {
  const { name, fd } = reachable(file);
  try {
    return await new Promise<LockState>((resolve) => {
      const socket = net.connect(name);
      socket.once('connect', () => {
        socket.destroy();
        resolve('held');
      });
      socket.once('error', (error) => {
        const code = errorCode(error);
        resolve(code === 'ECONNREFUSED' ? 'free' : code === 'ENOENT' ? 'missing' : 'held');
      });
    });
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

/** Whether it says that a disk or a quota has no room left. */
export function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(errorCode(error) ?? '');
}

/** The system's code of an error (ENOENT, ENOSPC, ...), if it has one. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
