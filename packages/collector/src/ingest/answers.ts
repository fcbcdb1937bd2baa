/** Writes every byte that the collector sends to event clients. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { ERRORS, type ErrorCode, errorBody } from '@clinical-events/protocol';
import type { Fault } from '../ledger/examine.js';
import { type AnswerBody, type Exchange, readHeaders, REQUEST_ID } from './request.js';

const ACCEPTED = '{"status":"accepted"}';
const ACCEPTED_LENGTH = String(ACCEPTED.length);

/** The event is durable. New events and exact repeats get the same answer. */
export function accept({ reply, id }: Exchange): void {
  reply.writeHead(201, [
    ...['Content-Type', 'application/json', 'Content-Length', ACCEPTED_LENGTH],
    ...[REQUEST_ID, id],
  ]);
  reply.end(ACCEPTED);
}

/** Every event of the request that can be stored is durable. */
export function acceptAll({ reply, id }: Exchange, { mediaType, bytes }: AnswerBody): void {
  const head = ['Content-Type', mediaType, 'Content-Length', String(bytes.length), REQUEST_ID, id];
  reply.writeHead(200, head);
  reply.end(bytes);
}

/** On a connection that stays open, an unread body of at most this size is read and dropped. */
const DRAIN_BYTES = 64 << 10;
/** Otherwise at most this much is read and dropped, and the connection ends after this time. */
const LINGER_BYTES = 256 << 10;
const LINGER_MS = 1000;
/** The bodies of refusals without details, built once: overload causes thousands a second. */
const PLAIN_BODIES = Object.fromEntries(
  Object.keys(ERRORS).map((code) => [code, JSON.stringify(errorBody(code as ErrorCode))]),
) as Record<ErrorCode, string>;

/**
 * Answers with an Error body. The code determines the status and whether there is a Retry-After.
 * @param waitSeconds the value of Retry-After.
 * @returns the status.
 */
export function refuse(
  exchange: Exchange,
  fault: Fault,
  headers: readonly string[],
  waitSeconds = 1,
): number {
  const { request, reply, expectation, id, endpoint } = exchange;
  const { code, details, message } = fault;
  const { status, retryAfter } = ERRORS[code];
  const other = endpoint?.refusal?.(exchange, code, message ?? ERRORS[code].message);
  const isPlain = details === undefined && message === undefined;
  const body =
    other?.bytes ?? (isPlain ? PLAIN_BODIES[code] : JSON.stringify(errorBody(code, details, message)));
  const all = [
    'Content-Type',
    other?.mediaType ?? 'application/json',
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
  // Bytes that follow an ambiguous request are ambiguous too.
  if (drains && code !== 'shutting_down' && code !== 'malformed_request') {
    reply.writeHead(status, all);
    reply.end(body);
    return status;
  }
  // Makes Node write `Connection: close`, and the listener accept no further request from this connection.
  reply.shouldKeepAlive = false;
  reply.writeHead(status, all);
  if (request.complete || bodyless) {
    reply.end(body);
    return status;
  }
  // Closing with unread bytes resets the connection, and a client that is still sending would lose the
  // answer. Content-Length ends the answer for the client; the response object and the connection end when
  // the rest was dropped or the client has had time to read.
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

/** The answer to bytes that are not a request: no response object exists to write it through. */
export function refuseOnSocket(socket: Duplex, code: ErrorCode, headers = ''): void {
  const { status } = ERRORS[code];
  const body = PLAIN_BODIES[code];
  endSocket(
    socket,
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n` +
      `${headers}Connection: close\r\n\r\n${body}`,
  );
}

/** Ends a connection after these last bytes, so that the client can read them. */
export function endSocket(socket: Duplex, last = ''): void {
  socket.end(last);
  // A client that never closes its side must not keep the socket forever.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}
