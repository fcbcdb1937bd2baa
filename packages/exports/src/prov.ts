/**
 * A record in PROV-JSON (W3C member submission, 2013): the record and its events are entities, the run is an
 * activity, the model and the user are agents. docs/reference/records.md, "PROV-JSON", has the mapping. Texts
 * of senders are left out (values.ts). Every id that a relation uses is declared in the same document.
 */
import { createHash } from 'node:crypto';
import type { ClinicalRecord, EventKind, RecordedEvent, RunCall } from '@clinical-events/protocol';
import { timeOf } from './otlp-parts.js';
import { type Attributes, dateTime, integer, ProvDocument, qualified, uri } from './prov-document.js';
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

/** The namespace of our own names: a UUID, which needs no domain. It never changes. */
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
  }
  const members = metadata.events.map(({ event_id }) => `event:${event_id}`);
  document.relate('hadMember', { 'prov:collection': recordId, 'prov:entity': members });
  const cycle = metadata.conflicts.find(({ kind }) => kind === 'parent_cycle');
  const cyclic = new Set(cycle?.event_ids);
  const activities = activitiesOf(document, lookup, run);
  for (const event of metadata.events) {
    const activity = activities.get(lookup.callOf(event)) ?? run;
    if (event.kind === 'inference-start') relateStart(document, lookup, { event, activity });
    else relateEvent(document, lookup, { event, activity, run, cyclic });
    if (event.action !== undefined) relateErasure(document, event, event.action);
  }
  return document.toObject();
}

function relateErasure(document: ProvDocument, { event_id, erased_at }: RecordedEvent, action: string): void {
  const erasure = document.declare('activity', `ce:action-${action}`, {
    'prov:type': qualified('ce:Erasure'),
  });
  document.relate('wasInvalidatedBy', {
    'prov:entity': `event:${event_id}`,
    'prov:activity': erasure,
    'prov:time': erased_at,
  });
}

/** The activity of the run. */
function runOf(document: ProvDocument, record: ClinicalRecord): string {
  const { metadata } = record;
  const run = `ce:run-${metadata.record_id}`;
  const start = metadata.events.find(({ kind }) => kind === 'inference-start');
  document.declare('activity', run, {
    'prov:type': qualified('ce:Invocation'),
    ...(start !== undefined && { 'prov:startTime': dateTimeOf(start.timestamp) }),
    ...(start !== undefined && { 'prov:endTime': endOf(metadata.events.filter(isOutput), start) }),
  });
  if (metadata.parent?.run_id != null) {
    const outer = `ce:run-${metadata.parent.run_id}`;
    document.declare('activity', outer, { 'prov:type': qualified('ce:Invocation') });
    document.relate('wasInformedBy', { 'prov:informed': run, 'prov:informant': outer });
  }
  return run;
}

/** An activity for each of several calls, started by the run; a single call is the run itself. */
function activitiesOf(
  document: ProvDocument,
  lookup: RecordLookup,
  run: string,
): ReadonlyMap<RunCall | undefined, string> {
  const { calls, events } = lookup.record.metadata;
  const starts = events.filter(({ kind }) => kind === 'inference-start');
  const begins = (activity: string, start: RecordedEvent, starter?: string) => {
    document.relate('wasStartedBy', {
      'prov:activity': activity,
      'prov:trigger': `event:${start.event_id}`,
      'prov:starter': starter,
      'prov:time': dateTimeOf(start.timestamp),
    });
  };
  const [first] = starts;
  // An activity has one start, whose time is its own (PROV-CONSTRAINTS, 29).
  if (first !== undefined) begins(run, first);
  if (calls.length < 2) return new Map();
  const outputs = Map.groupBy(events.filter(isOutput), (event) => lookup.callOf(event));
  const activities = new Map<RunCall | undefined, string>();
  for (const start of starts) {
    const call = lookup.callOf(start);
    const activity = document.declare('activity', `ce:call-${start.event_id}`, {
      'prov:type': qualified('ce:Call'),
      'prov:startTime': dateTimeOf(start.timestamp),
      'prov:endTime': endOf(outputs.get(call) ?? [], start),
    });
    activities.set(call, activity);
    begins(activity, start, run);
  }
  for (const start of starts) {
    const outer = lookup.event(start.parent_event_id);
    const informant = outer && activities.get(lookup.callOf(outer));
    const informed = activities.get(lookup.callOf(start));
    if (informant !== undefined && informant !== informed)
      document.relate('wasInformedBy', { 'prov:informed': informed, 'prov:informant': informant });
  }
  return activities;
}

