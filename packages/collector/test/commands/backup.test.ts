import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { issueKey } from '../running/issued-keys.js';
import { readBackupNote } from '../../src/tree/state-files.js';
import { lockDirectory } from '../../src/store/directory-lock.js';
import {
  createKey,
  launch,
  limits,
  outcomeEvent,
  run,
  start,
  storedEvents,
  temporaryDirectory,
} from '../running/collector-process.js';
import { contents } from '../running/directory-contents.js';
import { Load, post } from '../running/load.js';
import { canMount, runReadOnly } from '../running/restricted-process.js';
import { flipBit, segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned, firstKey, loggedEvent, ORIGIN } from './signed-directory.js';
import { changed, framesIn, putFrames } from './tampering.js';

let scratch: string;
let dataDir: string;
let backups: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
  dataDir = path.join(scratch, 'data');
  backups = path.join(scratch, 'backups');
});

/** Events of a kilobyte or so, ten in a batch. */
function batches(count: number): ReturnType<typeof loggedEvent>[][] {
  const batch = (_: unknown, i: number) =>
    Array.from({ length: Math.min(10, count - 10 * i) }, (_each, j) =>
      loggedEvent(`${10 * i + j} a secret ${'x'.repeat(900)}`),
    );
  return Array.from({ length: Math.ceil(count / 10) }, batch);
}

function backUp(...args: readonly string[]) {
  return run(['backup', backups, '--keys-elsewhere', '--data-dir', dataDir, ...args]);
}

interface Told {
  readonly events: number;
  readonly signed_entries: number;
  readonly segments_copied: number;
  readonly segments_there: number;
  readonly bytes_written: number;
}

async function backedUp(...args: readonly string[]): Promise<Told> {
  const { code, stdout, stderr } = await backUp('--json', ...args);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Told;
}

async function expectIntact(): Promise<void> {
  const { code, stdout, stderr } = await run(['verify', '--data-dir', backups]);
  expect([code, stderr], stdout).toEqual([0, '']);
}

/** @returns where it was restored to. */
async function restored(...args: readonly string[]): Promise<string> {
  const target = fs.mkdtempSync(path.join(scratch, 'restored-'));
  const { code, stdout, stderr } = await run(['restore', backups, '--data-dir', target, ...args]);
  expect([code, stderr], stdout).toEqual([0, '']);
  expect(stdout).toMatch(/^INTACT/m);
  return target;
}

function idsIn(directory: string): Promise<Set<string>> {
  return storedEvents(directory).then((stored) => new Set(stored.map(({ event_id }) => event_id)));
}

test('[R-811] while events arrive, a back-up holds every one that was acknowledged before it began', async () => {
  const sink = path.join(scratch, 'checkpoints');
  const key = (await issueKey(dataDir)).text;
  const small = [
    '--max-body-bytes',
    '512KiB',
    ...limits({ 'segment-bytes': '1MiB' }),
    '--checkpoint-interval-ms',
    '200',
  ];
  const collector = await start(dataDir, [...small, '--checkpoint-sink', `file:${sink}`]);
  onTestFinished(() => collector.kill());
  const load = new Load(key, { connections: 16, largest: 100_000 });
  let stopped = false;
  const senders = load.run(collector.port, () => stopped);
  await expect.poll(() => fs.existsSync(sink)).toBe(true);
  let before = 0;
  for (let round = 0; round < 4; round++) {
    await sleep(300);
    await expect.poll(() => load.acknowledged.size).toBeGreaterThan(before);
    const acknowledged = new Set(load.acknowledged);
    const checkpoints = path.join(scratch, `checkpoints-${round}`);
    fs.copyFileSync(sink, checkpoints);
    await backedUp();
    await expectIntact();
    const outside = ['--against', checkpoints, '--key', firstKey(dataDir)];
    const ids = await idsIn(await restored(...outside));
    expect([...acknowledged].filter((id) => !ids.has(id))).toEqual([]);
    before = acknowledged.size;
  }
  stopped = true;
  await senders;
});

