/**
 * One request from its headers to its answer.
 *
 * The order of the checks is fixed (docs/SPEC.md, R-313): route, method, form of the headers, key and its
 * client certificate, permission, rate, media type, expectation, coding, size, then room (shutdown, storage,
 * overload), and after the body the checks of `ledger/examine.ts`. A client without a key learns nothing of
 * the schema and cannot make the collector read a large body.
 */
import type { Socket } from 'node:net';
import type { MessagePort } from 'node:worker_threads';
import {
  EVENT_KINDS,
  EVENT_PATHS,
  type ErrorCode,
  ERRORS,
  type EventKind,
  type Profile,
} from '@clinical-events/protocol';
import { showsCertificate } from '../access/client-certificate.js';
import { type KeyRefusal, type KeyRing, keyIdOf } from '../access/key-ring.js';
import type { Principal } from '../access/principal.js';
import type { Fault } from '../ledger/examine.js';
import type { LedgerState, StorageReason } from '../ledger/ledger.js';
import { RingWriter, type Answer, type RingMemory } from '../ledger/ring.js';
import { accept, acceptAll, refuse } from './answers.js';
import { Backlog, FairShare, type Share } from './admission.js';
import {
  type AnswerBody,
  contentEncoding,
  decompress,
  type Encoding,
  type Endpoint,
  type Exchange,
  type Expectation,
  isJsonMediaType,
  type Reply,
  type Request,
  type RequestKind,
  readHeaders,
  receive,
  type RequestHeaders,
  newRequestId,
  type StreamedReply,
  type StreamedRequest,
  type Waiting,
  type WholeRequest,
} from './request.js';
import { IngestCounters, type QueueState } from './ingest-counters.js';
import { isUnproven, keepPlace, type LostPlace, RestingConnections } from './connections.js';
import { type Log, RefusalLog, type SummedLine } from './refusal-log.js';
import { TrustedProxies } from './trusted-proxies.js';

export interface IngestOptions {
  readonly keys: KeyRing;
  /** The queue to the ledger, and the port that returns its answers. */
  readonly ring: RingMemory;
  readonly answers: MessagePort;
  /** The profile for keys without a profile. It is read for each event, since a reload may change it. */
  readonly profile: Profile;
  readonly maxBodyBytes: number;
  readonly log: Log;
  /** Whether to log each request. A reload may change it too. */
  readonly logRequests: boolean;
  /** The proxies whose forwarding headers are trusted. */
  readonly trustedProxies: TrustedProxies;
  /** Whether the observer gets bodies. */
  readonly keepsBodies: boolean;
}

/** Whether the ledger stores events. */
export interface StorageState {
  readonly state: LedgerState;
  /** The reason when it does not store them. */
  readonly reason?: StorageReason | undefined;
}

