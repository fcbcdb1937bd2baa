/** What a model has answered, gathered while it passes by on its way to the application. */

export interface ToolCall {
  readonly id: string | undefined;
  readonly name: string | undefined;
  /** What the tool is asked: JSON in most libraries. */
  readonly input: string;
  /** The provider runs it itself: the application has nothing to do for it. */
  readonly byProvider: boolean;
}

type GrowingToolCall = { -readonly [Name in keyof ToolCall]: ToolCall[Name] };

export interface Usage {
  readonly input_tokens?: number | undefined;
  readonly output_tokens?: number | undefined;
}

export interface Answer {
  /** Under which the provider knows it. */
  readonly id: string | undefined;
  /** The model that answered, as the provider names it. */
  readonly model: string | undefined;
  readonly finishReason: string | undefined;
  readonly usage: Usage;
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** The same without words: what events say of every answer. */
  readonly facts: Readonly<Record<string, unknown>>;
}

/** An answer that grows. What comes is hostile: nothing is taken for what it should be. */
export class GrowingAnswer implements Answer {
  id: string | undefined;
  model: string | undefined;
  finishReason: string | undefined;
  usage: Usage = {};
  text = '';
  reasoning = '';
  /** The provider has said that this is all. */
  complete = false;
  /** The provider has said, in the midst of it, that it failed. */
  failed = false;
  readonly #toolCalls = new Map<unknown, GrowingToolCall>();

  get toolCalls(): readonly ToolCall[] {
    return [...this.#toolCalls.values()];
  }

  get facts(): Readonly<Record<string, unknown>> {
    return {
      response_id: word(this.id),
      response_model: word(this.model),
      finish_reason: word(this.finishReason),
      usage: this.usage,
      characters: this.text.length,
      tool_calls: this.#toolCalls.size,
    };
  }

  /** The tool call that goes by this key within the answer; made when there is none. */
  toolCall(key: unknown): GrowingToolCall {
    let call = this.#toolCalls.get(key);
    if (!call) {
      call = { id: undefined, name: undefined, input: '', byProvider: false };
      this.#toolCalls.set(key, call);
    }
    return call;
  }

  /** Each count that is one; others stay as they were. */
  count(input: unknown, output: unknown): void {
    this.usage = {
      ...this.usage,
      ...(typeof input === 'number' && { input_tokens: input }),
      ...(typeof output === 'number' && { output_tokens: output }),
    };
  }
}

/** Whether the application has to run a tool before there is a final answer. Some libraries tell only the reason. */
export function asksForTools({ toolCalls, finishReason }: Answer): boolean {
  return toolCalls.some(({ byProvider }) => !byProvider) || /^(tool|function)/.test(finishReason ?? '');
}

/** A name or an id, if that is what it is. What has blanks may be words of a patient, and is left out. */
export function word(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w.:/@+~-]{1,200}$/.test(value) ? value : undefined;
}

export type Fields = Readonly<Record<string, unknown>>;

/** An object, whatever it was. */
export function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
