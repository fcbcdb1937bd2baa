/**
 * A shortcut past Node's HTTP server for nearly every request: a plain, complete POST of an event with a
 * valid key. It takes a third of the time of Node's parser, streams and response objects
 * (docs/internals/adr/0021-shortcut.md).
 *
 * A connection begins here. The first request that differs in any way is handed over with the connection: its
 * bytes are put back, and Node's server keeps the connection from then on. So unusual requests are never
 * answered here. A connection has one request at a time: bytes that arrive before its answer wait.
 *
 * The end of a request is given by one Content-Length of digits, in a head without Transfer-Encoding in which
 * every line is printable ASCII and ends with CRLF. Such a head has only one reading, so a second request
 * cannot be smuggled behind it (RFC 9112 section 11.2).
 */
import type { Socket } from 'node:net';
import { STATUS_CODES } from 'node:http';
import { EVENT_KINDS, EVENT_PATHS, type EventKind } from '@clinical-events/protocol';
import { keepPlace, type Limits } from './connections.js';
import type { Ingest } from './ingest.js';
import { readHeaders, type Reply, type RequestHeaders, type WholeRequest } from './request.js';

const KIND_OF_LINE: ReadonlyMap<string, EventKind> = new Map(
  EVENT_KINDS.map((kind) => [`POST ${EVENT_PATHS[kind]} HTTP/1.1`, kind]),
);
/** Header lines as every client writes them: not folded, one space after the colon, none at the end. */
const PLAIN_LINES = /^[^\r\n]+\r\n(?:[\w!#$%&'*+.^`|~-]+: [\x21-\x7e]+(?: +[\x21-\x7e]+)*\r\n)+\r\n$/;
/** Headers that ask for more than an answer to this request, or for another kind of answer. */
const ODD_HEADER =
  /\r\n(?:transfer-encoding|te|trailer|expect|upgrade|http2-settings|(?:proxy-)?connection(?!: keep-alive\r\n)):/i;
const MOST_DIGITS = 9;
const PLAIN_LENGTH = /(\r\ncontent-length: )\d{1,9}\r\n/i;
const CR = 13;
const ZERO = 48;
const MOST_HEAD_BYTES = 4 << 10;
/** A larger request in pieces is handed over: Node's sockets gather 64 KiB. */
const MOST_AWAITED_BYTES = 48 << 10;
/** How long to wait for the rest of a request: many clients send head and body in two calls. */
const PATIENCE_MS = 5;
const SWEEP_MS = 500;
const NOTHING = Buffer.alloc(0);

/**
 * A parsed head, remembered with its connection. The next head is compared with it: equal bytes have equal
 * meaning, and only the first line, one of five, and the digits of the length may differ.
 */
class Head {
  kind: EventKind;
  /** The length of the head; and of the request. */
  bytes: number;
  requestBytes: number;
  readonly headers: RequestHeaders;
  #line: string;
  /** The bytes between the first line and the digits of Content-Length, and those after the digits. */
  readonly #before: Buffer;
  readonly #after: Buffer;

  private constructor(text: string, kind: EventKind, headers: RequestHeaders) {
    this.kind = kind;
    this.headers = headers;
    this.bytes = text.length;
    this.requestBytes = text.length + (headers.contentLength ?? NaN);
    const length = PLAIN_LENGTH.exec(text);
    const digitsAt = (length?.index ?? 0) + (length?.[1]?.length ?? 0);
    this.#line = text.slice(0, text.indexOf('\r\n'));
    this.#before = Buffer.from(text.slice(this.#line.length, digitsAt), 'latin1');
    this.#after = Buffer.from(text.slice(text.indexOf('\r\n', digitsAt)), 'latin1');
  }

  /** @returns the head at the start of the bytes; undefined unless it is a complete plain head. */
  static read(bytes: Buffer): Head | undefined {
    const end = bytes.subarray(0, MOST_HEAD_BYTES).indexOf('\r\n\r\n') + 4;
    if (end < 4) return undefined;
    const text = bytes.toString('latin1', 0, end);
    const kind = KIND_OF_LINE.get(text.slice(0, text.indexOf('\r\n')));
    if (kind === undefined || !PLAIN_LINES.test(text) || ODD_HEADER.test(text) || !PLAIN_LENGTH.test(text))
      return undefined;
    const headers = readHeaders(rawHeadersOf(text));
    return headers.repeated || headers.host !== 1 ? undefined : new Head(text, kind, headers);
  }

  /**
   * Reads a head that has the same lines as this one. @returns false for another one; nothing is changed
   * then.
   */
  readNext(bytes: Buffer): boolean {
    const lineEnd = bytes.indexOf(CR);
    const kind = KIND_OF_LINE.get(bytes.toString('latin1', 0, Math.max(0, lineEnd)));
    const digitsAt = lineEnd + this.#before.length;
    if (kind === undefined || digitsAt > bytes.length) return false;
    if (this.#before.compare(bytes, lineEnd, digitsAt) !== 0) return false;
    let at = digitsAt;
    let length = 0;
    for (; at < bytes.length && at < digitsAt + MOST_DIGITS; at++) {
      const digit = (bytes[at] ?? 0) - ZERO;
      if (digit < 0 || digit > 9) break;
      length = length * 10 + digit;
    }
    const end = at + this.#after.length;
    if (at === digitsAt || end > bytes.length || this.#after.compare(bytes, at, end) !== 0) return false;
    this.kind = kind;
    this.bytes = end;
    this.requestBytes = end + length;
    this.headers.contentLength = length;
    this.#line = bytes.toString('latin1', 0, lineEnd);
    return true;
  }

  get path(): string {
    return this.#line.split(' ')[1] ?? '';
  }

  get rawHeaders(): string[] {
    const length = String(this.headers.contentLength);
    return rawHeadersOf(this.#line + this.#before.toString() + length + this.#after.toString());
  }
}

function rawHeadersOf(head: string): string[] {
  return head
    .slice(0, -4)
    .split('\r\n')
    .slice(1)
    .flatMap((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 2)];
    });
}

export class Shortcut {
  limits: Limits;
  readonly #connections = new Set<Connection>();
  readonly #sweep: NodeJS.Timeout;
  /** Monotonic clock in milliseconds, up to `SWEEP_MS` old. */
  #now = performance.now();
  #date = '';
  #dateEndsAt = 0;

  /**
   * @param toServer gives a connection to Node's server, with bytes to be read from it first.
   * @param onError called for an error of the connection.
   * @param onSilence called for a connection that has sent nothing in the time for a request's headers.
   */
  constructor(
    readonly ingest: Ingest,
    limits: Limits,
    readonly toServer: (socket: Socket) => void,
    readonly onError: (error: Error, socket: Socket) => void,
    private readonly onSilence: (socket: Socket) => void,
  ) {
    this.limits = limits;
    this.#sweep = setInterval(() => this.#endIdle(), SWEEP_MS).unref();
  }

  /** Takes a new connection, from which nothing has been read. */
  admit(socket: Socket): void {
    this.#connections.add(new Connection(this, socket));
  }

  /** The connection was closed or handed over. */
  forget(connection: Connection): void {
    this.#connections.delete(connection);
  }

  get now(): number {
    return this.#now;
  }

  /** Closes the connections without an open request. */
  closeIdle(): void {
    for (const connection of this.#connections) if (connection.isIdle) connection.socket.destroy();
  }

  /** Closes all connections, and ends. */
  close(): void {
    clearInterval(this.#sweep);
    for (const connection of this.#connections) connection.socket.destroy();
  }

  /** The headers that Node appends to ours, and the empty line. */
  lastHeaders(keepAlive: boolean): string {
    const now = Date.now();
    // The date also changes when the clock was set back.
    if (now >= this.#dateEndsAt || now < this.#dateEndsAt - 1000) {
      this.#dateEndsAt = now - (now % 1000) + 1000;
      this.#date = `Date: ${new Date(now).toUTCString()}\r\n`;
    }
    if (!keepAlive) return `${this.#date}Connection: close\r\n\r\n`;
    const seconds = Math.floor(this.limits.keepAliveTimeoutMs / 1000);
    return `${this.#date}Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}\r\n\r\n`;
  }

  #endIdle(): void {
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs } = this.limits;
    const now = (this.#now = performance.now());
    for (const connection of this.#connections) {
      const { socket, isIdle, isNew, since } = connection;
      const age = now - since;
      if (isNew && age > headersTimeoutMs) {
        connection.leave();
        this.onSilence(socket);
      } else if (isIdle && !isNew && age > keepAliveTimeoutMs + SWEEP_MS) socket.destroy();
      else if (age > requestTimeoutMs + keepAliveTimeoutMs) socket.destroy();
    }
  }
}

/** A connection, its open request, and the reply to that request. */
class Connection implements WholeRequest, Reply {
  readonly method = 'POST';
  readonly httpVersion = '1.1';
  readonly complete = true;
  readonly readableEnded = true;
  body: Buffer = NOTHING;
  shouldKeepAlive = true;
  /** When bytes were last read or written, by the shortcut's clock. */
  since = performance.now();
  /** Whether nothing has been read yet. */
  isNew = true;
  #head: Head | undefined;
  /** The answer up to its body. */
  #answer = '';
  #isOpen = false;
  /** Whether more bytes arrived before the answer. */
  #isHeld = false;
  /** Whether the client has ended its side after the open request. */
  #isLast = false;
  /** The length of the request whose first piece has arrived, or 0. */
  #awaited = 0;
  #patience: NodeJS.Timeout | undefined;
  #gathered = NOTHING;

  constructor(
    private readonly shortcut: Shortcut,
    readonly socket: Socket,
  ) {
    socket.on('data', this.#onData).on('end', this.#onEnd);
    socket.on('error', this.#onError).on('close', this.#onClose);
  }

  get isIdle(): boolean {
    return !this.#isOpen && this.#awaited === 0;
  }

  get destroyed(): boolean {
    return this.socket.destroyed;
  }

  get url(): string {
    return this.#head?.path ?? '';
  }

  get rawHeaders(): string[] {
    return this.#head?.rawHeaders ?? [];
  }

  writeHead(status: number, headers: readonly string[]): void {
    this.#answer = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
    for (let i = 0; i + 1 < headers.length; i += 2) this.#answer += `${headers[i]}: ${headers[i + 1]}\r\n`;
  }

  end(body: string): void {
    const { socket, shortcut } = this;
    this.#isOpen = false;
    this.body = NOTHING;
    if (socket.destroyed) return;
    this.since = shortcut.now;
    this.shouldKeepAlive &&= !this.#isLast;
    socket.write(this.#answer + shortcut.lastHeaders(this.shouldKeepAlive) + body);
    if (!this.shouldKeepAlive) {
      this.leave();
      socket.resume().destroySoon();
    } else if (this.#isHeld) {
      this.#isHeld = false;
      socket.resume();
    }
  }

  /** Stops reading from the connection, which is about to end. */
  leave(): void {
    this.#letGo();
    this.socket.on('error', () => this.socket.destroy());
  }

  #letGo(): void {
    const { socket } = this;
    clearTimeout(this.#patience);
    socket.off('data', this.#onData).off('readable', this.#onReadable).off('end', this.#onEnd);
    socket.off('error', this.#onError).off('close', this.#onClose);
    this.shortcut.forget(this);
  }

  /** @param bytes that were read and belong to no accepted request. */
  #handOver(bytes: Buffer): void {
    const { socket } = this;
    this.#letGo();
    socket.pause();
    socket.unshift(bytes);
    this.shortcut.toServer(socket);
    socket.resume();
  }

  readonly #onData = (chunk: Buffer): void => {
    const { shortcut, socket } = this;
    this.since = shortcut.now;
    this.isNew = false;
    if (this.#isOpen) {
      this.#isHeld = true;
      socket.pause().unshift(chunk);
      return;
    }
    let bytes = chunk;
    if (this.#awaited > 0) {
      bytes = this.#gathered = Buffer.concat([this.#gathered, chunk]);
      if (bytes.length < this.#awaited) return;
      this.#awaited = 0;
      this.#gathered = NOTHING;
    }
    const head = this.#headOf(bytes);
    // If the client does not read its answers, Node's server waits for it.
    if (head === undefined || socket.writableLength > 0) return this.#handOver(bytes);
    const { requestBytes } = head;
    if (bytes.length > requestBytes) return this.#handOver(bytes);
    const isWhole = bytes.length === requestBytes;
    const principal = shortcut.ingest.principalOf(head.headers.apiKey, socket, isWhole);
    if (principal === undefined) return this.#handOver(bytes);
    if (!isWhole) return this.#await(bytes, requestBytes);
    this.#isOpen = true;
    this.shouldKeepAlive = true;
    this.body = bytes.subarray(head.bytes);
    shortcut.ingest.take(this, this, head.kind, head.headers, principal);
  };

  #headOf(bytes: Buffer): Head | undefined {
    if (this.#head?.readNext(bytes) !== true) this.#head = Head.read(bytes);
    return this.#head;
  }

  /**
   * Waits for the rest of a request. The first part is put back into the socket, where Node's server finds it
   * after a hand-over.
   */
  #await(bytes: Buffer, requestBytes: number): void {
    if (requestBytes > MOST_AWAITED_BYTES) return this.#handOver(bytes);
    const { socket } = this;
    keepPlace(socket);
    this.#awaited = requestBytes;
    this.#patience = setTimeout(() => this.#handOver(NOTHING), PATIENCE_MS);
    socket.on('readable', this.#onReadable).off('data', this.#onData).unshift(bytes);
  }

  readonly #onReadable = (): void => {
    const { socket } = this;
    if (socket.readableLength < this.#awaited) return;
    clearTimeout(this.#patience);
    // The socket flows again and delivers the whole request in this turn.
    socket.off('readable', this.#onReadable).on('data', this.#onData);
  };

  readonly #onEnd = (): void => {
    this.#isLast = true;
    if (this.#isOpen) return;
    this.leave();
    this.socket.end();
  };

  readonly #onError = (error: Error): void => this.shortcut.onError(error, this.socket);

  readonly #onClose = (): void => this.#letGo();
}
