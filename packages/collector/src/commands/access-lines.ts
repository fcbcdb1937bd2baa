/** What lines of an access log say: the log of this host, and of a mirror its own. */
import { isObject } from '@clinical-events/protocol';
import { AccessChain } from '../tree/access-chain.js';
import { openAccessLog, openReadingsLog } from '../store/open-access-log.js';
import { type Actor, isActor } from './actor.js';

/** The members that show that the collector has written a line, and those of it that are read. */
export interface AccessLine {
  /** An instant, RFC 3339 in UTC. */
  readonly at: string;
  readonly state: 'begun' | 'ended';
  /** The id that the two lines of an access have. */
  readonly reading?: string;
  readonly command?: string;
  readonly actor: Actor;
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

/** Members that are not in every line. */
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
 * The line with which `erase plan` began to write a plan. It is believed as it stands in the file; `verify` finds out
 * whether lines were changed since they were under a head.
 * @param sha256 of the plan, 64 hexadecimal digits.
 * @returns the first one; undefined when there is none.
 */
export async function findPlan(dataDirectory: string, sha256: string): Promise<AccessLine | undefined> {
  for await (const line of linesWith(dataDirectory, sha256))
    if (line.command === 'erase plan' && line.filter?.['plan'] === sha256) return line;
  return undefined;
}

/** The command of the lines by which a mirror reports that it has followed an erasure. */
export const FOLLOWED = 'mirror';

/** A mirror of a log in a database, and when it has followed an erasure (RFC 3339); null while it has not reported so. */
export interface FollowingMirror {
  readonly mirror: string;
  readonly followed: string | null;
}

/** The mirrors that have reported anything, in the order in which they did so first. */
export async function mirrorsOf(dataDirectory: string, action: string): Promise<FollowingMirror[]> {
  const found = new Map<string, FollowingMirror>();
  for await (const { at, command, filter } of linesWith(dataDirectory, `"command":"${FOLLOWED}"`)) {
    if (command !== FOLLOWED || typeof filter?.['mirror'] !== 'string') continue;
    const { mirror } = filter;
    const known = found.get(mirror)?.followed ?? null;
    found.set(mirror, { mirror, followed: known ?? (filter['erased'] === action ? at : null) });
  }
  return [...found.values()];
}

/** The first lines of accesses that have a text in them: of the log of this host, and of a mirror its own behind them. */
async function* linesWith(dataDirectory: string, text: string): AsyncGenerator<AccessLine> {
  for (const log of [openAccessLog(dataDirectory), openReadingsLog(dataDirectory)]) {
    const chain = new AccessChain(LONGEST_LINE);
    for await (const piece of log.lines()) {
      const found: AccessLine[] = [];
      chain.take(piece, (bytes) => {
        const line = bytes?.includes(text) === true ? lineIn(bytes) : undefined;
        if (typeof line === 'object' && line.state === 'begun') found.push(line);
      });
      yield* found;
    }
  }
}
