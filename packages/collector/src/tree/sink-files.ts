/**
 * The calls by which directory and file sinks touch their disks. They run in a process of their own
 * (sink-process.ts), because any of them may hang forever on a mount whose server has gone.
 *
 * Nothing here removes, renames or writes over anything: a WORM mount allows none of it.
 */
import { constants } from 'node:fs';
import fs from 'node:fs/promises';
import path from 'node:path';
import { systemCode } from '../system-code.js';
import { SinkTrouble } from './sink.js';

/** A file as it was found; only the beginning of a very large one. */
interface FoundFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** The end of a file, and its size in bytes. */
interface FileTail {
  readonly bytes: Uint8Array;
  readonly size: number;
}

/** Every call rejects with an error that has a system's code. */
export interface SinkFiles {
  /**
   * The files of the directory whose names come last in the order of their characters.
   * @param pattern a regular expression; names that it does not match are passed over.
   * @param onProgress called now and then while a large directory is read.
   * @returns at most `count`, the last name first.
   */
  last(directory: string, pattern: string, count: number, onProgress: () => void): Promise<FoundFile[]>;
  /**
   * Makes a file. On return it is on stable storage with its name, and so is what was there before.
   * @returns undefined when it was made, else what the file of that name holds.
   */
  create(file: string, bytes: Uint8Array): Promise<Uint8Array | undefined>;
  /** On return the bytes are at the end of the file on stable storage, which is made if it is not there. */
  append(file: string, bytes: Uint8Array): Promise<void>;
  /** @returns the last `length` bytes and the size of the whole, or undefined when there is no such file. */
  tail(file: string, length: number): Promise<FileTail | undefined>;
}

/** What is no error of the system's, with a code as theirs. */
export class SinkFilesError extends Error {
  override name = 'SinkFilesError';
  constructor(
    /** The system's, such as ENOSPC; `ENOTREG` for what is no regular file. */
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** No note is as long; what is longer is none. */
const MOST_READ = 64 * 1024;
const TELL_EVERY = 4096;
/** A pipe would hold the opener until someone reads it. */
const { O_APPEND, O_CREAT, O_EXCL, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = constants;
/** What checkpoints say is no secret, and anyone who collects them may be another user. */
const MODE = 0o644;

export const nodeSinkFiles: SinkFiles = {
  async last(directory, pattern, count, onProgress) {
    const wanted = new RegExp(pattern);
    const names: string[] = [];
    let seen = 0;
    // Read as a stream: one file a second makes a directory of millions.
    for await (const { name } of await fs.opendir(directory, { bufferSize: TELL_EVERY })) {
      if (++seen % TELL_EVERY === 0) onProgress();
      if (!wanted.test(name) || (names.length === count && name < (names[0] ?? ''))) continue;
      names.push(name);
      names.sort();
      if (names.length > count) names.shift();
    }
    const found: FoundFile[] = [];
    for (const name of names.reverse()) found.push({ name, bytes: await read(path.join(directory, name)) });
    return found;
  },
  async create(file, bytes) {
    let handle: fs.FileHandle;
    try {
      handle = await fs.open(file, O_WRONLY | O_CREAT | O_EXCL, MODE);
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
      // Anyone who wrote it may have crashed before it was flushed.
      const there = await read(file, flush);
      await syncDirectory(path.dirname(file));
      return there;
    }
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await syncDirectory(path.dirname(file));
    return undefined;
  },
  async append(file, bytes) {
    const handle = await open(file, O_RDWR | O_APPEND | O_NONBLOCK | O_CREAT);
    let before: number;
    try {
      before = (await handle.stat()).size;
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (before === 0) await syncDirectory(path.dirname(file));
  },
  async tail(file, length) {
    let handle: fs.FileHandle;
    try {
      handle = await open(file, O_RDONLY | O_NONBLOCK);
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
    try {
      const { size } = await handle.stat();
      return { bytes: await readFrom(handle, Math.max(0, size - length), length), size };
    } finally {
      await handle.close();
    }
  },
};

async function open(file: string, flags: number): Promise<fs.FileHandle> {
  const handle = await fs.open(file, flags, MODE);
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new SinkFilesError('ENOTREG', 'it is no regular file');
}

async function read(
  file: string,
  first: (handle: fs.FileHandle) => Promise<void> = () => Promise.resolve(),
): Promise<Uint8Array> {
  const handle = await open(file, O_RDONLY | O_NONBLOCK);
  try {
    await first(handle);
    return await readFrom(handle, 0, MOST_READ);
  } finally {
    await handle.close();
  }
}

async function readFrom(handle: fs.FileHandle, from: number, length: number): Promise<Uint8Array> {
  const bytes = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await handle.read(bytes, done, length - done, from + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

/** On return what was opened for reading is on stable storage, where that can be asked for. */
async function flush(handle: fs.FileHandle): Promise<void> {
  try {
    await handle.sync();
  } catch (error) {
    // Some network file systems flush nothing that is not open for writing, directories among it; there the server
    // answers for its names.
    const code = systemCode(error);
    if (code !== 'EINVAL' && code !== 'ENOTSUP' && code !== 'EBADF') throw error;
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await fs.open(directory, O_RDONLY);
  try {
    await flush(handle);
  } finally {
    await handle.close();
  }
}

/** What the system's codes mean for a sink, and what to do. Where there is nothing to say, the code is enough. */
const MEANINGS: Readonly<Record<string, string>> = {
  ENOENT: 'is not there; it is not made either, because that would hide a mount that is missing',
  ENOTDIR: 'is no directory, or lies below something that is none',
  EISDIR: 'is a directory',
  ENOTREG: 'is no regular file',
  EACCES: "cannot be read or written: the collector's user may not",
  EPERM: 'cannot be read or written: its file system does not allow it',
  EROFS: 'cannot be written: its file system is read-only',
  ENOSPC: 'cannot be written: no space is left',
  EDQUOT: 'cannot be written: the quota is used up',
};

/** @param error of a call to the disk at `place`. */
export function diskTrouble(place: string, error: unknown): SinkTrouble {
  if (error instanceof SinkTrouble) return error;
  const code = systemCode(error) ?? 'UNKNOWN';
  const meaning = MEANINGS[code] ?? 'cannot be read or written';
  return new SinkTrouble(`${place} ${meaning} (${code})`, { cause: error });
}
