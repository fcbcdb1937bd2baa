/**
 * Lets connections rest on which an event was refused because too many come. A refusal costs not much less than an
 * event does; a client that sends again at once, whatever Retry-After says, would have the HTTP thread do little but
 * refuse. So nothing more is read from such a connection until its turn has come: what it sends waits in the kernel,
 * where it costs nothing. Whoever keeps to Retry-After notices nothing of it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const TICK_MS = 10;
/** So many may go on at each tick, the longest resting first: bounds how many refusals a second there can be. */
const AT_A_TICK = 10;
/** As long as Retry-After asks for: by then everybody may go on. */
const LONGEST_MS = 1000;

export class RestingConnections {
  /** Until when at most, in the order in which they began. */
  readonly #resting = new Map<Socket, number>();
  #timer: NodeJS.Timeout | undefined;
  #over = false;

  /** Resting now. */
  get size(): number {
    return this.#resting.size;
  }

  /** Call when a request was refused: its connection rests once all of it has come, unless it is to be closed. */
  add(request: IncomingMessage, response: ServerResponse): void {
    if (!response.shouldKeepAlive) return;
    // At once and not at the end of the turn: a client that is quick is read again in the same one.
    const rest = (): void => this.#begin(request.socket);
    if (request.readableEnded) rest();
    else request.once('end', rest);
  }

  /** All may go on, and nobody rests any more. */
  stop(): void {
    this.#over = true;
    this.#release(this.size, Infinity);
  }

  #begin(socket: Socket): void {
    if (this.#over || socket.destroyed || this.#resting.has(socket)) return;
    socket.pause();
    this.#resting.set(socket, performance.now() + LONGEST_MS);
    this.#timer ??= setInterval(() => this.#release(AT_A_TICK, performance.now()), TICK_MS).unref();
  }

  /** So many go on, and everybody whose time is over. */
  #release(count: number, now: number): void {
    for (const [socket, until] of this.#resting) {
      if (count <= 0 && until > now) break;
      this.#resting.delete(socket);
      socket.resume();
      count--;
    }
    if (this.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
