import { fork, type ChildProcess } from 'node:child_process';
import type { LogView } from './sink-queue.js';
import type { Delivery, RootAnswer, SinkReport } from './sink-process.js';
import {
  type Attempt,
  type DiskSinkSpec,
  type Published,
  type Sink,
  SinkForked,
  SinkTrouble,
} from './sink.js';

/** Old-space of the process, MiB. It holds a few dozen notes at a time. */
const HEAP_MIB = 64;

interface UnderWay {
  readonly sink: DiskSinkSpec;
  readonly attempt: Attempt;
  readonly log: LogView;
  readonly resolve: (count: number) => void;
  readonly reject: (error: SinkTrouble) => void;
}

/**
 * Runs directory and file sinks in a process of their own, which is started at the first delivery, and again when it
 * has ended. A delivery that hangs is pending until it returns, or until `kill`. Keeps nobody's event loop alive.
 */
export class SinkWorker {
  /** One a sink at most. */
  readonly #underWay = new Map<string, UnderWay>();
  #child: ChildProcess | undefined;
  #killed = false;

  constructor(
    /** The compiled module of the process. */
    private readonly program = new URL('sink-process.js', import.meta.url),
  ) {}

  sinkOf(sink: DiskSinkSpec, log: LogView): Sink {
    return {
      shown: sink.shown,
      wants: 'every',
      deliver: (notes, attempt) => this.#deliver(sink, log, notes, attempt),
    };
  }

  /** Ends the process, whatever it is at; all deliveries reject, these and later ones. */
  kill(): void {
    this.#killed = true;
    this.#ended(this.#child);
  }

  /** For tests: the process, when there is one. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  #deliver(sink: DiskSinkSpec, log: LogView, notes: readonly Published[], attempt: Attempt): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#killed) {
        reject(gone(sink));
        return;
      }
      const keys = log.logKeys().map(({ vkey }) => vkey);
      this.#child ??= this.#start();
      this.#underWay.set(sink.shown, { sink, attempt, log, resolve, reject });
      this.#send({ kind: 'deliver', sink, notes, newest: attempt.newest, entries: log.entries(), keys });
    });
  }

  #start(): ChildProcess {
    const child = fork(this.program, {
      execArgv: [`--max-old-space-size=${HEAP_MIB}`],
      // Bytes as bytes.
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    child.on('message', (report: SinkReport) => {
      if (child === this.#child) this.#take(report);
    });
    for (const end of ['error', 'exit', 'disconnect'] as const) child.on(end, () => this.#ended(child));
    child.unref();
    child.channel?.unref();
    return child;
  }

  #send(message: Delivery | RootAnswer): void {
    const child = this.#child;
    child?.send(message, (error) => {
      if (error) this.#ended(child);
    });
  }

  #take(report: SinkReport): void {
    const underWay = this.#underWay.get(report.shown);
    if (underWay === undefined) return;
    const { attempt, resolve, reject } = underWay;
    if (report.kind === 'progress') attempt.progress();
    else if (report.kind === 'lost') attempt.lost();
    else if (report.kind === 'alsoHolds') attempt.alsoHolds(report.origin);
    else if (report.kind === 'rootAt') this.#answer(underWay, report.size).catch(() => this.kill());
    else {
      this.#underWay.delete(report.shown);
      if (report.kind === 'given') resolve(report.count);
      else reject(new (report.state === 'forked' ? SinkForked : SinkTrouble)(report.message));
    }
  }

  /** Never rejects. */
  async #answer({ sink, log }: UnderWay, size: number): Promise<void> {
    const child = this.#child;
    let root: Uint8Array | string;
    try {
      root = await log.rootAt(size);
    } catch (error) {
      root = error instanceof Error ? error.message : String(error);
    }
    // Another process has not asked.
    if (child === this.#child) this.#send({ kind: 'root', sink, root });
  }

  #ended(child: ChildProcess | undefined): void {
    if (child !== this.#child) return;
    this.#child = undefined;
    child?.kill('SIGKILL');
    for (const { sink, reject } of this.#underWay.values()) reject(gone(sink));
    this.#underWay.clear();
  }
}

function gone({ path }: DiskSinkSpec): SinkTrouble {
  return new SinkTrouble(
    `${path} could not be written: the process that writes it has ended, and is started again (EPIPE)`,
  );
}
