/** Answers of the Responses API: of OpenAI, and of servers that speak the same (docs/reference/model-answers.md). */
import { fields, type Fields, type GrowingAnswer, list, text } from '../answer.js';
import type { AnswerReader } from './reader.js';
import { asked, read, type Said, wordsOf } from './response-items.js';

export const RESPONSES: AnswerReader = {
  whole(answer, response) {
    takeEnd(answer, response);
    // What an answer in progress has so far comes again when it is fetched later.
    if (answer.ending === 'unfinished') return;
    take(answer, read(list(response['output'])), response);
  },
  piece(answer, event) {
    const type = text(event['type']) ?? '';
    if (type === 'error' || type === '') {
      if (type !== '' || event['error']) answer.fail(event['error'] ?? { ...event, type: undefined });
      return;
    }
    const stream = streamOf(answer);
    const dot = type.lastIndexOf('.');
    const [name, how] = [type.slice(0, dot), type.slice(dot + 1)];
    if (name === 'response') stream.lifecycle(answer, fields(event['response']), how);
    else if (name === 'response.output_item') stream.item(event, how === 'done');
    else if (how === 'delta' || how === 'done') stream.piece(name, event, how === 'done');
  },
  end(answer) {
    const stream = streams.get(answer);
    if (stream) take(answer, read(stream.output), stream.response);
  },
};

/* The end of an answer. */

const ENDINGS = new Map([
  ['completed', 'complete'],
  ['done', 'complete'],
  // As much as the limit or the filter let through: its reason says so.
  ['incomplete', 'complete'],
  ['cancelled', 'aborted'],
] as const);

/** @param how the end by the name of the event; it counts where the status is not that of an end. */
function takeEnd(answer: GrowingAnswer, response: Fields, how?: string): void {
  takeIdentity(answer, response);
  const { usage, status, error, incomplete_details, output, output_text, object } = response;
  const { input_tokens, output_tokens, prompt_tokens, completion_tokens, ...details } = fields(usage);
  const input = fields(details['input_tokens_details'] ?? details['prompt_tokens_details']);
  const made = fields(details['output_tokens_details'] ?? details['completion_tokens_details']);
  answer.count({
    ...{ input: input_tokens ?? prompt_tokens, output: output_tokens ?? completion_tokens },
    ...{ cacheRead: input['cached_tokens'], cacheCreation: input['cache_write_tokens'] },
    reasoning: made['reasoning_tokens'],
  });
  answer.finishReason = text(fields(incomplete_details)['reason']) ?? text(status);
  const stale = how !== undefined && (status === 'queued' || status === 'in_progress');
  const said = (stale ? how : text(status)) ?? how;
  if (error || object === 'error') answer.fail(error ? error : response);
  else if (said === 'failed') answer.fail(error);
  else if (said !== undefined) answer.ending = ENDINGS.get(said as 'done') ?? 'unfinished';
  else if (Array.isArray(output) || text(output_text) !== undefined) answer.ending = 'complete';
}

function takeIdentity(answer: GrowingAnswer, { id, model }: Fields): void {
  answer.id = text(id) ?? answer.id;
  answer.model = text(model) ?? answer.model;
}

function take(answer: GrowingAnswer, said: Said, { output_text }: Fields): void {
  const aside = said.way.flatMap(({ words, thought }) => (thought ? [] : words)).join('');
  const thoughts = said.way.filter(({ thought }) => thought || said.words !== '');
  answer.text = said.words || aside || (text(output_text) ?? '');
  answer.reasoning = thoughts.map(({ words }) => words).join('');
  answer.refused ||= said.refused;
  for (const [at, tool] of said.tools.entries()) Object.assign(answer.toolCall(at), tool);
  for (const kind of said.media) answer.medium(kind);
  for (const part of said.unread) answer.notRead(part);
  if (said.asksForApproval && answer.ending === 'complete') answer.ending = 'unfinished';
}

/* Streams. */

/** The events that bring words, and the type of part that the words are of. */
const WORDS = new Map([
  ['response.output_text', 'output_text'],
  ['response.refusal', 'refusal'],
  ['response.audio.transcript', 'output_audio'],
  ['response.reasoning_text', 'reasoning_text'],
  ['response.reasoning', 'reasoning_text'],
  ['response.reasoning_summary_text', 'summary_text'],
  ['response.reasoning_summary', 'summary_text'],
]);

/** An item that is on its way. */
class StreamedItem {
  item: Fields;
  isDone = false;
  asked = '';
  readonly at: unknown;
  /** By type of part: those that are whole, and what has come of the next. */
  readonly #parts = new Map<string, { readonly whole: string[]; open: string }>();

  constructor(item: Fields, at: unknown) {
    this.item = item;
    this.at = at;
  }

  words(kind: string, words: string, isWhole: boolean): void {
    const part = this.#parts.get(kind) ?? { whole: [], open: '' };
    this.#parts.set(kind, part);
    if (!isWhole) part.open += words;
    // The end of a part is told twice: with its words, and as a part.
    else if (part.open !== '' || part.whole.at(-1) !== words) {
      part.whole.push(words === '' ? part.open : words);
      part.open = '';
    }
  }

