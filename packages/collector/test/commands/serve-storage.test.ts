import { execFileSync } from 'node:child_process';
import { renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import {
  createKey,
  limits,
  outcomeEvent,
  run,
  start,
  storedEvents,
  temporaryDirectory,
  type Running,
} from '../running/collector-process.js';
import { expectAllStored, Load, post } from '../running/load.js';

function scratch(): string {
  const dataDir = temporaryDirectory();
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  return dataDir;
}

async function running(...args: Parameters<typeof start>): Promise<Running> {
  const collector = await start(...args);
  onTestFinished(() => collector.kill());
  return collector;
}

/** Runs before anything else in the main thread and in every other one. */
function preload(script: string): string[] {
  return ['--import', `data:text/javascript,${encodeURIComponent(script)}`];
}

const SMALL = ['--max-body-bytes', '512KiB', ...limits({ 'segment-bytes': '1MiB' })];

/** An event that fills a tenth of a small segment. */
function large(): string {
  return JSON.stringify(outcomeEvent({ note: 'x'.repeat(100_000) }));
}

/** What the collector logs may come a little later than its answers. */
async function until(what: () => boolean): Promise<void> {
  while (!what()) await sleep(25);
}

/** Posts until the collector refuses, and checks how it does. @returns the bodies that it acknowledged. */
async function postUntilRefused({ port, output }: Running, key: string): Promise<string[]> {
  const acknowledged: string[] = [];
  for (;;) {
    const body = large();
    const { status, headers, body: answer } = await post(port, key, body);
    if (status === 201) {
      acknowledged.push(body);
      expect(acknowledged.length).toBeLessThan(1000);
      continue;
    }
    expect(status).toBe(503);
    expect(Number(headers['retry-after'])).toBeGreaterThan(0);
    expect(JSON.parse(answer)).toMatchObject({ code: 'storage_unavailable' });
    await until(() => output.stderr.includes('events cannot be stored; senders are told to retry'));
    return acknowledged;
  }
}

/** Posts again until it is accepted, as a sender does. */
async function postUntilAccepted({ port }: Running, key: string, body: string): Promise<void> {
  while ((await post(port, key, body)).status !== 201) await sleep(50);
}

/** A full disk, its relief, a kill and a new start: nothing that was acknowledged is lost. */
async function fillAndRelieve(
  dataDir: string,
  key: string,
  fill: (collector: Running) => void,
  relieve: (collector: Running) => void,
): Promise<void> {
  const collector = await running(dataDir, SMALL);
  const first = large();
  expect((await post(collector.port, key, first)).status).toBe(201);
  fill(collector);
  const acknowledged = await postUntilRefused(collector, key);
  const refused = large();
  for (let i = 0; i < 5; i++) {
    expect((await post(collector.port, key, refused)).status).toBe(503);
    await sleep(150);
  }
  expect(collector.process.exitCode).toBeNull();
  relieve(collector);
  await postUntilAccepted(collector, key, refused);
  await until(() => collector.output.stderr.includes('events can be stored again'));
  const last = large();
  expect((await post(collector.port, key, last)).status).toBe(201);
  await collector.kill();
  const stored = (await storedEvents(dataDir)).map(({ body }) => body);
  expect(stored).toEqual([first, ...acknowledged, refused, last]);
  const again = await running(dataDir, SMALL);
  expect((await post(again.port, key, first)).status).toBe(201);
  expect(await again.stop()).toBe(0);
  expect((await storedEvents(dataDir)).length).toBe(stored.length);
}

test('[R-409] on a full disk the collector refuses with Retry-After, loses nothing, and continues when there is space', async () => {
  const dataDir = scratch();
  let mounted = false;
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=12m,mode=700', 'tmpfs', dataDir], { stdio: 'pipe' });
    mounted = true;
  } catch (error) {
    console.warn(
      `\n*** THE FULL DISK IS NOT A REAL ONE: no small file system can be mounted here (${String(error)}).\n` +
        '*** A limit on the size of files stands in for it.\n',
    );
  }
  if (!mounted) return fillAndRelieve(dataDir, await createKey(dataDir), limitFiles, unlimitFiles);
  onTestFinished(() => void execFileSync('umount', ['-l', dataDir]));
  const ballast = path.join(dataDir, 'ballast');
  const key = await createKey(dataDir);
  await fillAndRelieve(
    dataDir,
    key,
    () => writeFileSync(ballast, Buffer.alloc(6 << 20)),
    () => rmSync(ballast),
  );
});

