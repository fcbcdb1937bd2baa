/**
 * Gives places to connections and decides which connection loses its place when all are taken. Node's own
 * limit refuses the newcomer, so anyone without a key could lock out all senders with idle connections.
 *
 * A connection that has shown a valid key keeps its place until it is closed. Any other may lose its place to
 * a newcomer: the oldest one of the network that has the most of them. So a flood displaces its own
 * connections, and a flood from the sender's network must refill all places before the sender has sent its
 * headers. A holder of a valid key can take all places; the key can be revoked.
 *
 * On a connection that keeps its place a request costs one property read. A newcomer costs a look at each
 * network, and only when all places are taken.
 */
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Principal } from '../access/principal.js';
import { endSocket } from './answers.js';
import type { Reply, Request, StreamedRequest } from './request.js';

/** Limits of connections; may change while the collector listens. */
export interface Limits {
  readonly maxConnections: number;
  /** The time from the first byte of a request to the last byte of its headers. */
  readonly headersTimeoutMs: number;
  /** The time from the first byte of a request to the last byte of its body. */
  readonly requestTimeoutMs: number;
  /** How long an idle connection is kept. */
  readonly keepAliveTimeoutMs: number;
}

/* Undocumented parts of Node's HTTP parser. Node is pinned, and tests check each of these assumptions. */

interface Parser {
  onIncoming: ((request: { upgrade: boolean }, keepAlive: boolean) => number) | null;
}
type ParsedSocket = Socket & { readonly parser?: Parser | null };

/**
 * A result of `onIncoming` that makes llhttp stop as for an upgrade, and Node drop the rest of the chunk.
 */
const END_PARSING = 2;

/**
 * Stops the parser from delivering requests. In one turn it parses everything that was read, up to hundreds
 * of requests, even when the socket is paused.
 */
export class HeldParser {
  /** Whether a request arrived meanwhile. It is lost, and the connection is unusable. */
  lostRequest = false;
  readonly #parser: Parser | undefined;
  readonly #handOn: Parser['onIncoming'];
  readonly #drop = (request: { upgrade: boolean }): number => {
    this.lostRequest = true;
    // CONNECT and Upgrade would be delivered regardless.
    request.upgrade = false;
    return END_PARSING;
  };

  constructor({ parser }: ParsedSocket) {
    this.#parser = parser ?? undefined;
    this.#handOn = this.#parser?.onIncoming ?? null;
    if (this.#parser !== undefined) this.#parser.onIncoming = this.#drop;
  }

  /** Does nothing if the connection was closed: its parser may already serve another one. */
  letGo(): void {
    if (this.#parser?.onIncoming === this.#drop) this.#parser.onIncoming = this.#handOn;
  }
}

/** The property of a connection that may lose its place: a function that makes it keep the place. */
const KEEP = Symbol('keep the place');
type Placed = Duplex & { [KEEP]?: (() => void) | undefined };

/** Records that a valid key was shown on this connection. */
export function keepPlace(connection: Placed): void {
  const keep = connection[KEEP];
  if (keep === undefined) return;
  connection[KEEP] = undefined;
  keep();
}

/** Whether no valid key has been shown on this connection. */
export function isUnproven(connection: Placed): boolean {
  return connection[KEEP] !== undefined;
}

/** A key shown on a TLS connection also counts for the connection that carries it. */
export function standsFor(secured: Placed, carrier: Placed): void {
  secured[KEEP] = carrier[KEEP];
}

/**
 * Why a connection was closed when all places were taken: `displaced` by a newcomer before it showed a key,
 * or `no_place` for a newcomer while every other connection had shown one.
 */
export type LostPlace = 'displaced' | 'no_place';

export class Places {
  readonly #taken = new Set<Socket>();
  /** Connections that may lose their places, by network, the oldest first. No set is empty. */
  readonly #unproven = new Map<string, Set<Socket>>();

  /**
   * @param limit of connections; lowering it later closes none.
   * @param onLost called with the address of each connection that is closed here.
   */
  constructor(
    public limit: number,
    private readonly onLost: (reason: LostPlace, remote: string | undefined) => void,
  ) {}

  /** The number of connections that have a place. */
  get size(): number {
    return this.#taken.size;
  }

  /**
   * Whether the connection has a place. A connection without a place, or one that loses its place later, is
   * closed.
   */
  admit(socket: Socket & Placed): boolean {
    if (this.size >= this.limit && !this.#makeRoom()) {
      this.onLost('no_place', socket.remoteAddress);
      socket.destroy();
      return false;
    }
    const network = networkOf(socket.remoteAddress ?? '');
    const those = this.#unproven.get(network);
    if (those === undefined) this.#unproven.set(network, new Set([socket]));
    else those.add(socket);
    this.#taken.add(socket);
    socket[KEEP] = () => this.#keep(network, socket);
    socket.once('close', () => this.#free(network, socket));
    return true;
  }

  #makeRoom(): boolean {
    let [most, size] = ['', 0];
    for (const [network, those] of this.#unproven)
      if (those.size > size) [most, size] = [network, those.size];
    const [oldest] = this.#unproven.get(most) ?? [];
    if (oldest === undefined) return false;
    // The place is freed here, since `close` comes only after other connections have arrived.
    this.#free(most, oldest);
    this.onLost('displaced', oldest.remoteAddress);
    oldest.destroy();
    return true;
  }

  #free(network: string, socket: Socket): void {
    this.#taken.delete(socket);
    this.#keep(network, socket);
  }

  #keep(network: string, socket: Socket): void {
    const those = this.#unproven.get(network);
    those?.delete(socket);
    if (those?.size === 0) this.#unproven.delete(network);
  }
}

