/** A request as the application has handed it over to fetch, and how it can come to nothing. */
import { hash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { fields, type Fields, text, TIMED_OUT } from '@clinical-events/protocol/spans';
import { isTimeOut } from './errors.js';
import { type Ended, quietly } from './model-call.js';

/**
 * Of the SDKs of OpenAI and Anthropic: that it is one, how many attempts came before, and after how many seconds it
 * gives up, which OpenAI's says only of a limit that was given for this call.
 */
const LANGUAGE = 'x-stainless-lang';
const RETRIES = 'x-stainless-retry-count';
const TIMEOUT = 'x-stainless-timeout';
/** The SDKs that do not send it give up after ten minutes, unless they are told otherwise. */
const DEFAULT_TIMEOUT_S = 600;

/** What the application has handed over. */
export class SentRequest {
  readonly url: URL;
  readonly method: string;
  readonly #startedAt: number;
  readonly #body: string | undefined;
  readonly #signal: AbortSignal | null | undefined;
  #request: Fields | undefined;
  #abortedByTimer = false;
  readonly #headers: RequestInit['headers'];

  constructor(startedAt: number, ...[input, init]: Parameters<typeof fetch>) {
    const given = input instanceof Request ? input : undefined;
    this.#startedAt = startedAt;
    this.url = new URL(given?.url ?? input);
    this.method = (init?.method ?? given?.method ?? 'GET').toUpperCase();
    this.#body = text(init?.body);
    this.#signal = init?.signal ?? given?.signal;
    this.#headers = init?.headers ?? given?.headers;
    if (this.#header(LANGUAGE) === null) return;
    const aborted = () => (this.#abortedByTimer = quietly(isInTimer) ?? false);
    this.#signal?.addEventListener('abort', aborted, { once: true });
  }

  /** Its body; empty when that is no JSON. */
  get request(): Fields {
    return (this.#request ??= quietly(() => fields(JSON.parse(this.#body ?? '{}'))) ?? {});
  }

  get attempt(): number {
    const retries = Number(this.#header(RETRIES) ?? 0);
    return Number.isInteger(retries) && retries > 0 && retries < 1000 ? retries + 1 : 1;
  }

  /** The same for requests that ask for the same; undefined for a body that is no text. */
  get key(): string | undefined {
    if (this.#body === undefined) return undefined;
    return hash('sha256', `${this.url.href}\0${this.#body}`, 'base64');
  }

  /**
   * By whom an error comes: a time that was up has failed, an abort is the application's.
   * @returns undefined for what breaks by itself.
   */
  brokenBy(error: unknown, isStream = false): Pick<Ended, 'ending' | 'errorName'> | undefined {
    const isAborted = this.#signal?.aborted === true;
    if (isTimeOut(error) || (isAborted && isTimeOut(this.#signal.reason))) return TIMED_OUT;
    if (!isAborted && !(error instanceof Error && error.name === 'AbortError')) return undefined;
    const isTimeUp = this.#abortedByTimer || (!isStream && this.#isTimeUp);
    return isTimeUp ? TIMED_OUT : { ending: 'aborted' };
  }

  /** As far as the SDK has said its limit. It is none of a stream that has begun. */
  get #isTimeUp(): boolean {
    const seconds = Number(
      this.#header(TIMEOUT) ?? (this.#header(LANGUAGE) === null ? 0 : DEFAULT_TIMEOUT_S),
    );
    // Of less than a second it says 0. Timers fire a little early, and theirs has begun before this clock.
    return seconds > 0 && performance.now() - this.#startedAt >= seconds * 1000 - 20;
  }

  #header(name: string): string | null {
    const given = this.#headers;
    return (given instanceof Headers ? given : new Headers(given)).get(name);
  }
}

/**
 * For a listener of an SDK's signal, whose reason tells nothing: whether a timer of a library or of
 * AbortSignal.timeout has aborted it. What the application does in a timer of its own is no time-out.
 */
function isInTimer(): boolean {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 50;
  const { stack = '' } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  return /^ *at .*(node:internal\/abort_controller|[\\/]node_modules[\\/]).*\n *at listOnTimeout \(/m.test(
    stack,
  );
}
