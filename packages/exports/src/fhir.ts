/**
 * A record in FHIR R4: a Bundle with an AuditEvent for each event, and a Provenance for each outcome, after IHE's Basic
 * Audit Log Patterns where they fit. docs/reference/records.md, "FHIR R4", is the mapping as a table, with its reasons.
 *
 * Nothing that a sender wrote in words is in it: many people read an audit repository (values.ts).
 */
import { createHash } from 'node:crypto';
import type { ClinicalRecord, EventKind, RecordedEvent } from '@clinical-events/protocol';
import type { RecordDocument } from '@clinical-events/collector/records/exports/file-format';
import {
  ARTIFACT_TYPES,
  CALLER_TYPES,
  FEEDBACK_TYPES,
  OUTCOME_TYPES,
  RecordLookup,
  type Payload,
  TARGET_TYPES,
  addressIn,
  dateTimeIn,
  dateTimeOf,
  nameIn,
  ratingIn,
  wordIn,
} from './values.js';

/* The codes and identifier systems that stand in FHIR resources made of records; docs/reference/records.md, "FHIR R4", lists them. */

interface Coding {
  readonly system: string;
  readonly code: string;
  readonly display: string;
}

/**
 * The systems that no one else defines. A UUID is a namespace that is registered, is no one's brand and needs no
 * domain that someone has to go on paying for; `urn:` with a word of our own would not be a URN (RFC 8141). Each is
 * fixed forever: changing one breaks every query that was saved.
 */
const SYSTEMS = {
  /** CodeSystem: the kinds of events. */
  kind: 'urn:uuid:1ebb7aae-e272-497a-b51d-efe919d8d59a',
  /** CodeSystem: what an entity is to the event where FHIR has no code for it. */
  part: 'urn:uuid:9ade8a25-aca0-422c-8a33-e2eb68f421b1',
  /** CodeSystem: in what capacity a caller acted. */
  callerType: 'urn:uuid:22674ef5-5f43-4415-9ca3-f544beab2bc9',
  /** Identifiers: model_id. */
  model: 'urn:uuid:cf9a62b9-07fc-408c-937a-3d3550e7ed89',
  /** Identifiers: caller_id. */
  caller: 'urn:uuid:a01efa83-a793-48a9-9e62-a092674d315e',
  /** Identifiers: target_id. */
  target: 'urn:uuid:1a08aea6-2d51-4aa9-bfbd-d63b6a5f8a7d',
  /** Identifiers: the id of an API key. */
  key: 'urn:uuid:efc7525e-4420-4d7c-85ca-f625a59a2cd9',
  /** Identifiers: app_name, or hostname where there is none. */
  source: 'urn:uuid:2e7aaeba-b3c1-4c82-85be-587f9c45a67c',
  /** Identifiers that are URIs. */
  uri: 'urn:ietf:rfc:3986',
} as const;

const DCM = 'http://dicom.nema.org/resources/ontology/DCM';
const ENTITY_TYPE = 'http://terminology.hl7.org/CodeSystem/audit-entity-type';
const ROLE = 'http://terminology.hl7.org/CodeSystem/object-role';
const LIFECYCLE = 'http://terminology.hl7.org/CodeSystem/dicom-audit-lifecycle';
const SECURITY_ROLE = 'http://terminology.hl7.org/CodeSystem/extra-security-role-type';

const coding = (system: string, code: string, display: string): Coding => ({ system, code, display });
const part = (code: string, display: string) => coding(SYSTEMS.part, code, display);

const CODES = {
  applicationActivity: coding(DCM, '110100', 'Application Activity'),
  application: coding(DCM, '110150', 'Application'),
  sourceRole: coding(DCM, '110153', 'Source Role ID'),
  humanUser: coding(SECURITY_ROLE, 'humanuser', 'human user'),
  applicationServer: coding(
    'http://terminology.hl7.org/CodeSystem/security-source-type',
    '4',
    'Application Server',
  ),
  informant: coding(
    'http://terminology.hl7.org/CodeSystem/provenance-participant-type',
    'informant',
    'Informant',
  ),
  person: coding(ENTITY_TYPE, '1', 'Person'),
  systemObject: coding(ENTITY_TYPE, '2', 'System Object'),
  other: coding(ENTITY_TYPE, '4', 'Other'),
  patient: coding(ROLE, '1', 'Patient'),
  report: coding(ROLE, '3', 'Report'),
  domainResource: coding(ROLE, '4', 'Domain Resource'),
  job: coding(ROLE, '20', 'Job'),
  origination: coding(LIFECYCLE, '1', 'Origination / Creation'),
  access: coding(LIFECYCLE, '6', 'Access / Use'),
  erasure: coding(LIFECYCLE, '15', 'Permanent erasure / Physical destruction'),
  parent: part('parent-event', 'Event that this one expands on'),
  outcome: part('outcome', 'Outcome that was reported'),
  feedback: part('feedback', 'Feedback that was given'),
} as const;

