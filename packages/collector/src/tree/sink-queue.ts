import { type Published, type Sink, SinkForked, SinkTrouble } from './sink.js';
import type { SinkState } from './state-files.js';

/** Milliseconds between the first failure and the next try, doubling from failure to failure; with jitter. */
export interface RetryPolicy {
  readonly firstMs: number;
  readonly mostMs: number;
}

/** How many checkpoints wait for a sink that is owed every one: 1,000 seconds of them, 300 KB. */
const MOST_WAITING = 1000;

export interface SinkQueueOptions {
  readonly retryPolicy: RetryPolicy;
  /** What the last collector left. */
  readonly before: SinkState | undefined;
  readonly now: () => number;
  /** Called when trouble begins, and when it becomes another. */
  readonly onTrouble: (message: string) => void;
  /** Called instead when the sink holds a checkpoint of this log that the ledger contradicts. */
  readonly onForked: (message: string) => void;
  /** Called when the sink holds less than it has taken; it is used all the same. */
  readonly onLost: () => void;
  readonly onRecovered: () => void;
  /** @param changed whether it is more than that one more checkpoint was delivered. */
  readonly onState: (changed: boolean) => void;
}

/**
 * One sink, and the checkpoints that wait for it.
 *
 * Invariants: at most one try is under way; a checkpoint that failed is tried again before any other; the newest is never
 * dropped.
 */
export class SinkQueue {
  /** Oldest first; without the one that the sink is being given. */
  readonly #queue: Published[] = [];
  #given: Published | undefined;
  #state: SinkState | undefined;
  #dropped = 0;
  /** When the sink was last found to hold less than it had taken. */
  #lostAt: string | undefined;
  readonly #abort = new AbortController();
  /** The trouble that was reported, until the recovery is: its message, or that it is a contradiction. */
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

  /** Undefined before the first try has an outcome. */
  get state(): SinkState | undefined {
    if (this.#state === undefined) return undefined;
    // What the last collector had to drop, it has reported.
    return {
      ...this.#state,
      dropped: this.#dropped,
      ...(this.#lostAt !== undefined && { lost_at: this.#lostAt }),
    };
  }

  /** Checkpoints that are not delivered yet. */
  get waiting(): number {
    return this.#queue.length + (this.#given === undefined ? 0 : 1);
  }

  /** Never throws and never waits. */
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

  /** Resolves when the sink has everything, or has failed once more. Nothing is taken any more. */
  async close(): Promise<void> {
    if (this.#phase === 'open') this.#phase = 'closing';
    this.#endBackOff();
    await this.#running;
  }

  /** Gives up what is under way or waits. Nothing is reported any more, but the state says so. */
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
    // Anyone who publishes does not wait for a sink's first steps.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#queue.length > 0 && this.#phase !== 'closed') {
      const begun = this.#phase;
      if (await this.#try()) continue;
      // One that began before the end says little of the newest; one that began after it was the last.
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
      // Where only the newest is wanted, a newer one may have come.
      if (this.sink.wants === 'every' || this.#queue.length === 0) this.#queue.unshift(given);
      this.#failed(error);
      return false;
    }
  }

  async #backOff(): Promise<void> {
    if (this.#phase !== 'open') return;
    const { firstMs, mostMs } = this.options.retryPolicy;
    const most = Math.min(mostMs, firstMs * 2 ** (this.#failures - 1));
    // Sinks that failed together do not come back together.
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
    // A contradiction stays the same one while the ledger grows, and its message has the ledger's size.
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
