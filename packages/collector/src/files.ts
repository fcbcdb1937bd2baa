/**
 * The file layer: every call by which the ledger accesses the disk, so that a test can make any of them fail.
 * Nothing here retries or hides an error.
 */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { admit, admitDirectory, PRIVATE } from './readers.js';
import { systemCode } from './system-code.js';

/** A file as found under a name. */
export interface NamedFile {
  /** Identifies the file; not reused while the file is open. */
  readonly id: string;
  /** The size in bytes. */
  readonly size: number;
}

/** A file that this process has locked and that must keep its name. */
export type HeldFile = Pick<NamedFile, 'id'> & { readonly path: string };

export interface Files {
  open(path: string, flags: 'r' | 'r+' | 'wx+'): number;
  close(fd: number): void;
  size(fd: number): number;
  /** @returns the file with this name; undefined if there is none. */
  look(path: string): NamedFile | undefined;
  /** Reads up to `length` bytes; fewer only at the end of the file. */
  read(fd: number, target: Uint8Array, offset: number, length: number, position: number): number;
  /** Writes everything or throws; after a throw any part may have been written. */
  write(fd: number, source: Uint8Array, length: number, position: number): void;
  /** On return everything written to `fd` is on stable storage (fdatasync, POSIX.1-2017). */
  datasync(fd: number): void;
  truncate(fd: number, size: number): void;
  rename(from: string, to: string): void;
  remove(path: string): void;
  /** On return the directory exists, and the names of all created directories are on stable storage. */
  makeDirectory(path: string): void;
  list(directory: string): string[];
  /** On return the names in the directory are on stable storage. */
  syncDirectory(path: string): void;
  /**
   * Creates `path` with `size` zero bytes, on stable storage when the promise resolves. The zeros are written
   * and not just reserved: only written blocks can be overwritten without a journal commit.
   */
  createZeroed(path: string, size: number): Promise<void>;
  /** Like `datasync`, in the thread pool. */
  datasyncLater(fd: number): Promise<void>;
  /**
   * Replaces the contents of `path` atomically; on return they are on stable storage. Runs in the thread
   * pool.
   */
  replace(path: string, bytes: Uint8Array): Promise<void>;
}

/**
 * Gives a file that root created to the owner of `model`, so that a collector that runs as another user can
 * use it. If the system does not permit that, it stays root's. `nodeFiles` does this for every file it
 * creates.
 * @param made preferably a descriptor: the owner of a directory could replace a name by a link.
 * @param model the file or directory whose owner is used.
 */
export function handOver(made: string | number, model: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = fs.statSync(model);
  if (uid === 0) return;
  try {
    if (typeof made === 'number') fs.fchownSync(made, uid, gid);
    else fs.lchownSync(made, uid, gid);
  } catch {
    // This happens in a user namespace without that user, or on a network file system that maps root.
  }
}

/** Creates an empty file if there is none. Its directory must exist. */
export function makeFile(file: string): void {
  try {
    nodeFiles.close(nodeFiles.open(file, 'wx+'));
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
  }
}

/**
 * Whether something with this name exists. Unlike `fs.existsSync`, it does not report an inaccessible file as
 * missing.
 * @throws the system's error if that is unknown.
 */
export function exists(file: string): boolean {
  return fs.statSync(file, { throwIfNoEntry: false }) !== undefined;
}

