/**
 * Sends the waiting events, a bounded number at a time, until each one is stored, erased by the collector, or
 * in quarantine. Only requests in progress keep the process alive.
 *
 * The gate delays all events: each failure of the collector closes it for longer, and then one event is tried
 * at a time. A retry delays a single event, so that an event on which the collector fails does not delay the
 * others.
 */
import { performance } from 'node:perf_hooks';
import { clearTimeout, setImmediate, setTimeout } from 'node:timers';
import type { EventKind } from '@clinical-events/protocol';
import type { Refusal, Spool, SpooledEvent } from '../spool/spool.js';
import { type Answer, verdictOn } from './answer.js';
import type { Endpoint } from './endpoint.js';
import { type Setback, setbackBy, setbackOf } from './setback.js';

/** Receives each request and its outcome, for debugging. */
export interface Trace {
  sent(event: SpooledEvent): void;
  answered(event: SpooledEvent, answer: Answer): void;
  failed(event: SpooledEvent, error: unknown): void;
}

export interface SenderOptions {
  readonly spool: Spool;
  readonly endpoint: Pick<Endpoint, 'post' | 'close'>;
  /** Maximum number of concurrent requests; default 128. */
  readonly concurrency?: number | undefined;
  /** Called when an event is in quarantine. */
  readonly onQuarantine: (event: SpooledEvent, refusal: Refusal) => void;
  /** Called each time an event could not be sent. */
  readonly onSetback: (setback: Setback) => void;
  readonly onTrouble: (what: string, error: unknown) => void;
  readonly trace?: Trace | undefined;
  readonly backoff?: Backoff | undefined;
  /** Longest pause while the key or the address is wrong; default 60 s. */
  readonly slowMs?: number | undefined;
}

const CONCURRENCY = 128;
const BATCH_EVENTS = 256;
const BATCH_BYTES = 1 << 20;
const SLOW_MS = 60_000;
/** A longer Retry-After is reduced to this. */
const LONGEST_RETRY_AFTER_MS = 600_000;

/** A request in progress. */
interface Delivery {
  readonly event: SpooledEvent;
  /** Failed attempts before this one. */
  readonly attempts: number;
  /** Value of #round when it was sent. */
  readonly round: number;
}

