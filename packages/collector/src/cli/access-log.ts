/**
 * Who read what: `<data directory>/access.log`, one JSON object a line, appended and flushed.
 *
 * Reading happens on the host and never over HTTP, so this is the one place where it shows. A reading has two
 * lines with the same id: the first stands on the disk before anything is given out, so a reader that is killed
 * has been noted too; the second says how much it was. Without the second, it may have been anything.
 *
 * A collector signs the lines (ledger/access-log-tree.ts), so none is ever changed or taken back, also not one that a
 * crash or a full disk has torn: the next begins behind it, on a line of its own.
 */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { accessLogPath } from '../store/embedded/access-log-file.js';
import { exists, nodeFiles } from '../store/embedded/files.js';
import { CommandFailure, EXIT } from './exit-codes.js';

export interface Reading {
  /** The command that reads. */
  readonly command: string;
  /** What it was asked for: names of kinds, runs, times; never the contents of an event. */
  readonly filter: Readonly<Record<string, unknown>>;
}

/** The reading cannot be noted, because the file system takes no writes. */
export class ReadOnly extends Error {
  override name = 'ReadOnly';
}

/** How a reading ended. */
export interface ReadingEnd {
  /** How many events it gave out, or stored. */
  readonly events: number;
  /** False when it ended before it had given out, or stored, all that it was asked for. */
  readonly complete: boolean;
  /** What became of the files of an import, as its `--json` says. */
  readonly files?: readonly ImportedFile[];
}

export interface ImportedFile {
  readonly file: string;
  readonly lines: number;
  readonly stored: number;
  readonly repeats: number;
  readonly refused: number;
  /** Of the file as it stood on the disk; null when it was not read to its end. */
  readonly bytes: number | null;
  readonly sha256: string | null;
}

/**
 * On return the beginning is noted on stable storage.
 * @returns notes the end in the same way.
 * @throws {@link CommandFailure} that names the file: then nothing may be given out.
 * @throws {@link ReadOnly} when nothing at all can be written there, because the file system is read-only.
 */
export function beginReading(dataDirectory: string, { command, filter }: Reading): (end: ReadingEnd) => void {
  const reading = randomUUID();
  const note = (state: State, more: object) => {
    append(dataDirectory, { at: new Date().toISOString(), reading, state, ...user(), command, ...more });
  };
  note('begun', { filter });
  return (end) => note('ended', end);
}

type State = 'begun' | 'ended';

/** A user that the system has no name for has a number all the same, as in a container. */
function user(): { uid: number; user: string | null } {
  try {
    const { uid, username } = os.userInfo();
    return { uid, user: username };
  } catch {
    return { uid: process.getuid?.() ?? -1, user: null };
  }
}

/** As much of a line as says that a command has written it. */
export interface NotedLine {
  /** An instant, RFC 3339 in UTC. */
  readonly at: string;
  readonly state: State;
}

/** With what every line begins. */
const BEGINNING = '{"at":"';

/**
 * What a line of the log is. `torn`: the beginning of one, as a crash or a full disk leaves it, or nothing. `foreign`:
 * no command has written it.
 * @param bytes without the line feed; undefined for one that is too long.
 */
export function lineIn(bytes: Buffer | undefined): NotedLine | 'torn' | 'foreign' {
  if (bytes === undefined) return 'foreign';
  const text = bytes.toString();
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    // Where power was lost, zeros may stand for what did not reach the disk.
    const written = text.replaceAll('\0', '');
    return written.startsWith(BEGINNING.slice(0, written.length)) ? 'torn' : 'foreign';
  }
  return isNote(read) ? read : 'foreign';
}

function isNote(value: unknown): value is NotedLine {
  if (typeof value !== 'object' || value === null) return false;
  const { at, reading, state, uid, user, command, ...more } = value as Record<string, unknown>;
  return (
    typeof at === 'string' &&
    !Number.isNaN(Date.parse(at)) &&
    new Date(at).toISOString() === at &&
    typeof reading === 'string' &&
    Number.isSafeInteger(uid) &&
    (typeof user === 'string' || user === null) &&
    typeof command === 'string' &&
    (state === 'begun'
      ? typeof more['filter'] === 'object'
      : state === 'ended' && Number.isSafeInteger(more['events']) && typeof more['complete'] === 'boolean')
  );
}

function append(dataDirectory: string, line: object): void {
  const file = accessLogPath(dataDirectory);
  try {
    appendTo(file, line);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    if (code === 'EROFS') throw new ReadOnly(`${file} cannot be written (${code})`, { cause: error });
    throw new CommandFailure(
      code === 'EACCES' || code === 'EPERM'
        ? `permission denied: ${file}; nothing is read without a note of it there`
        : `${file} cannot be written (${code}), and nothing is read without a note of it there`,
      EXIT.failure,
      { cause: error },
    );
  }
}

const LINE_FEED = 0x0a;

function appendTo(file: string, line: object): void {
  const begun = exists(file);
  const fd = fs.openSync(file, 'a+', 0o600);
  try {
    const stat = fs.fstatSync(fd);
    if (!stat.isFile()) throw Object.assign(new Error('no regular file'), { code: 'ENOTREG' });
    if (!begun) handOver(fd, path.dirname(file));
    const bytes = Buffer.from(`${endsTorn(fd, stat.size) ? '\n' : ''}${JSON.stringify(line)}\n`);
    // In one call, so that no other reader's line comes between. A disk that is nearly full takes a part of it.
    if (fs.writeSync(fd, bytes) < bytes.length) {
      throw Object.assign(new Error('not all of it was written'), { code: 'ENOSPC' });
    }
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  if (!begun) nodeFiles.syncDirectory(path.dirname(file));
}

/** Two readers may see the same torn line, and then an empty one stands between theirs. */
function endsTorn(fd: number, size: number): boolean {
  const last = Buffer.alloc(1);
  return size > 0 && fs.readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== LINE_FEED;
}

/** What root makes belongs to the owner of the directory, or the collector could not read it. */
function handOver(fd: number, directory: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = fs.statSync(directory);
  try {
    if (uid !== 0) fs.fchownSync(fd, uid, gid);
  } catch {
    // A network file system that knows no root: it stays as it is.
  }
}
