/**
 * One line at the end of a file to which several processes append, each on a line of its own.
 *
 * Root appends too, in a directory whose owner is not root and may have put anything under the name. So no link is
 * followed, nothing is written into a file that has another name elsewhere, unless it is the directory's owner's
 * own, and only a file that was made here is handed over.
 */
import fs from 'node:fs';
import path from 'node:path';
import { systemCode } from './system-code.js';

const { O_RDWR, O_APPEND, O_NOFOLLOW, O_CREAT, O_EXCL } = fs.constants;
const APPENDING = O_RDWR | O_APPEND | O_NOFOLLOW;
const LINE_FEED = 0x0a;

/**
 * On return the line is the last one, whole, and flushed; a file that was made for it is readable by its owner alone.
 * @param line without a line feed.
 * @returns whether the file was made: then its name is to be brought to stable storage.
 * @throws the system's error, or one with the code `ENOTREG` (no regular file) or `EMLINK` (also a file of others).
 */
export function appendTo(file: string, line: string): boolean {
  const { fd, made } = opened(file);
  try {
    const stat = fs.fstatSync(fd);
    if (!stat.isFile()) throw fault('ENOTREG', 'no regular file');
    const owner = fs.statSync(path.dirname(file));
    if (stat.nlink > 1 && stat.uid !== owner.uid) throw fault('EMLINK', 'a file with another name');
    if (made) handOver(fd, owner);
    const bytes = Buffer.from(`${endsTorn(fd, stat.size) ? '\n' : ''}${line}\n`);
    // In one call, so that no other process's line comes between. A disk that is nearly full takes a part of it.
    if (fs.writeSync(fd, bytes) < bytes.length) throw fault('ENOSPC', 'not all of it was written');
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  return made;
}

function fault(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

function opened(file: string): { fd: number; made: boolean } {
  try {
    return { fd: fs.openSync(file, APPENDING), made: false };
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
  }
  try {
    return { fd: fs.openSync(file, APPENDING | O_CREAT | O_EXCL, 0o600), made: true };
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
  }
  // Another process has made it meanwhile.
  return { fd: fs.openSync(file, APPENDING), made: false };
}

/** Two processes may see the same torn line, and then an empty one stands between theirs. */
function endsTorn(fd: number, size: number): boolean {
  const last = Buffer.alloc(1);
  return size > 0 && fs.readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== LINE_FEED;
}

/** What root makes belongs to the owner of the directory, or the collector could not read it. */
function handOver(fd: number, { uid, gid }: fs.Stats): void {
  if (process.getuid?.() !== 0 || uid === 0) return;
  try {
    fs.fchownSync(fd, uid, gid);
  } catch {
    // A network file system that knows no root: it stays as it is.
  }
}
