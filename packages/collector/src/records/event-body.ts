/**
 * What an event says, however it was read: parsed, or scanned for columns (scanning-reader.ts), where an object of its
 * payload is told from where it stands in the bytes of the event.
 */
import type { BaseEvent, EventKind } from '@clinical-events/protocol';
import type { JsonScan, MemberName } from './json-scan.js';

/** A text that stands in other bytes, in UTF-8. */
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

  /** The text in a member; undefined when there is none, or what it has is no text. */
  text(name: MemberName): Text | undefined {
    const { scan } = this;
    const member = scan.find(this.entry, name);
    if (member < 0 || !scan.isString(member)) return undefined;
    const [from, to] = [scan.from(member), scan.to(member)];
    if (scan.isEscaped(member)) return JSON.parse(scan.bytes.toString('utf8', from, to)) as string;
    return { bytes: scan.bytes, from: from + 1, to: to - 1 };
  }

  /** What a member has, its numbers as doubles; undefined when there is none. */
  value(name: MemberName): unknown {
    const { scan } = this;
    const member = scan.find(this.entry, name);
    if (member < 0) return undefined;
    return JSON.parse(scan.bytes.toString('utf8', scan.from(member), scan.to(member)));
  }

  /** The object as it was sent. */
  json(): TextSlice {
    const { scan, entry } = this;
    return { bytes: scan.bytes, from: scan.from(entry), to: scan.to(entry) };
  }
}

/** An object of a payload, however it was read. */
export type Sent = ScannedObject | Readonly<Record<string, unknown>>;

/** The fields at the top of every event that the protocol names. */
export const BASE_FIELDS = [
  'event_id',
  'run_id',
  'parent_event_id',
  'timestamp',
  'protocol_version',
  'system_metadata',
] as const;

/** Those besides that it names for each kind: all objects. Another kind's payload is not among them. */
export const PAYLOADS = {
  'inference-start': ['model_instance', 'user_identity', 'target_identity', 'inputs'],
  'internal-artifact': ['artifact'],
  'human-output': ['output'],
  outcome: ['outcome'],
  'user-feedback': ['feedback'],
} as const satisfies Record<EventKind, readonly string[]>;

export type PayloadName = (typeof PAYLOADS)[EventKind][number];

/** What a scanned event says. */
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
  /** The fields that the protocol does not name, as the JSON of an object; undefined when there are none. */
  extra: string | undefined = undefined;
}

export type EventBody = BaseEvent | ScannedBody;

/** @returns the object of that name in an event; undefined when there is none. */
export function sentIn(body: EventBody, name: PayloadName | 'system_metadata'): Sent | undefined {
  return body[name] as Sent | undefined;
}

/** What a member of an object has; its numbers may be of either form (raw-json.ts). */
export function memberIn(sent: Sent | undefined, name: MemberName): unknown {
  return sent instanceof ScannedObject ? sent.value(name) : sent?.[name.text];
}

/** Whether an object has such a member, of whatever value. */
export function hasMember(sent: Sent | undefined, name: MemberName): boolean {
  return sent instanceof ScannedObject ? sent.has(name) : sent?.[name.text] !== undefined;
}
