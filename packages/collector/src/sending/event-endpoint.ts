/** The endpoints of a collector for a sender: one request, one answer. */
import { EVENT_KINDS, EVENT_PATHS, type EventKind, isObject } from '@clinical-events/protocol';
import { type Dispatcher, Pool } from 'undici';

/** The parts of an answer that a sender acts on. */
export interface Answer {
  readonly status: number;
  /** The code in the error body; undefined if it is not a code of the protocol. */
  readonly code: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  /** The time in Retry-After, in milliseconds. */
  readonly retryAfterMs: number | undefined;
}

/** The code of an answer, or its status. */
export function nameOf({ status, code }: Answer): string {
  return code ?? `status ${status}`;
}

/** Timeout of a request. */
const PATIENCE_MS = 30_000;
const LONGEST_BODY = 64 << 10;

export class EventEndpoint {
  readonly #pool: Pool;
  readonly #path: string;
  readonly #headers: Readonly<Record<string, string>>;
  /** Answers to {@link ask} by code or status: the collector counts them as refusals. */
  readonly asked = new Map<string, number>();

  /**
   * @param base an http or https address; the endpoint paths are appended to its path.
   * @param headers further headers, by name.
   */
  constructor(base: URL, key: string | undefined, headers: Readonly<Record<string, string>> = {}) {
    // One request at a time per connection: a stray answer from a confused proxy could not be attributed to
    // an event.
    this.#pool = new Pool(base.origin, {
      ...{ pipelining: 1, allowH2: false, maxResponseSize: LONGEST_BODY },
      ...{ headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS, connectTimeout: PATIENCE_MS },
    });
    this.#path = base.pathname.replace(/\/+$/, '');
    this.#headers = key === undefined ? headers : { ...headers, 'X-API-Key': key };
  }

  /**
   * Sends an event. There is one connection per unanswered event.
   * @throws the error of the system or the library if there is no answer; the event may or may not be stored.
   */
  post(kind: EventKind, body: Uint8Array): Promise<Answer> {
    return this.#request(kind, body, 'application/json');
  }

  /**
   * Asks whether the key may send events of a kind, without sending one: media types are checked after keys
   * and before bodies, and this one is never accepted.
   * @returns the answer: 415 if the key may send them.
   */
  async ask(kind: EventKind): Promise<Answer> {
    const answer = await this.#request(kind, Buffer.alloc(0), 'text/plain');
    const name = nameOf(answer);
    this.asked.set(name, (this.asked.get(name) ?? 0) + 1);
    return answer;
  }

  /** @returns the first answer to {@link ask} that refuses the kind; undefined if all are permitted. */
  async firstRefusal(): Promise<{ readonly kind: EventKind; readonly answer: Answer } | undefined> {
    for (const kind of EVENT_KINDS) {
      const answer = await this.ask(kind);
      const welcome = answer.status === 415 || answer.status === 429 || answer.status === 503;
      if (!welcome) return { kind, answer };
    }
    return undefined;
  }

  /** Fails pending requests. */
  close(): Promise<void> {
    return this.#pool.destroy();
  }

  async #request(kind: EventKind, body: Uint8Array, type: string): Promise<Answer> {
    const path = this.#path + EVENT_PATHS[kind];
    const headers = { ...this.#headers, 'Content-Type': type };
    const answer = await this.#pool.request({ method: 'POST', path, headers, body });
    return answerOf(answer, await answer.body.text());
  }
}

/** @throws Error for an answer that is not a collector's; the message contains nothing of it. */
function answerOf({ statusCode: status, headers }: Dispatcher.ResponseData, text: string): Answer {
  const body = jsonIn(text);
  if (status === 201) {
    if (body['status'] !== 'accepted') throw new Error('status 201 without the body of a collector');
    return { status, code: undefined, details: undefined, retryAfterMs: undefined };
  }
  const { code, details } = body;
  const { 'retry-after': retryAfter } = headers;
  const seconds =
    typeof retryAfter === 'string' && /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : undefined;
  return {
    status,
    // It is printed, so only a plain word is accepted.
    code: typeof code === 'string' && /^[a-z_]{1,40}$/.test(code) ? code : undefined,
    details: isObject(details) ? details : undefined,
    retryAfterMs: seconds === undefined ? undefined : 1000 * seconds,
  };
}

function jsonIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
