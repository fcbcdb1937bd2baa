/**
 * The helper process: starts the programs of the sinks, speaks with them (docs/reference/sink-programs.md), and kills one
 * that does not keep to the protocol. Its own process, because a start blocks the event loop of a large process for 12 to
 * 26 ms, and because it can be killed when a program or a mount hangs.
 */
import '../stray-signals.js';
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { endGroup } from '../programs.js';
import { systemCode } from '../system-code.js';
import { showable } from './program.js';

/** The collector asks one thing at a time for each sink. */
export interface SinkRequest {
  /** Its number. */
  readonly sink: number;
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** To be kept. Without one, the program is started, once the one before has ended. */
  readonly note?: string;
}

/** One for each request, but for `started` and `ended`. An empty note: it holds none. */
export type SinkReply = { readonly sink: number } & (
  | { readonly kind: 'started'; readonly pid: number }
  | { readonly kind: 'ended'; readonly pid: number }
  | { readonly kind: 'held'; readonly note: string }
  | { readonly kind: 'kept' }
  | { readonly kind: 'again' | 'fork'; readonly reason: string; readonly note: string }
  /** The program was killed; it has to be started again. */
  | { readonly kind: 'failed'; readonly why: string }
);

type Answer =
  | { readonly kind: 'kept' }
  | { readonly kind: 'again' | 'fork'; readonly reason: string; readonly note: string };

/** Milliseconds for an answer. */
const ANSWER_MS = Number(process.argv[2]);
/** So long a start waits for the end of the program before. */
const END_MS = 1000;
const MOST_LINE_BYTES = 1000;
const MOST_NOTE_BYTES = 64 << 10;
/** Empty lines by which a program asks for time, before one answer. */
const MOST_EMPTY_LINES = 1000;

/** The program cannot be used further. */
class ProgramFailed extends Error {
  override name = 'ProgramFailed';
}

/** Neither what it printed nor what it was given is repeated: both may be secret. */
const nonsense = () =>
  new ProgramFailed('answers otherwise than docs/reference/sink-programs.md says, and was killed');

/** A program that runs. Invariant: one question to it is open at most. */
class RunningProgram {
  readonly pid: number | undefined;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  /** Read on demand, so that a program that floods its output waits. */
  readonly #output: AsyncIterator<Buffer>;
  #buffer = Buffer.alloc(0);
  /** Resolves with how it ended. */
  readonly ended: Promise<string>;
  #hasEnded = false;

