/** Semantic conventions for GenAI of OpenTelemetry, 1.26 and later, and what came before them. */
import { asText, type Fields, fields, type GrowingAnswer, list, mediumOf, text } from './answer.js';
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
  ['vector_db_retrieve', 'retrieval'],
  ['embeddings', { reason: 'embeddings' }],
  ['agent_step', { reason: 'steps of agents' }],
  ['create_agent', { reason: 'agents that are made' }],
]);
/** Operations of models that answer no one. */
const OTHERS = /embed|image|audio|speech|transcri|moderat|rerank|video|memory|search|^plan$/i;
/** The conventions, the SDKs of Anthropic, Pydantic AI and Sentry, Langfuse's users. */
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
  ),
  reasoning: named(
    ...['reasoning.output_tokens', 'reasoning_tokens', 'output_tokens.reasoning', 'details.reasoning_tokens'],
    'completion_tokens_details.reasoning',
  ),
};

function named(...names: readonly string[]): readonly string[] {
  // The second is of an agent of Pydantic AI.
  return names.flatMap((name) => [`gen_ai.usage.${name}`, `gen_ai.aggregated_usage.${name}`]);
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
    const said = (names: readonly string[]) => {
      for (const name of names) if (attributes[name] !== undefined) return attributes[name];
      return undefined;
    };
    const counts = {
      input: said(USAGE.input),
      output: said(USAGE.output),
      cacheRead: said(USAGE.cacheRead),
      cacheCreation: said(USAGE.cacheCreation),
      reasoning: said(USAGE.reasoning),
    };
    // Anthropic's own count, as its interface gives it.
    if (counts.input !== undefined || counts.output !== undefined)
      found.count(counts, scope === '@traceloop/instrumentation-anthropic');
    for (const { name, attributes: told = {} } of events)
      if (name === 'gen_ai.evaluation.result') found.evaluations.push(evaluationOf(told));
    if (!found.answered) findWords(attributes, events, kind, found);
    // OpenLLMetry for Python ends the span of a stream that broke as if all were well, without a reason.
    const isBroken =
      (attributes['gen_ai.is_streaming'] === true && found.answered) ||
      (attributes['gen_ai.request.is_stream'] === true &&
        isEmpty(attributes['gen_ai.response.finish_reasons']));
    if (isBroken && kind === 'model' && answer.finishReason === undefined) found.ending ??= 'cut off';
    if (kind === 'model' && answer.toolCalls.length === 0) takeJoinedTools(attributes, answer);
  },
};

/** @param said attributes of an event or of a log record. */
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
  const messages = attributes['gen_ai.output.messages'] ?? details?.['gen_ai.output.messages'];
  if (messages !== undefined) {
    found.answered = true;
    const all = list(parsed(messages));
    // An agent's are steps of one answer, the last of them with words.
    const told = kind === 'agent' ? [all.findLast(hasWords) ?? all.at(-1)] : all;
    for (const [at, message] of told.entries()) takeMessage(found.answer, at, message, kind);
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
  const result = attributes['final_result'];
  if (kind === 'agent' && result !== undefined) {
    found.answered = true;
    found.answer.text = asText(result);
    return;
  }
  const completion = events.find(({ name }) => name === 'gen_ai.content.completion')?.attributes;
  if (!completion) {
    const words = text(attributes['gen_ai.completion']);
    if (words === undefined) return;
    found.answered = true;
    found.answer.text = words;
    return;
  }
  found.answered = true;
  for (const [at, message] of list(parsed(completion['gen_ai.completion'])).entries())
    takeChat(found.answer, at, message, undefined, kind);
}

function isEmpty(list: unknown): boolean {
  return Array.isArray(list) && list.length === 0;
}

/** OpenLIT for Go joins the names of the tools that a model asks for, and their ids. */
function takeJoinedTools(attributes: Fields, answer: GrowingAnswer): void {
  const [names, ids] = ['gen_ai.tool.name', 'gen_ai.tool.call.id'].map((name) =>
    text(attributes[name])?.split(', '),
  );
  const inputs = list(parsed(attributes['gen_ai.tool.call.arguments']));
  for (const [number, name] of (names ?? []).entries()) {
    const call = answer.toolCall(number);
    call.name = name;
    call.id = ids?.[number];
    call.input = inputOf(inputs[number]);
  }
}

function hasWords(message: unknown): boolean {
  return list(fields(message)['parts']).some((part) => fields(part)['type'] === 'text');
}

/** A message of the conventions: a choice, in parts. An agent's tools are asked for by its models. */
function takeMessage(answer: GrowingAnswer, at: number, message: unknown, kind: string): void {
  const choice = answer.choice(at);
  const { parts, content: said, finish_reason: reason } = fields(message);
  if (parts === undefined && said !== undefined) {
    takeChat(answer, at, message, text(reason), kind);
    return;
  }
  choice.finishReason ??= text(reason) || undefined;
  for (const [number, part] of list(parts).entries()) {
    const { type, content, id, name, arguments: input, modality } = fields(part);
    if (type === 'text') choice.text += text(content) ?? '';
    else if (type === 'refusal') {
      choice.text += text(content) ?? '';
      answer.refused = true;
    } else if (type === 'reasoning') choice.reasoning += reasoningIn(content);
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

/** Some emitters write the parts of a summary as JSON. */
function reasoningIn(content: unknown): string {
  const words = text(content) ?? '';
  return (words.startsWith('[{') && wordsOf(parsed(words))) || words;
}

/** A message as interfaces of chat write it. */
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

/** A model and none of the names above. */
export const olderGenAi: Dialect = {
  kindOf: ({ attributes }) => (text(attributes['gen_ai.request.model']) === undefined ? undefined : 'model'),

  find({ attributes }, _kind, found) {
    found.count({
      input: attributes['gen_ai.usage.prompt_tokens'],
      output: attributes['gen_ai.usage.completion_tokens'],
    });
  },
};
