/**
 * Events as AuditEvents, following IHE's Basic Audit Log Patterns if they fit, and outcomes as Provenances.
 */
import type { EventKind, RecordedEvent } from '@clinical-events/protocol';
import {
  CODES,
  type Coding,
  concept,
  derivedId,
  detailOf,
  KINDS,
  listOrNone,
  type Part,
  SYSTEMS,
  uuid,
} from './fhir-codes.js';
import { callerOf, type ModelDevices, senderOf, targetOf, userOf } from './fhir-parties.js';
import {
  addressIn,
  ARTIFACT_TYPES,
  dateTimeIn,
  dateTimeOf,
  FEEDBACK_TYPES,
  nameIn,
  OUTCOME_TYPES,
  ratingIn,
  type RecordLookup,
  wordIn,
} from './values.js';

/** Kinds of events that a run itself sends. Outcomes and feedback come from others. */
const MODEL_KINDS: ReadonlySet<EventKind> = new Set(['inference-start', 'internal-artifact', 'human-output']);

export function auditEventOf(lookup: RecordLookup, event: RecordedEvent, devices: ModelDevices): Part {
  const { subtype, action } = KINDS[event.kind];
  const occurred = dateTimeOf(event.timestamp);
  return {
    resourceType: 'AuditEvent',
    id: event.event_id,
    type: CODES.applicationActivity,
    subtype: [subtype],
    action,
    period: occurred && { start: occurred, end: occurred },
    recorded: event.received_at,
    outcome: '0',
    agent: agentsOf(lookup, event, devices),
    source: {
      site: nameIn(lookup.record.metadata.organisation),
      observer: senderOf(event),
      type: [CODES.applicationServer],
    },
    entity: entitiesOf(lookup, event),
  };
}

/** Exactly one agent is the requestor: the one that caused the event, if it is known. */
function agentsOf(lookup: RecordLookup, event: RecordedEvent, devices: ModelDevices): Part[] {
  const { record } = lookup;
  const isOfModel = MODEL_KINDS.has(event.kind);
  const model = isOfModel ? devices.of(lookup.modelOf(event)) : undefined;
  const caller = isOfModel ? (lookup.callOf(event) ?? record).user : lookup.giverOf(event);
  const user = userOf(caller, record.metadata.organisation);
  const byModel = event.kind !== 'inference-start' && model !== undefined;
  const byUser = (event.kind === 'inference-start' || !isOfModel) && user !== undefined;
  const { hostname, app_name, proc_id } = event.system_metadata ?? {};
  const host = nameIn(hostname);
  const sender = {
    type: concept(CODES.sourceRole),
    who: { identifier: { system: SYSTEMS.key, value: event.key_id } },
    altId: nameIn(proc_id),
    name: nameIn(app_name),
    requestor: !byUser && !byModel,
    network: host && { address: host, type: '1' },
  };
  const agent: Part[] = [sender];
  if (model !== undefined) {
    const { reference, identifier, name } = model;
    const who = { reference, type: 'Device', identifier };
    agent.push({ type: concept(CODES.application), who, name, requestor: byModel });
  }
  if (user !== undefined) agent.push({ ...user, requestor: byUser });
  return agent;
}

function entitiesOf(lookup: RecordLookup, event: RecordedEvent): Part[] {
  const { metadata } = lookup.record;
  const parent = event.parent_event_id;
  const target = targetOf((lookup.callOf(event) ?? lookup.record).target, metadata.organisation);
  return [
    {
      what: { identifier: uuid(metadata.record_id) },
      type: CODES.systemObject,
      role: CODES.job,
      detail: [
        ...detailOf('sequence', String(event.sequence)),
        ...detailOf('profile', event.profile),
        ...detailOf('payload', event.payload),
      ],
    },
    ...(target === undefined ? [] : [target]),
    ...(parent === null ? [] : [{ what: eventReference(lookup, parent), type: CODES.parent }]),
    ...ownEntities(lookup, event),
    ...erasureOf(event),
  ];
}

/** The action of the log that erased the content. */
function erasureOf({ action, erased_at }: RecordedEvent): Part[] {
  if (action === undefined) return [];
  const detail = detailOf('erased_at', erased_at);
  return [{ what: { identifier: uuid(action) }, type: CODES.systemObject, lifecycle: CODES.erasure, detail }];
}

/** The event's own content: its address, and words of the vocabularies. */
function ownEntities(lookup: RecordLookup, event: RecordedEvent): Part[] {
  const said = lookup.payload(event);
  const { domainResource, report, access, origination } = CODES;
  switch (event.kind) {
    case 'inference-start':
      return content(lookup.callOf(event)?.inputs?.input_uri, domainResource, access);
    case 'internal-artifact': {
      const details = detailOf('artifact_type', wordIn(ARTIFACT_TYPES, said['artifact_type']));
      return content(said['artifact_uri'], domainResource, origination, details);
    }
    case 'human-output':
      return content(said['output_uri'], report, origination);
    case 'outcome': {
      const details = detailOf('outcome_type', wordIn(OUTCOME_TYPES, said['outcome_type']));
      return [...subject(event, CODES.outcome, details), ...content(said['evidence_uri'], report, access)];
    }
    case 'user-feedback':
      return subject(event, CODES.feedback, [
        ...detailOf('feedback_type', wordIn(FEEDBACK_TYPES, said['feedback_type'])),
        ...detailOf('rating_value', ratingIn(said['rating_value'])?.toString()),
      ]);
  }
}

function subject({ event_id }: RecordedEvent, type: Coding, details: readonly Part[]): Part[] {
  return details.length === 0 ? [] : [{ what: { identifier: uuid(event_id) }, type, detail: details }];
}

function content(uri: unknown, role: Coding, lifecycle: Coding, details: readonly Part[] = []): Part[] {
  const value = addressIn(uri);
  if (value === undefined) return [];
  return [
    {
      what: { identifier: { system: SYSTEMS.uri, value } },
      type: CODES.systemObject,
      role,
      lifecycle,
      detail: listOrNone(details),
    },
  ];
}

/** Attributes an outcome to an inference: its author, its evidence and the event that it refers to. */
export function outcomeProvenanceOf(lookup: RecordLookup, event: RecordedEvent): Part {
  const outcome = lookup.payload(event);
  const evidence = addressIn(outcome['evidence_uri']);
  const giver = callerOf(lookup.giverOf(event), lookup.record.metadata.organisation);
  const parent = event.parent_event_id;
  const entity = [
    ...(parent === null ? [] : [{ role: 'derivation', what: eventReference(lookup, parent) }]),
    ...(evidence === undefined
      ? []
      : [{ role: 'source', what: { identifier: { system: SYSTEMS.uri, value: evidence } } }]),
  ];
  return {
    resourceType: 'Provenance',
    id: derivedId('Provenance', event.event_id),
    target: [eventReference(lookup, event.event_id)],
    occurredDateTime: dateTimeIn(outcome['occurred_at']) ?? dateTimeOf(event.timestamp),
    recorded: event.received_at,
    activity: concept(KINDS.outcome.subtype),
    agent: [
      { type: concept(CODES.informant), who: senderOf(event) },
      ...(giver === undefined ? [] : [{ type: concept(CODES.author), who: giver }]),
    ],
    entity: listOrNone(entity),
  };
}

/** A reference within the Bundle for an event of the record; an identifier for any other event. */
export function eventReference(lookup: RecordLookup, eventId: string): Part {
  return {
    reference: lookup.event(eventId) && `urn:uuid:${eventId}`,
    type: 'AuditEvent',
    identifier: uuid(eventId),
  };
}