  constructor([program = '', ...args]: readonly string[]) {
    const child = spawn(program, args, {
      ...{ cwd: '/', env: {}, stdio: ['pipe', 'pipe', 'ignore'], windowsHide: true },
      // A process group of its own, which is killed with it.
      detached: true,
    });
    this.#child = child;
    this.pid = child.pid;
    this.ended = new Promise((resolve) => {
      child.on('error', (error) => resolve(`cannot be started (${systemCode(error) ?? 'UNKNOWN'})`));
      child.on('exit', (code, signal) => {
        this.kill();
        this.#hasEnded = true;
        resolve(signal === null ? `ended with exit code ${code ?? -1}` : `was ended by ${signal}`);
      });
    });
    // It may end without reading; its missing answer tells.
    child.stdin.on('error', () => undefined);
    this.#output = (child.stdout as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  }

  /** The newest note that it holds; it says so at the start, and after `again` and `fork`. */
  async held(): Promise<string> {
    const line = await this.#line();
    const [, why] = /^again (.+)$/.exec(line) ?? [];
    if (why !== undefined) throw new ProgramFailed(why);
    const size = Number(/^held (0|[1-9]\d{0,5})$/.exec(line)?.[1] ?? NaN);
    if (!(size <= MOST_NOTE_BYTES)) throw nonsense();
    return inTime(this.#take(size));
  }

  async give(note: string): Promise<Answer> {
    if (this.#buffer.length > 0 || this.#child.stdout.readableLength > 0) throw nonsense();
    this.#child.stdin.write(`${Buffer.byteLength(note)}\n${note}`);
    const line = await this.#line();
    if (line === 'kept') return { kind: 'kept' };
    const [, kind, reason = ''] = /^(again|fork) (.+)$/.exec(line) ?? [];
    if (kind !== 'again' && kind !== 'fork') throw nonsense();
    return { kind, reason, note: await this.held() };
  }

  kill(): void {
    // Later its id may be another's.
    if (!this.#hasEnded) endGroup(this.pid);
  }

  /** Kills it. @returns whether it has ended: one that waits for a mount may not. */
  async end(): Promise<boolean> {
    this.kill();
    return await Promise.race([this.ended.then(() => true), later(END_MS).then(() => false)]);
  }

  /** The next line that is not empty, without what a terminal cannot be shown. */
  async #line(): Promise<string> {
    for (let i = 0; i < MOST_EMPTY_LINES; i++) {
      const line = await inTime(this.#anyLine());
      if (line !== '') return showable(line);
    }
    throw nonsense();
  }

  async #anyLine(): Promise<string> {
    for (;;) {
      const end = this.#buffer.indexOf('\n');
      if (end > MOST_LINE_BYTES || (end === -1 && this.#buffer.length > MOST_LINE_BYTES)) throw nonsense();
      if (end === -1) await this.#read();
      else return (await this.#take(end + 1)).slice(0, -1);
    }
  }

  async #take(size: number): Promise<string> {
    while (this.#buffer.length < size) await this.#read();
    const taken = this.#buffer.toString('utf8', 0, size);
    this.#buffer = this.#buffer.subarray(size);
    return taken;
  }

  async #read(): Promise<void> {
    let next: IteratorResult<Buffer>;
    try {
      next = await this.#output.next();
    } catch {
      next = { done: true, value: undefined };
    }
    if (next.done !== true) {
      this.#buffer = Buffer.concat([this.#buffer, next.value]);
      return;
    }
    throw new ProgramFailed(
      await Promise.race([this.ended, later(END_MS).then(() => 'has closed its output')]),
    );
  }
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

async function inTime<Value>(work: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const why = `gives no answer within ${ANSWER_MS / 1000} seconds, and was killed`;
    timer = setTimeout(() => reject(new ProgramFailed(why)), ANSWER_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    // Its end comes later, and concerns no one.
    work.catch(() => undefined);
  }
}

const programs = new Map<number, RunningProgram>();

async function answer({ sink, command, note }: SinkRequest): Promise<SinkReply> {
  const running = programs.get(sink);
  try {
    if (note !== undefined) {
      if (running === undefined) throw new ProgramFailed('was not started');
      return { sink, ...(await running.give(note)) };
    }
    if (running !== undefined && !(await running.end())) {
      throw new ProgramFailed('was killed and has not ended yet');
    }
    const started = new RunningProgram(command);
    programs.set(sink, started);
    const { pid } = started;
    if (pid !== undefined) {
      reply({ sink, kind: 'started', pid });
      started.ended.then(
        () => reply({ sink, kind: 'ended', pid }),
        () => undefined,
      );
    }
    return { sink, kind: 'held', note: await started.held() };
  } catch (error) {
    programs.get(sink)?.kill();
    return { sink, kind: 'failed', why: error instanceof ProgramFailed ? error.message : 'cannot be used' };
  }
}

function reply(message: SinkReply): void {
  process.send?.(message);
}

process.on('message', (request: SinkRequest) => {
  answer(request).then(reply, () => process.kill(process.pid, 'SIGKILL'));
});
process.on('disconnect', () => {
  for (const program of programs.values()) program.kill();
  // Not `exit`: a program keeps nothing that it has acknowledged in memory, and nothing here can be lost.
  process.kill(process.pid, 'SIGKILL');
});
// Anyone who stops a service or a terminal signals every process of it; the last checkpoints come after that.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => undefined);
