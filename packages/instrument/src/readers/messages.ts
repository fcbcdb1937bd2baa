/**
 * Reads answers of the Messages API of Anthropic and of compatible servers. docs/reference/model-answers.md,
 * "Messages", has the meaning and the source of each member.
 */
import {
  asText,
  fields,
  type Fields,
  type GrowingAnswer,
  type GrowingToolCall,
  list,
  text,
} from '@clinical-events/protocol/spans';
import { type Counts, takeUsage } from './messages-usage.js';
import type { AnswerReader } from './reader.js';

/** A block that arrives in pieces. */
interface Block {
  /** Undefined for a block that is not a tool call. */
  readonly call?: GrowingToolCall | undefined;
  /** Whether the input of the tool arrived in pieces. */
  inPieces: boolean;
  /** The pieces of a block that is not read are kept with it. */
  readonly unread?: unknown[] | undefined;
}

/** The state of an unfinished answer. */
class Growing {
  readonly blocks = new Map<unknown, Block>();
  readonly calls = new Map<string, GrowingToolCall>();
  readonly counts: Counts = {};
}

export const MESSAGES: AnswerReader = {
  whole(answer, message) {
    const { type, error, content } = message;
    if (isError(type, error)) answer.fail(error);
    else if (Array.isArray(content) || typeof content === 'string' || type === 'message') {
      takeMessage(answer, message);
      answer.text += text(content) ?? '';
      for (const block of list(content)) takeWholeBlock(answer, block);
      takeStop(answer, message);
      answer.ending ??= 'complete';
    }
  },
  piece(answer, event) {
    const { type, index, message, content_block, delta, usage, error } = event;
    if (type === 'content_block_delta') takeDelta(answer, index, fields(delta));
    else if (type === 'content_block_start') takeStart(answer, index, content_block);
    else if (type === 'content_block_stop') takeBlockEnd(answer, index);
    else if (type === 'message_start') takeMessage(answer, fields(message));
    else if (type === 'message_delta') {
      takeUsage(answer, answer.keeping(Growing).counts, fields(usage));
      takeStop(answer, fields(delta));
    } else if (type === 'message_stop') answer.ending ??= 'complete';
    else if (type === 'message') this.whole(answer, event);
    else if (isError(type, error)) answer.fail(error);
  },
};

/** The error of a gateway is not wrapped in a type. */
function isError(type: unknown, error: unknown): boolean {
  return type === 'error' || (error !== undefined && error !== null && error !== false);
}

function takeMessage(answer: GrowingAnswer, { id, model, usage }: Fields): void {
  answer.id = text(id) ?? answer.id;
  answer.model = text(model) ?? answer.model;
  takeUsage(answer, answer.keeping(Growing).counts, fields(usage));
}

/** Reasons of Anthropic after which the same conversation is sent again. */
export const PAUSED = new Set(['pause_turn', 'compaction']);

function takeStop(answer: GrowingAnswer, { stop_reason }: Fields): void {
  const reason = text(stop_reason);
  if (reason === undefined) return;
  answer.finishReason = reason;
  answer.refused ||= reason === 'refusal';
  answer.ending ??= PAUSED.has(reason) ? 'unfinished' : 'complete';
}

/**
 * Blocks that are neither words nor tool calls: encrypted thinking, a listing of tools, files for a
 * container, and a summary of the conversation (`compaction`). Results of tools are recognised by the end of
 * their type.
 */
const WORDLESS = new Set(['redacted_thinking', 'container_upload', 'compaction', 'mcp_tool_listing']);
const MEDIA = { image: 'image', document: 'file' } as const;

function takeWholeBlock(answer: GrowingAnswer, value: unknown): void {
  const block = fields(value);
  const call = takeBlock(answer, block, value)?.call;
  if (call && block['input'] !== undefined) call.input = asText(block['input']);
}

