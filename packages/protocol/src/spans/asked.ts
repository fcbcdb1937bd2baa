/**
 * Reads the request that a span describes: what was asked, by whom, and with which parameters. Each table has
 * one purpose and the order of the dialects; the first match wins. The results are people's words: a reader
 * that may not record words does not call these functions.
 */
import type { Fields } from '../values.js';
import { fields, list, modelName, text } from './answer.js';
import type { SpanData } from './dialect.js';
import { indexed, nested, parsed, parsedContent } from './values.js';

export interface Asked {
  /** Text of the user's last message; a value that is not a message stays as the emitter wrote it. */
  readonly question: string | undefined;
  /** All messages as sent, with JSON parsed; undefined when the question is the only one. */
  readonly messages: unknown;
  readonly instructions: unknown;
  /** Parameters such as temperature: numbers, by the names of the GenAI conventions. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Names of the tools that were offered to the model. */
  readonly tools: readonly string[];
}

const DETAILS = 'gen_ai.client.inference.operation.details';
const REDACTED = '__REDACTED__';
const MOST_TOOLS = 128;

type Source = string | ((span: SpanData) => unknown);

const MESSAGES: readonly Source[] = [
  ...['gen_ai.input.messages', 'pydantic_ai.all_messages'],
  (span) => eventFields(span, DETAILS)['gen_ai.input.messages'],
  eventMessages,
  (span) => eventFields(span, 'gen_ai.content.prompt')['gen_ai.prompt'],
  // Attributes that the SDK drops at its limit are the last messages.
  ({ attributes, droppedAttributesCount: dropped = 0 }) =>
    dropped > 0 ? jsonOnly(attributes['input.value']) : undefined,
  ({ attributes }) => members(attributes, 'llm.input_messages', 'message.'),
  'input.value',
  ({ attributes }) => members(attributes, 'gen_ai.prompt') ?? members(attributes, 'llm.prompts'),
  'traceloop.entity.input',
  ...['ai.prompt.messages', 'ai.prompt', 'langfuse.observation.input', 'gen_ai.prompt'],
];
const INSTRUCTIONS: readonly Source[] = [
  'gen_ai.system_instructions',
  (span) => eventFields(span, DETAILS)['gen_ai.system_instructions'],
];
const TOOL_INPUT: readonly Source[] = [
  ...['gen_ai.tool.call.arguments', 'tool_call.function.arguments', 'input.value', 'tool.parameters'],
  ...['traceloop.entity.input', 'ai.toolCall.args', 'langfuse.observation.input'],
];
const TOOL_RESULT: readonly Source[] = [
  ...['gen_ai.tool.call.result', 'output.value', 'traceloop.entity.output', 'ai.toolCall.result'],
  'langfuse.observation.output',
];
const QUERY: readonly Source[] = [
  ...['gen_ai.retrieval.query.text', 'reranker.query', 'input.value', 'traceloop.entity.input'],
  'langfuse.observation.input',
];
/** Names of the user in the attributes of spans and resources. */
const USER = [
  ...['clinical_events.user.id', 'user.id', 'enduser.id', 'traceloop.association.properties.user_id'],
  ...['ai.telemetry.metadata.userId', 'metadata.userId', 'langfuse.user.id', 'langfuse.trace.userId'],
  // The user named in requests to OpenAI: OpenLLMetry for Python, OpenLIT for Go.
  ...['gen_ai.user', 'gen_ai.request.user'],
];
const CONVERSATION = [
  ...['gen_ai.conversation.id', 'session.id', 'traceloop.association.properties.session_id'],
  ...['ai.telemetry.metadata.sessionId', 'metadata.sessionId', 'langfuse.session.id'],
];
/**
 * The names of each parameter by its name in the conventions, including names of members when the parameters
 * are JSON.
 */
