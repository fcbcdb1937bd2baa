/** Requests by `node:http` and an agent of the application's own, which alone knows how to connect. */
import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers';
import http from 'node:http';
import https from 'node:https';
import type net from 'node:net';
import tls from 'node:tls';
import { EVENT_PATHS, type EventKind } from '@clinical-events/protocol';
import { type Answer, readAccepted, readErrorBody, readRequestId, readRetryAfter } from './answer.js';
import {
  afterHolding,
  afterReading,
  type AgentOptions,
  deletes,
  type Endpoint,
  keyOf,
  LONGEST_ANSWER,
  PATIENCE_MS,
  type Requester,
  SMALL,
  Sweeper,
} from './endpoint.js';

interface Open {
  /** When it is given up, by performance.now(). */
  readonly until: number;
  readonly fail: (error: Error) => void;
}

export class AgentEndpoint implements Endpoint {
  readonly #options: AgentOptions;
  readonly #request: typeof http.request;
  readonly #target: http.RequestOptions;
  readonly #patienceMs: number;
  /** Requests without an answer, oldest first. */
  readonly #open = new Map<http.ClientRequest, Open>();
  readonly #sweeper: Sweeper;

  constructor(options: AgentOptions) {
    const { url, agent, patienceMs = PATIENCE_MS } = options;
    this.#options = options;
    this.#request = (url.protocol === 'https:' ? https : http).request;
    this.#target = {
      protocol: url.protocol,
      // An IPv6 address stands in brackets in a URL, and without them here.
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      ...{ port: url.port, method: 'POST', agent },
    };
    this.#patienceMs = patienceMs;
    this.#sweeper = new Sweeper(patienceMs, () => this.#sweep());
  }

  post(kind: EventKind, body: Uint8Array, requester: Requester): void {
    this.#post(kind, body, requester, true);
  }

  close(): void {
    this.#sweeper.stop();
    for (const [request, { fail }] of this.#open) {
      fail(new Error('the client is closing'));
      request.destroy();
    }
  }

  /** @throws what Node says of an address or a header that cannot be sent. */
  #begin(kind: EventKind, { length }: Uint8Array): http.ClientRequest {
    const { url } = this.#options;
    return this.#request({
      ...this.#target,
      path: url.pathname.replace(/\/+$/, '') + EVENT_PATHS[kind],
      // As a list, which Node writes as it is: cheaper than an object.
      headers: [
        ...['Host', url.host, 'Content-Type', 'application/json'],
        ...['Content-Length', String(length)],
        ...['X-API-Key', keyOf(this.#options)],
      ],
    });
  }

  #post(kind: EventKind, body: Uint8Array, requester: Requester, again: boolean): void {
    let request: http.ClientRequest;
    try {
      request = this.#begin(kind, body);
    } catch (error) {
      setImmediate(() => requester.failed(error));
      return;
    }
    let answered = false;
    let early = false;
    let told = false;
    const tell = (act: () => void) => {
      if (told) return;
      told = true;
      act();
    };
    const fail = (error: Error) => {
      tell(() => {
        // A connection that the other side closed while it was idle: that says nothing of the collector.
        if (again && !answered && request.reusedSocket && isReset(error))
          this.#post(kind, body, requester, false);
        else requester.failed(error);
      });
    };
    this.#open.set(request, { until: performance.now() + this.#patienceMs, fail });
    this.#sweeper.start();
    request.on('error', fail);
    // The last event of every request, and the only one of an answer that changes the protocol.
    request.on('close', () => {
      this.#open.delete(request);
      // Behind an answer that is judged in the next phase.
      setImmediate(fail, new Error('the connection was closed without an answer'));
    });
    request.on('response', (response) => {
      answered = true;
      const { statusCode, socket } = response;
      early ||= !request.writableEnded;
      const judge = () => {
        early ||= !request.writableFinished;
        // Anyone who says what became of an event that it has not got yet is no collector.
        if (early && deletes(statusCode)) {
          fail(new Error(`${statusCode} came before the whole event was sent`));
          socket.destroy();
        }
      };
      // TLS reports in the next phase of the loop what it has written before.
      const isLate = !early && !request.writableFinished && socket instanceof tls.TLSSocket;
      const inTime = (act: () => void) => (isLate ? void setImmediate(act) : act());
      inTime(judge);
      const pieces: Buffer[] = [];
      let length = 0;
      response.on('data', (piece: Buffer) => {
        length += piece.length;
        if (length > LONGEST_ANSWER) response.destroy(new Error('the answer is too long'));
        else pieces.push(piece);
      });
      response.on('error', fail);
      response.on('end', () =>
        inTime(() => tell(() => requester.answered(answerOf(response, Buffer.concat(pieces))))),
      );
    });
    request.once('socket', (socket) => {
      const send = () => afterReading(() => sendBody(request, socket, body, () => (early = true)));
      if (socket.connecting && socket instanceof tls.TLSSocket) socket.once('secureConnect', send);
      else if (socket.connecting) socket.once('connect', send);
      else send();
    });
  }

  #sweep(): boolean {
    const now = performance.now();
    for (const [request, { until }] of this.#open) {
      if (until > now) break;
      request.destroy(new Error(`no answer within ${this.#patienceMs / 1000} s`));
    }
    return this.#open.size > 0;
  }
}

/** @param begun called if something of an answer is here before the last byte is written. */
function sendBody(
  request: http.ClientRequest,
  socket: net.Socket,
  body: Uint8Array,
  begun: () => void,
): void {
  if (body.length <= SMALL) return void request.end(body);
  const last = body.length - 1;
  let { bytesRead } = socket;
  // Of status 1xx: the answer is still to come.
  request.on('information', () => ({ bytesRead } = socket));
  const endIt = () => {
    // TLS has messages of its own, which count as well.
    if (socket.bytesRead !== bytesRead && !(socket instanceof tls.TLSSocket)) begun();
    if (!request.destroyed) request.end(body.subarray(last));
  };
  request.write(body.subarray(0, last), () => afterHolding(endIt));
}

function answerOf({ statusCode: status = 0, headers }: http.IncomingMessage, body: Buffer): Answer {
  const retryAfterMs = readRetryAfter(headers['retry-after'], Date.now());
  const requestId = readRequestId(String(headers['x-request-id'] ?? ''));
  return {
    status,
    ...(status === 201 ? { accepted: readAccepted(body) } : readErrorBody(body.toString())),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(requestId !== undefined && { requestId }),
  };
}

function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}