/** In a stream, `input` is either an empty object with pieces after it, or complete. */
function takeStart(answer: GrowingAnswer, index: unknown, value: unknown): void {
  const block = fields(value);
  const begun = takeBlock(answer, block, value) ?? { inPieces: false };
  answer.keeping(Growing).blocks.set(index, begun);
  const input = asText(block['input'] ?? {});
  if (begun.call && input !== '{}') begun.call.input = input;
}

/** A tool call without pieces has an empty input, if the answer was not cut off. */
function takeBlockEnd(answer: GrowingAnswer, index: unknown): void {
  const { blocks } = answer.keeping(Growing);
  const call = blocks.get(index)?.call;
  if (call) call.input ||= '{}';
  blocks.delete(index);
}

/** @returns the state for its pieces; undefined for a block of words. */
function takeBlock(answer: GrowingAnswer, block: Fields, value: unknown): Block | undefined {
  const { text: words, thinking, tool_use_id, to } = block;
  const type = text(block['type']) ?? '';
  if (type === 'text' && typeof words === 'string') answer.text += words;
  else if (type === 'thinking' && typeof thinking === 'string') answer.reasoning += thinking;
  else if (type.endsWith('tool_use')) return { call: takeToolUse(answer, block), inPieces: false };
  else if (type.endsWith('tool_result')) takeToolResult(answer, tool_use_id);
  // Another model answers after a refusal.
  else if (type === 'fallback') answer.model = text(fields(to)['model']) ?? answer.model;
  else if (type === 'image' || type === 'document') answer.medium(MEDIA[type]);
  else if (!WORDLESS.has(type)) return { unread: takeUnread(answer, value), inPieces: false };
  return undefined;
}

/** @returns the list for its pieces, which are kept with the block. */
function takeUnread(answer: GrowingAnswer, block: unknown): unknown[] {
  const deltas: unknown[] = [];
  answer.notRead(typeof block === 'object' && block !== null ? { ...block, deltas } : block);
  return deltas;
}

/** The application runs `tool_use`; the provider runs `server_tool_use` and `mcp_tool_use`. */
function takeToolUse(answer: GrowingAnswer, { type, id, name }: Fields): GrowingToolCall {
  // Gateways may give two blocks the same index or id.
  const call = answer.toolCall(Symbol());
  call.id = text(id);
  call.name = text(name);
  call.byProvider = type !== 'tool_use';
  if (call.id !== undefined) answer.keeping(Growing).calls.set(call.id, call);
  return call;
}

/** A tool with a result has run: the result is not shown, and its error is not a failure of the call. */
function takeToolResult(answer: GrowingAnswer, id: unknown): void {
  const call = answer.keeping(Growing).calls.get(id as string);
  if (call) call.byProvider = true;
}

const WORDLESS_DELTAS = new Set(['signature_delta', 'citations_delta', 'compaction_delta']);

function takeDelta(answer: GrowingAnswer, index: unknown, delta: Fields): void {
  const { type, text: words, thinking, partial_json } = delta;
  const block = answer.keeping(Growing).blocks.get(index);
  if (block?.unread) block.unread.push(delta);
  else if (type === 'text_delta' && typeof words === 'string') answer.text += words;
  else if (type === 'thinking_delta' && typeof thinking === 'string') answer.reasoning += thinking;
  else if (type === 'input_json_delta' && typeof partial_json === 'string')
    takeInput(answer, index, block, partial_json);
  else if (!WORDLESS_DELTAS.has(text(type) ?? '')) answer.notRead(delta);
}

/** Gateways send empty pieces for blocks that are not tools. */
function takeInput(answer: GrowingAnswer, index: unknown, known: Block | undefined, piece: string): void {
  if (piece === '') return;
  const block = known ?? { call: answer.toolCall(Symbol()), inPieces: false };
  if (!known) answer.keeping(Growing).blocks.set(index, block);
  const { call } = block;
  if (call) call.input = block.inPieces ? call.input + piece : piece;
  else answer.notRead(piece);
  block.inPieces = true;
}