export class Sender {
  /** Events that the collector has stored. */
  sent = 0;
  /** Events that the collector has erased, and that are deleted here. */
  erased = 0;
  readonly #options: SenderOptions;
  readonly #concurrency: number;
  readonly #backoff: Backoff;
  readonly #slowMs: number;
  readonly #retries = new Retries();
  readonly #stopping = new AbortController();
  /** Events taken from the spool; those from index #next have not been sent. */
  #fresh: readonly SpooledEvent[] = [];
  #next = 0;
  /** The next events, read from disk while the previous ones are sent. */
  #ahead: readonly SpooledEvent[] = [];
  #taking: Promise<void> | undefined;
  #underWay = 0;
  /** Consecutive failures of the collector, not of a single event. */
  #failures = 0;
  /** Number of closures of the gate: requests sent before the last closure do not close it again. */
  #round = 0;
  #shutUntil = 0;
  /** The last outcome was a problem that waiting does not fix. */
  #heldUp = false;
  readonly #kindShutUntil = new Map<EventKind, number>();
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Infinity;
  readonly #settled = new Set<() => void>();

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#concurrency = options.concurrency ?? CONCURRENCY;
    this.#backoff = options.backoff ?? BACKOFF;
    this.#slowMs = options.slowMs ?? SLOW_MS;
    this.#go();
  }

  /**
   * Resolves when no event waits, or the signal is aborted.
   * @param orHeldUp also resolve when a problem that waiting does not fix, such as a wrong key, prevents
   * sending.
   */
  idle(signal: AbortSignal, orHeldUp = false): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        const heldUp = orHeldUp && this.#heldUp && this.#underWay === 0;
        if (!signal.aborted && !heldUp && this.#options.spool.state.waiting > 0) return;
        this.#settled.delete(look);
        signal.removeEventListener('abort', look);
        resolve();
      };
      this.#settled.add(look);
      signal.addEventListener('abort', look);
      look();
    });
  }

  /** Stops sending. Events without an answer wait in the spool. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#timer);
    this.#options.endpoint.close();
    await this.#taking;
    while (this.#underWay > 0) await new Promise<void>((resolve) => setImmediate(resolve));
    const { spool } = this.#options;
    for (const event of this.#fresh.slice(this.#next)) spool.giveBack(event);
    for (const event of this.#ahead) spool.giveBack(event);
    for (const { event } of this.#retries.takeAll()) spool.giveBack(event);
  }

  /** Sends the events that may be sent now, and schedules the next call. */
  #go(): void {
    if (this.#stopping.signal.aborted) return;
    const now = performance.now();
    if (now < this.#shutUntil) return this.#wakeAt(this.#shutUntil);
    const most = this.#failures > 0 ? 1 : this.#concurrency;
    while (this.#underWay < most) {
      const retry = this.#retries.takeDue(now);
      const event = retry?.event ?? this.#takeFresh();
      if (!event) break;
      const kindShutUntil = this.#kindShutUntil.get(event.kind) ?? 0;
      const attempts = retry?.attempts ?? 0;
      if (now < kindShutUntil) this.#retries.add({ event, attempts, dueAt: kindShutUntil });
      else {
        this.#underWay++;
        this.#options.trace?.sent(event);
        const delivery = { event, attempts, round: this.#round };
        this.#options.endpoint.post(event.kind, event.body, {
          answered: (answer) => this.#answered(delivery, answer),
          failed: (error) => this.#failed(delivery, error),
        });
      }
    }
    if (this.#retries.earliest !== Infinity) this.#wakeAt(this.#retries.earliest);
  }

  #takeFresh(): SpooledEvent | undefined {
    if (this.#next === this.#fresh.length && this.#ahead.length > 0) {
      [this.#fresh, this.#ahead, this.#next] = [this.#ahead, [], 0];
    }
    if (this.#ahead.length === 0 && !this.#retries.full) this.#taking ??= this.#take();
    const event = this.#fresh[this.#next];
    if (event) this.#next++;
    return event;
  }

  async #take(): Promise<void> {
    const { spool, onTrouble } = this.#options;
    try {
      this.#ahead = await spool.take(BATCH_EVENTS, BATCH_BYTES, this.#stopping.signal);
      this.#taking = undefined;
      // An empty array means that the spool is closed.
      if (this.#ahead.length > 0) this.#go();
    } catch (error) {
      onTrouble('events could not be read from the spool', error);
      this.#taking = undefined;
      this.#shut(pauseAfter(++this.#failures, this.#backoff));
      this.#go();
    }
  }

  #answered(delivery: Delivery, answer: Answer): void {
    this.#options.trace?.answered(delivery.event, answer);
    const verdict = verdictOn(answer);
    this.#heldUp = verdict === 'unwelcome';
    if (verdict === 'stored' || verdict === 'erased') {
      this.#failures = 0;
      if (verdict === 'stored') this.sent++;
      else this.erased++;
      this.#options.spool.done(delivery.event);
      this.#settle();
    } else {
      this.#refusedOrLater(delivery, answer)
        .catch((error: unknown) => {
          this.#options.onTrouble('internal error of the sender; an event waits for the next start', error);
        })
        .finally(() => this.#settle());
    }
  }

  #failed({ event, attempts, round }: Delivery, error: unknown): void {
    this.#options.trace?.failed(event, error);
    if (this.#stopping.signal.aborted) this.#options.spool.giveBack(event);
    else {
      const setback = setbackOf(error);
      this.#heldUp = setback.lasting === 'all';
      this.#options.onSetback(setback);
      this.#later(event, attempts, round, 0);
    }
    this.#settle();
  }

  #settle(): void {
    this.#underWay--;
    this.#go();
    // `state` is expensive, so it is not read after every event.
    if (this.#underWay === 0) for (const look of this.#settled) look();
  }

  async #refusedOrLater({ event, attempts, round }: Delivery, answer: Answer): Promise<void> {
    const { status, code } = answer;
    const verdict = verdictOn(answer);
    if (verdict === 'later' || verdict === 'unwelcome' || verdict === 'not permitted') {
      this.#options.onSetback(setbackBy(verdict, answer, event.kind));
    }
    if (verdict === 'later') this.#later(event, attempts, round, answer.retryAfterMs ?? 0);
    else if (verdict === 'unwelcome') this.#later(event, attempts, round, this.#slowPause());
    else if (verdict === 'not permitted') {
      this.#failures = 0;
      const dueAt = performance.now() + this.#slowPause();
      this.#kindShutUntil.set(event.kind, dueAt);
      this.#retries.add({ event, attempts: attempts + 1, dueAt });
    } else {
      this.#failures = 0;
      const { message, details, requestId } = answer;
      await this.#refused(event, attempts, {
        ...{ status, at: new Date().toISOString() },
        ...(code !== undefined && { code }),
        ...(message !== undefined && { message }),
        ...(details !== undefined && { details }),
        ...(requestId !== undefined && { request_id: requestId }),
      });
    }
  }

  async #refused(event: SpooledEvent, attempts: number, refusal: Refusal): Promise<void> {
    const { spool, onQuarantine, onTrouble } = this.#options;
    try {
      await spool.quarantine(event, refusal);
    } catch (error) {
      onTrouble('a refused event could not be put into quarantine; it is sent again', error);
      const dueAt = performance.now() + pauseAfter(attempts + 1, this.#backoff);
      this.#retries.add({ event, attempts: attempts + 1, dueAt });
      return;
    }
    onQuarantine(event, refusal);
  }

  /** Schedules the event again, and closes the gate for at least `leastMs`, which the collector requested. */
  #later(event: SpooledEvent, attempts: number, round: number, leastMs: number): void {
    const least = Math.min(leastMs, LONGEST_RETRY_AFTER_MS);
    const dueAt = performance.now() + least + pauseAfter(attempts + 1, this.#backoff);
    this.#retries.add({ event, attempts: attempts + 1, dueAt });
    if (round === this.#round || least > 0) {
      if (round === this.#round) this.#failures++;
      this.#shut(least + pauseAfter(this.#failures, this.#backoff));
    }
  }

  #shut(milliseconds: number): void {
    this.#round++;
    this.#shutUntil = Math.max(this.#shutUntil, performance.now() + milliseconds);
  }

  #slowPause(): number {
    return this.#slowMs * (0.5 + Math.random() / 2);
  }

  #wakeAt(moment: number): void {
    if (this.#timerAt <= moment) return;
    clearTimeout(this.#timer);
    this.#timerAt = moment;
    const wait = Math.max(1, Math.ceil(moment - performance.now()));
    this.#timer = setTimeout(() => {
      this.#timerAt = Infinity;
      this.#go();
    }, wait).unref();
  }
}

