/**
 * Who read what: `<data directory>/access.log`, one JSON object a line, appended and flushed.
 *
 * Reading happens on the host and never over HTTP, so this is the one place where it shows.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export interface Reading {
  /** The command that read. */
  readonly command: string;
  /** What it was asked for: names of kinds, runs, times; never the contents of an event. */
  readonly filter: Readonly<Record<string, unknown>>;
  /** How many events it gave out. */
  readonly events: number;
  /** False when it ended before it had given out all that it was asked for. */
  readonly complete: boolean;
}

/** On return the line is on stable storage. */
export function logReading(dataDirectory: string, reading: Reading): void {
  const { uid, username } = os.userInfo();
  const line = { at: new Date().toISOString(), uid, user: username, ...reading };
  const fd = fs.openSync(path.join(dataDirectory, 'access.log'), 'a', 0o600);
  try {
    fs.writeSync(fd, `${JSON.stringify(line)}\n`);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
