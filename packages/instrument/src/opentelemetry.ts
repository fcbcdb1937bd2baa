/**
 * Captures spans of generative AI: a span processor. Attributes are those of the semantic conventions for GenAI of
 * OpenTelemetry, which are not stable yet: names of version 1.45, and `gen_ai.system` of earlier ones.
 */
import { fields, type Fields, GrowingAnswer, list, text, word } from './answer.js';
import {
  checkOptions,
  type InstrumentationOptions,
  ModelCall,
  OpenCalls,
  quietly,
  type RunsIn,
} from './model-call.js';

export type { Answer, ToolCall, Usage } from './answer.js';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

interface SpanId {
  readonly traceId: string;
  readonly spanId: string;
}

type Time = readonly [seconds: number, nanoseconds: number];

/** What spans of every version of the SDK have; its own types differ by version, and are not imported. */
interface ReadableSpan {
  readonly attributes: Fields;
  readonly startTime: Time;
  readonly endTime: Time;
  readonly duration: Time;
  readonly status: { readonly code: number };
  readonly parentSpanContext?: SpanId | undefined;
  /** In version 1, in place of the context. */
  readonly parentSpanId?: string | undefined;
  spanContext(): SpanId;
}

/** Operations that are calls of a model, or of an agent that calls models. */
const CALLS = new Set<unknown>([
  'chat',
  'generate_content',
  'text_completion',
  'invoke_agent',
  'invoke_workflow',
]);
const COMPLETE = { ending: 'complete', worded: true } as const;
/** SpanStatusCode.ERROR of the API, which is not imported for one number. */
const STATUS_ERROR = 2;

/**
 * Give it to the tracer provider beside other processors. A span of a model or an agent becomes a run, nested in that
 * of the nearest span around it that is one; a span of a tool becomes an artifact of the run that it is in. It sees the
 * spans that are sampled for tracing, and no others. Changes no span, does not throw.
 */
export class RunSpanProcessor {
  readonly #runs: RunsIn;
  readonly #options: InstrumentationOptions;
  readonly #open = new OpenCalls();

  /** @param runs the client, a run that the calls belong to, or a function that gives one of them. */
  constructor(runs: RunsIn, options: InstrumentationOptions = {}) {
    this.#runs = runs;
    checkOptions(options);
    this.#options = options;
  }

  onStart(span: ReadableSpan): void {
    quietly(() => {
      const within = this.#open.get(parentOf(span))?.within;
      const own = this.#begun(span, within);
      if (own) this.#open.begin(idOf(span.spanContext()), { own, within: own });
      else if (within) this.#open.begin(idOf(span.spanContext()), { within });
    });
  }

  onEnd(span: ReadableSpan): void {
    quietly(() => {
      const { attributes, duration, endTime } = span;
      const open = this.#open.end(idOf(span.spanContext()));
      const within = this.#open.get(parentOf(span))?.within;
      const when = {
        latencyMs: Math.round(milliseconds(duration)),
        timestamp: new Date(milliseconds(endTime)),
      };
      // A library that names the operation only at the end: its run is told late, with the times of the span.
      const call = open?.own ?? this.#begun(span, within);
      if (call) {
        const failed = span.status.code === STATUS_ERROR;
        const answer = answerOf(attributes);
        // Spans do not say whether there were words.
        const ended = failed ? ({ ending: 'failed', ...failureOf(attributes) } as const) : COMPLETE;
        call.end({ ...ended, answer, ...when });
      } else if (attributes['gen_ai.operation.name'] === 'execute_tool') {
        const failure = word(attributes['error.type']);
        (open?.within ?? within)?.artifact(
          'tool_call',
          {
            tool_name: word(attributes['gen_ai.tool.name']),
            call_id: word(attributes['gen_ai.tool.call.id']),
            ...(failure !== undefined && { error_name: failure }),
          },
          when,
        );
      }
    });
  }

  /** What was captured is the client's to send: flush or close that. */
  async forceFlush(): Promise<void> {
    await Promise.resolve();
  }

  async shutdown(): Promise<void> {
    await Promise.resolve();
  }

  #begun(span: ReadableSpan, within: ModelCall | undefined): ModelCall | undefined {
    const { attributes } = span;
    const operation = attributes['gen_ai.operation.name'];
    if (!CALLS.has(operation)) return undefined;
    const provider = attributes['gen_ai.provider.name'] ?? attributes['gen_ai.system'];
    const model = attributes['gen_ai.request.model'] ?? attributes['gen_ai.agent.name'];
    return new ModelCall(within?.run ?? this.#runs, this.#options, {
      ...{ by: 'opentelemetry', provider: text(provider) ?? 'unknown', model: text(model), request: span },
      inputs: { operation, streamed: attributes['gen_ai.request.stream'] === true },
      timestamp: new Date(milliseconds(span.startTime)),
      marks: { trace_id: span.spanContext().traceId, span_id: span.spanContext().spanId },
    });
  }
}

/** `error.type` is the name of an error, or the status of HTTP. */
function failureOf(attributes: Fields): { errorName: string | undefined; status: number | undefined } {
  const type = word(attributes['error.type']);
  const status =
    attributes['http.response.status_code'] ?? (/^[1-5]\d\d$/.test(type ?? '') ? Number(type) : 0);
  return { errorName: type, status: typeof status === 'number' && status > 0 ? status : undefined };
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

function answerOf(attributes: Fields): GrowingAnswer {
  const answer = new GrowingAnswer();
  answer.id = text(attributes['gen_ai.response.id']);
  answer.model = text(attributes['gen_ai.response.model']);
  answer.finishReason = text(list(attributes['gen_ai.response.finish_reasons'])[0]);
  answer.count({
    input: attributes['gen_ai.usage.input_tokens'],
    output: attributes['gen_ai.usage.output_tokens'],
  });
  quietly(() => takeMessages(answer, attributes['gen_ai.output.messages']));
  return answer;
}

/** There only when the application has told its library to record content: JSON, since an attribute is no object. */
function takeMessages(answer: GrowingAnswer, messages: unknown): void {
  const told = typeof messages === 'string' ? (JSON.parse(messages) as unknown) : messages;
  for (const message of list(told)) {
    for (const part of list(fields(message)['parts'])) {
      const { type, content } = fields(part);
      if (type === 'text') answer.text += text(content) ?? '';
      else if (type === 'reasoning') answer.reasoning += text(content) ?? '';
    }
  }
}
