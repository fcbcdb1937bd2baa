/**
 * What one line of an import offers: an event and its kind. Three forms are known:
 *
 *   the event itself                              its kind has to be stated for the whole import
 *   {"kind": …, "event": {…}}                     the text of `event` is the body, as it stands in the line
 *   {"kind": …, "body": "…"}                      a line of `collector events`: `body` holds the text of the event
 *
 * A wrapper may name `organisation`, which has to be the one that is sent for, and `sha256` or at least `event_id`, which
 * then has to be that of the event. Its `profile`, `door`, `sequence`, `received_at` and `key_id` are what another log says of
 * itself, and are not taken over. Nothing else is asked of the event here: that is the examination's (ledger/examine.ts).
 */
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import {
  EVENT_KINDS,
  type EventKind,
  type Fields,
  isObject,
  isOrganisation,
} from '@clinical-events/protocol';
import { faultOf, notUtf8 } from '../ledger/examine.js';
import { readJson } from '../ledger/strict-json.js';
import { JsonOutline } from '../json-outline.js';
import { OPEN_BRACE, OPEN_BRACKET, pastScalar, pastSpace, unitsOf } from '../json-text.js';

/** The text of a value: from `start` up to, not including, `end`. */
export interface Place {
  readonly start: number;
  readonly end: number;
}

/**
 * Where a value stands in its text, so that it can be taken out or changed and nothing else moves.
 * @param outline of a text without a fault. @param names of members, from the outermost object inwards.
 * @returns undefined where there is no such member.
 */
export function placeOf(outline: JsonOutline, ...names: readonly string[]): Place | undefined {
  const { units } = outline;
  let start = pastSpace(units, 0);
  let container = 0;
  for (const name of names) {
    if (units[start] !== OPEN_BRACE) return undefined;
    const member = outline.find(container, unitsOf(name), 0, name.length);
    if (member < 0) return undefined;
    start = outline.valueOf(member);
    container = outline.containerOf(member);
  }
  const opens = units[start] === OPEN_BRACE || units[start] === OPEN_BRACKET;
  return { start, end: opens ? outline.endOf(container) : pastScalar(units, start) };
}

/**
 * Why a line is not stored: a code that HTTP answers with, or what can be wrong with a line alone:
 *   `kind_missing`     the line is an event, and nothing says of which kind
 *   `wrapper_invalid`  a member of the line around the event is faulty; `details.issues` names it
 *   `sha256_mismatch`  the body is not the one that was hashed when the line was written
 */
export interface LineFault {
  readonly code: string;
  /** What the code alone does not say. */
  readonly message?: string;
  /** Never holds a value of the event, nor does the message. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  /** When it is known and a UUID. */
  readonly eventId?: string | undefined;
}

export interface LineRules {
  /** Of all lines, whatever they say. */
  readonly kind: EventKind | undefined;
  /** The only one that a line may name; any when undefined. */
  readonly organisation: string | undefined;
}

export interface Offered {
  readonly kind: EventKind;
  /** A view of the line, or bytes of its own. */
  readonly body: Buffer;
  /** Of the event, in lower case; undefined when it has none that is a UUID. */
  readonly eventId: string | undefined;
}

/** One of these has to stand in a wrapper; in the text of any other line neither is likely, and it need not be parsed for it. */
const SIGNS = ['body', 'event'] as const;
const SIGN_BYTES = SIGNS.map((name) => Buffer.from(`"${name}"`));
/** Every event has all of these, so none is taken for a wrapper, whatever else it has. */
const OF_EVERY_EVENT = ['timestamp', 'protocol_version', 'system_metadata'];
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ID_MEMBER = /"event_id"\s*:\s*"([^"\\]{36})"/y;
/** The deepest that a collector can be set up to take (limits.max-nesting-depth), in a wrapper. */
const DEEPEST = 1024 + 1;

/** @param line without its ending. */
export function readLine(line: Buffer, rules: LineRules): Offered | LineFault {
  const wrapper = SIGN_BYTES.some((sign) => line.includes(sign)) ? wrapperIn(line) : undefined;
  if (wrapper !== undefined) return unwrap(wrapper, rules);
  if (rules.kind === undefined) return faultWithoutKind(line);
  return { kind: rules.kind, body: line, eventId: eventIdOf(line.toString()) };
}

