/**
 * What one line of an import offers: an event and what belongs in its envelope. Three forms are known:
 *
 *   the event itself                              its kind has to be stated for the whole import
 *   {"kind": …, "event": {…}}                     the text of `event` is the body, as it stands in the line
 *   {"kind": …, "body": "…"}                      a line of `collector events`: `body` holds the text of the event
 *
 * A wrapper may name `organisation` and `profile`, and `sha256` or at least `event_id`, which then has to be that of the
 * event. Its `sequence`, `received_at` and `key_id` are what another log says of itself, and are not taken over.
 *
 * Nothing is asked of the event here but what tells it from a wrapper: that is the examination's (ledger/examine.ts).
 */
import { hash } from 'node:crypto';
import { isUtf8 } from 'node:buffer';
import { EVENT_KINDS, PROFILES, type EventKind, type Profile } from '@clinical-events/protocol';
import { isOrganisation } from '../access/issuing.js';
import { readJson } from '../ledger/json.js';
import { membersOf } from './json-members.js';
import type { LineFault } from './line-fault.js';

/** What the operator has stated; `undefined` leaves it to the line. */
export interface Stated {
  readonly kind: EventKind | undefined;
  readonly organisation: string | undefined;
  readonly profile: Profile | undefined;
}

export interface LineRules {
  readonly stated: Stated;
  /** For lines that name none, when the operator has stated none. */
  readonly organisation: string;
  readonly profile: Profile;
  readonly maxDepth: number;
}

export interface Offered {
  readonly kind: EventKind;
  readonly organisation: string;
  readonly profile: Profile;
  /** A view of the line, or bytes of its own. */
  readonly body: Buffer;
  /** What the wrapper says it is, where no SHA-256 shows that the body is the one that was meant; in lower case. */
  readonly eventId: string | undefined;
}

/** One of these has to stand in a wrapper; in the text of any other line neither is likely, and it need not be parsed for it. */
const SIGNS = ['body', 'event'] as const;
const SIGN_BYTES = SIGNS.map((name) => Buffer.from(`"${name}"`));
/** Every event has all of these, so none is taken for a wrapper, whatever else it has. */
const OF_EVERY_EVENT = ['timestamp', 'protocol_version', 'system_metadata'];
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** @param line without its ending. */
export function readLine(line: Buffer, rules: LineRules): Offered | LineFault {
  const wrapper = SIGN_BYTES.some((sign) => line.includes(sign)) ? wrapperIn(line, rules) : undefined;
  if (wrapper !== undefined) return unwrap(wrapper, rules);
  const { stated, organisation, profile, maxDepth } = rules;
  if (stated.kind === undefined) return faultWithoutKind(line, maxDepth);
  return {
    kind: stated.kind,
    organisation: stated.organisation ?? organisation,
    profile: stated.profile ?? profile,
    body: line,
    eventId: undefined,
  };
}

/** The id, when it is one; nothing else of a faulty event is shown outside its text. */
export function uuidIn(value: unknown): string | undefined {
  const id = isObject(value) ? value['event_id'] : undefined;
  return typeof id === 'string' && UUID.test(id) ? id.toLowerCase() : undefined;
}

/** @param id 16 bytes. */
export function uuidText(id: Uint8Array): string {
  const hex = Buffer.from(id).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

type JsonObject = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

interface Wrapper {
  readonly text: string;
  readonly members: JsonObject;
}

/** Undefined for whatever is no wrapper, a faulty text too: the examination says what is wrong with that. */
function wrapperIn(line: Buffer, { maxDepth }: LineRules): Wrapper | undefined {
  if (!isUtf8(line)) return undefined;
  const text = line.toString();
  const members = printedMembers(text) ?? (readJson(text, maxDepth + 1) as { value?: unknown }).value;
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
function printedMembers(text: string): JsonObject | undefined {
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

function faultWithoutKind(line: Buffer, maxDepth: number): LineFault {
  if (!isUtf8(line)) return { code: 'invalid_encoding' };
  const reading = readJson(line.toString(), maxDepth);
  if (reading.fault === undefined) return { code: 'kind_missing', eventId: uuidIn(reading.value) };
  const { code, ...details } = reading.fault;
  return Object.keys(details).length > 0 ? { code, details } : { code };
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
    const { stated } = rules;
    const kind = stated.kind ?? kindIn(members);
    const organisation = stated.organisation ?? organisationIn(members) ?? rules.organisation;
    const profile = stated.profile ?? profileIn(members) ?? rules.profile;
    const written = bodyIn(text, members);
    if (!written.isWellFormed()) return { code: 'invalid_encoding', eventId: uuidIn(members) };
    const body = Buffer.from(written);
    const sha256 = textIn(members, 'sha256');
    if (sha256 === undefined) return { kind, organisation, profile, body, eventId: eventIdIn(members) };
    if (sha256.toLowerCase() !== hash('sha256', body, 'hex')) {
      return { code: 'sha256_mismatch', eventId: uuidIn(members) };
    }
    return { kind, organisation, profile, body, eventId: undefined };
  } catch (error) {
    if (!(error instanceof WrapperFault)) throw error;
    const { member, rule, message } = error;
    const issue = { pointer: `/${member}`, rule, message };
    return { code: 'wrapper_invalid', details: { issues: [issue] }, eventId: uuidIn(members) };
  }
}

function eventIdIn(members: JsonObject): string | undefined {
  const eventId = uuidIn(members);
  if (eventId !== undefined || textIn(members, 'event_id') === undefined) return eventId;
  throw new WrapperFault('event_id', 'format', 'must be a UUID');
}

/** A member that may be absent or null, and else is a string. */
function textIn(members: JsonObject, member: string): string | undefined {
  const value = Object.hasOwn(members, member) ? members[member] : undefined;
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw new WrapperFault(member, 'type', 'must be a string');
  return value;
}

function kindIn(members: JsonObject): EventKind {
  const name = textIn(members, 'kind');
  const kind = EVENT_KINDS.find((each) => each === name);
  if (kind !== undefined) return kind;
  if (name === undefined) {
    throw new WrapperFault('kind', 'required', 'is required where --kind is not given');
  }
  throw new WrapperFault('kind', 'enum', `must be one of ${EVENT_KINDS.join(', ')}`);
}

function organisationIn(members: JsonObject): string | undefined {
  const name = textIn(members, 'organisation');
  if (name === undefined || isOrganisation(name)) return name;
  throw new WrapperFault('organisation', 'pattern', 'must be 1 to 64 characters of A-Z a-z 0-9 . _ -');
}

function profileIn(members: JsonObject): Profile | undefined {
  const name = textIn(members, 'profile');
  const profile = PROFILES.find((each) => each === name);
  if (name === undefined || profile !== undefined) return profile;
  throw new WrapperFault('profile', 'enum', `must be one of ${PROFILES.join(', ')}`);
}

/** The text of the event. */
function bodyIn(text: string, members: JsonObject): string {
  const [inBody, inEvent] = SIGNS.map((name) => Object.hasOwn(members, name));
  if (inBody && inEvent) throw new WrapperFault('event', 'not', 'must not stand beside "body"');
  if (inBody) {
    const body = textIn(members, 'body');
    if (body !== undefined) return body;
    throw new WrapperFault('body', 'required', 'is null: the payload of this event is not in the line');
  }
  const place = membersOf(text)?.places.get('event');
  if (place === undefined || !isObject(members['event'])) {
    throw new WrapperFault('event', 'type', 'must be an object');
  }
  return text.slice(place.start, place.end);
}