/** What happened, as AuditEvent.subtype, and AuditEvent.action: execute, create or read. */
const KINDS: Readonly<Record<EventKind, { readonly subtype: Coding; readonly action: 'C' | 'E' | 'R' }>> = {
  'inference-start': { subtype: coding(SYSTEMS.kind, 'inference-start', 'Model called'), action: 'E' },
  'internal-artifact': {
    subtype: coding(SYSTEMS.kind, 'internal-artifact', 'Intermediate product made'),
    action: 'C',
  },
  'human-output': { subtype: coding(SYSTEMS.kind, 'human-output', 'Content shown to a person'), action: 'R' },
  outcome: { subtype: coding(SYSTEMS.kind, 'outcome', 'Outcome reported'), action: 'C' },
  'user-feedback': { subtype: coding(SYSTEMS.kind, 'user-feedback', 'Feedback given'), action: 'C' },
};

/** What a target is in FHIR, by target_type; null for a target that is none. */
const TARGETS = {
  patient: { type: CODES.person, role: CODES.patient, resource: 'Patient' },
  document: { type: CODES.systemObject, role: CODES.report, resource: 'DocumentReference' },
  claim: { type: CODES.systemObject, role: CODES.domainResource, resource: 'Claim' },
  none: null,
} as const;

/** What a caller is in FHIR, by caller_type. An administrator may be a person or a device. */
const CALLERS = {
  clinician: { type: CODES.humanUser, resource: 'Practitioner' },
  patient: { type: CODES.humanUser, resource: 'Patient' },
  admin: { type: CODES.humanUser, resource: undefined },
  service: { type: CODES.application, resource: 'Device' },
} as const;

/** Members that are undefined are not written. */
type Part = Readonly<Record<string, unknown>>;

export const fhir: RecordDocument = (record) => JSON.stringify(bundleOf(record));

/** A collection: what a server should do with the entries, if anything, is for anyone who loads them to say. */
function bundleOf(record: ClinicalRecord): Part {
  const { record_id, last_received_at, events } = record.metadata;
  const lookup = new RecordLookup(record);
  const resources = events.flatMap((event) => {
    const audit = auditEventOf(lookup, event);
    const isOutcome = event.kind === 'outcome' && event.payload === undefined;
    return isOutcome ? [audit, provenanceOf(lookup, event)] : [audit];
  });
  return {
    resourceType: 'Bundle',
    id: record_id,
    identifier: uuid(record_id),
    type: 'collection',
    timestamp: last_received_at,
    entry: resources.map((resource) => ({ fullUrl: `urn:uuid:${String(resource['id'])}`, resource })),
  };
}

function auditEventOf(lookup: RecordLookup, event: RecordedEvent): Part {
  const { subtype, action } = KINDS[event.kind];
  const occurred = dateTimeOf(event.timestamp);
  const agents = agentsOf(lookup, event);
  return {
    resourceType: 'AuditEvent',
    id: event.event_id,
    contained: agents.contained,
    type: CODES.applicationActivity,
    subtype: [subtype],
    action,
    period: occurred && { start: occurred, end: occurred },
    recorded: event.received_at,
    outcome: '0',
    agent: agents.agent,
    source: {
      site: nameIn(lookup.record.metadata.organisation),
      observer: senderOf(event),
      type: [CODES.applicationServer],
    },
    entity: entitiesOf(lookup, event),
  };
}

/** Exactly one of them is the requestor: who or what set off the event, if that is known. */
function agentsOf(lookup: RecordLookup, event: RecordedEvent): { contained?: Part[]; agent: Part[] } {
  const { kind } = event;
  // Who reports an outcome or gives feedback is not said.
  const ofRun = kind === 'inference-start' || kind === 'internal-artifact' || kind === 'human-output';
  const start = ofRun ? lookup.startOf(event) : {};
  const device = deviceOf(start.model_instance);
  const user = userOf(start.user_identity, lookup.record.metadata.organisation);
  const byUser = kind === 'inference-start' && user !== undefined;
  const byModel = kind !== 'inference-start' && device !== undefined;
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
  if (device !== undefined) agent.push({ ...device.agent, requestor: byModel });
  if (user !== undefined) agent.push({ ...user, requestor: byUser });
  return device === undefined ? { agent } : { contained: [device.resource], agent };
}