/** The same for a regular file; a reader might wait forever on a pipe. */
export function isFile(file: string): boolean {
  return fs.statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

const ZEROS = Buffer.alloc(1 << 20);
/**
 * Zeros are flushed in pieces of this size, so that the flush of a batch does not wait for a whole segment.
 */
const ROOM_PIECE = 4 << 20;

/** Checks the free space first: filling the disk with zeros to find out would make other writers fail. */
export async function assertFree(directory: string, bytes: number): Promise<void> {
  const { bavail, bsize, blocks } = await fs.promises.statfs(directory);
  // Some file systems in user space report nothing.
  if (blocks === 0 || bavail * bsize >= bytes) return;
  throw Object.assign(
    new Error(`ENOSPC: no space left on device, ${bytes} bytes are needed in ${directory}`),
    {
      code: 'ENOSPC',
    },
  );
}

/** Creates a file, replacing one that a crash may have left; never follows a link. */
async function openNew(file: string): Promise<fs.promises.FileHandle> {
  await fs.promises.rm(file, { force: true });
  const handle = await fs.promises.open(file, 'wx', PRIVATE.file);
  handOver(handle.fd, path.dirname(file));
  admit(handle.fd, file);
  return handle;
}

export const nodeFiles: Files = {
  open(file, flags) {
    const fd = fs.openSync(file, flags, PRIVATE.file);
    if (flags !== 'wx+') return fd;
    handOver(fd, path.dirname(file));
    admit(fd, file);
    return fd;
  },
  close: (fd) => fs.closeSync(fd),
  size: (fd) => fs.fstatSync(fd).size,
  look(file) {
    const found = fs.statSync(file, { throwIfNoEntry: false });
    return found && { id: `${found.dev}:${found.ino}`, size: found.size };
  },
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
  remove: (file) => fs.rmSync(file, { force: true }),
  makeDirectory(directory) {
    const first = fs.mkdirSync(directory, { recursive: true, mode: PRIVATE.directory });
    if (first === undefined) return;
    const above = path.dirname(path.resolve(first));
    const made: string[] = [];
    for (let each = path.resolve(directory); each !== above; each = path.dirname(each)) made.unshift(each);
    for (const each of made) {
      handOver(each, above);
      admitDirectory(each);
    }
    for (const each of made.reverse()) this.syncDirectory(path.dirname(each));
  },
  list: (directory) => fs.readdirSync(directory).sort(),
  syncDirectory(directory) {
    const fd = fs.openSync(directory, 'r');
    try {
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  },
  async createZeroed(file, size) {
    const handle = await openNew(file);
    try {
      await assertFree(path.dirname(file), size);
      let flushed = 0;
      for (let at = 0; at < size;) {
        // A nearly full disk may take less than it is given.
        at += (await handle.write(ZEROS, 0, Math.min(ZEROS.length, size - at), at)).bytesWritten;
        if (at - flushed < ROOM_PIECE) continue;
        await handle.datasync();
        flushed = at;
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
  datasyncLater: (fd) => promisify(fs.fdatasync)(fd),
  async replace(file, bytes) {
    const draft = `${file}.draft`;
    const handle = await openNew(draft);
    try {
      await handle.writeFile(bytes);
      await handle.datasync();
    } finally {
      await handle.close();
    }
    await fs.promises.rename(draft, file);
    const directory = await fs.promises.open(path.dirname(file), 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  },
};

/** The bytes of a file from an offset. */
export function readFrom(files: Files, file: string, from = 0): Buffer {
  const fd = files.open(file, 'r');
  try {
    const bytes = Buffer.alloc(Math.max(0, files.size(fd) - from));
    return bytes.subarray(0, files.read(fd, bytes, 0, bytes.length, from));
  } finally {
    files.close(fd);
  }
}

/** Like `Files.replace`, but synchronous, for the few small files that a batch of events may wait for. */
export function replaceNow(files: Files, file: string, bytes: Uint8Array): void {
  const draft = `${file}.draft`;
  files.makeDirectory(path.dirname(file));
  files.remove(draft);
  const fd = files.open(draft, 'wx+');
  try {
    files.write(fd, bytes, bytes.length, 0);
    files.datasync(fd);
  } finally {
    files.close(fd);
  }
  files.rename(draft, file);
  files.syncDirectory(path.dirname(file));
}

/**
 * Creates a file durably. It uses a link, because a rename would silently replace an existing file:
 * of several processes that create the same file, exactly one succeeds. A crash may leave
 * `<file>.<random>.tmp` behind.
 * @param model whose owner becomes the owner of the file.
 * @throws the system's error: after EEXIST nothing has changed; after any other the file may exist.
 */
export function createDurably(file: string, content: string, model?: string): void {
  const draft = `${file}.${randomBytes(4).toString('hex')}.tmp`;
  const fd = fs.openSync(draft, 'wx', PRIVATE.file);
  try {
    try {
      if (model !== undefined) handOver(fd, model);
      admit(fd, file);
      fs.writeFileSync(fd, content);
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
    fs.linkSync(draft, file);
  } finally {
    fs.rmSync(draft, { force: true });
  }
  nodeFiles.syncDirectory(path.dirname(file));
}
