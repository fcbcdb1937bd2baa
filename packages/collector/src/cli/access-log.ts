/**
 * Who read what: `<data directory>/access.log`, one JSON object a line, appended and flushed.
 *
 * Reading happens on the host and never over HTTP, so this is the one place where it shows. A reading has two
 * lines with the same id: the first stands on the disk before anything is given out, so a reader that is killed
 * has been noted too; the second says how much it was. Without the second, it may have been anything.
 */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
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
  /** How many events it gave out. */
  readonly events: number;
  /** False when it ended before it had given out all that it was asked for. */
  readonly complete: boolean;
}

/**
 * On return the beginning is noted on stable storage.
 * @returns notes the end in the same way.
 * @throws {@link CommandFailure} that names the file: then nothing may be given out.
 * @throws {@link ReadOnly} when nothing at all can be written there, because the file system is read-only.
 */
export function beginReading(dataDirectory: string, { command, filter }: Reading): (end: ReadingEnd) => void {
  const reading = randomUUID();
  const { uid, username } = os.userInfo();
  const note = (state: 'begun' | 'ended', more: object) => {
    append(dataDirectory, {
      at: new Date().toISOString(),
      reading,
      state,
      uid,
      user: username,
      command,
      ...more,
    });
  };
  note('begun', { filter });
  return ({ events, complete }) => note('ended', { events, complete });
}

/** Where the readings of a data directory are noted. */
export function accessLogPath(dataDirectory: string): string {
  return path.join(dataDirectory, 'access.log');
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

function appendTo(file: string, line: object): void {
  const begun = exists(file);
  const fd = fs.openSync(file, 'a', 0o600);
  try {
    fs.writeSync(fd, `${JSON.stringify(line)}\n`);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  if (!begun) nodeFiles.syncDirectory(path.dirname(file));
}
