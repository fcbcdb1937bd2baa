/** Where requests go: what a sender may know of it. Each request has one answer, or none. */
import { clearInterval, setImmediate, setInterval, setTimeout } from 'node:timers';
import type http from 'node:http';
import type { EventKind } from '@clinical-events/protocol';
import { isDroppedPromise } from '../hostile-values.js';
import type { Answer } from './answer.js';

export interface EndpointOptions {
  /** http or https; the paths of the protocol are added to its own. */
  readonly url: URL;
  /** A function is asked before every request, so that a key can be exchanged. */
  readonly apiKey: string | (() => string) | undefined;
  /** An answer that takes longer is given up; 30 s. */
  readonly patienceMs?: number | undefined;
}

/** Told once what became of a request, and not before `post` has returned. */
export interface Requester {
  answered(answer: Answer): void;
  /** There was no answer: whether the event is stored is not known. */
  failed(error: unknown): void;
}

export interface Endpoint {
  /** `body` is not to be changed before the requester has been told. Does not throw. */
  post(kind: EventKind, body: Uint8Array, requester: Requester): void;
  /** Gives up whatever has no answer. */
  close(): void;
}

export interface AgentOptions extends EndpointOptions {
  /** For a proxy, or certificates of one's own. */
  readonly agent: http.Agent;
}

/**
 * Calls back when what had come to this process by now is read: a request that is written then is not taken to be
 * answered by it. Two turns, because the first may end without a look at the sockets.
 */
export function afterReading(act: () => void): void {
  setImmediate(() => setImmediate(act));
}

/** A body up to this size goes in one piece, which the other side most likely reads in one. */
export const SMALL = 16 << 10;
const HELD_MS = 20;

/**
 * Calls back when an answer to less than the whole event would be here. For a system takes more than the other side
 * has read: so the last byte waits for this. From far away, or a slow server, one may come later: that gap stays.
 */
export function afterHolding(act: () => void): void {
  setTimeout(() => afterReading(act), HELD_MS).unref();
}

/** Whether an answer of this status may have an event deleted, and so has to come after the event was sent. */
export function deletes(status: number | undefined): boolean {
  return status === 201 || status === 409;
}

export const PATIENCE_MS = 30_000;
/** More than this of an answer's body is not read. */
export const LONGEST_ANSWER = 64 << 10;

/** There is no key to send with, or no address to send to. The message repeats neither. */
export class CannotSend extends Error {
  override name = 'CannotSend';
}

/** @throws CannotSend */
export function keyOf({ apiKey }: Pick<EndpointOptions, 'apiKey'>): string {
  let given: unknown;
  try {
    given = typeof apiKey === 'function' ? apiKey() : apiKey;
  } catch (cause) {
    throw new CannotSend('the function for the API key has failed', { cause });
  }
  if (isDroppedPromise(given)) {
    throw new CannotSend('the function for the API key returns a promise, and has to return the key at once');
  }
  // Around it: a file's last line break, say.
  const key = typeof given === 'string' ? given.trim() : '';
  if (key === '') throw new CannotSend('there is no API key (apiKey or COLLECTOR_KEY)');
  if (!/^[\x21-\x7e]+$/.test(key)) throw new CannotSend('the API key has characters that no key has');
  return key;
}

/** @throws CannotSend for what is no address of a collector. */
export function collectorUrl(url: unknown): URL {
  const text = typeof url === 'string' || url instanceof URL ? String(url) : '';
  if (text === '') throw new CannotSend('there is no address of a collector (url or COLLECTOR_URL)');
  const parsed = URL.canParse(text) ? new URL(text) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    throw new CannotSend('the URL of a collector begins with http:// or https://');
  }
  if (parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new CannotSend('the URL of a collector is an origin and a path, and nothing else');
  }
  return parsed;
}

/** Asks seldom whether something has taken too long, for as long as there is something to ask about. */
export class Sweeper {
  readonly everyMs: number;
  readonly #sweep: () => boolean;
  #timer: NodeJS.Timeout | undefined;

  /** @param sweep returns whether it has to be called again. */
  constructor(patienceMs: number, sweep: () => boolean) {
    this.everyMs = Math.min(1000, Math.ceil(patienceMs / 4));
    this.#sweep = sweep;
  }

  /** One timer for all: a signal for each request would cost more than the request. */
  start(): void {
    this.#timer ??= setInterval(() => {
      if (!this.#sweep()) this.stop();
    }, this.everyMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
