/**
 * Who read or changed what: `<data directory>/access.log`, one JSON object a line, appended and flushed.
 *
 * Both happen on the host and never over HTTP, so this is the one place where they show. An access has two lines with the
 * same id: the first stands on the disk before anything is given out or changed, so a command that is killed has been logged
 * too; the second says how much it was. Without the second, it may have been anything.
 *
 * The log has heads of the chain over the lines (ledger/access-log-heads.ts), so none is ever changed or taken back, also
 * not one that a crash or a full disk has torn: the next begins behind it, on a line of its own.
 */
import { randomUUID } from 'node:crypto';
import { AccessChain } from '../tree/access-chain.js';
import { accessLogPath, openAccessLog, openReadingsLog, readingsLogPath } from '../store/open-access-log.js';
import { isLocked } from '../store/directory-lock.js';
import { readMirrorNote } from '../tree/state-files.js';
import type { AccessLogStore } from '../store/contract/access-log.js';
import { systemCode } from '../system-code.js';
import { type Actor, isActor, whoActs } from './actor.js';
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
  /** What it has made, where that is known only then: ids and numbers, never a secret. */
  readonly done?: Readonly<Record<string, unknown>>;
}

/**
 * On return the beginning is logged on stable storage.
 * @returns logs the end in the same way.
 * @throws {@link CommandFailure} that names the file: then nothing may be given out.
 * @throws {@link ReadOnly} when nothing at all can be written there, because the file system is read-only.
 */
export function beginAccess(dataDirectory: string, access: Access): (end: AccessEnd) => void {
  const lines = linesOf(access);
  append(dataDirectory, lines.begun, access);
  return (end) => append(dataDirectory, lines.ended(end), access);
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

/** As much of a line as says that the collector has written it. */
export interface AccessLine {
  /** An instant, RFC 3339 in UTC. */
  readonly at: string;
  readonly state: 'begun' | 'ended';
  /** The id that the two lines of an access have. */
  readonly reading?: string;
  readonly command?: string;
  /** Lines of versions before have none. */
  readonly actor?: Actor;
  readonly reason?: string;
  /** Of the viewer: whether the person used rights that are kept for emergencies. */
  readonly break_glass?: boolean;
  readonly filter?: Readonly<Record<string, unknown>>;
  /** Of the process; null for one that the system has no name for. */
  readonly uid: number;
  readonly user: string | null;
  readonly login_uid?: number;
  readonly sudo_user?: string;
}

/** No line that a command appends is as long. */
export const LONGEST_LINE = 16 << 20;
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
  const line = value as Record<string, unknown>;
  const { at, uid, user } = line;
  return (
    typeof at === 'string' &&
    !Number.isNaN(Date.parse(at)) &&
    new Date(at).toISOString() === at &&
    Number.isSafeInteger(uid) &&
    (typeof user === 'string' || user === null) &&
    Object.entries(OPTIONAL).every(([name, fits]) => line[name] === undefined || fits(line[name])) &&
    isOfAccess(line)
  );
}

/** Members that are not in every line. */
const OPTIONAL: Readonly<Record<string, (value: unknown) => boolean>> = {
  actor: isActor,
  reason: (value) => typeof value === 'string',
  break_glass: (value) => typeof value === 'boolean',
  login_uid: Number.isSafeInteger,
  sudo_user: (value) => typeof value === 'string',
  done: isObject,
};

function isOfAccess({ state, ...more }: Readonly<Record<string, unknown>>): boolean {
  return (
    typeof more['reading'] === 'string' &&
    typeof more['command'] === 'string' &&
    (state === 'begun'
      ? isObject(more['filter'])
      : state === 'ended' && Number.isSafeInteger(more['events']) && typeof more['complete'] === 'boolean')
  );
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A line that says who made a plan of erasure, and when. */
export type PlanLine = AccessLine & { readonly actor: Actor };

/**
 * The line with which `erase plan` began to write a plan. It is believed as it stands in the file; `verify` finds out
 * whether lines were changed since they were under a head.
 * @param sha256 of the plan, 64 hexadecimal digits.
 * @returns the first one; undefined when there is none.
 */
export async function findPlan(dataDirectory: string, sha256: string): Promise<PlanLine | undefined> {
  const isOfPlan = (line: AccessLine): line is PlanLine =>
    line.command === 'erase plan' && line.filter?.['plan'] === sha256 && line.actor !== undefined;
  return findBegun(dataDirectory, sha256, isOfPlan);
}

/** @param text that every such line has in it. */
async function findBegun<Line extends AccessLine>(
  dataDirectory: string,
  text: string,
  isWanted: (line: AccessLine) => line is Line,
): Promise<Line | undefined> {
  for (const log of [openAccessLog(dataDirectory), openReadingsLog(dataDirectory)]) {
    const chain = new AccessChain(LONGEST_LINE);
    let found: Line | undefined;
    const look = (bytes: Buffer | undefined) => {
      const line = found === undefined && bytes?.includes(text) ? lineIn(bytes) : undefined;
      if (typeof line === 'object' && line.state === 'begun' && isWanted(line)) found = line;
    };
    for await (const piece of log.lines()) {
      chain.take(piece, look);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

/** On a mirror it is a file of its own, whose lines `collector mirror` brings to the access log of the database. */
function append(dataDirectory: string, line: object, access: Access): void {
  const isMirror = readMirrorNote(dataDirectory) !== undefined;
  const file = isMirror ? readingsLogPath(dataDirectory) : accessLogPath(dataDirectory);
  const log = isMirror ? openReadingsLog(dataDirectory) : openAccessLog(dataDirectory);
  try {
    log.append(JSON.stringify(line));
  } catch (error) {
    const code = systemCode(error) ?? String(error);
    if (code === 'EROFS') throw new ReadOnly(`${file} cannot be written (${code})`, { cause: error });
    throw new CommandFailure(
      code === 'EACCES' || code === 'EPERM'
        ? `permission denied: ${file}; ${unlessLogged(access)}`
        : `${file} cannot be written (${code}), and ${unlessLogged(access)}`,
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
  const end = begin(dataDir, access);
  const givenOut: GivenOut = { events: 0, complete: false };
  // Also when no one reads on (a closed pipe).
  process.once('exit', () => {
    try {
      end(ending(givenOut));
    } catch (error) {
      // What was given out cannot be taken back; that it began has been logged.
      process.stderr.write(`collector: ${error instanceof Error ? error.message : String(error)}\n`);
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
      const reason = error instanceof Error ? error.message : String(error);
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

function begin(dataDir: string, access: Access): (end: AccessEnd) => void {
  try {
    return beginAccess(dataDir, access);
  } catch (error) {
    if (!(error instanceof ReadOnly)) throw error;
    if (access.isAct || isLocked(dataDir)) {
      throw new CommandFailure(
        `${error.message}, and ${unlessLogged(access)}${access.isAct ? '' : ' while a collector runs'}`,
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
