/** Collects the events of a streamed response: whole items, whole parts, and pieces. */
import { fields, type Fields, list, text } from '@clinical-events/protocol/spans';
import { asked, wordsOf } from './response-items.js';

/** What an event contains: the words of a part, whole or a piece, with the types of the part and its item. */
interface Words {
  readonly kind: string;
  readonly type: 'message' | 'reasoning';
  readonly isWhole: boolean;
}

function wordsOfA(kind: string, isWhole: boolean): Words {
  return {
    kind,
    type: kind === 'reasoning_text' || kind === 'summary_text' ? 'reasoning' : 'message',
    isWhole,
  };
}

const WORDS = new Map(
  [
    ['response.output_text', 'output_text'],
    ['response.refusal', 'refusal'],
    ['response.audio.transcript', 'output_audio'],
    ['response.reasoning_text', 'reasoning_text'],
    ['response.reasoning', 'reasoning_text'],
    ['response.reasoning_summary_text', 'summary_text'],
    ['response.reasoning_summary', 'summary_text'],
  ].flatMap(([event = '', kind = '']): [string, Words][] => [
    [`${event}.delta`, wordsOfA(kind, false)],
    [`${event}.done`, wordsOfA(kind, true)],
  ]),
);

/**
 * The parts of one type in an item: whole ones, and pieces, the last of which may belong to the next part.
 */
interface StreamedParts {
  readonly whole: string[];
  pieces: string;
  /** The position in the pieces at which the next part begins. */
  next: number;
}

/** An unfinished item. */
class StreamedItem {
  item: Fields;
  isDone = false;
  asked = '';
  readonly at: unknown;
  readonly #parts = new Map<string, StreamedParts>();

  constructor(item: Fields, at: unknown) {
    this.item = item;
    this.at = at;
  }

  parts(kind: string): StreamedParts {
    const known = this.#parts.get(kind);
    if (known) return known;
    const parts = { whole: [], pieces: '', next: 0 };
    this.#parts.set(kind, parts);
    return parts;
  }

  get pieces(): string {
    return [...this.#parts.values()].map(({ pieces }) => pieces).join('');
  }

  get output(): Fields {
    const { item, asked: growing } = this;
    if (growing !== '' && (!this.isDone || asked(item) === '')) return { ...item, arguments: growing };
    if (wordsOf(item['content']) + wordsOf(item['summary']) !== '' || this.#parts.size === 0) return item;
    const parts = [...this.#parts].map(([type, { whole, pieces, next }]) => {
      return { type, text: whole.join('') + pieces.slice(next), ...(type === 'refusal' && { refusal: '' }) };
    });
    const summary = parts.filter(({ type }) => type === 'summary_text');
    return { ...item, content: parts.filter(({ type }) => type !== 'summary_text'), summary };
  }
}

function endOfPart(parts: StreamedParts, words: string): void {
  const { whole, pieces, next } = parts;
  // The end of a part is sent twice: with its words, and as a part.
  if (pieces.length === next && whole.at(-1) === words) return;
  whole.push(words === '' ? pieces.slice(next) : words);
  parts.next = pieces.length;
}

const MOST_ITEMS = 4096;

export class ResponseStream {
  /** The item in the event that ends it. */
  response: Fields = {};
  readonly #items: StreamedItem[] = [];
  readonly #byId = new Map<unknown, StreamedItem>();
  /** The item of the last piece, because most pieces belong to the same item as the previous piece. */
  #last: { readonly event: string; readonly id: unknown; readonly parts: StreamedParts } | undefined;

  item({ item, output_index }: Fields, isDone: boolean): void {
    const { id, type } = fields(item);
    const isIt = (each: StreamedItem) =>
      !each.isDone && each.at === output_index && each.item['type'] === type;
    const known = this.#byId.get(id) ?? (isDone ? this.#latest.findLast(isIt) : undefined);
    const streamed = known ?? this.#add(fields(item), output_index);
    streamed.item = fields(item);
    streamed.isDone = isDone;
  }