function isOutput({ kind, payload }: RecordedEvent): boolean {
  return kind === 'human-output' && payload === undefined;
}

/** The last output, unless the clocks say that it was shown before the start. */
function endOf(outputs: readonly RecordedEvent[], start: RecordedEvent): string | undefined {
  const last = outputs.at(-1);
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
  /** The call to which the event belongs, or the run. */
  readonly activity: string;
  readonly run: string;
  /** The events that are their own ancestors. */
  readonly cyclic: ReadonlySet<string>;
}

function relateEvent(
  document: ProvDocument,
  lookup: RecordLookup,
  { event, activity, run, cyclic }: Placed,
): void {
  const id = `event:${event.event_id}`;
  const time = dateTimeOf(event.timestamp);
  const parent = lookup.event(event.parent_event_id);
  switch (event.kind) {
    case 'inference-start': // relateStart
      return;
    case 'internal-artifact':
    case 'human-output':
      document.relate('wasGeneratedBy', {
        'prov:entity': id,
        'prov:activity': activity,
        'prov:time': time,
      });
      // An entity must not be derived from itself, directly or indirectly (PROV-CONSTRAINTS, 5.2).
      if (parent !== undefined && isProduct(parent) && !cyclic.has(event.event_id)) {
        document.relate('wasDerivedFrom', {
          'prov:generatedEntity': id,
          'prov:usedEntity': `event:${parent.event_id}`,
        });
      }
      return;
    case 'outcome':
    case 'user-feedback': {
      // An outcome is not made by the run, only attributed to it: this is PROV's weakest relation.
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

/** The model, the caller, the target and the inputs of an inference-start. */
function relateStart(
  document: ProvDocument,
  lookup: RecordLookup,
  { event, activity }: Pick<Placed, 'event' | 'activity'>,
): void {
  const call = lookup.callOf(event);
  const { organisation } = lookup.record.metadata;
  const model = modelOf(document, call?.model);
  const user = userOf(document, call?.user, organisation);
  const associate = (agent: string, role: string) => {
    document.relate('wasAssociatedWith', {
      'prov:activity': activity,
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
      'prov:activity': activity,
    });
  }
  if (call?.inputs != null) {
    const address = addressIn(call.inputs.input_uri);
    const inputsId = `ce:inputs-${event.event_id}`;
    document.declare('entity', inputsId, {
      'prov:type': qualified('ce:Inputs'),
      'prov:location': address && uri(address),
    });
    document.relate('used', {
      'prov:activity': activity,
      'prov:entity': inputsId,
      'prov:time': dateTimeOf(event.timestamp),
    });
  }
  const target = targetOf(document, call?.target, organisation);
  if (target !== undefined) {
    document.relate('wasInfluencedBy', { 'prov:influencee': activity, 'prov:influencer': target });
  }
}

function modelOf(document: ProvDocument, model: Payload | null | undefined): string | undefined {
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

function userOf(
  document: ProvDocument,
  user: Payload | null | undefined,
  organisation: string,
): string | undefined {
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
  target: Payload | null | undefined,
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

/** A name for an agent or a target that is the same in every document. It is not a pseudonym. */
function digest(...names: readonly (string | undefined)[]): string {
  return createHash('sha256').update(JSON.stringify(names)).digest('hex').slice(0, 32);
}
