/** Reads lines of an access log: the host's own log, and a mirror's log of its readings. */
import path from 'node:path';
import { isObject } from '@clinical-events/protocol';
import type { EventLog } from '../store/contract/events.js';
import { AccessChain, FIRST_FILE, headIn, inOrderOfYears, isAccessLogName } from '../tree/access-chain.js';
import { openAccessLog, openClosedLog, openReadingsLog } from '../store/open-access-log.js';
import { exists } from '../files.js';
import { readMirrorNote } from '../tree/state-files.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';

/** Closed files of an access log that were moved elsewhere: their paths by their names. */
export type ClosedFiles = ReadonlyMap<string, string>;
const NO_FILES: ClosedFiles = new Map();

/** The option `--access-log`, for {@link closedFilesFrom}. */
export const CLOSED_FILES = {
  help: 'closed file of the access log that was moved elsewhere, under its name; repeatable',
  isRepeatable: true,
} as const;

export const ACTOR_KINDS = ['os', 'oidc', 'proxy'] as const;

/** The members of a line. Programs rely on them (docs/INTEGRITY.md, "The access log"). */
export interface Actor {
  /** The source of the name: the operating system, an OpenID Connect provider, or a proxy. */
  readonly kind: (typeof ACTOR_KINDS)[number];
  /** The login user; without one, a stated name, the user who called sudo, or the user of the process. */
  readonly name: string;
  /** The role of a person in the viewer; on the host the rights of the system user apply. */
  readonly role?: string;
  /** Whether a login proves the name. */
  readonly proven?: boolean;
  /** The stated name, where a login proves another. */
  readonly stated?: string;
}

/** The members by which a line of the collector is recognised, and the members that are read. */
export interface AccessLine {
  /** An instant, RFC 3339 in UTC. */
  readonly at: string;
  readonly state: 'begun' | 'ended';
  /** The id that the two lines of an access share. */
  readonly reading?: string;
  readonly command?: string;
  readonly actor: Actor;
  readonly reason?: string;
  /** Set by the viewer: whether the person used emergency access rights. */
  readonly break_glass?: boolean;
  readonly filter?: Readonly<Record<string, unknown>>;
  /** Of an end: the number of events that were printed or erased, and whether everything was. */
  readonly events?: number;
  readonly complete?: boolean;
  /** User id of the process. */
  readonly uid: number;
  /** Null if the system has no name for the user id. */
  readonly user: string | null;
  readonly login_uid?: number;
  readonly sudo_user?: string;
}

/** The commands of the lines that a viewer writes for a look. */
export const VIEWER_LOOKS = [
  'viewer runs',
  'viewer run',
  'viewer report',
  'viewer proof',
  'viewer break-glass',
] as const;
/** The command in the lines by which a viewer reports that it has followed an erasure. */
export const VIEWER = 'viewer';

/** Longer than any line that a command appends. */
export const LONGEST_LINE = 16 << 20;
/** Every line begins with this. */
const BEGINNING = '{"at":"';

/**
 * Classifies a line. `torn`: an incomplete line, as a crash or a full disk leaves it, or an empty one.
 * `foreign`: not written by a command.
 * @param bytes without the line feed; undefined if the line is too long.
 */
export function lineIn(bytes: Buffer | undefined): AccessLine | 'torn' | 'foreign' {
  if (bytes === undefined) return 'foreign';
  const text = bytes.toString();
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    // After a power failure, blocks that did not reach the disk may read as zeros.
    const written = text.replaceAll('\0', '');
    return written.startsWith(BEGINNING.slice(0, written.length)) ? 'torn' : 'foreign';
  }
  return isAccessLine(read) ? read : 'foreign';
}

function isAccessLine(value: unknown): value is AccessLine {
  if (typeof value !== 'object' || value === null) return false;
  const line = value as Record<string, unknown>;
  const { at, actor, uid, user } = line;
  return (
    typeof at === 'string' &&
    !Number.isNaN(Date.parse(at)) &&
    new Date(at).toISOString() === at &&
    isActor(actor) &&
    Number.isSafeInteger(uid) &&
    (typeof user === 'string' || user === null) &&
    Object.entries(OPTIONAL).every(([name, fits]) => line[name] === undefined || fits(line[name])) &&
    isOfAccess(line)
  );
}

function isActor(value: unknown): value is Actor {
  if (typeof value !== 'object' || value === null) return false;
  const { kind, name, role, proven, stated } = value as Record<string, unknown>;
  return (
    ACTOR_KINDS.some((each) => each === kind) &&
    typeof name === 'string' &&
    [role, stated].every((each) => each === undefined || typeof each === 'string') &&
    (proven === undefined || typeof proven === 'boolean')
  );
}