  /** @returns false for an event without words. */
  words(type: string, event: Fields): boolean {
    const last = this.#last;
    const id = event['item_id'];
    if (last?.event === type && last.id === id && id !== undefined) {
      last.parts.pieces += text(event['delta']) ?? '';
      return true;
    }
    const words = WORDS.get(type);
    if (!words) return false;
    const parts = this.#of(event, words.type).parts(words.kind);
    if (words.isWhole) {
      endOfPart(parts, text(event['text']) ?? text(event['refusal']) ?? text(event['transcript']) ?? '');
    } else {
      this.#last = { event: type, id, parts };
      parts.pieces += text(event['delta']) ?? '';
    }
    return true;
  }

  piece(name: string, event: Fields, isWhole: boolean): void {
    if (/^response\.(content|reasoning|reasoning_summary)_part$/.test(name)) {
      const part = fields(event['part']);
      const { kind, type } = wordsOfA(text(part['type']) ?? '', true);
      if (kind !== '') endOfPart(this.#of(event, type).parts(kind), wordsOf([part]));
    } else if (name === 'response.audio') this.#of(event, 'message').parts('output_audio');
    else {
      const [, type] = /^response\.(\w+_call)_(?:arguments|input|code|command)$/.exec(name) ?? [];
      if (type === undefined) return;
      const { arguments: given, input, code, command, delta } = event;
      const all = [given, input, code, command].find((each) => typeof each === 'string');
      const call = this.#of(event, type);
      call.asked = isWhole ? (text(all) ?? call.asked) : call.asked + (text(delta) ?? '');
    }
  }

  /**
   * Some servers give each piece its own id, or none: the piece then belongs to the last item of its type.
   */
  #of({ item_id, output_index }: Fields, type: string): StreamedItem {
    const known = this.#byId.get(item_id);
    if (known?.item['type'] === type) return known;
    const last = this.#latest.findLast(
      ({ item, at }) => item['type'] === type && (output_index === undefined || at === output_index),
    );
    return last ?? this.#add({ type, id: item_id }, output_index);
  }

  /** The latest items. The search is bounded, because each of many events may have its own id. */
  get #latest(): readonly StreamedItem[] {
    return this.#items.slice(-16);
  }

  #add(item: Fields, at: unknown): StreamedItem {
    const streamed = new StreamedItem(item, at);
    if (this.#items.length < MOST_ITEMS) {
      this.#items.push(streamed);
      if (text(item['id'])) this.#byId.set(item['id'], streamed);
    }
    return streamed;
  }

  /** For each type, the items of the response, or the streamed items if the response has less. */
  get output(): readonly unknown[] {
    const final = list(this.response['output']).map(fields);
    const chosen = (['reasoning', 'message', undefined] as const).map((type) => {
      const last = final.filter((item) => sortOf(item) === type);
      const came = this.#items.filter(({ item }) => sortOf(item) === type);
      const isLess = came.length > 0 && isLessThan(last, came, type);
      return { isLess, items: isLess ? came.map(({ output }) => output) : last };
    });
    if (chosen.every(({ isLess }) => !isLess)) return final;
    return final.length === 0
      ? this.#items.map(({ output }) => output)
      : chosen.flatMap(({ items }) => items);
  }
}

function sortOf({ type }: Fields): 'reasoning' | 'message' | undefined {
  return type === 'reasoning' || type === 'message' ? type : undefined;
}

/** Whether the server's response has no words, or only the last piece. */
function isLessThan(
  last: readonly Fields[],
  came: readonly StreamedItem[],
  type: string | undefined,
): boolean {
  if (type === undefined || last.length === 0) return last.length === 0;
  const words = last.map(({ content, summary }) => wordsOf(content) || wordsOf(summary)).join('');
  const pieces = came.map((each) => each.pieces).join('');
  return words === '' || (pieces.length > words.length && pieces.endsWith(words));
}
