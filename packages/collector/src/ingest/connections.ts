/**
 * The places for connections, and who gets one when all are taken. Node's own limit refuses the newcomer, whoever it
 * is, so that anyone could keep all senders out by connections on which next to nothing is sent: that needs no key.
 *
 * A connection on which a request came with a valid key keeps its place until it is closed. Any other may lose it to a
 * newcomer: of the network that has the most of those the oldest. So a flood from elsewhere displaces its own
 * connections; and one from the sender's own network has to fill all the places again before the sender has sent its
 * headers. Who has a key can take all places: it can be revoked.
 *
 * A request on a connection that keeps its place costs the reading of one property. A newcomer costs a look at each
 * network, and only when all places are taken.
 */
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Principal } from '../access/principal.js';
import { endSocket } from './answers.js';
import type { Reply, Request, StreamedRequest } from './request.js';

/** What is granted to connections; may be changed while the collector listens. */
export interface Limits {
  readonly maxConnections: number;
  /** From the first byte of a request to the last of its headers. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to the last of its body. */
  readonly requestTimeoutMs: number;
  /** How long an idle connection is kept. */
  readonly keepAliveTimeoutMs: number;
}

/*
 * What is used of Node's HTTP parser and not documented. Node is pinned, and the tests hold what is expected of it.
 */

interface Parser {
  onIncoming: ((request: { upgrade: boolean }, keepAlive: boolean) => number) | null;
}
type ParsedSocket = Socket & { readonly parser?: Parser | null };

/** Returned by `onIncoming`, it has llhttp end, as for an upgrade, and Node drop the rest of the chunk. */
const END_PARSING = 2;

/**
 * Keeps the parser from handing on more requests: in one turn it parses all that was read, hundreds of requests,
 * whether the socket is paused or not.
 */
