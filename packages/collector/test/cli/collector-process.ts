/** The compiled `collector` command in a process of its own. */
import { spawn } from 'node:child_process';
import path from 'node:path';

const MAIN = path.resolve(import.meta.dirname, '../../dist/cli/main.js');

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment without the settings of whoever runs the tests. */
function cleanEnvironment(extra: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('COLLECTOR_'));
  return { ...Object.fromEntries(inherited), ...extra };
}

/** Runs the command to its end. With `closeStdout` nobody reads what it prints: the pipe is broken from the start. */
export function collector(
  args: readonly string[],
  { env = {}, closeStdout = false }: { env?: NodeJS.ProcessEnv; closeStdout?: boolean } = {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [MAIN, ...args], { env: cleanEnvironment(env) });
    const output = { stdout: '', stderr: '' };
    if (closeStdout) child.stdout.destroy();
    else child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
    child.on('error', reject).on('close', (code) => resolve({ code, ...output }));
  });
}
