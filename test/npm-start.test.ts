/** A signal of a supervisor to npm reaches the program that npm runs. Needs packages/collector/dist. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test.each([
  [['start'], 'SIGTERM'],
  [['start'], 'SIGINT'],
  [['start'], 'SIGHUP'],
  [['start'], 'SIGKILL'],
  [['run', 'collector', '--', 'serve'], 'SIGTERM'],
] as const)('[R-1400] npm %j and its collector end in order on %s', async (words, signal) => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'npm-start-'));
  const dataDir = path.join(directory, 'data');
  const options = ['--port', '0', '--management', 'off', '--data-dir', dataDir];
  // Without the set-up, which would install into the checkout that this test runs in.
  const npm = spawn(
    'npm',
    ['--ignore-scripts', ...words, ...(words[0] === 'start' ? ['--'] : []), ...options],
    { cwd: ROOT, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let log = '';
  let pid = 0;
  onTestFinished(() => {
    if (pid !== 0 && isAlive(pid)) process.kill(pid, 'SIGKILL');
    fs.rmSync(directory, { recursive: true, force: true });
  });
  const exited = new Promise<number | null>((resolve) => npm.on('exit', resolve));
  await new Promise<void>((resolve, reject) => {
    npm.stderr.setEncoding('utf8').on('data', (text: string) => {
      log += text;
      pid = Number(/"pid":(\d+),"msg":"listening"/.exec(log)?.[1] ?? 0);
      if (pid !== 0) resolve();
    });
    exited.then(() => reject(new Error(log))).catch(reject);
  });
  npm.kill(signal);
  const code = await exited;
  // npm forwards these, and waits; any other signal ends it at once.
  if (['SIGTERM', 'SIGINT'].includes(signal)) expect([code, isAlive(pid)]).toEqual([0, false]);
  await expect.poll(() => isAlive(pid)).toBe(false);
  await expect.poll(() => log).toContain('"msg":"stopped"');
});