  get output(): Fields {
    const { item, asked: growing } = this;
    if (growing !== '' && (!this.isDone || asked(item) === '')) return { ...item, arguments: growing };
    if (wordsOf(item['content']) + wordsOf(item['summary']) !== '' || this.#parts.size === 0) return item;
    const parts = [...this.#parts].map(([type, { whole, open }]) => {
      return { type, text: whole.join('') + open, ...(type === 'refusal' && { refusal: '' }) };
    });
    const summary = parts.filter(({ type }) => type === 'summary_text');
    return { ...item, content: parts.filter(({ type }) => type !== 'summary_text'), summary };
  }
}

const MOST_ITEMS = 4096;

class ResponseStream {
  /** As the last event has it. */
  response: Fields = {};
  readonly #items: StreamedItem[] = [];
  readonly #byId = new Map<unknown, StreamedItem>();
  /** Words that came in pieces, by type of item. */
  readonly #pieces = new Map<unknown, string>();

  lifecycle(answer: GrowingAnswer, response: Fields, how: string): void {
    if (!['completed', 'incomplete', 'failed', 'cancelled', 'done'].includes(how))
      return takeIdentity(answer, response);
    this.response = response;
    takeEnd(answer, response, how);
  }

  item({ item, output_index }: Fields, isDone: boolean): void {
    const { id, type } = fields(item);
    const known =
      this.#byId.get(id) ??
      (isDone
        ? this.#items.findLast(
            (each) => !each.isDone && each.at === output_index && each.item['type'] === type,
          )
        : undefined);
    const streamed = known ?? this.#add(fields(item), output_index);
    streamed.item = fields(item);
    streamed.isDone = isDone;
  }

  piece(name: string, event: Fields, isWhole: boolean): void {
    const { delta, text: said, refusal, transcript, arguments: asked, input, code, command } = event;
    const part = fields(
      /^response\.(content|reasoning|reasoning_summary)_part$/.test(name) ? event['part'] : undefined,
    );
    const kind = WORDS.get(name) ?? text(part['type']);
    if (kind !== undefined) {
      const words = isWhole
        ? (text(said) ?? text(refusal) ?? text(transcript) ?? wordsOf([part]))
        : (text(delta) ?? '');
      const type = kind === 'reasoning_text' || kind === 'summary_text' ? 'reasoning' : 'message';
      if (!isWhole) this.#pieces.set(type, (this.#pieces.get(type) ?? '') + words);
      this.#of(event, type).words(kind, words, isWhole);
    } else if (name === 'response.audio') this.#of(event, 'message').words('output_audio', '', false);
    else {
      const [, type] = /^response\.(\w+_call)_(?:arguments|input|code|command)$/.exec(name) ?? [];
      if (type === undefined) return;
      const call = this.#of(event, type);
      call.asked = isWhole
        ? (([asked, input, code, command].find((each) => text(each)) as string | undefined) ?? call.asked)
        : call.asked + (text(delta) ?? '');
    }
  }

  /** Some servers give each piece an id of its own, or none: then it is of the last item of its type. */
  #of({ item_id, output_index }: Fields, type: string): StreamedItem {
    const known = this.#byId.get(item_id);
    if (known?.item['type'] === type) return known;
    const last = this.#items.findLast(
      ({ item, at }) => item['type'] === type && (output_index === undefined || at === output_index),
    );
    return last ?? this.#add({ type, id: item_id }, output_index);
  }

  #add(item: Fields, at: unknown): StreamedItem {
    const streamed = new StreamedItem(item, at);
    if (this.#items.length < MOST_ITEMS) {
      this.#items.push(streamed);
      if (text(item['id'])) this.#byId.set(item['id'], streamed);
    }
    return streamed;
  }

  /** By type, what the response has, or what came before it where that is more. */
  get output(): readonly unknown[] {
    const streamed = this.#items.map(({ output }) => output);
    const final = list(this.response['output']).map(fields);
    const chosen = ['reasoning', 'message', undefined].map((sort) => {
      const ofSort = ({ type }: Fields) =>
        (type === 'reasoning' || type === 'message' ? type : undefined) === sort;
      const [came, last] = [streamed.filter(ofSort), final.filter(ofSort)];
      const words =
        sort === 'message'
          ? last.map(({ content }) => wordsOf(content)).join('')
          : read(last)
              .way.map((each) => each.words)
              .join('');
      const pieces = this.#pieces.get(sort) ?? '';
      const isLess =
        sort === undefined
          ? last.length === 0
          : words === '' || (pieces.length > words.length && pieces.endsWith(words));
      return came.length > 0 && isLess ? { items: came, isLess } : { items: last, isLess: false };
    });
    if (chosen.every(({ isLess }) => !isLess)) return final;
    return final.length === 0 ? streamed : chosen.flatMap(({ items }) => items);
  }
}

const streams = new WeakMap<GrowingAnswer, ResponseStream>();

function streamOf(answer: GrowingAnswer): ResponseStream {
  const known = streams.get(answer);
  if (known) return known;
  const stream = new ResponseStream();
  streams.set(answer, stream);
  return stream;
}