export class HeldParser {
  /** Whether a request came meanwhile. It is lost, and the connection of no more use. */
  lostRequest = false;
  readonly #parser: Parser | undefined;
  readonly #handOn: Parser['onIncoming'];
  readonly #drop = (request: { upgrade: boolean }): number => {
    this.lostRequest = true;
    // CONNECT and Upgrade would be handed on all the same.
    request.upgrade = false;
    return END_PARSING;
  };

  constructor({ parser }: ParsedSocket) {
    this.#parser = parser ?? undefined;
    this.#handOn = this.#parser?.onIncoming ?? null;
    if (this.#parser !== undefined) this.#parser.onIncoming = this.#drop;
  }

  /** A parser whose connection is closed serves another one by then. */
  letGo(): void {
    if (this.#parser?.onIncoming === this.#drop) this.#parser.onIncoming = this.#handOn;
  }
}

/** On a connection that may lose its place: what has it keep it. */
const KEEP = Symbol('keep the place');
type Placed = Duplex & { [KEEP]?: (() => void) | undefined };

/** A valid key was shown on this connection. */
export function keepPlace(connection: Placed): void {
  const keep = connection[KEEP];
  if (keep === undefined) return;
  connection[KEEP] = undefined;
  keep();
}

/** Whether no valid key was shown on this connection yet. */
export function isUnproven(connection: Placed): boolean {
  return connection[KEEP] !== undefined;
}

/** What is shown on the one connection, as TLS, counts for the other, which carries it. */
export function standsFor(secured: Placed, carrier: Placed): void {
  secured[KEEP] = carrier[KEEP];
}

/**
 * Why a connection was closed when all were taken: `displaced` by a newcomer before a key was shown on it, or
 * `no_place`, a newcomer itself, because on each of the others a key was shown.
 */
export type LostPlace = 'displaced' | 'no_place';

export class Places {
  readonly #taken = new Set<Socket>();
  /**
   * Of those the ones that may lose their places, by the network they come from, the oldest first. None of the sets
   * is empty.
   */
  readonly #unproven = new Map<string, Set<Socket>>();

  /**
   * @param limit of connections; a lower one that is set later closes none of those there are.
   * @param onLost called for each connection that is closed here, with the address that it comes from.
   */
  constructor(
    public limit: number,
    private readonly onLost: (reason: LostPlace, remote: string | undefined) => void,
  ) {}

  /** Connections that have a place here. */
  get size(): number {
    return this.#taken.size;
  }

  /** Whether the connection has a place. One that has none, or loses it later, is closed. */
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
    // At once and not when it is closed, which is after others have come.
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

/** An IPv4 address, or the first 64 bits of an IPv6 one: of the rest a host has as many as it likes (RFC 4291). */
export function networkOf(address: string): string {
  // IPv4 in the form of IPv6 has dots.
  if (!address.includes(':') || address.includes('.')) return address;
  const [left = [], right = []] = address.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0');
  return [...left, ...zeros, ...right].slice(0, 4).join(':');
}

/*
 * Lets connections rest on which a request was refused. A refusal costs more than half of what an event does; clients
 * that send again immediately, whatever Retry-After says, would have the HTTP thread do little but refuse. So nothing
 * more is read from such a connection until its turn has come: what it sends waits in the kernel, where it costs
 * nothing. Retry-After says when the turn is, so anyone who keeps to it notices nothing.
 */

const TICK_MS = 10;
/** Connections that are read again each second, the longest resting first: bounds the refusals a second. */
const PER_SECOND = 1000;
/** Requests of one connection that are refused in one turn of the loop, by their heads. */
const MOST_A_TURN = 16;

export class RestingConnections {
  /** In the order in which they began. */
  readonly #resting = new Map<Socket, Principal | undefined>();
  /** Who was refused, by connection, of those that are read again since this turn of the loop. */
  readonly #ended = new Map<Socket, Principal | undefined>();
  /** Refused in this turn of the loop. */
  readonly #refused = new Map<Socket, number>();
  readonly #held = new WeakMap<Socket, HeldParser>();
  #timer: NodeJS.Timeout | undefined;
  #releasedAt = 0;
  #over = false;

  /**
   * @param oneAtATime whether a request that was sent before the refused one was answered is dropped unanswered, and
   *   its connection ended once it has rested.
   */
  constructor(private readonly oneAtATime = false) {}

  /** Resting now. */
  get size(): number {
    return this.#resting.size;
  }

  /** Seconds until a client that begins now is read again; at least 1. */
  get retryAfter(): number {
    return Math.ceil((this.size + 1) / PER_SECOND);
  }

  /**
   * Whether a request that was just read came while its connection rested, so that it has waited in the kernel. Only
   * for whom the connection had to rest: behind a proxy someone else may be next on it.
   */
  heldUp(socket: Socket, principal: Principal): boolean {
    return this.#ended.size > 0 && this.#ended.get(socket) === principal;
  }

  /** From now on requests that are parsed on the connection are dropped, until it has rested or is let go. */
  hold(socket: Socket): void {
    if (!this.#held.has(socket)) this.#held.set(socket, new HeldParser(socket));
  }

  /** Requests are handed on again. @returns whether one was dropped, so that the connection is of no more use. */
  letGo(socket: Socket): boolean {
    const parser = this.#held.get(socket);
    this.#held.delete(socket);
    parser?.letGo();
    return parser?.lostRequest === true;
  }

  /** Call when a request was refused: its connection rests once all of it has come, unless it is to be closed. */
  add(request: Request, reply: Reply, principal: Principal | undefined): void {
    if (this.#over) return;
    const { socket } = request;
    if (this.oneAtATime) this.hold(socket);
    if (!reply.shouldKeepAlive) return;
    // At once and not at the end of the turn: a client that is quick is read again in the same one.
    const rest = (): void => this.#begin(socket, principal);
    if (request.readableEnded) rest();
    else request.once('end', rest);
  }

  /**
   * Call before a request is refused by its head: of those that were sent without waiting for an answer, the last that
   * is refused ends the connection. Those after it are dropped unanswered.
   */
  limit(request: StreamedRequest, reply: Reply): void {
    const { socket } = request;
    if (this.#refused.size === 0) setImmediate(() => this.#refused.clear());
    const refused = (this.#refused.get(socket) ?? 0) + 1;
    this.#refused.set(socket, refused);
    if (refused < MOST_A_TURN) return;
    reply.shouldKeepAlive = false;
    new HeldParser(socket);
    // What the held parser were given next it would call faulty, and the answers before this one would be lost.
    request.once('end', () => socket.pause());
  }

  /** All connections are read again, and none rests from now on. */
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

  /** Releases as many as the time since the last tick allows: a busy loop comes late to its timers. */
  #tick(): void {
    const now = performance.now();
    const count = Math.floor(((now - this.#releasedAt) * PER_SECOND) / 1000);
    this.#releasedAt += (count * 1000) / PER_SECOND;
    this.#release(count);
  }

  #release(count: number): void {
    if (this.#ended.size === 0) setImmediate(() => this.#ended.clear());
    for (const [socket, principal] of this.#resting) {
      // One that was closed meanwhile uses up no turn: otherwise a client that opens more than that would fill the line.
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
