/** An event for a record: the collector's data and the sender's body. */
import { type BaseEvent, EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import type { EventFacts, ReadEvents, StoredEvent } from '../store/contract/events.js';
import { RepeatedText, latin1, utf8 } from '../store/text.js';
import { JsonScan, MemberName } from './json-scan.js';
import { parseExact } from './raw-json.js';

export interface RunEvent<Body extends EventBody = BaseEvent> {
  readonly event: EventFacts;
  /** Undefined if the payload is encrypted or erased. */
  readonly body: Body | undefined;
  /** Whether an unpaired surrogate in a text was replaced by U+FFFD. */
  readonly isReplaced?: boolean | undefined;
}

/** Reads stored events in the form that a format of records needs. */
export interface EventReader<Body extends EventBody> {
  /** Begins a batch. Events of the previous batch stay valid until the next call. */
  begin(read: ReadEvents): void;
  /** @param index in the list of requested places. */
  event(index: number): RunEvent<Body>;
}

/** Reads events as objects with exact numbers (raw-json.ts). */
export class ParsingReader implements EventReader<BaseEvent> {
  #read: ReadEvents | undefined;

  begin(read: ReadEvents): void {
    this.#read = read;
  }

  event(index: number): RunEvent {
    if (this.#read === undefined) throw new TypeError('nothing was read');
    return runEvent(this.#read.facts(index), this.#read.body(index));
  }
}

/** Reads a stored event. The result has no views, so it outlives the scan. */
export function runEventOf(stored: StoredEvent): RunEvent {
  const { sequence, kind, profile, door, organisation, keyId, receivedAt, ...rest } = stored;
  const { eventId, runId, payloadState } = rest;
  return runEvent(
    { sequence, kind, profile, door, organisation, keyId, receivedAt, eventId, runId, payloadState },
    payloadState === 'plain' ? stored.body.toString() : undefined,
  );
}

/** @param text of the sender; undefined if the payload is encrypted or erased. */
function runEvent(event: EventFacts, text: string | undefined): RunEvent {
  if (text === undefined) return { event, body: undefined };
  const whole = withoutHalves(text);
  // The schema of its kind accepted every stored body.
  return { event, body: parseExact(whole) as BaseEvent, isReplaced: whole !== text };
}

/**
 * The beginnings of an unpaired surrogate: it is valid JSON, but UTF-8 cannot encode it, so it is always an
 * escape.
 */
const SURROGATES = ['\\ud', '\\uD'];
/**
 * An escape; a pair counts as one. The group captures an unpaired surrogate. An escaped backslash is skipped
 * as one.
 */
const ESCAPES = /\\(?:u(?:d[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}|(d[89a-f][\da-f]{2}))|[^])/gi;

/** Replaces each unpaired surrogate of a JSON text with U+FFFD. RFC 7493 section 2.1 forbids such text. */
function withoutHalves(text: string): string {
  if (!SURROGATES.some((sign) => text.includes(sign))) return text;
  return text.replace(ESCAPES, (escape, half: string | undefined) =>
    half === undefined ? escape : '\\ufffd',
  );
}

/*
 * The body of an event, parsed or scanned: in a scanned body, objects of the payload are read from the bytes
 * of the event.
 */

/** A text in UTF-8 within other bytes. */
export interface TextSlice {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

export type Text = string | TextSlice;

/** An object of a payload. */
export class ScannedObject {
  constructor(
    private readonly scan: JsonScan,
    private readonly entry: number,
  ) {}

  has(name: MemberName): boolean {
    return this.scan.find(this.entry, name) >= 0;
  }

  /** The text of a member; undefined if it is missing or not a text. */
  text(name: MemberName): Text | undefined {
    const { scan } = this;
    const member = scan.find(this.entry, name);
    if (member < 0 || !scan.isString(member)) return undefined;
    const [from, to] = [scan.from(member), scan.to(member)];
    if (scan.isEscaped(member)) return JSON.parse(scan.bytes.toString('utf8', from, to)) as string;
    return { bytes: scan.bytes, from: from + 1, to: to - 1 };
  }

  /** The value of a member with numbers as doubles; undefined if it is missing. */
  value(name: MemberName): unknown {
    const { scan } = this;
    const member = scan.find(this.entry, name);
    if (member < 0) return undefined;
    return JSON.parse(scan.bytes.toString('utf8', scan.from(member), scan.to(member)));
  }

  /** The object as sent. */
  json(): TextSlice {
    const { scan, entry } = this;
    return { bytes: scan.bytes, from: scan.from(entry), to: scan.to(entry) };
  }
}

/** An object of a payload, parsed or scanned. */
export type Sent = ScannedObject | Readonly<Record<string, unknown>>;

/** The top-level fields that the protocol names for every event. */
export const BASE_FIELDS = [
  'event_id',
  'run_id',
  'parent_event_id',
  'timestamp',
  'protocol_version',
  'system_metadata',
] as const;

/** The objects that the protocol names for each kind; objects of other kinds are unknown fields. */
export const PAYLOADS = {
  'inference-start': ['model_instance', 'user_identity', 'target_identity', 'inputs'],
  'internal-artifact': ['artifact'],
  'human-output': ['output'],
  outcome: ['outcome'],
  'user-feedback': ['feedback'],
} as const satisfies Record<EventKind, readonly string[]>;

export type PayloadName = (typeof PAYLOADS)[EventKind][number];

/** A scanned body. */
export class ScannedBody {
  timestamp = '';
  parent_event_id: string | null = null;
  protocol_version = '';
  system_metadata: ScannedObject | undefined = undefined;
  model_instance: ScannedObject | undefined = undefined;
  user_identity: ScannedObject | undefined = undefined;
  target_identity: ScannedObject | undefined = undefined;
  inputs: ScannedObject | undefined = undefined;
  artifact: ScannedObject | undefined = undefined;
  output: ScannedObject | undefined = undefined;
  outcome: ScannedObject | undefined = undefined;
  feedback: ScannedObject | undefined = undefined;
  /** The unknown fields as a JSON object; undefined if there are none. */
  extra: string | undefined = undefined;
}

export type EventBody = BaseEvent | ScannedBody;

/** @returns an object of an event by name; undefined if it is missing. */
export function sentIn(body: EventBody, name: PayloadName | 'system_metadata'): Sent | undefined {
  return body[name] as Sent | undefined;
}

/** The value of a member; numbers may have either form (raw-json.ts). */
export function memberIn(sent: Sent | undefined, name: MemberName): unknown {
  return sent instanceof ScannedObject ? sent.value(name) : sent?.[name.text];
}

/** Whether an object has the member. */
export function hasMember(sent: Sent | undefined, name: MemberName): boolean {
  return sent instanceof ScannedObject ? sent.has(name) : sent?.[name.text] !== undefined;
}

/*
 * Reads events for columns: values that a column takes as sent come from the bytes of the event, and nothing
 * else is parsed. An event that is not plain (json-scan.ts) is parsed.
 */

type FieldName = (typeof BASE_FIELDS)[number] | PayloadName;

interface Field {
  readonly name: MemberName;
  readonly field: FieldName;
}

/** The known fields of each kind by the signatures of their names, which are unique. */
const FIELDS = new Map(EVENT_KINDS.map((kind) => [kind, fieldsOf([...BASE_FIELDS, ...PAYLOADS[kind]])]));

function fieldsOf(names: readonly FieldName[]): Map<number, Field> {
  const fields = names.map((field): Field => ({ name: new MemberName(field), field }));
  return new Map(fields.map((field) => [field.name.signature, field]));
}

export class ScanningReader implements EventReader<EventBody> {
  #read: ReadEvents | undefined;
  #scan = new JsonScan();
  /** The previous batch, which stays valid until the next one. */
  #before = new JsonScan();
  readonly #version = new RepeatedText(utf8);
  #hasSurrogates = false;

  begin(read: ReadEvents): void {
    this.#read = read;
    [this.#scan, this.#before] = [this.#before, this.#scan];
    this.#scan.begin(read.source);
    this.#hasSurrogates = SURROGATES.some((sign) => read.source.includes(sign));
  }

  event(index: number): RunEvent<EventBody> {
    const read = this.#read;
    if (read === undefined) throw new TypeError('nothing was read');
    const event = read.facts(index);
    if (event.payloadState !== 'plain') return { event, body: undefined };
    if (this.#hasSurrogates) {
      const parsed = runEvent(event, read.body(index));
      if (parsed.isReplaced) return parsed;
    }
    const body = this.#body(read.bodyFrom(index), read.bodyTo(index), event.kind, event.runId !== undefined);
    return body === undefined ? runEvent(event, read.body(index)) : { event, body };
  }

  /** @returns undefined if the event must be parsed. */
  #body(from: number, to: number, kind: EventKind, namesRun: boolean): ScannedBody | undefined {
    const scan = this.#scan;
    const event = scan.scan(from, to);
    const fields = FIELDS.get(kind);
    if (event < 0 || fields === undefined) return undefined;
    const body = new ScannedBody();
    let extra: string[] | undefined;
    for (let member = scan.first(event); member >= 0; member = scan.after(member, event)) {
      const known = fields.get(scan.signature(member));
      if (known === undefined || !scan.isNamed(member, known.name)) {
        (extra ??= []).push(scan.text(member));
        continue;
      }
      switch (known.field) {
        case 'event_id':
          break;
        case 'run_id':
          // The nil UUID is kept as sent (assemble.ts).
          if (!namesRun) return undefined;
          break;
        case 'timestamp':
          if (scan.isEscaped(member)) return undefined;
          body.timestamp = latin1(scan.bytes, scan.from(member) + 1, scan.to(member) - 1);
          break;
        case 'parent_event_id':
          if (scan.isEscaped(member)) return undefined;
          if (scan.isString(member))
            body.parent_event_id = latin1(scan.bytes, scan.from(member) + 1, scan.to(member) - 1);
          break;
        case 'protocol_version':
          if (scan.isEscaped(member)) return undefined;
          body.protocol_version = this.#version.of(scan.bytes, scan.from(member) + 1, scan.to(member) - 1);
          break;
        default:
          if (!scan.isObject(member)) return undefined;
          body[known.field] = new ScannedObject(scan, member);
      }
    }
    if (extra !== undefined) body.extra = `{${extra.join(',')}}`;
    return body;
  }
}
