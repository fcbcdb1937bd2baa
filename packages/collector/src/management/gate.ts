/**
 * The server in front of the management routes. It shares a thread with ingest, so whoever floods it must not get more
 * than a small part of that thread.
 *
 * A connection is for one request, and its headers are gathered here before Node's HTTP parser sees them: it would
 * parse all that was sent at once, thousands of requests, before anybody is asked. What stands behind the headers is
 * not read. Beyond a steady rate nothing is refused, it waits: a refusal costs nearly what an answer does and invites
 * the next request, while a client that waits sends nothing. Connections beyond the limits, of which there is one for
 * each address, wait too, and are closed. Health waits less, so that a probe in the middle of a flood is answered in
 * time. What cannot be helped here is who opens connections and drops them at once; the port for events has that too.
 */
import { createServer as createHttpServer, type RequestListener, type ServerResponse } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
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
const HEADERS_TIMEOUT_MS = 5000;
/** For the answer to be taken. */
const CONNECTION_TIMEOUT_MS = 30_000;
/** Between the end of the answer and that of the connection, for a client that does not end it. */
const LINGER_MS = 1000;
const LINGER_BYTES = 64 << 10;

export class Gate {
  readonly #front = createServer({ pauseOnConnect: true, noDelay: true }, (socket) =>
    this.#connected(socket),
  );
  /** Never listens: gets connections from the front. */
  readonly #http = createHttpServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) =>
    this.#serve(request, response),
  );
  readonly #bucket = new TokenBucket(RATE);
  readonly #sockets = new Set<Socket>();
  /** Connections that are served, by address. */
  readonly #served = new Map<string, number>();
  #total = 0;

  /** @param handler gets GET and HEAD requests without a body, and no others. */
  constructor(private readonly handler: RequestListener) {
    this.#front.maxConnections = MOST_CONNECTIONS;
    this.#http.on('clientError', (error: NodeJS.ErrnoException, connection) => {
      if (connection.writable) refuseOnSocket(connection, codeOf(error));
      else connection.destroy();
    });
  }

  /** Resolves with the port once connections are accepted; rejects when the address cannot be had. */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#front.once('error', reject).listen({ host, port }, () => {
        this.#front.off('error', reject);
        resolve();
      });
    });
    const address = this.#front.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  /** On return every connection is closed. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#front.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #connected(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    const address = socket.remoteAddress ?? '';
    const count = this.#served.get(address) ?? 0;
    if (this.#total >= MOST_SERVED || count >= MOST_PER_ADDRESS) {
      later(WAIT_MS, socket, () => socket.destroy());
      return;
    }
    this.#served.set(address, count + 1);
    this.#total++;
    socket.once('close', () => {
      const left = (this.#served.get(address) ?? 1) - 1;
      if (left === 0) this.#served.delete(address);
      else this.#served.set(address, left);
      this.#total--;
    });
    later(CONNECTION_TIMEOUT_MS, socket, () => socket.destroy());
    this.#gather(socket);
  }

  /** Reads the headers, and hands the connection on with them and nothing behind them. */
  #gather(socket: Socket): void {
    let head = Buffer.alloc(0);
    const refuse = (code: ErrorCode): void => {
      stop();
      this.#pace(WAIT_MS, socket, () => refuseOnSocket(socket, code));
    };
    const timer = setTimeout(() => refuse('request_timeout'), HEADERS_TIMEOUT_MS);
    const stop = (): void => {
      clearTimeout(timer);
      socket.off('data', take).off('end', ended).off('close', stop).pause();
    };
    const ended = (): void => {
      stop();
      socket.destroy();
    };
    const take = (chunk: Buffer): void => {
      head = Buffer.concat([head, chunk.subarray(0, MAX_HEADER_BYTES)]);
      const end = head.indexOf('\r\n\r\n');
      const bytes = end < 0 ? head.length : end + 4;
      if (bytes > MAX_HEADER_BYTES || (end < 0 && chunk.length > MAX_HEADER_BYTES))
        return refuse('headers_too_large');
      if (end < 0) return;
      stop();
      const isHealth = /^(GET|HEAD) \/(livez|readyz)[ ?]/.test(head.toString('latin1', 0, 20));
      this.#pace(isHealth ? HEALTH_WAIT_MS : WAIT_MS, socket, () => {
        this.#http.emit('connection', new OneRequest(socket, head.subarray(0, bytes)));
      });
    };
    socket.on('data', take).on('end', ended).on('close', stop).resume();
  }

  #serve(...[request, response]: Parameters<RequestListener>): void {
    response.shouldKeepAlive = false;
    const { method, headers } = request;
    const length = Number(headers['content-length'] ?? 0);
    if (method !== 'GET' && method !== 'HEAD') refuse(response, 'method_not_allowed', { Allow: 'GET, HEAD' });
    else if (headers['transfer-encoding'] !== undefined || length !== 0) refuse(response, 'body_too_large');
    else this.handler(request, response);
  }

  /** Does it now or, beyond the rate, after a while. */
  #pace(waitMs: number, socket: Socket, act: () => void): void {
    if (this.#bucket.take(performance.now()) === 0) act();
    else later(waitMs, socket, act);
  }
}

/** A connection on which nothing comes but these headers. */
class OneRequest extends Duplex {
  readonly remoteAddress: string | undefined;

  constructor(
    private readonly socket: Socket,
    head: Uint8Array,
  ) {
    super();
    this.remoteAddress = socket.remoteAddress;
    socket.once('close', () => this.destroy());
    this.push(head);
  }

  override _read(): void {
    // What else the client sends is left where it is.
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.socket.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.socket.end(done);
    // Read and dropped, so that the end of the client's side is seen, and that unread bytes do not turn our end into a
    // reset, to which the answer could be lost. But not without an end.
    let dropped = 0;
    this.socket.on('data', (chunk: Buffer) => {
      dropped += chunk.length;
      if (dropped > LINGER_BYTES) this.socket.pause();
    });
    this.socket.resume();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (error) this.socket.destroy();
    else later(LINGER_MS, this.socket, () => this.socket.destroy());
    done(error);
  }
}

/** Does it after a while, unless the connection is gone by then. */
function later(ms: number, socket: Socket, act: () => void): void {
  const timer = setTimeout(act, ms).unref();
  socket.once('close', () => clearTimeout(timer));
}

function refuse(response: ServerResponse, code: ErrorCode, headers: Record<string, string> = {}): void {
  response.writeHead(ERRORS[code].status, { 'Content-Type': 'application/json', ...headers });
  response.end(JSON.stringify(errorBody(code)));
}

function codeOf({ code }: NodeJS.ErrnoException): ErrorCode {
  return code === 'HPE_HEADER_OVERFLOW' ? 'headers_too_large' : 'malformed_request';
}
