/**
 * The HTTP server in front of the management routes. It shares a thread with ingest, so whoever floods it must not get
 * more than a small part of that thread.
 *
 * Beyond a steady rate nothing is refused, it waits: a refusal costs nearly what an answer does and invites the next
 * request, while a client that waits sends nothing. So it is for requests, for bytes that are none, and for connections
 * beyond the limits, of which there is one for each address. A connection has one request at a time. Health waits less,
 * so that a probe in the middle of a flood is answered in time. Bodies are not read. What cannot be helped here is who
 * opens connections and drops them at once; the port for events has that too.
 */
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { errorBody, ERRORS, type ErrorCode } from '@clinical-events/protocol';
import { TokenBucket } from '../access/token-bucket.js';
import { refuseOnSocket } from '../ingest/answers.js';

const MOST_SERVED = 64;
const MOST_PER_ADDRESS = 32;
/** With those that are only held until they are closed. */
const MOST_CONNECTIONS = 512;
const RATE = { perSecond: 50, burst: 100 };
const WAIT_MS = 1000;
const HEALTH_WAIT_MS = 250;
const MAX_HEADER_BYTES = 8 << 10;
const REQUEST_TIMEOUT_MS = 5000;
const KEEP_ALIVE_MS = 65_000;
const CHECK_INTERVAL_MS = 1000;

/** On a connection: its latest answer. */
const LATEST = Symbol('latest answer');
/** On a connection: it is not read any more, gets no answer, and will be closed. */
const HELD = Symbol('held');
type Connection = Socket & { [LATEST]?: ServerResponse; [HELD]?: true };

/** @param handler gets GET and HEAD requests without a body, and no others. */
export function gatedServer(handler: RequestListener): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: REQUEST_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: CHECK_INTERVAL_MS,
  });
  server.maxConnections = MOST_CONNECTIONS;
  // Whoever takes no answers is cut off.
  server.timeout = KEEP_ALIVE_MS + REQUEST_TIMEOUT_MS;
  const gate = new Gate(handler);
  server.on('connection', (socket: Connection) => gate.connected(socket));
  server.on('request', (request, response) => gate.serve(request, response));
  server.on('checkContinue', (request, response) => gate.serve(request, response));
  server.on('checkExpectation', (request, response) => gate.serve(request, response));
  for (const event of ['connect', 'upgrade'] as const) {
    server.on(event, (_request, socket: Connection) => {
      // Node has let go of the socket: an error that nobody listens for would end the process.
      socket.on('error', () => socket.destroy());
      gate.end(socket);
    });
  }
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Connection) => gate.fail(error, socket));
  return server;
}

class Gate {
  readonly #bucket = new TokenBucket(RATE);
  readonly #served = new Map<string, number>();
  #total = 0;

  constructor(private readonly handler: RequestListener) {}

  connected(socket: Connection): void {
    const address = socket.remoteAddress ?? '';
    const count = this.#served.get(address) ?? 0;
    if (this.#total >= MOST_SERVED || count >= MOST_PER_ADDRESS) return this.end(socket);
    this.#served.set(address, count + 1);
    this.#total++;
    socket.once('close', () => {
      const left = (this.#served.get(address) ?? 1) - 1;
      if (left === 0) this.#served.delete(address);
      else this.#served.set(address, left);
      this.#total--;
    });
  }

  readonly serve: RequestListener = (request, response) => {
    const socket: Connection = request.socket;
    if (socket[HELD]) return;
    // A second request before the first is answered: no browser and no probe does that, and it would not have to wait.
    if (socket[LATEST]?.writableFinished === false) return this.end(socket);
    socket[LATEST] = response;
    const isHealth = /^\/(livez|readyz)\b/.test(request.url ?? '');
    this.#pace(isHealth ? HEALTH_WAIT_MS : WAIT_MS, socket, () => {
      const { method, headers } = request;
      const length = Number(headers['content-length'] ?? 0);
      if (method !== 'GET' && method !== 'HEAD')
        refuse(response, 'method_not_allowed', { Allow: 'GET, HEAD' });
      else if (headers['transfer-encoding'] !== undefined || length !== 0) refuse(response, 'body_too_large');
      else this.handler(request, response);
    });
  };

  /** Ends a connection without an answer, and not so soon that the next one could come at once. */
  end(socket: Connection): void {
    socket[HELD] = true;
    socket.pause();
    setTimeout(() => socket.destroy(), WAIT_MS);
  }

  /** Bytes that cannot be read, or that do not come. */
  fail(error: NodeJS.ErrnoException, socket: Connection): void {
    const answering = socket[LATEST]?.writableFinished === false;
    if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy();
    else if (answering) this.end(socket);
    else if (!socket[HELD]) this.#pace(WAIT_MS, socket, () => refuseOnSocket(socket, codeOf(error)));
  }

  /** Does it now or, beyond the rate, after a while, unless the connection is gone by then. */
  #pace(waitMs: number, socket: Socket, act: () => void): void {
    if (this.#bucket.take(performance.now()) === 0) return act();
    const timer = setTimeout(act, waitMs);
    socket.once('close', () => clearTimeout(timer));
  }
}

/** Nothing more is taken from this connection: what follows the headers may be a body. */
function refuse(response: ServerResponse, code: ErrorCode, headers: Record<string, string> = {}): void {
  response.writeHead(ERRORS[code].status, {
    'Content-Type': 'application/json',
    Connection: 'close',
    ...headers,
  });
  response.end(JSON.stringify(errorBody(code)));
}

function codeOf({ code }: NodeJS.ErrnoException): ErrorCode {
  if (code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large';
  return code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'request_timeout' : 'malformed_request';
}
