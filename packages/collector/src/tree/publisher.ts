/**
 * Publishes checkpoints: hands each to every sink, and keeps the state of each sink.
 *
 * A sink that is down delays nothing. `publish` only queues the checkpoint; each sink has its own queue, time
 * limit and retries, and programs run in a helper process, which can be killed.
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
  /** Its `checkpoints` keeps states and cosignatures. */
  readonly dataDir: string;
  /** Called when a sink's fault begins or changes. */
  readonly onTrouble: (sink: string, message: string) => void;
  /** Called instead when a sink holds a checkpoint of this log that contradicts the ledger. */
  readonly onForked: (sink: string, message: string) => void;
  /** Called when a sink holds less than it took; the sink stays in use. */
  readonly onLost: (sink: string, message: string) => void;
  readonly onRecovered: (sink: string) => void;
  /** Called once when the states cannot be written for doctor, which does not affect the sinks. */
  readonly onUnwritten: (message: string) => void;
  readonly now?: () => number;
  readonly fetch?: typeof fetch;
  readonly retryPolicy?: RetryPolicy;
  readonly helper?: SinkHelper;
}

const RETRY_POLICY: RetryPolicy = { firstMs: 1000, mostMs: 60_000 };
/** Interval of writing the states while only the newest checkpoint changes, in milliseconds. */
const STATES_EVERY_MS = 1000;

/** A sink and its state. */
export interface SinkView {
  readonly kind: SinkSpec['kind'];
  /** The configured value; for a witness, the name of its key in place of the key. */
  readonly shown: string;
  /** Undefined before the first attempt ends. */
  readonly state: SinkState | undefined;
  /** Number of checkpoints that wait for it. */
  readonly waiting: number;
}

export class Publisher {
  readonly #options: PublisherOptions;
  /** One for each sink. */
  readonly #queues: readonly SinkQueue[];
  readonly #helper: SinkHelper;
  #statesTimer: NodeJS.Timeout | undefined;
  #unwrittenReported = false;
  #closed = false;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#helper = options.helper ?? new SinkHelper();
    // Started early, because a start blocks the event loop.
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

  /** Queues the checkpoint for all sinks. @throws NoteMalformed */
  publish(note: string): void {
    if (this.#closed || this.#queues.length === 0) return;
    const published = { note, checkpoint: checkpointOf(note) };
    for (const queue of this.#queues) queue.offer(published);
  }

  /**
   * Gives the sinks a time, in milliseconds, to take the queued checkpoints, without further retries. On
   * return no attempt runs, and the states record which sinks lack the newest checkpoint. Never rejects.
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

/** Returns no states if the file cannot be read: it is written again. */
function statesBefore(dataDir: string): SinkState[] {
  try {
    return readSinkStates(dataDir);
  } catch {
    return [];
  }
}
