/**
 * Sends events to a running collector, some at a time, and remembers how each was answered. What may be sent again is
 * sent again: after Retry-After when that is said, else after a growing pause. That is safe because an event has its id.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ERRORS } from '@clinical-events/protocol';
import { systemCode } from '../system-code.js';
import { nameOf, type Answer, type EventEndpoint } from './event-endpoint.js';
import { textOf } from './event-text.js';
import type { OddEvent } from './oddities.js';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5000;
const RETRY: ReadonlySet<number> = new Set(
  Object.values(ERRORS)
    .filter(({ retry }) => retry)
    .map(({ status }) => status),
);

/** A proxy has troubles of its own, all of which pass. */
function mayPass(status: number): boolean {
  return RETRY.has(status) || status >= 500;
}

export interface SendOptions {
  /** Events under way at once at most. */
  readonly connections: number;
  /** No more than so many a second. */
  readonly perSecond?: number | undefined;
  /** Gives up after so long without any progress, in milliseconds. */
  readonly patienceMs?: number;
  readonly stop: AbortSignal;
}

/** Nothing more can be sent, and what was sent stays. The message says why, for the operator. */
export class SendingFailed extends Error {
  override name = 'SendingFailed';
}

/** How the sendings were answered. */
export interface Answers {
  /** 201, events that were sent for the first time. */
  accepted: number;
  /** 201, events that had been sent before. */
  repeats: number;
  /** 409 where that was meant. */
  conflicts: number;
  /** 201 where a conflict was meant. */
  missedConflicts: number;
  /** 400 to what is not valid under profile full, which this collector then asks for. */
  ownWords: number;
  /** All else, by code or status. */
  readonly refused: Map<string, number>;
  /** Sendings beyond the first of the same. */
  retries: number;
}

export class EventSender {
  readonly answers: Answers = {
    ...{ accepted: 0, repeats: 0, conflicts: 0, missedConflicts: 0, ownWords: 0 },
    refused: new Map(),
    retries: 0,
  };
  readonly #endpoint: EventEndpoint;
  readonly #options: SendOptions;
  readonly #underWay = new Map<string, Promise<void>>();
  /** Nobody sends before these instants, of the monotonic clock. */
  #pausedUntil = 0;
  #nextAt = 0;
  #progressAt = 0;

  constructor(endpoint: EventEndpoint, options: SendOptions) {
    this.#endpoint = endpoint;
    this.#options = options;
  }

  /**
   * Sends all events, those of the same id in their order. Resolves when the last is answered, or sooner when stopped.
   * @throws SendingFailed when the collector has gone, or answers like none.
   */
  async send(events: Iterable<OddEvent, void>): Promise<void> {
    const rest = events[Symbol.iterator]();
    const failed = new AbortController();
    this.#progressAt = performance.now();
    const worker = async () => {
      while (!this.#options.stop.aborted && !failed.signal.aborted) {
        const next = rest.next();
        if (next.done === true) return;
        try {
          await this.#inTurn(next.value, failed.signal);
        } catch (error) {
          failed.abort();
          throw error;
        }
      }
    };
    const workers = Array.from({ length: this.#options.connections }, worker);
    // The others have an event each under way, whose answers count.
    await Promise.allSettled(workers);
    await Promise.all(workers);
  }

  /** A conflict is only one when the first event stands. */
  async #inTurn(event: OddEvent, failed: AbortSignal): Promise<void> {
    const { eventId } = event.planned;
    for (let before; (before = this.#underWay.get(eventId)) !== undefined;)
      await before.catch(() => undefined);
    const sending = this.#one(event, failed);
    this.#underWay.set(eventId, sending);
    try {
      await sending;
    } finally {
      this.#underWay.delete(eventId);
    }
  }

  async #one(event: OddEvent, failed: AbortSignal): Promise<void> {
    const text = textOf(event);
    let pause = FIRST_PAUSE_MS;
    await this.#slot();
    for (;;) {
      await this.#open();
      if (this.#options.stop.aborted || failed.aborted) return;
      let answer: Answer | undefined;
      let reason: string;
      try {
        answer = await this.#endpoint.post(event.planned.kind, text);
        reason = nameOf(answer);
      } catch (error) {
        reason = systemCode(error) ?? String(error);
      }
      if (answer !== undefined && !mayPass(answer.status)) {
        this.#progressAt = performance.now();
        this.#count(event, answer);
        return;
      }
      // A limit that is kept is no sign of trouble.
      if (answer?.status === 429) this.#progressAt = performance.now();
      this.#assertPatience(reason);
      this.answers.retries++;
      this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + (answer?.retryAfterMs ?? pause));
      pause = Math.min(LONGEST_PAUSE_MS, 2 * pause);
    }
  }

  #count({ sending, inOwnWords }: OddEvent, answer: Answer): void {
    const { answers } = this;
    const { status } = answer;
    if (status === 201) {
      if (sending === 'conflict') answers.missedConflicts++;
      else if (sending === 'first') answers.accepted++;
      else answers.repeats++;
    } else if (status === 409 && sending === 'conflict') answers.conflicts++;
    else if (status === 400 && inOwnWords) answers.ownWords++;
    else if (status === 400 || status === 409 || status === 413) {
      const name = nameOf(answer);
      answers.refused.set(name, (answers.refused.get(name) ?? 0) + 1);
    } else {
      throw new SendingFailed(`the collector does not take events any more: ${nameOf(answer)}`);
    }
  }

  #assertPatience(reason: string): void {
    const { patienceMs = 30_000 } = this.#options;
    if (performance.now() - this.#progressAt < patienceMs) return;
    throw new SendingFailed(`nothing was accepted for ${Math.round(patienceMs / 1000)} s: ${reason}`);
  }

  /** Keeps to the rate. */
  async #slot(): Promise<void> {
    const { perSecond } = this.#options;
    if (perSecond === undefined) return;
    const now = performance.now();
    const at = Math.max(now, this.#nextAt);
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
