/** Reading with its threads beside a collector: the answers are those of the commands. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { objectOf } from '../../../collector/src/commands/run-list.js';
import { erased } from '../../../collector/test/running/erasing.js';
import { run, type Running, start } from '../../../collector/test/running/collector-process.js';
import { scratch } from '../../../collector/test/running/scratch.js';
import { Unusable } from '@clinical-events/collector/unusable';
import { openReading } from '../../dist/reading/open-reading.js';
import { LookRefused } from '../../dist/contract.js';
import { BEGAN, type Scope } from '../../src/contract.js';
import { NamesKeys } from '../../src/reading/names-keys.js';
import { sentenceOf } from '../../src/reading/trouble.js';

const ALL: Scope = { organisations: undefined, applications: undefined, caller: undefined };

let root: string;
let dataDir: string;
let stateDir: string;
let keys: string;
let collector: Running;

beforeEach(async () => {
  root = scratch();
  dataDir = path.join(root, 'data');
  stateDir = path.join(root, 'viewer');
  keys = path.join(root, 'keys');
  fs.mkdirSync(keys);
  await on('keys', 'create', '--organisation', 'demo', '--permissions', 'all').then(({ stdout }) =>
    fs.writeFileSync(path.join(root, 'key'), /cek_[a-z2-7]{12}_[\w-]{43}/.exec(stdout)?.[0] ?? ''),
  );
  collector = await start(dataDir, ['--encryption-keys', keys, '--checkpoint-interval-ms', '100']);
  onTestFinished(() => collector.kill());
  await send(30, 1);
});

async function on(...args: readonly string[]) {
  const ended = await run([...args, '--data-dir', dataDir]);
  if (ended.code !== 0) throw new Error(`${args.join(' ')}: ${ended.stderr}`);
  return ended;
}

/** Imports runs of the demo. */
async function send(runs: number, seed: number): Promise<void> {
  const file = path.join(root, `${seed}.ndjson`);
  const made = await run([
    'demo',
    '--runs',
    String(runs),
    '--seed',
    String(seed),
    '--out',
    file,
    '--until',
    '2026-03-01',
  ]);
  if (made.code !== 0) throw new Error(made.stderr);
  const by = ['--organisation', 'demo', '--url', collector.url, '--key', `@${path.join(root, 'key')}`];
  const sent = await run(['import', ...by, file]);
  if (sent.code !== 0) throw new Error(sent.stderr);
}

async function opened() {
  const followed: string[] = [];
  const began: string[] = [];
  const troubles: string[] = [];
  const reading = await openReading({
    ...{ dataDir, stateDir, kek: undefined, keysKeptMs: 100, everyMs: 50 },
    onFollowed: (action) => Promise.resolve(void (action === BEGAN ? began : followed).push(action)),
    onTrouble: (message) => void troubles.push(message),
  });
  onTestFinished(() => reading.close());
  return { reading, began, followed, troubles };
}

/** Waits until the catalogue has all events. */
async function settled(reading: Awaited<ReturnType<typeof opened>>['reading']): Promise<void> {
  const runs = linesOf((await on('runs', '--json', '--limit', 'all')).stdout) as { event_count: number }[];
  const events = runs.reduce((sum, { event_count }) => sum + event_count, 0);
  await expect.poll(async () => (await reading.state()).entries).toBeGreaterThanOrEqual(events);
}

const linesOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as object);

