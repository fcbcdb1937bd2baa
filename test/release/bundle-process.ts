/** A program of the server bundle that runs. */
import { type ChildProcess, spawn, type SpawnOptionsWithoutStdio } from 'node:child_process';
import { vi } from 'vitest';

const TIMEOUT = { timeout: 300_000 };

export interface Started {
  readonly child: ChildProcess;
  readonly url: string;
  /** All that it wrote so far. */
  readonly output: { readonly stdout: string; readonly stderr: string };
  /** Waits for the log line that has a port. */
  readonly portOf: (message: string) => Promise<string>;
  /** @returns the exit code. */
  readonly stop: () => Promise<number | null>;
}

/** Waits until the program listens. */
export async function started(
  program: string,
  args: readonly string[],
  options: SpawnOptionsWithoutStdio,
): Promise<Started> {
  const child = spawn(program, args, options);
  const output = { stdout: '', stderr: '' };
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text));
  const portOf = (message: string) =>
    vi.waitUntil(() => {
      if (child.exitCode !== null) throw new Error(output.stderr);
      return new RegExp(`"port":(\\d+),[^\\n]*"msg":"${message}"`).exec(output.stderr)?.[1];
    }, TIMEOUT);
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  const port = await portOf('listening').catch((error: unknown) => {
    child.kill('SIGKILL');
    throw error;
  });
  return { child, url: `http://127.0.0.1:${port}`, output, portOf, stop };
}

/** The key that a collector prints at its first start. */
export function keyFrom({ output }: Started): Promise<string> {
  return vi.waitUntil(() => /cek_[a-z2-7]{12}_[\w-]{43}/.exec(output.stdout)?.[0], TIMEOUT);
}
