/** What scripts/assemble.mjs puts together is what an image or a host gets: it has to run with nothing else. */
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { CONTAINER_USER, ROOT, textOf } from './repository.js';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-assembled-'));
const assembled = path.join(scratch, 'opt');
const main = path.join(assembled, 'packages/collector/dist/main.js');
const root = process.getuid?.() === 0;
const user = root ? { uid: CONTAINER_USER, gid: CONTAINER_USER } : {};
/** Nothing of the shell that runs the tests: an image has none of it. */
const environment = { PATH: path.dirname(process.execPath), COLLECTOR_MANAGEMENT_PORT: '0' };

beforeAll(() => {
  fs.chmodSync(scratch, 0o755);
  const { status, stderr } = spawnSync(
    process.execPath,
    [path.join(ROOT, 'scripts/assemble.mjs'), assembled],
    {
      encoding: 'utf8',
    },
  );
  if (status !== 0) throw new Error(stderr);
  // As on a read-only file system: root, who could write nonetheless, does not run it.
  spawnSync('chmod', ['-R', 'a-w', assembled]);
});

afterAll(() => {
  spawnSync('chmod', ['-R', 'u+w', assembled]);
  fs.rmSync(scratch, { recursive: true, force: true });
});

test('[R-1400] what is deployed runs as another user, writes into its data directory only, and ends in order', async () => {
  const data = path.join(scratch, 'data');
  fs.mkdirSync(data, { mode: 0o700 });
  if (root) fs.chownSync(data, CONTAINER_USER, CONTAINER_USER);
  const child = spawn(
    process.execPath,
    [main, 'serve', '--port', '0', '--data-dir', path.join(data, 'collector')],
    {
      ...user,
      cwd: '/',
      env: environment,
    },
  );
  const output = { stdout: '', stderr: '' };
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  const port = await new Promise<string>((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      output.stderr += text;
      const found = /"port":(\d+),[^\n]*"msg":"listening"/.exec(output.stderr)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.on('close', () => reject(new Error(output.stderr)));
  });
  const keyOf = () => /cek_[a-z2-7]{12}_[\w-]{43}/.exec(output.stdout)?.[0];
  const key = await vi.waitUntil(keyOf, { timeout: 300_000 });
  const answer = await fetch(`http://127.0.0.1:${port}/event/outcome`, {
    method: 'POST',
    headers: { 'X-API-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      ...{ event_id: crypto.randomUUID(), timestamp: new Date().toISOString() },
      ...{ protocol_version: '0.0.1', system_metadata: {}, outcome: {} },
    }),
  });
  expect(answer.status).toBe(201);
  // The management listener reads files of other packages when it is asked for pages.
  const management = /"port":(\d+),[^\n]*"msg":"management listening"/.exec(output.stderr)?.[1];
  for (const page of ['/livez', '/readyz', '/metrics', '/openapi.json']) {
    expect((await fetch(`http://127.0.0.1:${management}${page}`)).status, page).toBe(200);
  }
  child.kill('SIGTERM');
  expect(await ended).toBe(0);
});

test('[R-1400] what is deployed holds no test, no compiler and no package that only builds', () => {
  const files = fs.readdirSync(assembled, { recursive: true, encoding: 'utf8' });
  const ours = files.filter((file) => file.startsWith('packages'));
  expect(ours.filter((file) => /\btest\b|\.tsbuildinfo$/.test(file))).toEqual([]);
  for (const name of ['typescript', 'vitest', 'playwright-core', 'node']) {
    expect(fs.existsSync(path.join(assembled, 'node_modules', name)), name).toBe(false);
  }
  const native = files.filter((file) => file.endsWith('.node'));
  expect(native).toEqual([]);
});

test('[R-1400] what is deployed holds what the installation in docs/guide/operate.md uses', () => {
  const [, steps = ''] =
    /^### On a host$([^]*?)^### In a container$/m.exec(textOf('docs/guide/operate.md')) ?? [];
  const used = [...steps.matchAll(/^ {4}install .*?(deploy\/\S+)/gm)].map(([, file = '']) => file);
  expect(used).toHaveLength(3);
  for (const file of [...used, 'deploy/prometheus/rules.yaml', 'docs/guide/operate.md', 'README.md']) {
    expect(fs.readFileSync(path.join(assembled, file), 'utf8'), file).toBe(textOf(file));
  }
  const [, linked = ''] =
    /^ {4}ln -sfn \/opt\/collector\/(\S+) \/usr\/local\/bin\/collector$/m.exec(steps) ?? [];
  const bin = path.join(scratch, 'bin');
  fs.mkdirSync(bin);
  fs.symlinkSync(path.join(assembled, linked), path.join(bin, 'collector'));
  const env = { PATH: `${bin}:${path.dirname(process.execPath)}:/usr/bin:/bin` };
  const { stdout } = spawnSync('sh', ['-c', 'collector keys create --help'], { env, encoding: 'utf8' });
  expect(stdout).toContain('  $ collector keys create --permissions all');
});
