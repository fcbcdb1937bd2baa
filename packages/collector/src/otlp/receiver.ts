/**
 * Receives OTLP over HTTP (OpenTelemetry protocol 1.x, "OTLP/HTTP"), and answers each request once every
 * event that it produces is durable or can never be stored. Heads are checked as on the five endpoints
 * (ingest/); a separate thread decompresses, decodes and maps bodies (translation.ts).
 */
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';
import type { Principal } from '../access/principal.js';
import { faultOfAnswer, type Ingest } from '../ingest/ingest.js';
import type { SummedLine } from '../ingest/refusal-log.js';
import {
  type AnswerBody,
  type Encoding as Coding,
  type Endpoint,
  type Exchange,
  readHeaders,
  receive,
  type RequestHeaders,
} from '../ingest/request.js';
import type { Fault } from '../ledger/examine.js';
import type { Answer } from '../ledger/ring.js';
import { statusBody, successBody } from './decoding/answers.js';
import type { Encoding, Signal } from './decoded.js';
import { OtlpCounters } from './otlp-counters.js';
import type { Summary, TranslationFault } from './thread-messages.js';
import type { MadeEvents, Translator } from './translation.js';

/** Maximum size of a request in bytes, before and after decompression. */
export const MOST_REQUEST_BYTES = 64 << 20;
/**
 * Maximum bytes, as received, of all requests that are being received or translated, and of the requests of
 * one key. Keys that hold little may use the last part, so that two slow senders cannot exclude others.
 */
const MOST_HELD_BYTES = 2 * MOST_REQUEST_BYTES + (32 << 20);
const MOST_HELD_BY_KEY = MOST_REQUEST_BYTES;
const LAST_PART = 32 << 20;
const LITTLE = 4 << 20;
/** The first reservation for an announced body; it doubles as bytes arrive. */
const FIRST_RESERVATION = 64 << 10;
/** The pause before an event that found no place is offered again, in milliseconds. */
const OFFER_EVERY_MS = 10;
/** Maximum messages of the thread per request whose events wait for places. */
const MOST_MADE = 2;

const SIGNAL_OF_PATH: Readonly<Record<string, Signal>> = {
  '/v1/traces': 'traces',
  '/v1/logs': 'logs',
  // The path of Langfuse's SDKs.
  '/api/public/otel/v1/traces': 'traces',
};

const MEDIA_TYPES: Readonly<Record<Encoding, string>> = {
  protobuf: 'application/x-protobuf',
  json: 'application/json',
};

const OTHER_TYPE =
  'The Content-Type must be application/x-protobuf or application/json: OTLP over HTTP, not gRPC.';

/** Codes of google.rpc by HTTP status; OTLP asks for such a status in every refusal. */
const RPC_CODES: Readonly<Record<number, number>> = {
  ...{ 400: 3, 413: 3, 415: 3, 417: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 429: 8, 503: 14 },
};
const RPC_INTERNAL = 13;

const OTHERS = { others: 'more OTLP requests, not listed', counted: 'requests', most: 100 };
const INCOMPLETE: Readonly<Record<'rejected' | 'shortened', SummedLine>> = {
  rejected: { message: 'spans or log records can never be stored', ...OTHERS },
  shortened: { message: 'events were stored without their longest contents', ...OTHERS },
};

export interface ReceiverOptions {
  readonly ingest: Ingest;
  readonly translator: Translator;
}

