import { randomFillSync } from 'node:crypto';
import type { Socket } from 'node:net';
import zlib from 'node:zlib';
import type { Door, ErrorCode, EventKind } from '@clinical-events/protocol';
import type { Principal } from '../access/principal.js';
import type { Fault } from '../ledger/examine.js';
import type { Answer } from '../ledger/ring.js';
import { systemCode } from '../system-code.js';
import type { Share } from './admission.js';

/* The request headers that the collector acts on, read in one pass without an object of all of them. */

export interface RequestHeaders {
  host: number;
  apiKey: string | undefined;
  /** True when a header that may occur once occurs twice: the request is ambiguous. */
  repeated: boolean;
  contentType: string | undefined;
  contentEncoding: string | undefined;
  /** The value of Content-Length; undefined for a chunked body and without a body. */
  contentLength: number | undefined;
  transferEncoding: string | undefined;
  /** The door that the sender states; undefined without the header. */
  door: 'endpoint' | 'import' | undefined;
}

/** The value `import` means that the events were first collected elsewhere; other values are ignored. */
export const EVENT_DOOR = 'X-Event-Door';

/**
 * @param raw alternating names and values, as received ({@link Request.rawHeaders}). The parser has already
 *   refused a Content-Length that is not a number, two different ones, and one with Transfer-Encoding.
 */
export function readHeaders(raw: readonly string[]): RequestHeaders {
  const headers: RequestHeaders = {
    host: 0,
    apiKey: undefined,
    repeated: false,
    contentType: undefined,
    contentEncoding: undefined,
    contentLength: undefined,
    transferEncoding: undefined,
    door: undefined,
  };
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] ?? '';
    const value = raw[i + 1] ?? '';
    switch (name.length) {
      case 4:
        if (name.toLowerCase() === 'host') headers.host++;
        break;
      case 9:
        if (name.toLowerCase() === 'x-api-key') {
          headers.repeated ||= headers.apiKey !== undefined;
          headers.apiKey = value;
        }
        break;
      case 12:
        if (name.toLowerCase() === 'content-type') {
          headers.repeated ||= headers.contentType !== undefined;
          headers.contentType = value;
        } else if (name.toLowerCase() === 'x-event-door') {
          headers.repeated ||= headers.door !== undefined;
          headers.door = value === 'import' ? 'import' : 'endpoint';
        }
        break;
      case 14:
        if (name.toLowerCase() === 'content-length') {
          headers.repeated ||= headers.contentLength !== undefined;
          headers.contentLength = Number(value);
        }
        break;
      case 16:
        if (name.toLowerCase() === 'content-encoding') {
          headers.repeated ||= headers.contentEncoding !== undefined;
          headers.contentEncoding = value;
        }
        break;
      case 17:
        if (name.toLowerCase() === 'transfer-encoding') {
          headers.repeated ||= headers.transferEncoding !== undefined;
          headers.transferEncoding = value;
        }
    }
  }
  return headers;
}

/**
 * True for `application/json`, alone or with charset UTF-8 (RFC 9110 section 8.3; other parameters are
 * ignored).
 */
export function isJsonMediaType(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true;
  if (contentType === undefined) return false;
  const [type = '', ...parameters] = contentType.toLowerCase().split(';');
  if (type.trim() !== 'application/json') return false;
  return parameters.every((parameter) => {
    const [name = '', value = ''] = parameter.split('=', 2);
    return name.trim() !== 'charset' || /^\s*"?utf-?8"?\s*$/.test(value);
  });
}

/**
 * The client's expectation before it sends its body (RFC 9110 section 10.1.1). `continue`: it waits for 100
 * Continue. `unmet`: the collector does not know the expectation.
 */
export type Expectation = 'none' | 'continue' | 'unmet';

interface RequestHead {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** `1.1` or `1.0`, or the text in its place. */
  readonly httpVersion: string;
  /** Alternating names and values, as received. */
  readonly rawHeaders: readonly string[];
  readonly socket: Socket;
  /** Whether its connection is closed. */
  readonly destroyed: boolean;
}

/** A request that had arrived completely before it was read. */
export interface WholeRequest extends RequestHead {
  readonly complete: true;
  readonly readableEnded: true;
  /** Valid until the request is answered. */
  readonly body: Buffer;
}

/**
 * A request as a server delivers it: its head is read, its body arrives as `data` and `end` events. Behind
 * the listener, code sees HTTP servers only through it; Node's IncomingMessage satisfies it.
 */