const PARAMETERS = Object.entries({
  temperature: [],
  top_p: ['topP'],
  top_k: ['topK'],
  max_tokens: ['maxOutputTokens', 'maxTokens', 'max_completion_tokens', 'max_output_tokens'],
  seed: [],
  frequency_penalty: ['frequencyPenalty'],
  presence_penalty: ['presencePenalty'],
}).map(([name, others]) => {
  const members: readonly string[] = [name, ...others];
  return {
    name,
    members,
    attributes: [`gen_ai.request.${name}`, ...members.map((each) => `ai.settings.${each}`)],
  };
});
const PARAMETERS_IN_JSON = ['llm.invocation_parameters', 'langfuse.observation.model.parameters'];

/** The request to a model or agent. Linear in the size of the span. */
export function askedOf(span: SpanData): Asked {
  const raw = first(span, MESSAGES);
  const told = parsed(raw) ?? raw;
  const all = messagesIn(told);
  const question = all === undefined ? asWritten(raw, told) : wordsAt(all.findLast(isFromUser));
  const isMore = all !== undefined && !(all.length === 1 && isPlain(all[0]));
  return {
    question,
    messages: isMore ? parsedContent(raw) : undefined,
    instructions: parsedContent(first(span, INSTRUCTIONS)),
    parameters: parametersOf(span.attributes),
    tools: toolsOf(span.attributes),
  };
}

/** The input and output of an executed tool, as sent, with JSON parsed. */
export function executedOf(span: SpanData): { readonly input: unknown; readonly result: unknown } {
  return { input: parsedContent(first(span, TOOL_INPUT)), result: parsedContent(first(span, TOOL_RESULT)) };
}

/** The query of a retrieval. */
export function queryOf(span: SpanData): string | undefined {
  const raw = first(span, QUERY);
  return asWritten(raw, parsed(raw) ?? raw);
}

/** @param attributes of a span or of a resource. */
export function userOf(attributes: Fields): string | undefined {
  return firstName(attributes, ...USER);
}

export function conversationOf(attributes: Fields): string | undefined {
  return firstName(attributes, ...CONVERSATION);
}