export class OtlpReceiver {
  readonly counters = new OtlpCounters();
  readonly endpoints: ReadonlyMap<string, Endpoint>;
  readonly #options: ReceiverOptions;
  readonly #exports = new Set<Export>();
  readonly #held = new Map<Principal, number>();
  #heldBytes = 0;

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.endpoints = new Map(
      Object.entries(SIGNAL_OF_PATH).map(([path, signal]) => [path, this.#endpoint(signal)]),
    );
  }

  /** Ends work whose clients are gone. Call once the listener is closed. */
  stop(): void {
    for (const each of this.#exports) each.abandon();
    this.#options.ingest.refusals.flush();
  }

  #endpoint(signal: Signal): Endpoint {
    return {
      kind: 'otlp',
      maxBodyBytes: MOST_REQUEST_BYTES,
      takes: (contentType) => encodingOf(contentType) !== undefined,
      typeMessage: OTHER_TYPE,
      receive: (...head) => this.#receive(signal, ...head),
      refusal: ({ request }, code, message) => refusalBody(readHeaders(request.rawHeaders), code, message),
    };
  }

  #receive(
    signal: Signal,
    exchange: Exchange,
    headers: RequestHeaders,
    principal: Principal,
    coding: Coding,
  ): void {
    const { ingest } = this.#options;
    const { request, reply, expectation } = exchange;
    if (request.body !== undefined) throw new Error('OTLP requests do not use the shortcut');
    const { contentLength, transferEncoding } = headers;
    const encoding = encodingOf(headers.contentType);
    if (encoding === undefined) throw new Error('the encoding of a body is missing');
    const most = contentLength ?? (transferEncoding === undefined ? 0 : MOST_REQUEST_BYTES);
    const room = {
      promised: 0,
      reach: (bytes: number): boolean => {
        const wanted = Math.max(bytes, Math.min(2 * room.promised, most));
        if (bytes > room.promised && !this.#hold(principal, wanted - room.promised)) return false;
        room.promised = Math.max(room.promised, wanted);
        return true;
      },
    };
    const letGo = (): void => this.#letGo(principal, room.promised);
    if (!room.reach(Math.min(most, FIRST_RESERVATION))) return ingest.refuse(exchange, 'overloaded');
    if (expectation === 'continue') reply.writeContinue?.();
    receive(request, room, MOST_REQUEST_BYTES, {
      whole: (body) => {
        exchange.bodyBytes = body.length;
        this.#export({ signal, encoding, exchange, principal, coding, body, letGo });
      },
      refused: (code) => {
        letGo();
        ingest.refuse(exchange, code);
      },
      gone: letGo,
    });
  }

  #export(received: Received): void {
    const { exchange, principal, letGo } = received;
    const export_ = new Export(this.#options, received, this.counters, {
      ended: () => {
        letGo();
        this.#exports.delete(export_);
      },
      incomplete: (sort, said) => this.#tell(sort, exchange, principal, said),
    });
    this.#exports.add(export_);
    export_.begin();
  }

  /** Logs one line with numbers and codes, and nothing else from the request. */
  #tell(sort: 'rejected' | 'shortened', { id }: Exchange, principal: Principal, said: object): void {
    const { organisation, keyId } = principal;
    const fields = () => ({ requestId: id, organisation, keyId, ...said });
    this.#options.ingest.refusals.sum('warn', INCOMPLETE[sort], { sort }, fields);
  }

  #hold(principal: Principal, bytes: number): boolean {
    const own = (this.#held.get(principal) ?? 0) + bytes;
    const most = own > LITTLE ? MOST_HELD_BYTES - LAST_PART : MOST_HELD_BYTES;
    if (this.#heldBytes + bytes > most || own > MOST_HELD_BY_KEY) return false;
    this.#heldBytes += bytes;
    this.#held.set(principal, own);
    return true;
  }

  #letGo(principal: Principal, bytes: number): void {
    const own = (this.#held.get(principal) ?? 0) - bytes;
    this.#heldBytes -= bytes;
    if (own > 0) this.#held.set(principal, own);
    else this.#held.delete(principal);
  }
}

interface Received {
  readonly signal: Signal;
  readonly encoding: Encoding;
  readonly exchange: Exchange;
  readonly principal: Principal;
  readonly coding: Coding;
  readonly body: Buffer;
  /** Called once the body and the results are released. */
  readonly letGo: () => void;
}

interface Watch {
  readonly ended: () => void;
  readonly incomplete: (sort: 'rejected' | 'shortened', said: object) => void;
}

