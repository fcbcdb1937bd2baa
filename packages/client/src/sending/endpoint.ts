/** Where requests go: what a sender may know of it. Each request has one answer, or none. */
import type http from 'node:http';
import type { EventKind } from '@clinical-events/protocol';
import type { Answer } from './answer.js';

export interface EndpointOptions {
  /** http or https; the paths of the protocol are added to its own. */
  readonly url: URL;
  /** A function is asked before every request, so that a key can be exchanged. */
  readonly apiKey: string | (() => string);
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

export const PATIENCE_MS = 30_000;
/** More than this of an answer's body is not read. */
export const LONGEST_ANSWER = 64 << 10;

/** @throws TypeError for what must not stand in a header. Never repeats the key. */
export function keyOf({ apiKey }: EndpointOptions): string {
  if (typeof apiKey === 'string') return apiKey;
  const key = apiKey();
  if (typeof key !== 'string' || !isApiKey(key)) throw new TypeError('the function gave no API key');
  return key;
}

export function isApiKey(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
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
