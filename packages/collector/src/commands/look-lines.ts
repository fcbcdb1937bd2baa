/**
 * Requests of a viewer at the access socket (access-socket.ts), and the lines of the access log that they
 * become. The collector builds the whole line, so that no line of another command can be written.
 */
import { randomUUID } from 'node:crypto';
import { isObject } from '@clinical-events/protocol';
import { ACTOR_KINDS, VIEWER, VIEWER_LOOKS } from './access-lines.js';

/** Maximum bytes of a request, without the line feed. */
export const LONGEST_REQUEST = 64 << 10;
/** Maximum bytes of a line that a database accepts for its access log. */
const LONGEST_LINE = 64 << 10;
/** Maximum number of looks of one connection that have not ended. */
const MOST_OPEN = 1024;
const MOST_TEXT = 256;
const MOST_REASON = 2000;
/** Of a member of a filter: a name in an event may be long. */
const MOST_VALUE = 1000;
const MOST_MEMBERS = 24;
const MEMBER = /^[a-z][a-z_]{0,31}$/;
const ROLE = /^[a-z][a-z-]{0,31}$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Members that may be the id of a person; only `true` is logged. */
const OF_PERSONS = ['target', 'user', 'caller', 'contains', 'subjects'];
/** Members that must be ids, by command, so that looks can be found by run (`access-log --subject-file`). */
const IDS: Readonly<Record<string, readonly string[]>> = {
  'viewer run': ['run'],
  'viewer proof': ['event'],
  [VIEWER]: ['viewer'],
};
const BREAK_GLASS = 'break-glass';
const MIN_REASON = 10;

/** The members of both lines of a look. */
type Said = Readonly<Record<'actor' | 'uid' | 'user' | 'command', unknown>>;

export interface LookLine {
  readonly line: string;
  /** The id of the look, for the answer to its beginning. */
  readonly reading: string | undefined;
  readonly isBreakGlass: boolean;
  /** Call it once the line is stored. */
  readonly kept: () => void;
}

/** The looks of one connection: only they can be ended on it. */
export class OpenLooks {
  readonly #open = new Map<string, Said>();

  /** @returns the line of a request, or the reason for which it is refused. */
  lineOf(request: Buffer): LookLine | string {
    let read: unknown;
    try {
      read = JSON.parse(request.toString());
    } catch {
      return 'the request is not JSON';
    }
    if (!isObject(read)) return 'the request is not an object';
    if (read['state'] === 'begun') return this.#begun(read);
    return read['state'] === 'ended' ? this.#ended(read) : 'state is neither begun nor ended';
  }

  #begun(request: Readonly<Record<string, unknown>>): LookLine | string {
    if (this.#open.size >= MOST_OPEN) return 'too many looks have not ended';
    const said = saidBy(request);
    if (typeof said === 'string') return said;
    const { reason, filter, break_glass: isBreakGlass = false } = request;
    const fault = faultOf({ ...said, reason, filter, isBreakGlass });
    if (fault !== undefined) return fault;
    const reading = randomUUID();
    const more = {
      ...(reason !== undefined && { reason }),
      ...(isBreakGlass === true && { break_glass: true }),
      filter,
    };
    return built(
      { reading, state: 'begun', ...said, ...more },
      {
        ...{ reading, isBreakGlass: isBreakGlass === true },
        kept: () => this.#open.set(reading, said),
      },
    );
  }

  #ended({ reading, events, complete }: Readonly<Record<string, unknown>>): LookLine | string {
    const said = typeof reading === 'string' ? this.#open.get(reading) : undefined;
    if (typeof reading !== 'string' || said === undefined) return 'no such look has begun on this connection';
    if (!isCount(events)) return 'events is not a count';
    if (typeof complete !== 'boolean') return 'complete is neither true nor false';
    // Before the line is stored: the next request may arrive together with this one.
    this.#open.delete(reading);
    const more = { reading: undefined, isBreakGlass: false, kept: () => undefined };
    return built({ reading, state: 'ended', ...said, events, complete }, more);
  }
}

function built(line: object, more: Omit<LookLine, 'line'>): LookLine | string {
  const text = JSON.stringify({ at: new Date().toISOString(), ...line });
  return Buffer.byteLength(text) > LONGEST_LINE ? 'the line is too long' : { line: text, ...more };
}

/** The members that state who looks, checked. */
function saidBy({ command, actor, uid, user }: Readonly<Record<string, unknown>>): Said | string {
  if (command !== VIEWER && !VIEWER_LOOKS.some((each) => each === command)) return 'command is not a look';
  if (!isObject(actor)) return 'actor is not an object';
  const { kind, name, role } = actor;
  if (!ACTOR_KINDS.some((each) => each === kind)) return 'actor.kind is unknown';
  if (!isText(name, MOST_TEXT) || name === '') return 'actor.name is not a short text';
  if (command === VIEWER ? role !== undefined : typeof role !== 'string' || !ROLE.test(role))
    return 'actor.role is not a role';
  if (!isCount(uid)) return 'uid is not a user id';
  if (user !== null && !isText(user, MOST_TEXT)) return 'user is not a short text';
  // A one-time link proves only that someone could read the terminal.
  const proven = kind !== 'os';
  return { actor: { kind, name, ...(role !== undefined && { role }), proven }, uid, user, command };
}

function faultOf({
  command,
  actor,
  reason,
  filter,
  isBreakGlass,
}: Said & Readonly<Record<'reason' | 'filter' | 'isBreakGlass', unknown>>): string | undefined {
  if (reason !== undefined && !isText(reason, MOST_REASON)) return 'reason is not a short text';
  if (typeof isBreakGlass !== 'boolean') return 'break_glass is neither true nor false';
  if ((isObject(actor) && actor['role'] === BREAK_GLASS) !== isBreakGlass)
    return 'break_glass does not match the role';
  if (isBreakGlass && (typeof reason !== 'string' || reason.trim().length < MIN_REASON))
    return 'break-glass requires a reason';
  if (!isObject(filter)) return 'filter is not an object';
  const members = Object.entries(filter);
  const ids = IDS[String(command)] ?? [];
  if (members.length > MOST_MEMBERS || !members.every(([name, value]) => MEMBER.test(name) && isValue(value)))
    return 'filter has a member that is not allowed';
  if (members.some(([name, value]) => OF_PERSONS.includes(name) && value !== true))
    return 'filter may not name a person';
  if (ids.some((name) => !isId(filter[name]))) return `filter requires the id ${ids.join(', ')}`;
  // Without an erasure, the viewer reports that it keeps names from now on.
  if (command === VIEWER && members.some(([name, value]) => !isViewerMember(name, value)))
    return 'filter has a member that is not allowed';
  return undefined;
}

function isViewerMember(name: string, value: unknown): boolean {
  return name === 'viewer' || (name === 'erased' && isId(value));
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** Databases accept neither NUL nor half a surrogate pair. */
function isText(value: unknown, most: number): value is string {
  return typeof value === 'string' && value.length <= most && value.isWellFormed() && !value.includes('\0');
}

function isValue(value: unknown): boolean {
  return typeof value === 'boolean' || Number.isSafeInteger(value) || isText(value, MOST_VALUE);
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && UUID.test(value);
}
