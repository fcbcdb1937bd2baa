/**
 * Makes the record of a run from its events: a pure function with the same result for any order of the events
 * . Each event occurs once in `metadata.events`; the sender's data also occurs where it belongs, as
 * sent, with all unknown fields. docs/reference/records.md, "How a record is made", has the rules in words.
 */
import {
  type Artifact,
  type BaseEvent,
  type ClinicalRecord,
  EVENT_KINDS,
  type EventKind,
  type ExtraFields,
  type Feedback,
  type Inputs,
  type ModelInstance,
  type Outcome,
  type Output,
  type RecordMetadata,
  type RecordedEvent,
  type RunCall,
  type TargetIdentity,
  type UserIdentity,
} from '@clinical-events/protocol';
import { type CallOf, callsOf, type Calls, latencyOf, ofKind, tokensOf } from './calls.js';
import { type Parentage, type TimedEvent, inCanonicalOrder, parentageOf } from './canonical-order.js';
import { completenessOf, conflictsOf } from './gaps.js';
import { utcText } from './instant.js';
import { BASE_FIELDS, type EventBody, PAYLOADS, type RunEvent, type Sent, sentIn } from './run-event.js';

/* The provenance of a record: its ids, clocks and versions, its gaps and contradictions. */

/** The metadata of a record without its calls and single events. */
export type RunMetadata = {
  // `Omit` would lose the names, because the interface has an index signature.
  readonly [
    Name in keyof RecordMetadata as string extends Name
      ? never
      : Name extends 'events' | 'calls'
        ? never
        : Name
  ]: RecordMetadata[Name];
};

/** The links of a record to the rest of the log. Ids are in lower case. */
export interface RunLinks {
  /**
   * The run of an event outside this record, or null if the event has no run.
   * @returns undefined if the log has no such event.
   */
  parentRunOf(eventId: string): string | null | undefined;
  /** The runs that are nested in this record, each once. */
  readonly children: readonly string[];
  /** The runs of the circle that this run is part of; empty if there is no circle. */
  readonly cycle: readonly string[];
}

/** The links of a record that has no links to other records. */
export const UNLINKED: RunLinks = { parentRunOf: () => undefined, children: [], cycle: [] };

interface RecordParts {
  /** The events in canonical order. */
  readonly events: readonly TimedEvent[];
  /** The inference-start that the record uses: the first one. */
  readonly start: TimedEvent | undefined;
  readonly parentage: Parentage;
  readonly calls: Calls;
  readonly links: RunLinks;
}

/** @throws RangeError if there are no events, or they belong to two runs or two organisations. */
function metadataOf({ events, start, parentage, calls, links }: RecordParts): RunMetadata {
  const { organisation, runId } = oneRecord(events);
  const { parent, orphans, elsewhere } = outsideOf(events, start, parentage, links);
  return {
    record_id: runId ?? rootOf(events, parentage),
    run_id: runId ?? null,
    organisation,
    parent,
    children: [...links.children].sort(),
    ...spanOf(events),
    latency_ms: latencyOf(start, events),
    call: calls.last,
    tokens: tokensOf(calls.endings),
    completeness: completenessOf(events, start, orphans, calls),
    conflicts: conflictsOf({
      events,
      parentage,
      calls: calls.calls,
      parentElsewhere: elsewhere,
      runCycle: links.cycle,
    }),
  };
}

function oneRecord(events: readonly TimedEvent[]): { organisation: string; runId: string | undefined } {
  const organisation = events[0]?.event.organisation;
  if (organisation === undefined) throw new RangeError('a record is made of at least one event');
  let runId: string | undefined;
  for (const { event } of events) {
    if (event.organisation !== organisation) throw new RangeError('events of two organisations');
    if (event.runId === undefined || event.runId === runId) continue;
    if (runId !== undefined) throw new RangeError('events of two runs');
    runId = event.runId;
  }
  return { organisation, runId };
}

/** The topmost event of a record without a run; in a circle, the smallest id (catalogue/placing.ts). */
function rootOf(events: readonly TimedEvent[], { parentAt, cyclic }: Parentage): string {
  const places = cyclic.length > 0 ? cyclic : [parentAt.indexOf(-1)];
  const [root] = places.map((place) => events[place]?.event.eventId ?? '').sort();
  return root ?? '';
}

