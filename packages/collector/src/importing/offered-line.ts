/**
 * Parses one line of an import into an event and its kind. There are three forms:
 *
 *   the event itself                    the kind must be given for the whole import
 *   {"kind": …, "event": {…}}           the text of `event` is the body, exactly as written
 *   {"kind": …, "body": "…"}            as printed by `collector events`: `body` is the text of the event
 *
 * A wrapper may have `organisation`, which must be the organisation of the import, and `sha256` or
 * `event_id`, which must match the event. `profile`, `door`, `sequence`, `received_at` and `key_id` describe
 * another log and are ignored. The event is otherwise checked by the examination (ledger/examine.ts).
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
import { JsonOutline, OPEN_BRACE, OPEN_BRACKET, pastScalar, pastSpace, unitsOf } from '../json-text.js';

/** A range of text: from `start` up to but not including `end`. */
export interface Place {
  readonly start: number;
  readonly end: number;
}

/**
 * The range of a value in its text, so that it can be extracted or replaced without other changes.
 * @param outline of a valid text. @param names of members, from the outermost object inwards.
 * @returns undefined if there is no such member.
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
 * Why a line is not stored: an error code of HTTP, or a code for lines only:
 *   `kind_missing`     the line is an event without a kind
 *   `wrapper_invalid`  a member of the wrapper is invalid; `details.issues` names it
 *   `sha256_mismatch`  the body does not match the hash in the line
 */
export interface LineFault {
  readonly code: string;
  /** Details that the code does not express. */
  readonly message?: string;
  /** Contains no value of the event; neither does the message. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  /** The id of the event, if known and a UUID. */
  readonly eventId?: string | undefined;
}

export interface LineRules {
  /** The kind of all lines. */
  readonly kind: EventKind | undefined;
  /** The only organisation that a line may name; any if undefined. */
  readonly organisation: string | undefined;
}

export interface Offered {
  readonly kind: EventKind;
  /** A view of the line, or its own bytes. */
  readonly body: Buffer;
  /** The event's id in lower case; undefined if it is not a UUID. */
  readonly eventId: string | undefined;
}

/**
 * Members of which a wrapper has one. A line without their names need not be parsed to rule out a wrapper.
 */
const SIGNS = ['body', 'event'] as const;
const SIGN_BYTES = SIGNS.map((name) => Buffer.from(`"${name}"`));
/** Members of every event, so that no event is mistaken for a wrapper. */
const OF_EVERY_EVENT = ['timestamp', 'protocol_version', 'system_metadata'];
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ID_MEMBER = /"event_id"\s*:\s*"([^"\\]{36})"/y;
/** The maximum configurable nesting depth (limits.max-nesting-depth), plus one for the wrapper. */
const DEEPEST = 1024 + 1;

/** @param line without its ending. */
export function readLine(line: Buffer, rules: LineRules): Offered | LineFault {
  const wrapper = SIGN_BYTES.some((sign) => line.includes(sign)) ? wrapperIn(line) : undefined;
  if (wrapper !== undefined) return unwrap(wrapper, rules);
  if (rules.kind === undefined) return faultWithoutKind(line);
  return { kind: rules.kind, body: line, eventId: eventIdOf(line.toString()) };
}

/** The id in an event's text, which may otherwise be invalid. */
function eventIdOf(text: string): string | undefined {
  const at = text.indexOf('"event_id"');
  // If the name occurs once, it is the event's own member or the event has no id.
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

/** The id if it is a UUID; no other part of an invalid event may be printed. */
function uuidIn(value: unknown): string | undefined {
  const id = isObject(value) ? value['event_id'] : undefined;
  return typeof id === 'string' && UUID.test(id) ? id.toLowerCase() : undefined;
}

interface Wrapper {
  readonly text: string;
  readonly members: Fields;
}

/** Undefined if the line is not a wrapper, or not valid JSON, which the examination reports. */
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
 * The members of a line as `collector events` prints it: the body last, preceded by simple members. This
 * avoids scanning the body for repeated names, which takes as long as parsing, as each quote in it is
 * escaped. The body is one string up to the end of the line; otherwise it would not parse on its own.
 * @returns undefined for any other line.
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

/** A member of a wrapper is invalid. */
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

/** An optional string member; null counts as absent. */
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
    throw new WrapperFault('kind', 'required', 'is required without --kind');
  }
  throw new WrapperFault('kind', 'enum', `must be one of ${EVENT_KINDS.join(', ')}`);
}

/** The key decides the organisation of an event, so a line may not name a different one. */
function assertOrganisation(members: Fields, only: string | undefined): void {
  const name = textIn(members, 'organisation');
  if (name === undefined || name === only || (only === undefined && isOrganisation(name))) return;
  if (isOrganisation(name)) {
    throw new WrapperFault('organisation', 'const', 'must be the one given with --organisation');
  }
  throw new WrapperFault('organisation', 'pattern', 'must be 1 to 64 characters of A-Z a-z 0-9 . _ -');
}

/** The text of the event. */
function bodyIn(text: string, members: Fields): string {
  const [inBody, inEvent] = SIGNS.map((name) => Object.hasOwn(members, name));
  if (inBody && inEvent) throw new WrapperFault('event', 'not', 'cannot be combined with "body"');
  if (inBody) {
    const body = textIn(members, 'body');
    if (body !== undefined) return body;
    throw new WrapperFault('body', 'required', 'is null: the line has no payload');
  }
  const place = isObject(members['event']) ? placeOf(new JsonOutline(text), 'event') : undefined;
  if (place === undefined) {
    throw new WrapperFault('event', 'type', 'must be an object');
  }
  return text.slice(place.start, place.end);
}
