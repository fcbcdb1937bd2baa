/** Reads answers that LangChain.js passes to callbacks (docs/reference/model-answers.md). */
import {
  asText,
  fields,
  type Fields,
  GrowingAnswer,
  type GrowingChoice,
  list,
  mediumOf,
  text,
} from '@clinical-events/protocol/spans';
import { finishOf, takeIdentity, takeUsage, tellsEnds } from './langchain-metadata.js';
import { isItem, takeItems, takeTools } from './langchain-tools.js';

/**
 * Takes the result of `handleLLMEnd`.
 * @returns how the answer ended, if the provider did not report it.
 */
export function takeResult(
  answer: GrowingAnswer,
  { generations, llmOutput }: Fields,
  isStreamed: boolean,
): 'cut off' | 'not read' | 'failed' | undefined {
  const [answered, ...others] = list(generations);
  const found = list(answered)
    .map(fields)
    .filter(({ message, text: words }) => message !== undefined || words !== undefined);
  let isPaused = false;
  for (const [at, generation] of found.entries())
    isPaused = takeGeneration(answer, answer.choice(at), generation) || isPaused;
  // LangChain reports each prompt as a separate call.
  for (const other of others) answer.notRead(other);
  const [first] = found;
  // A stream without a chunk, or an answer for which LangChain will throw.
  if (!first) return !Array.isArray(answered) ? 'not read' : answered.length > 0 ? 'cut off' : 'failed';
  takeIdentity(answer, first, llmOutput);
  takeUsage(answer, first, llmOutput);
  const { status, error } = fields(fields(first['message'])['response_metadata']);
  const { finishReason } = answer;
  if (error || status === 'failed' || finishReason === 'error') answer.fail(error);
  else if (status === 'cancelled') answer.ending = 'aborted';
  else if (isPaused || finishReason === 'pause_turn' || /^(queued|in_progress)$/.test(text(status) ?? ''))
    answer.ending = 'unfinished';
  else if (isStreamed && finishReason === undefined && tellsEnds(first)) return 'cut off';
  else answer.ending = 'complete';
  return undefined;
}

/** Takes a token of `handleLLMNewToken` and, in most libraries, its chunk. */
export function takeToken(answer: GrowingAnswer, token: unknown, indices: unknown, chunk: unknown): void {
  const choice = answer.choice(fields(indices)['completion']);
  const generation = fields(chunk);
  const { message } = generation;
  if (message === undefined) {
    choice.text += text(token) ?? '';
    return;
  }
  takeMessage(answer, choice, fields(message));
  for (const part of list(fields(message)['tool_call_chunks'])) {
    const { index, id, name, args } = fields(part);
    const known = choice.hasToolCall(index) ? choice.toolCall(index) : undefined;
    // Some servers give all calls the same index.
    const isOther = text(id) !== undefined && known?.id !== undefined && known.id !== id;
    const call = choice.toolCall(isOther ? id : index);
    call.id ??= text(id);
    call.name ??= text(name);
    call.input += text(args) ?? '';
  }
  choice.finishReason = finishOf(generation) ?? choice.finishReason;
}

/** Takes the words of a chain's outputs. */
export function takeOutputs(answer: GrowingAnswer, outputs: unknown): void {
  const { output, messages } = fields(outputs);
  const last = output ?? list(messages).at(-1) ?? outputs;
  const scratch = new GrowingAnswer();
  takeMessage(scratch, scratch.choice(0), fields(last));
  answer.text = text(last) ?? scratch.text;
}

/** @returns whether the provider waits for an approval. */
function takeGeneration(answer: GrowingAnswer, choice: GrowingChoice, generation: Fields): boolean {
  const message = fields(generation['message']);
  const items = takeMessage(answer, choice, message);
  takeTools(choice, message);
  const { content, additional_kwargs } = message;
  const { audio, tool_outputs } = fields(additional_kwargs);
  if (fields(audio)['data'] !== undefined) answer.medium('audio');
  choice.finishReason = finishOf(generation);
  const isEmpty = content === undefined || content === '' || (Array.isArray(content) && content.length === 0);
  // The text of a model without messages may repeat reasoning or tool calls.
  if (isEmpty && choice.text + choice.reasoning === '' && choice.toolCalls.length === 0)
    choice.text = text(generation['text']) ?? '';
  return takeItems(answer, choice, [...items, ...list(tool_outputs)]);
}