/* Events that wait in memory for another attempt. If there are too many, the sender takes no new ones. */

interface Retry {
  readonly event: SpooledEvent;
  /** Failed attempts. */
  readonly attempts: number;
  /** Earliest time of the next attempt, by performance.now(). */
  readonly dueAt: number;
}

const MOST_EVENTS = 1024;
const MOST_BYTES = 8 << 20;

class Retries {
  readonly #waiting = new Set<Retry>();
  #bytes = 0;
  #earliest = Infinity;

  get full(): boolean {
    return this.#waiting.size >= MOST_EVENTS || this.#bytes >= MOST_BYTES;
  }

  /** Time of the next attempt; Infinity if there is none. */
  get earliest(): number {
    return this.#earliest;
  }

  add(retry: Retry): void {
    this.#waiting.add(retry);
    this.#bytes += retry.event.body.length;
    this.#earliest = Math.min(this.#earliest, retry.dueAt);
  }

  /** Removes and returns the event that has been due longest. */
  takeDue(now: number): Retry | undefined {
    if (now < this.#earliest) return undefined;
    let first: Retry | undefined;
    let second = Infinity;
    for (const retry of this.#waiting) {
      if (!first || retry.dueAt < first.dueAt) {
        second = first?.dueAt ?? Infinity;
        first = retry;
      } else second = Math.min(second, retry.dueAt);
    }
    this.#earliest = second;
    if (!first) return undefined;
    this.#waiting.delete(first);
    this.#bytes -= first.event.body.length;
    return first;
  }

  takeAll(): readonly Retry[] {
    const all = [...this.#waiting];
    this.#waiting.clear();
    [this.#bytes, this.#earliest] = [0, Infinity];
    return all;
  }
}

/** Bounds of the random pause before the next attempt, which double each time ("full jitter"). */
export interface Backoff {
  readonly firstMs: number;
  readonly longestMs: number;
}

const BACKOFF: Backoff = { firstMs: 200, longestMs: 30_000 };

/** @param attempt 1 after the first failure. */
function pauseAfter(attempt: number, { firstMs, longestMs }: Backoff): number {
  return Math.random() * Math.min(longestMs, firstMs * 2 ** (attempt - 1));
}
