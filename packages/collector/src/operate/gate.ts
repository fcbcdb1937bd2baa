/**
 * The connections of the management listener. It has a thread of its own, so a flood costs no event; what remains is to
 * leave a place to everybody else, and to spend little of the machine on it.
 *
 * A connection is for one request. Beyond a steady rate a request waits: a refusal costs nearly what an answer does and
 * invites the next request, while a client that waits sends nothing. A connection beyond the limit of its address gets
 * an answer about health alone, so a probe is answered in the middle of a flood from its own address. When all places
 * are taken, the address with the most loses its oldest.
 *
 * With a certificate the first byte of a connection decides whether it is TLS (a handshake record, RFC 8446 section 5.1)
 * or plain HTTP, which probes may still speak.
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
/** At least; longer with very many connections, so that health alone cannot be a flood. */
const HEALTH_WAIT_MS = 250;
const HEALTH_PER_SECOND = 600;
/** A connection beyond the limit of its address is closed after this time, which a health answer does not take. */
const HELD_MS = 2000;
const MAX_HEADER_BYTES = 8 << 10;
const HEADERS_TIMEOUT_MS = 5000;
/** From the beginning until the answer is taken. */
const CONNECTION_TIMEOUT_MS = 30_000;
/** Between the end of the answer and that of the connection, for a client that does not end it. */
const LINGER_MS = 1000;
const HANDSHAKE_RECORD = 22;
const HEALTH = /^\/(livez|readyz)(\?|$)/;

export class Gate {
  readonly #front = createServer({ pauseOnConnect: true, noDelay: true }, (socket) =>
    this.#connected(socket),
  );
  /** Never listens: gets connections from the front. */
  readonly #http = createHttpServer({ maxHeaderSize: MAX_HEADER_BYTES }, (...exchange) =>
    this.#asked(...exchange),
  );
  readonly #bucket = new TokenBucket(RATE);
  /** For connections from now on; undefined when plain HTTP alone is spoken. */
  secureContext: SecureContext | undefined;
  /** Connections by address, the oldest first. None of the sets is empty. */
  readonly #open = new Map<string, Set<Socket>>();
  #count = 0;
  /** Those beyond the limit of their address, and those on which a request has come. */
  readonly #held = new WeakSet<Socket>();
  readonly #begun = new WeakSet<Socket>();

  constructor(private readonly handler: RequestListener) {
    this.#http.maxRequestsPerSocket = 1;
    this.#http.on('clientError', (error, connection) => {
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

  /** Does nothing the second time. */
  #leave(address: string, socket: Socket): void {
    const those = this.#open.get(address);
    if (those?.delete(socket) !== true) return;
    this.#count--;
    if (those.size === 0) this.#open.delete(address);
  }

  /** Closes the oldest connection of the address that has the most. */
  #dropOne(): void {
    const [first, ...others] = this.#open;
    if (first === undefined) return;
    const [address, those] = others.reduce((a, b) => (b[1].size > a[1].size ? b : a), first);
    const [oldest] = those;
    if (oldest === undefined) return;
    // Counted out at once: it is closed only after others have come.
    this.#leave(address, oldest);
    oldest.destroy();
  }

  /** Waits for the first byte, and continues as it says. */
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
        // Its end is that of the connection, which is what is counted.
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

  /** Does it now or, beyond the rate, after a while. */
  #pace(waitMs: number, socket: Socket, act: () => void): void {
    if (this.#bucket.take(performance.now()) === 0) act();
    else later(waitMs, socket, act);
  }
}

/**
 * Ends a connection after its answer. What else the client sends is read and dropped for a while: unread bytes would turn
 * the end into a reset, to which the answer could be lost.
 */
function endGently(socket: Socket): void {
  socket.removeAllListeners('data');
  socket.on('data', () => undefined).resume();
  socket.end();
  later(LINGER_MS, socket, () => socket.destroy());
}

/** Does it after this time, unless the connection is gone by then. */
function later(ms: number, socket: Socket, act: () => void): NodeJS.Timeout {
  const timer = setTimeout(act, ms).unref();
  socket.once('close', () => clearTimeout(timer));
  return timer;
}

function codeOf(error: Error): ErrorCode {
  return systemCode(error) === 'HPE_HEADER_OVERFLOW' ? 'headers_too_large' : 'malformed_request';
}
