/**
 * Takes checkpoints off this host: hands each to every sink, and knows how the sinks do.
 *
 * A sink that is down delays nothing. `publish` only notes the checkpoint; each sink has its own queue, its own time
 * limit and its own retries; sinks on disks that may hang run in a process of their own, which can be killed.
 */
import path from 'node:path';
import type { HashSource } from './merkle.js';
import type { NoteKey } from './note-signing.js';
import { checkpointOf, type LogView, rootIn, SinkQueue, type RetryPolicy } from './sink-queue.js';
import { SinkWorker } from './sink-worker.js';
import { LESS, readSinkStates, sharedPlace, writeSinkStates, type SinkState } from './state-files.js';
import type { Published, Sink, SinkSpec } from './sink.js';
import { Witness } from './witness.js';

export interface PublisherOptions {
  readonly sinks: readonly SinkSpec[];
  /** The ledger's tree, at least up to what is published. Read on the thread that calls `publish`. */
  readonly tiles: HashSource;
  readonly entries: LogView['entries'];
  /** States and cosignatures are kept in its `checkpoints`. */
  readonly dataDir: string;
  /** Every key that may have signed a checkpoint of this log. Asked each time: there may be a new one. */
  readonly logKeys: () => readonly NoteKey[];
  /** Told when a sink's trouble begins, and when it becomes another one. */
  readonly onTrouble: (sink: string, message: string) => void;
  /** Told instead when a sink has seen a checkpoint of this log that the ledger does not agree with. */
  readonly onForked: (sink: string, message: string) => void;
  /** Told once that checkpoints of another log lie in a sink's place; it is used all the same. */
  readonly onShared: (sink: string, message: string) => void;
  /** Told each time that a sink's place holds less than it was left with; it is used all the same. */
  readonly onLost: (sink: string, message: string) => void;
  readonly onRecovered: (sink: string) => void;
  /** How the sinks do cannot be written down for doctor, which is no trouble of theirs. Told until it can be again. */
  readonly onUnwritten: (message: string) => void;
  readonly now?: () => number;
  readonly fetch?: typeof fetch;
  readonly retryPolicy?: RetryPolicy;
  /** Runs directories and files; a process of their own when not given. */
  readonly worker?: Pick<SinkWorker, 'sinkOf' | 'kill'>;
}

const RETRY_POLICY: RetryPolicy = { firstMs: 1000, mostMs: 60_000, tryMs: 10_000 };
/**
 * The states are written so often at most while nothing but the newest checkpoint changes, in milliseconds: seldom
 * enough to cost nothing, and soon enough for doctor to tell of the checkpoint that an operator has just seen.
 */
const STATES_EVERY_MS = 1000;

/** A sink, and how it does. */
export interface SinkView {
  readonly kind: SinkSpec['kind'];
  /** As it was given, but a witness's key is replaced by its name. */
  readonly shown: string;
  /** Undefined before the first try has come to something. */
  readonly state: SinkState | undefined;
  /** Checkpoints that it is still owed. */
  readonly waiting: number;
}

export class Publisher {
  readonly #options: PublisherOptions;
  /** One a sink. */
  readonly #queues: readonly SinkQueue[];
  readonly #worker: Pick<SinkWorker, 'sinkOf' | 'kill'>;
  #statesTimer: NodeJS.Timeout | undefined;
  #unwrittenReported = false;
  #closed = false;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#worker = options.worker ?? new SinkWorker();
    const before = statesBefore(options.dataDir);
    this.#queues = options.sinks.map((spec) => this.#queueOf(this.#sinkOf(spec), before));
    if (options.sinks.length > 0 || before.length > 0) this.#writeStates();
  }

  /** The sinks in the order of the option. */
  get sinks(): readonly SinkView[] {
    return this.#options.sinks.map(({ kind, shown }, i) => ({
      kind,
      shown,
      state: this.#queues[i]?.state,
      waiting: this.#queues[i]?.waiting ?? 0,
    }));
  }

  /** Sends the checkpoint on its way. Never throws and never waits. */
  publish(note: string): void {
    if (this.#closed || this.#queues.length === 0) return;
    let published: Published;
    try {
      published = { note, checkpoint: checkpointOf(note) };
    } catch (error) {
      this.#options.onTrouble('every sink', `was not given a checkpoint: ${messageOf(error)}`);
      return;
    }
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
    this.#worker.kill();
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
      onShared: (origin) => options.onShared(shown, sharedPlace(origin)),
      onLost: () => options.onLost(shown, LESS),
      onRecovered: () => options.onRecovered(shown),
      onState: (changed) => this.#noteStates(changed),
    });
  }

  #sinkOf(spec: SinkSpec): Sink {
    const { tiles, entries, logKeys, dataDir } = this.#options;
    const log: LogView = { rootAt: (size) => rootIn(tiles, size), entries, logKeys };
    if (spec.kind === 'witness') {
      const directory = path.join(dataDir, 'checkpoints');
      return new Witness({ ...spec, directory, tiles, log, fetch: this.#options.fetch ?? fetch });
    }
    return this.#worker.sinkOf(spec, log);
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
      // The sinks go on without it.
      if (!this.#unwrittenReported) this.#options.onUnwritten(messageOf(error));
      this.#unwrittenReported = true;
    }
  }
}

/** What cannot be read is written again. */
function statesBefore(dataDir: string): SinkState[] {
  try {
    return readSinkStates(dataDir);
  } catch {
    return [];
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
