/** A request of an SDK, and how it ended if it failed. */
import { hash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { fields, type Fields, text, TIMED_OUT } from '@clinical-events/protocol/spans';
import { isTimeOut } from './errors.js';
import { type Ended, quietly } from './model-call.js';

/**
 * Headers of the OpenAI and Anthropic SDKs: the language, the number of earlier attempts, and the time-out in
 * seconds, which OpenAI's sends only if it was set for the call.
 */
const LANGUAGE = 'x-stainless-lang';
const RETRIES = 'x-stainless-retry-count';
const TIMEOUT = 'x-stainless-timeout';
/** The default time-out of SDKs that do not send it. */
const DEFAULT_TIMEOUT_S = 600;

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

  /** The body; empty if it is not JSON. */
  get request(): Fields {
    return (this.#request ??= quietly(() => fields(JSON.parse(this.#body ?? '{}'))) ?? {});
  }

  get attempt(): number {
    const retries = Number(this.#header(RETRIES) ?? 0);
    return Number.isInteger(retries) && retries > 0 && retries < 1000 ? retries + 1 : 1;
  }

  /** Equal for equal requests; undefined for a body that is not a text. */
  get key(): string | undefined {
    if (this.#body === undefined) return undefined;
    return hash('sha256', `${this.url.href}\0${this.#body}`, 'base64');
  }

  /**
   * @returns the ending for a time-out, which is a failure, or an abort, which comes from the application;
   * undefined for any other error.
   */
  brokenBy(error: unknown, isStream = false): Pick<Ended, 'ending' | 'errorName'> | undefined {
    const isAborted = this.#signal?.aborted === true;
    if (isTimeOut(error) || (isAborted && isTimeOut(this.#signal.reason))) return TIMED_OUT;
    if (!isAborted && !(error instanceof Error && error.name === 'AbortError')) return undefined;
    const isTimeUp = this.#abortedByTimer || (!isStream && this.#isTimeUp);
    return isTimeUp ? TIMED_OUT : { ending: 'aborted' };
  }

  /** Whether the SDK's time-out is over, if it is known. It does not apply to a stream that has begun. */
  get #isTimeUp(): boolean {
    const seconds = Number(
      this.#header(TIMEOUT) ?? (this.#header(LANGUAGE) === null ? 0 : DEFAULT_TIMEOUT_S),
    );
    // 0 is less than a second. Timers may fire early, and the SDK's began before this clock.
    return seconds > 0 && performance.now() - this.#startedAt >= seconds * 1000 - 20;
  }

  #header(name: string): string | null {
    const given = this.#headers;
    return (given instanceof Headers ? given : new Headers(given)).get(name);
  }
}

/**
 * For a listener of an SDK's signal, whose reason has no information: whether a timer of a library or
 * AbortSignal.timeout aborted it. An abort in a timer of the application is not a time-out.
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
