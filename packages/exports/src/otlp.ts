/**
 * A record in OTLP/JSON: an ExportTraceServiceRequest with a trace of the run, and one more for each outcome and each
 * feedback, which may come months later and would make the run a speck in its own trace. Links lead from one to the
 * other, and from a nested run to where it was started. docs/reference/records.md, "OTLP/JSON", is the mapping as a
 * table.
 *
 * Every event is a span, so that anyone who knows an event's id can name its span. Content and identities of people
 * stay out: the conventions make content opt-in, and a tracing backend is not a place to look after it (values.ts).
 */
import { createHash } from 'node:crypto';
import type { ClinicalRecord, EventKind, RecordedEvent } from '@clinical-events/protocol';
import { instantOf, readInstant } from '@clinical-events/collector/records/instant';
import { numberOf } from '@clinical-events/collector/records/raw-json';
import type { RecordDocument } from '@clinical-events/collector/records/exports/file-format';
import {
  ARTIFACT_TYPES,
  CALLER_TYPES,
  FEEDBACK_TYPES,
  LAST_NANOSECOND,
  OUTCOME_TYPES,
  OUTPUT_TYPES,
  RecordLookup,
  TARGET_TYPES,
  addressIn,
  nameIn,
  nanosecondsOf,
  ratingIn,
  wordIn,
} from './values.js';

/* The parts of OTLP/JSON: protobuf's JSON mapping, but with ids in hexadecimal and enums as numbers (OTLP 1.x, "JSON"). */

type AnyValue =
  | { readonly stringValue: string }
  | { readonly intValue: string }
  | { readonly doubleValue: number }
  | { readonly boolValue: boolean }
  | { readonly arrayValue: { readonly values: readonly AnyValue[] } };

interface KeyValue {
  readonly key: string;
  readonly value: AnyValue;
}

/** What may be said; undefined and an empty list say nothing. Whole numbers are bigint, all others doubles. */
type AttributeValue = string | bigint | number | boolean | readonly string[] | undefined;

interface Link {
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes?: readonly KeyValue[];
}

interface SpanEvent {
  readonly timeUnixNano: string;
  readonly name: string;
  readonly attributes: readonly KeyValue[];
}

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: SpanKind;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly KeyValue[];
  readonly events?: readonly SpanEvent[];
  readonly links?: readonly Link[];
}

const SPAN_KIND = { internal: 1, client: 3 } as const;
type SpanKind = (typeof SPAN_KIND)[keyof typeof SPAN_KIND];

function attributes(said: Readonly<Record<string, AttributeValue>>): KeyValue[] {
  const list: KeyValue[] = [];
  for (const [key, value] of Object.entries(said)) {
    const any = anyValue(value);
    if (any !== undefined) list.push({ key, value: any });
  }
  return list;
}

function anyValue(said: AttributeValue): AnyValue | undefined {
  switch (typeof said) {
    case 'undefined':
      return undefined;
    case 'string':
      return { stringValue: said };
    case 'bigint':
      return { intValue: String(said) };
    case 'number':
      return { doubleValue: said };
    case 'boolean':
      return { boolValue: said };
    default:
      return said.length === 0
        ? undefined
        : { arrayValue: { values: said.map((stringValue) => ({ stringValue })) } };
  }
}

const NO_TRACE = '0'.repeat(32);

/** The 16 bytes of a UUID; of its hash for the one of zeros only, which is no trace id. */
function traceIdOf(uuid: string): string {
  const hex = uuid.replaceAll('-', '');
  return hex === NO_TRACE ? sha256(uuid).slice(0, 32) : hex;
}