/** The first of these attributes that is a name. */
export function firstName(attributes: Fields, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const found = nameOf(attributes[name]);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The value if it is a name: a number, or a text of up to 200 characters without control characters. */
export function nameOf(value: unknown): string | undefined {
  return modelName(typeof value === 'number' ? String(value) : value);
}

function first(span: SpanData, sources: readonly Source[]): unknown {
  for (const source of sources) {
    const value = typeof source === 'string' ? span.attributes[source] : source(span);
    if (value !== undefined && value !== null && value !== '' && value !== REDACTED) return value;
  }
  return undefined;
}

function eventFields({ events = [] }: SpanData, wanted: string): Fields {
  return events.find(({ name }) => name === wanted)?.attributes ?? {};
}

/** One event per message, in the conventions 1.26 to 1.36. */
function eventMessages({ events = [] }: SpanData): unknown {
  const found = events.flatMap(({ name, attributes }) => {
    const [, role] = /^gen_ai\.(system|user|assistant|tool)\.message$/.exec(name) ?? [];
    return role === undefined ? [] : [{ role, ...attributes }];
  });
  return found.length > 0 ? found : undefined;
}

function jsonOnly(value: unknown): unknown {
  return messagesIn(parsed(value)) === undefined ? undefined : value;
}

function members(attributes: Fields, prefix: string, outer = ''): unknown {
  const found = indexed(attributes, prefix);
  // LangGraph for Python states only the role of a message that is not a LangChain object.
  const hasMore = found.some((each) => Object.keys(each).some((name) => !name.endsWith('role')));
  return hasMore ? found.map((each) => nested(each, outer)) : undefined;
}

/** The list of messages that a value is or contains; undefined without one. */
function messagesIn(told: unknown): readonly unknown[] | undefined {
  const { messages, prompt, input, inputs } = fields(told);
  for (const found of [told, messages, prompt, input, fields(inputs)['messages']]) {
    // LangChain callbacks have one list per prompt.
    const all = list(found).flat();
    if (all.length > 0 && all.every((each) => roleOf(each) !== undefined)) return all;
  }
  return undefined;
}

/**
 * A value that is not a message. `ai.prompt` has a prompt and a system text; a decorated function may have
 * one argument.
 */
function asWritten(raw: unknown, told: unknown): string | undefined {
  // LangChain callbacks, as OpenLLMetry writes them, have `inputs`, or a retriever's `query`, among other
  // members.
  const { prompt, args, kwargs, inputs, query } = fields(told);
  if (raw === undefined) return undefined;
  const values = args === undefined ? [] : [...list(args), ...Object.values(fields(kwargs))];
  if (args !== undefined && values.length === 0) return undefined;
  const only = values.length === 1 ? text(values[0]) : undefined;
  return (
    only ??
    text(prompt) ??
    text(inputs) ??
    (kwargs === undefined ? undefined : text(query)) ??
    text(told) ??
    text(raw) ??
    JSON.stringify(raw)
  );
}

/** LangChain gives the class of a message in place of a role. */
function roleOf(message: unknown): string | undefined {
  const { role, type, id, kwargs } = fields(message);
  return text(role) ?? (kwargs === undefined ? text(type) : text(list(id).at(-1)));
}

/** Some interfaces send tool results as messages of the user. */
function isFromUser(message: unknown): boolean {
  const isUser = /^(user|human)/i.test(roleOf(message) ?? '') && wordsAt(message) !== '';
  return isUser && fields(message)['tool_call_id'] === undefined;
}

function wordsAt(message: unknown): string | undefined {
  if (message === undefined) return undefined;
  const { content, contents, parts, kwargs, data } = fields(message);
  const said = content ?? fields(kwargs ?? data)['content'];
  const all = list(parsed(said) ?? undefined).length > 0 ? parsed(said) : said;
  const words = text(all) ?? undefined;
  if (words !== undefined && words !== '') return words;
  return [...list(all), ...list(contents), ...list(parts)].flatMap(partWords).join('\n');
}

function partWords(part: unknown): string[] {
  const inner = fields(part)['message_content'] ?? part;
  const { type, text: words, content } = fields(inner);
  if (type !== undefined && type !== 'text' && type !== 'input_text') return [];
  return [text(inner) ?? text(words) ?? text(content) ?? []].flat();
}

/** A message of the user that has only words. */
function isPlain(message: unknown): boolean {
  if (!isFromUser(message)) return false;
  const { content, contents, parts } = fields(message);
  const all = [...list(content), ...list(contents), ...list(parts)];
  return text(content) !== undefined || all.every((part) => partWords(part).length > 0);
}

/** The first value that is a number. */
function numberAt(said: Fields, names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = said[name];
    if (typeof value === 'number' && Number.isFinite(value)) return value;
  }
  return undefined;
}

function parametersOf(attributes: Fields): Asked['parameters'] {
  const inJson = PARAMETERS_IN_JSON.flatMap((name) =>
    attributes[name] === undefined ? [] : [fields(parsed(attributes[name]))],
  );
  const found: Record<string, number> = {};
  for (const { name, members, attributes: names } of PARAMETERS) {
    const number =
      numberAt(attributes, names) ??
      inJson.map((said) => numberAt(said, members)).find((each) => each !== undefined);
    if (number !== undefined) found[name] = number;
  }
  return found;
}

function toolsOf(attributes: Fields): string[] {
  const offered = [
    ...list(parsed(attributes['gen_ai.tool.definitions'])),
    ...offeredIn(attributes, 'llm.tools', 'tool.json_schema').map((tool) => tool['tool.json_schema']),
    ...offeredIn(attributes, 'llm.request.functions', 'name'),
    ...list(parsed(attributes['ai.prompt.tools'])),
  ];
  return offered.slice(0, MOST_TOOLS).flatMap((each) => {
    const tool = fields(parsed(each));
    return modelName(tool['name'] ?? fields(tool['function'])['name']) ?? [];
  });
}

/** Searches all attributes only if entry 0 exists, because most spans offer no tools. */
function offeredIn(attributes: Fields, prefix: string, member: string): readonly Fields[] {
  return attributes[`${prefix}.0.${member}`] === undefined ? [] : indexed(attributes, prefix);
}
