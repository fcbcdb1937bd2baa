/**
 * Captures spans of generative AI by a span processor. `@clinical-events/protocol/spans` reads the attributes
 * of all known emitters; this module turns the spans of one process into nested runs.
 */
import {
  checkOptions,
  type InstrumentationOptions,
  ModelCall,
  OpenCalls,
  quietly,
  type RunsIn,
} from './model-call.js';
import {
  type Findings,
  findingsOf,
  identify,
  type Known,
  type SpanData,
  word,
} from '@clinical-events/protocol/spans';

export type { Answer, ToolCall, Usage } from '@clinical-events/protocol/spans';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

interface SpanId {
  readonly traceId: string;
  readonly spanId: string;
}

type Time = readonly [seconds: number, nanoseconds: number];

/**
 * The members that spans of all SDK versions share. The SDK's types differ by version and are not imported.
 */
interface ReadableSpan extends Omit<SpanData, 'scope'> {
  readonly startTime: Time;
  readonly endTime: Time;
  readonly duration: Time;
  readonly status: { readonly code: number };
  readonly parentSpanContext?: SpanId | undefined;
  /** In version 1, instead of the context. */
  readonly parentSpanId?: string | undefined;
  readonly instrumentationScope?: { readonly name: string } | undefined;
  /** In version 1. */
  readonly instrumentationLibrary?: { readonly name: string } | undefined;
  spanContext(): SpanId;
}

/** A span that has not ended. */
interface Node {
  readonly span: ReadableSpan;
  readonly around: Node | undefined;
  readonly depth: number;
  known?: Known;
  call?: ModelCall;
}

/** A deeper span is not nested. */
const DEEPEST = 256;

/**
 * A processor for the tracer provider. A span of a model or an agent becomes a run, nested in the run of the
 * nearest enclosing span; a span of a tool becomes an artifact of its run. The processor sees only sampled
 * spans. It changes no span and never throws.
 */
export class RunSpanProcessor {
  readonly #runs: RunsIn;
  readonly #options: InstrumentationOptions;
  readonly #open = new OpenCalls<Node>();
  readonly #warned = new Set<string>();

  /** @param runs the client, the run that the calls belong to, or a function that returns one of them. */
  constructor(runs: RunsIn, options: InstrumentationOptions = {}) {
    this.#runs = runs;
    checkOptions(options);
    this.#options = options;
  }

  onStart(span: ReadableSpan): void {
    quietly(() => {
      const around = this.#open.get(parentOf(span));
      const depth = (around?.depth ?? 0) + 1;
      const node: Node = { span, around: depth > DEEPEST ? undefined : around, depth };
      this.#open.begin(idOf(span.spanContext()), node);
      this.#identify(node, false, this.#around(node));
    });
  }

