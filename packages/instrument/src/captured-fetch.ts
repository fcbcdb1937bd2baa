/** A fetch for SDKs that captures model calls. */
import { performance } from 'node:perf_hooks';
import { fields, type Fields, GrowingAnswer, list, text, word } from '@clinical-events/protocol/spans';
import {
  type Begun,
  checkOptions,
  type Ended,
  type InstrumentationOptions,
  ModelCall,
  quietly,
  type RunsIn,
} from './model-call.js';
import type { AnswerReader } from './readers/reader.js';
import { laterCallsOf, RecentCalls } from './recent-calls.js';
import { SentRequest } from './sent-request.js';
import { EventStream, watchedStream, type Watcher } from './streams.js';

export interface FetchOptions extends InstrumentationOptions {
  /** Makes the requests; the global `fetch` by default. */
  readonly fetch?: typeof fetch | undefined;
}

/**
 * The type of the global fetch. The second signature is for SDKs whose option has the type of node-fetch
 * (OpenAI 4, Anthropic 0.39).
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- types of node-fetch
export type CapturedFetch = typeof fetch & ((input: any, init?: any) => Promise<any>);

export interface Dialect {
  readonly provider: string;
  /** @returns undefined for a path without a model. */
  readerFor(path: string): AnswerReader | undefined;
  /** The path of the earlier answer that a request fetches: the path of its call, and the answer's id. */
  earlierAnswer?(method: string, path: string): string | undefined;
  /** Facts about the request, without its words. */
  inputs(request: Fields): Begun['inputs'];
}

/** A longer answer is passed on without being read further. */
const MOST_CHARACTERS = 16 << 20;

/**
 * A fetch that captures model calls and passes on all other requests. A retry, and an answer that is fetched
 * later, belong to the run of the first attempt. The request is sent before anything is captured, and a
 * stream is passed on as it arrives.
 */
export function capturedFetch(runs: RunsIn, options: FetchOptions, dialect: Dialect): CapturedFetch {
  checkOptions(options, 'fetch');
  const recent = new RecentCalls();
  return async (...[input, init]: Parameters<typeof fetch>): Promise<Response> => {
    const make = options.fetch ?? fetch;
    const startedAt = performance.now();
    const answering = make(input, init);
    const sent = quietly(() => new SentRequest(startedAt, input, init));
    const reader = quietly(() =>
      sent?.method === 'POST' ? dialect.readerFor(sent.url.pathname) : undefined,
    );
    if (!sent || !reader) {
      const end = sent && quietly(() => endOfEarlier(runs, dialect, sent));
      if (!end) return answering;
      const response = await answering;
      return quietly(() => watchedResponse(response, sent, end.reader, end)) ?? response;
    }
    const { provider } = dialect;
    const begun = {
      ...{ by: provider, provider, model: text(sent.request['model']), request: sent.request, startedAt },
      inputs: quietly(() => dialect.inputs(sent.request)) ?? {},
      attempt: quietly(() => sent.attempt) ?? 1,
    };
    const key = quietly(() => sent.key);
    const before = begun.attempt > 1 ? recent.retried(key, begun.attempt, runs) : undefined;
    const call = before?.beginAgain(begun) ? before : new ModelCall(runs, options, begun);
    recent.add(key, call);
    let response: Response;
    try {
      response = await answering;
    } catch (error) {
      const broken = quietly(() => sent.brokenBy(error)) ?? { ending: 'failed' };
      call.end({ ...broken, error, answer: new GrowingAnswer() });
      throw error;
    }
    const end = (ended: Ended) => {
      const id = dialect.earlierAnswer && mayBeFetchedLater(ended, sent) ? ended.answer.id : undefined;
      call.end({ ...ended, mayEndAgain: id !== undefined });
      if (id === undefined) return;
      laterCallsOf(runs).add(addressOf(sent, `${sent.url.pathname}/${id}`), { call, reader });
    };
    const watched = quietly(() => watchedResponse(response, sent, reader, end));
    if (!watched) call.end({ ending: 'not read', answer: new GrowingAnswer() });
    return watched ?? response;
  };
}

function addressOf({ url }: SentRequest, path: string): string {
  return url.origin + decodeURIComponent(path);
}

function mayBeFetchedLater({ answer }: Ended, { request }: SentRequest): boolean {
  return answer.ending === 'unfinished' || (answer.ending === undefined && request['background'] === true);
}

