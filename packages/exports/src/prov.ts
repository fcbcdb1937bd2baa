/**
 * A record in PROV-JSON (W3C member submission, 2013): the record and everything that events tell of are entities, the
 * run is an activity, the model and the user are agents. docs/reference/records.md, "PROV-JSON", is the mapping as a
 * table.
 *
 * An entity stands for what an event reports, and its content for a place where it is kept: words that a sender wrote
 * are not in it (values.ts). Every id that a relation uses is declared in the same document.
 */
import { createHash } from 'node:crypto';
import type { ClinicalRecord, EventKind, RecordedEvent } from '@clinical-events/protocol';
import { timeOf } from './otlp-parts.js';
import type { RecordDocument } from '@clinical-events/collector/records/exports/file-format';
import {
  ARTIFACT_TYPES,
  CALLER_TYPES,
  FEEDBACK_TYPES,
  OUTCOME_TYPES,
  OUTPUT_TYPES,
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

/* A PROV-JSON document under construction: declarations by id, and relations by blank ids, in a fixed order. */

/** A value with a type, in PROV-JSON's way: {"$": lexical form, "type": datatype}. */
interface Typed {
  readonly $: string;
  readonly type: string;
}

type Value = string | number | Typed;

/** Undefined and an empty list say nothing. */
type Attributes = Readonly<Record<string, Value | readonly Value[] | undefined>>;

type Declaration = 'entity' | 'activity' | 'agent';
type Relation =
  | 'wasGeneratedBy'
  | 'used'
  | 'wasInformedBy'
  | 'wasStartedBy'
  | 'wasDerivedFrom'
  | 'wasInvalidatedBy'
  | 'wasAssociatedWith'
  | 'actedOnBehalfOf'
  | 'wasInfluencedBy'
  | 'hadMember';

function qualified(name: string): Typed {
  return { $: name, type: 'prov:QUALIFIED_NAME' };
}

function uri(text: string): Typed {
  return { $: text, type: 'xsd:anyURI' };
}

function integer(number: number): Typed {
  return { $: String(number), type: 'xsd:integer' };
}

function dateTime(text: string | undefined): Typed | undefined {
  return text === undefined ? undefined : { $: text, type: 'xsd:dateTime' };
}

class ProvDocument {
  readonly #prefixes: Readonly<Record<string, string>>;
  readonly #declared = new Map<Declaration, Map<string, object>>();
  readonly #related = new Map<Relation, object[]>();

  /** @param prefixes beside `prov` and `xsd`, which every document has. */
  constructor(prefixes: Readonly<Record<string, string>>) {
    this.#prefixes = prefixes;
  }

  /** Declared twice, the first declaration stands. @returns the id. */
  declare(what: Declaration, id: string, attributes: Attributes): string {
    const declared = this.#declared.get(what) ?? new Map<string, object>();
    this.#declared.set(what, declared);
    if (!declared.has(id)) declared.set(id, said(attributes));
    return id;
  }

  relate(relation: Relation, members: Attributes): void {
    const related = this.#related.get(relation);
    if (related === undefined) this.#related.set(relation, [said(members)]);
    else related.push(said(members));
  }

  toObject(): object {
    // The submission takes `prov` and `xsd` for granted; it is for readers that do not.
    const prefix = {
      prov: 'http://www.w3.org/ns/prov#',
      xsd: 'http://www.w3.org/2001/XMLSchema#',
      ...this.#prefixes,
    };
    const declared = [...this.#declared].map(([what, all]) => [what, Object.fromEntries(all)] as const);
    const related = [...this.#related].map(
      ([relation, all]) =>
        [relation, Object.fromEntries(all.map((one, n) => [`_:${relation}${String(n + 1)}`, one]))] as const,
    );
    return { prefix, ...Object.fromEntries(declared), ...Object.fromEntries(related) };
  }
}

function said(attributes: Attributes): object {
  return Object.fromEntries(
    Object.entries(attributes).filter(
      ([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0),
    ),
  );
}

/** Whatever has no URI of its own; a UUID, because it is no one's brand and needs no domain. Fixed forever. */
const NAMESPACE = 'urn:uuid:1eb246a6-45fc-4297-82bb-9e8a02fe0386#';

export const prov: RecordDocument = (record) => JSON.stringify(documentOf(record));

const TYPES: Readonly<Record<EventKind, string>> = {
  'inference-start': 'ce:InferenceStart',
  'internal-artifact': 'ce:Artifact',
  'human-output': 'ce:Output',
  outcome: 'ce:Outcome',
  'user-feedback': 'ce:Feedback',
};

const PEOPLE: ReadonlySet<string | undefined> = new Set(['clinician', 'patient', 'admin']);

function documentOf(record: ClinicalRecord): object {
  const { metadata } = record;
  const lookup = new RecordLookup(record);
  const document = new ProvDocument({ event: 'urn:uuid:', ce: NAMESPACE });
  const recordId = `ce:record-${metadata.record_id}`;
  document.declare('entity', recordId, {
    'prov:type': [qualified('ce:Record'), qualified('prov:Collection')],
    'ce:organisation': nameIn(metadata.organisation),
    'ce:completeness': metadata.completeness.level,
    'ce:missing': metadata.completeness.missing,
    'ce:replaced_text': metadata.completeness.replaced_text,
    'ce:conflict': [...new Set(metadata.conflicts.map(({ kind }) => kind))],
  });
  const run = runOf(document, record);
  for (const event of metadata.events) {
    document.declare('entity', `event:${event.event_id}`, eventAttributes(lookup, event));
    document.relate('hadMember', { 'prov:collection': recordId, 'prov:entity': `event:${event.event_id}` });
  }
  const cycle = metadata.conflicts.find(({ kind }) => kind === 'parent_cycle');
  const cyclic = new Set(cycle?.event_ids);
  const start = firstStart(record);
  for (const event of metadata.events) {
    if (event.kind === 'inference-start')
      relateStart(document, lookup, { event, run, isFirst: event === start });
    else relateEvent(document, lookup, { event, run, cyclic });
    if (event.action !== undefined) relateErasure(document, event, event.action);
  }
  return document.toObject();
}

function relateErasure(
  document: ProvDocument,
  { event_id, retired_at }: RecordedEvent,
  action: string,
): void {
  const erasure = document.declare('activity', `ce:action-${action}`, {
    'prov:type': qualified('ce:Erasure'),
  });
  document.relate('wasInvalidatedBy', {
    'prov:entity': `event:${event_id}`,
    'prov:activity': erasure,
    'prov:time': retired_at,
  });
}

/** The invocation, and who took part in it. */
function runOf(document: ProvDocument, record: ClinicalRecord): string {
  const { metadata } = record;
  const run = `ce:run-${metadata.record_id}`;
  const start = firstStart(record);
  document.declare('activity', run, {
    'prov:type': qualified('ce:Invocation'),
    ...(start !== undefined && { 'prov:startTime': dateTimeOf(start.timestamp) }),
    ...(start !== undefined && { 'prov:endTime': endOf(record, start) }),
  });
  if (metadata.parent?.run_id != null) {
    const outer = `ce:run-${metadata.parent.run_id}`;
    document.declare('activity', outer, { 'prov:type': qualified('ce:Invocation') });
    document.relate('wasInformedBy', { 'prov:informed': run, 'prov:informant': outer });
  }
  return run;
}

function firstStart({ metadata }: ClinicalRecord): RecordedEvent | undefined {
  return metadata.events.find(({ kind }) => kind === 'inference-start');
}

/** The last output, unless the clocks say that it was shown before the start. */
function endOf({ metadata }: ClinicalRecord, start: RecordedEvent): string | undefined {
  const last = metadata.events.findLast(
    ({ kind, payload }) => kind === 'human-output' && payload === undefined,
  );
  return last === undefined || timeOf(last).end < timeOf(start).start
    ? undefined
    : dateTimeOf(last.timestamp);
}

function eventAttributes(lookup: RecordLookup, event: RecordedEvent): Attributes {
  const said = lookup.payload(event);
  const address = addressIn(said['artifact_uri']) ?? addressIn(said['output_uri']);
  return {
    'prov:type': qualified(TYPES[event.kind]),
    'prov:location': address && uri(address),
    'ce:timestamp': dateTime(dateTimeOf(event.timestamp)),
    'ce:received_at': dateTime(event.received_at),
    'ce:sequence': integer(event.sequence),
    'ce:key_id': event.key_id,
    'ce:app_name': nameIn(event.system_metadata?.app_name),
    'ce:hostname': nameIn(event.system_metadata?.hostname),
    'ce:payload': event.payload,
    'ce:artifact_type': wordIn(ARTIFACT_TYPES, said['artifact_type']),
    'ce:output_type': wordIn(OUTPUT_TYPES, said['output_type']),
    'ce:outcome_type': wordIn(OUTCOME_TYPES, said['outcome_type']),
    'ce:occurred_at': dateTime(dateTimeIn(said['occurred_at'])),
    'ce:feedback_type': wordIn(FEEDBACK_TYPES, said['feedback_type']),
    'ce:rating_value': ratingIn(said['rating_value']),
  };
}

interface Placed {
  readonly event: RecordedEvent;
  readonly run: string;
  /** The events from which following parents leads back to them. */
  readonly cyclic: ReadonlySet<string>;
}

function relateEvent(document: ProvDocument, lookup: RecordLookup, { event, run, cyclic }: Placed): void {
  const id = `event:${event.event_id}`;
  const time = dateTimeOf(event.timestamp);
  const parent = lookup.event(event.parent_event_id);
  switch (event.kind) {
    case 'inference-start': // relateStart
      return;
    case 'internal-artifact':
    case 'human-output':
      document.relate('wasGeneratedBy', { 'prov:entity': id, 'prov:activity': run, 'prov:time': time });
      // What was derived came later, so nothing is derived from itself by however many steps (PROV-CONSTRAINTS, 5.2).
      if (parent !== undefined && isProduct(parent) && !cyclic.has(event.event_id)) {
        document.relate('wasDerivedFrom', {
          'prov:generatedEntity': id,
          'prov:usedEntity': `event:${parent.event_id}`,
        });
      }
      return;
    case 'outcome':
    case 'user-feedback': {
      // What happened was not made by the run: it is attributed to it, and PROV's weakest relation says no more.
      const influencer = parent === undefined || parent === event ? run : `event:${parent.event_id}`;
      document.relate('wasInfluencedBy', { 'prov:influencee': id, 'prov:influencer': influencer });
      const evidence = addressIn(lookup.payload(event)['evidence_uri']);
      if (evidence === undefined) return;
      const evidenceId = `ce:evidence-${event.event_id}`;
      document.declare('entity', evidenceId, {
        'prov:type': qualified('ce:Evidence'),
        'prov:location': uri(evidence),
      });
      document.relate('wasDerivedFrom', { 'prov:generatedEntity': id, 'prov:usedEntity': evidenceId });
    }
  }
}

function isProduct({ kind }: RecordedEvent): boolean {
  return kind === 'internal-artifact' || kind === 'human-output';
}

/** What a start names: the model, the caller, the target, the inputs. A second start is said beside the first. */
function relateStart(
  document: ProvDocument,
  lookup: RecordLookup,
  { event, run, isFirst }: Omit<Placed, 'cyclic'> & { readonly isFirst: boolean },
): void {
  const id = `event:${event.event_id}`;
  const time = dateTimeOf(event.timestamp);
  // An activity has one start, whose time is its own (PROV-CONSTRAINTS, 29).
  if (isFirst)
    document.relate('wasStartedBy', { 'prov:activity': run, 'prov:trigger': id, 'prov:time': time });
  else document.relate('wasInfluencedBy', { 'prov:influencee': run, 'prov:influencer': id });
  const { model_instance, user_identity, target_identity, inputs } = lookup.startOf(event);
  const { organisation } = lookup.record.metadata;
  const model = modelOf(document, model_instance);
  const user = userOf(document, user_identity, organisation);
  const associate = (agent: string, role: string) => {
    document.relate('wasAssociatedWith', {
      'prov:activity': run,
      'prov:agent': agent,
      'prov:role': qualified(role),
    });
  };
  if (model !== undefined) associate(model, 'ce:model');
  if (user !== undefined) associate(user, 'ce:caller');
  if (model !== undefined && user !== undefined) {
    document.relate('actedOnBehalfOf', {
      'prov:delegate': model,
      'prov:responsible': user,
      'prov:activity': run,
    });
  }
  if (inputs !== undefined) {
    const address = addressIn(inputs.input_uri);
    const inputsId = `ce:inputs-${event.event_id}`;
    document.declare('entity', inputsId, {
      'prov:type': qualified('ce:Inputs'),
      'prov:location': address && uri(address),
    });
    document.relate('used', {
      'prov:activity': run,
      'prov:entity': inputsId,
      'prov:time': time,
    });
  }
  const target = targetOf(document, target_identity, organisation);
  if (target !== undefined) {
    document.relate('wasInfluencedBy', { 'prov:influencee': run, 'prov:influencer': target });
  }
}

function modelOf(document: ProvDocument, model: Payload | undefined): string | undefined {
  const modelId = nameIn(model?.['model_id']);
  const version = nameIn(model?.['model_version']);
  if (modelId === undefined && version === undefined) return undefined;
  const [card, sheet] = [addressIn(model?.['model_card_url']), addressIn(model?.['data_sheet_url'])];
  return document.declare('agent', `ce:model-${digest(modelId, version)}`, {
    'prov:type': [qualified('prov:SoftwareAgent'), qualified('ce:Model')],
    'ce:model_id': modelId,
    'ce:model_version': version,
    'ce:model_card_url': card && uri(card),
    'ce:data_sheet_url': sheet && uri(sheet),
  });
}

function userOf(document: ProvDocument, user: Payload | undefined, organisation: string): string | undefined {
  const callerId = nameIn(user?.['caller_id']);
  if (callerId === undefined) return undefined;
  const callerType = wordIn(CALLER_TYPES, user?.['caller_type']);
  const sort = PEOPLE.has(callerType)
    ? ['prov:Person']
    : callerType === 'service'
      ? ['prov:SoftwareAgent']
      : [];
  return document.declare('agent', `ce:caller-${digest(organisation, callerId)}`, {
    'prov:type': [...sort, 'ce:Caller'].map(qualified),
    'ce:caller_id': callerId,
    'ce:caller_type': callerType,
  });
}

function targetOf(
  document: ProvDocument,
  target: Payload | undefined,
  organisation: string,
): string | undefined {
  const targetId = nameIn(target?.['target_id']);
  const targetType = wordIn(TARGET_TYPES, target?.['target_type']);
  if (targetId === undefined || targetType === 'none') return undefined;
  return document.declare('entity', `ce:target-${digest(organisation, targetId)}`, {
    'prov:type': qualified('ce:Target'),
    'ce:target_id': targetId,
    'ce:target_type': targetType,
  });
}

/**
 * A name for an agent or a target that is the same in every document, whatever characters its id has. It hides
 * nothing.
 */
function digest(...names: readonly (string | undefined)[]): string {
  return createHash('sha256').update(JSON.stringify(names)).digest('hex').slice(0, 32);
}
