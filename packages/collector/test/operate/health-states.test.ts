import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../../../test/free-port.js';
import {
  limits,
  outcomeEvent,
  start,
  temporaryDirectory,
  type Running,
} from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { post } from '../running/load.js';
import { RawConnection, requestBytes } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';
import { canMount, makeWritable, readOnly } from '../running/restricted-process.js';
import { get, managementPort, Scrape } from './managed.js';

async function scratch(): Promise<{ dataDir: string; key: string }> {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  return { dataDir, key: (await issueKey(dataDir)).text };
}

async function running(...args: Parameters<typeof start>): Promise<Running> {
  const collector = await start(...args);
  onTestFinished(() => collector.kill());
  return collector;
}

/** The failed checks that /readyz lists; none when it is ready. */
async function notReady(port: number): Promise<string[]> {
  const { status, body } = await get(port, '/readyz');
  if (status === 200) {
    expect(body).toBe('ok');
    return [];
  }
  expect(status).toBe(503);
  const { message, code, details } = JSON.parse(body) as {
    message: string;
    code: string;
    details: { reasons: { check: string; reason: string }[] };
  };
  expect(message).toContain('Not ready');
  expect(['storage_unavailable', 'shutting_down']).toContain(code);
  return details.reasons.map(({ check }) => check);
}

async function live(port: number): Promise<boolean> {
  const { status, body } = await get(port, '/livez');
  return status === 200 && body === 'ok';
}

test('[R-832] a collector is live and not ready while the ledger is being opened', async () => {
  const { dataDir } = await scratch();
  const port = await freePort();
  // The thread of the ledger waits until the test releases it.
  const isLet = path.join(temporaryDirectory(), 'is-let');
  onTestFinished(() => fs.rmSync(path.dirname(isLet), { recursive: true, force: true }));
  const slow = `
    import { existsSync } from 'node:fs';
    import { workerData } from 'node:worker_threads';
    const waits = new Int32Array(new SharedArrayBuffer(4));
    while (workerData?.queue !== undefined && !existsSync(${JSON.stringify(isLet)})) Atomics.wait(waits, 0, 0, 20);
  `;
  const preload = ['--import', `data:text/javascript,${encodeURIComponent(slow)}`];
  const starting = running(dataDir, ['--management-port', String(port)], preload);
  await expect.poll(() => notReady(port).catch(() => [])).toEqual(['startup']);
  expect(await live(port)).toBe(true);
  expect((await get(port, '/readyz?verbose')).body).toContain(
    '[-]startup failed: the ledger is being opened',
  );
  expect((await Scrape.of(port)).value('collector_ready')).toBe(0);
  fs.writeFileSync(isLet, '');
  await starting;
  await expect.poll(() => notReady(port)).toEqual([]);
  expect((await get(port, '/readyz?verbose')).body).toContain('[+]startup ok');
});

