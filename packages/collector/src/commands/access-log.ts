/**
 * Who read what: `<data directory>/access.log`, one JSON object a line, appended and flushed.
 *
 * Reading happens on the host and never over HTTP, so this is the one place where it shows. An access has two
 * lines with the same id: the first stands on the disk before anything is given out, so a reader that is killed
 * has been logged too; the second says how much it was. Without the second, it may have been anything.
 *
 * The log has heads of the chain over the lines (ledger/access-log-heads.ts), so none is ever changed or taken back, also
 * not one that a crash or a full disk has torn: the next begins behind it, on a line of its own.
 */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import { sudoUser } from '../config.js';
import { accessLogPath, openReadingsLog, openStore, readingsLogPath } from '../store/open-to-read.js';
import { isLocked } from '../store/directory-lock.js';
import { readMirrorNote } from '../transparency/state-files.js';
import type { AccessLogStore } from '../store/contract/access-log.js';
import { systemCode } from '../system-code.js';
import { CommandFailure, EXIT } from './exit-codes.js';

export interface Access {
  /** The command that reads. */
  readonly command: string;
  /** What it was asked for: names of kinds, runs, times; never the contents of an event. Persons are left out of the line. */
  readonly filter: Readonly<Record<string, unknown>>;
}

/** Filters whose value is the id of a patient or a user. */
const OF_PERSONS = ['target', 'user'];

/** The access cannot be logged, because the file system takes no writes. */
class ReadOnly extends Error {
  override name = 'ReadOnly';
}

/** How an access ended. */
export interface AccessEnd {
  /** How many events it gave out. */
  readonly events: number;
  /** False when it ended before it had given out all that it was asked for. */
  readonly complete: boolean;
}

/**
 * On return the beginning is logged on stable storage.
 * @returns logs the end in the same way.
 * @throws {@link CommandFailure} that names the file: then nothing may be given out.
 * @throws {@link ReadOnly} when nothing at all can be written there, because the file system is read-only.
 */
export function beginAccess(dataDirectory: string, access: Access): (end: AccessEnd) => void {
  const lines = linesOf(access);
  append(dataDirectory, lines.begun);
  return (end) => append(dataDirectory, lines.ended(end));
}

/** The two lines of an access. */
function linesOf({ command, filter }: Access): { begun: object; ended: (end: AccessEnd) => object } {
  const id = randomUUID();
  const line = (state: 'begun' | 'ended', more: object) => {
    return { at: new Date().toISOString(), reading: id, state, ...user(), command, ...more };
  };
  return { begun: line('begun', { filter: withoutPersons(filter) }), ended: (end) => line('ended', end) };
}

/**
 * The same filter with `true` for the id of a person. A hash would name the person all the same: ids of patients are few
 * enough to try them all, and a salt would lie beside the log.
 */
function withoutPersons(filter: Access['filter']): Access['filter'] {
  const logged = { ...filter };
  for (const name of OF_PERSONS) if (logged[name] !== undefined) logged[name] = true;
  return logged;
}

/**
 * The user of this process, and who asked as far as the system knows: the user that logged in, anyone who the process has
 * become since, and the one who called sudo. A user that the system has no name for has a number all the same, as in a
 * container.
 */
function user(): object {
  const login = loginUser();
  const sudo = sudoUser();
  const asked = {
    ...(login !== undefined && { login_uid: login }),
    ...(sudo !== undefined && { sudo_user: sudo.slice(0, LONGEST_NAME) }),
  };
  try {
    const { uid, username } = os.userInfo();
    return { uid, user: username, ...asked };
  } catch {
    return { uid: process.getuid?.() ?? -1, user: null, ...asked };
  }
}

/** Of the session, which sudo and su do not change (Linux audit, proc(5)); undefined when there is none. */
function loginUser(): number | undefined {
  try {
    const uid = Number(fs.readFileSync('/proc/self/loginuid', 'latin1'));
    return Number.isSafeInteger(uid) && uid !== NO_LOGIN ? uid : undefined;
  } catch {
    return undefined;
  }
}

const NO_LOGIN = 0xffff_ffff;
/** No system has longer ones; the variable is anybody's to set. */
const LONGEST_NAME = 256;

/** As much of a line as says that the collector has written it. */
export interface AccessLine {
  /** An instant, RFC 3339 in UTC. */
  readonly at: string;
  readonly state: 'begun' | 'ended';
  /** The id that the two lines of an access have. */
  readonly reading?: string;
  readonly command?: string;
  /** Of the process; null for one that the system has no name for. */
  readonly uid: number;
  readonly user: string | null;
  readonly login_uid?: number;
  readonly sudo_user?: string;
}

/** With what every line begins. */
const BEGINNING = '{"at":"';

/**
 * What a line of the log is. `torn`: the beginning of one, as a crash or a full disk leaves it, or nothing. `foreign`:
 * no command has written it.
 * @param bytes without the line feed; undefined for one that is too long.
 */
export function lineIn(bytes: Buffer | undefined): AccessLine | 'torn' | 'foreign' {
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
  return isAccessLine(read) ? read : 'foreign';
}