/** The model: a Device within the AuditEvent, because an identifier alone has no place for the version that ran. */
function deviceOf(model: Payload | undefined): { resource: Part; agent: Part } | undefined {
  const id = nameIn(model?.['model_id']);
  const version = nameIn(model?.['model_version']);
  if (id === undefined && version === undefined) return undefined;
  const identifier = id && { system: SYSTEMS.model, value: id };
  return {
    resource: {
      resourceType: 'Device',
      id: 'model',
      identifier: identifier && [identifier],
      deviceName: id && [{ name: id, type: 'model-name' }],
      version: version && [{ value: version }],
    },
    agent: {
      type: concept(CODES.application),
      who: { reference: '#model', type: 'Device', identifier },
      name: [id, version].filter((name) => name !== undefined).join(' '),
    },
  };
}

function userOf(user: Payload | undefined, organisation: string): Part | undefined {
  const id = nameIn(user?.['caller_id']);
  const callerType = wordIn(CALLER_TYPES, user?.['caller_type']);
  if (id === undefined && callerType === undefined) return undefined;
  const caller = callerType && CALLERS[callerType];
  const who = {
    type: caller?.resource,
    identifier: id && { system: SYSTEMS.caller, value: id, assigner: { display: nameIn(organisation) } },
  };
  return {
    type: caller && concept(caller.type),
    role: callerType && [{ coding: [{ system: SYSTEMS.callerType, code: callerType }] }],
    who: id === undefined ? undefined : who,
  };
}

function senderOf({ system_metadata, key_id }: RecordedEvent): Part {
  const name = nameIn(system_metadata?.app_name) ?? nameIn(system_metadata?.hostname);
  const identifier =
    name === undefined ? { system: SYSTEMS.key, value: key_id } : { system: SYSTEMS.source, value: name };
  return { type: 'Device', identifier };
}

function entitiesOf(lookup: RecordLookup, event: RecordedEvent): Part[] {
  const { metadata } = lookup.record;
  const parent = event.parent_event_id;
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
    ...targetEntity(lookup.startOf(event).target_identity, metadata.organisation),
    ...(parent === null ? [] : [{ what: eventReference(lookup, parent), type: CODES.parent }]),
    ...ownEntities(lookup, event),
    ...erasureOf(event),
  ];
}

/** By which action of the log the content was destroyed. */
function erasureOf({ action, retired_at }: RecordedEvent): Part[] {
  if (action === undefined) return [];
  const detail = detailOf('retired_at', retired_at);
  return [{ what: { identifier: uuid(action) }, type: CODES.systemObject, lifecycle: CODES.erasure, detail }];
}

function targetEntity(target: Payload | undefined, organisation: string): Part[] {
  const value = nameIn(target?.['target_id']);
  const targetType = wordIn(TARGET_TYPES, target?.['target_type']);
  const known = targetType === undefined ? undefined : TARGETS[targetType];
  if (value === undefined || known === null) return [];
  return [
    {
      what: {
        type: known?.resource,
        identifier: { system: SYSTEMS.target, value, assigner: { display: nameIn(organisation) } },
      },
      type: known?.type ?? CODES.other,
      role: known?.role ?? CODES.domainResource,
    },
  ];
}

/** What the event itself is about: where its content is kept, and words of the vocabularies. */
function ownEntities(lookup: RecordLookup, event: RecordedEvent): Part[] {
  const said = lookup.payload(event);
  const { domainResource, report, access, origination } = CODES;
  switch (event.kind) {
    case 'inference-start':
      return content(lookup.startOf(event).inputs?.input_uri, domainResource, access);
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

/** That an outcome was attributed to an inference: by whom, on what evidence, from which event on. */
function provenanceOf(lookup: RecordLookup, event: RecordedEvent): Part {
  const outcome = lookup.payload(event);
  const evidence = addressIn(outcome['evidence_uri']);
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
    agent: [{ type: concept(CODES.informant), who: senderOf(event) }],
    entity: listOrNone(entity),
  };
}

/** Resolves within the Bundle where the event is of this record; elsewhere it is an identifier to look for. */
function eventReference(lookup: RecordLookup, eventId: string): Part {
  return {
    reference: lookup.event(eventId) && `urn:uuid:${eventId}`,
    type: 'AuditEvent',
    identifier: uuid(eventId),
  };
}

/** A UUID for what is made of an event and has no id of its own: always the same one (RFC 9562, version 8). */
function derivedId(what: string, eventId: string): string {
  const hex = createHash('sha256').update(`${what} of ${eventId}`).digest('hex');
  const variant = ((parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function uuid(id: string): Part {
  return { system: SYSTEMS.uri, value: `urn:uuid:${id}` };
}

function concept(coding: Coding): Part {
  return { coding: [coding] };
}

function detailOf(type: string, valueString: string | undefined): Part[] {
  return valueString === undefined ? [] : [{ type, valueString }];
}

/** FHIR has no empty lists. */
function listOrNone(list: readonly Part[]): readonly Part[] | undefined {
  return list.length === 0 ? undefined : list;
}
