/**
 * Reads one span in any known dialect: a function of that span alone. Attributes are hostile: no value is
 * assumed to have the expected type, and nothing here throws.
 */
import type { Fields } from '../values.js';
import { fields, isFailureStatus, modelName, text, word } from './answer.js';
import { TIMED_OUT } from './answer.js';
import { conversationOf } from './asked.js';
import { aiSdk } from './ai-sdk.js';
import { type Dialect, Findings, type Kind, type SpanData } from './dialect.js';
import { genAi, olderGenAi } from './genai.js';
import { langfuse } from './langfuse.js';
import { openInference } from './openinference.js';
import { traceloop } from './traceloop.js';
import { parsed } from './values.js';

export interface Known {
  readonly kind: Kind;
  readonly provider: string | undefined;
  /** The agent that calls a model, and the model that an agent states. */
  readonly agentName: string | undefined;
  readonly agentModel: string | undefined;
  /** The requested model; for an agent, its name or its workflow's name. */
  readonly model: string | undefined;
  readonly operation: string;
  readonly streamed: boolean;
  readonly conversation: string | undefined;
}

/** A span that is not a run. `reason` is undefined when no attribute of the span concerns models. */
interface PassedOver {
  readonly kind: undefined;
  readonly reason: string | undefined;
  /** Identical for all spans with such attributes. */
  readonly cause: string;
}

/** The first dialect that knows a span classifies it; its values take precedence. */
const DIALECTS: readonly Dialect[] = [genAi, openInference, traceloop, aiSdk, langfuse, olderGenAi];

/**
 * Classifies a span. Called when it begins, with its first attributes, and when it ends.
 * @param isRoot whether no enclosing span is a run: an outermost chain is an agent.
 * @param isWhole whether the span has ended: before that, an unknown span may become known.
 */
export function identify(span: SpanData, isRoot: boolean, isWhole: boolean): Known | PassedOver {
  for (const dialect of isWhole ? DIALECTS : DIALECTS.slice(0, -1)) {
    const kind = dialect.kindOf(span, isRoot);
    if (typeof kind === 'object') return passedOver(span, kind.reason);
    if (kind !== undefined) return known(span, kind);
  }
  return passedOver(span, 'unknown names');
}

function passedOver({ attributes }: SpanData, reason: string): PassedOver {
  const isAbout = Object.keys(attributes).some((name) => /^(gen_ai|llm)\./.test(name));
  return { kind: undefined, reason: isAbout ? reason : undefined, cause: reason };
}

function known(span: SpanData, kind: Kind): Known {
  const said = (...names: readonly string[]) => first(span.attributes, names);
  const { model: parameter } = fields(parsed(said('llm.invocation_parameters')));
  const model =
    said('gen_ai.request.model', 'llm.request.model_name', 'llm.request.model') ??
    text(parameter) ??
    said('llm.model_name', 'ai.model.id', 'langfuse.observation.model.name');
  const agent = said(
    ...['gen_ai.agent.name', 'gen_ai.workflow.name', 'agent.name', 'traceloop.entity.name'],
    ...['traceloop.workflow.name', 'ai.telemetry.functionId'],
  );
  const names = ['gen_ai.operation.name', 'openinference.span.kind', 'traceloop.span.kind'];
  const more = ['ai.operationId', 'langfuse.observation.type', 'llm.request.type'];
  return {
    kind,
    provider: said(
      ...['gen_ai.provider.name', 'gen_ai.system', 'llm.provider', 'llm.system', 'llm.vendor'],
      'ai.model.provider',
    ),
    model: kind === 'agent' ? (agent ?? span.name) : model,
    agentName: kind === 'model' ? modelName(said('gen_ai.agent.name', 'agent.name')) : undefined,
    agentModel: kind === 'agent' ? modelName(model) : undefined,
    operation: word(said(...names, ...more)) ?? kind,
    streamed: isStreamed(span.attributes) || /\.(doStream|streamText)$/.test(span.name),
    conversation: word(conversationOf(span.attributes)),
  };
}

/** The conventions, OpenLLMetry, OpenLIT, and OpenTelemetry for Go. */
const STREAMED = ['gen_ai.request.stream', 'gen_ai.is_streaming', 'gen_ai.request.is_stream'];

/** Called when a span has ended. */
export function findingsOf(span: SpanData, kind: Kind): Findings {
  const found = new Findings();
  const decides = DIALECTS.find((dialect) => dialect.kindOf(span, true) !== undefined);
  for (const dialect of [...(decides ? [decides] : []), ...DIALECTS.filter((other) => other !== decides)]) {
    try {
      dialect.find(span, kind, found);
    } catch {
      // Earlier findings are kept.
    }
  }
  try {
    endingOf(span, found);
  } catch {
    found.failed ||= span.status.code === 2;
  }
  if (kind === 'agent') {
    const { usage } = found.answer;
    if (Object.keys(usage).length > 0) found.usageOfAll = usage;
    found.answer.usage = {};
  }
  return found;
}

function endingOf({ attributes, events, status }: SpanData, found: Findings): void {
  const type = text(attributes['error.type']);
  const exception = events?.findLast(({ name }) => name === 'exception')?.attributes?.['exception.type'];
  // An answer that a filter stopped before its first word has no words that were missed.
  found.answered ||= /^content[-_]filter$/.test(found.answer.finishReason ?? '');
  found.failed ||= status.code === 2 || type !== undefined || found.answer.finishReason === 'error';
  if (!found.failed) {
    // The stream broke, and its emitter noticed no error.
    if (found.isOpen && found.answer.finishReason === undefined && isStreamed(attributes))
      found.ending = 'cut off';
    return;
  }
  const isStatus = /^[1-5]\d\d$/.test(type ?? '');
  const name = word(isStatus ? undefined : type) ?? word(exception) ?? word(type) ?? found.errorName;
  found.errorName = /time_?d?[-_ ]?out|deadline_?exceeded/i.test(name ?? '') ? TIMED_OUT.errorName : name;
  const said = attributes['http.response.status_code'] ?? attributes['http.status_code'];
  const code = typeof said === 'number' ? said : Number(text(said) ?? (isStatus ? type : undefined));
  found.answer.status = isFailureStatus(code) ? code : found.answer.status;
  const { errorName, answer } = found;
  const isWell = typeof said === 'number' && said >= 200 && said < 300;
  const hasBegun = answer.hasContent || (answer.id ?? answer.model) !== undefined;
  if (/abort|cancell?ed/i.test(name ?? '')) found.ending = 'aborted';
  // The answer began, with a status of success or with words, and then broke off.
  else if (errorName !== TIMED_OUT.errorName && (isWell || (hasBegun && /connection/i.test(errorName ?? ''))))
    found.ending = 'cut off';
}

function isStreamed(attributes: Fields): boolean {
  return STREAMED.some((name) => attributes[name] === true);
}

/** The first value that is a string. */
function first(attributes: Fields, names: readonly string[]): string | undefined {
  const name = names.find((each) => typeof attributes[each] === 'string' && attributes[each] !== '');
  return name === undefined ? undefined : (attributes[name] as string);
}
