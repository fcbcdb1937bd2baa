/** OpenInference, by Arize. */
import { fields, list, text } from './answer.js';
import type { Dialect, Findings, SpanData } from './dialect.js';
import { documentOf, indexed, inputOf, lastMessage, parsed, reasonOf } from './values.js';

const KINDS = new Map<unknown, ReturnType<Dialect['kindOf']>>([
  ['LLM', 'model'],
  ['AGENT', 'agent'],
  ['TOOL', 'tool'],
  ['RETRIEVER', 'retrieval'],
  ['RERANKER', 'retrieval'],
  ['EVALUATOR', 'evaluation'],
  ['EMBEDDING', { reason: 'embeddings' }],
  ['PROMPT', { reason: 'prompts' }],
]);
/** Replaces values that the application wants hidden. */
const REDACTED = '__REDACTED__';

export const openInference: Dialect = {
  kindOf({ attributes }, isRoot) {
    const kind = attributes['openinference.span.kind'];
    if (kind === 'CHAIN') return isRoot ? 'agent' : { reason: 'inner chains' };
    return KINDS.get(kind) ?? (text(kind) === undefined ? undefined : { reason: 'kinds that are no calls' });
  },

  find({ attributes }, kind, found) {
    const { answer } = found;
    answer.model ??= text(attributes['llm.response.model_name']);
    // The requested model, until some instrumentations overwrite it with the one that answered.
    const model = text(attributes['llm.model_name']);
    const asked = askedModel(attributes);
    if (kind === 'model' && asked !== undefined && model !== asked) answer.model ??= model;
    answer.finishReason ??= reasonOf(attributes['llm.finish_reason']);
    found.tool.name ??= attributes['tool.name'] ?? attributes['tool_call.function.name'];
    found.tool.id ??= attributes['tool_call.id'] ?? attributes['tool.id'];
    const details = 'llm.token_count.prompt_details';
    found.count({
      input: attributes['llm.token_count.prompt'],
      output: attributes['llm.token_count.completion'],
      cacheRead: attributes[`${details}.cache_read`],
      cacheCreation: attributes[`${details}.cache_write`],
      reasoning: attributes['llm.token_count.completion_details.reasoning'],
    });
    if (kind === 'retrieval') findDocuments(attributes, found);
    if (kind === 'tool') found.tool.id ??= toolCallId(attributes['output.value']);
    if (!found.answered) findWords(attributes, kind, found);
  },
};

/** Parameters of a call. */
function askedModel(attributes: SpanData['attributes']): unknown {
  return fields(parsed(attributes['llm.invocation_parameters']))['model'];
}

function findDocuments(attributes: SpanData['attributes'], found: Findings): void {
  for (const prefix of ['retrieval.documents', 'reranker.output_documents']) {
    if (found.documents.length > 0) return;
    found.documents = indexed(attributes, prefix).map((document) =>
      documentOf({
        id: document['document.id'],
        score: document['document.score'],
        content: document['document.content'],
        metadata: document['document.metadata'],
      }),
    );
  }
}

/** LangChain's tool result names the call. */
function toolCallId(output: unknown): unknown {
  const said = fields(parsed(output));
  const message = fields(said['output'] ?? said);
  return fields(message['kwargs'] ?? message['data'])['tool_call_id'] ?? message['tool_call_id'];
}

function findWords(attributes: SpanData['attributes'], kind: string, found: Findings): void {
  const { answer } = found;
  const messages = indexed(attributes, 'llm.output_messages');
  const several = messages.length > 1 && hasChoices(attributes);
  for (const [at, message] of messages.entries()) {
    const choice = answer.choice(several ? at : 0);
    const contents = indexed(message, 'message.contents');
    const words = message['message.content'];
    if (words !== undefined && words !== REDACTED) found.answered = true;
    if (contents.length === 0 && words !== REDACTED) choice.text += text(words) ?? '';
    choice.reasoning += text(message['message.reasoning_content']) ?? '';
    for (const part of contents) {
      const type = part['message_content.type'];
      const said = text(part['message_content.text']) ?? '';
      if (said === REDACTED) continue;
      found.answered = true;
      if (type === 'reasoning') choice.reasoning += said;
      else if (type === 'image') answer.medium('image');
      else choice.text += said;
      if (type === 'refusal') answer.refused = true;
    }
    if (kind === 'agent') continue;
    for (const [number, call] of toolCallsOf(message).entries()) {
      found.answered = true;
      const made = choice.toolCall(`${at}.${number}`);
      made.id = text(call['tool_call.id']);
      made.name = text(call['tool_call.function.name']);
      made.input = inputOf(call['tool_call.function.arguments']);
    }
  }
  const output = text(attributes['output.value']);
  if (found.answered || output === undefined || output === REDACTED) return;
  if (kind !== 'agent' && kind !== 'model') return;
  // A model's output is the answer of its interface, in an unstated form: only text counts as words.
  if (kind === 'model' && attributes['output.mime_type'] !== 'text/plain') return;
  found.answered = true;
  answer.text = lastMessage(parsed(output)) ?? output;
}

/** Messages of one answer (of the Responses API, for example) and choices have the same names. */
function hasChoices(attributes: SpanData['attributes']): boolean {
  const { n } = fields(parsed(attributes['llm.invocation_parameters']));
  return Number(n) > 1 || list(fields(parsed(attributes['output.value']))['choices']).length > 1;
}

function toolCallsOf(message: SpanData['attributes']): readonly SpanData['attributes'][] {
  const calls = indexed(message, 'message.tool_calls');
  const name = message['message.function_call_name'];
  if (calls.length > 0 || text(name) === undefined) return calls;
  const input = message['message.function_call_arguments_json'];
  return [{ 'tool_call.function.name': name, 'tool_call.function.arguments': input }];
}