  onEnd(span: ReadableSpan): void {
    quietly(() => {
      const open = this.#open.end(idOf(span.spanContext()));
      const node = open ?? { span, around: this.#open.get(parentOf(span)), depth: 0 };
      const reason = this.#identify(node, true, this.#around(node));
      if (reason !== undefined) this.#passOver(reason);
      const { known } = node;
      if (!known) return;
      const found = findingsOf(dataOf(span), known.kind);
      const within = node.call ?? this.#around(node);
      if (!within) this.#passOver('outside of any run');
      else this.#record(span, known, found, within, node.call !== undefined);
    });
  }

  /** Does nothing: flush or close the client, which sends the events. */
  async forceFlush(): Promise<void> {
    await Promise.resolve();
  }

  async shutdown(): Promise<void> {
    await Promise.resolve();
  }

  /**
   * Begins the run of a span that is a call, as soon as its attributes show it.
   * @returns the reason if the span is ignored.
   */
  #identify(node: Node, isWhole: boolean, within: ModelCall | undefined): string | undefined {
    if (node.known) return undefined;
    const found = identify(dataOf(node.span), within === undefined, isWhole);
    if (found.kind === undefined) return found.reason;
    node.known = found;
    if (found.kind !== 'model' && found.kind !== 'agent') return undefined;
    const { operation, streamed, provider = 'unknown', model, conversation, agentName, agentModel } = found;
    const { traceId, spanId } = node.span.spanContext();
    node.call = new ModelCall(within?.run ?? this.#runs, this.#options, {
      ...{ by: 'opentelemetry', provider, model, request: node.span },
      inputs: { operation, streamed },
      timestamp: new Date(milliseconds(node.span.startTime)),
      marks: {
        ...{ trace_id: traceId, span_id: spanId },
        ...(conversation !== undefined && { conversation_id: conversation }),
        ...(agentName !== undefined && { agent_name: agentName }),
        ...(agentModel !== undefined && { agent_model: agentModel }),
      },
    });
    return undefined;
  }

  /**
   * The innermost enclosing run. Spans are identified again, because some SDKs name them only after their
   * start.
   */
  #around(node: Node): ModelCall | undefined {
    const unknown: Node[] = [];
    let { around } = node;
    for (; around && !around.call; around = around.around) if (!around.known) unknown.push(around);
    let call = around?.call;
    for (const each of unknown.reverse()) {
      this.#identify(each, false, call);
      call = each.call ?? call;
    }
    return call;
  }

  #record(span: ReadableSpan, { kind }: Known, found: Findings, call: ModelCall, isOwn: boolean): void {
    const { answer, tool, errorName } = found;
    const timestamp = new Date(milliseconds(span.endTime));
    const when = { latencyMs: Math.round(milliseconds(span.duration)), timestamp };
    const failure = found.failed && { error_name: errorName ?? 'unknown' };
    if (kind === 'tool') {
      const named = { tool_name: word(tool.name), call_id: word(tool.id) };
      call.artifact('tool_call', { ...named, executed: true, ...failure }, when);
    }
    if (kind === 'retrieval') {
      for (const { id, score, text = '' } of found.documents) {
        const about = { document_id: word(id), ...(typeof score === 'number' && { score }) };
        call.artifact('text_chunk', { ...about, characters: text.length, ...failure }, when);
      }
    }
    if (kind === 'evaluation' && found.evaluations.length === 0) found.evaluations.push({ name: span.name });
    for (const { name, score, label } of found.evaluations) {
      const about = { evaluation_name: word(name), ...(typeof score === 'number' && { score }) };
      call.artifact('explanation', { ...about, label: word(label), ...failure }, when);
    }
    if (!isOwn) return;
    const said = span.attributes['clinical_events.shown'];
    const shown = typeof said === 'boolean' ? said : undefined;
    const isLost = !found.answered && (span.droppedAttributesCount ?? 0) > 0;
    const ending = found.ending ?? (found.failed ? 'failed' : isLost ? 'not read' : 'complete');
    // An agent's span without words is not an output.
    const worded = answer.hasContent || shown === true || (kind === 'model' && found.isUnseen);
    const also = found.usageOfAll && { usage_of_all: found.usageOfAll };
    const name = found.failed ? (errorName ?? 'unknown') : undefined;
    call.end({ ...{ ending, answer, worded, shown, also }, errorName: name, ...when });
  }

  /** Warns once for each reason, without words of the span. */
  #passOver(reason: string): void {
    if (this.#warned.has(reason)) return;
    this.#warned.add(reason);
    process.emitWarning(`spans about models are passed over: ${reason}`, 'ClinicalEventsWarning');
  }
}

function dataOf(span: ReadableSpan): SpanData {
  const { name, attributes, events, status, droppedAttributesCount } = span;
  const scope = (span.instrumentationScope ?? span.instrumentationLibrary)?.name;
  return { name, attributes, events, status, droppedAttributesCount, scope };
}

function idOf({ traceId, spanId }: SpanId): string {
  return `${traceId}-${spanId}`;
}

function parentOf(span: ReadableSpan): string | undefined {
  const { parentSpanContext: parent, parentSpanId } = span;
  if (parent) return idOf(parent);
  return parentSpanId === undefined ? undefined : idOf({ ...span.spanContext(), spanId: parentSpanId });
}

function milliseconds([seconds, nanoseconds]: Time): number {
  return seconds * 1000 + nanoseconds / 1e6;
}
