/**
 * The helper process: starts the programs of the sinks, talks to them (docs/reference/sink-programs.md), and
 * kills a program that breaks the protocol. It is a separate process because a start blocks the event loop of
 * a large process for 12 to 26 ms, and because it can be killed when a program or a mount hangs.
 */
import '../stray-signals.js';
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { endGroup } from '../programs.js';
import { systemCode } from '../system-code.js';
import { showable } from './program.js';

/** A request of the collector. Each sink has at most one open request. */
export interface SinkRequest {
  /** Number of the sink. */
  readonly sink: number;
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** The note to keep. Without a note, the program is started after the previous one has ended. */
  readonly note?: string;
}

/** A reply: one for each request, and `started` and `ended`. An empty note means that the sink holds none. */
export type SinkReply = { readonly sink: number } & (
  | { readonly kind: 'started'; readonly pid: number }
  | { readonly kind: 'ended'; readonly pid: number }
  | { readonly kind: 'held'; readonly note: string }
  | { readonly kind: 'kept' }
  | { readonly kind: 'again' | 'fork'; readonly reason: string; readonly note: string }
  /** The program was killed, and must be started again. */
  | { readonly kind: 'failed'; readonly why: string }
);

type Answer =
  | { readonly kind: 'kept' }
  | { readonly kind: 'again' | 'fork'; readonly reason: string; readonly note: string };

/** Time limit of an answer in milliseconds. */
const ANSWER_MS = Number(process.argv[2]);
/** Time that a start waits for the end of the previous program. */
const END_MS = 1000;
const MOST_LINE_BYTES = 1000;
const MOST_NOTE_BYTES = 64 << 10;
/** Limit of empty lines before an answer, by which a program requests time. */
const MOST_EMPTY_LINES = 1000;

/** Thrown if the program failed or was killed. */
class ProgramFailed extends Error {
  override name = 'ProgramFailed';
}

/**
 * The error for a program that breaks the protocol. It quotes neither input nor output: both may be secret.
 */
const nonsense = () =>
  new ProgramFailed('breaks the protocol of docs/reference/sink-programs.md, and was killed');

/** A running program. Invariant: at most one request to it is open. */
class RunningProgram {
  readonly pid: number | undefined;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  /** Read on demand, so that a program that prints too much blocks. */
  readonly #output: AsyncIterator<Buffer>;
  #buffer = Buffer.alloc(0);
  /** Resolves with a description of its end. */
  readonly ended: Promise<string>;
  #hasEnded = false;

  constructor([program = '', ...args]: readonly string[]) {
    const child = spawn(program, args, {
      ...{ cwd: '/', env: {}, stdio: ['pipe', 'pipe', 'ignore'], windowsHide: true },
      // The program gets its own process group, which is killed as a whole.
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
    // It may end without reading; the missing answer is reported.
    child.stdin.on('error', () => undefined);
    this.#output = (child.stdout as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  }

  /** The newest note that it holds. It prints it at the start, and after `again` and `fork`. */
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
    // After its end, another process may have its id.
    if (!this.#hasEnded) endGroup(this.pid);
  }

  /** Kills it. @returns whether it has ended: a program that waits for a mount may not. */
  async end(): Promise<boolean> {
    this.kill();
    return await Promise.race([this.ended.then(() => true), later(END_MS).then(() => false)]);
  }

  /** The next line that is not empty, without control characters. */
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
    const why = `does not answer within ${ANSWER_MS / 1000} seconds, and was killed`;
    timer = setTimeout(() => reject(new ProgramFailed(why)), ANSWER_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    // A later rejection is ignored.
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
  // SIGKILL rather than `exit`: acknowledged notes are stored, and nothing here can be lost.
  process.kill(process.pid, 'SIGKILL');
});
// A service manager or a terminal signals every process; the last checkpoints arrive after that.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => undefined);
