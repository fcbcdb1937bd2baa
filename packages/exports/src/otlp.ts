/**
 * A record in OTLP/JSON: an ExportTraceServiceRequest with a trace of the run and its calls, and a trace for
 * each outcome and feedback, which may come months later. Links connect these traces, and a nested run with
 * its caller. Every event is a span. docs/reference/records.md, "OTLP/JSON", has the mapping.
 *
 * Content and identities of people are left out, because a tracing backend does not protect them (values.ts).
 */
import type { ClinicalRecord, EventKind, RecordedEvent, RunCall } from '@clinical-events/protocol';
import type { RecordDocument } from '@clinical-events/collector/records/exports/file-format';
import { numberOf } from '@clinical-events/collector/records/raw-json';
import {
  attributes,
  type AttributeValue,
  type Link,
  type Span,
  SPAN_KIND,
  type SpanEvent,
  spanIdOf,
  type SpanKind,
  spanning,
  type SpanTime,
  timeOf,
  traceIdOf,
} from './otlp-parts.js';
import {
  ARTIFACT_TYPES,
  CALLER_TYPES,
  FEEDBACK_TYPES,
  OUTCOME_TYPES,
  OUTPUT_TYPES,
  RecordLookup,
  TARGET_TYPES,
  addressIn,
  nameIn,
  ratingIn,
  wordIn,
} from './values.js';

/**
 * The conventions for generative AI: the manifest of open-telemetry/semantic-conventions-genai of 2026-11-29.
 */
const SCHEMA_URL = 'https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev';
/** The general conventions on which these build, and which name resources. */
const RESOURCE_SCHEMA_URL = 'https://opentelemetry.io/schemas/1.44.0';

export const otlp: RecordDocument = (record) => JSON.stringify(requestOf(record));

/** Artifact types for which the conventions have an operation. */
const ARTIFACT_OPERATIONS: Readonly<Record<string, { readonly operation: string; readonly kind: SpanKind }>> =
  {
    tool_call: { operation: 'execute_tool', kind: SPAN_KIND.internal },
    text_chunk: { operation: 'retrieval', kind: SPAN_KIND.internal },
  };

/** Kinds of events with a trace of their own. */
const LATER: ReadonlySet<EventKind> = new Set<EventKind>(['outcome', 'user-feedback']);

/** A span with the event that gives its resource. */
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
      schemaUrl: RESOURCE_SCHEMA_URL,
    })),
  };
}

const PROCESS_ID = /^[1-9]\d{0,9}$/;

function resourceOf({ metadata }: ClinicalRecord, event: RecordedEvent | undefined) {
  const { hostname, app_name, proc_id } = event?.system_metadata ?? {};
  const process = nameIn(proc_id);
  const pid = process !== undefined && PROCESS_ID.test(process) ? BigInt(process) : undefined;
  return attributes({
    // The conventions require a service name, and specify this one if it is unknown.
    'service.name': nameIn(app_name) ?? 'unknown_service',
    'service.instance.id': pid === undefined ? process : undefined,
    'host.name': nameIn(hostname),
    'process.pid': pid,
    'clinical_events.organisation': nameIn(metadata.organisation),
  });
}

/** The spans of one record. */
class RunTrace {
  readonly #record: ClinicalRecord;
  readonly #lookup: RecordLookup;
  readonly #traceId: string;
  /** The start of a run with one call, which is the root. */
  readonly #start: RecordedEvent | undefined;
  /** The events of the run's own trace, except the root. */
  readonly #within: readonly RecordedEvent[];
  readonly #outputs: ReadonlyMap<RunCall | undefined, readonly RecordedEvent[]>;
  readonly #cyclic: ReadonlySet<string>;
  readonly #rootId: string;

  constructor(record: ClinicalRecord) {
    const { events, calls, record_id, conflicts } = record.metadata;
    this.#record = record;
    this.#lookup = new RecordLookup(record);
    this.#traceId = traceIdOf(record_id);
    this.#start = calls.length > 1 ? undefined : events.find(({ kind }) => kind === 'inference-start');
    this.#within = events.filter((event) => event !== this.#start && !LATER.has(event.kind));
    const outputs = events.filter(({ kind }) => kind === 'human-output');
    this.#outputs = Map.groupBy(outputs, (event) => this.#lookup.callOf(event));
    const cycle = conflicts.find(({ kind }) => kind === 'parent_cycle');
    this.#cyclic = new Set(cycle?.event_ids);
    // Not spanIdOf(record_id): a record may have the id of one of its events.
    this.#rootId = spanIdOf(this.#start?.event_id ?? `run ${record_id}`);
  }

