/** Joins the pieces of tool calls in a stream; servers number them by index, by id, by both or not at all. */
import type { GrowingChoice, GrowingToolCall } from '@clinical-events/protocol/spans';

export interface Asked {
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly input: string;
}

export class CallsInPieces {
  #number = 0;
  #last: GrowingToolCall | undefined;
  readonly #byIndex = new Map<number, GrowingToolCall>();
  readonly #byId = new Map<string, GrowingToolCall>();

  /** A piece belongs to the call with its index or id, or to the last call. */
  take(choice: GrowingChoice, index: number | undefined, asked: Asked): void {
    const { id = '', name } = asked;
    let call = index === undefined ? this.#last : this.#byIndex.get(index);
    const byId = this.#byId.get(id);
    if (byId && (call ? call.id !== id : index === undefined || name === undefined)) call = byId;
    if (!call || begins(call, index, asked)) call = choice.toolCall(this.#number++);
    put(call, asked);
    if (index !== undefined) this.#byIndex.set(index, call);
    if (id !== '') this.#byId.set(id, call);
    this.#last = call;
  }
}

/** Whether a piece begins a new call in the position of this one. */
function begins(call: GrowingToolCall, index: number | undefined, { id, name, input }: Asked): boolean {
  const whole = seemsWhole(call);
  if (id !== undefined && call.id !== undefined && id !== call.id) return name !== undefined || whole;
  if (name === undefined || call.name === undefined) return false;
  if (name !== call.name) return whole || (index === undefined && id === undefined);
  return id === undefined && whole && input.startsWith('{') && input !== call.input;
}

/**
 * The first and last characters of an input: inspecting the whole growing text would cost its length each
 * time.
 */
const edges = new WeakMap<GrowingToolCall, { readonly first: string; last: string }>();

function seemsWhole(call: GrowingToolCall): boolean {
  const edge = edges.get(call);
  return edge?.first === '{' && edge.last === '}';
}

/** The longest name of a tool. */
const LONGEST_NAME = 200;

/** Adds a piece that repeats the text only once. */
function put(call: GrowingToolCall, { id, name, input }: Asked): void {
  call.id ??= id;
  if (call.name === undefined || name?.startsWith(call.name)) call.name = name;
  else if (call.input === '' && call.name.length < LONGEST_NAME) call.name += name ?? '';
  const part = input.trim();
  if (call.input === '{}' && part.startsWith('{')) call.input = input;
  else if (seemsWhole(call) && isAgain(call.input, input)) return;
  else call.input += input;
  if (part === '') return;
  const { first } = edges.get(call) ?? { first: part.charAt(0) };
  edges.set(call, { first, last: part.charAt(part.length - 1) });
}

/** Whether the input repeats the text, as it is or as a JSON string. */
function isAgain(before: string, input: string): boolean {
  if (input.length <= before.length) return input === before;
  return input.startsWith('"{') && input === JSON.stringify(before);
}
