/** OpenTelemetry's semantic conventions for GenAI, 1.26 and later, and their predecessors. */
import type { Fields } from '../values.js';
import { fields, type GrowingAnswer, list, mediumOf, text } from './answer.js';
import type { Dialect, Findings, SpanData } from './dialect.js';
import { documentOf, inputOf, parsed, reasonOf, wordsOf } from './values.js';

const KINDS = new Map<unknown, ReturnType<Dialect['kindOf']>>([
  ['chat', 'model'],
  ['generate_content', 'model'],
  ['text_completion', 'model'],
  ['invoke_agent', 'agent'],
  ['invoke_workflow', 'agent'],
  ['execute_tool', 'tool'],
  ['retrieval', 'retrieval'],
  // OpenLLMetry for LangChain.
  ['vector_db_retrieve', 'retrieval'],
  ['embeddings', { reason: 'embeddings' }],
  ['agent_step', { reason: 'steps of agents' }],
  ['create_agent', { reason: 'agents that are made' }],
]);
/** Model operations that do not produce an answer for a person. */
const OTHERS = /embed|image|audio|speech|transcri|moderat|rerank|video|memory|search|^plan$/i;
/** The conventions, the SDKs of Anthropic, Pydantic AI, OpenLIT and Sentry, and users of Langfuse. */
const USAGE = {
  input: named('input_tokens'),
  output: named('output_tokens'),
  cacheRead: named(
    ...['cache_read.input_tokens', 'cache_read_input_tokens', 'cache_read_tokens', 'input_cached_tokens'],
    ...['input_tokens.cached', 'prompt_tokens_details.cache_read'],
  ),
  cacheCreation: named(
    ...['cache_creation.input_tokens', 'cache_creation_input_tokens', 'cache_write.input_tokens'],
    ...['cache_write_tokens', 'input_cache_creation', 'input_tokens.cache_write'],
    'prompt_tokens_details.cache_write',
  ),
  reasoning: named(
    ...['reasoning.output_tokens', 'reasoning_tokens', 'output_tokens.reasoning', 'details.reasoning_tokens'],
    'completion_tokens_details.reasoning',
  ),
};
/** Pydantic AI's sum over an agent's models. */
const AGGREGATED = 'gen_ai.aggregated_usage.';

function named(...names: readonly string[]): readonly string[] {
  return names.map((name) => `gen_ai.usage.${name}`);
}

export const genAi: Dialect = {
  kindOf({ attributes }) {
    const operation = attributes['gen_ai.operation.name'];
    const isOther = OTHERS.test(text(operation) ?? '');
    return KINDS.get(operation) ?? (isOther ? { reason: 'other operations' } : undefined);
  },

  find({ attributes, events = [], scope }, kind, found) {
    const { answer } = found;
    answer.id ??= text(attributes['gen_ai.response.id']);
    answer.model ??= text(attributes['gen_ai.response.model']);
    answer.finishReason ??=
      reasonOf(attributes['gen_ai.response.finish_reasons'] ?? attributes['gen_ai.response.finish_reason']) ??
      reasonOf(attributes['anthropic.message.stop_reason']);
    found.tool.name ??= attributes['gen_ai.tool.name'];
    found.tool.id ??= attributes['gen_ai.tool.call.id'];
    if (kind === 'retrieval' && found.documents.length === 0)
      found.documents = list(parsed(attributes['gen_ai.retrieval.documents'])).map(documentOf);
    const isSum = kind === 'agent' && attributes[`${AGGREGATED}input_tokens`] !== undefined;
    const said = (names: readonly string[]) => {
      const all = isSum ? names.map((name) => name.replace('gen_ai.usage.', AGGREGATED)) : names;
      return attributes[all.find((name) => attributes[name] !== undefined) ?? ''];
    };
    const counts = {
      input: said(USAGE.input),
      output: said(USAGE.output),
      cacheRead: said(USAGE.cacheRead),
      cacheCreation: said(USAGE.cacheCreation),
      reasoning: said(USAGE.reasoning),
    };
    // Anthropic's own count, as in its interface.
    if (counts.input !== undefined || counts.output !== undefined)
      found.count(counts, scope === '@traceloop/instrumentation-anthropic');
    for (const { name, attributes: told = {} } of events)
      if (name === 'gen_ai.evaluation.result') found.evaluations.push(evaluationOf(told));
    if (!found.answered) findWords(attributes, events, kind, found);
    if (kind === 'model') findOpenLit(attributes, found);
    const reasons = attributes['gen_ai.response.finish_reasons'];
    found.isOpen ||= Array.isArray(reasons) && reasons.length === 0;
  },
};

/** OpenLIT writes requested tools as names and ids, each joined by commas. */
function findOpenLit(attributes: SpanData['attributes'], { answer }: Findings): void {
  const names = text(attributes['gen_ai.tool.name'])?.split(', ');
  if (names === undefined || answer.toolCalls.length > 0) return;
  const ids = text(attributes['gen_ai.tool.call.id'])?.split(', ') ?? [];
  const inputs = list(attributes['gen_ai.tool.call.arguments']);
  for (const [at, name] of names.entries())
    Object.assign(answer.toolCall(at), { name, id: ids[at], input: inputOf(inputs[at]) });
}