test('[R-811] --follow continues after a restart of the collector, until a signal, and loses no event', async () => {
  const key = (await issueKey(dataDir)).text;
  const first = await start(dataDir, ['--checkpoint-interval-ms', '100']);
  onTestFinished(() => first.kill());
  const send = async (port: number) => {
    const event = outcomeEvent();
    expect((await post(port, key, JSON.stringify(event))).status).toBe(201);
    return event.event_id;
  };
  const one = await send(first.port);
  const following = launch([
    ...['backup', backups, '--keys-elsewhere', '--data-dir', dataDir, '--follow', '--json'],
  ]);
  onTestFinished(() => void following.process.kill('SIGKILL'));
  const held = () => {
    const file = path.join(backups, 'backup.json');
    return fs.existsSync(file) ? (JSON.parse(fs.readFileSync(file, 'utf8')) as { events: number }).events : 0;
  };
  await expect.poll(held).toBe(1);
  await first.kill();
  const second = await start(dataDir, ['--checkpoint-interval-ms', '100']);
  onTestFinished(() => second.kill());
  const two = await send(second.port);
  await expect.poll(held).toBe(2);
  expect(await idsIn(await restored())).toEqual(new Set([one, two]));
  // The console knows that the next round is due within seconds.
  const note = () => readBackupNote(dataDir);
  expect(note()).toMatchObject({ follows: true });
  following.process.kill('SIGTERM');
  expect(await following.exited).toBe(0);
  await expectIntact();
  const lines = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8').match(/"command":"backup"/g);
  // It began, and it ended.
  expect(lines).toHaveLength(2);
});