export interface StreamedRequest extends RequestHead {
  /** Whether all of it has arrived, and whether all of it was read. */
  readonly complete: boolean;
  readonly readableEnded: boolean;
  readonly body?: undefined;
  on(event: 'data', take: (chunk: Buffer) => void): unknown;
  on(event: 'end' | 'close', take: () => void): unknown;
  once(event: 'end', take: () => void): unknown;
  pause(): unknown;
  resume(): unknown;
}

export type Request = WholeRequest | StreamedRequest;

/** How a request is counted: as one event, or as a request of OTLP with any number of them. */
export type RequestKind = EventKind | 'otlp';

/** The destination of a request: one of the five for single events, or one of OTLP. */
export interface Endpoint {
  /** The kind of request, which is also the permission that the key needs. */
  readonly kind: RequestKind;
  readonly maxBodyBytes: number;
  takes(contentType: string | undefined): boolean;
  /** The message for another media type, in place of the code's own. */
  readonly typeMessage?: string;
  /** Reads and answers a request whose head is good and whose announced body is not too large. */
  receive(exchange: Exchange, headers: RequestHeaders, principal: Principal, encoding: Encoding): void;
  /** The body of a refusal; undefined for the endpoints of single events. */
  refusal?(exchange: Exchange, code: ErrorCode, message: string): AnswerBody;
}

export interface AnswerBody {
  readonly mediaType: string;
  readonly bytes: Buffer;
}

/** The answer to a request, given once. */
export interface Reply {
  /** If false, the connection ends after this answer and takes no further request. */
  shouldKeepAlive: boolean;
  writeHead(status: number, headers: string[]): unknown;
  end(body?: string | Buffer): unknown;
  /** Asks the client for the body that it holds back. Absent for a complete request. */
  writeContinue?(): unknown;
  /** Writes a part of the body before `end`. Absent for a complete request. */
  write?(body: string | Buffer): unknown;
}

/** The answer to a streamed request; Node's ServerResponse satisfies it. */
export type StreamedReply = Required<Reply>;

/** An event in the queue, alone or one of several in a request. */
export interface Waiting {
  /** Set once the event has a place in the queue: its key, and the bytes that count against it. */
  share: Share | undefined;
  sharedBytes: number;
  /** Receives the ledger's answer to one of several events of a request. */
  readonly onAnswer?: (answer: Answer, fault: Fault | undefined) => void;
}

/** A request on its way through the collector, with what is known so far. */
export interface Exchange extends Waiting {
  /** Appears in the answer and in the log line of a refusal. */
  readonly id: string;
  readonly request: Request;
  readonly reply: Reply;
  /** Monotonic clock, milliseconds. */
  readonly startedAt: number;
  readonly expectation: Expectation;
  /** Undefined when the path has no endpoint. */
  readonly endpoint: Endpoint | undefined;
  door: Door;
  principal: Principal | undefined;
  /** The size as received, before decompression. */
  bodyBytes: number;
  /** Decompressed; kept once the event has a place in the queue, if the options ask for bodies. */
  body: Buffer | undefined;
}

/** A body while it arrives, in no more memory than was reserved for it. */
export class Body {
  /** The only chunk so far, not copied: most events arrive in one. */
  #only: Buffer | undefined;
  #gathered: Buffer | undefined;
  length = 0;

