/** Every byte that the collector ever sends to a client is written here. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { ERRORS, type ErrorCode, errorBody } from '@clinical-events/protocol';
import type { Fault } from '../ledger/examine.js';
import { type Exchange, readHeaders, type Request, REQUEST_ID, type StreamedReply } from './request.js';

const ACCEPTED = '{"status":"accepted"}';
const ACCEPTED_LENGTH = String(ACCEPTED.length);

/** The event is durable. The same for a new event and for an exact repeat. */
export function accept({ reply, id }: Exchange): void {
  reply.writeHead(201, [
    ...['Content-Type', 'application/json', 'Content-Length', ACCEPTED_LENGTH],
    ...[REQUEST_ID, id],
  ]);
  reply.end(ACCEPTED);
}

/**
 * Lets a page of this origin read the answer that will be given. The headers of ours that it may not read anyway are
 * named.
 */
export function allowOrigin(reply: StreamedReply, origin: string): void {
  reply.setHeader('Access-Control-Allow-Origin', origin);
  reply.setHeader('Vary', 'Origin');
  reply.setHeader('Access-Control-Expose-Headers', `Retry-After, ${REQUEST_ID}`);
}

/** Seconds for which a browser need not ask again; and for which an origin that is taken from the list may go on. */
const PREFLIGHT_AGE_SECONDS = '600';

/** Tells a browser that a page of this origin may send events (Fetch standard, CORS-preflight request). */
export function answerPreflight({ reply, id }: Exchange, origin: string): void {
  reply.writeHead(204, [
    ...[REQUEST_ID, id],
    ...['Access-Control-Allow-Origin', origin, 'Vary', 'Origin'],
    ...['Access-Control-Allow-Methods', 'POST'],
    ...['Access-Control-Allow-Headers', 'content-type, x-api-key, content-encoding'],
    ...['Access-Control-Max-Age', PREFLIGHT_AGE_SECONDS],
  ]);
  reply.end();
}

/**
 * On a connection that lives on, a body that was not read is read to its end and dropped when it is at most so large.
 */
const DRAIN_BYTES = 64 << 10;
/** Otherwise at most this much of it is read and dropped, and the connection ends after this time. */
const LINGER_BYTES = 256 << 10;
const LINGER_MS = 1000;
/** The bodies of refusals that have no details, made once: under overload there are thousands a second. */
const PLAIN_BODIES = Object.fromEntries(
  Object.keys(ERRORS).map((code) => [code, JSON.stringify(errorBody(code as ErrorCode))]),
) as Record<ErrorCode, string>;

/**
 * Answers with an Error body; the status follows from the code, and so does whether there is a Retry-After.
 * @param waitSeconds what it says then.
 * @returns the status.
 */
export function refuse(
  { request, reply, expectation, id }: Exchange,
  { code, details, message }: Fault,
  headers: readonly string[],
  waitSeconds = 1,
): number {
  const { status, retryAfter } = ERRORS[code];
  const isPlain = details === undefined && message === undefined;
  const body = isPlain ? PLAIN_BODIES[code] : JSON.stringify(errorBody(code, details, message));
  const all = [
    'Content-Type',
    'application/json',
    'Content-Length',
    String(Buffer.byteLength(body)),
    ...[REQUEST_ID, id],
    ...headers,
  ];
  if (retryAfter) all.push('Retry-After', String(waitSeconds));
  const { contentLength, transferEncoding } = readHeaders(request.rawHeaders);
  const declared = contentLength ?? Infinity;
  const bodyless = contentLength === undefined && transferEncoding === undefined;
  const small = declared <= DRAIN_BYTES && expectation === 'none' && reply.shouldKeepAlive;
  const drains = request.complete || bodyless || small;
  // Who has sent two readings of one request may mean two things by the bytes behind it as well.
  if (drains && code !== 'shutting_down' && code !== 'malformed_request') {
    reply.writeHead(status, all);
    reply.end(body);
    return status;
  }
  // Has Node write `Connection: close`, and has the listener take no further request from this connection.
  reply.shouldKeepAlive = false;
  reply.writeHead(status, all);
  if (request.complete || bodyless) {
    reply.end(body);
    return status;
  }
  // Closing with unread bytes resets the connection, and a client that is still sending would lose the answer to
  // the reset. The answer is whole with its last byte, by Content-Length; the response object ends, and with it
  // the connection, when the rest was dropped or the client has had time to read.
  reply.write?.(body);
  let dropped = 0;
  const finish = (): void => {
    clearTimeout(timer);
    reply.end();
  };
  const timer = setTimeout(finish, LINGER_MS);
  request.on('data', (chunk: Buffer) => {
    dropped += chunk.length;
    if (dropped > LINGER_BYTES) request.pause();
  });
  request.on('end', finish);
  request.on('close', finish);
  request.resume();
  return status;
}

/** The answer to bytes that are no request at all: there is no response object to write it through. */
export function refuseOnSocket(socket: Duplex, code: ErrorCode, headers = ''): void {
  const { status } = ERRORS[code];
  const body = PLAIN_BODIES[code];
  endSocket(
    socket,
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
      `${headers}Connection: close\r\n\r\n${body}`,
  );
}

/** Ends a connection after these last bytes, so that the client can read what it was sent. */
export function endSocket(socket: Duplex, last = ''): void {
  socket.end(last);
  // A client that never closes its side must not keep the socket forever.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/*
 * Cross-origin resource sharing (the Fetch standard): which pages' scripts may send events and see the answer.
 *
 * Off unless an origin is named. An API key in a page is in the hands of all who can open the page, so each
 * origin is named in full: there is no `*`, and no pattern.
 */

/** The list of origins cannot be meant. */
export class OriginsInvalid extends Error {
  override name = 'OriginsInvalid';
}

export class AllowedOrigins {
  readonly #origins: ReadonlySet<string>;

  /**
   * @param text origins such as `https://app.example.org` with commas between them; none when empty.
   * @throws {@link OriginsInvalid}
   */
  constructor(text: string) {
    this.#origins = new Set(text === '' ? [] : text.split(',').map((item) => origin(item.trim())));
  }

  allows(origin: string): boolean {
    return this.#origins.has(origin);
  }

  /** The origin that asks whether it may send an event, and may; undefined for any other request. */
  preflightOf({ method, rawHeaders }: Pick<Request, 'method' | 'rawHeaders'>): string | undefined {
    if (method !== 'OPTIONS' || this.#origins.size === 0) return undefined;
    let asking: string | undefined;
    let asks = false;
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      switch (rawHeaders[i]?.toLowerCase()) {
        case 'origin':
          if (asking !== undefined) return undefined;
          asking = rawHeaders[i + 1];
          break;
        case 'access-control-request-method':
          asks = rawHeaders[i + 1] === 'POST';
          break;
        // No browser sends a body with the question, and there is no key that one could be read by.
        case 'content-length':
        case 'transfer-encoding':
          return undefined;
      }
    }
    return asks && asking !== undefined && this.allows(asking) ? asking : undefined;
  }
}

function origin(item: string): string {
  if (item.includes('*')) throw new OriginsInvalid(`${JSON.stringify(item)} is no origin: name each in full`);
  const url = URL.canParse(item) ? new URL(item) : undefined;
  const ofPages = url?.protocol === 'https:' || url?.protocol === 'http:';
  // Compared as a browser spells it: without a path, a default port or capitals.
  if (ofPages && url.origin === item) return item;
  const guess = ofPages ? `; did you mean ${JSON.stringify(url.origin)}?` : '';
  throw new OriginsInvalid(`${JSON.stringify(item)} is no origin such as https://app.example.org${guess}`);
}
