import { type Published, type Sink, SinkForked, SinkTrouble } from './sink.js';
import type { SinkState } from './state-files.js';

/** Pauses between attempts in milliseconds: the pause doubles with each failure, with jitter. */
export interface RetryPolicy {
  readonly firstMs: number;
  readonly mostMs: number;
}

/** Limit of checkpoints that wait for a sink: about 1,000 seconds, 300 KB. */
const MOST_WAITING = 1000;

export interface SinkQueueOptions {
  readonly retryPolicy: RetryPolicy;
  /** State at the end of the last run. */
  readonly before: SinkState | undefined;
  readonly now: () => number;
  /** Called when a fault begins or changes. */
  readonly onTrouble: (message: string) => void;
  /** Called instead when the sink holds a checkpoint of this log that contradicts the ledger. */
  readonly onForked: (message: string) => void;
  /** Called when the sink holds less than it took; the sink stays in use. */
  readonly onLost: () => void;
  readonly onRecovered: () => void;
  /** @param changed false if only the newest delivered checkpoint changed. */
  readonly onState: (changed: boolean) => void;
}

/**
 * One sink, and the checkpoints that wait for it.
 *
 * Invariants: at most one attempt runs; a failed checkpoint is tried again before any other; the newest is
 * never dropped.
 */
export class SinkQueue {
  /** Oldest first; excludes the checkpoint of the running attempt. */
  readonly #queue: Published[] = [];
  #given: Published | undefined;
  #state: SinkState | undefined;
  #dropped = 0;
  /** Time at which the sink last held less than it took. */
  #lostAt: string | undefined;
  readonly #abort = new AbortController();
  /** The reported fault, until the recovery: its message, or 'forked'. */
  #reported: string | undefined;
  #failures = 0;
  #running: Promise<void> | undefined;
  #endBackOff: () => void = () => undefined;
  #phase: 'open' | 'closing' | 'closed' = 'open';

  constructor(
    private readonly sink: Sink,
    private readonly options: SinkQueueOptions,
  ) {
    this.#state = options.before;
  }

  /** The state of the sink; undefined before the first attempt ends. */
  get state(): SinkState | undefined {
    if (this.#state === undefined) return undefined;
    // Counts since the start of this run.
    return {
      ...this.#state,
      dropped: this.#dropped,
      ...(this.#lostAt !== undefined && { lost_at: this.#lostAt }),
    };
  }

  /** Number of checkpoints that are not delivered yet. */
  get waiting(): number {
    return this.#queue.length + (this.#given === undefined ? 0 : 1);
  }

  /** Queues a checkpoint. Never throws and never waits. */
  offer(published: Published): void {
    if (this.#phase !== 'open') return;
    if (this.sink.wants === 'newest') this.#queue.length = 0;
    this.#queue.push(published);
    if (this.waiting > MOST_WAITING) {
      this.#queue.shift();
      this.#dropped++;
      this.options.onState(false);
    }
    this.#running ??= this.#run();
  }

  /** Accepts no more checkpoints. Resolves when the sink has all of them, or fails once more. */
  async close(): Promise<void> {
    if (this.#phase === 'open') this.#phase = 'closing';
    this.#endBackOff();
    await this.#running;
  }

  /** Abandons the running attempt and the queue. The state records it; no callback is called. */
  abandon(): void {
    if (this.#phase === 'closed') return;
    const left = this.waiting;
    if (left > 0) {
      if (this.#state?.state !== 'failing' && this.#state?.state !== 'forked') {
        this.#enterTrouble('failing', 'had not taken the newest checkpoint when the collector ended');
      }
      if (this.sink.wants === 'every') this.#dropped += left;
    }
    this.#phase = 'closed';
    this.#abort.abort();
    this.#endBackOff();
  }

  async #run(): Promise<void> {
    // The caller of `offer` must not wait for the start of an attempt.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#queue.length > 0 && this.#phase !== 'closed') {
      const begun = this.#phase;
      if (await this.#try()) continue;
      // After `close`, only an attempt that began after it is the last one.
      if (begun === 'closing') break;
      await this.#backOff();
    }
    this.#running = undefined;
  }

  /** @returns whether it was delivered. */
  async #try(): Promise<boolean> {
    const given = (this.#given = this.#queue.shift());
    if (given === undefined) return false;
    try {
      await this.sink.deliver(given, {
        signal: this.#abort.signal,
        delivered: this.#state?.size,
        lost: () => this.#lost(),
      });
      this.#given = undefined;
      this.#delivered(given);
      return true;
    } catch (error) {
      this.#given = undefined;
      // If the sink wants only the newest, a newer one may be queued.
      if (this.sink.wants === 'every' || this.#queue.length === 0) this.#queue.unshift(given);
      this.#failed(error);
      return false;
    }
  }

  async #backOff(): Promise<void> {
    if (this.#phase !== 'open') return;
    const { firstMs, mostMs } = this.options.retryPolicy;
    const most = Math.min(mostMs, firstMs * 2 ** (this.#failures - 1));
    // Jitter, so that sinks that failed together do not retry together.
    const ms = most * (0.5 + Math.random() / 2);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#endBackOff = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#endBackOff = () => undefined;
  }

  #lost(): void {
    if (this.#phase === 'closed') return;
    this.#lostAt = this.#instant();
    this.options.onLost();
    this.options.onState(true);
  }

  #delivered({ checkpoint }: Published): void {
    if (this.#phase === 'closed') return;
    const changed = this.#state?.state !== 'ok';
    this.#failures = 0;
    this.#state = { sink: this.sink.shown, state: 'ok', size: checkpoint.size, at: this.#instant() };
    this.options.onState(changed);
    if (this.#reported === undefined) return;
    this.#reported = undefined;
    this.options.onRecovered();
  }

  #failed(error: unknown): void {
    if (this.#phase === 'closed') return;
    this.#failures++;
    const trouble =
      error instanceof SinkTrouble ? error : new SinkTrouble('cannot be used', { cause: error });
    const forked = trouble instanceof SinkForked;
    const state = forked ? 'forked' : 'failing';
    const before = this.#state;
    this.#enterTrouble(state, trouble.message);
    this.options.onState(before?.state !== state || before.message !== trouble.message);
    // The message of a fork contains the ledger's size, which grows: report it once.
    const what = forked ? state : trouble.message;
    if (this.#reported === what) return;
    this.#reported = what;
    if (forked) this.options.onForked(trouble.message);
    else this.options.onTrouble(trouble.message);
  }

  #enterTrouble(state: 'failing' | 'forked', message: string): void {
    const { size, at, failing_since } = this.#state ?? {};
    this.#state = {
      sink: this.sink.shown,
      state,
      ...(size !== undefined && { size }),
      ...(at !== undefined && { at }),
      failing_since: failing_since ?? this.#instant(),
      message,
    };
  }

  #instant(): string {
    return new Date(this.options.now()).toISOString();
  }
}
