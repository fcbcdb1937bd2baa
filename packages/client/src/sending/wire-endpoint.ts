/**
 * Requests on connections of our own, straight on sockets: what `node:http` does for each request costs more than
 * everything else that the client does for it (docs/internals/adr/0015-client-sending.md).
 */
import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers';
import net from 'node:net';
import tls from 'node:tls';
import { EVENT_PATHS, type EventKind } from '@clinical-events/protocol';
import { AnswerReader } from './answer-reader.js';
import {
  afterHolding,
  afterReading,
  deletes,
  type Endpoint,
  type EndpointOptions,
  keyOf,
  PATIENCE_MS,
  type Requester,
  SMALL,
  Sweeper,
} from './endpoint.js';

const READ_BYTES = 64 << 10;
/** One that has been idle for so long is closed: before many servers close theirs, after 5 s. */
const IDLE_MS = 4000;

export class WireEndpoint implements Endpoint, ConnectionOwner {
  readonly #options: EndpointOptions;
  readonly #dial: Dial;
  readonly #patienceMs: number;
  readonly #all = new Set<Connection>();
  /** The one that was used last is used first, so that those that are not needed become old. */
  readonly #free: Connection[] = [];
  readonly #sweeper: Sweeper;
  readonly #heads = new Map<EventKind, string>();
  #headsFor = '';

  constructor(options: EndpointOptions) {
    const { url, patienceMs = PATIENCE_MS } = options;
    this.#options = options;
    this.#patienceMs = patienceMs;
    this.#dial = url.protocol === 'https:' ? tlsDial(url) : plainDial(url);
    this.#sweeper = new Sweeper(patienceMs, () => this.#sweep());
  }

  post(kind: EventKind, body: Uint8Array, requester: Requester): void {
    try {
      this.#send({ head: this.#head(kind, body.length), body, requester }, this.#free.pop());
    } catch (error) {
      setImmediate(() => requester.failed(error));
    }
  }