/** Eight bytes of the hash of an event's id: who knows the id of an event knows its span. */
function spanIdOf(eventId: string): string {
  return sha256(eventId).slice(0, 16);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/* When a span began and ended, in nanoseconds since 1970 UTC by the sender's clock. */

export interface SpanTime {
  readonly start: bigint;
  /** Not before the start. */
  readonly end: bigint;
}

/**
 * An event reports what is over: it ended at the timestamp, and began its own latency before. Only an inference-start
 * reports what begins.
 */
export function timeOf({ kind, timestamp, received_at, system_metadata }: RecordedEvent): SpanTime {
  // Nanoseconds since 1970 reach to 2554. Outside, and unread, the collector's clock stands in for the sender's.
  const said = timestamp === null ? undefined : nanosecondsOf(readInstant(timestamp));
  const at = said ?? nanosecondsOf(instantOf(Date.parse(received_at))) ?? 0n;
  const milliseconds = numberOf(system_metadata?.latency_ms) ?? 0;
  const latency = milliseconds > 0 ? BigInt(Math.round(milliseconds)) * 1_000_000n : 0n;
  if (kind !== 'inference-start') return { start: at < latency ? 0n : at - latency, end: at };
  return { start: at, end: LAST_NANOSECOND - at < latency ? LAST_NANOSECOND : at + latency };
}

/** From the earliest start to the latest end. */
function spanning(times: readonly SpanTime[]): SpanTime {
  return times.reduce((a, b) => ({
    start: b.start < a.start ? b.start : a.start,
    end: b.end > a.end ? b.end : a.end,
  }));
}

/** The release of the conventions that the names are from. */
const SCHEMA_URL = 'https://opentelemetry.io/schemas/1.41.0';

export const otlp: RecordDocument = (record) => JSON.stringify(requestOf(record));

/** What the span of an artifact is called by the conventions; they have no operation for the other types. */
const ARTIFACT_OPERATIONS: Readonly<Record<string, { readonly operation: string; readonly kind: SpanKind }>> =
  {
    tool_call: { operation: 'execute_tool', kind: SPAN_KIND.internal },
    text_chunk: { operation: 'retrieval', kind: SPAN_KIND.client },
  };

const LATER: ReadonlySet<EventKind> = new Set<EventKind>(['outcome', 'user-feedback']);

/** A span, and where it was produced. */
interface Produced {
  readonly span: Span;
  readonly event: RecordedEvent | undefined;
}

function requestOf(record: ClinicalRecord) {
  const run = new RunTrace(record);
  const bySource = new Map<string, { attributes: ReturnType<typeof attributes>; spans: Span[] }>();
  for (const { span, event } of run.spans()) {
    const resource = resourceOf(record, event);
    const source = JSON.stringify(resource);
    const group = bySource.get(source);
    if (group === undefined) bySource.set(source, { attributes: resource, spans: [span] });
    else group.spans.push(span);
  }
  const scope = { name: 'clinical-events' };
  return {
    resourceSpans: [...bySource.values()].map(({ attributes, spans }) => ({
      resource: { attributes },
      scopeSpans: [{ scope, spans, schemaUrl: SCHEMA_URL }],
      schemaUrl: SCHEMA_URL,
    })),
  };
}

const PROCESS_ID = /^[1-9]\d{0,9}$/;

function resourceOf({ metadata }: ClinicalRecord, event: RecordedEvent | undefined) {
  const { hostname, app_name, proc_id } = event?.system_metadata ?? {};
  const process = nameIn(proc_id);
  const pid = process !== undefined && PROCESS_ID.test(process) ? BigInt(process) : undefined;
  return attributes({
    // The conventions ask for a service name, and for this one where none is known.
    'service.name': nameIn(app_name) ?? 'unknown_service',
    'service.instance.id': pid === undefined ? process : undefined,
    'host.name': nameIn(hostname),
    'process.pid': pid,
    'clinical_events.organisation': nameIn(metadata.organisation),
  });
}

/** The spans of one record, made of its events. */
class RunTrace {
  readonly #record: ClinicalRecord;
  readonly #lookup: RecordLookup;
  readonly #traceId: string;
  readonly #start: RecordedEvent | undefined;
  /** The events of the run's own trace but for its start. */
  readonly #within: readonly RecordedEvent[];
  readonly #cyclic: ReadonlySet<string>;
  readonly #rootId: string;

  constructor(record: ClinicalRecord) {
    const { events, record_id, conflicts } = record.metadata;
    this.#record = record;
    this.#lookup = new RecordLookup(record);
    this.#traceId = traceIdOf(record_id);
    this.#start = events.find(({ kind }) => kind === 'inference-start');
    this.#within = events.filter((event) => event !== this.#start && !LATER.has(event.kind));
    const cycle = conflicts.find(({ kind }) => kind === 'parent_cycle');
    this.#cyclic = new Set(cycle?.event_ids);
    // A record may have the id of one of its events, which has a span of its own.
    this.#rootId = spanIdOf(this.#start?.event_id ?? `run ${record_id}`);
  }

  *spans(): Generator<Produced> {
    const { events } = this.#record.metadata;
    if (this.#hasRoot) yield { span: this.#root(), event: this.#start };
    for (const event of events) {
      if (event === this.#start) continue;
      yield { span: LATER.has(event.kind) ? this.#later(event) : this.#child(event), event };
    }
  }

  /** Of a record of nothing but outcomes and feedback, the run's trace has nothing to show. */
  get #hasRoot(): boolean {
    return this.#start !== undefined || this.#within.length > 0;
  }

  #root(): Span {
    const { metadata, model } = this.#record;
    const operation = operationOf(this.#record);
    const modelId = nameIn(model?.model_id);
    const { parent, completeness, conflicts } = metadata;
    const links: Link[] = [];
    if (parent?.run_id != null) {
      links.push({ traceId: traceIdOf(parent.run_id), spanId: spanIdOf(parent.event_id) });
    }
    const { start, end } = this.#rootTime();
    return {
      traceId: this.#traceId,
      spanId: this.#rootId,
      name: modelId === undefined ? operation : `${operation} ${modelId}`,
      kind: SPAN_KIND.client,
      startTimeUnixNano: String(start),
      endTimeUnixNano: String(end),
      attributes: attributes({
        'gen_ai.operation.name': operation,
        ...(this.#start !== undefined && this.#startAttributes(this.#start)),
        'clinical_events.record.id': metadata.record_id,
        'clinical_events.completeness.level': completeness.level,
        'clinical_events.completeness.missing': completeness.missing,
        'clinical_events.completeness.replaced_text': completeness.replaced_text,
        'clinical_events.conflicts': [...new Set(conflicts.map(({ kind }) => kind))],
      }),
      ...(links.length > 0 && { links }),
    };
  }

  /** From the start to the last output; without output, as long as the start says that it took. */
  #rootTime(): SpanTime {
    if (this.#start === undefined) return spanning(this.#within.map(timeOf));
    const { start, end } = timeOf(this.#start);
    const outputs = this.#within.filter(({ kind }) => kind === 'human-output');
    const shown = outputs.length === 0 ? end : spanning(outputs.map(timeOf)).end;
    return { start, end: shown < start ? start : shown };
  }

  #child(event: RecordedEvent): Span {
    const said = this.#lookup.payload(event);
    const artifactType = wordIn(ARTIFACT_TYPES, said['artifact_type']);
    const known = artifactType === undefined ? undefined : ARTIFACT_OPERATIONS[artifactType];
    const { start, end } = timeOf(event);
    return {
      traceId: this.#traceId,
      spanId: spanIdOf(event.event_id),
      parentSpanId: this.#parentSpanOf(event),
      name: known?.operation ?? (artifactType === undefined ? event.kind : `${event.kind} ${artifactType}`),
      kind: known?.kind ?? SPAN_KIND.internal,
      startTimeUnixNano: String(start),
      endTimeUnixNano: String(end),
      attributes: attributes({
        'gen_ai.operation.name': known?.operation,
        'gen_ai.tool.call.id': artifactType === 'tool_call' ? event.event_id : undefined,
        ...(event.kind === 'inference-start' ? this.#startAttributes(event) : eventAttributes(event)),
        'clinical_events.artifact.type': artifactType,
        'clinical_events.artifact.uri': addressIn(said['artifact_uri']),
        'clinical_events.output.type': wordIn(OUTPUT_TYPES, said['output_type']),
        'clinical_events.output.uri': addressIn(said['output_uri']),
      }),
    };
  }

  /** A trace of its own, with a link to what it is about. */
  #later(event: RecordedEvent): Span {
    const said = this.#lookup.payload(event);
    const outcomeType = wordIn(OUTCOME_TYPES, said['outcome_type']);
    const feedbackType = wordIn(FEEDBACK_TYPES, said['feedback_type']);
    const { start, end } = timeOf(event);
    const events: SpanEvent[] = [];
    if (event.kind === 'user-feedback' && event.payload === undefined) {
      events.push({
        timeUnixNano: String(end),
        name: 'gen_ai.evaluation.result',
        attributes: attributes({
          'gen_ai.evaluation.name': feedbackType ?? 'feedback',
          'gen_ai.evaluation.score.value': ratingIn(said['rating_value']),
        }),
      });
    }
    const links = this.#linksOf(event);
    return {
      traceId: traceIdOf(event.event_id),
      spanId: spanIdOf(event.event_id),
      name: event.kind,
      kind: SPAN_KIND.internal,
      startTimeUnixNano: String(start),
      endTimeUnixNano: String(end),
      attributes: attributes({
        ...eventAttributes(event),
        'clinical_events.record.id': this.#record.metadata.record_id,
        'clinical_events.outcome.type': outcomeType,
        'clinical_events.outcome.evidence_uri': addressIn(said['evidence_uri']),
        'clinical_events.feedback.type': feedbackType,
      }),
      ...(events.length > 0 && { events }),
      ...(links.length > 0 && { links }),
    };
  }

  #linksOf(event: RecordedEvent): Link[] {
    const parent = this.#lookup.event(event.parent_event_id);
    if (parent !== undefined && LATER.has(parent.kind)) {
      return [{ traceId: traceIdOf(parent.event_id), spanId: spanIdOf(parent.event_id) }];
    }
    if (!this.#hasRoot) return [];
    return [
      { traceId: this.#traceId, spanId: parent === undefined ? this.#rootId : spanIdOf(parent.event_id) },
    ];
  }

  /** Its parent in the same trace, or the root: also where following parents leads back to it. */
  #parentSpanOf(event: RecordedEvent): string {
    const parent = this.#lookup.event(event.parent_event_id);
    if (parent === undefined || LATER.has(parent.kind) || this.#cyclic.has(event.event_id))
      return this.#rootId;
    return spanIdOf(parent.event_id);
  }

  #startAttributes(event: RecordedEvent): Readonly<Record<string, AttributeValue>> {
    const { model_instance, user_identity, target_identity, inputs } = this.#lookup.startOf(event);
    const modelId = nameIn(model_instance?.model_id);
    const version = nameIn(model_instance?.model_version);
    return {
      'gen_ai.request.model': modelId,
      'gen_ai.response.model':
        modelId !== undefined && version !== undefined ? `${modelId}@${version}` : modelId,
      ...eventAttributes(event),
      'clinical_events.model.version': version,
      'clinical_events.caller.type': wordIn(CALLER_TYPES, user_identity?.['caller_type']),
      'clinical_events.target.type': wordIn(TARGET_TYPES, target_identity?.['target_type']),
      'clinical_events.input.uri': addressIn(inputs?.input_uri),
    };
  }
}

/** A run that started others is an agent; one that was prompted generates content; of any other, that is not known. */
function operationOf({ metadata, inputs }: ClinicalRecord): string {
  if (metadata.children.length > 0) return 'invoke_agent';
  return typeof inputs?.prompt === 'string' ? 'generate_content' : 'inference';
}

function eventAttributes(event: RecordedEvent): Readonly<Record<string, AttributeValue>> {
  return {
    'clinical_events.event.id': event.event_id,
    'clinical_events.event.kind': event.kind,
    'clinical_events.event.sequence': BigInt(event.sequence),
    'clinical_events.event.received_at': event.received_at,
    'clinical_events.event.payload': event.payload,
    'clinical_events.event.action': event.action,
    'clinical_events.event.retired_at': event.retired_at,
  };
}
