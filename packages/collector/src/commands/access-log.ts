/**
 * Who read or changed what: `<data directory>/access.log`, one JSON object a line, appended and flushed.
 *
 * Both happen on the host and never over HTTP, so this is the one place where they show. An access has two lines with the
 * same id: the first stands on the disk before anything is given out or changed, so a command that is killed has been logged
 * too; the second says how much it was. Without the second, it may have been anything.
 *
 * The log has heads of the chain over the lines (ledger/access-log-heads.ts), so none is ever changed or taken back, also
 * not one that a crash or a full disk has torn: the next begins on a line of its own.
 */
import { randomUUID } from 'node:crypto';
import { accessLogPath, openAccessLog, openReadingsLog, readingsLogPath } from '../store/open-access-log.js';
import { isLocked } from '../store/directory-lock.js';
import { readMirrorNote } from '../tree/state-files.js';
import type { AccessLogStore } from '../store/contract/access-log.js';
import { messageOf, systemCode } from '../system-code.js';
import { whoActs } from './actor.js';
import { CommandFailure, EXIT } from './exit-codes.js';

export interface Access {
  /** The command that reads or acts. */
  readonly command: string;
  /** What it was asked for: names of kinds, runs, times; never the contents of an event. Persons are left out of the line. */
  readonly filter: Readonly<Record<string, unknown>>;
  /** Whether it changes something. Then it is never done without a line, also not on a read-only file system. */
  readonly isAct?: boolean | undefined;
  /** The name of who acts, as the command was given it. It never takes the place of a login user's. */
  readonly by?: string;
  /** Why, as the command was given it. */
  readonly reason?: string;
}

/** Filters whose value is the id of a patient or a user, or words that may be about one. */
const OF_PERSONS = ['target', 'user', 'contains'];

/** How an access ended. */
export interface AccessEnd {
  /** How many events it gave out. */
  readonly events: number;
  /** False when it ended before it had given out all that it was asked for. */
  readonly complete: boolean;
  /** What it has made, where that is known only then: ids and numbers, never a secret. */
  readonly done?: Readonly<Record<string, unknown>>;
}

/**
 * On return the beginning is logged on stable storage; but the reading of a snapshot that cannot be written is not logged,
 * with a warning.
 * @returns logs the end in the same way.
 * @throws {@link CommandFailure} that names the file: then nothing may be given out or done.
 */
export function beginAccess(dataDirectory: string, access: Access): (end: AccessEnd) => void {
  const lines = linesOf(access);
  const isLogged = append(dataDirectory, lines.begun, access);
  if (!isLogged)
    process.stderr.write(
      `collector: warning: ${accessLogPath(dataDirectory)} cannot be written, because the file system is read-only: ` +
        'this access is not logged\n',
    );
  return (end) => {
    if (isLogged) append(dataDirectory, lines.ended(end), access);
  };
}

/** The two lines of an access. */
function linesOf({ command, filter, by, reason }: Access): {
  begun: object;
  ended: (end: AccessEnd) => object;
} {
  const id = randomUUID();
  const who = whoActs(by);
  const line = (state: 'begun' | 'ended', more: object) => {
    return { at: new Date().toISOString(), reading: id, state, ...who, command, ...more };
  };
  return {
    begun: line('begun', { ...(reason !== undefined && { reason }), filter: withoutPersons(filter) }),
    ended: (end) => line('ended', end),
  };
}

/**
 * The same filter with `true` for what is of a person. A hash would name the person all the same: ids of patients are few
 * enough to try them all, and a salt would lie beside the log.
 */
function withoutPersons(filter: Access['filter']): Access['filter'] {
  const logged = { ...filter };
  for (const name of OF_PERSONS) if (logged[name] !== undefined) logged[name] = true;
  return logged;
}

/**
 * On a mirror it is a file of its own, whose lines `collector mirror` brings to the access log of the database.
 * @returns false for the reading of a snapshot: on a read-only file system on which no collector runs.
 */
function append(dataDirectory: string, line: object, access: Access): boolean {
  const isMirror = readMirrorNote(dataDirectory) !== undefined;
  const file = isMirror ? readingsLogPath(dataDirectory) : accessLogPath(dataDirectory);
  const log = isMirror ? openReadingsLog(dataDirectory) : openAccessLog(dataDirectory);
  try {
    log.append(JSON.stringify(line));
    return true;
  } catch (error) {
    const code = systemCode(error) ?? String(error);
    const isReading = code === 'EROFS' && access.isAct !== true;
    if (isReading && !isLocked(dataDirectory)) return false;
    throw new CommandFailure(
      code === 'EACCES' || code === 'EPERM'
        ? `permission denied: ${file}; ${unlessLogged(access)}`
        : `${file} cannot be written (${code}), and ${unlessLogged(access)}${isReading ? ' while a collector runs' : ''}`,
      EXIT.failure,
      { cause: error },
    );
  }
}

function unlessLogged({ isAct }: Access): string {
  return `nothing is ${isAct ? 'done' : 'read'} unless it is logged there`;
}

/* How a command logs that it reads events, or changes something. */

/** What has been given out so far. The command keeps it up to date. */
export interface GivenOut {
  events: number;
  /** True once all that was asked for is given out or done. */
  complete: boolean;
  /** What an act has made. */
  done?: AccessEnd['done'];
}

/**
 * On return the beginning is logged, so that events may be given out. The end is logged when the process ends.
 * @throws CommandFailure when the access cannot be logged; but a snapshot that cannot be written is read all the
 * same, with a warning. A directory that a collector holds is none, however this process has it mounted. An act is
 * never done without a line.
 */
export function logAccess(dataDir: string, access: Access): GivenOut {
  const end = beginAccess(dataDir, access);
  const givenOut: GivenOut = { events: 0, complete: false };
  // Also when no one reads on (a closed pipe).
  process.once('exit', () => {
    try {
      end(ending(givenOut));
    } catch (error) {
      // What was given out cannot be taken back; that it began has been logged.
      process.stderr.write(`collector: ${messageOf(error)}\n`);
      process.exitCode = EXIT.failure;
    }
  });
  return givenOut;
}

function ending({ events, complete, done }: GivenOut): AccessEnd {
  return { events, complete, ...(done !== undefined && { done }) };
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
      const reason = messageOf(error);
      const message = `the access log in the database cannot be written (${reason}), and ${unlessLogged(access)}`;
      throw new CommandFailure(message, EXIT.failure, { cause: error });
    }
  };
  await append(lines.begun);
  const givenOut: GivenOut = { events: 0, complete: false };
  return Object.assign(givenOut, {
    end: () => append(lines.ended(ending(givenOut))),
  });
}

/**
 * Does an act between its two lines, in the data directory or in the database that has the log.
 * @param act it says itself when it is complete.
 * @throws CommandFailure when the beginning cannot be logged: then nothing was done.
 */
export async function logAct<Result>(
  place: string | AccessLogStore,
  access: Access,
  act: (logged: GivenOut) => Result | Promise<Result>,
): Promise<Result> {
  const changes = { ...access, isAct: true };
  if (typeof place === 'string') return act(logAccess(place, changes));
  const logged = await logSharedAccess(place, changes);
  try {
    return await act(logged);
  } finally {
    await logged.end();
  }
}
