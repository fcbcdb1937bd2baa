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
import { nodeFiles } from '../store/embedded/files.js';

export interface Reading {
  /** The command that reads. */
  readonly command: string;
  /** What it was asked for: names of kinds, runs, times; never the contents of an event. */
  readonly filter: Readonly<Record<string, unknown>>;
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
 * @throws the system's error: then nothing may be given out.
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

function append(dataDirectory: string, line: object): void {
  const file = path.join(dataDirectory, 'access.log');
  const begun = fs.existsSync(file);
  const fd = fs.openSync(file, 'a', 0o600);
  try {
    fs.writeSync(fd, `${JSON.stringify(line)}\n`);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  if (!begun) nodeFiles.syncDirectory(dataDirectory);
}