/**
 * An IPv4 address, or the first 64 bits of an IPv6 address: a host chooses the other bits freely (RFC 4291).
 */
export function networkOf(address: string): string {
  // An IPv4-mapped IPv6 address has dots.
  if (!address.includes(':') || address.includes('.')) return address;
  const [left = [], right = []] = address.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0');
  return [...left, ...zeros, ...right].slice(0, 4).join(':');
}

/*
 * Pauses connections on which a request was refused. A refusal costs more than half of what an event costs,
 * so clients that ignore Retry-After could keep the HTTP thread busy with refusals. A paused connection is
 * not read; its bytes wait in the kernel at no cost. Retry-After announces the end of the pause, so a client
 * that obeys it does not notice the pause.
 */

const TICK_MS = 10;
/**
 * Number of connections that are resumed each second, the longest paused first. It bounds refusals per
 * second.
 */
const PER_SECOND = 1000;
/** Maximum number of requests of one connection that are refused by their heads in one turn of the loop. */
const MOST_A_TURN = 16;

export class RestingConnections {
  /** The paused connections, in the order in which their pauses began. */
  readonly #resting = new Map<Socket, Principal | undefined>();
  /** The refused client of each connection whose pause has ended in this turn of the loop. */
  readonly #ended = new Map<Socket, Principal | undefined>();
  /** Connections refused in this turn of the loop. */
  readonly #refused = new Map<Socket, number>();
  readonly #held = new WeakMap<Socket, HeldParser>();
  #timer: NodeJS.Timeout | undefined;
  #releasedAt = 0;
  #over = false;

  /**
   * @param oneAtATime whether requests that are pipelined behind a refused one are dropped unanswered, and
   *   their connection ends after the pause.
   */
  constructor(private readonly oneAtATime = false) {}

  /** The number of paused connections. */
  get size(): number {
    return this.#resting.size;
  }

  /** Seconds until a connection that is paused now is read again; at least 1. */
  get retryAfter(): number {
    return Math.ceil((this.size + 1) / PER_SECOND);
  }

  /**
   * Whether a request that was just read arrived while its connection was paused, and so waited in the
   * kernel. True only for the client that caused the pause: behind a proxy, another client may be next on the
   * connection.
   */
  heldUp(socket: Socket, principal: Principal): boolean {
    return this.#ended.size > 0 && this.#ended.get(socket) === principal;
  }

  /**
   * Drops requests that are parsed on the connection from now on, until its pause ends or `release` is
   * called.
   */
  hold(socket: Socket): void {
    if (!this.#held.has(socket)) this.#held.set(socket, new HeldParser(socket));
  }

  /** Requests are delivered again. @returns whether one was dropped, which makes the connection unusable. */
  letGo(socket: Socket): boolean {
    const parser = this.#held.get(socket);
    this.#held.delete(socket);
    parser?.letGo();
    return parser?.lostRequest === true;
  }

  /**
   * Call when a request was refused: its connection is paused once all of it has arrived, unless it is about
   * to close.
   */
  add(request: Request, reply: Reply, principal: Principal | undefined): void {
    if (this.#over) return;
    const { socket } = request;
    if (this.oneAtATime) this.hold(socket);
    if (!reply.shouldKeepAlive) return;
    // The pause does not wait for the end of the turn, in which a fast client would be read again.
    const rest = (): void => this.#begin(socket, principal);
    if (request.readableEnded) rest();
    else request.once('end', rest);
  }

  /**
   * Call before a request is refused by its head. Of pipelined requests, the last one that is refused ends
   * the connection; those after it are dropped unanswered.
   */
  limit(request: StreamedRequest, reply: Reply): void {
    const { socket } = request;
    if (this.#refused.size === 0) setImmediate(() => this.#refused.clear());
    const refused = (this.#refused.get(socket) ?? 0) + 1;
    this.#refused.set(socket, refused);
    if (refused < MOST_A_TURN) return;
    reply.shouldKeepAlive = false;
    new HeldParser(socket);
    // A held parser would call its next input faulty, and the answers owed before it would be lost.
    request.once('end', () => socket.pause());
  }

  /** Resumes all connections; none is paused from now on. */
  stop(): void {
    this.#over = true;
    this.#release(this.size);
  }

  #begin(socket: Socket, principal: Principal | undefined): void {
    if (socket.destroyed || this.#resting.has(socket)) return;
    if (this.#over) return this.#goOn(socket);
    socket.pause();
    this.#resting.set(socket, principal);
    if (this.#timer !== undefined) return;
    this.#releasedAt = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS).unref();
  }

  /** Resumes as many as the time since the last tick allows: timers run late in a busy loop. */
  #tick(): void {
    const now = performance.now();
    const count = Math.floor(((now - this.#releasedAt) * PER_SECOND) / 1000);
    this.#releasedAt += (count * 1000) / PER_SECOND;
    this.#release(count);
  }

  #release(count: number): void {
    if (this.#ended.size === 0) setImmediate(() => this.#ended.clear());
    for (const [socket, principal] of this.#resting) {
      // A connection that was closed meanwhile is not counted: otherwise a client that reopens connections
      // would fill the queue.
      if (!socket.destroyed && count-- <= 0) break;
      this.#resting.delete(socket);
      if (socket.destroyed) continue;
      this.#ended.set(socket, principal);
      this.#goOn(socket);
    }
    if (this.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #goOn(socket: Socket): void {
    if (this.letGo(socket)) endSocket(socket);
    else socket.resume();
  }
}
