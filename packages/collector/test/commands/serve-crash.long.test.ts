import { setTimeout as sleep } from 'node:timers/promises';
import { rmSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { random, runs } from '../../../../test/property-runs.js';
import {
  createKey,
  limits,
  outcomeEvent,
  start,
  storedEvents,
  temporaryDirectory,
} from '../running/collector-process.js';
import { expectAllStored, Load, post } from '../running/load.js';

function scratch(): string {
  const dataDir = temporaryDirectory();
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  return dataDir;
}

const KILLS = runs(400, 16);
/** Small segments, so that the log rolls under the load too. */
const SMALL = ['--max-body-bytes', '512KiB', ...limits({ 'segment-bytes': '1MiB' })];

test('[R-601] after many kills under load, the collector has every acknowledged event once, and none in part', async () => {
  const dataDir = scratch();
  const key = await createKey(dataDir);
  const load = new Load(key, { connections: 16, repeats: 0.1, largest: 300_000 });
  for (let round = 0; round < KILLS; round++) {
    const collector = await start(dataDir, SMALL);
    const senders = load.run(collector.port, () => false);
    // Every second time once something was acknowledged, however slow the machine is; else at any moment.
    const wanted = load.acknowledged.size + (round % 2 === 0 ? 20 : 0);
    while (load.acknowledged.size < wanted) await sleep(5);
    await sleep(random.below(400));
    await collector.kill();
    await senders;
  }
  expect(load.acknowledged.size).toBeGreaterThanOrEqual(KILLS * 10);
  const stored = await expectAllStored(dataDir, load);
  expect(stored).toBeGreaterThanOrEqual(load.acknowledged.size);
  expect(load.refusals).toEqual(new Map());
});

test('[R-609] stopped under load, the collector ends with 0 and keeps every event that it acknowledged', async () => {
  const dataDir = scratch();
  const key = await createKey(dataDir);
  const load = new Load(key, { connections: 32, largest: 100_000 });
  for (let round = 0; round < 3; round++) {
    const collector = await start(dataDir, SMALL);
    const before = load.acknowledged.size;
    const senders = load.run(collector.port, () => false);
    while (load.acknowledged.size <= before + 20) await sleep(5);
    await sleep(300);
    const code = await collector.stop();
    // Every sender had an answer or a closed connection; none of them hangs.
    await senders;
    expect(code).toBe(0);
    expect(load.acknowledged.size).toBeGreaterThan(before + 20);
    expect([...load.refusals.keys()].filter((status) => status !== 503)).toEqual([]);
    expect(collector.output.stderr).toContain('"exitCode":0');
  }
  // After an orderly end, no event is stored that was not acknowledged.
  expect(await expectAllStored(dataDir, load)).toBe(load.acknowledged.size);
});

test('[R-304] a repeat after a restart is answered as the first was, and the event is stored once', async () => {
  const dataDir = scratch();
  const key = await createKey(dataDir);
  const event = outcomeEvent();
  const body = JSON.stringify(event);
  for (const end of ['stop', 'kill', 'stop'] as const) {
    const collector = await start(dataDir);
    expect((await post(collector.port, key, body)).status).toBe(201);
    expect((await post(collector.port, key, `${body} `)).status).toBe(201);
    const other = JSON.stringify({ ...event, outcome: { outcome_type: 'contradicted' } });
    expect((await post(collector.port, key, other)).status).toBe(409);
    await collector[end]();
  }
  const stored = await storedEvents(dataDir);
  expect(stored.map((each) => each.body)).toEqual([body]);
});