/** @param said attributes of an event or log record. */
export function evaluationOf(said: Fields): Findings['evaluations'][number] {
  return {
    name: said['gen_ai.evaluation.name'],
    label: said['gen_ai.evaluation.score.label'],
    score: said['gen_ai.evaluation.score.value'],
    explanation: said['gen_ai.evaluation.explanation'],
    by: said['clinical_events.evaluator.type'],
  };
}

function findWords(
  attributes: SpanData['attributes'],
  events: NonNullable<SpanData['events']>,
  kind: string,
  found: Findings,
): void {
  const details = events.find(({ name }) => name === 'gen_ai.client.inference.operation.details')?.attributes;
  const messages =
    attributes['gen_ai.output.messages'] ??
    details?.['gen_ai.output.messages'] ??
    (kind === 'agent' ? pydanticAnswers(attributes) : undefined);
  if (messages !== undefined) {
    found.answered = true;
    const all = list(parsed(messages));
    found.isOpen ||= kind === 'model' && all.some((each) => fields(each)['finish_reason'] === '');
    // The messages of an agent are steps of one answer; the last one with words counts.
    const told = kind === 'agent' ? [all.findLast(hasWords) ?? all.at(-1)] : all;
    for (const [at, message] of told.entries()) {
      if (fields(message)['parts'] === undefined) takeChat(found.answer, at, message, undefined, kind);
      else takeMessage(found.answer, at, message, kind);
    }
    return;
  }
  for (const { name, attributes: said = {} } of events) {
    if (name === 'gen_ai.choice') {
      found.answered = true;
      const { index, finish_reason: reason, message = said } = said;
      const at = /^\d{1,19}$/.test(text(index) ?? '') ? Number(index) : index;
      takeChat(found.answer, at, parsed(message), text(reason), kind);
    }
  }
  if (found.answered) return;
  const words = kind === 'model' ? text(attributes['gen_ai.completion']) : undefined;
  if (words !== undefined && list(parsed(words)).length === 0) {
    found.answered = true;
    found.answer.text = words;
    return;
  }
  const completion = events.find(({ name }) => name === 'gen_ai.content.completion')?.attributes;
  if (!completion) return;
  found.answered = true;
  for (const [at, message] of list(parsed(completion['gen_ai.completion'])).entries())
    takeChat(found.answer, at, message, undefined, kind);
}

/** Pydantic AI writes all messages of an agent's run into one attribute. */
function pydanticAnswers(attributes: SpanData['attributes']): unknown {
  const all = list(parsed(attributes['pydantic_ai.all_messages']));
  const answers = all.filter((message) => fields(message)['role'] === 'assistant');
  return answers.length > 0 ? answers : undefined;
}

function hasWords(message: unknown): boolean {
  return list(fields(message)['parts']).some((part) => fields(part)['type'] === 'text');
}

/** Takes a message of the conventions, a choice in parts. An agent's tools are requested by its models. */
function takeMessage(answer: GrowingAnswer, at: number, message: unknown, kind: string): void {
  const choice = answer.choice(at);
  const { parts, finish_reason: reason } = fields(message);
  choice.finishReason ??= text(reason) || undefined;
  for (const [number, part] of list(parts).entries()) {
    const { type, content, id, name, arguments: input, modality } = fields(part);
    if (type === 'text') choice.text += text(content) ?? '';
    else if (type === 'refusal') {
      choice.text += text(content) ?? '';
      answer.refused = true;
    } else if (type === 'reasoning') choice.reasoning += reasoningOf(content);
    else if (type === 'tool_call' || type === 'server_tool_call') {
      if (kind === 'agent') continue;
      const call = choice.toolCall(text(id) ?? number);
      call.id = text(id);
      call.name = text(name);
      call.input = inputOf(input);
      call.byProvider = type === 'server_tool_call';
    } else if (type === 'blob' || type === 'uri' || type === 'file') {
      answer.medium(mediumOf(modality));
    } else if (type !== 'tool_call_response' && type !== 'server_tool_call_response') answer.notRead(part);
  }
}

/** OpenLLMetry writes the summary of the Responses API as JSON. */
function reasoningOf(content: unknown): string {
  const parts = text(content)?.startsWith('[{') ? list(parsed(content)) : [];
  return wordsOf(parts) || (text(content) ?? '');
}

/** A message in the form of chat interfaces. */
export function takeChat(
  answer: GrowingAnswer,
  at: unknown,
  message: unknown,
  reason: string | undefined,
  kind: string,
): void {
  const { content, refusal, reasoning_content: reasoning, tool_calls: calls } = fields(message);
  const choice = answer.choice(at);
  choice.finishReason ??= reason;
  choice.text += (text(message) ?? wordsOf(content)) || (text(refusal) ?? '');
  if (text(refusal) && !content) answer.refused = true;
  choice.reasoning += text(reasoning) ?? '';
  if (kind === 'agent') return;
  for (const [number, call] of list(parsed(calls)).entries()) {
    const { id, function: asked, name, arguments: input } = fields(call);
    const made = choice.toolCall(text(id) ?? number);
    made.id = text(id);
    made.name = text(fields(asked)['name']) ?? text(name);
    made.input = inputOf(fields(asked)['arguments'] ?? input);
  }
}

/** A model without any of the names above. */
export const olderGenAi: Dialect = {
  kindOf: ({ attributes }) => (text(attributes['gen_ai.request.model']) === undefined ? undefined : 'model'),

  find({ attributes }, _kind, found) {
    found.count({
      input: attributes['gen_ai.usage.prompt_tokens'],
      output: attributes['gen_ai.usage.completion_tokens'],
    });
  },
};
