/**
 * The connections of the management listener. It has its own thread, so a flood does not affect events; the
 * gate keeps places free for other clients and limits the cost of a flood.
 *
 * A connection serves one request. Beyond a steady rate a request waits: a refusal costs nearly as much as an
 * answer and invites the next request, while a waiting client sends nothing. A connection beyond its
 * address's limit gets only health answers, so a probe works even during a flood from its own address. When
 * all places are taken, the address with the most connections loses its oldest one.
 *
 * With a certificate, the first byte of a connection shows whether it is TLS (a handshake record, RFC 8446
 * section 5.1) or plain HTTP, which probes may still use.
 */
import { type RequestListener, createServer as createHttpServer } from 'node:http';
import { type Socket, createServer } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import type { ErrorCode } from '@clinical-events/protocol';
import { TokenBucket } from '../access/principal.js';
import { refuseOnSocket } from '../ingest/answers.js';
import { systemCode } from '../system-code.js';

const MOST_CONNECTIONS = 512;
const MOST_PER_ADDRESS = 32;
const RATE = { perSecond: 50, burst: 100 };
const WAIT_MS = 1000;
/**
 * The shortest wait of a health request. It is longer with very many connections, so that health requests
 * alone cannot flood the listener.
 */
const HEALTH_WAIT_MS = 250;
const HEALTH_PER_SECOND = 600;
/** A connection beyond its address's limit is closed after this time, which a health answer does not need. */
const HELD_MS = 2000;
const MAX_HEADER_BYTES = 8 << 10;
const HEADERS_TIMEOUT_MS = 5000;
/** Time from the start of a connection until its answer was sent. */
const CONNECTION_TIMEOUT_MS = 30_000;
/** Time from the end of the answer to the end of the connection, if the client does not close it. */
const LINGER_MS = 1000;
const HANDSHAKE_RECORD = 22;
const HEALTH = /^\/(livez|readyz)(\?|$)/;

export class Gate {
  readonly #front = createServer({ pauseOnConnect: true, noDelay: true }, (socket) =>
    this.#connected(socket),
  );
  /** Never listens: the front server passes connections to it. */
  readonly #http = createHttpServer({ maxHeaderSize: MAX_HEADER_BYTES }, (...exchange) =>
    this.#asked(...exchange),
  );
  readonly #bucket = new TokenBucket(RATE);
  /** The certificate for later connections; undefined for plain HTTP alone. */
  secureContext: SecureContext | undefined;
  /** Connections by address, the oldest first. No set is empty. */
  readonly #open = new Map<string, Set<Socket>>();
  #count = 0;
  /** Connections beyond the limit of their address, and those on which a request has arrived. */
  readonly #held = new WeakSet<Socket>();
  readonly #begun = new WeakSet<Socket>();

  constructor(private readonly handler: RequestListener) {
    this.#http.maxRequestsPerSocket = 1;
    this.#http.on('clientError', (error, connection) => {
      if (connection.writable) refuseOnSocket(connection, codeOf(error));
      else connection.destroy();
    });
  }

  /** Resolves with the port once connections are accepted; rejects when the address cannot be bound. */
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

  #connected(socket: Socket): void {
    if (this.#count >= MOST_CONNECTIONS) this.#dropOne();
    const address = socket.remoteAddress ?? '';
    const isHeld = (this.#open.get(address)?.size ?? 0) >= MOST_PER_ADDRESS;
    this.#enter(address, socket);
    socket.on('error', () => socket.destroy());
    later(isHeld ? HELD_MS : CONNECTION_TIMEOUT_MS, socket, () => socket.destroy());
    if (isHeld) this.#held.add(socket);
    if (this.secureContext === undefined) this.#serve(socket);
    else this.#tellApart(socket, this.secureContext);
  }

  #enter(address: string, socket: Socket): void {
    const those = this.#open.get(address) ?? new Set();
    this.#open.set(address, those.add(socket));
    this.#count++;
    socket.once('close', () => this.#leave(address, socket));
  }

  /** May be called again without effect. */
  #leave(address: string, socket: Socket): void {
    const those = this.#open.get(address);
    if (those?.delete(socket) !== true) return;
    this.#count--;
    if (those.size === 0) this.#open.delete(address);
  }

  /** Closes the oldest connection of the address with the most. */
  #dropOne(): void {
    const [first, ...others] = this.#open;
    if (first === undefined) return;
    const [address, those] = others.reduce((a, b) => (b[1].size > a[1].size ? b : a), first);
    const [oldest] = those;
    if (oldest === undefined) return;
    // The connection is removed from the count here: `close` comes only after others have arrived.
    this.#leave(address, oldest);
    oldest.destroy();
  }

  /** Waits for the first byte, which selects the protocol. */
  #tellApart(socket: Socket, secureContext: SecureContext): void {
    const giveUp = (): void => void socket.destroy();
    const timer = later(HEADERS_TIMEOUT_MS, socket, giveUp);
    socket.once('end', giveUp);
    socket.once('data', (chunk: Buffer) => {
      clearTimeout(timer);
      socket.off('end', giveUp).pause().unshift(chunk);
      if (chunk[0] !== HANDSHAKE_RECORD) return this.#serve(socket);
      // A handshake costs more than an answer.
      this.#pace(WAIT_MS, socket, () => {
        const secure = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] });
        // The connection ends with it and is then no longer counted.
        secure.on('error', giveUp).once('close', giveUp);
        if (this.#held.has(socket)) this.#held.add(secure);
        this.#serve(secure);
      });
    });
    socket.resume();
  }

  #serve(socket: Socket): void {
    socket.destroySoon = () => endGently(socket);
    later(HEADERS_TIMEOUT_MS, socket, () => {
      if (!this.#begun.has(socket)) refuseOnSocket(socket, 'request_timeout');
    });
    this.#http.emit('connection', socket);
    socket.resume();
  }

  #asked(...[request, response]: Parameters<RequestListener>): void {
    const { socket } = request;
    this.#begun.add(socket);
    const isHealth = HEALTH.test(request.url ?? '');
    if (this.#held.has(socket) && !isHealth) return;
    const waitMs = isHealth ? Math.max(HEALTH_WAIT_MS, (this.#count * 1000) / HEALTH_PER_SECOND) : WAIT_MS;
    this.#pace(waitMs, socket, () => this.handler(request, response));
  }

  /** Runs the function now or, beyond the rate, later. */
  #pace(waitMs: number, socket: Socket, act: () => void): void {
    if (this.#bucket.take(performance.now()) === 0) act();
    else later(waitMs, socket, act);
  }
}

/**
 * Ends a connection after its answer. Later bytes of the client are read and dropped for a while: unread
 * bytes would turn the end into a reset, which could lose the answer.
 */
function endGently(socket: Socket): void {
  socket.removeAllListeners('data');
  socket.on('data', () => undefined).resume();
  socket.end();
  later(LINGER_MS, socket, () => socket.destroy());
}

/** Runs the function after this time unless the connection is closed by then. */
function later(ms: number, socket: Socket, act: () => void): NodeJS.Timeout {
  const timer = setTimeout(act, ms).unref();
  socket.once('close', () => clearTimeout(timer));
  return timer;
}

function codeOf(error: Error): ErrorCode {
  return systemCode(error) === 'HPE_HEADER_OVERFLOW' ? 'headers_too_large' : 'malformed_request';
}
