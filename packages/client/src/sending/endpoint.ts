/**
 * Posts events to the collector over its own HTTP/1.1 connections, one request at a time on each. `node:http`
 * costs almost three times the processor time (docs/internals/adr/0045-client.md).
 */
import { performance } from 'node:perf_hooks';
import { clearInterval, setImmediate, setInterval, setTimeout } from 'node:timers';
import net from 'node:net';
import tls from 'node:tls';
import { EVENT_PATHS, type EventKind } from '@clinical-events/protocol';
import { isDroppedPromise } from '../hostile-values.js';
import type { Answer } from './answer.js';
import { AnswerReader } from './answer-reader.js';
import { CannotSend, type Dial, dialTo, type Route } from './dial.js';

export interface Destination extends Route {
  /** A function is called before every request, so that a key can be rotated. */
  readonly apiKey?: string | (() => string) | undefined;
  /** A request without an answer after this time fails; default 30 s. */
  readonly patienceMs?: number | undefined;
}

/** Receives the outcome of one request, once, after `post` has returned. */
export interface Requester {
  answered(answer: Answer): void;
  /** There was no answer: whether the event is stored is unknown. */
  failed(error: unknown): void;
}

const PATIENCE_MS = 30_000;
/** Idle connections are closed after this time. Many servers close theirs after 5 s. */
const IDLE_MS = 4000;

export class Endpoint {
  readonly #destination: Destination;
  readonly #patienceMs: number;
  #route: { readonly dial: Dial; readonly url: URL } | undefined;
  readonly #all = new Set<Connection>();
  /** The connection used last is used next, so that surplus connections become idle. */
  readonly #free: Connection[] = [];
  #sweeping: NodeJS.Timeout | undefined;
  readonly #heads = new Map<EventKind, string>();
  #headsFor = '';

  /** Does not throw: requests to an invalid destination fail with CannotSend. */
  constructor(destination: Destination) {
    this.#destination = destination;
    this.#patienceMs = destination.patienceMs ?? PATIENCE_MS;
  }