describe('[R-811] a back-up', () => {
  test('is updated with new events, and full segments are not copied again', async () => {
    await fillSigned(dataDir, batches(300));
    const first = await backedUp();
    expect(segmentPaths(dataDir).length).toBeGreaterThan(3);
    expect(first.segments_copied).toBe(segmentPaths(dataDir).length - 1);
    expect(first.bytes_written).toBeGreaterThan(300_000);
    const modified = () =>
      new Map(segmentPaths(backups).map((file) => [file, fs.statSync(file).mtimeMs] as const));
    const before = modified();
    await fillSigned(dataDir, batches(10));
    const second = await backedUp();
    expect(second.events).toBe(310);
    expect(second.segments_copied + second.segments_there).toBe(segmentPaths(dataDir).length - 1);
    expect(second.segments_copied).toBeLessThanOrEqual(1);
    expect(second.bytes_written).toBeGreaterThan(10_000);
    expect(second.bytes_written).toBeLessThan(20_000);
    const whole = [...before.keys()].slice(0, -1);
    expect(whole.map((file) => modified().get(file))).toEqual(whole.map((file) => before.get(file)));
    expect((await idsIn(await restored())).size).toBe(310);
    expect(await backedUp()).toMatchObject({ bytes_written: 0, segments_copied: 0 });
  });

  test('says what it holds and what it does not, and prints nothing of the events', async () => {
    await fillSigned(dataDir, batches(3));
    const { code, stdout, stderr } = await backUp();
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(new RegExp(`^${backups} holds 3 events of ${ORIGIN}, the last received at 20`));
    expect(stdout).toMatch(/does not hold the private signing keys.*file system of the log/s);
    expect(stdout).not.toContain('secret');
    expect(fs.existsSync(path.join(backups, 'signing-keys'))).toBe(false);
    for (const name of ['index', 'tree', 'catalogue', 'signing-keys']) {
      expect(
        [...contents(backups).keys()].filter((file) => file.startsWith(path.join(backups, name))),
      ).toEqual([]);
    }
  });

  test('is for its owner alone, and has the private keys on request', async () => {
    await fillSigned(dataDir, batches(3));
    const { stdout } = await backUp('--with-signing-keys');
    expect(stdout).toContain('It holds the private signing keys');
    const entries = fs.readdirSync(backups, { recursive: true, withFileTypes: true });
    const modes = entries.map((entry) => {
      const mode = fs.statSync(path.join(entry.parentPath, entry.name)).mode & 0o777;
      return [entry.name, mode.toString(8)];
    });
    expect(modes.filter(([, mode]) => mode !== '600' && mode !== '700')).toEqual([]);
    expect(entries.some((entry) => entry.isFile() && entry.name.endsWith('.pem'))).toBe(true);
    const target = await restored();
    const [file = ''] = fs.readdirSync(path.join(dataDir, 'signing-keys'));
    const key = (directory: string) => fs.readFileSync(path.join(directory, 'signing-keys', file), 'utf8');
    expect(key(target)).toBe(key(dataDir));
    // A later run that does not ask for them leaves them where they are, and says so.
    expect((await backUp()).stdout).toContain('It holds the private signing keys');
    expect(key(backups)).toBe(key(dataDir));
  });

  test('[R-811] is logged in the access log as a reading and for the console, and changes nothing else', async () => {
    await fillSigned(dataDir, batches(3));
    const before = contents(dataDir);
    const { events } = await backedUp();
    const after = contents(dataDir);
    const note = path.join(dataDir, 'checkpoints', 'backup.json');
    const noted: unknown = JSON.parse(Buffer.from(after.get(note) ?? '', 'base64').toString());
    expect(noted).toEqual({ at: expect.stringMatching(/^20.*Z$/) as string, events });
    after.delete(note);
    const accessLog = path.join(dataDir, 'access.log');
    const lines = Buffer.from(after.get(accessLog) ?? '', 'base64').toString();
    expect(lines).toMatch(
      /"command":"backup","filter":\{"directory":".*"\}\}\n.*"events":3,"complete":true\}\n$/,
    );
    after.delete(accessLog);
    expect(after).toEqual(before);
  });

  test.skipIf(!canMount)('is made from a read-only snapshot', async () => {
    await fillSigned(dataDir, batches(3));
    await issueKey(dataDir);
    const { code, stderr } = await runReadOnly(dataDir, [
      ...['backup', backups, '--keys-elsewhere', '--data-dir', dataDir],
    ]);
    expect([code, stderr]).toEqual([0, expect.stringContaining('this access is not logged')]);
    expect((await idsIn(await restored())).size).toBe(3);
  });

  test('that is killed at any time leaves the earlier one whole, and the next one continues', async () => {
    await fillSigned(dataDir, batches(100));
    await backedUp();
    let killed = 0;
    for (let wait = 60; wait <= 300; wait += 30) {
      await fillSigned(dataDir, batches(400));
      const running = launch(['backup', backups, '--keys-elsewhere', '--data-dir', dataDir]);
      await sleep(wait);
      running.process.kill('SIGKILL');
      if ((await running.exited) === null) killed++;
      await expectIntact();
    }
    expect(killed).toBeGreaterThan(0);
    const { events: count } = await backedUp();
    await expectIntact();
    expect((await idsIn(await restored())).size).toBe(count);
  });

  test('that was killed between any two files leaves the earlier one whole, and the next one continues', async () => {
    await fillSigned(dataDir, batches(100));
    await backedUp();
    const before = path.join(scratch, 'before');
    fs.cpSync(backups, before, { recursive: true });
    await fillSigned(dataDir, batches(400));
    await backedUp();
    const after = path.join(scratch, 'after');
    fs.cpSync(backups, after, { recursive: true });
    const names = fs.readdirSync(path.join(after, 'ledger'));
    const old = fs.readdirSync(path.join(before, 'ledger')).at(-1) ?? '';
    const cut = (name: string, bytes: number) => fs.truncateSync(path.join(backups, 'ledger', name), bytes);
    const takeOver = (last: string) => {
      fs.cpSync(path.join(after, 'access.log'), path.join(backups, 'access.log'));
      for (const name of names.filter((each) => each >= old && each <= last)) {
        fs.cpSync(path.join(after, 'ledger', name), path.join(backups, 'ledger', name));
      }
    };
    for (const left of [() => cut(names[3] ?? '', 80), () => cut(names[3] ?? '', 1000), () => undefined]) {
      fs.rmSync(backups, { recursive: true });
      fs.cpSync(before, backups, { recursive: true });
      takeOver(names[3] ?? '');
      left();
      fs.writeFileSync(path.join(backups, 'ledger', 'segment.draft'), 'half');
      fs.writeFileSync(path.join(backups, 'checkpoints', 'latest.draft'), 'half');
      await expectIntact();
      expect((await idsIn(await restored())).size).toBeGreaterThanOrEqual(100);
      expect((await backedUp()).events).toBe(500);
      await expectIntact();
      expect((await idsIn(await restored())).size).toBe(500);
    }
  });

  test('is itself a data directory, on a copy of which a collector starts', async () => {
    const key = (await issueKey(dataDir)).text;
    const first = await start(dataDir);
    onTestFinished(() => first.kill());
    const body = JSON.stringify(outcomeEvent());
    expect((await post(first.port, key, body)).status).toBe(201);
    await backedUp('--with-signing-keys');
    await first.kill();
    const copy = path.join(scratch, 'copy');
    fs.cpSync(backups, copy, { recursive: true });
    fs.cpSync(path.join(dataDir, 'encryption-keys'), path.join(copy, 'encryption-keys'), { recursive: true });
    const second = await start(copy);
    onTestFinished(() => second.kill());
    expect((await post(second.port, key, body)).status).toBe(201);
    expect(await second.stop()).toBe(0);
    expect((await run(['verify', '--data-dir', copy])).code).toBe(0);
    expect((await storedEvents(copy)).length).toBe(1);
  });

  test('on a full disk reports that, leaves the earlier one whole, and continues when there is space', async () => {
    await fillSigned(dataDir, batches(20), { segmentBytes: 1 << 20 });
    await backedUp();
    await fillSigned(dataDir, batches(400), { segmentBytes: 1 << 20 });
    const { code, stderr } = await withFilesOf(100_000, [
      ...['backup', backups, '--keys-elsewhere', '--data-dir', dataDir],
    ]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^collector: the disk is full \(EFBIG\).*\n$/)]);
    await expectIntact();
    expect((await idsIn(await restored())).size).toBeGreaterThanOrEqual(20);
    await backedUp();
    expect((await idsIn(await restored())).size).toBe(420);
  });

  test('with --follow reports a full disk once, and continues when there is space', async () => {
    await fillSigned(dataDir, batches(20), { segmentBytes: 1 << 20 });
    await backedUp();
    await fillSigned(dataDir, batches(400), { segmentBytes: 1 << 20 });
    const following = launchWithFilesOf(100_000, [
      ...['backup', backups, '--keys-elsewhere', '--data-dir', dataDir, '--follow'],
    ]);
    let stderr = '';
    following.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const ended = new Promise((resolve) => following.on('close', resolve));
    await expect.poll(() => stderr).toContain('\n');
    await expectIntact();
    spawnSync('prlimit', ['--pid', String(following.pid), '--fsize=unlimited:']);
    const held = () =>
      (JSON.parse(fs.readFileSync(path.join(backups, 'backup.json'), 'utf8')) as { events: number }).events;
    await expect.poll(held).toBe(420);
    following.kill('SIGTERM');
    expect(await ended).toBe(0);
    expect(stderr).toMatch(/^collector: the disk is full \(EFBIG\).*\n$/);
    await expectIntact();
    expect((await idsIn(await restored())).size).toBe(420);
  });

  test('is refused while another one is being written there', async () => {
    await fillSigned(dataDir, batches(3));
    await backedUp();
    const before = contents(backups);
    const lock = lockDirectory(backups);
    const { code, stderr } = await backUp();
    expect([code, stderr]).toEqual([5, expect.stringContaining(backups)]);
    // Not before: a process that closes a file loses its locks on it.
    lock.release();
    expect(contents(backups)).toEqual(before);
    await backedUp();
  });

  test('is refused in the place of another back-up or log, and inside or around the log itself', async () => {
    await fillSigned(dataDir, batches(3));
    await issueKey(dataDir);
    const other = path.join(scratch, 'other');
    await fillSigned(other, batches(1), { origin: 'log.example/other' });
    await run(['backup', backups, '--keys-elsewhere', '--data-dir', other]);
    const refused = async (directory: string) => {
      const { code, stdout, stderr } = await run([
        ...['backup', directory, '--keys-elsewhere', '--data-dir', dataDir],
      ]);
      expect([code, stdout]).toEqual([2, '']);
      return stderr;
    };
    expect(await refused(backups)).toContain('log.example/other');
    expect(await refused(other)).toContain(other);
    expect(await refused(path.join(dataDir, 'backups'))).toContain('inside one another');
    expect(await refused(scratch)).toContain('inside one another');
    expect(fs.existsSync(path.join(dataDir, 'backups'))).toBe(false);
    expect(fs.existsSync(path.join(other, 'lock'))).toBe(false);
  });

  test('is not made from an older copy of the log, also not if that copy was continued', async () => {
    await fillSigned(dataDir, batches(100));
    const older = path.join(scratch, 'older');
    fs.cpSync(dataDir, older, { recursive: true });
    await fillSigned(dataDir, batches(100));
    await backedUp();
    const before = contents(path.join(backups, 'ledger'));
    for (let i = 0; i < 2; i++) {
      const { code, stderr } = await run(['backup', backups, '--keys-elsewhere', '--data-dir', older]);
      expect([code, stderr]).toEqual([3, expect.stringContaining('this log does not continue')]);
      expect(contents(path.join(backups, 'ledger'))).toEqual(before);
      await fillSigned(older, batches(200));
    }
    await expectIntact();
  });

  test('never follows a link, which would overwrite the log itself', async () => {
    await fillSigned(dataDir, batches(3));
    await backedUp();
    await fillSigned(dataDir, batches(1));
    const before = contents(path.join(dataDir, 'ledger'));
    for (const name of ['ledger', 'checkpoints/latest', 'access.log']) {
      const [file, kept] = [path.join(backups, name), path.join(scratch, 'kept')];
      fs.renameSync(file, kept);
      fs.symlinkSync(path.join(dataDir, name), file);
      expect(await backUp()).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('is neither a file nor a directory') as string,
      });
      const target = path.join(scratch, 'target');
      expect((await run(['restore', backups, '--data-dir', target])).code).toBe(2);
      fs.rmSync(file);
      fs.renameSync(kept, file);
    }
    expect(contents(path.join(dataDir, 'ledger'))).toEqual(before);
    await backedUp();
  });

  test('copies a missing segment again, and never overwrites what a checkpoint covers', async () => {
    await fillSigned(dataDir, batches(200));
    await backedUp();
    const [first = ''] = segmentPaths(backups);
    fs.rmSync(first);
    expect((await run(['verify', '--data-dir', backups])).code).toBe(3);
    await backedUp();
    await expectIntact();
    const last = segmentPaths(backups).at(-1) ?? '';
    flipBit(last, 200);
    await fillSigned(dataDir, batches(1));
    const before = contents(backups);
    expect(await backUp()).toMatchObject({ code: 3, stdout: '' });
    expect(contents(path.join(backups, 'ledger')).get(last)).toEqual(before.get(last));
  });

  test('keeps an access log that the new one does not continue', async () => {
    await fillSigned(dataDir, batches(3));
    await backedUp();
    const before = fs.readFileSync(path.join(backups, 'access.log'), 'utf8');
    const file = path.join(dataDir, 'access.log');
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('begun', 'BEGUN'));
    const { stdout } = await backUp('--json');
    expect(JSON.parse(stdout)).toMatchObject({ access_log_restarted: true });
    const kept = fs.readdirSync(backups).find((name) => name.startsWith('access.log.until-')) ?? '';
    expect(fs.readFileSync(path.join(backups, kept), 'utf8')).toBe(before);
  });

  test('needs a log with a checkpoint', async () => {
    const { code, stderr } = await backUp();
    expect([code, stderr]).toEqual([6, expect.stringContaining(`${dataDir} holds no `)]);
    fs.mkdirSync(path.join(dataDir, 'ledger'), { recursive: true });
    expect(await backUp()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('nothing is signed') as string,
    });
    expect(fs.existsSync(backups)).toBe(false);
  });
});

