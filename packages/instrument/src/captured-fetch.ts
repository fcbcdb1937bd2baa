/** The fetch of a library, with the calls of models that go through it captured. */
import { createHash } from 'node:crypto';
import { fields, type Fields, GrowingAnswer, list, text } from './answer.js';
import {
  type Begun,
  checkOptions,
  type InstrumentationOptions,
  ModelCall,
  quietly,
  type RunsIn,
  startsRuns,
} from './model-call.js';
import type { AnswerReader } from './readers/reader.js';
import { EventStream, watchedStream, type Watcher } from './streams.js';

export interface FetchOptions extends InstrumentationOptions {
  /** What makes the requests; the global `fetch` when it is not given. */
  readonly fetch?: typeof fetch | undefined;
}

/**
 * For calls it is the global fetch. The second signature is for SDKs whose option wants the fetch of node-fetch (OpenAI
 * 4, Anthropic 0.39): they make nothing of their own of what it takes and gives.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- Types of node-fetch, which is not a dependency.
export type CapturedFetch = typeof fetch & ((input: any, init?: any) => Promise<any>);

export interface Dialect {
  readonly provider: string;
  /** Undefined when no model answers on this path. */
  readerFor(path: string): AnswerReader | undefined;
  /** What the request is made of, without words. */
  inputs(request: Fields): Begun['inputs'];
}

/** More characters than an answer has; beyond them it is passed on and not looked at any more. */
const MOST_CHARACTERS = 16 << 20;

/**
 * A fetch that captures what goes to and comes from a model, and leaves all else alone. A retry is of the run of the
 * attempt before. The request is under way before anything is captured, and a stream is passed on as it comes.
 */
export function capturedFetch(runs: RunsIn, options: FetchOptions, dialect: Dialect): CapturedFetch {
  checkOptions(options, 'fetch');
  const recent = new RecentCalls();
  return async (...[input, init]: Parameters<typeof fetch>): Promise<Response> => {
    const make = options.fetch ?? fetch;
    const startedAt = performance.now();
    const answering = make(input, init);
    const reader = quietly(() => readerOf(dialect, input, init));
    if (!reader) return answering;
    const body = text(init?.body);
    const request = quietly(() => fields(JSON.parse(body ?? '{}'))) ?? {};
    const { provider } = dialect;
    const begun = {
      ...{ by: provider, provider, model: text(request['model']), request, startedAt },
      inputs: quietly(() => dialect.inputs(request)) ?? {},
      attempt: quietly(() => attemptOf(init)) ?? 1,
    };
    const key = quietly(() => keyOf(input, body));
    const before = begun.attempt > 1 ? recent.retried(key, begun.attempt, runs) : undefined;
    const call = before?.goesOn(begun) ? before : new ModelCall(runs, options, begun);
    recent.add(key, call);
    let response: Response;
    try {
      response = await answering;
    } catch (error) {
      const ending = wasAborted(init, error) ? 'aborted' : 'failed';
      call.end({ ending, error, answer: new GrowingAnswer() });
      throw error;
    }
    const watched = quietly(() => watchedResponse(response, call, reader, init));
    if (!watched) call.end({ ending: 'not read', answer: new GrowingAnswer() });
    return watched ?? response;
  };
}

/** Of the SDKs of OpenAI and Anthropic: how many attempts came before. */
const RETRIES = 'x-stainless-retry-count';

function attemptOf(init: RequestInit | undefined): number {
  const retries = Number(new Headers(init?.headers).get(RETRIES) ?? 0);
  return Number.isInteger(retries) && retries > 0 && retries < 1000 ? retries + 1 : 1;
}

/** The same for requests that ask for the same; undefined for a body that is no text. */
function keyOf(input: Parameters<typeof fetch>[0], body: string | undefined): string | undefined {
  if (body === undefined) return undefined;
  const url = input instanceof Request ? input.url : String(input);
  return createHash('sha256').update(url).update('\0').update(body).digest('base64');
}

/** SDKs wait for a minute at most before they try again. */
const RETRIED_WITHIN_MS = 120_000;
const MOST_RECENT = 1000;

/** The calls of which a request that says to be a retry may be the next attempt. */
class RecentCalls {
  #calls: { readonly key: string; readonly call: ModelCall; readonly at: number }[] = [];

  add(key: string | undefined, call: ModelCall): void {
    const at = performance.now();
    this.#calls = this.#calls
      .filter((each) => each.call !== call && mayGoOn(each, at))
      .slice(1 - MOST_RECENT);
    if (key !== undefined) this.#calls.push({ key, call, at });
  }

