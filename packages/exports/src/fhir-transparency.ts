/**
 * HL7's guide "AI Transparency on FHIR" (hl7.fhir.uv.aitransparency 1.0.0-ballot, and its main branch of
 * August 2026): a DocumentReference with the label AIAST for each artifact and output, and an AI Provenance
 * for each call of a model and each verification.
 */
import type { RecordedEvent, RunCall } from '@clinical-events/protocol';
import { thumbOf } from '@clinical-events/collector/records/vocabulary';
import { eventReference } from './fhir-audit.js';
import { CODES, concept, derivedId, KINDS, listOrNone, type Part, SYSTEMS, uuid } from './fhir-codes.js';
import { ARTIFICIAL_INTELLIGENCE, callerOf, GUIDE, type ModelDevices, targetOf } from './fhir-parties.js';
import { addressIn, dateTimeOf, type Payload, ratingIn, type RecordLookup } from './values.js';

/** From this rating on, of 5, feedback approves of the output, as a thumb up does. */
const LEAST_APPROVING = 3;
/** Maximum number of models that the Provenance of a run names. */
const MOST_MODELS = 100;

/** The documents in canonical order, then the Provenances of their creation and verification. */
export function transparencyOf(lookup: RecordLookup, devices: ModelDevices): Part[] {
  const { events } = lookup.record.metadata;
  const products = events.filter((event) => isProduct(lookup, event));
  const byCall = Map.groupBy(events, (event) => lookup.callOf(event));
  const outputs = events.filter(({ kind }) => kind === 'human-output');
  const outputsByCall = Map.groupBy(outputs, (event) => lookup.callOf(event));
  const outputsOf: OutputsOf = (call) => (call === undefined ? outputs : (outputsByCall.get(call) ?? []));
  return [
    ...products.map((event) => documentOf(lookup, event, devices)),
    ...[...byCall].flatMap(([call, of]) => creationOf(lookup, devices, call, of)),
    ...events.flatMap((event) => verificationOf(lookup, devices, event, outputsOf)),
  ];
}

/** Returns the outputs of a call; without a call, the outputs of the run. */
type OutputsOf = (call: RunCall | undefined) => readonly RecordedEvent[];

/** Retrieved text is an input of the model, so it is not labelled as made by one. */
function isProduct(lookup: RecordLookup, event: RecordedEvent): boolean {
  if (event.payload !== undefined) return false;
  if (event.kind === 'human-output') return true;
  return event.kind === 'internal-artifact' && !isContext(lookup, event);
}

function isContext(lookup: RecordLookup, event: RecordedEvent): boolean {
  return lookup.payload(event)['artifact_type'] === 'text_chunk';
}

/** A reference to the document without its content, which is at its address. */
function documentOf(lookup: RecordLookup, event: RecordedEvent, devices: ModelDevices): Part {
  const { record } = lookup;
  const said = lookup.payload(event);
  const target = targetOf((lookup.callOf(event) ?? record).target, record.metadata.organisation);
  const author = devices.of(lookup.modelOf(event));
  const url = addressIn(said['output_uri']) ?? addressIn(said['artifact_uri']);
  return {
    resourceType: 'DocumentReference',
    id: documentId(event),
    meta: { security: [CODES.asserted] },
    identifier: [uuid(event.event_id)],
    status: 'current',
    subject: target?.what.type === 'Patient' ? target.what : undefined,
    date: event.received_at,
    author: author && [{ reference: author.reference }],
    content: [{ attachment: { url, creation: dateTimeOf(event.timestamp) ?? event.received_at } }],
  };
}

