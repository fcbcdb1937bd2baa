/** Semantic conventions for GenAI of OpenTelemetry, 1.26 and later, and what came before them. */
import { fields, type GrowingAnswer, list, text } from '../answer.js';
import type { Dialect, Findings, SpanData } from './span.js';
import { documentOf, inputOf, parsed, wordsOf } from './values.js';

const KINDS = new Map<unknown, ReturnType<Dialect['kindOf']>>([
  ['chat', 'model'],
  ['generate_content', 'model'],
  ['text_completion', 'model'],
  ['invoke_agent', 'agent'],
  ['invoke_workflow', 'agent'],
  ['execute_tool', 'tool'],
  ['retrieval', 'retrieval'],
  ['embeddings', { reason: 'embeddings' }],
  ['agent_step', { reason: 'steps of agents' }],
  ['create_agent', { reason: 'agents that are made' }],
]);

export const genAi: Dialect = {
  kindOf: ({ attributes }) => KINDS.get(attributes['gen_ai.operation.name']),

  find({ attributes, events = [], scope }, kind, found) {
    const { answer } = found;
    answer.id ??= text(attributes['gen_ai.response.id']);
    answer.model ??= text(attributes['gen_ai.response.model']);
    answer.finishReason ??= text(list(attributes['gen_ai.response.finish_reasons'])[0]);
    found.tool.name ??= attributes['gen_ai.tool.name'];
    found.tool.id ??= attributes['gen_ai.tool.call.id'];
    if (kind === 'retrieval' && found.documents.length === 0)
      found.documents = list(parsed(attributes['gen_ai.retrieval.documents'])).map(documentOf);
    const counts = {
      input: attributes['gen_ai.usage.input_tokens'],
      output: attributes['gen_ai.usage.output_tokens'],
      cacheRead:
        attributes['gen_ai.usage.cache_read.input_tokens'] ??
        attributes['gen_ai.usage.cache_read_input_tokens'],
      cacheCreation:
        attributes['gen_ai.usage.cache_creation.input_tokens'] ??
        attributes['gen_ai.usage.cache_creation_input_tokens'],
      reasoning:
        attributes['gen_ai.usage.reasoning.output_tokens'] ?? attributes['gen_ai.usage.reasoning_tokens'],
    };
    // Anthropic's own count, as its interface gives it.
    if (counts.input !== undefined || counts.output !== undefined)
      found.count(counts, scope === '@traceloop/instrumentation-anthropic');
    for (const { name, attributes: said = {} } of events) {
      if (name === 'gen_ai.evaluation.result') {
        const [label, score] = [said['gen_ai.evaluation.score.label'], said['gen_ai.evaluation.score.value']];
        found.evaluations.push({ name: said['gen_ai.evaluation.name'], label, score });
      }
    }
    if (!found.answered) findWords(attributes, events, kind, found);
  },
};

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
    for (const [at, message] of list(parsed(messages)).entries())
      takeMessage(found.answer, at, message, kind);
    return;
  }
  for (const { name, attributes: said = {} } of events) {
    if (name === 'gen_ai.choice') {
      found.answered = true;
      const { index, finish_reason: reason, message = said } = said;
      takeChat(found.answer, Number(index), parsed(message), text(reason), kind);
    }
  }
  if (found.answered) return;
  const completion = events.find(({ name }) => name === 'gen_ai.content.completion')?.attributes;
  if (!completion) return;
  found.answered = true;
  for (const [at, message] of list(parsed(completion['gen_ai.completion'])).entries())
    takeChat(found.answer, at, message, undefined, kind);
}

/** A message of the conventions: a choice, in parts. An agent's tools are asked for by its models. */
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
    } else if (type === 'reasoning') choice.reasoning += text(content) ?? '';
    else if (type === 'tool_call' || type === 'server_tool_call') {
      if (kind === 'agent') continue;
      const call = choice.toolCall(text(id) ?? number);
      call.id = text(id);
      call.name = text(name);
      call.input = inputOf(input);
      call.byProvider = type === 'server_tool_call';
    } else if (type === 'blob' || type === 'uri' || type === 'file') {
      const medium = (['image', 'audio', 'video'] as const).find((known) => known === modality);
      answer.medium(medium ?? 'file');
    } else if (type !== 'tool_call_response' && type !== 'server_tool_call_response') answer.notRead(part);
  }
}

/** A message as interfaces of chat write it. */
export function takeChat(
  answer: GrowingAnswer,
  at: number,
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