describe('[R-2051] a list, a run, a proof and a report', () => {
  test('are those of the commands, with the same filters', async () => {
    const { reading } = await opened();
    await settled(reading);
    const listOf = async (filter: object) => {
      const { runs } = await reading.runs({
        ...{ scope: ALL, offset: 0, limit: 1000 },
        filter: { clock: 'received', ...filter },
      });
      return runs.map((each) => objectOf({ ...each, userId: null, targetId: null }));
    };
    for (const [filter, options] of [
      [{}, []],
      [{ outcome: 'validated' }, ['--outcome', 'validated']],
      [{ feedback: 'any', clock: 'sender' }, ['--feedback', 'any', '--clock', 'sender']],
      [{ level: 'incomplete' }, ['--only', 'incomplete']],
      [{ since: Date.parse('2026-02-01'), clock: 'sender' }, ['--since', '2026-02-01', '--clock', 'sender']],
    ] as const) {
      const { stdout } = await on('runs', '--json', '--limit', 'all', ...options);
      const own = linesOf(stdout).map((each) => ({ ...each, caller_id: null, target_id: null }));
      expect(JSON.parse(JSON.stringify(await listOf(filter)))).toEqual(own);
    }
    const { runs } = await reading.runs({
      ...{ scope: ALL, offset: 0, limit: 3, filter: { clock: 'received' } },
    });
    for (const { recordId, organisation } of runs) {
      const found = await reading.run({ scope: ALL, recordId, organisation, withContents: true, from: 0 });
      const { stdout } = await on('records', '--run', recordId, '--json');
      expect(JSON.parse(JSON.stringify(found?.record))).toEqual(JSON.parse(stdout));
      const event = found?.record.metadata.events[0];
      const proof = await reading.proof({
        ...{ scope: ALL, eventId: event?.event_id ?? '', organisation, withContents: true, from: 0 },
      });
      expect(proof).toMatchObject({ recordId, sequence: event?.sequence, checkpointAt: undefined });
      const [file, body] = ['proof', 'body'].map((name) => path.join(root, `${recordId}.${name}`));
      fs.writeFileSync(file ?? '', proof?.text ?? '');
      const [entry] = linesOf((await on('events', '--event', event?.event_id ?? '')).stdout);
      fs.writeFileSync(body ?? '', (entry as { body: string }).body);
      const by = ['--event', body ?? '', '--key', proof?.verifierKey ?? ''];
      const checked = await run(['check-proof', file ?? '', ...by]);
      expect(checked.code, checked.stderr).toBe(0);
    }
    const out = path.join(root, 'report.html');
    const report = JSON.parse((await on('report', '--out', out, '--json')).stdout) as object;
    const asked = { organisation: undefined, model: undefined, since: undefined, until: undefined };
    const numbers = await reading.report({ ...asked, scope: ALL, clock: 'received' });
    // The log's own entries count too, and a command adds to the access log.
    const varying = { made_at: '', log: undefined };
    expect({ ...numbers, ...varying }).toEqual({ ...report, ...varying });
    await expect.poll(() => reading.names(ALL)).toMatchObject({ organisations: ['demo'] });
  });
});

/** Words of the demo's patients. */
async function aTarget(): Promise<string> {
  const [line] = linesOf((await on('runs', '--json', '--limit', '1')).stdout);
  return (line as { target_id: string }).target_id;
}

async function erase(target: string): Promise<void> {
  const file = path.join(root, 'subject');
  fs.writeFileSync(file, `${target}\n`);
  const done = await erased(['--data-dir', dataDir], ['--subject-file', file]);
  expect(done.code, done.stderr).toBe(0);
}

/** Whether a file of the viewer has a name as a key seals it. */
function holds(name: string, cipher: { seal(name: string): Buffer } | undefined): boolean {
  return ['catalogue.sqlite', 'catalogue.sqlite-wal']
    .map((each) => path.join(stateDir, 'catalogue', each))
    .some((file) => fs.existsSync(file) && fs.readFileSync(file).includes(cipher?.seal(name) ?? ''));
}

test('[R-2051] a viewer without a collector says so once, and names no erasure', async () => {
  await collector.kill();
  const troubles: string[] = [];
  let tries = 0;
  const reading = await openReading({
    ...{ dataDir, stateDir, kek: undefined, keysKeptMs: 100, everyMs: 10 },
    onFollowed() {
      tries++;
      return Promise.reject(new LookRefused(`no collector runs on ${dataDir}`));
    },
    onTrouble: (message) => void troubles.push(message),
  });
  onTestFinished(() => reading.close());
  await expect.poll(() => tries, { timeout: 30_000 }).toBeGreaterThan(2);
  expect(troubles).toEqual([`looks cannot be recorded yet: no collector runs on ${dataDir}`]);
});

