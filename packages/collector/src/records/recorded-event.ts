/** What `metadata.events` says of an event: everything but the payload that stands elsewhere in the record. */
import {
  EVENT_KINDS,
  type BaseEvent,
  type EventKind,
  type ExtraFields,
  type RecordedEvent,
  type SecondStart,
} from '@clinical-events/protocol';
import type { TimedEvent } from './canonical-order.js';
import { BASE_FIELDS, PAYLOADS } from './event-body.js';
import { utcText } from './instant.js';
import type { RunEvent } from './run-event.js';

const START_OBJECTS = PAYLOADS['inference-start'];

const NAMED: ReadonlyMap<EventKind, ReadonlySet<string>> = new Map(
  EVENT_KINDS.map((kind) => [kind, new Set<string>([...BASE_FIELDS, ...PAYLOADS[kind]])]),
);

/**
 * @param isStart whether it is the inference-start that the record follows.
 * @param hasParent whether its parent is of the same record.
 */
export function recordedEventOf(
  timed: TimedEvent<BaseEvent>,
  isStart: boolean,
  hasParent: boolean,
): RecordedEvent {
  const { event, body, parentId } = timed;
  const entry: RecordedEvent = {
    event_id: event.eventId,
    kind: event.kind,
    sequence: event.sequence,
    timestamp: body?.timestamp ?? null,
    received_at: utcText(event.receivedAt),
    parent_event_id: parentId,
    joined_by: event.runId !== undefined ? 'run_id' : hasParent ? 'parent_event_id' : null,
    protocol_version: body?.protocol_version ?? null,
    system_metadata: body?.system_metadata ?? null,
    key_id: event.keyId,
    profile: event.profile,
    extra: extraOf(timed),
  };
  if (event.payloadState !== 'plain') return { ...entry, payload: event.payloadState };
  if (event.kind !== 'inference-start' || isStart || body === undefined) return entry;
  return { ...entry, second_start: startObjectsOf(body) };
}

/** Most events have no field that nobody named: they share this one. */
const NOTHING: ExtraFields = Object.freeze({});

/** The fields that the protocol does not name. */
export function extraOf({ event, body }: RunEvent): ExtraFields {
  if (body === undefined) return NOTHING;
  const named = NAMED.get(event.kind);
  let extra: Record<string, unknown> | undefined;
  for (const name in body) {
    if (named?.has(name)) continue;
    extra ??= {};
    // Assigned, a member called __proto__ would be lost.
    if (name !== '__proto__') extra[name] = body[name];
    else Object.defineProperty(extra, name, { value: body[name], enumerable: true });
  }
  return extraWith(event, extra ?? NOTHING, body);
}

/** The nil UUID names no run (RFC 9562), and is kept where it is not lost. */
function extraWith({ runId }: TimedEvent['event'], extra: ExtraFields, { run_id }: BaseEvent): ExtraFields {
  return runId === undefined && run_id !== undefined ? { ...extra, run_id } : extra;
}

function startObjectsOf(body: BaseEvent): SecondStart {
  return Object.fromEntries(
    START_OBJECTS.filter((name) => body[name] !== undefined).map((name) => [name, body[name]]),
  );
}