function launchWithFilesOf(bytes: number, args: readonly string[]) {
  const main = path.resolve(import.meta.dirname, '../../dist/main.js');
  const child = spawn('prlimit', [`--fsize=${bytes}:`, process.execPath, main, ...args]);
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

/** Runs one command that may not write files of more than this number of bytes, as on a full disk. */
function withFilesOf(
  bytes: number,
  args: readonly string[],
): Promise<{ code: number | null; stderr: string }> {
  const child = launchWithFilesOf(bytes, args);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject).on('close', (code) => resolve({ code, stderr }));
  });
}

describe('[R-811] a back-up of damaged data', () => {
  test.each([
    ['the first segment', () => segmentPaths(dataDir)[0] ?? '', 5000, /byte \d+, event \d+: /],
    ['the header of a segment', () => segmentPaths(dataDir)[0] ?? '', 34, /000001\.segment/],
    ['the last segment', () => segmentPaths(dataDir).at(-1) ?? '', 200, /byte \d+, event \d+: /],
    ['the newest checkpoint', () => path.join(dataDir, 'checkpoints', 'latest'), 40, /checkpoints\/latest/],
    [
      'a kept checkpoint',
      () => path.join(dataDir, 'checkpoints', '0000000000000000.checkpoint'),
      150,
      /checkpoints\/0000000000000000\.checkpoint: this note is not a checkpoint of this log/,
    ],
    ['a page of the API keys', () => path.join(dataDir, 'keys.db'), 4096, /keys\.db/],
    ['the first key of the log', () => path.join(dataDir, 'checkpoints', 'origin.vkey'), 60, /checkpoints/],
  ])('ends with 3 and names the place if a byte has changed in %s', async (_, file, offset, place) => {
    await fillSigned(dataDir, batches(200));
    await issueKey(dataDir);
    flipBit(file(), offset);
    const { code, stdout, stderr } = await backUp();
    expect([code, stdout, stderr]).toEqual([3, '', expect.stringMatching(place)]);
    expect(fs.existsSync(path.join(backups, 'checkpoints', 'latest'))).toBe(false);
  });

  test('[R-811] is refused if a signed leaf has changed and its checksum fits, and the earlier one is kept', async () => {
    await fillSigned(dataDir, batches(20), { segmentBytes: 1 << 20 });
    await backedUp();
    const before = fs.readFileSync(path.join(backups, 'checkpoints', 'latest'), 'utf8');
    await fillSigned(dataDir, batches(20), { segmentBytes: 1 << 20 });
    const [segment = ''] = segmentPaths(dataDir);
    const whole = framesIn(segment);
    putFrames(
      segment,
      framesIn(segment).map((frame, i) => (i === 30 ? changed(frame, 40) : frame)),
    );
    expect(await backUp()).toMatchObject({
      ...{ code: 3, stderr: expect.stringContaining('do not have the root that was signed') as string },
    });
    expect(fs.readFileSync(path.join(backups, 'checkpoints', 'latest'), 'utf8')).toBe(before);
    await expectIntact();
    putFrames(segment, whole);
    expect((await backedUp()).events).toBe(40);
    await expectIntact();
  });

  test('is refused by verify and restore if a changed event has a checksum that fits', async () => {
    await fillSigned(dataDir, batches(20), { segmentBytes: 1 << 20 });
    const [segment = ''] = segmentPaths(dataDir);
    putFrames(
      segment,
      framesIn(segment).map((frame, i) => (i === 7 ? changed(frame, frame.length - 10) : frame)),
    );
    await backedUp();
    expect((await run(['verify', '--data-dir', backups])).code).toBe(3);
    const target = path.join(scratch, 'target');
    expect((await run(['restore', backups, '--data-dir', target])).code).toBe(3);
    expect(fs.existsSync(target)).toBe(false);
  });
});

test('[R-812] a changed byte in a back-up is found by verify and by a restore, which then leaves nothing', async () => {
  await fillSigned(dataDir, batches(20));
  await createKey(dataDir);
  await backedUp();
  // Now a head in the log covers the lines of that back-up in the access log.
  await fillSigned(dataDir, batches(1));
  await backedUp('--with-signing-keys');
  await expectIntact();
  const proved = /ledger\/\d|checkpoints\/|access\.log/;
  const files = [...contents(backups).keys()].filter((file) => proved.test(file));
  expect(files.length).toBeGreaterThan(3);
  for (const file of files) {
    const middle = Math.floor(fs.statSync(file).size / 2);
    flipBit(file, middle);
    const damaged = contents(backups);
    const { code, stdout } = await run(['verify', '--data-dir', backups]);
    expect([0, 1], `${file}: ${stdout}`).not.toContain(code);
    expect(contents(backups)).toEqual(damaged);
    const target = path.join(scratch, 'target');
    expect((await run(['restore', backups, '--data-dir', target])).code).not.toBe(0);
    expect(fs.existsSync(target)).toBe(false);
    flipBit(file, middle);
  }
  await expectIntact();
});
