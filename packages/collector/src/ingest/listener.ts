/**
 * The HTTP or HTTPS listener: Node's server with limits, and the treatment of bytes that are not a proper
 * request.
 */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import { type ListenOptions, Server as NetServer, Socket, type ServerOpts as TcpOptions } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ErrorCode } from '@clinical-events/protocol';
import { systemCode } from '../system-code.js';
import { endSocket, refuseOnSocket } from './answers.js';
import type { Ingest } from './ingest.js';
import { type Limits, Places } from './connections.js';
import { type Endpoint, type Expectation, newRequestId, REQUEST_ID } from './request.js';
import { Shortcut } from './shortcut.js';
import { type TlsOptions, TlsServer } from './tls.js';

export interface ListenerOptions extends Limits {
  readonly host: string;
  readonly port: number;
}

const MAX_HEADER_BYTES = 16 << 10;
/** How often Node looks for requests that are too slow. */
const CHECK_INTERVAL_MS = 500;

const PARSER_FAULTS: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'body_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** The property of a connection with the answer to its latest request. A WeakMap costs ten times as much. */
const LATEST = Symbol('latest answer');
type Answering = Duplex & { [LATEST]?: ServerResponse | undefined };

function latestOn(connection: Answering): ServerResponse | undefined {
  return connection[LATEST];
}

/**
 * Releases an answer that was given: otherwise each of thousands of connections would keep the objects of a
 * request until its next one, and half of the young generation would be promoted.
 */
function forget(this: ServerResponse): void {
  const connection = this.req.socket as Answering;
  if (connection[LATEST] === this && this.shouldKeepAlive && this.req.complete)
    connection[LATEST] = undefined;
}

export class Listener {
  /**
   * Whether new listeners let plain requests take the shortcut. Only tests change it: the answers are the
   * same.
   */
  static hasShortcut = true;
  /** Undefined for plain HTTP. */
  readonly tls: TlsServer | undefined;
  readonly #server: Server;
  readonly #connections = new Set<Socket>();
  readonly #places: Places;
  readonly #shortcut: Shortcut | undefined;

