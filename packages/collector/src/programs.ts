/**
 * Programs that an operator names by `command:PATH`, for a KMS, an HSM or a vault. Each is started without a
 * shell, with one argument and the collector's environment, in its own process group, so that its children
 * end with it. Its standard error is discarded, and error messages contain nothing it prints, since that may
 * be a secret.
 */
import { spawn, spawnSync } from 'node:child_process';
import { systemCode } from './system-code.js';

/** More than any key, signature or wrapped key needs. */
const MOST_OUTPUT_BYTES = 64 << 10;
/** System errors for a file that is not a program, or whose interpreter is missing. */
const UNSTARTABLE: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'ENOEXEC']);
const OPTIONS = { detached: true, windowsHide: true } as const;

/** A program did not exit with 0. The message has its path and nothing that it printed. */
export class ProgramFailed extends Error {
  override name = 'ProgramFailed';

  /** @param isUnfit whether a retry would fail in the same way. */
  constructor(
    message: string,
    readonly isUnfit: boolean,
  ) {
    super(message);
  }
}

/** The output of the program after exit code 0. @throws ProgramFailed */
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
    // A program may end without reading its input; its output decides.
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

/** The same, synchronously. @throws ProgramFailed */
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
 * Kills the process group of a program started here, including its children.
 * @param pid of the program. It is also the id of the group, which is not reused while a process of the group
 *   lives.
 */
export function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    // There are no process groups on Windows.
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}