  /**
   * Adds a chunk by copying it: a sender may cut a body into single bytes, and each kept chunk would cost
   * some 400 bytes of memory.
   * @param promised reserved bytes; at least `length` plus the chunk.
   */
  add(chunk: Buffer, promised: number): void {
    if (this.length === 0) this.#only = chunk;
    else {
      if (this.#gathered === undefined || this.#gathered.length < this.length + chunk.length) {
        const larger = Buffer.allocUnsafeSlow(promised);
        this.bytes.copy(larger);
        this.#gathered = larger;
        this.#only = undefined;
      }
      chunk.copy(this.#gathered, this.length);
    }
    this.length += chunk.length;
  }

  /** The bytes so far; a view that the next `add` may invalidate. */
  get bytes(): Buffer {
    return this.#only ?? this.#gathered?.subarray(0, this.length) ?? EMPTY;
  }
}

const EMPTY = Buffer.alloc(0);

/** The room that is reserved for a body. */
export interface Room {
  /** The reservation now, in bytes. */
  readonly promised: number;
  /** @returns false when this number of bytes cannot be reserved. */
  reach(bytes: number): boolean;
}

/**
 * Reads a body that arrives in pieces, in no more memory than is reserved, and calls one of the functions
 * once.
 * @param limit the maximum size of the body, in bytes.
 */
export function receive(
  request: StreamedRequest,
  room: Room,
  limit: number,
  on: {
    readonly whole: (body: Buffer) => void;
    readonly refused: (code: ErrorCode) => void;
    /** The client closed the connection within its body. */
    readonly gone: () => void;
  },
): void {
  const body = new Body();
  let open = true;
  const refuse = (code: ErrorCode): void => {
    open = false;
    on.refused(code);
  };
  request.on('data', (chunk: Buffer) => {
    if (!open) return;
    const length = body.length + chunk.length;
    if (length > limit) return refuse('body_too_large');
    if (!room.reach(length)) return refuse('overloaded');
    body.add(chunk, room.promised);
  });
  request.on('end', () => {
    if (!open) return;
    open = false;
    on.whole(body.bytes);
  });
  request.on('close', () => {
    if (!open) return;
    open = false;
    on.gone();
  });
}

/* Undoes Content-Encoding (RFC 9110 section 8.4), never making more than the limit allows. */

/**
 * About the size of an event: for most events, nearly all of a buffer of 16 KiB, the default, would be
 * garbage.
 */
function outputOf({ length }: Uint8Array, limit: number): { maxOutputLength: number; chunkSize: number } {
  return { maxOutputLength: limit, chunkSize: Math.min(64 << 10, Math.max(4 << 10, 4 * length)) };
}

type Decoder = (body: Uint8Array, limit: number) => Buffer;

/**
 * Synchronous, so that one body at a time is decoded and the decoders' windows cannot add up. A window may be
 * 8 MiB for zstd (RFC 8878 asks every decoder for that much) and 16 MiB for brotli, while a whole event is 1
 * MiB.
 *
 * The decoders ignore bytes after the end of a br or zstd body, including a second zstd frame, so half an
 * event could be stored as a whole one: such bodies are refused. Further gzip members are read (RFC 1952
 * section 2.2). zlib stops silently at a zero byte after a member, so the consumed length is compared with
 * the body's.
 */
const DECODERS: Readonly<Record<string, Decoder>> = {
  gzip(body, limit) {
    // The typings do not know how `info` changes the result.
    const { buffer, engine } = zlib.gunzipSync(body, {
      ...outputOf(body, limit),
      info: true,
    }) as unknown as {
      buffer: Buffer;
      engine: zlib.Gunzip;
    };
    if (engine.bytesWritten !== body.length) throw new Error('bytes stand after the end of the body');
    return buffer;
  },
  br: (body, limit) =>
    zlib.brotliDecompressSync(body, { ...outputOf(body, limit), rejectGarbageAfterEnd: true }),
  zstd: (body, limit) =>
    zlib.zstdDecompressSync(body, {
      ...outputOf(body, limit),
      rejectGarbageAfterEnd: true,
      params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 },
    }),
};

export type Encoding = 'identity' | 'gzip' | 'br' | 'zstd';

/** The one coding that the header names; undefined for an unknown one or several. */
export function contentEncoding(header: string | undefined): Encoding | undefined {
  if (header === undefined) return 'identity';
  const name = header.trim().toLowerCase();
  if (name === 'identity' || name === '') return 'identity';
  if (name === 'x-gzip') return 'gzip';
  return Object.hasOwn(DECODERS, name) ? (name as Encoding) : undefined;
}

/**
 * @param limit the maximum size of the result, in bytes.
 * @returns the plain body, or the code of the error to refuse it with.
 */
export function decompress(
  encoding: Exclude<Encoding, 'identity'>,
  body: Uint8Array,
  limit: number,
): Buffer | 'body_too_large' | 'invalid_compression' {
  try {
    return (DECODERS[encoding] as Decoder)(body, limit);
  } catch (error) {
    return systemCode(error) === 'ERR_BUFFER_TOO_LARGE' ? 'body_too_large' : 'invalid_compression';
  }
}

/*
 * The id of a request, which links its answer to the log. Random and never the client's: a counter would
 * disclose to each sender the volume of all others.
 */

export const REQUEST_ID = 'X-Request-Id';

const ID_BYTES = 10;
/** Filled for 1,024 ids in one call: an id then costs a tenth of a microsecond. */
const random = Buffer.allocUnsafeSlow(ID_BYTES * 1024);
let used = random.length;

/** 80 random bits as 20 hexadecimal digits. */
export function newRequestId(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  return random.toString('hex', used, (used += ID_BYTES));
}