/** Findings about parents outside this record. */
function outsideOf(
  events: readonly TimedEvent[],
  start: TimedEvent | undefined,
  { outside }: Parentage,
  links: RunLinks,
): Pick<RecordMetadata, 'parent'> & { orphans: string[]; elsewhere: string[] } {
  let parent: RecordMetadata['parent'] = null;
  const orphans: string[] = [];
  const elsewhere: string[] = [];
  for (const place of outside) {
    const timed = events[place];
    if (timed === undefined || timed.parentId === null) continue;
    const run = links.parentRunOf(timed.parentId);
    if (run === undefined) orphans.push(timed.event.eventId);
    if (timed === start) parent = { run_id: run ?? null, event_id: timed.parentId };
    // Any call of a nested run may have been made from the parent run.
    else if (typeof run === 'string' && !(timed.event.kind === 'inference-start' && run === parent?.run_id))
      elsewhere.push(timed.event.eventId);
  }
  return { parent, orphans, elsewhere };
}

type Span = Pick<
  RecordMetadata,
  'protocol_versions' | 'first_timestamp' | 'last_timestamp' | 'first_received_at' | 'last_received_at'
>;

/** The range of times by either clock, and the versions of the protocol. */
function spanOf(events: readonly TimedEvent[]): Span {
  const versions = new Set<string>();
  let version: string | null = null;
  let firstTimestamp: string | null = null;
  let lastTimestamp: string | null = null;
  let [firstReceived, lastReceived] = [Infinity, -Infinity];
  for (const { event, body } of events) {
    const { timestamp = null, protocol_version = null } = body ?? {};
    firstTimestamp ??= timestamp;
    lastTimestamp = timestamp ?? lastTimestamp;
    if (protocol_version !== null && protocol_version !== version) versions.add(protocol_version);
    version = protocol_version;
    firstReceived = Math.min(firstReceived, event.receivedAt);
    lastReceived = Math.max(lastReceived, event.receivedAt);
  }
  return {
    protocol_versions: [...versions].sort(),
    first_timestamp: firstTimestamp,
    last_timestamp: lastTimestamp,
    first_received_at: utcText(firstReceived),
    last_received_at: utcText(lastReceived),
  };
}

/* An event in `metadata.events`: all fields except the payload, which is elsewhere in the record. */

const NAMED: ReadonlyMap<EventKind, ReadonlySet<string>> = new Map(
  EVENT_KINDS.map((kind) => [kind, new Set<string>([...BASE_FIELDS, ...PAYLOADS[kind]])]),
);

/** @param hasParent whether its parent is in the same record. */
function recordedEventOf(timed: TimedEvent<BaseEvent>, hasParent: boolean): RecordedEvent {
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
    door: event.door,
    extra: extraOf(timed),
  };
  if (event.payloadState === 'plain') return entry;
  const { payloadState: payload, erasure } = event;
  if (erasure === undefined) return { ...entry, payload };
  return { ...entry, payload, action: erasure.action, erased_at: utcText(erasure.at) };
}

/** The unknown fields of most events, which have none and share this object. */
const NOTHING: ExtraFields = Object.freeze({});

/** The fields that the protocol does not name. */
export function extraOf({ event, body }: RunEvent): ExtraFields {
  if (body === undefined) return NOTHING;
  const named = NAMED.get(event.kind);
  let extra: Record<string, unknown> | undefined;
  for (const name in body) {
    if (named?.has(name)) continue;
    extra ??= {};
    // An assignment would lose a member called __proto__.
    if (name !== '__proto__') extra[name] = body[name];
    else Object.defineProperty(extra, name, { value: body[name], enumerable: true });
  }
  return extraWith(event, extra ?? NOTHING, body);
}

/** The nil UUID names no run (RFC 9562). It is kept as a field, so that nothing sent is lost. */
function extraWith({ runId }: TimedEvent['event'], extra: ExtraFields, { run_id }: BaseEvent): ExtraFields {
  return runId === undefined && run_id !== undefined ? { ...extra, run_id } : extra;
}

function runCallOf({ start, events, ended }: CallOf<BaseEvent>): RunCall {
  const members = events();
  const idsOf = (kind: EventKind) => ofKind(members, kind).map(({ event }) => event.eventId);
  const { body, event, parentId } = start;
  return {
    event_id: event.eventId,
    timestamp: body?.timestamp ?? null,
    received_at: utcText(event.receivedAt),
    parent_event_id: parentId,
    ...(objectsOf(start) as Pick<RunCall, keyof StartObjects>),
    artifacts: idsOf('internal-artifact'),
    outputs: idsOf('human-output'),
    outcomes: idsOf('outcome'),
    feedback: idsOf('user-feedback'),
    ended,
    latency_ms: latencyOf(start, members),
  };
}

