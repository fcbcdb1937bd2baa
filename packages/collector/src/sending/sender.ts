/**
 * Sends events to a running collector until each has an answer that stays. What may be sent again is sent again: after
 * Retry-After when that is said, else after a growing pause. That is safe because an event has its id.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ERRORS, type EventKind } from '@clinical-events/protocol';
import { messageOf, systemCode } from '../system-code.js';
import { type Answer, type EventEndpoint, nameOf } from './event-endpoint.js';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5000;
/** An event may be one that the collector always fails at; then the others are sent. */
const MOST_FAILURES = 5;
const RETRY: ReadonlySet<number> = new Set(
  Object.values(ERRORS)
    .filter(({ retry }) => retry)
    .map(({ status }) => status),
);
/** What is said of one event, and nothing of the others. */
const OF_ONE_EVENT: ReadonlySet<number> = new Set([201, 400, 409, 413, 500]);

/** A proxy has troubles of its own, all of which pass. */
function mayPass(status: number): boolean {
  return RETRY.has(status) || status >= 500;
}

export interface SendOptions {
  /** At most this many a second. */
  readonly perSecond?: number | undefined;
  /** Gives up after so long without any progress, in milliseconds. */
  readonly patienceMs?: number;
  readonly stop: AbortSignal;
}

/** Nothing more can be sent, and what was sent stays. The message says why, for the operator. */
export class SendingFailed extends Error {
  override name = 'SendingFailed';
}

export interface Sending {
  readonly kind: EventKind;
  /** Undefined when the body holds none; then it waits for no other. */
  readonly eventId: string | undefined;
  readonly body: Uint8Array;
}

export class Sender {
  /** Sendings beyond the first of the same. */
  retries = 0;
  readonly #endpoint: EventEndpoint;
  readonly #options: SendOptions;
  /** The last of each id. */
  readonly #underWay = new Map<string, Promise<unknown>>();
  #failure: SendingFailed | undefined;
  /** Nothing is sent before these instants, of the monotonic clock. */
  #pausedUntil = 0;
  #nextAt = 0;
  #progressAt = performance.now();

  constructor(endpoint: EventEndpoint, options: SendOptions) {
    this.#endpoint = endpoint;
    this.#options = options;
  }

  /**
   * Events of the same id go in the order of the calls. The caller bounds how many are under way.
   * @returns 201 once it is stored, or why it never will be: 400, 409, 413 or 500; undefined when it was stopped.
   * @throws SendingFailed when the collector has gone, or takes events no more; then every later call does.
   */
  async send(event: Sending): Promise<Answer | undefined> {
    const { eventId } = event;
    const before = eventId === undefined ? undefined : this.#underWay.get(eventId);
    const sending = before === undefined ? this.#one(event) : before.then(() => this.#one(event));
    if (eventId === undefined) return sending;
    // Anyone who waits for its turn wants to know that it has come, and not how.
    const turn = sending.catch(() => undefined);
    this.#underWay.set(eventId, turn);
    try {
      return await sending;
    } finally {
      if (this.#underWay.get(eventId) === turn) this.#underWay.delete(eventId);
    }
  }

  async #one({ kind, body }: Sending): Promise<Answer | undefined> {
    let pause = FIRST_PAUSE_MS;
    if (this.#options.perSecond !== undefined) await this.#slot(this.#options.perSecond);
    for (let failures = 0; ;) {
      if (performance.now() < this.#pausedUntil) await this.#open();
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#options.stop.aborted) return undefined;
      const answer = await this.#endpoint.post(kind, body).catch(reasonOf);
      if (typeof answer !== 'string' && this.#isFinal(answer)) return answer;
      if (typeof answer !== 'string' && answer.status === 500 && ++failures === MOST_FAILURES) return answer;
      this.#assertPatience(typeof answer === 'string' ? answer : nameOf(answer));
      this.retries++;
      const wait = typeof answer === 'string' ? pause : (answer.retryAfterMs ?? pause);
      this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + wait);
      pause = Math.min(LONGEST_PAUSE_MS, 2 * pause);
    }
  }

  #isFinal(answer: Answer): boolean {
    const final = !mayPass(answer.status);
    // A limit that is kept is no sign of trouble.
    if (final || answer.status === 429) this.#progressAt = performance.now();
    if (final && !OF_ONE_EVENT.has(answer.status)) {
      this.#fail(`the collector does not take events any more: ${nameOf(answer)}`);
    }
    return final;
  }

  #assertPatience(reason: string): void {
    const { patienceMs = 30_000 } = this.#options;
    if (performance.now() - this.#progressAt < patienceMs) return;
    this.#fail(`nothing was accepted for ${Math.round(patienceMs / 1000)} s: ${reason}`);
  }

  #fail(message: string): never {
    this.#failure ??= new SendingFailed(message);
    throw this.#failure;
  }

  /** Keeps to the rate. */
  async #slot(perSecond: number): Promise<void> {
    const at = Math.max(performance.now(), this.#nextAt);
    this.#nextAt = at + 1000 / perSecond;
    await this.#until(at);
  }

  async #open(): Promise<void> {
    while (performance.now() < this.#pausedUntil && !this.#options.stop.aborted) {
      await this.#until(this.#pausedUntil);
    }
  }

  async #until(at: number): Promise<void> {
    const wait = at - performance.now();
    if (wait <= 0) return;
    await sleep(wait, undefined, { signal: this.#options.stop }).catch(() => undefined);
  }
}

function reasonOf(error: unknown): string {
  return systemCode(error) ?? messageOf(error);
}