  /** @throws CannotSend for a destination that can never work. A function for the API key is not called. */
  check(): void {
    this.#dial();
    if (typeof this.#destination.apiKey !== 'function') keyOf(this.#destination);
  }

  /** `body` must not change until the requester is called. Does not throw. */
  post(kind: EventKind, body: Uint8Array, requester: Requester): void {
    try {
      this.#send({ head: this.#head(kind, body.length), body, requester }, this.#free.pop());
    } catch (error) {
      setImmediate(() => requester.failed(error));
    }
  }

  /** Closes all connections. Requests without an answer fail. */
  close(): void {
    this.#stopSweeping();
    for (const connection of this.#all) connection.end(new Error('the client is closing'));
  }

  /** Called by a connection that can take the next request. */
  free(connection: Connection): void {
    this.#free.push(connection);
  }

  /** Called by a connection that is closed. */
  gone(connection: Connection): void {
    this.#all.delete(connection);
    const index = this.#free.indexOf(connection);
    if (index >= 0) this.#free.splice(index, 1);
  }

  /** Sends the request again on a new connection: other idle connections may be closed too. */
  resend(request: Request): void {
    try {
      this.#send(request, undefined);
    } catch (error) {
      request.requester.failed(error);
    }
  }

  #dial(): { readonly dial: Dial; readonly url: URL } {
    return (this.#route ??= dialTo(this.#destination));
  }

  #send(request: Request, free: Connection | undefined): void {
    let connection = free;
    if (!connection) {
      connection = new Connection(this.#dial().dial, this);
      this.#all.add(connection);
      // One timer for all connections: a timer for each request would cost more than the request.
      this.#sweeping ??= setInterval(
        () => this.#sweep(),
        Math.min(1000, Math.ceil(this.#patienceMs / 4)),
      ).unref();
    }
    connection.send(request);
  }

  #head(kind: EventKind, length: number): string {
    const { url } = this.#dial();
    const key = keyOf(this.#destination);
    if (key !== this.#headsFor) this.#heads.clear();
    this.#headsFor = key;
    let head = this.#heads.get(kind);
    if (head === undefined) {
      head =
        `POST ${url.pathname.replace(/\/+$/, '')}${EVENT_PATHS[kind]} HTTP/1.1\r\nHost: ${url.host}\r\n` +
        `Content-Type: application/json\r\nX-API-Key: ${key}\r\nContent-Length: `;
      this.#heads.set(kind, head);
    }
    return `${head}${length}\r\n\r\n`;
  }

  #sweep(): void {
    const now = performance.now();
    for (const connection of this.#all) {
      const { idle } = connection;
      if (now - connection.since < (idle ? IDLE_MS : this.#patienceMs)) continue;
      connection.end(new Error(idle ? 'idle' : `no answer within ${this.#patienceMs / 1000} s`));
    }
    if (this.#all.size === 0) this.#stopSweeping();
  }

  #stopSweeping(): void {
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }
}

/** @throws CannotSend */
function keyOf({ apiKey }: Destination): string {
  let given: unknown;
  try {
    given = typeof apiKey === 'function' ? apiKey() : apiKey;
  } catch (cause) {
    throw new CannotSend('the function for the API key threw an error', { cause });
  }
  if (isDroppedPromise(given)) {
    throw new CannotSend('the function for the API key returned a promise; it must return the key');
  }
  // A key read from a file may end with a line break.
  const key = typeof given === 'string' ? given.trim() : '';
  if (key === '') throw new CannotSend('there is no API key (apiKey or COLLECTOR_KEY)');
  if (!/^[\x21-\x7e]+$/.test(key)) throw new CannotSend('the API key contains invalid characters');
  return key;
}

/*
 * A connection carries one request, its answer, and then the next request. There is no pipelining: if a proxy
 * lost count, an answer could be attributed to the wrong event.
 */

interface Request {
  /** Request line and header fields with the empty line; ASCII. */
  readonly head: string;
  readonly body: Uint8Array;
  readonly requester: Requester;
}

const FIRST_BUFFER_BYTES = 2 << 10;
/** A request up to this size is written in one piece. */
const SMALL = 16 << 10;
/** The last byte of a larger request is held back for this time after the others are written. */
const HELD_MS = 20;

class Connection {
  /** Start of the last request or of the idle period, by performance.now(). */
  since = 0;
  readonly #owner: Endpoint;
  #socket!: net.Socket;
  #ready = false;
  readonly #reader = new AnswerReader();
  #request: Request | undefined;
  /** Reused for small requests: writing head and body as one piece costs less than writing two. */
  #buffer: Buffer = Buffer.allocUnsafeSlow(FIRST_BUFFER_BYTES);
  #used = false;
  #sent: 'nothing' | 'part' | 'all' = 'nothing';
  /** The answer began before the whole request was written to the system. */
  #early = false;
  #gone = false;
  /** Whether the socket keeps the process alive, as a new socket does. */
  #held = true;
  #error: Error | undefined;

  /** @throws what `dial` throws. */
  constructor(dial: Dial, owner: Endpoint) {
    this.#owner = owner;
    dial({
      use: (socket) => this.#use(socket),
      ready: () => {
        this.#ready = true;
        if (this.#request) this.#writeSoon(this.#request);
      },
      data: (bytes) => this.#take(bytes),
    });
  }

  get idle(): boolean {
    return this.#request === undefined;
  }

  /** Only for a connection that is new or free. */
  send(request: Request): void {
    this.#request = request;
    this.#sent = 'nothing';
    this.#early = false;
    this.since = performance.now();
    this.#hold(true);
    if (this.#ready) this.#writeSoon(request);
  }

  /** Closes the connection. Its request fails with `error`. */
  end(error: Error): void {
    this.#leave()?.requester.failed(error);
  }

  #use(socket: net.Socket): void {
    this.#socket = socket;
    socket.on('error', (error) => (this.#error ??= error));
    socket.on('end', () => this.#closed());
    socket.on('close', () => this.#closed());
  }

  /** Writes the request after reading the bytes that have already arrived, which cannot be its answer. */
  #writeSoon(request: Request): void {
    afterReading(() => {
      if (!this.#gone && this.#request === request) this.#write(request);
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

  /** Holds the last byte back, so that an answer to a part of the event is detected. */
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
    this.#socket.write(request.body.subarray(0, last), () =>
      setTimeout(() => afterReading(writeLast), HELD_MS).unref(),
    );
    this.#socket.uncork();
  }

  /** Whether a part of the request has not been written to the system. */
  get #unsent(): boolean {
    return this.#sent !== 'all' || this.#socket.writableLength > 0;
  }

  /** @returns the request without an answer, if any. */
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
      return this.end(new Error('the server sent data without a request'));
    }
    const request = this.#request;
    let complete: boolean;
    try {
      complete = this.#reader.take(bytes);
    } catch (error) {
      return this.end(error as Error);
    }
    const judge = () => {
      if (this.#request === request && !this.#gone) this.#judge(request, complete);
    };
    // TLS reports a finished write only in the next phase of the event loop.
    if (this.#socket.writableLength > 0 && this.#socket instanceof tls.TLSSocket) setImmediate(judge);
    else judge();
  }

  #judge(request: Request, complete: boolean): void {
    if (this.#unsent && !this.#reader.waits) this.#early = true;
    const { status } = this.#reader;
    // 201 and 409 may delete the event. A server cannot know the outcome of an event it has not received.
    if (this.#early && (status === 201 || status === 409)) {
      return this.end(new Error(`${status} came before the whole event was sent`));
    }
    if (complete) this.#answered(request);
  }

  #answered({ requester }: Request): void {
    const answer = this.#reader.answer();
    this.#request = undefined;
    this.#used = true;
    // The unsent rest of an answered request would precede the next one.
    if (this.#reader.keepsOpen && !this.#unsent) {
      this.since = performance.now();
      this.#owner.free(this);
    } else this.#leave();
    requester.answered(answer);
    if (this.idle && !this.#gone) this.#hold(false);
  }

  #closed(): void {
    if (this.#request && this.#reader.ended) return this.#answered(this.#request);
    const error = this.#error ?? new Error('the connection was closed without an answer');
    if (!this.#used || !this.#reader.untouched || !isReset(this.#error)) return this.end(error);
    // The server closed an idle connection, which says nothing about the request.
    const request = this.#leave();
    if (request) this.#owner.resend(request);
  }

  /** Whether the connection keeps the process alive. */
  #hold(held: boolean): void {
    if (held === this.#held) return;
    this.#held = held;
    if (held) this.#socket.ref();
    else this.#socket.unref();
  }
}

/** Waits two turns of the event loop: the first may end without reading the sockets. */
function afterReading(act: () => void): void {
  setImmediate(() => setImmediate(act));
}

/** Undefined means an orderly close. */
function isReset(error: Error | undefined): boolean {
  return error === undefined || ('code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE'));
}
