/**
 * The process that runs the directory and file sinks, started by SinkWorker: it gets checkpoints, and reports what came
 * of them.
 *
 * A call to a mount whose server has gone may never return. In the collector it would hold one of the four threads
 * that Node shares among all such calls, on which the ledger waits for room as well; and no process, whatever it
 * calls to end, ends before those threads have. This one may be killed at any time.
 */
import '../stray-signals.js';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { noteKey } from './note-signing.js';
import { DirectorySink, FileSink } from './disk-sinks.js';
import { nodeSinkFiles } from './sink-files.js';
import { type DiskSinkSpec, type Published, type Sink, SinkTrouble } from './sink.js';

/** Checkpoints for one sink. It gets the next ones when these are answered. */
export interface Delivery {
  readonly kind: 'deliver';
  readonly sink: DiskSinkSpec;
  readonly notes: readonly Published[];
  readonly newest: Checkpoint;
  /** How many entries the ledger holds, and the verifier keys that may have signed a checkpoint of it. */
  readonly entries: number;
  readonly keys: readonly string[];
}

/** The root that a sink asked for, or why there is none. */
export interface RootAnswer {
  readonly kind: 'root';
  readonly sink: DiskSinkSpec;
  readonly root: Uint8Array | string;
}

/** `shown` names the sink. All but `given` and `failed` leave its delivery under way. */
export type SinkReport = { readonly shown: string } & (
  | { readonly kind: 'progress' }
  | { readonly kind: 'lost' }
  | { readonly kind: 'alsoHolds'; readonly origin: string }
  | { readonly kind: 'rootAt'; readonly size: number }
  | { readonly kind: 'given'; readonly count: number }
  | { readonly kind: 'failed'; readonly state: SinkTrouble['state']; readonly message: string }
);

/** A sink, and what it is at. */
class RunningSink {
  readonly #sink: Sink;
  #delivery: Delivery | undefined;
  #takeRoot: (root: Uint8Array | string) => void = () => undefined;

  constructor(private readonly spec: DiskSinkSpec) {
    const log = {
      rootAt: (size: number) => this.#rootAt(size),
      entries: () => this.#delivery?.entries ?? 0,
      logKeys: () => this.#delivery?.keys.map(noteKey) ?? [],
    };
    const options = { ...spec, files: nodeSinkFiles, log };
    this.#sink = spec.kind === 'directory' ? new DirectorySink(options) : new FileSink(options);
  }

  take(message: Delivery | RootAnswer): Promise<void> {
    if (message.kind === 'deliver') return this.#deliver(message);
    this.#takeRoot(message.root);
    return Promise.resolve();
  }

  async #deliver(delivery: Delivery): Promise<void> {
    const { shown } = this.spec;
    this.#delivery = delivery;
    try {
      const count = await this.#sink.deliver(delivery.notes, {
        newest: delivery.newest,
        // Nothing on a disk can be called off.
        signal: new AbortController().signal,
        progress: () => report({ shown, kind: 'progress' }),
        alsoHolds: (origin) => report({ shown, kind: 'alsoHolds', origin }),
        lost: () => report({ shown, kind: 'lost' }),
      });
      report({ shown, kind: 'given', count });
    } catch (error) {
      const { state, message } = error instanceof SinkTrouble ? error : new SinkTrouble('cannot be used');
      report({ shown, kind: 'failed', state, message });
    }
  }

  async #rootAt(size: number): Promise<Uint8Array> {
    const answer = new Promise<Uint8Array | string>((resolve) => (this.#takeRoot = resolve));
    report({ shown: this.spec.shown, kind: 'rootAt', size });
    const root = await answer;
    if (typeof root === 'string') throw new SinkTrouble(root);
    return root;
  }
}

function report(message: SinkReport): void {
  process.send?.(message);
}

const sinks = new Map<string, RunningSink>();

process.on('message', (message: Delivery | RootAnswer) => {
  const sink = sinks.get(message.sink.shown) ?? new RunningSink(message.sink);
  sinks.set(message.sink.shown, sink);
  sink.take(message).catch(() => process.kill(process.pid, 'SIGKILL'));
});
// With the collector gone there is no one to write for. Not `exit`, which waits for calls that hang.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// Anyone who stops a service or a terminal signals every process of it; the last checkpoints come after that.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => undefined);
