/** Captures the calls of the OpenAI SDK: chat completions and responses, in one piece and in streams. */
import { fields, type Fields, type GrowingAnswer, list, text } from './answer.js';
import {
  type AnswerReader,
  type CapturedFetch,
  capturedFetch,
  counts,
  type Dialect,
  type FetchOptions,
} from './captured-fetch.js';
import type { RunsIn } from './model-call.js';

export type { Answer, ToolCall, Usage } from './answer.js';
export type { CapturedFetch, FetchOptions } from './captured-fetch.js';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

/**
 * For the option `fetch` of `new OpenAI(…)`. Each request to a model becomes a run; the application sees what it
 * would see without it. Does not throw.
 * @param runs the client, a run that the calls belong to, or a function that gives one of them.
 */
export function openaiFetch(runs: RunsIn, options: FetchOptions = {}): CapturedFetch {
  return capturedFetch(runs, options, DIALECT);
}

const CHAT: AnswerReader = {
  whole(answer, body) {
    takeCompletion(answer, body);
    for (const choice of list(body['choices'])) takeChoice(answer, fields(choice), 'message');
    answer.complete = true;
  },
  piece(answer, event) {
    if (event['error']) answer.failed = true;
    takeCompletion(answer, event);
    for (const choice of list(event['choices'])) takeChoice(answer, fields(choice), 'delta');
  },
};

const RESPONSES: AnswerReader = {
  whole: takeResponse,
  piece(answer, event) {
    const { type, delta, item, response } = event;
    const piece = text(delta) ?? '';
    if (type === 'response.output_text.delta' || type === 'response.refusal.delta') answer.text += piece;
    else if (type === 'response.reasoning_summary_text.delta') answer.reasoning += piece;
    else if (type === 'response.output_item.done') takeToolCall(answer, fields(item));
    else if (type === 'response.created') takeIdentity(answer, fields(response));
    else if (type === 'response.completed' || type === 'response.incomplete')
      takeEnd(answer, fields(response));
    else if (type === 'response.failed' || type === 'error') answer.failed = true;
  },
};

const DIALECT: Dialect = {
  provider: 'openai',
  readerFor: (path) => {
    if (path.endsWith('/chat/completions')) return CHAT;
    return path.endsWith('/responses') ? RESPONSES : undefined;
  },
  inputs: (request) => counts(request, request['messages'] ?? request['input']),
};

function takeIdentity(answer: GrowingAnswer, { id, model }: Fields): void {
  answer.id = text(id) ?? answer.id;
  answer.model = text(model) ?? answer.model;
}

function takeCompletion(answer: GrowingAnswer, body: Fields): void {
  takeIdentity(answer, body);
  const { prompt_tokens, completion_tokens } = fields(body['usage']);
  answer.count(prompt_tokens, completion_tokens);
}

function takeChoice(answer: GrowingAnswer, choice: Fields, part: 'message' | 'delta'): void {
  const { content, refusal, tool_calls } = fields(choice[part]);
  answer.text += (text(content) ?? '') + (text(refusal) ?? '');
  const finish = text(choice['finish_reason']);
  if (finish !== undefined) {
    answer.finishReason = finish;
    // Servers that only speak the dialect may leave out the mark at the end of the stream.
    answer.complete = true;
  }
  for (const [at, called] of list(tool_calls).entries()) {
    const { index = at, id, function: asked, custom } = fields(called);
    const { name, arguments: input } = fields(asked);
    const { name: customName, input: customInput } = fields(custom);
    const call = answer.toolCall(`${String(choice['index'])}:${String(index)}`);
    call.id ??= text(id);
    call.name ??= text(name) ?? text(customName);
    call.input += text(input) ?? text(customInput) ?? '';
  }
}

function takeResponse(answer: GrowingAnswer, response: Fields): void {
  for (const output of list(response['output'])) {
    const item = fields(output);
    for (const part of list(item['content'])) {
      const { text: words, refusal } = fields(part);
      if (item['type'] === 'message') answer.text += text(words) ?? text(refusal) ?? '';
    }
    for (const part of list(item['summary'])) answer.reasoning += text(fields(part)['text']) ?? '';
    takeToolCall(answer, item);
  }
  takeEnd(answer, response);
}

const RUN_BY_PROVIDER = /^(web_search|file_search|code_interpreter|image_generation|mcp)_call$/;

/** Tools of the application's and tools that the provider runs itself: `function_call`, `web_search_call`, … */
function takeToolCall(
  answer: GrowingAnswer,
  { id, call_id, type, name, arguments: asked, input }: Fields,
): void {
  const kind = text(type);
  if (!kind?.endsWith('_call')) return;
  const call = answer.toolCall(id ?? call_id);
  call.id = text(call_id) ?? text(id);
  call.name = text(name) ?? kind;
  call.input = text(asked) ?? text(input) ?? '';
  call.byProvider = RUN_BY_PROVIDER.test(kind);
}

function takeEnd(answer: GrowingAnswer, response: Fields): void {
  takeIdentity(answer, response);
  const { input_tokens, output_tokens } = fields(response['usage']);
  answer.count(input_tokens, output_tokens);
  const { status, incomplete_details } = response;
  answer.finishReason = text(fields(incomplete_details)['reason']) ?? text(status);
  answer.failed = status === 'failed';
  answer.complete = true;
}
