import fs from 'node:fs';
import path from 'node:path';
import type { EventKind } from '@clinical-events/protocol';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commit, version } from '../../src/commands/typed.js';
import type { ConsoleState } from '../../src/operate/console/console-state.js';
import { writeBackupNote } from '../../src/tree/state-files.js';
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

describe("[R-833] the console's state", () => {
  test('has one sample per second, and rates', async () => {
    for (let i = 0; i < 5; i++)
      expect((await post(collector.port, collector.key, JSON.stringify(sampleEvent()))).status).toBe(201);
    // A second is sampled when it is over; a busy machine has some before the first event, or one that is longer.
    const sampled = async () => {
      const { seconds } = (await state()).traffic;
      return [seconds.length > 1, seconds.reduce((sum, second) => sum + second.accepted, 0)];
    };
    await expect.poll(sampled).toEqual([true, 5]);
    const { traffic, queue, started_at: started } = await state();
    expect(traffic.accepted_per_second).toBeGreaterThan(0);
    const busy = traffic.seconds.find((second) => second.accepted > 0);
    expect(busy?.p50_ms).toBeGreaterThan(0);
    expect(busy?.p99_ms).toBeGreaterThanOrEqual(busy?.p50_ms ?? Infinity);
    expect(queue).toMatchObject({ events: 0, max_events: 8192 });
    expect(Date.parse(started)).toBeLessThan(Date.now());
  });

  test('[R-2058] has the version and the commit of the program', async () => {
    expect(await state()).toMatchObject({ version: version(), commit: commit() });
  });

  test('lists keys with their ids, when they were used and when they end', async () => {
    const text = await createKey(collector.dataDir, '--expires', '3d', '--note', 'ward 7');
    const keyId = text.slice(4, 16);
    await expect.poll(warned).toContain('key_expires_soon');
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

  test('has the last result of collector verify with --note', async () => {
    expect((await state()).last_verify).toBeNull();
    expect((await run(['verify', '--data-dir', collector.dataDir])).code).toBe(0);
    expect(fs.existsSync(path.join(collector.dataDir, 'checkpoints', 'verify.json'))).toBe(false);
    expect((await run(['verify', '--note', '--data-dir', collector.dataDir])).code).toBe(0);
    const events = (await state()).ledger.events;
    await expect.poll(async () => (await state()).last_verify).toMatchObject({ intact: true, events });
    expect((await Scrape.of(port())).value('collector_verify_intact')).toBe(1);
    // If it cannot be written, the result is printed all the same.
    fs.mkdirSync(path.join(collector.dataDir, 'checkpoints', 'verify.json.unfinished'));
    const { code, stdout, stderr } = await run(['verify', '--note', '--data-dir', collector.dataDir]);
    expect([code, stdout]).toEqual([0, expect.stringContaining('INTACT')]);
    expect(stderr).toMatch(/^collector: the verdict could not be recorded: .*EISDIR/);
  });

  test('warns that no checkpoint can be made, also where that cannot be written down, until one is', async () => {
    // As on a full disk: neither the checkpoint nor the reason for its absence can be written.
    const drafts = ['latest.draft', 'trouble.json.unfinished'].map((name) =>
      path.join(collector.dataDir, 'checkpoints', name),
    );
    for (const draft of drafts) fs.mkdirSync(draft);
    const [latest = ''] = drafts;
    expect((await post(collector.port, collector.key, JSON.stringify(sampleEvent()))).status).toBe(201);
    await expect.poll(warned).toContain('checkpoints_fail');
    expect(Date.parse((await state()).checkpoints_fail_since ?? '')).toBeLessThanOrEqual(Date.now());
    // On a full disk nothing may be stored at all, and the reason is only in the log.
    const { what_to_do: advice } = (await state()).warnings.find(({ id }) => id === 'checkpoints_fail') ?? {};
    expect(advice).toMatch(/not signed\b.*\bread the log\b/);
    fs.rmdirSync(latest);
    await expect.poll(warned).not.toContain('checkpoints_fail');
    expect((await state()).checkpoints_fail_since).toBeNull();
  });
});

test('[R-811] the state and the metrics have the time and size of the last back-up; an old one causes a warning', async () => {
  const { dataDir } = collector;
  expect((await state()).last_backup).toBeNull();
  expect(await warned()).not.toContain('backup_old');
  // As old as the log is, there should be one.
  const began = path.join(dataDir, 'checkpoints', 'origin.vkey');
  fs.utimesSync(began, Date.now() / 1000, Date.now() / 1000 - 86_500);
  await expect.poll(warned).toContain('backup_old');
  const backups = path.join(dataDir, '..', `${path.basename(dataDir)}-backups`);
  onTestFinished(() => fs.rmSync(backups, { recursive: true, force: true }));
  const before = Date.now();
  expect((await run(['backup', backups, '--keys-elsewhere', '--data-dir', dataDir])).code).toBe(0);
  const { events } = (await state()).ledger;
  await expect.poll(async () => (await state()).last_backup).toMatchObject({ events, events_since: 0 });
  expect(await warned()).not.toContain('backup_old');
  const scrape = await Scrape.of(port());
  expect(scrape.value('collector_backup_timestamp_seconds')).toBeGreaterThanOrEqual(before / 1000);
  expect(scrape.value('collector_backup_events')).toBe(events);
  writeBackupNote(dataDir, { at: new Date(Date.now() - 86_500_000).toISOString(), events: 1 });
  await expect.poll(warned).toContain('backup_old');
  expect((await state()).last_backup?.events_since).toBe(events - 1);
  expect(JSON.stringify(await state())).not.toContain(backups);
  // If it cannot be noted, the back-up is still complete.
  const note = path.join(dataDir, 'checkpoints', 'backup.json.unfinished');
  fs.mkdirSync(note);
  const { code, stdout, stderr } = await run(['backup', backups, '--keys-elsewhere', '--data-dir', dataDir]);
  expect([code, stdout]).toEqual([0, expect.stringContaining(backups)]);
  expect(stderr).toMatch(/^collector: warning: .*console.*EISDIR/);
  fs.rmdirSync(note);
});

test('[R-835] a key that was replaced is reported as such, with whether it is in use', async () => {
  const old = await createKey(collector.dataDir);
  const keyId = old.slice(4, 16);
  const own = async () => (await state()).keys.find((key) => key.key_id === keyId);
  expect((await run(['keys', 'rotate', keyId, '--data-dir', collector.dataDir])).code).toBe(0);
  await expect.poll(async () => (await own())?.replaced_by).toMatch(/^[a-z2-7]{12}$/);
  expect(await own()).toMatchObject({ state: 'usable', in_use: false });
  expect((await state()).warnings.some(({ title }) => title.includes(keyId))).toBe(false);
  expect((await post(collector.port, old, JSON.stringify(sampleEvent()))).status).toBe(201);
  await expect.poll(async () => (await own())?.in_use).toBe(true);
  const warning = (await state()).warnings.find(({ title }) => title.includes(keyId));
  expect(warning?.title).toContain('was replaced, is still in use, and expires in 23 hours');
  expect(warning?.what_to_do).toContain((await own())?.replaced_by ?? 'no key');
});

test('[R-835] the state and the metrics report the completeness of runs, without an id', async () => {
  const send = async (kind: EventKind, more: object) => {
    const event = sampleEvent(kind, { ...more });
    expect((await post(collector.port, collector.key, JSON.stringify(event), { kind })).status).toBe(201);
    return event.event_id;
  };
  const before = (await state()).runs;
  expect(before === null || before.full === 0).toBe(true);
  const lost = (await state()).ledger.events;
  const runId = await send('inference-start', {});
  for (const kind of ['human-output', 'outcome', 'user-feedback'] as const)
    await send(kind, { run_id: runId });
  const second = await send('inference-start', {});
  await send('human-output', { run_id: second });
  await expect
    .poll(async () => (await state()).runs)
    .toMatchObject({
      ...{ full: 1, minimum: 1, incomplete: 0, without_outcome: 1 },
      ...{ orphan_events: lost, events_behind: 0 },
    });
  const scrape = await Scrape.of(port());
  expect(scrape.value('collector_runs', { completeness: 'full' })).toBe(1);
  expect(scrape.value('collector_runs', { completeness: 'incomplete' })).toBe(0);
  expect(scrape.value('collector_runs_without_outcome')).toBe(1);
  expect(scrape.value('collector_orphan_events')).toBe(lost);
  expect(JSON.stringify(await state())).not.toContain(runId.slice(0, 8));
});
