/**
 * A file of the access log, to which every command that reads events appends. It is opened by name for each
 * call.
 *
 * Root also appends to it, in a directory whose owner may have put anything under the name. So no link is
 * followed, a file with another hard link is written only if it belongs to the owner of the directory, only a
 * file created here changes its owner, and a pipe blocks nothing.
 */
import fs from 'node:fs';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { systemCode } from '../../system-code.js';
import {
  AccessLogAltered,
  AccessLogUnfit,
  type LineCursor,
  type LocalAccessLog,
} from '../contract/access-log.js';
import { handOver, nodeFiles } from '../../files.js';
import { FIRST_FILE } from '../../tree/access-chain.js';

const { O_RDONLY, O_RDWR, O_APPEND, O_NOFOLLOW, O_NONBLOCK, O_CREAT, O_EXCL } = fs.constants;
const APPENDING = O_RDWR | O_APPEND | O_NOFOLLOW;
const LINE_FEED = 0x0a;
/** Size of a piece, which takes about a millisecond to hash. */
const PIECE_BYTES = 64 << 10;
const BEGINNING: LineCursor = { lines: 0, at: 0 };
const BEGINNING_BYTES = 4096;
/** Paths whose names this process has made durable: the creator of the file may be interrupted before. */
const NAMED = new Set<string>();
const YEAR = /^\{"at":"(\d{4})-/m;

/** The log of readings on a mirror, whose access log is a copy. */
export function readingsLogPath(dataDirectory: string): string {
  return path.join(dataDirectory, 'mirror-access.log');
}

export class AccessLogFile implements LocalAccessLog {
  readonly #path: string;

  constructor(
    private readonly dataDirectory: string,
    file = path.join(dataDirectory, FIRST_FILE),
  ) {
    this.#path = file;
  }

  /**
   * Appends a line. A new file is readable only by its owner.
   * @throws the error of the system, or one with the code `ENOTREG` (not a regular file) or `EMLINK` (another
   * hard link).
   */
  append(line: string): void {
    const { fd, made } = this.#openToAppend();
    try {
      const stat = fs.fstatSync(fd);
      if (!stat.isFile()) throw fault('ENOTREG', 'not a regular file');
      const { uid } = fs.statSync(this.dataDirectory);
      if (stat.nlink > 1 && stat.uid !== uid) throw fault('EMLINK', 'a file with another hard link');
      if (made) handOver(fd, this.dataDirectory);
      // Two processes may see the same torn line, which leaves an empty line between theirs.
      const isTorn = stat.size > 0 && byteAt(fd, stat.size - 1) !== LINE_FEED;
      const bytes = Buffer.from(`${isTorn ? '\n' : ''}${line}\n`);
      // Written in one call, so that no other process can write within the line. A nearly full disk may take
      // only a part.
      if (fs.writeSync(fd, bytes) < bytes.length) throw fault('ENOSPC', 'the line was written only in part');
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
    if (made) NAMED.delete(this.#path);
    this.#makeNameDurable();
  }

  async *lines({ at }: LineCursor = BEGINNING): AsyncGenerator<Buffer, void> {
    const fd = this.#open();
    if (fd === undefined) {
      if (at > 0) throw new AccessLogAltered('it was truncated or removed');
      return;
    }
    try {
      const end = nodeFiles.size(fd);
      if (end < at) throw new AccessLogAltered('it was truncated or removed');
      if (at > 0 && byteAt(fd, at - 1) !== LINE_FEED) {
        throw new AccessLogAltered('lines were changed that a head in the log covers');
      }
      const piece = Buffer.alloc(Math.min(PIECE_BYTES, end - at));
      for (let position = at; position < end;) {
        const read = nodeFiles.read(fd, piece, 0, Math.min(piece.length, end - position), position);
        if (read === 0) return;
        yield piece.subarray(0, read);
        position += read;
        await turn();
      }
    } finally {
      nodeFiles.close(fd);
    }
  }

  async flush(): Promise<void> {
    const fd = this.#open();
    if (fd === undefined) return;
    try {
      await nodeFiles.datasyncLater(fd);
    } finally {
      nodeFiles.close(fd);
    }
    this.#makeNameDurable();
  }

  #makeNameDurable(): void {
    if (NAMED.has(this.#path)) return;
    nodeFiles.syncDirectory(this.dataDirectory);
    NAMED.add(this.#path);
  }

  /**
   * The bytes up to the last whole line, for a copy.
   * @returns undefined if there is none. @throws AccessLogUnfit
   */
  copy(): { bytes: number; pieces: () => Generator<Uint8Array> } | undefined {
    const bytes = this.#read((fd) => {
      let end = nodeFiles.size(fd);
      while (end > 0 && byteAt(fd, end - 1) !== LINE_FEED) end--;
      return end;
    });
    return bytes === undefined || bytes === 0 ? undefined : { bytes, pieces: () => this.#pieces(bytes) };
  }

  /** The year of the first line that begins with a time; undefined without one near the beginning. */
  year(): number | undefined {
    const bytes = Buffer.alloc(BEGINNING_BYTES);
    try {
      const read = this.#read((fd) => nodeFiles.read(fd, bytes, 0, bytes.length, 0));
      if (read === undefined) return undefined;
      return yearOf(bytes.toString('latin1', 0, read));
    } catch (error) {
      // `append` refuses it.
      if (error instanceof AccessLogUnfit) return undefined;
      throw error;
    }
  }

  *#pieces(end: number): Generator<Uint8Array> {
    for (let at = 0; at < end;) {
      const piece = Buffer.alloc(Math.min(PIECE_BYTES, end - at));
      const read = this.#read((fd) => nodeFiles.read(fd, piece, 0, piece.length, at)) ?? 0;
      if (read === 0) return;
      yield piece.subarray(0, read);
      at += read;
    }
  }

  /** @returns undefined if there is no file. */
  #read<Value>(read: (fd: number) => Value): Value | undefined {
    const fd = this.#open();
    if (fd === undefined) return undefined;
    try {
      return read(fd);
    } finally {
      nodeFiles.close(fd);
    }
  }

  #open(): number | undefined {
    let fd: number;
    try {
      fd = fs.openSync(this.#path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      if (systemCode(error) === 'ELOOP' || systemCode(error) === 'ENXIO') throw unfit(this.#path);
      throw error;
    }
    if (fs.fstatSync(fd).isFile()) return fd;
    nodeFiles.close(fd);
    throw unfit(this.#path);
  }

  #openToAppend(): { fd: number; made: boolean } {
    try {
      return { fd: fs.openSync(this.#path, APPENDING), made: false };
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
    }
    try {
      return { fd: fs.openSync(this.#path, APPENDING | O_CREAT | O_EXCL, 0o600), made: true };
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
    }
    // Another process has created it.
    return { fd: fs.openSync(this.#path, APPENDING), made: false };
  }
}

/** The year (UTC) in the first line of a text that has one. */
export function yearOf(text: string): number | undefined {
  const year = YEAR.exec(text)?.[1];
  return year === undefined ? undefined : Number(year);
}

function byteAt(fd: number, position: number): number | undefined {
  const byte = Buffer.alloc(1);
  return fs.readSync(fd, byte, 0, 1, position) === 1 ? byte[0] : undefined;
}

function fault(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

function unfit(file: string): AccessLogUnfit {
  return new AccessLogUnfit(`${path.basename(file)} is not a regular file and was not opened`);
}