  /** @param endpoints replace the five for events. */
  constructor(
    private readonly ingest: Ingest,
    private readonly options: ListenerOptions,
    tls?: TlsOptions,
    private readonly endpoints?: ReadonlyMap<string, Endpoint>,
  ) {
    const settings: ServerOptions & TcpOptions = {
      // Needed for TLS; plain HTTP has it by default.
      allowHalfOpen: true,
      maxHeaderSize: MAX_HEADER_BYTES,
      connectionsCheckingInterval: CHECK_INTERVAL_MS,
      // Node would answer without a body; Ingest checks Host and answers with one.
      requireHostHeader: false,
      insecureHTTPParser: false,
      joinDuplicateHeaders: false,
    };
    this.tls = tls && new TlsServer(tls, options.headersTimeoutMs, settings, ingest.refusals);
    const server = this.tls?.server ?? createServer(settings);
    // Undocumented: a client that ends its own side after a request still gets its answer.
    Object.assign(server, { httpAllowHalfOpen: true });
    this.#server = server;
    this.#places = new Places(options.maxConnections, (...lost) => ingest.noteLostPlace(...lost));
    const spoken = this.tls === undefined ? 'connection' : 'secureConnection';
    // The first listener is Node's own; `toServer` calls it with the server as `this`.
    const [speakHttp] = server.listeners(spoken) as [(socket: Socket) => void];
    const toServer = (socket: Socket): void => speakHttp.call(server, socket);
    if (Listener.hasShortcut && endpoints === undefined) {
      this.#shortcut = new Shortcut(
        ingest,
        options,
        toServer,
        (error, socket) => this.#clientError(error, socket),
        (socket) => this.#refuse(socket, 'request_timeout'),
      );
    }
    server.off(spoken, speakHttp);
    const begin = (socket: Socket): void => {
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
      if (this.#shortcut === undefined) toServer(socket);
      else this.#shortcut.admit(socket);
    };
    this.limit(options);
    // Runs before the listener of TLS, so that a connection without a place costs no parser and no handshake.
    const admitted = server.listeners('connection');
    server.removeAllListeners('connection').on('connection', (socket: Socket) => {
      if (!this.#places.admit(socket)) return;
      for (const listener of admitted) listener.call(server, socket);
      if (this.tls === undefined) begin(socket);
    });
    if (this.tls !== undefined) server.on('secureConnection', begin);
    server.on('request', (request, response) => this.#serve(request, response, 'none'));
    server.on('checkContinue', (request, response) => this.#serve(request, response, 'continue'));
    server.on('checkExpectation', (request, response) => this.#serve(request, response, 'unmet'));
    server.on('clientError', (error, socket) => this.#clientError(error, socket));
    // The client asks for another protocol; a server may ignore Upgrade.
    server.on('connect', (_request, socket) => {
      // Node has released the socket: an error without a listener would end the process.
      socket.on('error', () => socket.destroy());
      if (this.#owesAnswer(socket)) socket.destroy();
      else this.#refuse(socket, 'method_not_allowed', 'Allow: POST\r\n');
    });
  }

  /** Sets new limits for connections and requests. */
  limit(limits: Limits): void {
    const server = this.#server;
    this.#places.limit = limits.maxConnections;
    server.headersTimeout = limits.headersTimeoutMs;
    server.requestTimeout = limits.requestTimeoutMs;
    server.keepAliveTimeout = limits.keepAliveTimeoutMs;
    // A client that reads no answers is disconnected like one that sends nothing.
    server.timeout = limits.requestTimeoutMs + limits.keepAliveTimeoutMs;
    if (this.#shortcut !== undefined) this.#shortcut.limits = limits;
  }

  /** The number of open connections. */
  get connections(): number {
    return this.#places.size;
  }

  /** Resolves with the port once connections are accepted; rejects when the address cannot be bound. */
  async listen(): Promise<number> {
    const { host, port, maxConnections } = this.options;
    return listening(this.#server, { host, port, backlog: maxConnections });
  }

  /**
   * Stops accepting connections, waits for the answers to begun requests, and resolves when every connection
   * is closed. After `timeoutMs` the remaining connections are cut without an answer; their senders send
   * again.
   */
  async close(timeoutMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.tls?.stop();
    const idle = setInterval(() => {
      this.#server.closeIdleConnections();
      this.#shortcut?.closeIdle();
      // To Node a connection without any bytes yet is not idle: it waits for a request.
      for (const socket of this.#connections) if (socket.bytesRead === 0) socket.destroy();
    }, 50);
    const deadline = setTimeout(() => {
      this.#server.closeAllConnections();
      this.#shortcut?.close();
    }, timeoutMs);
    await closed;
    this.#shortcut?.close();
    this.ingest.refusals.flush();
    clearInterval(idle);
    clearTimeout(deadline);
  }

  #serve(request: IncomingMessage, response: ServerResponse, expectation: Expectation): void {
    const { socket } = request;
    // RFC 9112 section 9.6: nothing is read after "Connection: close".
    if (latestOn(socket)?.shouldKeepAlive === false) return;
    (socket as Answering)[LATEST] = response;
    response.on('finish', forget);
    this.ingest.handle(request, response, expectation, this.endpoints);
  }

  /** Whether a request on the connection, complete or not, still lacks part of its answer. */
  #owesAnswer(socket: Duplex): boolean {
    return latestOn(socket)?.writableFinished === false;
  }

  /**
   * Handles bytes that cannot be read or do not arrive. An error must reach the request that caused it:
   * written while an earlier request waits, it would be taken for that request's answer. So the pending
   * answers are given first, and then the connection ends.
   */
  #clientError(error: Error, socket: Duplex): void {
    // The connection was ended below; the client has yet to close it.
    if (socket.writableEnded) return;
    if (this.tls?.breaks(error, socket) === true) return;
    const latest = latestOn(socket);
    if (systemCode(error) === 'ECONNRESET' || !socket.writable) socket.destroy();
    else if (latest === undefined || latest.req.complete) {
      // The fault is in a request that was not delivered yet.
      if (latest === undefined || latest.writableFinished) this.#refuse(socket, faultOf(error));
      else {
        // The pending answers are given, and then the connection ends.
        latest.shouldKeepAlive = false;
        // If the answer is already written and waits for its turn, Node would not treat it as the last one.
        if (latest.headersSent) latest.once('finish', () => endSocket(socket));
        socket.pause();
      }
    } else if (latest.socket === null && !latest.writableFinished) {
      // The fault is in the body of a request behind others, which get their answers first.
      socket.pause();
      latest.once('socket', () => process.nextTick(() => this.#endBehind(latest, error, socket)));
    } else this.#endBehind(latest, error, socket);
  }

  /** The fault is in the body of the latest request, which is the next to be answered. */
  #endBehind({ headersSent }: ServerResponse, error: Error, socket: Duplex): void {
    if (socket.writableEnded) return;
    // It was already refused.
    if (headersSent) endSocket(socket);
    else this.#refuse(socket, faultOf(error));
  }

  #refuse(socket: Duplex, code: ErrorCode, headers = ''): void {
    // Browsers open spare connections, on which no request was sent.
    const unused = code === 'request_timeout' && socket instanceof Socket && socket.bytesRead === 0;
    const id = newRequestId();
    if (!unused)
      this.ingest.noteRefusal(code, id, socket instanceof Socket ? socket.remoteAddress : undefined);
    refuseOnSocket(socket, code, `${REQUEST_ID}: ${id}\r\n${headers}`);
  }
}

/** @returns the port. Rejects when the address cannot be bound. */
async function listening(server: NetServer, options: ListenOptions): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : (options.port ?? 0);
}

function faultOf(error: Error): ErrorCode {
  return PARSER_FAULTS[systemCode(error) ?? ''] ?? 'malformed_request';
}