test('[R-2051] what a directory without a log lacks is named', () => {
  const lacks = Object.assign(new Error('no'), { code: 'ENOENT', path: '/data/ledger' });
  expect(sentenceOf(lacks)).toBe('The log cannot be read (ENOENT: /data/ledger).');
});

test('[R-2051] a log of a later format is named as such', () => {
  const message = 'the segment was written by a later version of the collector';
  expect(sentenceOf(new Unusable(message))).toBe(`T${message.slice(1)}.`);
});

describe('[R-2050] an erasure', () => {
  test('is followed: its names are gone, their key too, and it is reported once', async () => {
    const { reading, began, followed } = await opened();
    await settled(reading);
    // Certificates list a viewer from now on, whether or not it follows.
    expect(began).toEqual([BEGAN]);
    const target = await aTarget();
    const [before] = new NamesKeys(stateDir).ciphers();
    expect(holds(target, before)).toBe(true);
    const list = async () =>
      (await reading.runs({ scope: ALL, offset: 0, limit: 9, filter: { clock: 'received', target } })).runs;
    const [of] = await list();
    if (of === undefined) throw new Error('no run');
    const { recordId, organisation } = of;
    const hold = (await on('hold', 'add', 'INQUEST-1', '--run', recordId)).stdout;
    const held = await reading.run({ scope: ALL, recordId, organisation, withContents: true, from: 0 });
    expect(held?.holds).toHaveLength(1);
    expect(hold).toContain(held?.holds[0]);
    await on('hold', 'release', held?.holds[0] ?? '');
    await erase(target);
    // The page of a run shows an erasure at once, whether or not the catalogue has followed.
    const found = await reading.run({ scope: ALL, recordId, organisation, withContents: true, from: 0 });
    expect(found?.record.metadata.events.some(({ payload }) => payload === 'erased')).toBe(true);
    expect(JSON.stringify(found)).not.toContain(target);
    await expect.poll(() => followed).toHaveLength(1);
    expect(found?.holds).toEqual(followed);
    expect(await list()).toEqual([]);
    const after = new NamesKeys(stateDir).ciphers();
    expect(after.map(({ id }) => id)).not.toContain(before?.id);
    expect([after.length, holds(target, after[0])]).toEqual([1, false]);
    const { entries } = await reading.state();
    await send(1, 2);
    await expect.poll(async () => (await reading.state()).entries).toBeGreaterThan(entries);
    expect(followed).toHaveLength(1);
    expect((await reading.state()).reason).toBeUndefined();
  });

  test('is followed and reported after a kill, and not again after the next start', async () => {
    const first = await opened();
    await settled(first.reading);
    const target = await aTarget();
    const [before] = new NamesKeys(stateDir).ciphers();
    await first.reading.close();
    await erase(target);
    // Killed at several points of the work; the reports are refused.
    for (const wait of [/"id"/, /followed/, /followed/]) await killedAt(wait);
    const second = await opened();
    await expect.poll(() => second.followed).toHaveLength(1);
    const after = new NamesKeys(stateDir).ciphers();
    expect(after.map(({ id }) => id)).not.toContain(before?.id);
    expect([after.length, holds(target, after[0])]).toEqual([1, false]);
    await expect
      .poll(() => fs.readFileSync(path.join(stateDir, 'state.json'), 'utf8'))
      .toContain(second.followed[0]);
    await second.reading.close();
    const third = await opened();
    await settled(third.reading);
    await third.reading.runs({ scope: ALL, offset: 0, limit: 1, filter: { clock: 'received' } });
    expect([...third.began, ...third.followed]).toEqual([]);
  });
});

/** Ends a viewer by kill -9 once it has printed something. */
async function killedAt(printed: RegExp): Promise<void> {
  const file = path.join(import.meta.dirname, 'reading-process.mjs');
  const child = spawn(process.execPath, [file, dataDir, stateDir, 'refuse']);
  const ended = new Promise((resolve) => child.on('close', resolve));
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  await expect.poll(() => output).toMatch(printed);
  child.kill('SIGKILL');
  await ended;
}
