/** The five endpoints of a collector, as a sender sees them: one request, one answer. */
import { EVENT_KINDS, EVENT_PATHS, type EventKind, isObject } from '@clinical-events/protocol';
import { type Dispatcher, Pool } from 'undici';

/** The answer to one request: what a sender acts on. */
export interface Answer {
  readonly status: number;
  /** From the Error body; undefined without a code of the protocol. */
  readonly code: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  /** What Retry-After asks for, in milliseconds. */
  readonly retryAfterMs: number | undefined;
}

/** The code of an answer that has one. */
export function nameOf({ status, code }: Answer): string {
  return code ?? `status ${status}`;
}

/** An answer that takes longer is given up. */
const PATIENCE_MS = 30_000;
const LONGEST_BODY = 64 << 10;

export class EventEndpoint {
  readonly #pool: Pool;
  readonly #path: string;
  readonly #headers: Readonly<Record<string, string>>;
  /** What {@link ask} was answered, by code or status: the collector counts these as refusals. */
  readonly asked = new Map<string, number>();

  /**
   * @param base http or https; the paths of the endpoints are added to its own.
   * @param headers more of them, by name.
   */
  constructor(base: URL, key: string | undefined, headers: Readonly<Record<string, string>> = {}) {
    // Never two requests at a time on a connection: of an answer that came unasked, from a proxy that has lost count,
    // nothing would tell which event it belongs to.
    this.#pool = new Pool(base.origin, {
      ...{ pipelining: 1, allowH2: false, maxResponseSize: LONGEST_BODY },
      ...{ headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS, connectTimeout: PATIENCE_MS },
    });
    this.#path = base.pathname.replace(/\/+$/, '');
    this.#headers = key === undefined ? headers : { ...headers, 'X-API-Key': key };
  }

  /**
   * As many connections are open as there are events under way.
   * @throws the system's error or that of the library when no answer came; whether the event is stored is then unknown.
   */
  post(kind: EventKind, body: Uint8Array): Promise<Answer> {
    return this.#request(kind, body, 'application/json');
  }

  /**
   * Asks whether the key may send events of a kind, without sending one: media types are looked at after keys and
   * before bodies, and this one is never taken.
   * @returns the answer to that: 415 when it may.
   */
  async ask(kind: EventKind): Promise<Answer> {
    const answer = await this.#request(kind, Buffer.alloc(0), 'text/plain');
    const name = nameOf(answer);
    this.asked.set(name, (this.asked.get(name) ?? 0) + 1);
    return answer;
  }

  /** @returns the first answer to {@link ask} that refuses the sender events of that kind. */
  async firstRefusal(): Promise<{ readonly kind: EventKind; readonly answer: Answer } | undefined> {
    for (const kind of EVENT_KINDS) {
      const answer = await this.ask(kind);
      const welcome = answer.status === 415 || answer.status === 429 || answer.status === 503;
      if (!welcome) return { kind, answer };
    }
    return undefined;
  }

  /** Requests under way fail. */
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

/** @throws Error for an answer that no collector gives; the message repeats nothing of it. */
function answerOf({ statusCode: status, headers }: Dispatcher.ResponseData, text: string): Answer {
  const body = jsonIn(text);
  if (status === 201) {
    if (body['status'] !== 'accepted') throw new Error('201 came without the body of a collector');
    return { status, code: undefined, details: undefined, retryAfterMs: undefined };
  }
  const { code, details } = body;
  const { 'retry-after': retryAfter } = headers;
  const seconds =
    typeof retryAfter === 'string' && /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : undefined;
  return {
    status,
    // It is printed: nothing but a word like those of the protocol's table.
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