/** The fields of an inference-start. */
export interface StartObjects {
  readonly model: Sent | null;
  readonly user: Sent | null;
  readonly target: Sent | null;
  readonly inputs: Sent | null;
}

export function objectsOf(start: TimedEvent | undefined): StartObjects {
  const said = (name: Parameters<typeof sentIn>[1]) => (start?.body && sentIn(start.body, name)) ?? null;
  return {
    model: said('model_instance'),
    user: said('user_identity'),
    target: said('target_identity'),
    inputs: said('inputs'),
  };
}

/** A record before it is written, for formats with columns. */
export interface AssembledRun<Body extends EventBody = EventBody>
  extends StartObjects, Pick<Calls<Body>, 'endings'> {
  /** The lists have only events whose payload is readable. All are in canonical order. */
  readonly artifacts: readonly TimedEvent<Body>[];
  readonly outputs: readonly TimedEvent<Body>[];
  readonly outcomes: readonly TimedEvent<Body>[];
  readonly feedback: readonly TimedEvent<Body>[];
  readonly metadata: RunMetadata & {
    readonly calls: readonly CallOf<Body>[];
    readonly events: readonly TimedEvent<Body>[];
  };
  /** The inference-start that the record uses: the first one. */
  readonly start: TimedEvent<Body> | undefined;
  readonly parentage: Parentage;
}

/**
 * @param events all events of one record (catalogue/placing.ts), at least one, each once. Their bodies become
 *   part of the record; do not change them afterwards.
 * @throws RangeError if there are no events, or they belong to two runs or two organisations.
 */
export function assembleRun<Body extends EventBody>(
  events: readonly RunEvent<Body>[],
  links: RunLinks = UNLINKED,
): AssembledRun<Body> {
  const ordered = inCanonicalOrder(events);
  const start = ordered.find(({ event }) => event.kind === 'inference-start');
  const parentage = parentageOf(ordered);
  const lists: Record<EventKind, TimedEvent<Body>[]> = {
    'inference-start': [],
    'internal-artifact': [],
    'human-output': [],
    outcome: [],
    'user-feedback': [],
  };
  for (const timed of ordered) if (timed.body !== undefined) lists[timed.event.kind].push(timed);
  const calls = callsOf(ordered, parentage);
  return {
    ...objectsOf(start),
    artifacts: lists['internal-artifact'],
    outputs: lists['human-output'],
    outcomes: lists.outcome,
    feedback: lists['user-feedback'],
    metadata: {
      ...metadataOf({ events: ordered, start, parentage, calls, links }),
      calls: calls.calls,
      events: ordered,
    },
    endings: calls.endings,
    start,
    parentage,
  };
}

/** The complete record. */
export function recordOf(run: AssembledRun<BaseEvent>): ClinicalRecord {
  const { metadata, parentage } = run;
  const entryOf = (timed: TimedEvent<BaseEvent>) => ({
    event_id: timed.event.eventId,
    timestamp: timed.body?.timestamp ?? '',
    received_at: utcText(timed.event.receivedAt),
    parent_event_id: timed.parentId,
  });
  return {
    model: run.model as ModelInstance | null,
    user: run.user as UserIdentity | null,
    target: run.target as TargetIdentity | null,
    inputs: run.inputs as Inputs | null,
    artifacts: run.artifacts.map((timed) => ({
      ...entryOf(timed),
      artifact: timed.body?.['artifact'] as Artifact,
      extra: extraOf(timed),
    })),
    outputs: run.outputs.map((timed) => ({
      ...entryOf(timed),
      output: timed.body?.['output'] as Output,
      extra: extraOf(timed),
    })),
    outcomes: run.outcomes.map((timed) => ({
      ...entryOf(timed),
      outcome: timed.body?.['outcome'] as Outcome,
      extra: extraOf(timed),
    })),
    metadata: {
      ...metadata,
      calls: metadata.calls.map(runCallOf),
      events: metadata.events.map((timed, place) =>
        recordedEventOf(timed, (parentage.parentAt[place] ?? -1) >= 0),
      ),
    },
    feedback: run.feedback.map((timed) => ({
      ...entryOf(timed),
      feedback: timed.body?.['feedback'] as Feedback,
      extra: extraOf(timed),
    })),
  };
}

export function assembleRecord(events: readonly RunEvent[], links: RunLinks = UNLINKED): ClinicalRecord {
  return recordOf(assembleRun(events, links));
}