/** Of an event's text, whatever else is wrong with it. */
function eventIdOf(text: string): string | undefined {
  const at = text.indexOf('"event_id"');
  // Where the name stands once it is the event's own, or else the event has none.
  if (at >= 0 && text.indexOf('"event_id"', at + 1) < 0) {
    ID_MEMBER.lastIndex = at;
    const id = ID_MEMBER.exec(text)?.[1] ?? '';
    return UUID.test(id) ? id.toLowerCase() : undefined;
  }
  try {
    return uuidIn(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The id, when it is one; nothing else of a faulty event is shown outside its text. */
function uuidIn(value: unknown): string | undefined {
  const id = isObject(value) ? value['event_id'] : undefined;
  return typeof id === 'string' && UUID.test(id) ? id.toLowerCase() : undefined;
}

interface Wrapper {
  readonly text: string;
  readonly members: Fields;
}

/** Undefined for whatever is no wrapper, a faulty text too: the examination says what is wrong with that. */
function wrapperIn(line: Buffer): Wrapper | undefined {
  if (!isUtf8(line)) return undefined;
  const text = line.toString();
  const members = printedMembers(text) ?? (readJson(text, DEEPEST) as { value?: unknown }).value;
  if (!isObject(members) || !SIGNS.some((name) => Object.hasOwn(members, name))) return undefined;
  if (OF_EVERY_EVENT.every((name) => Object.hasOwn(members, name))) return undefined;
  return { text, members };
}

const BODY = ',"body":';

/**
 * The members of a line in which the body stands last and what stands before it is simple, as `collector events` prints it.
 * To look for repeated names in all of it takes as long as to parse it, for each quote in the body is an escaped one; but
 * the body ends the line, and is one string, or else it would not parse by itself.
 * @returns undefined for any other line, whatever it is.
 */
function printedMembers(text: string): Fields | undefined {
  const at = text.indexOf(BODY);
  if (at < 0 || !text.endsWith('"}')) return undefined;
  const before = readJson(`${text.slice(0, at)}}`, 1);
  if (before.fault !== undefined || !isObject(before.value) || Object.hasOwn(before.value, 'body')) {
    return undefined;
  }
  try {
    return { ...before.value, body: JSON.parse(text.slice(at + BODY.length, -1)) as unknown };
  } catch {
    return undefined;
  }
}

function faultWithoutKind(line: Buffer): LineFault {
  if (!isUtf8(line)) return notUtf8(line);
  const reading = readJson(line.toString(), DEEPEST);
  if (reading.fault === undefined) return { code: 'kind_missing', eventId: uuidIn(reading.value) };
  return faultOf(reading.fault);
}

/** What is wrong with a member of a wrapper. */
class WrapperFault extends Error {
  override name = 'WrapperFault';
  constructor(
    readonly member: string,
    readonly rule: string,
    message: string,
  ) {
    super(message);
  }
}

function unwrap({ text, members }: Wrapper, rules: LineRules): Offered | LineFault {
  try {
    const kind = rules.kind ?? kindIn(members);
    assertOrganisation(members, rules.organisation);
    const written = bodyIn(text, members);
    if (!written.isWellFormed()) return { code: 'invalid_encoding', eventId: uuidIn(members) };
    const body = Buffer.from(written);
    const sha256 = textIn(members, 'sha256');
    if (sha256 !== undefined && sha256.toLowerCase() !== hash('sha256', body, 'hex')) {
      return { code: 'sha256_mismatch', eventId: uuidIn(members) };
    }
    const eventId = eventIdOf(written);
    if (sha256 === undefined) assertEventId(members, eventId);
    return { kind, body, eventId };
  } catch (error) {
    if (!(error instanceof WrapperFault)) throw error;
    const { member, rule, message } = error;
    const issue = { pointer: `/${member}`, rule, message };
    return { code: 'wrapper_invalid', details: { issues: [issue] }, eventId: uuidIn(members) };
  }
}

/** @param eventId of the event. */
function assertEventId(members: Fields, eventId: string | undefined): void {
  const stated = textIn(members, 'event_id');
  if (stated === undefined) return;
  if (!UUID.test(stated)) throw new WrapperFault('event_id', 'format', 'must be a UUID');
  if (eventId === stated.toLowerCase()) return;
  throw new WrapperFault('event_id', 'const', 'must be the event_id of the event');
}

/** A member that may be absent or null, and else is a string. */
function textIn(members: Fields, member: string): string | undefined {
  const value = Object.hasOwn(members, member) ? members[member] : undefined;
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw new WrapperFault(member, 'type', 'must be a string');
  return value;
}

function kindIn(members: Fields): EventKind {
  const name = textIn(members, 'kind');
  const kind = EVENT_KINDS.find((each) => each === name);
  if (kind !== undefined) return kind;
  if (name === undefined) {
    throw new WrapperFault('kind', 'required', 'is required where --kind is not given');
  }
  throw new WrapperFault('kind', 'enum', `must be one of ${EVENT_KINDS.join(', ')}`);
}

/** To whom an event belongs says the key that it is sent with, so none may be sent for another. */
function assertOrganisation(members: Fields, only: string | undefined): void {
  const name = textIn(members, 'organisation');
  if (name === undefined || name === only || (only === undefined && isOrganisation(name))) return;
  if (isOrganisation(name)) {
    throw new WrapperFault('organisation', 'const', 'must be the one that --organisation names');
  }
  throw new WrapperFault('organisation', 'pattern', 'must be 1 to 64 characters of A-Z a-z 0-9 . _ -');
}

/** The text of the event. */
function bodyIn(text: string, members: Fields): string {
  const [inBody, inEvent] = SIGNS.map((name) => Object.hasOwn(members, name));
  if (inBody && inEvent) throw new WrapperFault('event', 'not', 'must not stand beside "body"');
  if (inBody) {
    const body = textIn(members, 'body');
    if (body !== undefined) return body;
    throw new WrapperFault('body', 'required', 'is null: the payload of this event is not in the line');
  }
  const place = isObject(members['event']) ? placeOf(new JsonOutline(text), 'event') : undefined;
  if (place === undefined) {
    throw new WrapperFault('event', 'type', 'must be an object');
  }
  return text.slice(place.start, place.end);
}
