import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ConsoleState } from '../../src/management/state.js';
import { createKey, run } from '../running/collector-process.js';
import { post } from '../running/load.js';
import { oneCollector } from '../running/one-collector.js';
import { sampleEvent } from '../running/sample-events.js';
import { getJson, managementPort, Scrape } from './managed.js';

const MISSING = '/not/there/at/all';
const collector = oneCollector(['--checkpoint-sink', `dir:${MISSING}`], (dataDir) => {
  fs.chmodSync(dataDir, 0o750);
  return Promise.resolve();
});
const port = () => managementPort(collector.running);
const state = async () => (await getJson(port(), '/console/state.json')) as unknown as ConsoleState;
const warned = async () => (await state()).warnings.map(({ id }) => id);

describe("[R-834] the console's state", () => {
  test('has a sample a second, and rates', async () => {
    for (let i = 0; i < 5; i++)
      expect((await post(collector.port, collector.key, JSON.stringify(sampleEvent()))).status).toBe(201);
    await expect
      .poll(async () => (await state()).traffic.seconds.length, { timeout: 10_000 })
      .toBeGreaterThan(1);
    const { traffic, queue, started_at: started } = await state();
    const accepted = traffic.seconds.reduce((sum, second) => sum + second.accepted, 0);
    expect(accepted).toBe(5);
    expect(traffic.accepted_per_second).toBeGreaterThan(0);
    const busy = traffic.seconds.find((second) => second.accepted > 0);
    expect(busy?.p50_ms).toBeGreaterThan(0);
    expect(busy?.p99_ms).toBeGreaterThanOrEqual(busy?.p50_ms ?? Infinity);
    expect(queue).toMatchObject({ events: 0, max_events: 8192 });
    expect(Date.parse(started)).toBeLessThan(Date.now());
  });

  test('warns of a sink that is down, and of a directory that others may enter, without naming either', async () => {
    await expect.poll(warned, { timeout: 10_000 }).toEqual(['sink_down', 'data_directory_exposed']);
    const { sinks } = await state();
    expect(sinks).toEqual([
      expect.objectContaining({ number: 1, kind: 'directory', state: 'failing', events: null }),
    ]);
    expect(JSON.stringify(await state())).not.toContain(MISSING);
    const scrape = await Scrape.of(port());
    expect(scrape.value('collector_sink_state', { sink: '1', kind: 'directory', state: 'failing' })).toBe(1);
    expect(scrape.value('collector_sink_state', { sink: '1', state: 'ok' })).toBe(0);
    fs.chmodSync(collector.dataDir, 0o700);
    await expect.poll(warned, { timeout: 5000 }).toEqual(['sink_down']);
  });

  test('tells of keys by their ids, when they were used and when they end', async () => {
    const text = await createKey(collector.dataDir, '--expires', '3d', '--note', 'ward 7');
    const keyId = text.slice(4, 16);
    await expect.poll(warned, { timeout: 5000 }).toContain('key_expires_soon');
    const { keys, warnings } = await state();
    expect(warnings.find(({ id }) => id === 'key_expires_soon')?.title).toContain(keyId);
    const own = keys.find((key) => key.key_id === keyId);
    expect(own).toMatchObject({ note: 'ward 7', state: 'usable', last_used_at: null, requests: 0 });
    expect(Date.parse(own?.expires_at ?? '') - Date.now()).toBeLessThan(3 * 86_400_000);
    expect((await post(collector.port, text, JSON.stringify(sampleEvent()))).status).toBe(201);
    await expect.poll(async () => (await state()).keys.find((key) => key.key_id === keyId)?.requests).toBe(1);
    expect((await run(['keys', 'revoke', keyId, '--data-dir', collector.dataDir])).code).toBe(0);
    await expect
      .poll(async () => (await state()).keys.find((key) => key.key_id === keyId)?.state)
      .toBe('revoked');
  });

  test('tells what collector verify found last, when that was to be noted', async () => {
    expect((await state()).last_verify).toBeNull();
    expect((await run(['verify', '--data-dir', collector.dataDir])).code).toBe(0);
    expect(fs.existsSync(path.join(collector.dataDir, 'checkpoints', 'verify.json'))).toBe(false);
    expect((await run(['verify', '--note', '--data-dir', collector.dataDir])).code).toBe(0);
    const events = (await state()).ledger.events;
    await expect
      .poll(async () => (await state()).last_verify, { timeout: 5000 })
      .toMatchObject({ intact: true, events });
    expect((await Scrape.of(port())).value('collector_verify_intact')).toBe(1);
    // Where it cannot be noted the verdict stands all the same.
    fs.mkdirSync(path.join(collector.dataDir, 'checkpoints', 'verify.json.unfinished'));
    const { code, stdout, stderr } = await run(['verify', '--note', '--data-dir', collector.dataDir]);
    expect([code, stdout]).toEqual([0, expect.stringContaining('INTACT')]);
    expect(stderr).toMatch(/^collector: the verdict could not be noted: .*EISDIR/);
  });
});