/** The creation of the documents of a call; without a call, of a run, by any of its calls. */
function creationOf(
  lookup: RecordLookup,
  devices: ModelDevices,
  call: RunCall | undefined,
  events: readonly RecordedEvent[],
): Part[] {
  const products = events.filter((event) => isProduct(lookup, event));
  const last = products.at(-1);
  const agent = last === undefined ? [] : agentsOf(lookup, devices, last);
  if (last === undefined || agent.length === 0) return [];
  const { record_id } = lookup.record.metadata;
  const given = [
    call?.inputs?.input_uri,
    ...events.flatMap((event) => (isContext(lookup, event) ? [lookup.payload(event)['artifact_uri']] : [])),
  ];
  const sources = given.map(addressIn).filter((value) => value !== undefined);
  return [
    {
      ...provenanceOf(products, agent),
      id: derivedId(
        call === undefined ? 'AI Provenance of run' : 'AI Provenance',
        call?.event_id ?? record_id,
      ),
      occurredDateTime: dateTimeOf((lookup.event(call?.event_id ?? null) ?? last).timestamp),
      recorded: last.received_at,
      activity: concept(CODES.create),
      entity: listOrNone(
        sources.map((value) => ({ role: 'source', what: { identifier: { system: SYSTEMS.uri, value } } })),
      ),
    },
  ];
}

/** The verification of a document, if the event names the clinician who approves it. */
function verificationOf(
  lookup: RecordLookup,
  devices: ModelDevices,
  event: RecordedEvent,
  outputsOf: OutputsOf,
): Part[] {
  const giver = lookup.giverOf(event);
  if (event.payload !== undefined || giver?.['caller_type'] !== 'clinician') return [];
  const who = callerOf(giver, lookup.record.metadata.organisation);
  if (who === undefined || !approves(event, lookup.payload(event))) return [];
  const product = verifiedBy(lookup, event, outputsOf);
  const agent = product === undefined ? [] : agentsOf(lookup, devices, product);
  if (product === undefined || agent.length === 0) return [];
  return [
    {
      ...provenanceOf([product], [...agent, { type: concept(CODES.verifier), who }]),
      id: derivedId('AI Provenance', event.event_id),
      occurredDateTime: dateTimeOf(event.timestamp),
      recorded: event.received_at,
      activity: concept(KINDS[event.kind].subtype),
      entity: [{ role: 'source', what: eventReference(lookup, event.event_id) }],
    },
  ];
}

/** A verifier vouches for a document (HL7's definition), so a contradiction is not a verification. */
function approves({ kind }: RecordedEvent, said: Payload): boolean {
  if (kind === 'outcome') return said['outcome_type'] === 'validated';
  const { feedback_type, direction, rating_value } = said;
  if (feedback_type === 'thumbs') return thumbOf(direction, rating_value) === 'up';
  return (ratingIn(rating_value) ?? 0) >= LEAST_APPROVING;
}

/** The nearest document among the event's parents; else the only output of its call or run. */
function verifiedBy(
  lookup: RecordLookup,
  event: RecordedEvent,
  outputsOf: OutputsOf,
): RecordedEvent | undefined {
  const seen = new Set<RecordedEvent>();
  for (let at = lookup.event(event.parent_event_id); at !== undefined && !seen.has(at);) {
    if (isProduct(lookup, at)) return at;
    seen.add(at);
    at = lookup.event(at.parent_event_id);
  }
  const [output, ...others] = outputsOf(lookup.callOf(event));
  return output !== undefined && others.length === 0 && isProduct(lookup, output) ? output : undefined;
}

/** The model that made the document is its author; if several may have made it, they are informants. */
function agentsOf(lookup: RecordLookup, devices: ModelDevices, product: RecordedEvent): Part[] {
  const model = lookup.modelOf(product);
  const several = lookup.callOf(product) === undefined ? lookup.models.slice(0, MOST_MODELS) : [];
  const type = concept(model === undefined ? CODES.informant : CODES.author);
  return (model === undefined ? several : [model])
    .map((each) => devices.of(each)?.reference)
    .filter((reference) => reference !== undefined)
    .map((reference) => ({ type, role: [ARTIFICIAL_INTELLIGENCE], who: { reference } }));
}

function provenanceOf(products: readonly RecordedEvent[], agent: readonly Part[]): Part {
  return {
    resourceType: 'Provenance',
    meta: { profile: [`${GUIDE}/StructureDefinition/AI-Provenance`] },
    target: products.map((event) => ({ reference: `urn:uuid:${documentId(event)}` })),
    reason: [concept(CODES.asserted)],
    agent,
  };
}

function documentId({ event_id }: RecordedEvent): string {
  return derivedId('DocumentReference', event_id);
}
