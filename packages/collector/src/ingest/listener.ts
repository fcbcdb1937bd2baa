/** The HTTP listener: node:http with its limits set, and what happens to bytes that are not a proper request. */
import { createServer, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorCode } from '@clinical-events/protocol';
import { refuseOnSocket } from './answers.js';
import type { Ingest } from './ingest.js';

export interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  /** From the first byte of a request to the last of its headers. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to the last of its body. */
  readonly requestTimeoutMs: number;
  /** How long an idle connection is kept. */
  readonly keepAliveTimeoutMs: number;
}

const MAX_HEADER_BYTES = 16 << 10;
/** How often Node looks for requests that are too slow. */
const CHECK_INTERVAL_MS = 500;

const PARSER_FAULTS: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'body_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

export class Listener {
  readonly #server: Server;

  constructor(
    private readonly ingest: Ingest,
    private readonly options: ListenerOptions,
  ) {
    const server = createServer({
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: options.headersTimeoutMs,
      requestTimeout: options.requestTimeoutMs,
      keepAliveTimeout: options.keepAliveTimeoutMs,
      connectionsCheckingInterval: CHECK_INTERVAL_MS,
      // Node would answer without a body; Ingest checks Host and answers with one.
      requireHostHeader: false,
      insecureHTTPParser: false,
      joinDuplicateHeaders: false,
    });
    server.maxConnections = options.maxConnections;
    // A client that takes no answers is cut off as one that sends nothing is.
    server.timeout = options.requestTimeoutMs + options.keepAliveTimeoutMs;
    this.#server = server;
    server.on('request', (request, response) => ingest.handle(request, response, 'none'));
    server.on('checkContinue', (request, response) => ingest.handle(request, response, 'continue'));
    server.on('checkExpectation', (request, response) => ingest.handle(request, response, 'unmet'));
    server.on('clientError', (error: NodeJS.ErrnoException, socket) => this.#clientError(error, socket));
    // CONNECT and Upgrade ask for something else than HTTP on this connection.
    server.on('connect', (_request, socket) =>
      refuseOnSocket(socket, 'method_not_allowed', 'Allow: POST\r\n'),
    );
  }

  /** Resolves with the port once connections are accepted; rejects when the address cannot be had. */
  async listen(): Promise<number> {
    const { host, port, maxConnections } = this.options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port, backlog: maxConnections }, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  /**
   * Stops accepting, lets requests that were begun have their answers, and resolves when every connection is
   * closed. After `timeoutMs` those that are left are cut off: unanswered, so their senders will send again.
   */
  async close(timeoutMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const idle = setInterval(() => this.#server.closeIdleConnections(), 50);
    const deadline = setTimeout(() => this.#server.closeAllConnections(), timeoutMs);
    await closed;
    clearInterval(idle);
    clearTimeout(deadline);
  }

  #clientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    // An earlier request on this connection still waits for its answer: an error written now would be taken for
    // that answer. Closing tells its sender nothing untrue, and a repeat is safe.
    if (!socket.writable || error.code === 'ECONNRESET' || this.ingest.awaitsAnswer(socket)) {
      socket.destroy();
      return;
    }
    refuseOnSocket(socket, PARSER_FAULTS[error.code ?? ''] ?? 'malformed_request');
  }
}
