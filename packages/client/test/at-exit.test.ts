/** Events that are captured as the process ends. Needs packages/client/dist. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { hurriedClient, temporaryDirectory } from './running/hurried-client.js';

const SCRIPT = path.join(import.meta.dirname, 'running/ending-process.mjs');
const AWAY = { url: 'http://127.0.0.1:9', apiKey: 'key' };
const KEY = '01'.repeat(32);

async function endingProcess(wish: Readonly<Record<string, unknown>>) {
  const child = spawn(process.execPath, [SCRIPT, JSON.stringify({ ...AWAY, ...wish })]);
  const said = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.stderr += text));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, ...said };
}

/** How many events wait for the next client. */
async function left(spool: { readonly directory: string; readonly key?: string }) {
  const key = spool.key === undefined ? undefined : Buffer.from(spool.key, 'hex');
  const { log, troubles } = hurriedClient({ ...AWAY, spool: { ...spool, key } });
  await log.ready();
  expect(troubles).toEqual([]);
  const { waiting } = log.state;
  await log.close({ timeoutMs: 0 });
  return waiting;
}

test.each([
  ['exits', { how: 'exit' }, 0],
  ['throws', { how: 'throw' }, 1],
])(
  '[R-851] a process that %s before the spool is open keeps all captured events',
  async (_what, wish, code) => {
    const directory = temporaryDirectory();
    const ended = await endingProcess({ ...wish, spool: { directory } });
    expect(ended.code).toBe(code);
    expect(ended.stderr).not.toContain('ClinicalEvents');
    expect(await left({ directory })).toBe(50);
  },
);

test.each([false, true])(
  '[R-864] content still pending when the process exits is stored, with its events (ready: %s)',
  async (ready) => {
    const [directory, content] = [temporaryDirectory(), temporaryDirectory()];
    const wish = { how: 'exit', ready, withContent: true, spool: { directory }, content };
    expect(await endingProcess(wish)).toEqual({ code: 0, stdout: '', stderr: '' });
    const files = fs.readdirSync(content, { recursive: true, encoding: 'utf8' });
    expect(files.filter((file) => /\/[0-9a-f]{64}$/.test(file))).toHaveLength(50);
    expect(await left({ directory })).toBe(50);
  },
);

test('[R-851] an event that is captured in an exit listener is kept too', async () => {
  const directory = temporaryDirectory();
  await endingProcess({ how: 'later', ready: true, spool: { directory } });
  expect(await left({ directory })).toBe(51);
});

test('[R-863] counts of the events that sampling left out are written at exit', async () => {
  const directory = temporaryDirectory();
  await endingProcess({ how: 'exit', spool: { directory }, sampling: { rate: 0 } });
  const [series = ''] = fs.readdirSync(directory);
  const [segment = ''] = fs.readdirSync(path.join(directory, series));
  expect(fs.readFileSync(path.join(directory, series, segment), 'utf8')).toContain('"runs":50');
  expect(await left({ directory })).toBe(1);
});

test('[R-855] with a key, events written at exit are sealed', async () => {
  const spool = { directory: temporaryDirectory(), key: KEY };
  await endingProcess({ how: 'exit', spool });
  for (const file of fs.readdirSync(spool.directory, { recursive: true, encoding: 'utf8' })) {
    const at = path.join(spool.directory, file);
    if (fs.statSync(at).isFile()) expect(fs.readFileSync(at).includes('model_id')).toBe(false);
  }
  expect(await left(spool)).toBe(50);
});

test('[R-855] with the wrong key, nothing is written at exit and the loss is reported', async () => {
  const spool = { directory: temporaryDirectory(), key: KEY };
  await endingProcess({ how: 'exit', spool });
  const { stderr } = await endingProcess({ how: 'exit', spool: { ...spool, key: '02'.repeat(32) } });
  expect(stderr).toContain('50 captured events were lost at the end of the process');
  expect(await left(spool)).toBe(50);
});

test('[R-864] events that wait for a bucket at exit are lost, and only their count is reported', async () => {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => void server.close());
  const bucket = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`;
  const directory = temporaryDirectory();
  const wish = { how: 'exit', withContent: true, bucket, spool: { directory } };
  const { stderr } = await endingProcess(wish);
  expect(stderr).toContain('50 captured events were lost at the end of the process');
  expect(stderr).not.toContain('SECRET');
  const { stdout } = await endingProcess({ ...wish, listens: true });
  expect(stdout).toContain('50 captured events');
  expect(await left({ directory })).toBe(0);
});

test('[R-852] a spool that is full at exit refuses events, and the loss is reported', async () => {
  const directory = temporaryDirectory();
  const { stderr } = await endingProcess({ how: 'exit', spool: { directory, maxBytes: 1000 } });
  expect(stderr).toContain('50 captured events were lost at the end of the process');
  expect(await left({ directory })).toBe(0);
});
