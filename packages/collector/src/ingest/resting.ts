/**
 * Lets connections rest on which a request was refused. A refusal costs more than half of what an event does; clients
 * that send again at once, whatever Retry-After says, would have the HTTP thread do little but refuse. So nothing more
 * is read from such a connection until its turn has come: what it sends waits in the kernel, where it costs nothing.
 * Retry-After says when the turn is, so whoever keeps to it notices nothing.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Principal } from '../access/principal.js';
import { endSocket } from './answers.js';
import { HeldParser } from './parser.js';

const TICK_MS = 10;
/** So many may go on each second, the longest resting first: bounds how many refusals a second there can be. */
const PER_SECOND = 1000;
/** So many requests of one connection are refused in one turn of the loop, by their heads. */
const MOST_A_TURN = 16;

export class RestingConnections {
  /** In the order in which they began. */
  readonly #resting = new Map<Socket, Principal | undefined>();
  /** Who was refused, by connection, of those that may go on since this turn of the loop. */
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

  /** In so many seconds whoever begins now may go on; at least 1. */
  get retryAfter(): number {
    return Math.ceil((this.size + 1) / PER_SECOND);
  }

  /**
   * Whether a request that was just read came while its connection rested, so that it has waited in the kernel. Only
   * for whom the connection had to rest: behind a proxy somebody else may be next on it.
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
  add(request: IncomingMessage, response: ServerResponse, principal: Principal | undefined): void {
    if (this.#over) return;
    const { socket } = request;
    if (this.oneAtATime) this.hold(socket);
    if (!response.shouldKeepAlive) return;
    // At once and not at the end of the turn: a client that is quick is read again in the same one.
    const rest = (): void => this.#begin(socket, principal);
    if (request.readableEnded) rest();
    else request.once('end', rest);
  }

  /**
   * Call before a request is refused by its head: of those that were sent without waiting for an answer, the last that
   * is refused ends the connection. Those behind it are dropped unanswered.
   */
  limit(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    if (this.#refused.size === 0) setImmediate(() => this.#refused.clear());
    const refused = (this.#refused.get(socket) ?? 0) + 1;
    this.#refused.set(socket, refused);
    if (refused < MOST_A_TURN) return;
    response.shouldKeepAlive = false;
    new HeldParser(socket);
    // What the held parser were given next it would call faulty, and the answers before this one would be lost.
    request.once('end', () => socket.pause());
  }

  /** All may go on, and nobody rests any more. */
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

  /** As many go on as the time since the last tick is worth: a busy loop comes late to its timers. */
  #tick(): void {
    const now = performance.now();
    const count = Math.floor(((now - this.#releasedAt) * PER_SECOND) / 1000);
    this.#releasedAt += (count * 1000) / PER_SECOND;
    this.#release(count);
  }

  #release(count: number): void {
    if (this.#ended.size === 0) setImmediate(() => this.#ended.clear());
    for (const [socket, principal] of this.#resting) {
      // One that was closed meanwhile uses up no turn: else who opens more a second than go on would fill the line.
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
