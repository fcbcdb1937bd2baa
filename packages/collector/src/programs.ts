/**
 * The programs that an operator names by `command:PATH`, around a KMS, an HSM or a vault. Each is started without a shell,
 * with one word as its argument, and the collector's environment. It is in a process group of its own: a wrapper's client
 * ends with it, and cannot hold its output open. Its standard error goes nowhere, and nothing that it prints is part of an
 * error: it may be a secret.
 */
import { spawn, spawnSync } from 'node:child_process';
import { systemCode } from './system-code.js';

/** More than any key, signature or wrapped key needs. */
const MOST_OUTPUT_BYTES = 64 << 10;
/** What the system says of a file that is no program, or names an interpreter that is not there. */
const UNSTARTABLE: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'ENOEXEC']);
const OPTIONS = { detached: true, windowsHide: true } as const;

/** A program did not end with 0. The message has its path and nothing that it printed. */
export class ProgramFailed extends Error {
  override name = 'ProgramFailed';

  /** @param isUnfit whether another try would come to the same. */
  constructor(
    message: string,
    readonly isUnfit: boolean,
  ) {
    super(message);
  }
}

/** What the program prints, once it has ended with 0. @throws ProgramFailed */
export function outputOf(program: string, verb: string, input: string, timeLimitMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [verb], { ...OPTIONS, stdio: ['pipe', 'pipe', 'ignore'] });
    const printed: Buffer[] = [];
    let size = 0;
    const fail = (how: string, isUnfit = false) => {
      clearTimeout(timer);
      child.stdout.destroy();
      reject(new ProgramFailed(`${program} ${how} (${verb})`, isUnfit));
    };
    const stop = (why: string, isUnfit = false) => {
      endGroup(child.pid);
      fail(why, isUnfit);
    };
    const timer = setTimeout(() => stop(tooSlow(timeLimitMs)), timeLimitMs);
    child.on('error', (error) => fail(unstartable(systemCode(error)), UNSTARTABLE.has(systemCode(error))));
    // A program may end without reading what it is given: its output tells.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
    child.stdout.on('data', (piece: Buffer) => {
      size += piece.length;
      if (size > MOST_OUTPUT_BYTES) stop(TOO_LONG, true);
      else printed.push(piece);
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (code === 0) resolve(Buffer.concat(printed).toString('utf8'));
      else fail(ended(code, signal));
    });
  });
}

/** The same, while this thread waits. @throws ProgramFailed */
export function outputNow(program: string, verb: string, input: string, timeLimitMs: number): string {
  const { pid, status, signal, error, stdout } = spawnSync(program, [verb], {
    ...{ ...OPTIONS, input, stdio: ['pipe', 'pipe', 'ignore'], encoding: 'utf8' },
    ...{ timeout: timeLimitMs, killSignal: 'SIGKILL', maxBuffer: MOST_OUTPUT_BYTES },
  });
  const code = systemCode(error);
  if (status === 0 && (code === undefined || code === 'EPIPE')) return stdout;
  if (pid > 0) endGroup(pid);
  const isUnfit = code === 'ENOBUFS' || UNSTARTABLE.has(code);
  const how =
    code === 'ETIMEDOUT'
      ? tooSlow(timeLimitMs)
      : code === 'ENOBUFS'
        ? TOO_LONG
        : code === undefined || code === 'EPIPE'
          ? ended(status, signal)
          : unstartable(code);
  throw new ProgramFailed(`${program} ${how} (${verb})`, isUnfit);
}

const TOO_LONG = 'prints more than any key or signature needs';

function tooSlow(timeLimitMs: number): string {
  return `did not end within ${timeLimitMs / 1000} s`;
}

function unstartable(code: string | undefined): string {
  return `cannot be started: ${code ?? 'UNKNOWN'}`;
}

function ended(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `ended with exit code ${code ?? -1}` : `was ended by ${signal}`;
}

/**
 * Kills a program that was started in a process group of its own, with whatever it has started.
 * @param pid of the program: its group's id, which is not given to another while a process of the group lives.
 */
export function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    // There are no process groups on Windows.
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
