/** Every byte that the collector ever sends to a client is written here. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { ERRORS, type ErrorCode, errorBody } from '@clinical-events/protocol';
import type { Fault } from '../ledger/examine.js';
import { type AnswerBody, type Exchange, readHeaders, REQUEST_ID } from './request.js';

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

/** All that can be stored of a request with many events is durable. */
export function acceptAll({ reply, id }: Exchange, { mediaType, bytes }: AnswerBody): void {
  const head = ['Content-Type', mediaType, 'Content-Length', String(bytes.length), REQUEST_ID, id];
  reply.writeHead(200, head);
  reply.end(bytes);
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
  // The bytes after a request that can be read in two ways can be read in two ways as well.
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
