/** A real collector in a process of its own, for tests that stop, kill or starve one. */
import { setTimeout as sleep } from 'node:timers/promises';
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { issueKey } from './issued-keys.js';

/**
 * As it is when installed, a link in a directory of PATH: messages then name the command `collector`, wherever the
 * repository is.
 */
const BIN = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-bin-'));
export const MAIN = path.join(BIN, 'collector');
fs.symlinkSync(path.resolve(import.meta.dirname, '../../dist/main.js'), MAIN);
process.once('exit', () => fs.rmSync(BIN, { recursive: true, force: true }));

/**
 * The environment without the settings, and the variables for colours, of the user who runs the tests. Tests run
 * side by side, so that no two collectors may want the same management port.
 */
export const ENVIRONMENT: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(COLLECTOR_|npm_|NO_COLOR$|FORCE_COLOR$|CI$)/.test(name),
    ),
  ),
  COLLECTOR_MANAGEMENT_PORT: '0',
  PATH: `${BIN}${path.delimiter}${process.env['PATH']}`,
};

export function temporaryDirectory(): string {
  return fs.mkdtempSync(path.join(os.tmpdir(), 'collector-'));
}

/** The options of a command that give it these limits, in a configuration file. */
export function limits(members: Readonly<Record<string, string | number>>): string[] {
  const file = path.join(BIN, `limits-${randomUUID()}.json`);
  fs.writeFileSync(file, JSON.stringify({ limits: members }));
  return ['--config', file];
}

/** Members of `limits`: a connection ends by what a test does, and not because the machine is slow. */
export const UNHURRIED = {
  ...{ 'headers-timeout-ms': '10m', 'request-timeout-ms': '1h', 'keep-alive-timeout-ms': '1h' },
  'segment-bytes': '2MiB',
};

export interface Running {
  readonly process: ChildProcess;
  readonly url: string;
  readonly port: number;
  /** All that it wrote so far. */
  readonly output: { stdout: string; stderr: string };
  /** Resolves with the exit code, or null when a signal ended it. */
  readonly exited: Promise<number | null>;
  /** SIGTERM, then the exit code, once all that it wrote has been read. */
  stop(): Promise<number | null>;
  /** SIGKILL, and resolves when it has ended. */
  kill(): Promise<void>;
}

/**
 * Starts one `collector` command and leaves it running; `output` grows as it writes.
 * @param stderr where standard error goes instead, as an open file.
 */
export function launch(
  args: readonly string[],
  { stderr, env = {}, cwd }: { stderr?: number; env?: NodeJS.ProcessEnv; cwd?: string } = {},
): {
  readonly process: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  readonly exited: Promise<number | null>;
} {
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: ['pipe', 'pipe', stderr ?? 'pipe'],
    env: { ...ENVIRONMENT, ...env },
    cwd,
  });
  const output = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const exited = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  return { process: child, output, exited };
}

/** Runs one `collector` command to its end. With `closeStdout` its output is not read: the pipe breaks immediately. */
export function run(
  args: readonly string[],
  { env = {}, closeStdout = false }: { env?: NodeJS.ProcessEnv; closeStdout?: boolean } = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...ENVIRONMENT, ...env } });
  const output = { stdout: '', stderr: '' };
  if (closeStdout) child.stdout.destroy();
  else child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject).on('close', (code) => resolve({ code, ...output }));
  });
}

/**
 * Starts a collector and resolves when it listens, or runs with --no-listen (port 0); rejects with what it wrote when it ends before.
 * @param prefix a command that runs the one after it in its own place.
 */
export async function start(
  dataDir: string,
  args: readonly string[] = [],
  nodeArgs: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
  prefix: readonly string[] = [],
): Promise<Running> {
  // The project `server` runs the tests of the five endpoints beside OTLP.
  const otlp = process.env['TESTS_OTLP'] === 'on' ? ['--otlp-port', '0'] : [];
  const serve = [MAIN, 'serve', '--port', '0', ...otlp, '--data-dir', dataDir, ...args];
  const [command = '', ...rest] = [...prefix, process.execPath, ...nodeArgs, ...serve];
  const child = spawn(command, rest, { env: { ...ENVIRONMENT, ...env } });
  const output = { stdout: '', stderr: '' };
  const exited = new Promise<number | null>((resolve) => child.on('exit', (code) => resolve(code)));
  // Its last output may come after its end.
  const closed = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  const port = await new Promise<number>((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      output.stderr += text;
      const found = /"port":(\d+),.*"msg":"listening"|"msg":"running, accepting no events"/.exec(
        output.stderr,
      );
      if (found !== null) resolve(Number(found[1] ?? 0));
    });
    child.on('error', reject);
    child.on('exit', () => reject(new Error(`the collector ended before it listened: ${output.stderr}`)));
  });
  return {
    process: child,
    url: `http://127.0.0.1:${port}`,
    port,
    output,
    exited,
    stop: () => {
      child.kill('SIGTERM');
      return closed;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** Does something beside a collector that accepts no events, and ends it. */
export async function beside<T>(dataDir: string, work: () => Promise<T>): Promise<T> {
  const collector = await start(dataDir, ['--no-listen']);
  try {
    return await work();
  } finally {
    await collector.stop();
  }
}

/** An API key for the directory. Without options no command makes it, so that the access log has no lines of it. */
export async function createKey(dataDir: string, ...args: readonly string[]): Promise<string> {
  if (args.length === 0) return (await issueKey(dataDir)).text;
  const { code, stdout, stderr } = await run([
    ...[
      ...['keys', 'create', '--data-dir', dataDir, '--json', '--organisation', 'default'],
      ...['--permissions', 'all'],
    ],
    ...args,
  ]);
  if (code !== 0) throw new Error(stderr);
  const found = KEY.exec(stdout)?.[0];
  if (found === undefined) throw new Error('no key was printed');
  return found;
}

/** An API key, in what a command or a first start prints. */
export const KEY = /cek_[a-z2-7]{12}_[\w-]{43}/;

export interface PrintedEvent {
  readonly sequence: number;
  readonly received_at: string;
  readonly kind: string;
  readonly door: string;
  readonly organisation: string;
  readonly event_id: string;
  readonly run_id: string | null;
  readonly sha256: string;
  readonly body: string;
}

/** Everything that `collector events` prints. */
export async function storedEvents(dataDir: string, ...args: readonly string[]): Promise<PrintedEvent[]> {
  const { code, stdout, stderr } = await run(['events', '--data-dir', dataDir, ...args]);
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return eventsIn(stdout);
}

/** A valid event of any kind that requires only its base, with a payload of its own when given. */
export function outcomeEvent(
  more: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> & { event_id: string } {
  return {
    event_id: randomUUID(),
    timestamp: new Date().toISOString(),
    protocol_version: '0.0.1',
    system_metadata: {},
    outcome: { outcome_type: 'validated' },
    ...more,
  };
}

/** The key that a first start prints, which may come after its log lines. */
export async function keyFrom({ output }: Running): Promise<string> {
  for (;;) {
    const key = KEY.exec(output.stdout)?.[0];
    if (key !== undefined) return key;
    await sleep(10);
  }
}

export function postEvent({ url }: Running, key: string, event: object, kind = 'outcome'): Promise<Response> {
  return fetch(`${url}/event/${kind}`, {
    method: 'POST',
    headers: { 'X-API-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify(event),
  });
}

/** What `collector events` has printed. */
export function eventsIn(text: string): PrintedEvent[] {
  const lines = text.split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as PrintedEvent);
}
