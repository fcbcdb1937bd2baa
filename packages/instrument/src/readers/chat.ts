/** Answers of chat completions: of OpenAI, and of the servers that speak the same. */
import { fields, type Fields, type GrowingAnswer, list, text } from '../answer.js';
import type { AnswerReader } from './reader.js';

export const CHAT: AnswerReader = {
  whole(answer, body) {
    takeCompletion(answer, body);
    for (const choice of list(body['choices'])) takeChoice(answer, fields(choice), 'message');
    answer.ending = 'complete';
  },
  piece(answer, event) {
    if (event['error']) answer.ending = 'failed';
    takeCompletion(answer, event);
    for (const choice of list(event['choices'])) takeChoice(answer, fields(choice), 'delta');
  },
};

function takeCompletion(answer: GrowingAnswer, body: Fields): void {
  const { id, model } = body;
  answer.id = text(id) ?? answer.id;
  answer.model = text(model) ?? answer.model;
  const { prompt_tokens, completion_tokens } = fields(body['usage']);
  answer.count({ input: prompt_tokens, output: completion_tokens });
}

function takeChoice(answer: GrowingAnswer, choice: Fields, part: 'message' | 'delta'): void {
  const { content, refusal, tool_calls } = fields(choice[part]);
  answer.text += (text(content) ?? '') + (text(refusal) ?? '');
  const finish = text(choice['finish_reason']);
  if (finish !== undefined) {
    answer.finishReason = finish;
    // Servers that only speak the dialect may leave out the mark at the end of the stream.
    answer.ending = 'complete';
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