/** The current segment has its size already; the next one cannot be made. */
function limitFiles({ process }: Running): void {
  execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${(1 << 20) - 1}:`]);
}

function unlimitFiles({ process }: Running): void {
  execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=unlimited:']);
}

test('if files cannot grow, the collector refuses, loses nothing, and continues when they can', async () => {
  const dataDir = scratch();
  await fillAndRelieve(dataDir, await createKey(dataDir), limitFiles, unlimitFiles);
});

test('[R-605] after a failed flush nothing more is acknowledged, the collector ends with 4, and a new start has every event', async () => {
  const dataDir = scratch();
  const key = await createKey(dataDir);
  const load = new Load(key, { connections: 8, repeats: 0.1 });
  // The flush fails and the kernel has dropped what it should have written to the disk: the file has zeros.
  const nodeArgs = preload(`
    import fs from 'node:fs';
    const { fdatasyncSync, writeSync } = fs;
    let left = 40;
    const last = new Map();
    fs.writeSync = (fd, bytes, ...at) => {
      if (at.length === 3) last.set(fd, [Buffer.alloc(at[1]), 0, at[1], at[2]]);
      return writeSync(fd, bytes, ...at);
    };
    fs.fdatasyncSync = (fd) => {
      if (left-- > 0) return fdatasyncSync(fd);
      writeSync(fd, ...last.get(fd));
      process._rawDebug('FLUSH FAILED');
      throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
    };
  `);
  const collector = await running(dataDir, SMALL, nodeArgs);
  await load.run(collector.port, () => false);
  expect(await collector.exited).toBe(4);
  expect(collector.output.stderr.match(/FLUSH FAILED/g)?.length).toBe(1);
  expect(collector.output.stderr).toContain('the ledger has failed and cannot continue');
  expect(load.acknowledged.size).toBeGreaterThan(10);
  expect([...load.refusals.keys()]).toEqual(load.refusals.size > 0 ? [503] : []);
  await expectAllStored(dataDir, load);
  const again = await running(dataDir, SMALL);
  await Promise.race([load.run(again.port, () => load.acknowledged.size > 200), again.exited]);
  expect(await again.stop()).toBe(0);
  await expectAllStored(dataDir, load);
});

test('[R-607] a second collector on the same directory ends with 5 and says so, and the first continues', async () => {
  const dataDir = scratch();
  const key = await createKey(dataDir);
  const first = await running(dataDir);
  const body = JSON.stringify(outcomeEvent());
  expect((await post(first.port, key, body)).status).toBe(201);
  for (let i = 0; i < 2; i++) {
    expect(await run(['serve', '--port', '0', '--data-dir', dataDir])).toEqual({
      code: 5,
      stdout: '',
      stderr: `collector: ${dataDir} is in use by another collector\n`,
    });
  }
  expect((await post(first.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
  expect((await post(first.port, key, body)).status).toBe(201);
  // A lock that no process holds does not prevent the next start.
  await first.kill();
  expect(statSync(path.join(dataDir, 'lock')).isFile()).toBe(true);
  const next = await running(dataDir);
  expect((await post(next.port, key, body)).status).toBe(201);
  expect(await next.stop()).toBe(0);
  expect((await storedEvents(dataDir)).length).toBe(2);
});

test.each([
  ['lock', (file: string) => rmSync(file)],
  ['ledger/0000000000000001.segment', (file: string) => rmSync(file)],
  ['ledger/0000000000000001.segment', (file: string) => truncateSync(file, 4096)],
  ['ledger', (directory: string) => renameSync(directory, `${directory}.moved`)],
] as const)(
  '[R-605] a change to %s under a running collector ends it with 4, and the log names the file',
  async (name, act) => {
    const dataDir = scratch();
    const key = await createKey(dataDir);
    const collector = await running(dataDir, SMALL);
    expect((await post(collector.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
    act(path.join(dataDir, name));
    expect(await collector.exited).toBe(4);
    const file = name === 'ledger' ? '0000000000000001.segment' : name;
    expect(collector.output.stderr).toMatch(
      new RegExp(`"reason":"[^"]*${file}[^"]*while the collector ran"`),
    );
  },
);

test('[R-605] what was acknowledged before a segment was removed is signed, and the next start is refused', async () => {
  const dataDir = scratch();
  const key = await createKey(dataDir);
  const collector = await running(dataDir, [...SMALL, '--checkpoint-interval-ms', '60000']);
  for (let i = 0; i < 3; i++) {
    expect((await post(collector.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
  }
  rmSync(path.join(dataDir, 'ledger/0000000000000001.segment'));
  expect(await collector.exited).toBe(4);
  const next = await run(['serve', '--port', '0', '--data-dir', dataDir]);
  expect([next.code, next.stderr]).toEqual([
    3,
    expect.stringContaining('a checkpoint was signed over 3 entries'),
  ]);
});

test('[R-607] a collector that starts after the lock of another one was removed ends that one, and no event is lost', async () => {
  const dataDir = scratch();
  const key = await createKey(dataDir);
  const first = await running(dataDir, SMALL);
  const load = new Load(key, { connections: 8 });
  const sending = load.run(first.port, () => false);
  while (load.acknowledged.size < 50) await sleep(20);
  rmSync(path.join(dataDir, 'lock'));
  const second = await running(dataDir, SMALL);
  expect(await first.exited).toBe(4);
  await sending;
  const before = load.acknowledged.size;
  await Promise.race([load.run(second.port, () => load.acknowledged.size > before + 50), second.exited]);
  expect(await second.stop()).toBe(0);
  await expectAllStored(dataDir, load);
});

test('[R-601] a clock that is set back repeatedly changes neither the order nor what counts as a repeat', async () => {
  const dataDir = scratch();
  const key = await createKey(dataDir);
  const nodeArgs = preload(`
    const { now } = Date;
    const begin = now();
    Date.now = () => now() - 3_600_000 * Math.floor((now() - begin) / 100);
  `);
  const bodies: string[] = [];
  for (let round = 0; round < 2; round++) {
    const collector = await running(dataDir, SMALL, nodeArgs);
    for (let i = 0; i < 10; i++) {
      const body = JSON.stringify(outcomeEvent());
      expect((await post(collector.port, key, body)).status).toBe(201);
      expect((await post(collector.port, key, bodies[0] ?? body)).status).toBe(201);
      bodies.push(body);
      await sleep(50);
    }
    if (round === 0) await collector.kill();
    else expect(await collector.stop()).toBe(0);
  }
  const stored = await storedEvents(dataDir);
  expect(stored.map(({ body }) => body)).toEqual(bodies);
  expect(stored.map(({ sequence }) => sequence)).toEqual(bodies.map((_, i) => i + 1));
  const times = stored.map(({ received_at }) => Date.parse(received_at));
  expect(times.filter((time, i) => time < (times[i - 1] ?? 0)).length).toBeGreaterThan(4);
});
