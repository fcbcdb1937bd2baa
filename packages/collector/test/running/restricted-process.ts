/** The `collector` command with fewer rights than the user who runs the tests, or on a terminal. */
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { ENVIRONMENT } from './collector-process.js';

const MAIN = path.resolve(import.meta.dirname, '../../dist/main.js');
const NOBODY = 65_534;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function ended(
  command: string,
  args: readonly string[],
  options: { uid?: number; gid?: number; env?: NodeJS.ProcessEnv } = {},
): Promise<Ended> {
  const child = spawn(command, args, options);
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject).on('close', (code) => resolve({ code, ...output }));
  });
}

/** Runs one command as a user to whom modes apply: root, for example in a container, may do everything. */
export function runWithoutPrivilege(args: readonly string[]): Promise<Ended> {
  const root = process.getuid?.() === 0;
  return ended(process.execPath, [MAIN, ...args], root ? { uid: NOBODY, gid: NOBODY } : {});
}

const NAMESPACE = ['--user', '--map-root-user', '--mount'];

/** Whether the host allows a mount in a namespace of the tests. */
export const canMount = spawnSync('unshare', [...NAMESPACE, 'true']).status === 0;

/** Runs the command after it with `directory` on a read-only file system. Only where {@link canMount}. */
export function readOnly(directory: string): string[] {
  const script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"';
  return ['unshare', ...NAMESPACE, 'sh', '-c', script, 'sh', directory];
}

/** On return a process that {@link readOnly} runs can write there. */
export function makeWritable(pid: number | undefined, directory: string): void {
  const enter = ['nsenter', '--target', String(pid), '--user', '--mount', '--preserve-credentials'];
  const [command, ...rest] = [...enter, 'mount', '-o', 'remount,rw,bind', directory];
  const { status, stderr } = spawnSync(command, rest);
  if (status !== 0) throw new Error(String(stderr));
}

/** Runs one command with `directory` on a read-only file system. Only where {@link canMount}. */
export function runReadOnly(
  directory: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Ended> {
  const [command = '', ...rest] = [...readOnly(directory), process.execPath, MAIN, ...args];
  return ended(command, rest, { env: { ...process.env, ...env } });
}

/**
 * Runs one command on a copy of the data directory that fills its file system to the last byte. Only where
 * {@link canMount}.
 * @param args without the data directory.
 */
export function runOnFullDisk(dataDir: string, args: readonly string[]): Promise<Ended> {
  const script =
    'mount -t tmpfs -o size=8m,mode=700 small "$1.full" && cp -a "$1/." "$1.full" && ' +
    '! dd if=/dev/zero of="$1.full/ballast" bs=4k status=none 2>/dev/null && ' +
    'full="$1.full" && shift && exec "$@" --data-dir "$full"';
  fs.mkdirSync(`${dataDir}.full`);
  const command = [process.execPath, MAIN, ...args];
  return ended('unshare', [...NAMESPACE, 'sh', '-c', script, 'sh', dataDir, ...command]).finally(() =>
    fs.rmdirSync(`${dataDir}.full`),
  );
}

/** Runs the command after it with almost no room in `directory`. Only where {@link canMount}. */
export function withoutRoomIn(directory: string): string[] {
  const script = 'mount -t tmpfs -o size=64k,mode=700 small "$1" && shift && exec "$@"';
  return ['unshare', ...NAMESPACE, 'sh', '-c', script, 'sh', directory];
}

/** Whether a command can get a terminal: by script(1) of util-linux. */
export const hasTerminal = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;

/**
 * Runs one command on a terminal; all that it writes comes as `stdout`. Only where {@link hasTerminal}.
 * @param columns how wide the terminal is; unknown to the command when left out.
 */
export function runOnTerminal(args: readonly string[], columns?: number): Promise<Ended> {
  const wide = columns === undefined ? [] : ['stty', 'columns', String(columns), '&&'];
  // None of the words from the tests needs quoting in a shell.
  return ended('script', ['-qec', [...wide, process.execPath, MAIN, ...args].join(' '), '/dev/null']);
}

/** Starts one command on a terminal, and leaves it running. Only where {@link hasTerminal}. */
export function launchOnTerminal(
  args: readonly string[],
  colours = false,
): {
  /** All that was written to the terminal so far. */
  readonly output: () => string;
  readonly type: (keys: string) => void;
  readonly exited: Promise<number | null>;
} {
  // `exec`, because Ctrl-C reaches all on the terminal, and some shells end by it.
  const child = spawn('script', ['-qec', ['exec', process.execPath, MAIN, ...args].join(' '), '/dev/null'], {
    env: { ...ENVIRONMENT, TERM: 'xterm', ...(colours ? {} : { NO_COLOR: '1' }) },
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const exited = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  onTestFinished(() => void child.kill());
  return { output: () => output, type: (keys) => child.stdin.write(keys), exited };
}