/** Members that a line may lack. */
const OPTIONAL: Readonly<Record<string, (value: unknown) => boolean>> = {
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

/**
 * The line that `erase plan` wrote for a plan. The line is taken as it is in the file; `verify` reports
 * changed lines.
 * @param sha256 of the plan, 64 hexadecimal digits.
 * @returns the first such line; undefined if there is none.
 */
export async function findPlan(dataDirectory: string, sha256: string): Promise<AccessLine | undefined> {
  for await (const line of linesWith(dataDirectory, sha256))
    if (line.command === 'erase plan' && line.filter?.['plan'] === sha256) return line;
  return undefined;
}

/** The command in the lines by which a mirror reports that it has followed an erasure. */
export const FOLLOWED = 'mirror';

/**
 * A mirror of a log in a database, and when it followed an erasure (RFC 3339); null until it has reported
 * that.
 */
export interface FollowingMirror {
  readonly mirror: string;
  readonly followed: string | null;
}

/** The same of a viewer, which has names in its own catalogue. */
export interface FollowingViewer {
  readonly viewer: string;
  readonly followed: string | null;
}

/** The mirrors that have reported anything, ordered by their first report. */
export async function mirrorsOf(dataDirectory: string, action: string): Promise<FollowingMirror[]> {
  const found = await followersOf(dataDirectory, FOLLOWED, action);
  return found.map(([mirror, followed]) => ({ mirror, followed }));
}

/** The viewers that have reported anything, ordered by their first report. */
export async function viewersOf(
  dataDirectory: string,
  action: string,
  closedFiles?: ClosedFiles,
): Promise<FollowingViewer[]> {
  const found = await followersOf(dataDirectory, VIEWER, action, closedFiles);
  return found.map(([viewer, followed]) => ({ viewer, followed }));
}

/** @param by the command of the reports, and the member of their filter that identifies the follower. */
async function followersOf(
  dataDirectory: string,
  by: string,
  action: string,
  closedFiles?: ClosedFiles,
): Promise<(readonly [id: string, followed: string | null])[]> {
  const found = new Map<string, string | null>();
  for await (const { at, command, filter } of linesWith(dataDirectory, `"command":"${by}"`, closedFiles)) {
    const id = filter?.[by];
    if (command !== by || typeof id !== 'string') continue;
    found.set(id, found.get(id) ?? (filter?.['erased'] === action ? at : null));
  }
  return [...found];
}

/** The first lines of accesses that contain a text. */
async function* linesWith(
  dataDirectory: string,
  text: string,
  closedFiles?: ClosedFiles,
): AsyncGenerator<AccessLine> {
  for await (const line of accessLines(dataDirectory, (bytes) => bytes?.includes(text) === true, closedFiles))
    if (typeof line === 'object' && line.state === 'begun') yield line;
}

/**
 * Lines of the host's log, then of a mirror's log of its readings.
 * @param fits selects lines before they are parsed.
 */
export async function* accessLines(
  dataDirectory: string,
  fits: (bytes: Buffer | undefined) => boolean = () => true,
  closedFiles = NO_FILES,
): AsyncGenerator<ReturnType<typeof lineIn>> {
  const own = openAccessLog(dataDirectory);
  const files = inOrderOfYears([...own.files(), ...closedFiles.keys()]);
  const logOf = (given: string | undefined) => (given === undefined ? own : openClosedLog(given));
  const logs = files.map((file) => logOf(closedFiles.get(file)).lines({ lines: 0, at: 0, file }));
  for (const pieces of [...logs, openReadingsLog(dataDirectory).lines()]) {
    const chain = new AccessChain(LONGEST_LINE);
    for await (const piece of pieces) {
      const found: ReturnType<typeof lineIn>[] = [];
      chain.take(piece, (bytes) => {
        if (fits(bytes)) found.push(lineIn(bytes));
      });
      yield* found;
    }
  }
}

/**
 * The files of the host's log that have heads in the log, and are neither in the directory nor given. A log
 * of one file was never divided, so none was archived, and the heads are not read.
 */
export async function missingFiles(
  log: Pick<EventLog, 'pass'>,
  dataDirectory: string,
  closedFiles = NO_FILES,
): Promise<string[]> {
  const here = openAccessLog(dataDirectory).files();
  if (here.length === 1 && here[0] === FIRST_FILE) return [];
  const heads = new Set<string>();
  for await (const batch of log.pass())
    for (const entry of batch) {
      const body = entry.isOwn ? entry.body() : undefined;
      const head = body && headIn(body);
      if (head !== undefined) heads.add(head.file ?? FIRST_FILE);
    }
  return inOrderOfYears([...heads].filter((file) => !here.includes(file) && !closedFiles.has(file)));
}

/**
 * Reads the option `--access-log`.
 * @param dataDir must not have the same files: one of two would not be read.
 * @param isShared whether the log is in a database, whose access log, like a mirror's copy, is never divided.
 * @throws CommandFailure for a file that does not exist, or whose name is not one of a file elsewhere.
 */
export function closedFilesFrom(files: readonly string[], dataDir: string, isShared = false): ClosedFiles {
  if (files.length === 0) return NO_FILES;
  if (isShared || readMirrorNote(dataDir) !== undefined)
    throw usage('--access-log: the access log of a database has no closed files');
  const here = openAccessLog(dataDir).files();
  const found = new Map<string, string>();
  for (const file of files) {
    const name = path.basename(file);
    if (!isAccessLogName(name))
      throw usage(`--access-log: the name of ${file} is neither access.log nor access-YEAR.log`);
    if (found.has(name) || here.includes(name))
      throw usage(`--access-log: ${name} is given twice, or is in the data directory`);
    if (!exists(file)) throw new CommandFailure(`there is no file ${file}`, EXIT.notFound);
    found.set(name, file);
  }
  return found;
}
