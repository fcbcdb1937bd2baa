/** Sinks that are programs, and the helper process that runs them (sink-helper.ts). */
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { endGroup } from '../programs.js';
import { assertContinues, type LogView, signedCheckpoint } from './log-view.js';
import type { SinkReply, SinkRequest } from './sink-helper.js';
import { type Attempt, type ProgramSinkSpec, type Published, type Sink, SinkTrouble } from './sink.js';

/** Time limit of a program's answer in milliseconds, after which it is killed. */
const ANSWER_MS = 30_000;
/** Heap limit of the collector's own programs in MiB: they hold a few notes at a time. */
const HEAP = '--max-old-space-size=32';

type Answer = Exclude<SinkReply, { kind: 'started' | 'ended' | 'failed' }>;

/** An open request. */
interface Question {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (trouble: SinkTrouble) => void;
}

/**
 * The helper process and its open requests. `start` starts it, and the next request after it has ended. It
 * does not keep the event loop alive.
 */
export class SinkHelper {
  /** Open requests by the number of the sink; at most one for each. */
  readonly #questions = new Map<number, Question>();
  /** Process groups of the programs, to be killed with the helper. */
  readonly #groups = new Map<number, number>();
  #child: ChildProcess | undefined;
  #killed = false;

  constructor(
    /** Directory of the compiled modules of the processes. */
    private readonly directory = new URL('.', import.meta.url),
    private readonly answerMs = ANSWER_MS,
  ) {}

  start(): void {
    if (!this.#killed) this.#child ??= this.#fork();
  }

  sinkOf(spec: ProgramSinkSpec, number: number, log: LogView): Sink {
    return new ProgramSink({ spec, number, log, helper: this, command: this.#commandOf(spec) });
  }

  /** Rejects with {@link SinkTrouble} if the program failed; a request without a note starts it again. */
  ask(request: SinkRequest): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.start();
      if (this.#child === undefined) {
        reject(gone());
        return;
      }
      const child = this.#child;
      this.#questions.set(request.sink, { resolve, reject });
      child.send(request, (error) => {
        if (error) this.#ended(child);
      });
    });
  }

  /** Kills the helper and the programs; all open and later requests reject. */
  kill(): void {
    this.#killed = true;
    this.#ended(this.#child);
  }

  /** The running helper and programs, for tests. */
  get pids(): { readonly helper: number | undefined; readonly programs: ReadonlyMap<number, number> } {
    return { helper: this.#child?.pid, programs: this.#groups };
  }

  #commandOf({ kind, path }: ProgramSinkSpec): readonly string[] {
    if (kind === 'program') return [path];
    return [process.execPath, HEAP, fileURLToPath(new URL('sink-program.js', this.directory)), kind, path];
  }

  #fork(): ChildProcess {
    const child = fork(new URL('sink-helper.js', this.directory), [String(this.answerMs)], {
      ...{ execArgv: [HEAP], env: {}, stdio: ['ignore', 'ignore', 'ignore', 'ipc'] },
    });
    child.on('message', (reply: SinkReply) => {
      if (child === this.#child) this.#take(reply);
    });
    for (const end of ['error', 'exit', 'disconnect'] as const) child.on(end, () => this.#ended(child));
    child.unref();
    child.channel?.unref();
    return child;
  }

  #take(reply: SinkReply): void {
    if (reply.kind === 'started') {
      this.#groups.set(reply.sink, reply.pid);
      return;
    }
    if (reply.kind === 'ended') {
      if (this.#groups.get(reply.sink) === reply.pid) this.#groups.delete(reply.sink);
      return;
    }
    const question = this.#questions.get(reply.sink);
    this.#questions.delete(reply.sink);
    if (reply.kind === 'failed') question?.reject(new SinkTrouble(reply.why));
    else question?.resolve(reply);
  }

  #ended(child: ChildProcess | undefined): void {
    if (child !== this.#child) return;
    this.#child = undefined;
    child?.kill('SIGKILL');
    for (const group of this.#groups.values()) endGroup(group);
    this.#groups.clear();
    for (const { reject } of this.#questions.values()) reject(gone());
    this.#questions.clear();
  }
}

function gone(): SinkTrouble {
  return new SinkTrouble(
    'cannot be used: the process that runs its program has ended, and will be started again',
  );
}

interface ProgramSinkOptions {
  readonly spec: ProgramSinkSpec;
  readonly number: number;
  readonly log: LogView;
  readonly helper: SinkHelper;
  readonly command: readonly string[];
}

class ProgramSink implements Sink {
  readonly wants = 'every';
  readonly shown: string;
  /** Whether the program runs, and the checkpoint that it holds agrees with the log. */
  #agrees = false;
  /** Size of the newest checkpoint that it is known to hold. */
  #holds: number | undefined;

  constructor(private readonly options: ProgramSinkOptions) {
    this.shown = options.spec.shown;
  }

  async deliver({ note, checkpoint }: Published, attempt: Attempt): Promise<void> {
    this.#holds ??= attempt.delivered;
    let again = false;
    try {
      if (!this.#agrees) {
        const started = await this.#ask();
        if (started.kind !== 'held') throw new SinkTrouble('cannot be used');
        await this.#compare(started.note, checkpoint, attempt);
        this.#agrees = true;
      }
      const answer = await this.#ask(note);
      if (answer.kind === 'kept') {
        this.#holds = Math.max(this.#holds ?? 0, checkpoint.size);
        return;
      }
      await this.#compare(answer.note, checkpoint, attempt);
      again = answer.kind === 'again';
      if (answer.kind === 'again') throw new SinkTrouble(answer.reason);
      throw new SinkTrouble('reports a fork, and the note that it returned does not prove one');
    } catch (error) {
      // Unless it answered `again`, the next attempt starts it again and compares its newest checkpoint.
      if (!again) this.#agrees = false;
      throw error;
    }
  }

  #ask(note?: string): Promise<Answer> {
    const { helper, number, command } = this.options;
    return helper.ask({ sink: number, command, ...(note !== undefined && { note }) });
  }

  /**
   * @throws SinkForked if the note contradicts the log, SinkTrouble if it is not a checkpoint of this log.
   */
  async #compare(note: string, newest: Checkpoint, { lost }: Attempt): Promise<void> {
    const { log } = this.options;
    const held = note === '' ? undefined : signedCheckpoint(note, newest.origin, log);
    if (this.#holds !== undefined && (held?.size ?? -1) < this.#holds) lost();
    this.#holds = held?.size;
    if (held !== undefined) await assertContinues(held, newest, 'it holds', log);
  }
}