/** @returns the parts that are items of the Responses API. */
function takeMessage(answer: GrowingAnswer, choice: GrowingChoice, message: Fields): unknown[] {
  const { content, additional_kwargs } = message;
  const before = choice.reasoning.length;
  const parts = list(content);
  const items: unknown[] = [];
  if (typeof content === 'string') choice.text += content;
  const hasAnswer = parts.some((part) => isText(fields(part)) && !isAside(fields(part)));
  for (const part of parts)
    if (isItem(fields(part))) items.push(part);
    else takePart(answer, choice, part, hasAnswer);
  const kwargs = fields(additional_kwargs);
  const { refusal, audio } = kwargs;
  choice.text += text(fields(audio)['transcript']) ?? '';
  if (text(refusal)) takeRefusal(answer, choice, text(refusal) ?? '');
  // Several members may have the same words.
  if (choice.reasoning.length === before) {
    const names = ['reasoning_content', 'reasoning', 'reasoning_details', 'thinking'];
    choice.reasoning += names.map((name) => thoughtsOf(kwargs[name])).find((words) => words !== '') ?? '';
  }
  return items;
}

const THOUGHT = /^(thinking|reasoning|redacted)/;
const HOSTED = /^(server_tool_(use|call|call_chunk)|mcp_tool_use|executableCode|executable_code)$/;
/** Parts without words of the answer: sources, results of tools, and calls that are in `tool_calls` too. */
const SILENT = new RegExp(
  '^(citation|citations_delta|signature_delta|input_json_delta|reference|cache_point|compaction|' +
    'functionCall|functionResponse|function_call|tool_use|(invalid_)?tool_call(_chunk)?|container_upload|' +
    '.*_?(result|output)|codeExecutionResult)$',
);

function takePart(answer: GrowingAnswer, choice: GrowingChoice, part: unknown, hasAnswer: boolean): void {
  const block = fields(part);
  const { type, text: words, refusal, thought, value, transcript, citationsContent } = block;
  const kind = text(type) ?? '';
  const medium = mediumIn(block);
  if (typeof part === 'string') choice.text += part;
  else if (THOUGHT.test(kind)) choice.reasoning += thoughtsOf(block);
  else if (thought === true || (isText(block) && hasAnswer && isAside(block)))
    choice.reasoning += text(words) ?? '';
  else if (isText(block)) choice.text += text(words) ?? '';
  else if (kind === 'refusal') takeRefusal(answer, choice, text(refusal) ?? '');
  else if (kind === 'citations_content')
    for (const each of list(fields(citationsContent)['content']))
      choice.text += text(fields(each)['text']) ?? '';
  else if (kind === 'non_standard' && fields(value)['type'] !== kind)
    takePart(answer, choice, value, hasAnswer);
  else if (medium) {
    answer.medium(medium);
    choice.text += text(transcript) ?? '';
  } else if (HOSTED.test(kind)) {
    const { id, name, args, input, executableCode = block['executable_code'] } = block;
    const call = choice.toolCall(part);
    call.id = text(id);
    call.name = text(name) ?? (executableCode === undefined ? undefined : 'executable_code');
    call.input = asText(args ?? input ?? fields(executableCode)['code']);
    call.byProvider = true;
  } else if (!SILENT.test(kind)) answer.notRead(part);
}

function isText({ type, text: words }: Fields): boolean {
  if (type === undefined) return typeof words === 'string';
  return type === 'text' || type === 'text_delta' || type === 'output_text';
}

/** Reasoning before an answer. */
function isAside({ phase, thought }: Fields): boolean {
  return phase === 'commentary' || phase === 'analysis' || thought === true;
}

function takeRefusal(answer: GrowingAnswer, choice: GrowingChoice, words: string): void {
  if (!choice.text.endsWith(words)) choice.text += words;
  if (choice === answer.choice(0)) answer.refused = true;
}

/** Words in a string, in a list, or under one of the providers' names. */
function thoughtsOf(value: unknown, depth = 0): string {
  if (typeof value !== 'object' || value === null || depth > 4) return text(value) ?? '';
  if (Array.isArray(value)) return value.map((each) => thoughtsOf(each, depth + 1)).join('');
  const { thinking, reasoning, reasoningText, text: words, summary, content } = fields(value);
  const places = [thinking, reasoning, reasoningText, words, content, summary];
  return places.map((each) => thoughtsOf(each, depth + 1)).find((found) => found !== '') ?? '';
}

function mediumIn({ type, mimeType, mime_type, inlineData, fileData, thought }: Fields) {
  const kind = text(type) ?? '';
  const known = /^(?:output_|input_)?(image|audio|video)(?:_url)?$/.exec(kind)?.[1];
  if (known === undefined && !/^(file|document|text-plain|media|inlineData|fileData)$/.test(kind)) return;
  if (thought === true) return;
  const mime = text(mimeType ?? mime_type ?? fields(inlineData ?? fileData)['mimeType']) ?? '';
  const [said] = mime.split('/');
  return mediumOf(known ?? said);
}