  close(): void {
    this.#sweeper.stop();
    for (const connection of this.#all) connection.end(new Error('the client is closing'));
  }

  free(connection: Connection): void {
    this.#free.push(connection);
  }

  gone(connection: Connection): void {
    this.#all.delete(connection);
    const place = this.#free.indexOf(connection);
    if (place >= 0) this.#free.splice(place, 1);
  }

  /** Once more at once, on a new connection: the other idle ones may be closed too. */
  stale(request: Request): void {
    try {
      this.#send(request, undefined);
    } catch (error) {
      request.requester.failed(error);
    }
  }

  #send(request: Request, free: Connection | undefined): void {
    let connection = free;
    if (!connection) {
      connection = new Connection(this.#dial, this);
      this.#all.add(connection);
      this.#sweeper.start();
    }
    connection.send(request);
  }

  #head(kind: EventKind, length: number): string {
    const key = keyOf(this.#options);
    if (key !== this.#headsFor) this.#heads.clear();
    this.#headsFor = key;
    let head = this.#heads.get(kind);
    if (head === undefined) {
      const { url } = this.#options;
      head =
        `POST ${url.pathname.replace(/\/+$/, '')}${EVENT_PATHS[kind]} HTTP/1.1\r\nHost: ${url.host}\r\n` +
        `Content-Type: application/json\r\nX-API-Key: ${key}\r\nContent-Length: `;
      this.#heads.set(kind, head);
    }
    return `${head}${length}\r\n\r\n`;
  }

  #sweep(): boolean {
    const now = performance.now();
    for (const connection of this.#all) {
      const { idle } = connection;
      if (now - connection.since < (idle ? IDLE_MS : this.#patienceMs)) continue;
      connection.end(new Error(idle ? 'idle' : `no answer within ${this.#patienceMs / 1000} s`));
    }
    return this.#all.size > 0;
  }
}

/** One buffer for all connections of the process: what has come is taken before the next is read. */
let readBuffer: Buffer | undefined;

function connectOptions(url: URL, onData: (bytes: Buffer) => void) {
  readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES);
  const buffer = readBuffer;
  return {
    // An IPv6 address stands in brackets in a URL, and without them here.
    host: url.hostname.replace(/^\[|\]$/g, ''),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 1000,
    onread: {
      buffer,
      callback: (bytes: number) => {
        onData(buffer.subarray(0, bytes));
        return true;
      },
    },
  };
}

function plainDial(url: URL): Dial {
  return (onData) => net.connect({ ...connectOptions(url, onData), port: Number(url.port || 80) });
}

function tlsDial(url: URL): Dial {
  let session: Buffer | undefined;
  let secureContext: tls.SecureContext | undefined;
  return (onData) => {
    // One for all: to make it reads all certificates.
    secureContext ??= tls.createSecureContext();
    const options = connectOptions(url, onData);
    const socket = tls.connect({
      ...options,
      ...{ port: Number(url.port || 443), secureContext, ALPNProtocols: ['http/1.1'] },
      ...(session && { session }),
      ...(net.isIP(options.host) === 0 && { servername: options.host }),
    });
    socket.on('session', (given: Buffer) => (session = given));
    return socket;
  };
}

/*
 * One connection to a collector: a request, its answer, and the next request. Never two requests at a time: of an
 * answer that no one asked for, from a proxy that has lost count, nothing would tell that it belongs to another event.
 */

export interface Request {
  /** Up to and with the empty line; ASCII. */
  readonly head: string;
  readonly body: Uint8Array;
  readonly requester: Requester;
}

/** Those to whom a connection belongs. */
export interface ConnectionOwner {
  /** The next request may go on it. */
  free(connection: Connection): void;
  /** Nothing goes on it any more. */
  gone(connection: Connection): void;
  /** The connection had been idle, and was closed before anything of the answer came: that says nothing of anybody. */
  stale(request: Request): void;
}

/** Opens a socket that calls `onData` with all that comes; the bytes are written over afterwards. */
export type Dial = (onData: (bytes: Buffer) => void) => net.Socket;

const FIRST_BUFFER_BYTES = 2 << 10;

export class Connection {
  /** By performance.now(): when it was last given a request or became free. */
  since = 0;
  readonly #owner: ConnectionOwner;
  readonly #socket: net.Socket;
  /** The event after which it can be written to; undefined once that has come. */
  #ready: 'connect' | 'secureConnect' | undefined;
  readonly #reader = new AnswerReader();
  #request: Request | undefined;
  /** For small requests, one after the other: put together and written at once, which costs less than two pieces. */
  #buffer: Buffer = Buffer.allocUnsafeSlow(FIRST_BUFFER_BYTES);
  #used = false;
  /** What of the request is written, and whether its answer began before all of it was with the system. */
  #sent: 'nothing' | 'part' | 'all' = 'nothing';
  #early = false;
  #gone = false;
  /** Sockets begin so. */
  #held = true;
  #error: Error | undefined;

  /** @throws what `dial` throws. */
  constructor(dial: Dial, owner: ConnectionOwner) {
    this.#owner = owner;
    this.#socket = dial((bytes) => this.#take(bytes));
    this.#ready = this.#socket instanceof tls.TLSSocket ? 'secureConnect' : 'connect';
    this.#socket.on('error', (error) => (this.#error ??= error));
    this.#socket.on('end', () => this.#closed());
    this.#socket.on('close', () => this.#closed());
  }

  get idle(): boolean {
    return this.#request === undefined;
  }

  /** Only one that is new or was told to be free. */
  send(request: Request): void {
    this.#request = request;
    this.#sent = 'nothing';
    this.#early = false;
    this.since = performance.now();
    this.#hold(true);
    const write = () => {
      if (!this.#gone) this.#write(request);
    };
    if (this.#ready === undefined) return afterReading(write);
    this.#socket.once(this.#ready, () => {
      this.#ready = undefined;
      afterReading(write);
    });
  }

  #write(request: Request): void {
    const { head, body } = request;
    const length = head.length + body.length;
    if (length > SMALL) return this.#writeParts(request);
    this.#sent = 'all';
    if (this.#buffer.length < length) this.#buffer = Buffer.allocUnsafeSlow(Math.min(2 * length, SMALL));
    this.#buffer.write(head, 'latin1');
    this.#buffer.set(body, head.length);
    this.#socket.write(this.#buffer.subarray(0, length));
  }

  #writeParts(request: Request): void {
    this.#sent = 'part';
    const last = request.body.length - 1;
    const writeLast = () => {
      if (this.#request !== request) return;
      this.#sent = 'all';
      this.#socket.write(request.body.subarray(last));
    };
    this.#socket.cork();
    this.#socket.write(request.head, 'latin1');
    this.#socket.write(request.body.subarray(0, last), () => afterHolding(writeLast));
    this.#socket.uncork();
  }

  /** Whether something of the request is not with the system yet. */
  get #unsent(): boolean {
    return this.#sent !== 'all' || this.#socket.writableLength > 0;
  }

  /** Closes it. Anyone who waits for an answer is told why there is none. */
  end(error: Error): void {
    this.#leave()?.requester.failed(error);
  }

  /** @returns the request that has no answer, if there is one. */
  #leave(): Request | undefined {
    if (this.#gone) return undefined;
    this.#gone = true;
    this.#socket.destroy();
    this.#owner.gone(this);
    const request = this.#request;
    this.#request = undefined;
    return request;
  }

  #take(bytes: Buffer): void {
    if (this.#gone) return;
    if (!this.#request || this.#sent === 'nothing') {
      return this.end(new Error('the other side said something that it was not asked'));
    }
    const request = this.#request;
    let whole: boolean;
    try {
      whole = this.#reader.take(bytes);
    } catch (error) {
      return this.end(error as Error);
    }
    const judge = () => {
      if (this.#request === request && !this.#gone) this.#judge(request, whole);
    };
    // TLS reports in the next phase of the loop what it has written before.
    if (this.#socket.writableLength > 0 && this.#socket instanceof tls.TLSSocket) setImmediate(judge);
    else judge();
  }

  #judge(request: Request, whole: boolean): void {
    if (this.#unsent && !this.#reader.waits) this.#early = true;
    // Anyone who says what became of an event that it has not got yet is no collector.
    if (this.#early && deletes(this.#reader.status)) {
      return this.end(new Error(`${this.#reader.status} came before the whole event was sent`));
    }
    if (whole) this.#answered(request);
  }

  #answered({ requester }: Request): void {
    const answer = this.#reader.answer();
    this.#request = undefined;
    this.#used = true;
    // What is not out yet of a request that is answered already would be in the way of the next one, and in its buffer.
    if (this.#reader.keepsOpen && !this.#unsent) {
      this.since = performance.now();
      this.#owner.free(this);
    } else this.#leave();
    requester.answered(answer);
    if (this.idle && !this.#gone) this.#hold(false);
  }

  /** By the other side, or by what lies between. */
  #closed(): void {
    if (this.#request && this.#reader.ended) return this.#answered(this.#request);
    const error = this.#error ?? new Error('the connection was closed without an answer');
    if (!this.#used || !this.#reader.untouched || !isReset(this.#error)) return this.end(error);
    const request = this.#leave();
    if (request) this.#owner.stale(request);
  }

  /** Whether the process waits for it. */
  #hold(held: boolean): void {
    if (held === this.#held) return;
    this.#held = held;
    if (held) this.#socket.ref();
    else this.#socket.unref();
  }
}

/** Undefined: it was closed in order. */
function isReset(error: Error | undefined): boolean {
  return error === undefined || ('code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE'));
}
