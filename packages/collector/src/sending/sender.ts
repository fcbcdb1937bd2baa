/**
 * Sends events to a running collector until each has a final answer. Temporary failures are retried, after
 * Retry-After or a growing pause. Retries are safe, because the event id makes them idempotent.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ERRORS, type EventKind } from '@clinical-events/protocol';
import { messageOf, systemCode } from '../system-code.js';
import { type Answer, type EventEndpoint, nameOf } from './event-endpoint.js';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5000;
/** Gives up on a single event at which the collector always fails, so that the others are sent. */
const MOST_FAILURES = 5;
const RETRY: ReadonlySet<number> = new Set(
  Object.values(ERRORS)
    .filter(({ retry }) => retry)
    .map(({ status }) => status),
);
/** Statuses that concern a single event only. */
const OF_ONE_EVENT: ReadonlySet<number> = new Set([201, 400, 409, 413, 500]);

/** Errors of a proxy are considered temporary. */
function mayPass(status: number): boolean {
  return RETRY.has(status) || status >= 500;
}

export interface SendOptions {
  /** Maximum number of events per second. */
  readonly perSecond?: number | undefined;
  /** Gives up after this time without progress, in milliseconds. */
  readonly patienceMs?: number;
  readonly stop: AbortSignal;
}

/** Sending cannot continue; events already stored stay stored. The message is for the operator. */
export class SendingFailed extends Error {
  override name = 'SendingFailed';
}

export interface Sending {
  readonly kind: EventKind;
  /** Undefined if the body has none; such an event does not wait for others. */
  readonly eventId: string | undefined;
  readonly body: Uint8Array;
}

export class Sender {
  /** Number of retries. */
  retries = 0;
  readonly #endpoint: EventEndpoint;
  readonly #options: SendOptions;
  /** The last send of each id. */
  readonly #underWay = new Map<string, Promise<unknown>>();
  #failure: SendingFailed | undefined;
  /** Nothing is sent before these times of the monotonic clock. */
  #pausedUntil = 0;
  #nextAt = 0;
  #progressAt = performance.now();

  constructor(endpoint: EventEndpoint, options: SendOptions) {
    this.#endpoint = endpoint;
    this.#options = options;
  }

  /**
   * Sends an event. Events with the same id are sent in the order of the calls. The caller limits
   * concurrency.
   * @returns 201 if it is stored, or 400, 409, 413 or 500 if it never will be; undefined if stopped.
   * @throws SendingFailed if the collector is gone or no longer accepts events; all later calls then throw
   *   too.
   */
  async send(event: Sending): Promise<Answer | undefined> {
    const { eventId } = event;
    const before = eventId === undefined ? undefined : this.#underWay.get(eventId);
    const sending = before === undefined ? this.#one(event) : before.then(() => this.#one(event));
    if (eventId === undefined) return sending;
    // The next event with this id waits for the end of this one, whatever its outcome.
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
    // Reaching the rate limit is not a sign of trouble.
    if (final || answer.status === 429) this.#progressAt = performance.now();
    if (final && !OF_ONE_EVENT.has(answer.status)) {
      this.#fail(`the collector no longer accepts events: ${nameOf(answer)}`);
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

  /** Waits as long as the rate limit requires. */
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
