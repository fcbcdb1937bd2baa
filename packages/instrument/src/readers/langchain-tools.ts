/** Tool calls of models in the forms of LangChain.js packages. */
import {
  asText,
  fields,
  type Fields,
  GrowingAnswer,
  type GrowingChoice,
  list,
  text,
} from '@clinical-events/protocol/spans';
import { RESPONSES } from './responses.js';

/** Calls of tools that the application runs. */
export function takeTools(choice: GrowingChoice, message: Fields): void {
  const { tool_calls, invalid_tool_calls, additional_kwargs, content } = message;
  const [valid, invalid] = [list(tool_calls), new Set(list(invalid_tool_calls))];
  const { tool_calls: older, function_call } = fields(additional_kwargs);
  const blocks = list(content).filter((part) =>
    /^(tool_use|tool_call|functionCall|function_call)$/.test(text(fields(part)['type']) ?? ''),
  );
  const oldest = function_call ? [function_call] : blocks;
  const called = valid.length + invalid.size > 0 ? valid : list(older).length > 0 ? list(older) : oldest;
  for (const each of [...called, ...invalid]) {
    const { id, call_id, name, args, input, arguments: given, function: asked, functionCall } = fields(each);
    const inner = fields(asked ?? functionCall);
    const call = choice.toolCall(each);
    call.id = text(call_id) ?? text(id);
    call.name = text(name) ?? text(inner['name']);
    call.input = asText(args ?? input ?? given ?? inner['arguments'] ?? inner['args']);
    if (invalid.has(each)) call.invalid = true;
  }
}

/**
 * Calls of tools that OpenAI runs itself: items of its Responses API.
 * @returns whether the provider waits for an approval.
 */
export function takeItems(answer: GrowingAnswer, choice: GrowingChoice, output: readonly unknown[]): boolean {
  if (output.length === 0) return false;
  const hosted = new GrowingAnswer();
  RESPONSES.whole(hosted, { output, status: 'completed' });
  const known = new Set(choice.toolCalls.map(({ id }) => id));
  for (const call of hosted.toolCalls)
    if (call.id === undefined || !known.has(call.id)) Object.assign(choice.toolCall(call), call);
  for (const part of hosted.unread) answer.notRead(part);
  return hosted.ending === 'unfinished';
}

export function isItem({ type }: Fields): boolean {
  const kind = text(type) ?? '';
  return (
    /(_call|^mcp_approval_request)$/.test(kind) && !/^((server_|invalid_)?tool|function)_call$/.test(kind)
  );
}