  /**
   * Equal requests at the same time cannot be told apart by what is sent, and taking one for the other could tell of
   * the wrong patient. So there is an answer only if one call alone can be meant.
   */
  retried(key: string | undefined, attempt: number, runs: RunsIn): ModelCall | undefined {
    const within = quietly(() => startsRuns(runs));
    const now = performance.now();
    const [one, ...others] = this.#calls.filter(
      (each) =>
        each.key === key &&
        each.call.attempt === attempt - 1 &&
        each.call.within === within &&
        mayGoOn(each, now),
    );
    return others.length === 0 ? one?.call : undefined;
  }
}

function mayGoOn({ call, at }: { readonly call: ModelCall; readonly at: number }, now: number): boolean {
  return call.ending === undefined || (call.ending !== 'complete' && now - at < RETRIED_WITHIN_MS);
}

function readerOf(dialect: Dialect, ...[input, init]: Parameters<typeof fetch>): AnswerReader | undefined {
  const [url, method] = input instanceof Request ? [input.url, input.method] : [input, 'GET'];
  if ((init?.method ?? method).toUpperCase() !== 'POST') return undefined;
  return dialect.readerFor(new URL(url).pathname);
}

function watchedResponse(
  response: Response,
  call: ModelCall,
  reader: AnswerReader,
  init: RequestInit | undefined,
): Response {
  const { status, statusText, headers, body } = response;
  const answer = new GrowingAnswer();
  if (!response.ok) {
    call.end({ ending: 'failed', status, answer });
    return response;
  }
  const type = headers.get('content-type') ?? '';
  const isStream = type.startsWith('text/event-stream');
  // A fetch of the application's own may give bodies of another make.
  if (!(body instanceof ReadableStream) || !(isStream || type.includes('json')) || response.bodyUsed) {
    call.end({ ending: 'not read', answer });
    return response;
  }
  const watcher = new BodyWatcher(call, answer, reader, isStream, init);
  const Made = response.constructor as typeof Response;
  const passed = new Made(watchedStream(body, watcher), { status, statusText, headers });
  for (const name of ['url', 'redirected', 'type'] as const) {
    Object.defineProperty(passed, name, { value: response[name] });
  }
  return passed;
}

class BodyWatcher implements Watcher<Uint8Array> {
  readonly #call: ModelCall;
  readonly #answer: GrowingAnswer;
  readonly #reader: AnswerReader;
  readonly #init: RequestInit | undefined;
  readonly #decoder = new TextDecoder();
  readonly #events: EventStream | undefined;
  #whole = '';
  #characters = 0;

  constructor(
    call: ModelCall,
    answer: GrowingAnswer,
    reader: AnswerReader,
    isStream: boolean,
    init: RequestInit | undefined,
  ) {
    this.#call = call;
    this.#answer = answer;
    this.#reader = reader;
    this.#init = init;
    if (isStream) this.#events = new EventStream((data) => this.#event(data));
  }

  seen(chunk: Uint8Array): void {
    if (this.#characters > MOST_CHARACTERS) return;
    const piece = this.#decoder.decode(chunk, { stream: true });
    this.#characters += piece.length;
    if (this.#events) this.#events.push(piece);
    else this.#whole += piece;
  }

  over(how: 'read' | 'failed' | 'cancelled', error?: unknown): void {
    const answer = this.#answer;
    if (!this.#events && how === 'read')
      quietly(() => this.#reader.whole(answer, fields(JSON.parse(this.#whole))));
    if (this.#events) quietly(() => this.#reader.end?.(answer));
    this.#call.end({ ending: this.#ending(how, error), answer, ...(how === 'failed' && { error }) });
  }

  #ending(how: 'read' | 'failed' | 'cancelled', error: unknown) {
    const { ending } = this.#answer;
    // Anyone who stops reading after the last word has read it all.
    if (ending) return ending;
    if (how === 'cancelled' || (how === 'failed' && wasAborted(this.#init, error))) return 'aborted';
    // The connection broke after the answer had begun.
    if (how === 'failed') return 'cut off';
    return this.#events && this.#characters <= MOST_CHARACTERS ? 'cut off' : 'not read';
  }

  #event(data: string): void {
    if (data === '[DONE]') this.#answer.ending ??= 'complete';
    else quietly(() => this.#reader.piece(this.#answer, fields(JSON.parse(data))));
  }
}

function wasAborted(init: RequestInit | undefined, error: unknown): boolean {
  return init?.signal?.aborted === true || (error instanceof Error && error.name === 'AbortError');
}

/** What both dialects have in common of a request. */
export function counts(request: Fields, messages: unknown): Begun['inputs'] {
  const number = Array.isArray(messages) ? messages.length : 1;
  return {
    message_count: number,
    tool_count: list(request['tools']).length,
    streamed: request['stream'] === true,
  };
}
