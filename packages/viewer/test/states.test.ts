/** What the pages say while something is away: the disk, the keys, the catalogue, an erased run. */
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { issueKey } from '../../collector/test/running/issued-keys.js';
import { type Running, start, temporaryDirectory } from '../../collector/test/running/collector-process.js';
import { erased } from '../../collector/test/running/erasing.js';
import {
  ProxyPerson,
  PROXY,
  rolesFile,
  type RunningViewer,
  sendRun,
  type SentRun,
  startViewer,
} from './running/viewer-process.js';

const FULL_DISK = pathToFileURL(path.resolve(import.meta.dirname, 'running/full-access-log.mjs')).href;
const directory = temporaryDirectory();
const dataDir = path.join(directory, 'data');
const stateDir = path.join(directory, 'state');
const keys = path.join(directory, 'keys');
const full = path.join(directory, 'disk-is-full');
const SUMMARY = 'Order an ECG.';
let collector: Running;
let viewer: RunningViewer;
let reviewer: ProxyPerson;
let key: string;
let first: SentRun;
let second: SentRun;

const pageOf = ({ run }: SentRun) => `/reviewer/runs/${run}?organisation=default`;

beforeAll(async () => {
  fs.mkdirSync(dataDir);
  fs.mkdirSync(keys);
  key = (await issueKey(dataDir)).text;
  const args = ['--encryption-keys', keys, '--checkpoint-interval-ms', '100'];
  collector = await start(dataDir, args, ['--import', FULL_DISK], { FULL_DISK: full });
  first = await sendRun(collector.url, key);
  second = await sendRun(collector.url, key);
  const role = { role: 'reviewer', groups: ['safety'], organisations: '*' };
  viewer = await startViewer([
    ...['--data-dir', dataDir, '--state-dir', stateDir, '--auth', 'proxy:X-Remote-User', '--url', PROXY],
    ...['--roles', rolesFile(directory, [role])],
  ]);
  await viewer.logged('the catalogue is ready');
  reviewer = new ProxyPerson(viewer, 'reviewer-1', 'safety');
});

afterAll(async () => {
  await viewer.stop();
  await collector.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

test('[R-2042] while the disk under the access log is full, nothing is shown', async () => {
  expect((await reviewer.get(pageOf(first))).text).toContain(SUMMARY);
  fs.writeFileSync(full, '');
  for (const address of [pageOf(first), '/reviewer/runs', '/reviewer/report?show=1']) {
    const { status, text } = await reviewer.get(address);
    expect(status).toBe(503);
    expect(text).toContain('could not be recorded');
    for (const shown of [SUMMARY, first.run, 'patient-4711']) expect(text).not.toContain(shown);
  }
  fs.rmSync(full);
  await expect.poll(async () => (await reviewer.get(pageOf(first))).text).toContain(SUMMARY);
});

test('[R-2051] while the keys are away, contents are shown as not readable and lists work', async () => {
  fs.renameSync(keys, `${keys}-away`);
  await expect.poll(async () => (await reviewer.get(pageOf(first))).text).not.toContain(SUMMARY);
  const { status, text } = await reviewer.get(pageOf(first));
  expect(status).toBe(200);
  expect(text).toMatch(/keys/i);
  const list = await reviewer.get('/reviewer/runs');
  expect(list.status).toBe(200);
  expect(list.text).toContain(first.run);
  fs.renameSync(`${keys}-away`, keys);
  await expect.poll(async () => (await reviewer.get(pageOf(first))).text).toContain(SUMMARY);
});

test('[R-2051] a run that is erased while people read it is shown as erased, and never again with contents', async () => {
  const reading = { stopped: false };
  const seen: string[] = [];
  const read = async () => {
    while (!reading.stopped) {
      const { status, text } = await reviewer.get(pageOf(second));
      seen.push(
        `${status} ${text.includes(SUMMARY) ? 'contents' : /erased/i.test(text) ? 'erased' : 'neither'}`,
      );
    }
  };
  const readers = [read(), read(), read()];
  try {
    const { code, stderr } = await erased(['--data-dir', dataDir], ['--run', second.run]);
    expect([code, stderr]).toEqual([0, stderr]);
    await expect.poll(() => seen.at(-1)).toBe('200 erased');
  } finally {
    reading.stopped = true;
    await Promise.all(readers);
  }
  expect(new Set(seen)).toEqual(new Set(['200 contents', '200 erased']));
  // No page with contents left after the first one that said erased, apart from those being made meanwhile.
  const firstErased = seen.indexOf('200 erased');
  expect(seen.slice(firstErased + readers.length)).not.toContain('200 contents');
  const list = await reviewer.get('/reviewer/runs');
  expect(list.text).toContain(second.run);
});

test('[R-2051] a catalogue that is damaged is made again, and the pages say so or show the list', async () => {
  const catalogue = path.join(stateDir, 'catalogue', 'catalogue.sqlite');
  const file = fs.openSync(catalogue, 'r+');
  fs.writeSync(file, Buffer.alloc(8192, 0xff), 0, 8192, 4096);
  fs.closeSync(file);
  await sendRun(collector.url, key);
  await expect
    .poll(async () => {
      const { status, text } = await reviewer.get('/reviewer/runs');
      expect([200, 503]).toContain(status);
      if (status === 503) expect(text).not.toContain(first.run);
      return (text.match(/\/reviewer\/runs\/[0-9a-f-]{36}/g) ?? []).length > 0 && status;
    })
    .toBe(200);
  expect((await reviewer.get(pageOf(first))).text).toContain(SUMMARY);
});

test('[R-2051] a viewer that cannot use its state directory says so in one line after its first, without a trace', async () => {
  const file = path.join(directory, 'a-file');
  fs.writeFileSync(file, '');
  for (const [state, says] of [
    [path.join(file, 'state'), /cannot be written \(ENOTDIR\); --state-dir names another directory/],
    [stateDir, /is in use by another viewer; --state-dir names another directory/],
  ] as const) {
    const started = startViewer(['--data-dir', dataDir, '--state-dir', state]);
    const first = String.raw`ended: \{[^\n]*"msg":"starting"\}`;
    await expect(started).rejects.toThrow(new RegExp(`${first}\ncollector-viewer: [^\n]*${says.source}\n$`));
  }
});

test('[R-2046] a stop ends the viewer in order', async () => {
  expect(await viewer.stop()).toBe(0);
  const last = JSON.parse(viewer.output.stderr.trim().split('\n').at(-1) ?? '') as Record<string, unknown>;
  expect(last).toMatchObject({ level: 'info', reason: 'SIGTERM', msg: 'stopping' });
  expect(last['time']).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  for (const text of [SUMMARY, 'patient-4711', key]) expect(viewer.output.stderr).not.toContain(text);
});
