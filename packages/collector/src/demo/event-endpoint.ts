/** The five endpoints of a collector, as a sender sees them: one request, one answer. */
import http from 'node:http';
import https from 'node:https';
import { EVENT_KINDS, EVENT_PATHS, type EventKind } from '@clinical-events/protocol';

/** What was answered, as far as a sender acts on it. */
export interface Answer {
  readonly status: number;
  /** From the Error body; undefined when there is none, or none of the protocol. */
  readonly code: string | undefined;
  /** What Retry-After asks for, in milliseconds. */
  readonly retryAfterMs: number | undefined;
}

/** More than this of an Error body is not read. */
const LONGEST_ERROR = 64 << 10;
const PATIENCE_MS = 30_000;

export class EventEndpoint {
  readonly #base: URL;
  readonly #key: string | undefined;
  readonly #client: typeof http | typeof https;
  readonly #agent: http.Agent;
  /** What {@link ask} was answered, by code or status: the collector counts these as refusals. */
  readonly asked = new Map<string, number>();

  /** @param base http or https; the paths of the endpoints are added to its own. */
  constructor(base: URL, key: string | undefined, connections: number) {
    this.#base = base;
    this.#key = key;
    this.#client = base.protocol === 'https:' ? https : http;
    this.#agent = new this.#client.Agent({ keepAlive: true, maxSockets: connections });
  }

  /** @throws the system's error when no answer came; whether the event is stored is then not known. */
  post(kind: EventKind, body: string): Promise<Answer> {
    return this.#request(kind, body, 'application/json');
  }

  /**
   * Asks whether the key may send events of a kind, without sending one: media types are looked at after keys and
   * before bodies, and this one is never taken.
   * @returns the answer to that: 415 when it may.
   */
  async ask(kind: EventKind): Promise<Answer> {
    const answer = await this.#request(kind, '', 'text/plain');
    const name = nameOf(answer);
    this.asked.set(name, (this.asked.get(name) ?? 0) + 1);
    return answer;
  }

  /** @returns the first answer to {@link ask} that is none to a sender who may send that kind. */
  async firstRefusal(): Promise<{ readonly kind: EventKind; readonly answer: Answer } | undefined> {
    for (const kind of EVENT_KINDS) {
      const answer = await this.ask(kind);
      const welcome = answer.status === 415 || answer.status === 429 || answer.status === 503;
      if (!welcome) return { kind, answer };
    }
    return undefined;
  }

  close(): void {
    this.#agent.destroy();
  }

  #request(kind: EventKind, body: string, type: string): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const path = this.#base.pathname.replace(/\/+$/, '') + EVENT_PATHS[kind];
    const request = this.#client.request(new URL(path, this.#base), {
      method: 'POST',
      agent: this.#agent,
      timeout: PATIENCE_MS,
      headers: {
        'Content-Type': type,
        'Content-Length': Buffer.byteLength(body),
        ...(this.#key !== undefined && { 'X-API-Key': this.#key }),
      },
    });
    request.on('timeout', () => request.destroy(new Error(`no answer within ${PATIENCE_MS / 1000} s`)));
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        if (text.length < LONGEST_ERROR) text += piece;
      });
      response.on('error', reject);
      response.on('end', () => {
        const status = response.statusCode ?? 0;
        resolve({
          status,
          code: status === 201 ? undefined : codeIn(text),
          retryAfterMs: millisecondsIn(response.headers['retry-after']),
        });
      });
    });
    request.end(body);
    return promise;
  }
}

/** The code of an answer that has one. */
export function nameOf({ status, code }: Answer): string {
  return code ?? `status ${status}`;
}

function codeIn(text: string): string | undefined {
  try {
    const body: unknown = JSON.parse(text);
    const code = typeof body === 'object' && body !== null && 'code' in body ? body.code : undefined;
    // It is printed: nothing but a word like those of the protocol's table.
    return typeof code === 'string' && /^[a-z_]{1,40}$/.test(code) ? code : undefined;
  } catch {
    return undefined;
  }
}

function millisecondsIn(retryAfter: string | undefined): number | undefined {
  return retryAfter !== undefined && /^\d{1,5}$/.test(retryAfter) ? 1000 * Number(retryAfter) : undefined;
}