/** The absolute form, which a server must accept (RFC 9112 section 3.2.2). Its authority replaces Host. */
const ORIGIN = /^https?:\/\/[^/?#]*/i;

/** The endpoint at the path of a request. The query is ignored: a gateway may have added it. */
function atPath<Found>(target: string, paths: ReadonlyMap<string, Found>): Found | undefined {
  const found = paths.get(target);
  if (found !== undefined) return found;
  const [path = ''] = target.replace(ORIGIN, '').split('?', 1);
  return paths.get(path);
}

/** An endpoint for single events of one kind. */
interface EventEndpoint extends Endpoint {
  readonly kind: EventKind;
}

/** What the observer receives: a request, or one event of a request. */
export interface Observed {
  /** The id of the request. */
  readonly id: string;
  readonly kind: RequestKind | undefined;
  readonly url: string | undefined;
  readonly body: Buffer | undefined;
}

/**
 * Number of answers that share one reading of the clock: they are written within a fraction of a millisecond.
 */
const ANSWERS_A_READING = 16;
const FIRST_RESERVATION = 16 << 10;
/** The pause after a failed commit before the next event tries the store again, in milliseconds. */
const STORE_REST_MS = 500;

const LOST_PLACE: SummedLine = {
  message: 'connection closed: all were taken',
  others: 'more connections closed, not listed',
  counted: 'connections',
  most: 1,
};

const REFUSAL_OF_ANSWER: Record<Exclude<Answer, 'accepted' | 'fault'>, ErrorCode> = {
  conflict: 'event_id_conflict',
  erased: 'event_erased',
  notCommitted: 'storage_unavailable',
  unknown: 'storage_unavailable',
  unreadable: 'internal',
};

export class Ingest {
  readonly counters = new IngestCounters();
  /**
   * Called for each answer to an event and each refusal of a request, with its fault, which is not logged.
   */
  observer: ((observed: Observed, status: number, fault: Fault | undefined) => void) | undefined;
  /** Shared by all listeners. */
  readonly refusals: RefusalLog;
  readonly #options: IngestOptions;
  readonly #ring: RingWriter<Waiting>;
  readonly #endpoints: ReadonlyMap<string, EventEndpoint>;
  readonly #ofKind: Readonly<Record<EventKind, EventEndpoint>>;
  readonly #shares: FairShare;
  readonly #backlog = new Backlog();
  readonly #resting = new RestingConnections();
  /** Pauses connections that have shown no valid key. Senders do not wait in this queue. */
  readonly #unproven = new RestingConnections(true);
  /** The first reservation for a body of unannounced size. */
  readonly #firstReservation: number;
  /** Connections with a request whose key is being looked up. */
  readonly #lookingUp = new WeakSet<Socket>();
  #ledgerState: LedgerState = 'open';
  #storageReason: StorageReason | undefined;
  #failedAt = 0;
  /** When the current answer arrived; several answers of a message may share a reading of the clock. */
  #answeredAt = 0;
  #stopping = false;

  constructor(options: IngestOptions) {
    this.#options = options;
    this.refusals = new RefusalLog(options.log);
    this.#ring = new RingWriter(
      options.ring,
      options.answers,
      options.maxBodyBytes,
      (waiting, answer, fault, place, tookMs) => {
        if (place % ANSWERS_A_READING === 0) this.#answeredAt = performance.now();
        const { share } = waiting;
        if (share !== undefined) {
          this.#shares.charge(share, tookMs, this.#answeredAt);
          this.#backlog.left(share);
          this.#shares.answered(share, waiting.sharedBytes, this.#answeredAt);
        }
        if (answer === 'notCommitted') this.#failedAt = performance.now();
        if (waiting.onAnswer === undefined) this.#settle(waiting as Exchange, answer, fault);
        else waiting.onAnswer(answer, fault);
      },
    );
    const { maxBodyBytes } = options;
    const endpoints = EVENT_KINDS.map((kind) => {
      const take: Endpoint['receive'] = (...head) => this.#receiveEvent(...head);
      return [kind, { kind, maxBodyBytes, takes: isJsonMediaType, receive: take }] as const;
    });
    this.#ofKind = Object.fromEntries(endpoints) as Record<EventKind, EventEndpoint>;
    this.#endpoints = new Map(endpoints.map(([kind, endpoint]) => [EVENT_PATHS[kind], endpoint]));
    this.#shares = new FairShare(this.#ring);
    this.#firstReservation = Math.min(FIRST_RESERVATION, options.maxBodyBytes);
  }

  /** The ledger thread's own state, which decides whether reading a body is worthwhile. */
  ledgerEntered(state: LedgerState, reason?: StorageReason): void {
    this.#ledgerState = state;
    this.#storageReason = reason;
    if (state !== 'open') this.#failedAt = performance.now();
  }

  /** Refuses every new request with `shutting_down` from now on. */
  stop(): void {
    this.#stopping = true;
    this.#resting.stop();
    this.#unproven.stop();
  }

  /** Requests that are being received or wait for the ledger. */
  get pending(): number {
    return this.#ring.pending;
  }

  /** The contents and capacity of the queue, in events and bytes. */
  get queue(): QueueState {
    const { pending, usedBytes, capacity } = this.#ring;
    return { events: pending, bytes: usedBytes, maxEvents: capacity.events, maxBytes: capacity.bytes };
  }

  /** The last reported state of the ledger. */
  get storage(): StorageState {
    return { state: this.#ledgerState, reason: this.#storageReason };
  }

  /**
   * The principal of this key if it is known, valid and not bound to another certificate; `counts`: whether
   * this is a use of the key.
   */
  principalOf(apiKey: string | undefined, socket: Socket, counts: boolean): Principal | undefined {
    const now = Date.now();
    const principal = this.#options.keys.authenticate(apiKey, now, counts);
    if (typeof principal === 'string') return undefined;
    const { clientCertificate } = principal;
    const isProven = clientCertificate === undefined || showsCertificate(socket, clientCertificate, now);
    return isProven ? principal : undefined;
  }

  /** Takes a request whose key is checked and whose head has no Expect. */
  take(
    request: WholeRequest,
    reply: Reply,
    kind: EventKind,
    headers: RequestHeaders,
    principal: Principal,
  ): void {
    this.#admit(newExchange(request, reply, 'none', this.#ofKind[kind]), headers, principal);
  }

  /** Takes a request to one of the endpoints: the five for events, or those given in their place. */
  handle(
    request: StreamedRequest,
    reply: StreamedReply,
    expectation: Expectation,
    endpoints: ReadonlyMap<string, Endpoint> = this.#endpoints,
  ): void {
    const endpoint = atPath(request.url ?? '', endpoints);
    const exchange = newExchange(request, reply, expectation, endpoint);
    if (endpoint === undefined) return this.refuse(exchange, 'not_found');
    if (request.method !== 'POST') {
      return this.refuse(exchange, 'method_not_allowed', ['Allow', 'POST']);
    }
    const headers = readHeaders(request.rawHeaders);
    const { httpVersion } = request;
    const noHost = headers.host === 0 && httpVersion !== '1.0';
    const otherVersion = httpVersion !== '1.1' && httpVersion !== '1.0';
    if (headers.repeated || headers.host > 1 || noHost || otherVersion || misframed(headers, httpVersion)) {
      return this.refuse(exchange, 'malformed_request');
    }
    const principal = this.#options.keys.authenticate(headers.apiKey, Date.now());
    if (principal === 'key_invalid' && this.#mayBeNew(exchange, headers)) {
      return this.#lookUp(exchange, headers);
    }
    this.#admit(exchange, headers, principal);
  }

  /**
   * Whether to look the key up in the key store. A known key with a wrong secret is looked up too, so that
   * timing does not reveal that the key exists. One request per connection waits; a second one is
   * answered without a look-up.
   */
  #mayBeNew({ request: { socket } }: Exchange, { apiKey = '' }: RequestHeaders): boolean {
    return keyIdOf(apiKey) !== undefined && !this.#lookingUp.has(socket);
  }

  /** Accepts a key that was created after the last read of the store. The body is not read meanwhile. */
  #lookUp(exchange: Exchange, headers: RequestHeaders): void {
    const { keys } = this.#options;
    const { request, reply } = exchange;
    const { socket } = request;
    this.#lookingUp.add(socket);
    if (isUnproven(socket)) this.#unproven.hold(socket);
    keys.lookAgain().then(
      () => {
        this.#lookingUp.delete(socket);
        // If the client has disconnected, no later event would release what the next steps reserve.
        if (request.destroyed) return;
        const principal = keys.authenticate(headers.apiKey, Date.now());
        if (typeof principal !== 'string' && this.#unproven.letGo(socket)) reply.shouldKeepAlive = false;
        this.#admit(exchange, headers, principal);
      },
      () => socket.destroy(),
    );
  }

  /** The checks that follow the key. */
  #admit(exchange: Exchange, headers: RequestHeaders, principal: Principal | KeyRefusal): void {
    const { request, startedAt, expectation, endpoint } = exchange;
    if (endpoint === undefined) throw new Error('a request without an endpoint came to its key');
    if (typeof principal === 'string') return this.refuse(exchange, principal, [], headers.apiKey);
    exchange.principal = principal;
    exchange.door = headers.door ?? 'endpoint';
    const { clientCertificate } = principal;
    if (clientCertificate !== undefined && !showsCertificate(request.socket, clientCertificate, Date.now())) {
      return this.refuse(exchange, 'certificate_required');
    }
    keepPlace(request.socket);
    const { kind: permission } = endpoint;
    if (!principal.may(permission)) {
      return this.refuse(exchange, { code: 'permission_denied', details: { permission } });
    }
    const wait = principal.bucket?.take(startedAt) ?? 0;
    if (wait > 0) return this.refuse(exchange, 'rate_limited', [], undefined, wait);
    if (!endpoint.takes(headers.contentType)) {
      const { typeMessage: message } = endpoint;
      return this.refuse(exchange, { code: 'unsupported_media_type', ...(message && { message }) });
    }
    if (expectation === 'unmet') return this.refuse(exchange, 'expectation_failed');
    const encoding = contentEncoding(headers.contentEncoding);
    if (encoding === undefined) return this.refuse(exchange, 'unsupported_content_encoding');
    const { contentLength: length = 0 } = headers;
    if (length > endpoint.maxBodyBytes) return this.refuse(exchange, 'body_too_large');
    if (this.#stopping) return this.refuse(exchange, 'shutting_down');
    if (
      this.#ledgerState !== 'open' &&
      (this.#ledgerState === 'failed' || startedAt < this.#failedAt + STORE_REST_MS)
    ) {
      return this.refuse(exchange, 'storage_unavailable');
    }
    endpoint.receive(exchange, headers, principal, encoding);
  }

  #receiveEvent(exchange: Exchange, headers: RequestHeaders, principal: Principal, encoding: Encoding): void {
    const { request, reply, startedAt, expectation } = exchange;
    const { transferEncoding, contentLength: length } = headers;
    const share = this.#shares.of(principal);
    const unknownLength = transferEncoding !== undefined ? this.#firstReservation : 0;
    const reserved = length ?? unknownLength;
    const late = this.#resting.heldUp(request.socket, principal);
    if (!this.#backlog.admits(share, startedAt, late) || !this.#shares.reserve(share, reserved, startedAt)) {
      return this.refuse(exchange, 'overloaded');
    }
    if (expectation === 'continue') reply.writeContinue?.();
    this.#receive(exchange, share, reserved, encoding);
  }

  /** Reads the body within the ring's reservation, and extends the reservation if there is room. */
  #receive(exchange: Exchange, share: Share, promised: number, encoding: Encoding): void {
    const { request } = exchange;
    if (request.body !== undefined) return this.#received(exchange, share, promised, encoding, request.body);
    const room = {
      promised,
      reach: (bytes: number): boolean => {
        const reached = this.#reach(share, room.promised, bytes);
        room.promised = reached ?? room.promised;
        return reached !== undefined;
      },
    };
    receive(request, room, this.#options.maxBodyBytes, {
      whole: (body) => this.#received(exchange, share, room.promised, encoding, body),
      refused: (code) => {
        this.#release(share, room.promised);
        this.refuse(exchange, code);
      },
      gone: () => this.#release(share, room.promised),
    });
  }

  /** All of the body has arrived: puts it into the ring. */
  #received(exchange: Exchange, share: Share, promised: number, encoding: Encoding, body: Buffer): void {
    exchange.bodyBytes = body.length;
    const plain = encoding === 'identity' ? body : this.#decompress(encoding, body, share);
    const reserved = typeof plain === 'string' ? undefined : this.#reach(share, promised, plain.length);
    if (typeof plain === 'string' || reserved === undefined) {
      this.#release(share, promised);
      return this.refuse(exchange, typeof plain === 'string' ? plain : 'overloaded');
    }
    this.#shares.shrink(share, reserved - plain.length);
    exchange.share = share;
    exchange.sharedBytes = plain.length;
    if (this.#options.keepsBodies) exchange.body = plain;
    this.#enqueue(exchange, share, reserved, plain);
    this.#backlog.entered(share);
  }

  /**
   * Extends the reservation to at least these bytes, by doubling it, so that a body in small pieces is not
   * moved for each piece.
   * @returns the reservation now; undefined when there is no room.
   */
  #reach(share: Share, reserved: number, bytes: number): number | undefined {
    if (bytes <= reserved) return reserved;
    const more = Math.max(bytes - reserved, Math.min(reserved, this.#options.maxBodyBytes - reserved));
    return this.#shares.extend(share, more, performance.now()) ? reserved + more : undefined;
  }

  #release(share: Share, reserved: number): void {
    this.#shares.settle(share, reserved);
    this.#ring.release(reserved);
  }

  /** Decompression runs on this thread, so its time is charged to the key even if the body is refused. */
  #decompress(
    encoding: Exclude<Encoding, 'identity'>,
    body: Buffer,
    share: Share,
  ): ReturnType<typeof decompress> {
    const began = performance.now();
    const plain = decompress(encoding, body, this.#options.maxBodyBytes);
    const ended = performance.now();
    this.#shares.charge(share, ended - began, ended);
    return plain;
  }

  #enqueue(exchange: Exchange, share: Share, reserved: number, body: Buffer): void {
    const { endpoint, principal, door } = exchange;
    const kind = endpoint?.kind;
    if (kind === undefined || kind === 'otlp' || principal === undefined)
      throw new Error('an event that passed no check');
    const profile = principal.profile ?? this.#options.profile;
    const receivedAt = Date.now();
    let pieces = [body];
    this.#shares.enter(share, body.length, performance.now(), () =>
      this.#ring.push(exchange, reserved, kind, profile, door, principal, receivedAt, pieces),
    );
    // A waiting body is copied, because the next request on its connection may overwrite it.
    if (share.held.length > 0) pieces = [Buffer.from(body)];
  }

  /**
   * Puts one of several events of a request into the queue if its key may add an event now. The event can
   * wait outside the queue, so it must not delay events that cannot.
   * @param body must not change before the answer.
   * @returns false if the caller must offer it again later.
   */
  offer(
    exchange: Exchange,
    kind: EventKind,
    body: Buffer,
    onAnswer: (answer: Answer, fault: Fault | undefined) => void,
  ): boolean {
    const { principal } = exchange;
    if (principal === undefined) throw new Error('an event that passed no check');
    const now = performance.now();
    const share = this.#shares.of(principal);
    const { length } = body;
    if (share.waiting >= this.#backlog.placesFor(share, now)) return false;
    if (!this.#shares.reserve(share, length, now)) return false;
    const profile = principal.profile ?? this.#options.profile;
    const receivedAt = Date.now();
    const settled = (answer: Answer, fault: Fault | undefined): void => {
      if (answer === 'accepted') this.counters.ofRequests[kind]++;
      if (this.observer !== undefined) {
        const refused = answer === 'accepted' ? undefined : faultOfAnswer(answer, fault);
        const status = refused === undefined ? 201 : ERRORS[refused.code].status;
        this.observer({ id: exchange.id, kind, url: exchange.request.url, body }, status, refused);
      }
      onAnswer(answer, fault);
    };
    const waiting: Waiting = { share, sharedBytes: length, onAnswer: settled };
    this.#shares.enter(share, length, now, () =>
      this.#ring.push(waiting, length, kind, profile, 'otlp', principal, receivedAt, [body]),
    );
    this.#backlog.entered(share);
    return true;
  }

  /** Answers that every event of the request is durable or can never be stored. */
  acceptAll(exchange: Exchange, body: AnswerBody): void {
    acceptAll(exchange, body);
    if (exchange.endpoint !== undefined)
      this.counters.accepted(exchange.endpoint.kind, performance.now() - exchange.startedAt);
    if (this.#options.logRequests) this.#logRequest(exchange, 200);
  }

  /** The ledger's answer to an event. The only place that answers 201, and only for `accepted`. */
  #settle(exchange: Exchange, answer: Answer, fault: Fault | undefined): void {
    const { endpoint } = exchange;
    if (endpoint === undefined) throw new Error('an answer to a request without an endpoint');
    if (answer === 'accepted') {
      accept(exchange);
      this.counters.accepted(endpoint.kind, this.#answeredAt - exchange.startedAt);
      if (this.#options.logRequests) this.#logRequest(exchange, 201);
      this.#observe(exchange, 201, undefined);
      return;
    }
    this.refuse(exchange, faultOfAnswer(answer, fault));
  }

  /**
   * Logs and counts a refusal without a request: unreadable bytes, or a request that did not arrive in time.
   */
  noteRefusal(code: ErrorCode, requestId: string, remote: string | undefined): void {
    this.counters.refused(undefined, code);
    this.refusals.note({ code, requestId }, () => remote);
  }

  /** Logs and counts a connection that was closed because all places were taken. */
  noteLostPlace(reason: LostPlace, remote: string | undefined): void {
    this.counters.lostPlace(reason);
    this.refusals.sum('warn', LOST_PLACE, { reason }, () => ({ reason, remote }));
  }

  /** A client without a key gets one answer, and then its connection is paused. */
  #rest({ request, reply }: Exchange): void {
    const line = isUnproven(request.socket) ? this.#unproven : this.#resting;
    line.add(request, reply, undefined);
  }

  /** Answers with an error, logs and counts it, and pauses the connection of a sender that sends too much. */
  refuse(
    exchange: Exchange,
    refusal: ErrorCode | Fault,
    headers: readonly string[] = [],
    presentedKey?: string,
    wait = 0,
  ): void {
    const fault = typeof refusal === 'string' ? { code: refusal } : refusal;
    const { code } = fault;
    const { request, reply, endpoint, principal } = exchange;
    this.counters.refused(endpoint?.kind, code);
    if (this.observer === undefined) this.#noteRefused(exchange, code, presentedKey);
    // Once the body was read, the turn that parsed the head is over and needs no limit.
    if (!request.readableEnded) this.#resting.limit(request, reply);
    const tooMany = code === 'overloaded' || code === 'rate_limited';
    const retryAfter = tooMany ? Math.max(wait, this.#resting.retryAfter) : 1;
    const status = refuse(exchange, fault, headers, retryAfter);
    if (tooMany) this.#resting.add(request, reply, principal);
    else if (principal === undefined || isUnproven(request.socket)) this.#rest(exchange);
    if (this.#options.logRequests) this.#logRequest(exchange, status);
    this.#observe(exchange, status, fault);
  }

  #observe({ id, endpoint, request, body }: Exchange, status: number, fault: Fault | undefined): void {
    this.observer?.({ id, kind: endpoint?.kind, url: request.url, body }, status, fault);
  }

  #noteRefused({ id, endpoint, principal, request }: Exchange, code: ErrorCode, presentedKey?: string): void {
    this.refusals.note(
      {
        code,
        requestId: id,
        kind: endpoint?.kind,
        organisation: principal?.organisation,
        // The holder of an expired or revoked key needs to know which key to renew.
        keyId: principal?.keyId ?? (isProven(code) && presentedKey ? keyIdOf(presentedKey) : undefined),
      },
      () => this.#options.trustedProxies.clientOf(request),
    );
  }

  #logRequest({ id, endpoint, principal, bodyBytes, startedAt }: Exchange, status: number): void {
    this.#options.log.debug(
      {
        requestId: id,
        kind: endpoint?.kind,
        status,
        organisation: principal?.organisation,
        keyId: principal?.keyId,
        bodyBytes,
        ms: Math.round((performance.now() - startedAt) * 1000) / 1000,
      },
      'request',
    );
  }
}

/** @param answer any except `accepted`. */
export function faultOfAnswer(answer: Exclude<Answer, 'accepted'>, fault: Fault | undefined): Fault {
  if (answer !== 'fault') return { code: REFUSAL_OF_ANSWER[answer] };
  if (fault === undefined) throw new Error('a refused event without its fault');
  return fault;
}

function newExchange(
  request: Request,
  reply: Reply,
  expectation: Expectation,
  endpoint: Endpoint | undefined,
): Exchange {
  return {
    id: newRequestId(),
    request,
    reply,
    startedAt: performance.now(),
    expectation,
    endpoint,
    door: 'endpoint',
    principal: undefined,
    share: undefined,
    sharedBytes: 0,
    bodyBytes: 0,
    body: undefined,
  };
}

/**
 * Whether an old proxy may have read a different length of the body: the chunked coding in HTTP/1.0 is faulty
 * framing (RFC 9112 section 6.1).
 */
function misframed({ transferEncoding }: RequestHeaders, httpVersion: string): boolean {
  if (transferEncoding === undefined) return false;
  return transferEncoding.toLowerCase() !== 'chunked' || httpVersion === '1.0';
}

function isProven(code: ErrorCode): boolean {
  return code === 'key_expired' || code === 'key_revoked';
}
