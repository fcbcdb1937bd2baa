/**
 * Every file operation of the spool, so that tests can make each one fail. Errors are neither retried nor
 * hidden. Asynchronous calls run in Node's thread pool, so a slow disk never blocks the application. Calls
 * that end in `Now` are synchronous, for the end of the process.
 */
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

export interface SpoolFiles {
  /** Creates the directory and its parents with mode 0700, durably. */
  makeDirectory(directory: string): Promise<void>;
  /** Like makeDirectory, inside the spool. @throws if the path is a link, which may lead out of the spool. */
  makeInside(directory: string): Promise<void>;
  removeDirectory(directory: string): Promise<void>;
  /** Sorted by name. */
  list(directory: string): Promise<string[]>;
  /** Owner and permission bits. */
  ownerOf(directory: string): Promise<{ uid: number; mode: number }>;
  /** Flushes the names in the directory to stable storage. */
  syncDirectory(directory: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** No error if it does not exist. */
  remove(file: string): Promise<void>;
  /**
   * `new` fails with EEXIST and `read` with ENOENT; `write` creates the file if necessary. New files have
   * mode 0600. All fail for links and other files that are not regular, and never block on a pipe.
   */
  open(file: string, how: 'read' | 'write' | 'new'): Promise<number>;
  close(fd: number): Promise<void>;
  size(fd: number): Promise<number>;
  /** Reads until `target` is full or the file ends. */
  read(fd: number, target: Uint8Array, position: number): Promise<number>;
  /** Writes all bytes or throws; after an error any part may be written. */
  write(fd: number, source: Uint8Array, position: number): Promise<void>;
  truncate(fd: number, size: number): Promise<void>;
  /** Flushes written data to stable storage (fdatasync, POSIX.1-2017). */
  datasync(fd: number): Promise<void>;
  /** Sets the modification time to now. */
  touch(file: string): Promise<void>;
  /** Modification time, Unix milliseconds. */
  touchedAt(file: string): Promise<number>;
  /** Opens for writing, and creates the file if necessary. */
  openNow(file: string): number;
  writeNow(fd: number, source: Uint8Array, position: number): void;
  datasyncNow(fd: number): void;
  /** See `holdLock` and `lockState` below. */
  holdLock(file: string): Promise<HeldLock>;
  lockState(file: string): Promise<LockState>;
  /** See HOST. */
  readonly host: string;
}

/** Identity of this host: its boot id on Linux, elsewhere its name. */
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

/** EFTYPE is the code that some systems use. */
function notRegular(file: string): Error {
  return Object.assign(new Error(`${file} is not a regular file`), { code: 'EFTYPE' });
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
      // A link, a directory, and a pipe or socket without a reader.
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

/** Opens the file, calls `read`, and closes it. @returns undefined if it does not exist. */
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

/** The names in the directory; none if it does not exist. */
export async function namesIn(files: SpoolFiles, directory: string): Promise<string[]> {
  try {
    return await files.list(directory);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

/** @returns false if `from` does not exist. */
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
 * The lock: its holder listens on a Unix socket. The kernel accepts connections while the event loop is busy,
 * and refuses them once the process has ended. A process id in a file would not work, because containers do
 * not see each other's processes.
 */

/** `free`: no process listens. `missing`: the socket does not exist. All other results count as `held`. */
export type LockState = 'held' | 'free' | 'missing';

export interface HeldLock {
  release(): Promise<void>;
}

/** Shortest limit of sun_path on the systems that Node supports. */
const LONGEST_PATH = 103;

/**
 * A path for socket calls. A path that is too long is shortened through the descriptor of its directory in
 * /proc.
 * @throws RangeError on systems without /proc.
 */
function reachable(file: string): { name: string; fd: number | undefined } {
  if (Buffer.byteLength(file) <= LONGEST_PATH) return { name: file, fd: undefined };
  if (process.platform !== 'linux') {
    throw new RangeError(`the path of the spool is too long: ${file} exceeds ${LONGEST_PATH} bytes`);
  }
  const fd = fs.openSync(path.dirname(file), 'r');
  return { name: `/proc/self/fd/${fd}/${path.basename(file)}`, fd };
}

/** Holds the lock until `release` or the end of the thread. Does not keep the process alive. */
export async function holdLock(file: string): Promise<HeldLock> {
  const { name, fd } = reachable(file);
  // Called after the server has closed, when Node removes the socket by its name.
  const closeDirectory = () => {
    if (fd !== undefined) fs.closeSync(fd);
  };
  const server = net.createServer((socket) => socket.destroy());
  try {
    await new Promise<void>((resolve, reject) => {
      // Exclusive: otherwise the primary of node:cluster would listen, and outlive its worker.
      server.once('error', reject).listen({ path: name, exclusive: true }, resolve);
    });
  } catch (error) {
    closeDirectory();
    throw error;
  }
  // Errors of accept, such as a lack of descriptors, do not stop the server.
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

/** Whether the error reports a full disk or quota. */
export function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(errorCode(error) ?? '');
}

/** The system's error code, such as ENOENT. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
