/** A client, a spool on the disk and a real collector, while everything between them fails. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';
import { random, runs } from '../../../test/property-runs.js';
import type { Captured } from '../src/index.js';
import { faultyRoad } from './running/faulty-road.js';
import { hurriedClient, temporaryDirectory } from './running/hurried-client.js';
import { realCollector } from './running/real-collector.js';
import { canMount, inSmallFileSystem } from './spool/small-file-system.js';

// The collector that is killed in each tenth round from the fifth on is started again two rounds later.
const KILLS = runs(500, 17);
const SCRIPT = path.join(import.meta.dirname, 'running/capturing-process.mjs');
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** @param before what the command begins with, for a process that is restricted. */
function startProcess(wish: Readonly<Record<string, unknown>>, before: readonly string[] = []) {
  const words = [...before, process.execPath, SCRIPT, JSON.stringify(wish)];
  const child = spawn(words[0] ?? '', words.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
  const said = { lines: [] as string[], errors: '' };
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    said.lines.push(...lines);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.errors += text));
  const ended = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  return { child, said, ended };
}

test('[R-862] despite faults of network and collector, every captured event is stored once', async () => {
  const collector = await realCollector();
  const road = await faultyRoad(collector.url);
  // The road also swallows requests, which only a timeout notices.
  const { log, refusals, quarantined } = hurriedClient(
    { url: road.url, apiKey: collector.apiKey, spool: temporaryDirectory(), concurrency: 16 },
    { patienceMs: 2000 },
  );
  const captured: Captured[] = [];
  const refused: string[] = [];
  for (let i = 0; i < 200; i++) {
    const run = log.startRun({ model: { model_id: 'm' }, inputs: { prompt: `${i}` } });
    captured.push(run.started, run.output({ summary: `${i}` }), log.run(run.id).feedback({ rating: i }));
    if (i % 10 === 0) refused.push(run.output({ summary: i } as unknown as { summary: string }).eventId);
    if (i % 50 === 20) await collector.kill();
    if (i % 50 === 30) await collector.start();
    await sleep(5);
  }
  road.share = 0.1;
  expect(await Promise.all(captured)).toEqual(captured.map(() => 'durable'));
  expect(await log.flush()).toEqual({ waiting: 0 });
  const stored = await collector.stored();
  expect(new Set(stored.keys())).toEqual(new Set(captured.map(({ eventId }) => eventId)));
  expect(refusals.map(({ eventId }) => eventId)).toEqual(refused);
  expect(quarantined).toEqual([]);
  expect(road.faults.size).toBeGreaterThan(7);
});

test('[R-862] an event that a real collector refuses is in quarantine with its issues', async () => {
  const collector = await realCollector();
  const full = await collector.createKey(
    ...['--organisation', 'default', '--permissions', 'all', '--profile', 'full'],
  );
  const { log, quarantined } = hurriedClient({
    ...{ url: collector.url, apiKey: full, spool: temporaryDirectory() },
  });
  const run = log.run(crypto.randomUUID());
  const fine = run.outcome({ outcome_type: 'validated' });
  const faulty = run.outcome({ outcome_type: 'wonderful' });
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect([...(await collector.stored()).keys()]).toEqual([fine.eventId]);
  expect(quarantined).toMatchObject([
    {
      ...{ kind: 'outcome', eventId: faulty.eventId },
      refusal: {
        ...{ status: 400, code: 'validation_failed' },
        details: { issues: [{ pointer: '/outcome/outcome_type', rule: 'enum' }] },
      },
    },
  ]);
});

test('[R-862] after random kills, every captured event is in the ledger once', async () => {
  const collector = await realCollector();
  const [spool, content] = [temporaryDirectory(), temporaryDirectory()];
  const acknowledged = new Set<string>();
  for (let round = 0; round < KILLS; round++) {
    const { child, said, ended } = startProcess({
      ...{ url: collector.url, apiKey: collector.apiKey, spool: { directory: spool, durability: 'os' } },
      content,
    });
    while (said.lines.length === 0 && child.exitCode === null) await sleep(5);
    await sleep(random.below(80));
    // Now and then the collector is down, or goes down while events are being sent.
    if (round % 10 === 4) await collector.kill();
    if (round % 10 === 6) await collector.start();
    child.kill('SIGKILL');
    await ended;
    expect(said.errors).toBe('');
    for (const line of said.lines) {
      expect(line).toMatch(/^\+/);
      acknowledged.add(line.slice(1));
    }
  }
  const { log, quarantined } = hurriedClient({
    ...{ url: collector.url, apiKey: collector.apiKey, spool: { directory: spool, durability: 'os' } },
  });
  await log.ready();
  expect(await log.flush()).toEqual({ waiting: 0 });
  const stored = await collector.stored();
  expect(acknowledged.size).toBeGreaterThanOrEqual(KILLS);
  expect([...acknowledged].filter((id) => !stored.has(id))).toEqual([]);
  expect(quarantined).toEqual([]);
});

test('[R-862] a process that ends without closing its client sends all events first', async () => {
  const collector = await realCollector();
  const { ended, said } = startProcess({
    ...{ url: collector.url, apiKey: collector.apiKey, spool: temporaryDirectory(), do: 'end' },
  });
  expect(await ended).toBe(0);
  expect(said).toEqual({ lines: [], errors: '' });
  expect((await collector.stored()).size).toBe(301);
});

test('[R-862] events of a process that exits early are sent by the next client', async () => {
  const collector = await realCollector();
  const spool = temporaryDirectory();
  const { url, apiKey } = collector;
  expect(await startProcess({ url, apiKey, spool, do: 'exit' }).ended).toBe(0);
  const { log } = hurriedClient({ url, apiKey, spool });
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect((await collector.stored()).size).toBe(301);
});

test('[R-862] a process that closes its client while the collector is away ends in order and in time', async () => {
  const away = { url: 'http://127.0.0.1:9', apiKey: 'key', spool: temporaryDirectory() };
  const { ended, said } = startProcess({ ...away, do: 'close' });
  expect(await ended).toBe(0);
  expect(said).toEqual({ lines: ['=1'], errors: '' });
  const end = startProcess({ ...away, do: 'end' });
  expect(await end.ended).toBe(0);
  expect(end.said.errors).toBe('');
});

test.runIf(canMount)(
  '[R-852] on a full disk, every event either arrives or is refused to its caller',
  async () => {
    const collector = await realCollector();
    const { url, apiKey } = collector;
    await collector.kill();
    const { child, said, ended } = startProcess(
      { url, apiKey, spool: { directory: 'spool', durability: 'os' }, do: 'fill' },
      inSmallFileSystem(),
    );
    const of = (mark: string) => said.lines.filter((line) => line.startsWith(mark));
    while (of('full').length === 0 && child.exitCode === null) await sleep(5);
    await collector.start();
    expect(await ended).toBe(0);
    expect(said.errors).toBe('');
    // Once there is room, events are captured again.
    expect(said.lines.at(-1)).toMatch(/^[+]/);
    const captured = of('+').map((line) => line.slice(1));
    expect(captured.length).toBeGreaterThan(100);
    expect(of('!').length).toBeGreaterThan(100);
    expect(new Set(of('!'))).toEqual(new Set(['!SpoolFull']));
    expect([...(await collector.stored()).keys()].sort()).toEqual(captured.sort());
  },
);
