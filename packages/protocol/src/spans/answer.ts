/** A model's answer, collected from the chunks in which it arrives. */
import type { Fields } from '../values.js';

export interface ToolCall {
  readonly id: string | undefined;
  readonly name: string | undefined;
  /** The tool's arguments: JSON in most libraries. */
  readonly input: string;
  /** The provider runs the tool itself. */
  readonly byProvider: boolean;
  /** The library could not parse the model's arguments. */
  readonly invalid?: boolean | undefined;
}

export type GrowingToolCall = { -readonly [Name in keyof ToolCall]: ToolCall[Name] };

/**
 * Tokens, under the names of OpenTelemetry's conventions for GenAI: the first two include the other three.
 */
export interface Usage {
  readonly input_tokens?: number | undefined;
  readonly output_tokens?: number | undefined;
  readonly cache_read_input_tokens?: number | undefined;
  readonly cache_creation_input_tokens?: number | undefined;
  readonly reasoning_output_tokens?: number | undefined;
}

/** One of several alternative answers; most answers have one choice. */
export interface Choice {
  readonly text: string;
  readonly reasoning: string;
  readonly finishReason: string | undefined;
  readonly toolCalls: readonly ToolCall[];
}

/** In an answer with several choices, these are the words, reason and tool calls of the first. */
export interface Answer extends Choice {
  /** The provider's id of the answer. */
  readonly id: string | undefined;
  /** The model that answered, by the provider's name. */
  readonly model: string | undefined;
  readonly usage: Usage;
  /** All choices, in the order of their numbers; at least one. */
  readonly choices: readonly Choice[];
  /** Parts of unknown form, as received. */
  readonly unread: readonly unknown[];
  /** The facts about every answer that events record, without words. */
  readonly facts: Readonly<Record<string, unknown>>;
}

/**
 * The provider's state of its answer. `unfinished`: queued, in progress, paused, or waiting for an approval.
 * `aborted`: cancelled by the application.
 */
type SaidEnding = 'complete' | 'failed' | 'unfinished' | 'aborted';

export type Medium = 'image' | 'audio' | 'video' | 'file';

/** The medium with this name; any other value is a file. */
export function mediumOf(kind: unknown): Medium {
  return (['image', 'audio', 'video'] as const).find((known) => known === kind) ?? 'file';
}

/** An answer with more choices, tool calls or unknown parts is hostile: the rest is ignored. */
const MOST_PARTS = 4096;

export class GrowingChoice implements Choice {
  text = '';
  reasoning = '';
  finishReason: string | undefined;
  readonly #toolCalls = new Map<unknown, GrowingToolCall>();

