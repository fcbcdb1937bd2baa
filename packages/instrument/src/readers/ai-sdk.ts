/**
 * Reads answers that the AI SDK, versions 5 to 7, passes to a middleware. docs/reference/model-answers.md,
 * "AI SDK", has the meaning and the source of each member.
 */
import {
  asText,
  fields,
  type Fields,
  type GrowingAnswer,
  type GrowingToolCall,
  mediumOf,
  text,
} from '@clinical-events/protocol/spans';
import { takeUsage } from './ai-sdk-usage.js';
import { PAUSED } from './messages.js';

/** Texts by id, in the order of their beginning; an id may be used again after its text has ended. */
class Texts {
  readonly #all: { words: string }[] = [];
  readonly #open = new Map<unknown, { words: string }>();

  begin(id: unknown): { words: string } {
    const text = { words: '' };
    this.#all.push(text);
    this.#open.set(id, text);
    return text;
  }

  add(id: unknown, piece: string): void {
    const text = this.#open.get(id) ?? this.begin(id);
    text.words += piece;
  }

  get words(): string {
    return this.#all.map(({ words }) => words).join('');
  }
}

/** One answer: a whole result, or the parts of a stream. */
export class ModelAnswer {
  readonly #answer: GrowingAnswer;
  readonly #text = new Texts();
  readonly #reasoning = new Texts();
  /** Inputs of calls that arrive in pieces. */
  readonly #begun = new Map<unknown, GrowingToolCall>();
  readonly #calls = new Map<unknown, GrowingToolCall>();
  #waits = false;

  constructor(answer: GrowingAnswer) {
    this.#answer = answer;
  }

  /** Takes the result of `doGenerate`. */
  whole(result: Fields): void {
    const { content, response } = result;
    this.#takeResponse(response);
    if (!Array.isArray(content)) return;
    for (const [at, value] of content.entries()) {
      const part = fields(value);
      const { type, text: words } = part;
      if (type === 'text' && typeof words === 'string') this.#text.add(at, words);
      else if (type === 'reasoning' && typeof words === 'string') this.#reasoning.add(at, words);
      else this.#takeContent(part, value);
    }
    this.#takeEnd(result);
    this.end();
  }

  /** Takes a part of the stream of `doStream`. */
  part(part: Fields): void {
    const { type, id, delta } = part;
    if (type === 'text-delta' && typeof delta === 'string') this.#text.add(id, delta);
    else if (type === 'reasoning-delta' && typeof delta === 'string') this.#reasoning.add(id, delta);
    else if (type === 'tool-input-delta') this.#takeInput(id, text(delta) ?? '');
    else if (type === 'text-start') this.#text.begin(id);
    else if (type === 'reasoning-start') this.#reasoning.begin(id);
    else if (type === 'tool-input-start') this.#begin(part);
    else if (type === 'response-metadata') this.#takeResponse(part);
    else if (type === 'finish') this.#takeEnd(part);
    else if (type === 'error') this.#answer.fail(part['error']);
    else if (!WORDLESS.has(type as string)) this.#takeContent(part, part);
  }

  /** Puts the collected parts into the answer at the end of the stream. */
  end(): void {
    this.#answer.text = this.#text.words;
    this.#answer.reasoning = this.#reasoning.words;
  }

  #takeContent(part: Fields, value: unknown): void {
    const { type, mediaType, toolCallId } = part;
    if (type === 'tool-call') this.#takeCall(part);
    else if (type === 'tool-result') {
      // The tool has run: its result is not shown, and its error is not a failure of the call.
      const call = this.#calls.get(toolCallId);
      if (call) call.byProvider = true;
    } else if (type === 'tool-approval-request') this.#waits = true;
    else if (type === 'file') this.#answer.medium(mediumOf(/^(\w+)\//.exec(text(mediaType) ?? '')?.[1]));
    else if (type !== 'source' && type !== 'reasoning-file') this.#answer.notRead(value);
  }

  #begin({ id, toolName, providerExecuted }: Fields): void {
    // Some providers give two calls the same id.
    const call = this.#answer.toolCall(Symbol());
    call.id = text(id);
    call.name = text(toolName);
    call.byProvider = providerExecuted === true;
    this.#begun.set(id, call);
  }

  #takeInput(id: unknown, piece: string): void {
    const call = this.#begun.get(id);
    if (call) call.input += piece;
  }

  /** Takes the complete input, including one that arrived in pieces. */
  #takeCall({ toolCallId: id, toolName, input, providerExecuted, invalid }: Fields): void {
    if (!this.#begun.has(id)) this.#begin({ id });
    const call = this.#begun.get(id);
    if (!call) return;
    this.#begun.delete(id);
    this.#calls.set(id, call);
    call.name = text(toolName) ?? call.name;
    call.input = input === undefined ? call.input : asText(input);
    call.byProvider ||= providerExecuted === true;
    if (invalid === true) call.invalid = true;
  }

  #takeResponse(response: unknown): void {
    const { id, modelId } = fields(response);
    this.#answer.id = text(id) ?? this.#answer.id;
    this.#answer.model = text(modelId) ?? this.#answer.model;
  }

  /** Version 5 has the reason itself; later versions have an object. */
  #takeEnd(end: Fields): void {
    const { finishReason } = end;
    const { unified, raw } = fields(finishReason);
    const reason = text(unified) ?? text(finishReason);
    this.#answer.finishReason = reason;
    this.#answer.refused ||= raw === 'refusal';
    takeUsage(this.#answer, end);
    // The provider gave no reason: the missing parts show how the call ended.
    if (reason === 'interrupted') return;
    // Reasons of providers for which the AI SDK has no name.
    const isPaused = this.#waits || PAUSED.has(raw as string);
    this.#answer.ending ??= reason === 'error' ? 'failed' : isPaused ? 'unfinished' : 'complete';
  }
}

/** Parts of a stream that do not belong to the answer. */
const WORDLESS = new Set(['stream-start', 'text-end', 'reasoning-end', 'tool-input-end', 'raw', 'ping']);
