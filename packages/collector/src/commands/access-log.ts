/**
 * The access log: `<data directory>/access.log`, one JSON object per line, appended and flushed.
 *
 * Commands work on the host, not over HTTP, so this log is their only trace. An access has two lines with the
 * same id. The first is on disk before anything is printed or changed, so a killed command is logged too. The
 * second has the number of events. If it is missing, any number may have been read.
 *
 * Heads of the hash chain cover the lines (ledger/access-log-heads.ts), so no command changes or removes a
 * line; after a torn line, the next one begins on a new line.
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
  /** The arguments: kinds, runs, times; never the contents of an event. Persons are left out of the line. */
  readonly filter: Readonly<Record<string, unknown>>;
  /**
   * Whether the access changes something. An act is never performed without a line, even on a read-only file
   * system.
   */
  readonly isAct?: boolean | undefined;
  /** The actor's name as given to the command. It never replaces the name of a login user. */
  readonly by?: string;
  /** The reason as given to the command. */
  readonly reason?: string;
}

/** Filters whose value is the id of a patient or a user, or text that may be about one. */
const OF_PERSONS = ['target', 'user', 'contains'];

/** How an access ended. */
export interface AccessEnd {
  /** Number of events printed. */
  readonly events: number;
  /** False if the access ended early. */
  readonly complete: boolean;
  /** The result of an act, if it is known only at the end: ids and numbers, never a secret. */
  readonly done?: Readonly<Record<string, unknown>>;
}

/**
 * Logs the beginning of an access; on return the line is on stable storage. A read of a snapshot that cannot
 * be written is not logged, but causes a warning.
 * @returns a function that logs the end in the same way.
 * @throws {@link CommandFailure} with the file's name if the line cannot be written; the access must not
 *   proceed.
 */
export function beginAccess(dataDirectory: string, access: Access): (end: AccessEnd) => void {
  const lines = linesOf(access);
  const isLogged = append(dataDirectory, lines.begun, access);
  if (!isLogged)
    process.stderr.write(
      `collector: warning: ${accessLogPath(dataDirectory)} cannot be written, as the file system is ` +
        `read-only: this access is not logged\n`,
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
 * The filter with `true` in place of persons. A hash would still identify a person: patient ids are few
 * enough to try all of them, and a salt would be stored beside the log.
 */
function withoutPersons(filter: Access['filter']): Access['filter'] {
  const logged = { ...filter };
  for (const name of OF_PERSONS) if (logged[name] !== undefined) logged[name] = true;
  return logged;
}

/**
 * On a mirror, lines go to a separate file, from which `collector mirror` copies them to the database's
 * access log.
 * @returns false when reading a snapshot: a read-only file system without a running collector.
 */
function append(dataDirectory: string, line: object, access: Access): boolean {
  const isMirror = readMirrorNote(dataDirectory) !== undefined;
  const log = isMirror ? openReadingsLog(dataDirectory) : openAccessLog(dataDirectory);
  try {
    log.append(JSON.stringify(line));
    return true;
  } catch (error) {
    // The line may have begun the file of a new year.
    const file = isMirror ? readingsLogPath(dataDirectory) : accessLogPath(dataDirectory);
    const code = systemCode(error) ?? String(error);
    const isReading = code === 'EROFS' && access.isAct !== true;
    if (isReading && !isLocked(dataDirectory)) return false;
    const still = `${unlessLogged(access)}${isReading ? ' while a collector runs' : ''}`;
    throw new CommandFailure(
      code === 'EACCES' || code === 'EPERM'
        ? `permission denied: ${file}; ${unlessLogged(access)}`
        : `${file} cannot be written (${code}), and ${still}`,
      EXIT.failure,
      { cause: error },
    );
  }
}

function unlessLogged({ isAct }: Access): string {
  return `nothing is ${isAct ? 'changed' : 'read'} unless it is logged there`;
}

/* How a command logs that it reads events or changes something. */

/** The output of the command so far. The command updates it. */
export interface GivenOut {
  events: number;
  /** True once everything that was requested is printed or done. */
  complete: boolean;
  /** The result of an act. */
  done?: AccessEnd['done'];
}

/**
 * Logs the beginning now, so that events may be printed after the return, and the end when the process exits.
 * @throws CommandFailure if the access cannot be logged. A read-only snapshot without a running collector can
 *   still be read, with a warning.
 */
export function logAccess(dataDir: string, access: Access): GivenOut {
  const end = beginAccess(dataDir, access);
  const givenOut: GivenOut = { events: 0, complete: false };
  // An exit handler, so that the end is also logged after a closed pipe.
  process.once('exit', () => {
    try {
      end(ending(givenOut));
    } catch (error) {
      // Printed output cannot be taken back; its beginning is logged.
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
  /** Logs the end. Call it exactly once, before the log is closed, also after an error. */
  end(): Promise<void>;
}

/**
 * Logs the beginning in the database.
 * @throws CommandFailure if it cannot be logged.
 */
export async function logSharedAccess(log: AccessLogStore, access: Access): Promise<SharedAccess> {
  const lines = linesOf(access);
  const append = async (line: object) => {
    try {
      await log.append(JSON.stringify(line));
    } catch (error) {
      const reason = messageOf(error);
      const message = `the access log in the database cannot be written (${reason})`;
      throw new CommandFailure(`${message}, and ${unlessLogged(access)}`, EXIT.failure, { cause: error });
    }
  };
  await append(lines.begun);
  const givenOut: GivenOut = { events: 0, complete: false };
  return Object.assign(givenOut, {
    end: () => append(lines.ended(ending(givenOut))),
  });
}

/**
 * Performs an act between its two lines, in the data directory or in the database that has the log.
 * @param act sets `complete` itself.
 * @throws CommandFailure if the beginning cannot be logged; then nothing was done.
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
