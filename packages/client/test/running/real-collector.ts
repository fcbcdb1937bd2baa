/** A real collector in a process of its own, and the events that it has stored. Needs packages/collector/dist. */
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';

const MAIN = path.resolve(import.meta.dirname, '../../../collector/dist/main.js');
/** It needs Node.js 24; the client's tests may run on 22. */
const NODE = path.resolve(import.meta.dirname, '../../../../node_modules/.bin/node');
const run = promisify(execFile);

export interface RealCollector {
  readonly url: string;
  readonly dataDir: string;
  readonly apiKey: string;
  /** Another key, as `collector keys create` makes it with these arguments. */
  createKey(...args: readonly string[]): Promise<string>;
  /** SIGKILL; `start` restarts it on the same port. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** The bodies that are stored, by event id; one that is stored twice fails. */
  stored(): Promise<Map<string, string>>;
}

/** It ends with the test, and its data is removed. */
export async function realCollector(): Promise<RealCollector> {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-'));
  const command = async (...args: readonly string[]) =>
    (await run(NODE, [MAIN, ...args, '--data-dir', dataDir], { maxBuffer: 1 << 28 })).stdout;
  const createKey = async (...args: readonly string[]) => {
    const grants = ['--organisation', 'default', '--permissions', 'all'];
    const printed = await command('keys', 'create', '--json', ...(args.length > 0 ? args : grants));
    return /cek_[a-z2-7]{12}_[\w-]{43}/.exec(printed)?.[0] ?? '';
  };
  const apiKey = await createKey();
  let port = 0;
  let running: { kill: () => Promise<void> } | undefined;
  const start = async () => {
    // Without the management listener, whose port is the same for all: tests run beside each other.
    const args = ['serve', '--port', String(port), '--data-dir', dataDir, '--management', 'off'];
    const child = spawn(NODE, [MAIN, ...args]);
    const exited = new Promise<void>((resolve) => child.on('exit', () => resolve()));
    running = {
      kill: () => {
        child.kill('SIGKILL');
        return exited;
      },
    };
    let said = '';
    child.stdout.resume();
    port = await new Promise<number>((resolve, reject) => {
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said += text;
        const found = /"port":(\d+),.*"msg":"listening"/.exec(said)?.[1];
        if (found !== undefined) resolve(Number(found));
      });
      exited.then(() => reject(new Error(said))).catch(reject);
    });
  };
  await start();
  onTestFinished(async () => {
    await running?.kill();
    fs.rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    ...{ dataDir, apiKey, createKey, start, url: `http://127.0.0.1:${port}` },
    kill: async () => {
      await running?.kill();
    },
    stored: async () => {
      const bodies = new Map<string, string>();
      for (const line of (await command('events')).split('\n').filter(Boolean)) {
        const { event_id, body } = JSON.parse(line) as { event_id: string; body: string };
        if (bodies.has(event_id)) throw new Error(`${event_id} is stored twice`);
        bodies.set(event_id, body);
      }
      return bodies;
    },
  };
}