/** A request whose body has arrived, until it is answered. */
class Export {
  /** Events from the thread that wait for a place in the queue. */
  readonly #made: MadeEvents[] = [];
  #next = 0;
  #inQueue = 0;
  #summary: Summary | undefined;
  /** The codes of items that can never be stored, by item number. */
  readonly #rejected = new Map<number, ErrorCode>();
  #cancel: (() => void) | undefined;
  #more: (() => void) | undefined;
  #isAsked = true;
  #isFirst = true;
  #ended = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly options: ReceiverOptions,
    private readonly received: Received,
    private readonly counters: OtlpCounters,
    private readonly watch: Watch,
  ) {}

  begin(): void {
    const { signal, encoding, coding, body, principal, exchange } = this.received;
    const { socket } = exchange.request;
    // The sender stays silent until its answer, which may take minutes; Node sets the timeout again then.
    socket.setTimeout(0);
    // Any number of requests may be pipelined, and are read in one go.
    socket.setMaxListeners(0).once('close', this.#gone);
    const { keyId, organisation } = principal;
    const task = { signal, encoding, coding, body, keyId, organisation };
    const translation = this.options.translator.translate(task, {
      made: (made) => {
        this.#isAsked = false;
        this.#made.push(made);
        // The request itself used one token.
        principal.bucket?.charge(made.kinds.length - (this.#isFirst ? 1 : 0));
        this.#isFirst = false;
        this.#ask();
        this.#pump();
      },
      done: (summary) => {
        this.#summary = summary;
        this.#pump();
      },
      failed: (fault) => this.#refuse(faultOf(fault)),
    });
    this.#more = translation.more;
    this.#cancel = translation.cancel;
  }

  /** Ends the request of a client that is gone: queued events are stored, and no more are made. */
  abandon(): void {
    this.#end();
  }

  readonly #gone = (): void => this.#end();

  /** Offers the made events, asks for more, and answers when all are done. */
  #pump(): void {
    if (this.#ended) return;
    for (let made = this.#made[0]; made !== undefined; made = this.#made[0]) {
      if (!this.#offer(made)) {
        // With none of its events in the queue, no answer would trigger another attempt.
        if (this.#inQueue === 0)
          this.#timer ??= setTimeout(() => {
            this.#timer = undefined;
            this.#pump();
          }, OFFER_EVERY_MS);
        return;
      }
      this.#next = 0;
      this.#made.shift();
      this.#ask();
    }
    if (this.#summary !== undefined && this.#inQueue === 0) this.#answer(this.#summary);
  }

  /** Asks the thread for further events while these wait for places. */
  #ask(): void {
    if (this.#isAsked || this.#summary !== undefined || this.#made.length >= MOST_MADE) return;
    this.#isAsked = true;
    this.#more?.();
  }

  /** @returns false if one of its events must wait. */
  #offer({ kinds, bodies, items }: MadeEvents): boolean {
    const { exchange } = this.received;
    for (; this.#next < kinds.length; this.#next++) {
      const [kind, body, item] = [kinds[this.#next], bodies[this.#next], items[this.#next]];
      if (kind === undefined || body === undefined || item === undefined)
        throw new Error('a made event has no kind, body or item');
      const taken = this.options.ingest.offer(exchange, kind, body, (answer, fault) =>
        this.#answered(item, answer, fault),
      );
      if (!taken) return false;
      this.#inQueue++;
    }
    return true;
  }

  #answered(item: number, answer: Answer, fault: Fault | undefined): void {
    this.#inQueue--;
    if (answer !== 'accepted') {
      const { code } = faultOfAnswer(answer, fault);
      // If another attempt may succeed, the sender repeats the whole request; stored events are not stored
      // twice.
      if (ERRORS[code].retryAfter || code === 'internal') this.#refuse({ code: 'storage_unavailable' });
      else if (!this.#rejected.has(item)) this.#rejected.set(item, code);
    }
    this.#pump();
  }

  #answer(summary: Summary): void {
    const { signal, encoding, exchange } = this.received;
    const { ingest } = this.options;
    const rejected = this.#rejected.size;
    const { items, ignored, shortened } = summary;
    const codes: Partial<Record<ErrorCode, number>> = {};
    for (const code of this.#rejected.values()) codes[code] = (codes[code] ?? 0) + 1;
    this.counters.answered(signal, { items, ignored, rejected: codes, shortened });
    this.#end();
    ingest.acceptAll(exchange, {
      mediaType: MEDIA_TYPES[encoding],
      bytes: successBody(signal, encoding, rejected, sentenceOf(codes, shortened)),
    });
    if (rejected > 0) this.watch.incomplete('rejected', { signal, rejected, codes });
    if (shortened > 0) this.watch.incomplete('shortened', { signal, shortened });
  }

  #refuse(fault: Fault): void {
    if (this.#ended) return;
    this.#end();
    this.options.ingest.refuse(this.received.exchange, fault);
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    this.received.exchange.request.socket.off('close', this.#gone);
    this.#made.length = 0;
    this.#cancel?.();
    this.watch.ended();
  }
}

function faultOf({ code, message }: TranslationFault): Fault {
  return message === undefined ? { code } : { code, message };
}

/** The message about items that were not stored as sent; empty when all were. */
function sentenceOf(rejected: Partial<Record<ErrorCode, number>>, shortened: number): string {
  const said = Object.entries(rejected).map(
    ([code, count]) => `${count} can never be stored: ${code}. ${ERRORS[code as ErrorCode].message}`,
  );
  if (shortened > 0)
    said.push(`${shortened} events were stored without their longest contents, which are too large.`);
  return said.join(' ');
}

/** The encoding that a media type names (RFC 9110 section 8.3), with any parameters. */
function encodingOf(contentType: string | undefined): Encoding | undefined {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  if (type === MEDIA_TYPES.protobuf) return 'protobuf';
  return type === MEDIA_TYPES.json ? 'json' : undefined;
}

function refusalBody({ contentType }: RequestHeaders, code: ErrorCode, message: string): AnswerBody {
  const encoding = encodingOf(contentType) ?? 'json';
  const rpc = RPC_CODES[ERRORS[code].status] ?? RPC_INTERNAL;
  return { mediaType: MEDIA_TYPES[encoding], bytes: statusBody(encoding, rpc, `${code}: ${message}`) };
}
