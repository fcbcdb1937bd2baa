/** One request to a collector, one answer. Keeps connections open, follows no redirect, and waits for nobody for ever. */
import http from 'node:http';
import https from 'node:https';
import { EVENT_PATHS, type EventKind } from '@clinical-events/protocol';
import { readErrorBody, readRetryAfter, type Answer } from './answer.js';

export interface EndpointOptions {
  /** http or https; the paths of the protocol are added to its own. */
  readonly url: URL;
  /** A function is asked before every request, so that a key can be exchanged. */
  readonly apiKey: string | (() => string);
  readonly connections: number;
  /** For a proxy, or certificates of one's own. */
  readonly agent?: http.Agent | undefined;
  /** An answer that takes longer is given up; 30 s. */
  readonly patienceMs?: number | undefined;
}

/** More than this of an answer is not read. */
const LONGEST_ANSWER = 64 << 10;
const PATIENCE_MS = 30_000;

export class Endpoint {
  readonly #options: EndpointOptions;
  readonly #request: typeof http.request;
  readonly #agent: http.Agent;
  readonly #target: http.RequestOptions;
  readonly #patienceMs: number;
  /** Requests without an answer, oldest first, with the moment of performance.now() at which they are given up. */
  readonly #open = new Map<http.ClientRequest, number>();
  #sweeping: NodeJS.Timeout | undefined;

  constructor(options: EndpointOptions) {
    const { url, connections, agent, patienceMs = PATIENCE_MS } = options;
    const client = url.protocol === 'https:' ? https : http;
    this.#options = options;
    this.#request = client.request;
    this.#agent = agent ?? new client.Agent({ keepAlive: true, maxSockets: connections });
    this.#target = {
      protocol: url.protocol,
      // An IPv6 address stands in brackets in a URL, and without them here.
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port,
      method: 'POST',
      agent: this.#agent,
    };
    this.#patienceMs = patienceMs;
  }

  /** @throws the system's error when there was no answer; whether the event is stored is then not known. */
  post(kind: EventKind, body: Uint8Array): Promise<Answer> {
    return new Promise((resolve, reject) => this.#post(kind, body, resolve, reject, true));
  }

  /** Gives up whatever has no answer. */
  close(): void {
    for (const request of this.#open.keys()) request.destroy(new Error('the client is closing'));
    if (!this.#options.agent) this.#agent.destroy();
  }

  #post(
    kind: EventKind,
    body: Uint8Array,
    resolve: (answer: Answer) => void,
    reject: (error: unknown) => void,
    again: boolean,
  ): void {
    const { url, apiKey } = this.#options;
    const request = this.#request({
      ...this.#target,
      path: url.pathname.replace(/\/+$/, '') + EVENT_PATHS[kind],
      // As a list, which Node writes as it is: cheaper than an object.
      headers: [
        ...['Host', url.host, 'Content-Type', 'application/json'],
        ...['Content-Length', String(body.length)],
        ...['X-API-Key', typeof apiKey === 'function' ? apiKey() : apiKey],
      ],
    });
    this.#watch(request);
    let answered = false;
    let failed = false;
    const fail = (error: Error) => {
      this.#open.delete(request);
      if (failed) return;
      failed = true;
      // A connection that the other side closed while it was idle: that says nothing of the collector.
      if (again && !answered && request.reusedSocket && isReset(error)) {
        this.#post(kind, body, resolve, reject, false);
      } else reject(error);
    };
    request.on('error', fail);
    // The last event of every request, and the only one of an answer that changes the protocol.
    request.on('close', () => {
      if (this.#open.has(request)) fail(new Error('the connection was closed without an answer'));
    });
    request.on('response', (response) => {
      answered = true;
      const status = response.statusCode ?? 0;
      // Whatever happens to the rest of it: the event is stored.
      if (status === 201) resolve({ status });
      const pieces: Buffer[] = [];
      let length = 0;
      response.on('data', (piece: Buffer) => {
        length += piece.length;
        if (length > LONGEST_ANSWER) response.destroy(new Error('the answer is too long'));
        else if (status !== 201) pieces.push(piece);
      });
      response.on('error', fail);
      response.on('end', () => {
        this.#open.delete(request);
        if (status === 201) return;
        const retryAfterMs = readRetryAfter(response.headers['retry-after'], Date.now());
        const text = Buffer.concat(pieces).toString();
        resolve({ status, ...readErrorBody(text), ...(retryAfterMs !== undefined && { retryAfterMs }) });
      });
    });
    request.end(body);
  }

  /** One timer for all: a signal for each would cost more than the request. */
  #watch(request: http.ClientRequest): void {
    this.#open.set(request, performance.now() + this.#patienceMs);
    this.#sweeping ??= setInterval(
      () => this.#sweep(),
      Math.min(1000, Math.ceil(this.#patienceMs / 4)),
    ).unref();
  }

  #sweep(): void {
    const now = performance.now();
    for (const [request, end] of this.#open) {
      if (end > now) break;
      request.destroy(new Error(`no answer within ${this.#patienceMs / 1000} s`));
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }
}

function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}
