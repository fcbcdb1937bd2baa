/**
 * Takes checkpoints off this host: hands each to every sink, and knows the state of each.
 *
 * A sink that is down delays nothing. `publish` only notes the checkpoint; each sink has its own queue, its own time
 * limit and its own retries; programs are run by a helper process, which can be killed.
 */
import path from 'node:path';
import { checkpointOf, type LogView } from './log-view.js';
import { SinkHelper } from './program-sink.js';
import { type RetryPolicy, SinkQueue } from './sink-queue.js';
import { LESS, readSinkStates, writeSinkStates, type SinkState } from './state-files.js';
import type { Sink, SinkSpec } from './sink.js';
import { Witness } from './witness.js';

export interface PublisherOptions extends LogView {
  readonly sinks: readonly SinkSpec[];
  /** States and cosignatures are kept in its `checkpoints`. */
  readonly dataDir: string;
  /** Called when a sink's trouble begins, and when it becomes another one. */
  readonly onTrouble: (sink: string, message: string) => void;
  /** Called instead when a sink holds a checkpoint of this log that the ledger contradicts. */
  readonly onForked: (sink: string, message: string) => void;
  /** Called when a sink holds less than it has taken; it is used all the same. */
  readonly onLost: (sink: string, message: string) => void;
  readonly onRecovered: (sink: string) => void;
  /** The states cannot be written for doctor, which does not affect the sinks. Called once until they can be again. */
  readonly onUnwritten: (message: string) => void;
  readonly now?: () => number;
  readonly fetch?: typeof fetch;
  readonly retryPolicy?: RetryPolicy;
  readonly helper?: SinkHelper;
}

const RETRY_POLICY: RetryPolicy = { firstMs: 1000, mostMs: 60_000 };
/**
 * How often the states are written at most while only the newest checkpoint changes, in milliseconds: seldom enough to
 * cost nothing, and soon enough for doctor to show the checkpoint that an operator has just seen.
 */
const STATES_EVERY_MS = 1000;

/** A sink and its state. */
export interface SinkView {
  readonly kind: SinkSpec['kind'];
  /** As it was given, but a witness's key is replaced by its name. */
  readonly shown: string;
  /** Undefined before the first try has an outcome. */
  readonly state: SinkState | undefined;
  /** Checkpoints that wait for it. */
  readonly waiting: number;
}

export class Publisher {
  readonly #options: PublisherOptions;
  /** One a sink. */
  readonly #queues: readonly SinkQueue[];
  readonly #helper: SinkHelper;
  #statesTimer: NodeJS.Timeout | undefined;
  #unwrittenReported = false;
  #closed = false;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#helper = options.helper ?? new SinkHelper();
    // Now, because a start blocks the event loop.
    if (options.sinks.some(({ kind }) => kind !== 'witness')) this.#helper.start();
    const before = statesBefore(options.dataDir);
    this.#queues = options.sinks.map((spec, i) => this.#queueOf(this.#sinkOf(spec, i), before));
    if (options.sinks.length > 0 || before.length > 0) this.#writeStates();
  }

  /** The sinks in the order of the option. */
  get sinks(): readonly SinkView[] {
    return this.#queues.map(({ state, waiting }, i) => {
      const { kind, shown } = this.#options.sinks[i] as SinkSpec;
      return { kind, shown, state, waiting };
    });
  }

  /** Sends the checkpoint on its way, and does not wait. @throws NoteMalformed */
  publish(note: string): void {
    if (this.#closed || this.#queues.length === 0) return;
    const published = { note, checkpoint: checkpointOf(note) };
    for (const queue of this.#queues) queue.offer(published);
  }

  /**
   * Gives the sinks the time that is named, in milliseconds, to take what waits; a sink that fails then is not tried
   * again. On return nothing is under way, and the states tell what was not delivered. Never rejects.
   */
  async close(timeoutMs: number): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    let timer: NodeJS.Timeout | undefined;
    const timeIsUp = new Promise((resolve) => (timer = setTimeout(resolve, timeoutMs)));
    await Promise.race([Promise.all(this.#queues.map((queue) => queue.close())), timeIsUp]);
    clearTimeout(timer);
    for (const queue of this.#queues) queue.abandon();
    this.#helper.kill();
    if (this.#queues.length > 0) this.#writeStates();
  }

  #queueOf(sink: Sink, before: readonly SinkState[]): SinkQueue {
    const options = this.#options;
    const { shown } = sink;
    return new SinkQueue(sink, {
      retryPolicy: options.retryPolicy ?? RETRY_POLICY,
      before: before.find((state) => state.sink === shown),
      now: options.now ?? Date.now,
      onTrouble: (message) => options.onTrouble(shown, message),
      onForked: (message) => options.onForked(shown, message),
      onLost: () => options.onLost(shown, LESS),
      onRecovered: () => options.onRecovered(shown),
      onState: (changed) => this.#noteStates(changed),
    });
  }

  #sinkOf(spec: SinkSpec, number: number): Sink {
    const { dataDir } = this.#options;
    if (spec.kind !== 'witness') return this.#helper.sinkOf(spec, number, this.#options);
    const directory = path.join(dataDir, 'checkpoints');
    return new Witness({ ...spec, directory, log: this.#options, fetch: this.#options.fetch ?? fetch });
  }

  #noteStates(changed: boolean): void {
    if (this.#closed) return;
    if (changed) this.#writeStates();
    else this.#statesTimer ??= setTimeout(() => this.#writeStates(), STATES_EVERY_MS).unref();
  }

  #writeStates(): void {
    clearTimeout(this.#statesTimer);
    this.#statesTimer = undefined;
    try {
      const states = this.#queues.flatMap(({ state }): SinkState[] => (state === undefined ? [] : [state]));
      writeSinkStates(this.#options.dataDir, states);
      this.#unwrittenReported = false;
    } catch (error) {
      if (!this.#unwrittenReported) this.#options.onUnwritten(String(error));
      this.#unwrittenReported = true;
    }
  }
}

/** States that cannot be read are written again. */
function statesBefore(dataDir: string): SinkState[] {
  try {
    return readSinkStates(dataDir);
  } catch {
    return [];
  }
}