test('[R-604] [R-832] while events cannot be stored it is live and not ready, and becomes ready again by itself', async () => {
  const { dataDir, key } = await scratch();
  const collector = await running(dataDir, [
    '--max-body-bytes',
    '512KiB',
    ...limits({ 'segment-bytes': '1MiB' }),
  ]);
  const port = managementPort(collector);
  const large = () => JSON.stringify(outcomeEvent({ note: 'x'.repeat(100_000) }));
  expect(await notReady(port)).toEqual([]);
  const { pid } = collector.process;
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${(1 << 20) - 1}:`]);
  await expect.poll(async () => (await post(collector.port, key, large())).status).toBe(503);
  await expect.poll(() => notReady(port)).toEqual(['storage']);
  expect(await live(port)).toBe(true);
  const scrape = await Scrape.of(port);
  expect(scrape.value('collector_ledger_state', { state: 'refusing' })).toBe(1);
  expect(scrape.value('collector_warnings', { id: 'storage_unavailable' })).toBe(1);
  expect(scrape.value('collector_events_total', { outcome: 'not_committed' })).toBeGreaterThan(0);
  execFileSync('prlimit', ['--pid', String(pid), '--fsize=unlimited:']);
  // A load balancer sends nothing to a collector that is not ready: there is no event to show that one can be stored.
  await expect.poll(() => notReady(port)).toEqual([]);
  expect((await post(collector.port, key, large())).status).toBe(201);
});

test.skipIf(!canMount)(
  '[R-1323] while the directory of the keys is read-only it starts, says so, and is not ready until it is writable',
  async () => {
    const { dataDir, key } = await scratch();
    const keys = temporaryDirectory();
    onTestFinished(() => fs.rmSync(keys, { recursive: true, force: true }));
    // There are keys, so that the start itself has nothing to write.
    await (await start(dataDir, ['--encryption-keys', keys])).stop();
    const collector = await running(dataDir, [], [], {}, readOnly(keys));
    const port = managementPort(collector);
    expect(await notReady(port)).toEqual(['storage']);
    const { body } = await get(port, '/readyz');
    expect(JSON.parse(body)).toMatchObject({
      message: 'Not ready: events cannot be stored: the payload keys cannot be written.',
      details: { reasons: [{ check: 'storage', cause: 'keys_unwritable' }] },
    });
    // The request has no token, so the answer has no path.
    expect(body).not.toContain(keys);
    expect(await live(port)).toBe(true);
    expect(collector.output.stderr).toContain(`the keys of payloads in ${keys} cannot be written`);
    expect(collector.output.stderr).toMatch(
      /"reason":"the payload keys cannot be written: .*EROFS.*","because":"keys_unwritable","msg":"events cannot be stored; senders are told to retry"/,
    );
    // Before it reports that it listens.
    expect(collector.output.stderr).toMatch(/events cannot be stored[^]*"msg":"listening"/);
    expect((await Scrape.of(port)).value('collector_ready')).toBe(0);
    expect((await post(collector.port, key, JSON.stringify(sampleEvent()))).status).toBe(503);
    makeWritable(collector.process.pid, keys);
    await expect.poll(() => notReady(port)).toEqual([]);
    expect((await post(collector.port, key, JSON.stringify(sampleEvent()))).status).toBe(201);
  },
);

test('[R-832] on a stop it is not ready at once, while open requests are completed', async () => {
  const { dataDir, key } = await scratch();
  const collector = await running(dataDir);
  const port = managementPort(collector);
  const probe = new http.Agent({ keepAlive: true });
  expect((await get(port, '/readyz', { agent: probe })).status).toBe(200);
  const bytes = requestBytes({ key, body: JSON.stringify(sampleEvent()) });
  const sending = await RawConnection.open(collector.port);
  sending.write(bytes.subarray(0, -1));
  await expect.poll(async () => (await Scrape.of(port)).value('collector_queue_events')).toBe(1);
  collector.process.kill('SIGTERM');
  // Also for a probe that keeps its connection, and for one that comes again.
  await expect.poll(() => notReady(port)).toEqual(['shutdown']);
  expect((await get(port, '/readyz', { agent: probe })).status).toBe(503);
  expect(await live(port)).toBe(true);
  expect(collector.process.exitCode).toBeNull();
  sending.write(bytes.subarray(-1));
  expect((await sending.answer())?.status).toBe(201);
  sending.close();
  expect(await collector.exited).toBe(0);
  probe.destroy();
});

test('[R-832] while the thread that takes events hangs, /livez fails, and passes again when it continues', async () => {
  const { dataDir } = await scratch();
  const hangs = path.join(dataDir, '..', `${path.basename(dataDir)}-hangs`);
  onTestFinished(() => fs.rmSync(hangs, { force: true }));
  const preload = `
    import { existsSync } from 'node:fs';
    import { isMainThread } from 'node:worker_threads';
    if (isMainThread) setInterval(() => { while (existsSync(${JSON.stringify(hangs)})); }, 20).unref();
  `;
  const collector = await running(
    dataDir,
    [],
    ['--import', `data:text/javascript,${encodeURIComponent(preload)}`],
  );
  const port = managementPort(collector);
  expect(await live(port)).toBe(true);
  fs.writeFileSync(hangs, '');
  await expect.poll(async () => (await get(port, '/livez')).body).toContain('[-]http_thread failed');
  expect(await live(port)).toBe(false);
  expect(await notReady(port)).toEqual(['http_thread']);
  fs.rmSync(hangs);
  await expect.poll(() => live(port)).toBe(true);
  await expect.poll(() => notReady(port)).toEqual([]);
});
