/** Answers of the Responses API: of OpenAI, and of the servers that speak the same. */
import { fields, type Fields, type GrowingAnswer, list, text } from '../answer.js';
import type { AnswerReader } from './reader.js';

export const RESPONSES: AnswerReader = {
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
    else if (type === 'response.failed' || type === 'error') answer.ending = 'failed';
  },
};

function takeIdentity(answer: GrowingAnswer, { id, model }: Fields): void {
  answer.id = text(id) ?? answer.id;
  answer.model = text(model) ?? answer.model;
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
  answer.count({ input: input_tokens, output: output_tokens });
  const { status, incomplete_details } = response;
  answer.finishReason = text(fields(incomplete_details)['reason']) ?? text(status);
  answer.ending = status === 'failed' ? 'failed' : 'complete';
}
