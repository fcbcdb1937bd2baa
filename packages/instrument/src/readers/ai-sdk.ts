/** Answers of language models as the AI SDK gives them to a middleware: versions 5 to 7. */
import { fields, type Fields, type GrowingAnswer, list, text } from '../answer.js';

/** An answer in one piece: what `doGenerate` gives. */
export function takeResult(answer: GrowingAnswer, result: Fields): void {
  const { content, response, ...ended } = result;
  for (const [at, each] of list(content).entries()) takeContent(answer, at, fields(each));
  takeEnd(answer, ended);
  takeResponse(answer, response);
}

/** A part of the stream that `doStream` gives. */
export function takePart(answer: GrowingAnswer, part: Fields): void {
  const { type, delta, toolCallId } = part;
  if (type === 'text-delta') answer.text += text(delta) ?? '';
  else if (type === 'reasoning-delta') answer.reasoning += text(delta) ?? '';
  else if (type === 'tool-call') takeContent(answer, toolCallId, part);
  else if (type === 'response-metadata') takeResponse(answer, part);
  else if (type === 'finish') takeEnd(answer, part);
  else if (type === 'error') answer.fail(part['error']);
}

function takeContent(answer: GrowingAnswer, key: unknown, content: Fields): void {
  const { type, text: words, toolCallId, toolName, input, providerExecuted } = content;
  if (type === 'text') answer.text += text(words) ?? '';
  else if (type === 'reasoning') answer.reasoning += text(words) ?? '';
  else if (type === 'tool-call') {
    const call = answer.toolCall(key);
    call.id = text(toolCallId);
    call.name = text(toolName);
    call.input = text(input) ?? '';
    call.byProvider = providerExecuted === true;
  }
}

/** Version 5 gives the reason and each count by itself, later ones in objects. */
function takeEnd(answer: GrowingAnswer, { finishReason, usage }: Fields): void {
  answer.finishReason = text(fields(finishReason)['unified']) ?? text(finishReason);
  const { inputTokens, outputTokens } = fields(usage);
  answer.count({
    input: fields(inputTokens)['total'] ?? inputTokens,
    output: fields(outputTokens)['total'] ?? outputTokens,
  });
  answer.ending = 'complete';
}

function takeResponse(answer: GrowingAnswer, response: unknown): void {
  const { id, modelId } = fields(response);
  answer.id = text(id) ?? answer.id;
  answer.model = text(modelId) ?? answer.model;
}
