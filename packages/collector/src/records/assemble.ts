/**
 * The record of a run from its events: a pure function, the same whatever order the events are handed in.
 * Each event handed in stands once in `metadata.events`; what its sender wrote stands once more where it belongs, as
 * sent, and fields that nobody named go with it. docs/reference/records.md, "How a record is made", has the rules in words.
 */
import type {
  Artifact,
  BaseEvent,
  ClinicalRecord,
  EventKind,
  Feedback,
  Inputs,
  ModelInstance,
  Outcome,
  Output,
  TargetIdentity,
  UserIdentity,
} from '@clinical-events/protocol';
import { inCanonicalOrder, type TimedEvent } from './canonical-order.js';
import { utcText } from './instant.js';
import { parentageOf, type Parentage } from './parentage.js';
import { metadataOf, UNLINKED, type RunLinks, type RunMetadata } from './record-metadata.js';
import { extraOf, recordedEventOf } from './recorded-event.js';
import { type EventBody, type Sent, sentIn } from './event-body.js';
import type { RunEvent } from './run-event.js';

/** What a record is, before it is written out: what a format with columns takes. */
export interface AssembledRun<Body extends EventBody = EventBody> {
  readonly model: Sent | null;
  readonly user: Sent | null;
  readonly target: Sent | null;
  readonly inputs: Sent | null;
  /** Of the lists, those events whose payload can be read. All are in canonical order. */
  readonly artifacts: readonly TimedEvent<Body>[];
  readonly outputs: readonly TimedEvent<Body>[];
  readonly outcomes: readonly TimedEvent<Body>[];
  readonly feedback: readonly TimedEvent<Body>[];
  readonly metadata: RunMetadata & { readonly events: readonly TimedEvent<Body>[] };
  /** The inference-start that the record follows: the first. */
  readonly start: TimedEvent<Body> | undefined;
  readonly parentage: Parentage;
}

/**
 * @param events all events of one record (catalogue/batch-records.ts), at least one, each once. Their bodies become part of the
 *   record; neither may be changed afterwards.
 * @throws RangeError when there are none, or they are of two runs or two organisations.
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
  const said = start?.body;
  return {
    model: (said && sentIn(said, 'model_instance')) ?? null,
    user: (said && sentIn(said, 'user_identity')) ?? null,
    target: (said && sentIn(said, 'target_identity')) ?? null,
    inputs: (said && sentIn(said, 'inputs')) ?? null,
    artifacts: lists['internal-artifact'],
    outputs: lists['human-output'],
    outcomes: lists.outcome,
    feedback: lists['user-feedback'],
    metadata: { ...metadataOf({ events: ordered, start, parentage, links }), events: ordered },
    start,
    parentage,
  };
}

/** The record itself, whole. */
export function recordOf(run: AssembledRun<BaseEvent>): ClinicalRecord {
  const { metadata, start, parentage } = run;
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
      events: metadata.events.map((timed, place) =>
        recordedEventOf(timed, timed === start, (parentage.parentAt[place] ?? -1) >= 0),
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
