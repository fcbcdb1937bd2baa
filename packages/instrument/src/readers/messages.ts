/** Answers of the Messages API: of Anthropic, and of the servers that speak the same. */
import { fields, type Fields, type GrowingAnswer, list, text } from '../answer.js';
import type { AnswerReader } from './reader.js';

export const MESSAGES: AnswerReader = {
  whole(answer, message) {
    takeMessage(answer, message);
    for (const [index, block] of list(message['content']).entries())
      takeBlock(answer, index, fields(block), true);
    answer.ending = 'complete';
  },
  piece(answer, { type, index, message, content_block, delta, usage }) {
    if (type === 'message_start') takeMessage(answer, fields(message));
    else if (type === 'content_block_start') takeBlock(answer, index, fields(content_block), false);
    else if (type === 'content_block_delta') takeDelta(answer, index, fields(delta));
    else if (type === 'message_delta') takeMessage(answer, { ...fields(delta), usage });
    else if (type === 'message_stop') answer.ending = 'complete';
    else if (type === 'error') answer.ending = 'failed';
  },
};

function takeMessage(answer: GrowingAnswer, { id, model, stop_reason, usage }: Fields): void {
  answer.id = text(id) ?? answer.id;
  answer.model = text(model) ?? answer.model;
  answer.finishReason = text(stop_reason) ?? answer.finishReason;
  const { input_tokens, output_tokens } = fields(usage);
  answer.count({ input: input_tokens, output: output_tokens });
}

/** `tool_use` is of the application's tools; `server_tool_use` and `mcp_tool_use` are run by the provider. */
function takeBlock(answer: GrowingAnswer, index: unknown, block: Fields, whole: boolean): void {
  const { type, id, name, input, text: words, thinking } = block;
  answer.text += text(words) ?? '';
  answer.reasoning += text(thinking) ?? '';
  if (!text(type)?.endsWith('tool_use')) return;
  const call = answer.toolCall(index);
  call.byProvider = type !== 'tool_use';
  call.id = text(id);
  call.name = text(name);
  // At the start of a stream it is an empty object, and its text follows in pieces.
  if (whole && input !== undefined) call.input = JSON.stringify(input);
}

function takeDelta(
  answer: GrowingAnswer,
  index: unknown,
  { text: words, thinking, partial_json }: Fields,
): void {
  answer.text += text(words) ?? '';
  answer.reasoning += text(thinking) ?? '';
  const input = text(partial_json);
  if (input !== undefined) answer.toolCall(index).input += input;
}