  *spans(): Generator<Produced> {
    const { events } = this.#record.metadata;
    // The run has the resource of its first call.
    const first = events.find(({ kind }) => kind === 'inference-start');
    if (this.#hasRoot) yield { span: this.#root(), event: first };
    for (const event of events) {
      if (event === this.#start) continue;
      yield { span: LATER.has(event.kind) ? this.#later(event) : this.#child(event), event };
    }
  }

  /** False for a record that has only outcomes and feedback. */
  get #hasRoot(): boolean {
    return this.#start !== undefined || this.#within.length > 0;
  }

  #root(): Span {
    const { parent, completeness, conflicts, record_id } = this.#record.metadata;
    const links: Link[] = [];
    if (parent?.run_id != null) {
      links.push({ traceId: traceIdOf(parent.run_id), spanId: spanIdOf(parent.event_id) });
    }
    const { attributes: ofCall, ...span } = this.#start === undefined ? this.#run() : this.#call(this.#start);
    return {
      traceId: this.#traceId,
      spanId: this.#rootId,
      ...span,
      attributes: attributes({
        ...ofCall,
        'clinical_events.record.id': record_id,
        'clinical_events.completeness.level': completeness.level,
        'clinical_events.completeness.missing': completeness.missing,
        'clinical_events.completeness.replaced_text': completeness.replaced_text,
        'clinical_events.conflicts': [...new Set(conflicts.map(({ kind }) => kind))],
      }),
      ...(links.length > 0 && { links }),
    };
  }

  /** The root of a run with several calls, or without a known start. */
  #run(): CallSpan {
    const { children, calls } = this.#record.metadata;
    const isWorkflow = calls.length > 1;
    const operation = children.length > 0 ? 'invoke_agent' : isWorkflow ? 'invoke_workflow' : 'inference';
    const times = this.#within.map((event) => this.#timeOf(event));
    const kind = isWorkflow ? SPAN_KIND.internal : SPAN_KIND.client;
    return { name: operation, kind, ...written(spanning(times)), attributes: operationOf(operation) };
  }

  #call(start: RecordedEvent): CallSpan {
    const { children, calls } = this.#record.metadata;
    const call = this.#lookup.callOf(start);
    const prompted = typeof call?.inputs?.prompt === 'string' ? 'generate_content' : 'inference';
    const operation = calls.length === 1 && children.length > 0 ? 'invoke_agent' : prompted;
    const modelId = nameIn(call?.model?.model_id);
    return {
      name: modelId === undefined ? operation : `${operation} ${modelId}`,
      kind: SPAN_KIND.client,
      ...written(this.#timeOf(start)),
      attributes: {
        ...operationOf(operation),
        ...callAttributes(call),
        ...this.#partsOfUsage(call),
        ...eventAttributes(start),
      },
    };
  }