function isAccessLine(value: unknown): value is AccessLine {
  if (typeof value !== 'object' || value === null) return false;
  const {
    at,
    uid,
    user,
    state,
    login_uid: login,
    sudo_user: sudo,
    ...more
  } = value as Record<string, unknown>;
  return (
    (login === undefined || Number.isSafeInteger(login)) &&
    (sudo === undefined || typeof sudo === 'string') &&
    typeof at === 'string' &&
    !Number.isNaN(Date.parse(at)) &&
    new Date(at).toISOString() === at &&
    Number.isSafeInteger(uid) &&
    (typeof user === 'string' || user === null) &&
    isOfAccess(state, more)
  );
}

function isOfAccess(state: unknown, more: Readonly<Record<string, unknown>>): boolean {
  return (
    typeof more['reading'] === 'string' &&
    typeof more['command'] === 'string' &&
    (state === 'begun'
      ? typeof more['filter'] === 'object'
      : state === 'ended' && Number.isSafeInteger(more['events']) && typeof more['complete'] === 'boolean')
  );
}

/** The line with which an access began that holds a text; undefined when there is none. */
export async function findAccess(dataDirectory: string, text: string): Promise<AccessLine | undefined> {
  for (const log of [openStore(dataDirectory).accessLog, openReadingsLog(dataDirectory)]) {
    let rest = '';
    for await (const piece of log.lines()) {
      const lines = (rest + piece.toString()).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const access = line.includes(text) ? lineIn(Buffer.from(line)) : undefined;
        if (typeof access === 'object' && access.state === 'begun') return access;
      }
    }
  }
  return undefined;
}

/** On a mirror it is a file of its own, whose lines `collector mirror` brings to the access log of the database. */
function append(dataDirectory: string, line: object): void {
  const isMirror = readMirrorNote(dataDirectory) !== undefined;
  const file = isMirror ? readingsLogPath(dataDirectory) : accessLogPath(dataDirectory);
  const log = isMirror ? openReadingsLog(dataDirectory) : openStore(dataDirectory).accessLog;
  try {
    log.append(JSON.stringify(line));
  } catch (error) {
    const code = systemCode(error) ?? String(error);
    if (code === 'EROFS') throw new ReadOnly(`${file} cannot be written (${code})`, { cause: error });
    throw new CommandFailure(
      code === 'EACCES' || code === 'EPERM'
        ? `permission denied: ${file}; nothing is read unless it is logged there`
        : `${file} cannot be written (${code}), and nothing is read unless it is logged there`,
      EXIT.failure,
      { cause: error },
    );
  }
}

/* How a command logs that it reads events. */

/** What has been given out so far. The command keeps it up to date. */
export interface GivenOut {
  events: number;
  /** True once all that was asked for is given out. */
  complete: boolean;
}

/**
 * On return the beginning is logged, so that events may be given out. The end is logged when the process ends.
 * @throws CommandFailure when the access cannot be logged; but a snapshot that cannot be written is read all the
 * same, with a warning. A directory that a collector holds is none, however this process has it mounted.
 */
export function logAccess(dataDir: string, access: Access): GivenOut {
  const end = begin(dataDir, access);
  const givenOut: GivenOut = { events: 0, complete: false };
  // Also when no one reads on (a closed pipe).
  process.once('exit', () => {
    try {
      end({ ...givenOut });
    } catch (error) {
      // What was given out cannot be taken back; that it began has been logged.
      process.stderr.write(`collector: ${error instanceof Error ? error.message : String(error)}\n`);
      process.exitCode = EXIT.failure;
    }
  });
  return givenOut;
}

/** An access to a log in a database. */
export interface SharedAccess extends GivenOut {
  /** Logs the end, once. To be called before the log is closed, however the command has ended. */
  end(): Promise<void>;
}

/**
 * On return the beginning is logged in the database, so that events may be given out.
 * @throws CommandFailure when it cannot be logged.
 */
export async function logSharedAccess(log: AccessLogStore, access: Access): Promise<SharedAccess> {
  const lines = linesOf(access);
  const append = async (line: object) => {
    try {
      await log.append(JSON.stringify(line));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const message = `the access log in the database cannot be written (${reason}), and nothing is read unless it is logged there`;
      throw new CommandFailure(message, EXIT.failure, { cause: error });
    }
  };
  await append(lines.begun);
  const givenOut = { events: 0, complete: false };
  return Object.assign(givenOut, {
    end: () => append(lines.ended({ events: givenOut.events, complete: givenOut.complete })),
  });
}

function begin(dataDir: string, access: Access): (end: AccessEnd) => void {
  try {
    return beginAccess(dataDir, access);
  } catch (error) {
    if (!(error instanceof ReadOnly)) throw error;
    if (isLocked(dataDir)) {
      throw new CommandFailure(
        `${error.message}, and nothing is read unless it is logged there while a collector runs`,
        EXIT.failure,
        { cause: error },
      );
    }
    process.stderr.write(
      `collector: warning: ${accessLogPath(dataDir)} cannot be written, because the file system is read-only: ` +
        'this access is not logged\n',
    );
    return () => undefined;
  }
}
