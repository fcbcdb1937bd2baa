/**
 * Codes, identifier systems and data types of the FHIR resources; docs/reference/records.md, "FHIR R4", lists
 * them.
 */
import { createHash } from 'node:crypto';
import type { EventKind } from '@clinical-events/protocol';

/** Codes of HL7 and DICOM have no display: their code systems have it. */
export interface Coding {
  readonly system: string;
  readonly code: string;
  readonly display?: string;
}

/**
 * Our own systems. A UUID needs no domain and no registration, and `urn:` with a word of our own would not be
 * a URN (RFC 8141). They never change, because saved queries depend on them.
 */
export const SYSTEMS = {
  /** CodeSystem: the kinds of events. */
  kind: 'urn:uuid:1ebb7aae-e272-497a-b51d-efe919d8d59a',
  /** CodeSystem: roles of an entity for which FHIR has no code. */
  part: 'urn:uuid:9ade8a25-aca0-422c-8a33-e2eb68f421b1',
  /** CodeSystem: the types of callers. */
  callerType: 'urn:uuid:22674ef5-5f43-4415-9ca3-f544beab2bc9',
  /** Identifiers: model_id. */
  model: 'urn:uuid:cf9a62b9-07fc-408c-937a-3d3550e7ed89',
  /** Identifiers: caller_id. */
  caller: 'urn:uuid:a01efa83-a793-48a9-9e62-a092674d315e',
  /** Identifiers: target_id. */
  target: 'urn:uuid:1a08aea6-2d51-4aa9-bfbd-d63b6a5f8a7d',
  /** Identifiers: the id of an API key. */
  key: 'urn:uuid:efc7525e-4420-4d7c-85ca-f625a59a2cd9',
  /** Identifiers: app_name, or else hostname. */
  source: 'urn:uuid:2e7aaeba-b3c1-4c82-85be-587f9c45a67c',
  /** Identifiers that are URIs. */
  uri: 'urn:ietf:rfc:3986',
} as const;

const DCM = 'http://dicom.nema.org/resources/ontology/DCM';
const ENTITY_TYPE = 'http://terminology.hl7.org/CodeSystem/audit-entity-type';
const ROLE = 'http://terminology.hl7.org/CodeSystem/object-role';
const LIFECYCLE = 'http://terminology.hl7.org/CodeSystem/dicom-audit-lifecycle';
const PARTICIPANT = 'http://terminology.hl7.org/CodeSystem/provenance-participant-type';
const SECURITY_ROLE = 'http://terminology.hl7.org/CodeSystem/extra-security-role-type';

const coding = (system: string, code: string, display?: string): Coding =>
  display === undefined ? { system, code } : { system, code, display };
const part = (code: string, display: string) => coding(SYSTEMS.part, code, display);

export const CODES = {
  applicationActivity: coding(DCM, '110100'),
  application: coding(DCM, '110150'),
  sourceRole: coding(DCM, '110153'),
  humanUser: coding(SECURITY_ROLE, 'humanuser'),
  applicationServer: coding('http://terminology.hl7.org/CodeSystem/security-source-type', '4'),
  author: coding(PARTICIPANT, 'author'),
  informant: coding(PARTICIPANT, 'informant'),
  verifier: coding(PARTICIPANT, 'verifier'),
  create: coding('http://terminology.hl7.org/CodeSystem/v3-DataOperation', 'CREATE'),
  /** A label for people. */
  asserted: coding(
    'http://terminology.hl7.org/CodeSystem/v3-ObservationValue',
    'AIAST',
    'Artificial Intelligence asserted',
  ),
  person: coding(ENTITY_TYPE, '1'),
  systemObject: coding(ENTITY_TYPE, '2'),
  other: coding(ENTITY_TYPE, '4'),
  patient: coding(ROLE, '1'),
  report: coding(ROLE, '3'),
  domainResource: coding(ROLE, '4'),
  job: coding(ROLE, '20'),
  origination: coding(LIFECYCLE, '1'),
  access: coding(LIFECYCLE, '6'),
  erasure: coding(LIFECYCLE, '15'),
  parent: part('parent-event', 'Event that this one expands on'),
  outcome: part('outcome', 'Outcome that was reported'),
  feedback: part('feedback', 'Feedback that was given'),
} as const;

/** AuditEvent.subtype and AuditEvent.action (execute, create, read) of each kind. */
export const KINDS: Readonly<
  Record<EventKind, { readonly subtype: Coding; readonly action: 'C' | 'E' | 'R' }>
> = {
  'inference-start': { subtype: coding(SYSTEMS.kind, 'inference-start', 'Model called'), action: 'E' },
  'internal-artifact': {
    subtype: coding(SYSTEMS.kind, 'internal-artifact', 'Intermediate product made'),
    action: 'C',
  },
  'human-output': { subtype: coding(SYSTEMS.kind, 'human-output', 'Content shown to a person'), action: 'R' },
  outcome: { subtype: coding(SYSTEMS.kind, 'outcome', 'Outcome reported'), action: 'C' },
  'user-feedback': { subtype: coding(SYSTEMS.kind, 'user-feedback', 'Feedback given'), action: 'C' },
};

/** The FHIR codes and resource of each target_type. */
export const TARGETS = {
  patient: { type: CODES.person, role: CODES.patient, resource: 'Patient' },
  document: { type: CODES.systemObject, role: CODES.report, resource: 'DocumentReference' },
  claim: { type: CODES.systemObject, role: CODES.domainResource, resource: 'Claim' },
  none: null,
} as const;

/** The FHIR code and resource of each caller_type. An administrator may be a person or a device. */
export const CALLERS = {
  clinician: { type: CODES.humanUser, resource: 'Practitioner' },
  patient: { type: CODES.humanUser, resource: 'Patient' },
  admin: { type: CODES.humanUser, resource: undefined },
  service: { type: CODES.application, resource: 'Device' },
} as const;

/** A part of a resource; undefined members are not written. */
export type Part = Readonly<Record<string, unknown>>;

/**
 * A UUID for a resource without an id of its own: always the same for the same source (RFC 9562, version 8).
 */
export function derivedId(what: string, source: string): string {
  const hex = createHash('sha256').update(`${what} of ${source}`).digest('hex');
  const variant = ((parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16);
  const [first, second, third] = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(13, 16)];
  return `${first}-${second}-8${third}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** @returns an identifier. */
export function uuid(id: string): Part {
  return { system: SYSTEMS.uri, value: `urn:uuid:${id}` };
}

export function concept(code: Coding): Part {
  return { coding: [code] };
}

export function detailOf(type: string, valueString: string | undefined): Part[] {
  return valueString === undefined ? [] : [{ type, valueString }];
}

/** FHIR has no empty lists. */
export function listOrNone(list: readonly Part[]): readonly Part[] | undefined {
  return list.length === 0 ? undefined : list;
}