  /** The tokens of cache and reasoning, which the counts of input and output include. */
  #partsOfUsage(call: RunCall | undefined): Attributes {
    const end = this.#lookup.event(call?.ended?.event_id ?? null);
    const usage = end && this.#lookup.payload(end)['usage'];
    const counts = (typeof usage === 'object' ? usage : null) as Readonly<Record<string, unknown>> | null;
    const parts = Object.entries(PARTS_OF_USAGE).map(([name, part]) => [
      `gen_ai.usage.${name}`,
      tokens(numberOf(counts?.[part])),
    ]);
    return Object.fromEntries(parts) as Attributes;
  }

  /** A call lasts until its last output; without an output, for the latency of its start. */
  #timeOf(event: RecordedEvent): SpanTime {
    if (event.kind !== 'inference-start') return timeOf(event);
    const { start, end } = timeOf(event);
    const outputs = this.#outputs.get(this.#lookup.callOf(event)) ?? [];
    const shown = outputs.length === 0 ? end : spanning(outputs.map(timeOf)).end;
    return { start, end: shown < start ? start : shown };
  }

  #child(event: RecordedEvent): Span {
    const place = {
      traceId: this.#traceId,
      spanId: spanIdOf(event.event_id),
      parentSpanId: this.#parentSpanOf(event),
    };
    if (event.kind === 'inference-start') {
      const { attributes: ofCall, ...span } = this.#call(event);
      return { ...place, ...span, attributes: attributes(ofCall) };
    }
    const said = this.#lookup.payload(event);
    const artifactType = wordIn(ARTIFACT_TYPES, said['artifact_type']);
    const known = artifactType === undefined ? undefined : ARTIFACT_OPERATIONS[artifactType];
    return {
      ...place,
      name: known?.operation ?? (artifactType === undefined ? event.kind : `${event.kind} ${artifactType}`),
      kind: known?.kind ?? SPAN_KIND.internal,
      ...written(timeOf(event)),
      attributes: attributes({
        'gen_ai.operation.name': known?.operation,
        'gen_ai.tool.call.id': artifactType === 'tool_call' ? event.event_id : undefined,
        ...eventAttributes(event),
        'clinical_events.artifact.type': artifactType,
        'clinical_events.artifact.uri': addressIn(said['artifact_uri']),
        'clinical_events.output.type': wordIn(OUTPUT_TYPES, said['output_type']),
        'clinical_events.output.uri': addressIn(said['output_uri']),
      }),
    };
  }

  /** The span of a separate trace, with a link to the event or run that it refers to. */
  #later(event: RecordedEvent): Span {
    const said = this.#lookup.payload(event);
    const outcomeType = wordIn(OUTCOME_TYPES, said['outcome_type']);
    const feedbackType = wordIn(FEEDBACK_TYPES, said['feedback_type']);
    const time = timeOf(event);
    const events: SpanEvent[] = [];
    if (event.kind === 'user-feedback' && event.payload === undefined) {
      events.push({
        timeUnixNano: String(time.end),
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
      ...written(time),
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

  /** The parent in the same trace. The root if there is none, or if the event is in a parent cycle. */
  #parentSpanOf(event: RecordedEvent): string {
    const parent = this.#lookup.event(event.parent_event_id);
    if (parent === undefined || LATER.has(parent.kind) || this.#cyclic.has(event.event_id))
      return this.#rootId;
    return spanIdOf(parent.event_id);
  }
}

/** The span of a call or a run, without ids. */
interface CallSpan extends Pick<Span, 'name' | 'kind' | 'startTimeUnixNano' | 'endTimeUnixNano'> {
  readonly attributes: Attributes;
}

type Attributes = Readonly<Record<string, AttributeValue>>;

function written({ start, end }: SpanTime): Pick<Span, 'startTimeUnixNano' | 'endTimeUnixNano'> {
  return { startTimeUnixNano: String(start), endTimeUnixNano: String(end) };
}

function operationOf(operation: string): Attributes {
  return { 'gen_ai.operation.name': operation };
}

function callAttributes(call: RunCall | undefined): Attributes {
  const ended = call?.ended;
  const modelId = nameIn(call?.model?.model_id);
  const version = nameIn(call?.model?.model_version);
  const exact = modelId !== undefined && version !== undefined ? `${modelId}@${version}` : undefined;
  const answering = exact ?? nameIn(ended?.response_model);
  return {
    'gen_ai.request.model': modelId,
    'gen_ai.response.model': answering ?? modelId,
    'gen_ai.usage.input_tokens': tokens(ended?.input_tokens),
    'gen_ai.usage.output_tokens': tokens(ended?.output_tokens),
    'clinical_events.call.ending': ended?.ending,
    'clinical_events.model.version': version,
    'clinical_events.caller.type': wordIn(CALLER_TYPES, call?.user?.['caller_type']),
    'clinical_events.target.type': wordIn(TARGET_TYPES, call?.target?.['target_type']),
    'clinical_events.input.uri': addressIn(call?.inputs?.input_uri),
  };
}

/** The conventions' names of the parts of usage, and the clients' names. */
const PARTS_OF_USAGE = {
  'cache_read.input_tokens': 'cache_read_input_tokens',
  'cache_write.input_tokens': 'cache_creation_input_tokens',
  'reasoning.output_tokens': 'reasoning_output_tokens',
};

/** The conventions use 64-bit integers. */
function tokens(count: number | null | undefined): bigint | undefined {
  return typeof count === 'number' && Number.isSafeInteger(count) ? BigInt(count) : undefined;
}

function eventAttributes(event: RecordedEvent): Attributes {
  return {
    'clinical_events.event.id': event.event_id,
    'clinical_events.event.kind': event.kind,
    'clinical_events.event.sequence': BigInt(event.sequence),
    'clinical_events.event.received_at': event.received_at,
    'clinical_events.event.payload': event.payload,
    'clinical_events.event.action': event.action,
    'clinical_events.event.erased_at': event.erased_at,
  };
}
