/** The HTTP or HTTPS listener: Node's with its limits set, and what happens to bytes that are not a proper request. */
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

/**
 * On a connection: the answer to its latest request, given or not. A property, because a WeakMap costs ten times
 * that.
 */
const LATEST = Symbol('latest answer');
type Answering = Duplex & { [LATEST]?: ServerResponse | undefined };

function latestOn(connection: Answering): ServerResponse | undefined {
  return connection[LATEST];
}

/**
 * Lets go of an answer that was given: with thousands of connections each would else hold a request's objects until its
 * next one, and half of what is young would grow old.
 */
function forget(this: ServerResponse): void {
  const connection = this.req.socket as Answering;
  if (connection[LATEST] === this && this.shouldKeepAlive && this.req.complete)
    connection[LATEST] = undefined;
}

export class Listener {
  /** Whether new listeners have plain requests take the shortcut. Only tests change it: the answers are the same. */
  static hasShortcut = true;
  /** Undefined when plain HTTP is spoken. */
  readonly tls: TlsServer | undefined;
  readonly #server: Server;
  readonly #connections = new Set<Socket>();
  readonly #places: Places;
  readonly #shortcut: Shortcut | undefined;

  /** @param endpoints in place of the five for events. */
  constructor(
    private readonly ingest: Ingest,
    private readonly options: ListenerOptions,
    tls?: TlsOptions,
    private readonly endpoints?: ReadonlyMap<string, Endpoint>,
  ) {
    const settings: ServerOptions & TcpOptions = {
      // For TLS; of plain HTTP it is so anyway.
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
    // Not documented: a client that ends its own side after a request is answered all the same.
    Object.assign(server, { httpAllowHalfOpen: true });
    this.#server = server;
    this.#places = new Places(options.maxConnections, (...lost) => ingest.noteLostPlace(...lost));
    const spoken = this.tls === undefined ? 'connection' : 'secureConnection';
    // Node's own, which is the first, with what it needs to be called from here.
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
    // Before those of TLS, so that one without a place costs no parser and no handshake.
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
    // It asks for another protocol on this connection; so does Upgrade, which a server may ignore.
    server.on('connect', (_request, socket) => {
      // Node has let go of the socket: an error without a listener would end the process.
      socket.on('error', () => socket.destroy());
      if (this.#owesAnswer(socket)) socket.destroy();
      else this.#refuse(socket, 'method_not_allowed', 'Allow: POST\r\n');
    });
  }

  /** Takes other limits, for connections and requests from now on. */
  limit(limits: Limits): void {
    const server = this.#server;
    this.#places.limit = limits.maxConnections;
    server.headersTimeout = limits.headersTimeoutMs;
    server.requestTimeout = limits.requestTimeoutMs;
    server.keepAliveTimeout = limits.keepAliveTimeoutMs;
    // A client that takes no answers is cut off as one that sends nothing is.
    server.timeout = limits.requestTimeoutMs + limits.keepAliveTimeoutMs;
    if (this.#shortcut !== undefined) this.#shortcut.limits = limits;
  }

  /** Connections that are open. */
  get connections(): number {
    return this.#places.size;
  }

  /** Resolves with the port once connections are accepted; rejects when the address cannot be had. */
  async listen(): Promise<number> {
    const { host, port, maxConnections } = this.options;
    return listening(this.#server, { host, port, backlog: maxConnections });
  }

  /**
   * Stops accepting, lets requests that were begun have their answers, and resolves when every connection is
   * closed. After `timeoutMs` those that are left are cut off: unanswered, so their senders will send again.
   */
  async close(timeoutMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.tls?.stop();
    const idle = setInterval(() => {
      this.#server.closeIdleConnections();
      this.#shortcut?.closeIdle();
      // To Node a connection on which nothing has come yet is not idle: it has a request to wait for.
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
    // After "Connection: close" nothing more is read (RFC 9112 section 9.6).
    if (latestOn(socket)?.shouldKeepAlive === false) return;
    (socket as Answering)[LATEST] = response;
    response.on('finish', forget);
    this.ingest.handle(request, response, expectation, this.endpoints);
  }

  /** Whether some request on the connection, whole or not, has not had all of its answer. */
  #owesAnswer(socket: Duplex): boolean {
    return latestOn(socket)?.writableFinished === false;
  }

  /**
   * Bytes that cannot be read, or that do not come. An error must reach the request that earned it and no other: one that
   * is written while an earlier request waits would be taken for that request's answer. So the answers that are owed come
   * first, and then the connection ends.
   */
  #clientError(error: Error, socket: Duplex): void {
    // It was ended below, and is being left to the client to close.
    if (socket.writableEnded) return;
    if (this.tls?.breaks(error, socket) === true) return;
    const latest = latestOn(socket);
    if (systemCode(error) === 'ECONNRESET' || !socket.writable) socket.destroy();
    else if (latest === undefined || latest.req.complete) {
      // The fault is in a request that was not handed on yet.
      if (latest === undefined || latest.writableFinished) this.#refuse(socket, faultOf(error));
      else {
        // The answers that are owed are given, and then the connection ends.
        latest.shouldKeepAlive = false;
        // One that waits for its turn is written already, and Node would take it for no last one.
        if (latest.headersSent) latest.once('finish', () => endSocket(socket));
        socket.pause();
      }
    } else if (latest.socket === null && !latest.writableFinished) {
      // The fault is in the body of a request in whose turn to be answered others are: those have theirs first.
      socket.pause();
      latest.once('socket', () => process.nextTick(() => this.#endBehind(latest, error, socket)));
    } else this.#endBehind(latest, error, socket);
  }

  /** The fault is in the body of the latest request, whose turn it is. */
  #endBehind({ headersSent }: ServerResponse, error: Error, socket: Duplex): void {
    if (socket.writableEnded) return;
    // It was refused before.
    if (headersSent) endSocket(socket);
    else this.#refuse(socket, faultOf(error));
  }

  #refuse(socket: Duplex, code: ErrorCode, headers = ''): void {
    // On a spare connection, as browsers open them, nothing was asked.
    const unused = code === 'request_timeout' && socket instanceof Socket && socket.bytesRead === 0;
    const id = newRequestId();
    if (!unused)
      this.ingest.noteRefusal(code, id, socket instanceof Socket ? socket.remoteAddress : undefined);
    refuseOnSocket(socket, code, `${REQUEST_ID}: ${id}\r\n${headers}`);
  }
}

/** @returns the port. Rejects when the address cannot be had. */
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
