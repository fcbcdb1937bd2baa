/**
 * One connection to a collector: a request, its answer, and the next request. Never two requests at a time: of an
 * answer that nobody asked for, from a proxy that has lost count, nothing would tell that it belongs to another event.
 */
import type net from 'node:net';
import { AnswerReader } from './answer-reader.js';
import type { Requester } from './endpoint.js';

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

/** A request up to this size is put together and written at once, which costs less than two pieces. */
const SMALL = 16 << 10;
const FIRST_BUFFER_BYTES = 2 << 10;

export class Connection {
  /** By performance.now(): when it was last given a request or became free. */
  since = 0;
  readonly #owner: ConnectionOwner;
  readonly #socket: net.Socket;
  readonly #reader = new AnswerReader();
  #request: Request | undefined;
  /** For small requests, one after the other. */
  #buffer: Buffer = Buffer.allocUnsafeSlow(FIRST_BUFFER_BYTES);
  #used = false;
  #gone = false;
  /** Sockets begin so. */
  #held = true;
  #error: Error | undefined;

  /** @throws what `dial` throws. */
  constructor(dial: Dial, owner: ConnectionOwner) {
    this.#owner = owner;
    this.#socket = dial((bytes) => this.#take(bytes));
    this.#socket.on('error', (error) => (this.#error ??= error));
    this.#socket.on('end', () => this.#closed());
    this.#socket.on('close', () => this.#closed());
  }

  get idle(): boolean {
    return this.#request === undefined;
  }

  /** Only one that is new or was told to be free. */
  send(request: Request): void {
    const { head, body } = request;
    this.#request = request;
    this.since = performance.now();
    this.#hold(true);
    const length = head.length + body.length;
    if (length > SMALL) {
      this.#socket.cork();
      this.#socket.write(head, 'latin1');
      this.#socket.write(body);
      this.#socket.uncork();
      return;
    }
    if (this.#buffer.length < length) this.#buffer = Buffer.allocUnsafeSlow(Math.min(2 * length, SMALL));
    this.#buffer.write(head, 'latin1');
    this.#buffer.set(body, head.length);
    this.#socket.write(this.#buffer.subarray(0, length));
  }

  /** Closes it. Whoever waits for an answer is told why there is none. */
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
    if (!this.#request) return this.end(new Error('the other side said something that it was not asked'));
    let whole: boolean;
    try {
      whole = this.#reader.take(bytes);
    } catch (error) {
      return this.end(error as Error);
    }
    // Whoever says it has stored what it has not got yet is no collector.
    if (this.#reader.saysStored && this.#socket.writableLength > 0) {
      return this.end(new Error('201 came before the whole event was sent'));
    }
    if (whole) this.#answered(this.#request);
  }

  #answered({ requester }: Request): void {
    const answer = this.#reader.answer();
    this.#request = undefined;
    this.#used = true;
    // What is not out yet of a request that is answered already would be in the way of the next one, and in its buffer.
    if (this.#reader.keepsOpen && this.#socket.writableLength === 0) {
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