  get toolCalls(): readonly ToolCall[] {
    return [...this.#toolCalls.values()];
  }

  /** The tool call with this key in the choice; created if absent. */
  toolCall(key: unknown): GrowingToolCall {
    const known = this.#toolCalls.get(key);
    if (known) return known;
    const call = { id: undefined, name: undefined, input: '', byProvider: false };
    if (this.#toolCalls.size < MOST_PARTS) this.#toolCalls.set(key, call);
    return call;
  }

  hasToolCall(key: unknown): boolean {
    return this.#toolCalls.has(key);
  }

  /** The facts about a choice that events record, without words. */
  get facts(): Readonly<Record<string, unknown>> {
    return {
      finish_reason: word(this.finishReason),
      characters: this.text.length,
      tool_calls: this.#toolCalls.size,
    };
  }
}

/** An answer under construction. Its input is hostile: no value is assumed to have the expected type. */
export class GrowingAnswer implements Answer {
  id: string | undefined;
  model: string | undefined;
  usage: Usage = {};
  /** Undefined until the provider states it. */
  ending: SaidEnding | undefined;
  /** Whether the words are a refusal. */
  refused = false;
  errorName: string | undefined;
  status: number | undefined;
  readonly unread: unknown[] = [];
  readonly #choices = new Map<number, GrowingChoice>([[0, new GrowingChoice()]]);
  readonly #media = new Map<string, number>();
  #unread = 0;
  #kept: object | undefined;

  /** The reader's own state for this answer. */
  get kept(): unknown {
    return this.#kept;
  }

  /** The reader's state of this class; created if absent. */
  keeping<Kept extends object>(Kind: new () => Kept): Kept {
    if (this.#kept instanceof Kind) return this.#kept;
    const made = new Kind();
    this.#kept = made;
    return made;
  }

  /** The choice with this number; anything that is not a number counts as 0. */
  choice(index: unknown): GrowingChoice {
    const at = Number.isInteger(index) && (index as number) > 0 ? (index as number) : 0;
    const known = this.#choices.get(at);
    if (known) return known;
    const choice = new GrowingChoice();
    if (this.#choices.size < MOST_PARTS) this.#choices.set(at, choice);
    return choice;
  }

  get choices(): readonly GrowingChoice[] {
    return [...this.#choices].sort(([a], [b]) => a - b).map(([, choice]) => choice);
  }

  /** Renumbers the choices that have content, from 0. */
  renumber(came: { has(choice: GrowingChoice): boolean }): void {
    const all = this.choices.filter((choice) => came.has(choice));
    this.#choices.clear();
    for (const [at, choice] of all.entries()) this.#choices.set(at, choice);
  }

  get #first(): GrowingChoice {
    return this.choice(0);
  }

  get text(): string {
    return this.#first.text;
  }

  set text(words: string) {
    this.#first.text = words;
  }

  get reasoning(): string {
    return this.#first.reasoning;
  }

  set reasoning(words: string) {
    this.#first.reasoning = words;
  }

  get finishReason(): string | undefined {
    return this.#first.finishReason;
  }

  set finishReason(reason: string | undefined) {
    this.#first.finishReason = reason;
  }

  get toolCalls(): readonly ToolCall[] {
    return this.#first.toolCalls;
  }

  toolCall(key: unknown): GrowingToolCall {
    return this.#first.toolCall(key);
  }

  get facts(): Readonly<Record<string, unknown>> {
    const { size } = this.#choices;
    return {
      response_id: word(this.id),
      response_model: modelName(this.model),
      usage: this.usage,
      ...this.#first.facts,
      ...(size > 1 && { choices: size }),
      ...(this.refused && { refused: true }),
      ...(this.#media.size > 0 && { media: Object.fromEntries(this.#media) }),
      ...(this.#unread > 0 && { unread_parts: this.#unread }),
    };
  }

  /** Whether the answer has anything to show a person. */
  get hasContent(): boolean {
    return this.text !== '' || this.#media.size > 0;
  }

  /** `text`, or the kind of content in place of words, such as `image`. */
  get outputType(): string {
    return this.text === '' ? (this.#media.keys().next().value ?? 'text') : 'text';
  }

  /** Sets each given value that is a count; the others stay. */
  count({ input, output, cacheRead, cacheCreation, reasoning }: Readonly<Record<string, unknown>>): void {
    const counts = {
      input_tokens: input,
      output_tokens: output,
      cache_read_input_tokens: cacheRead,
      cache_creation_input_tokens: cacheCreation,
      reasoning_output_tokens: reasoning,
    };
    const given = Object.entries(counts).filter(([, count]) => isCount(count));
    this.usage = { ...this.usage, ...Object.fromEntries(given) };
  }

  /** Adds a picture, sound or file to the answer. */
  medium(kind: Medium): void {
    this.#media.set(kind, (this.#media.get(kind) ?? 0) + 1);
  }

  /** Keeps a part of unknown form. */
  notRead(part: unknown): void {
    this.#unread += 1;
    if (this.unread.length < MOST_PARTS) this.unread.push(part);
  }

  /** Records the error that the provider reports in its answer, a value of any type. */
  fail(error: unknown): void {
    const { type, code, status, name } = fields(error);
    this.ending = 'failed';
    this.errorName = word(type) ?? word(code) ?? word(name) ?? this.errorName;
    const numbers = [code, status].map((said) => (typeof said === 'object' ? undefined : Number(said)));
    this.status = numbers.find(isFailureStatus) ?? this.status;
  }
}

/** Whether it is an HTTP status of failure; a failing answer with status 200 has none. */
export function isFailureStatus(status: unknown): status is number {
  return Number.isInteger(status) && (status as number) >= 400 && (status as number) <= 599;
}

/** Whether the application must run a tool before the final answer. Some libraries state only the reason. */
export function asksForTools({ toolCalls, finishReason }: Choice): boolean {
  return toolCalls.some(({ byProvider }) => !byProvider) || /^(tool|function)/.test(finishReason ?? '');
}

/**
 * A name or id, if it is one. A value with blanks may contain a patient's words and is dropped. Go types
 * begin with `*`.
 */
export function word(value: unknown): string | undefined {
  return typeof value === 'string' && /^\*?[\w.:/@+~-]{1,200}$/.test(value) ? value : undefined;
}

/** The name of a model, which may have blanks and brackets, but no control characters. */
export function modelName(value: unknown): string | undefined {
  return typeof value === 'string' && /^[^\p{Cc}]{1,200}$/u.test(value) ? value.toWellFormed() : undefined;
}

/** The members of an object or array; none for any other value. */
export function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** The value if it is a count. */
export function countOf(value: unknown): number | undefined {
  return isCount(value) ? value : undefined;
}

/** The sum of the values that are counts. */
export function sum(...counts: readonly unknown[]): number {
  return counts.filter(isCount).reduce((all, count) => all + count, 0);
}

/** @returns undefined when the first is not a count. */
export function sumWith(first: unknown, ...more: readonly unknown[]): number | undefined {
  return isCount(first) ? sum(first, ...more) : undefined;
}

/**
 * A tool's arguments: a string unchanged, other values as JSON; empty if JSON cannot express it. Does not
 * throw.
 */
export function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  try {
    return text(JSON.stringify(value)) ?? '';
  } catch {
    return '';
  }
}

/** The ending of a call that timed out, on either side. */
export const TIMED_OUT = { ending: 'failed', errorName: 'TimeoutError' } as const;