/** Ends the call whose answer this request fetches, if the provider has finished it. */
function endOfEarlier(runs: RunsIn, dialect: Dialect, sent: SentRequest) {
  const path = dialect.earlierAnswer?.(sent.method, sent.url.pathname);
  const address = path === undefined ? undefined : addressOf(sent, path);
  const later = address === undefined ? undefined : laterCallsOf(runs).get(address);
  if (address === undefined || !later) return undefined;
  const end = (ended: Ended) => {
    const { ending, id } = ended.answer;
    if (ending === undefined || ending === 'unfinished' || id === undefined) return;
    if (laterCallsOf(runs).remove(address, later)) later.call.end(ended);
  };
  return Object.assign(end, { reader: later.reader });
}

function watchedResponse(
  response: Response,
  sent: SentRequest,
  reader: AnswerReader,
  end: (ended: Ended) => void,
): Response {
  const { status, statusText, headers, body } = response;
  const answer = new GrowingAnswer();
  if (!response.ok) {
    end({ ending: 'failed', status, answer });
    return response;
  }
  const type = (headers.get('content-type') ?? '').toLowerCase();
  // SDKs read the answer as a stream if they asked for one, whatever its content type.
  const isStream = type.startsWith('text/event-stream') || sent.request['stream'] === true;
  const isReadable =
    /^text\/event-stream|[/+]json\b/.test(type) || (isStream && /^$|^text\/plain/.test(type));
  // The application's own fetch may return other kinds of bodies.
  if (!(body instanceof ReadableStream) || !isReadable || response.bodyUsed) {
    end({ ending: 'not read', answer });
    return response;
  }
  const watcher = new BodyWatcher(sent, answer, reader, isStream, end);
  const Made = response.constructor as typeof Response;
  const passed = new Made(watchedStream(body, watcher), { status, statusText, headers });
  for (const name of ['url', 'redirected', 'type'] as const) {
    Object.defineProperty(passed, name, { value: response[name] });
  }
  return passed;
}

class BodyWatcher implements Watcher<Uint8Array> {
  readonly #sent: SentRequest;
  readonly #answer: GrowingAnswer;
  readonly #reader: AnswerReader;
  readonly #end: (ended: Ended) => void;
  readonly #decoder = new TextDecoder();
  #events: EventStream | undefined;
  #whole = '';
  #characters = 0;

  constructor(
    sent: SentRequest,
    answer: GrowingAnswer,
    reader: AnswerReader,
    isStream: boolean,
    end: (ended: Ended) => void,
  ) {
    this.#sent = sent;
    this.#answer = answer;
    this.#reader = reader;
    this.#end = end;
    if (isStream) this.#events = new EventStream((data) => this.#event(data));
  }

  seen(chunk: Uint8Array): void {
    if (this.#characters > MOST_CHARACTERS) return;
    const piece = this.#decoder.decode(chunk, { stream: true });
    // Instead of a stream, a server may send one object, and a proxy may send a page.
    if (this.#characters === 0 && /^\s*[{[<]/.test(piece)) this.#events = undefined;
    this.#characters += piece.length;
    if (this.#events) this.#events.push(piece);
    else this.#whole += piece;
  }

  over(how: 'read' | 'failed' | 'cancelled', error?: unknown): void {
    const answer = this.#answer;
    if (this.#events) {
      if (how === 'read') this.#events.end();
      quietly(() => this.#reader.end?.(answer));
    } else if (how === 'read') {
      quietly(() => this.#reader.whole(answer, fields(JSON.parse(this.#whole))));
    }
    this.#end({ ...this.#ended(how, error), answer, ...(how === 'failed' && { error }) });
  }

  #ended(how: 'read' | 'failed' | 'cancelled', error: unknown): Pick<Ended, 'ending' | 'errorName'> {
    const { ending } = this.#answer;
    // A reader that stops after the last word has read everything.
    if (ending) return { ending };
    if (how === 'cancelled') return { ending: 'aborted' };
    if (how === 'failed') {
      // The connection broke after the answer had begun.
      const errorName = word(fields(fields(error)['cause'])['code']);
      return this.#sent.brokenBy(error, this.#events !== undefined) ?? { ending: 'cut off', errorName };
    }
    return { ending: this.#events && this.#characters <= MOST_CHARACTERS ? 'cut off' : 'not read' };
  }

  #event(data: string): void {
    if (data.startsWith('[DONE]')) {
      this.#answer.ending ??= 'complete';
      return;
    }
    try {
      this.#reader.piece(this.#answer, fields(JSON.parse(data)));
    } catch {
      // An event that cannot be read is still passed on.
    }
  }
}

/** Counts of a request, the same for both dialects. */
export function counts(request: Fields, messages: unknown): Begun['inputs'] {
  const number = Array.isArray(messages) ? messages.length : 1;
  return {
    message_count: number,
    tool_count: list(request['tools']).length,
    streamed: request['stream'] === true,
  };
}
