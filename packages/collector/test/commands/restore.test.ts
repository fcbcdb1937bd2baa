import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  createKey,
  outcomeEvent,
  run,
  start,
  storedEvents,
  temporaryDirectory,
} from '../running/collector-process.js';
import { contents } from '../running/directory-contents.js';
import { post } from '../running/load.js';
import { segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned, firstKey, loggedEvent } from './signed-directory.js';
import { changed, framesIn, putFrames, rebuild } from './tampering.js';

let scratch: string;
let dataDir: string;
let backups: string;
let target: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
  dataDir = path.join(scratch, 'data');
  backups = path.join(scratch, 'backups');
  target = path.join(scratch, 'restored');
});

function events(count: number): ReturnType<typeof loggedEvent>[] {
  return Array.from({ length: count }, (_, i) => loggedEvent(`${i} ${'x'.repeat(900)}`));
}

async function backUp(...args: readonly string[]): Promise<void> {
  const { code, stderr } = await run([
    ...['backup', backups, '--keys-elsewhere', '--data-dir', dataDir, '--json', ...args],
  ]);
  expect([code, stderr]).toEqual([0, '']);
}

function restore(...args: readonly string[]) {
  return run(['restore', backups, '--data-dir', target, ...args]);
}

/** As a sink outside would have kept it. */
function keptOutside(name: string): string {
  const file = path.join(scratch, name);
  fs.copyFileSync(path.join(dataDir, 'checkpoints', 'latest'), file);
  return file;
}

describe('[R-812] a restored data directory', () => {
  test('is verified against checkpoints and a key from elsewhere, and its content is reported', async () => {
    await fillSigned(dataDir, [events(100)]);
    await backUp();
    const given = ['--against', keptOutside('outside'), '--key', firstKey(dataDir)];
    const { code, stdout, stderr } = await restore(...given);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(
      new RegExp(`^${target} holds 100 events. The last completed round of the back-up began at 20.*Z;`),
    );
    expect(stdout).toContain('INTACT: the 100 entries of the log are those that were signed');
    expect(stdout).toContain('1 given');
    expect(stdout).toMatch(/signing\s+keys\s+were\s+not\s+backed\s+up/);
    const lines = fs.readFileSync(path.join(target, 'access.log'), 'utf8');
    expect(lines).toMatch(/"command":"restore".*\n.*"events":100,"complete":true\}\n$/);
    expect(fs.existsSync(path.join(target, 'lock'))).toBe(false);
    fs.rmSync(target, { recursive: true });
    const { stdout: json } = await restore(...given, '--json');
    expect(JSON.parse(json)).toMatchObject({
      ...{ directory: target, restored: true, events: 100, newest_checkpoint_given: null },
      verified: { intact: true, checkpoints_given: 1, keys_from: 'given', access_log: { unended: 0 } },
    });
    // The end of the reading by the back-up itself was logged after its copy.
    const verified = await run(['verify', '--json', '--data-dir', target]);
    expect(JSON.parse(verified.stdout)).toMatchObject({ access_log: { lines: 3, unended: 0 } });
  });

  test('continues with the keys and the rotations that it had, and can be backed up to the same place', async () => {
    const key = await createKey(dataDir);
    const revoked = await createKey(dataDir);
    const revoke = ['keys', 'revoke', revoked.slice(4, 16), '--data-dir', dataDir];
    expect((await run(revoke)).code).toBe(0);
    const first = await start(dataDir, ['--checkpoint-interval-ms', '100']);
    onTestFinished(() => first.kill());
    const body = JSON.stringify(outcomeEvent());
    expect((await post(first.port, key, body)).status).toBe(201);
    expect((await run(['signing-key', 'rotate', '--data-dir', dataDir])).code).toBe(0);
    expect((await post(first.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
    await backUp('--with-signing-keys');
    await first.kill();
    expect((await restore('--key', firstKey(dataDir))).code).toBe(0);
    const names = (directory: string) => fs.readdirSync(path.join(directory, 'checkpoints', 'rotations'));
    expect(names(target)).toEqual(names(dataDir));
    fs.cpSync(path.join(dataDir, 'encryption-keys'), path.join(target, 'encryption-keys'), {
      recursive: true,
    });

    const again = await start(target, ['--checkpoint-interval-ms', '100']);
    onTestFinished(() => again.kill());
    expect((await post(again.port, key, body)).status).toBe(201);
    expect((await post(again.port, revoked, body)).status).toBe(401);
    expect((await post(again.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
    expect(await again.stop()).toBe(0);
    expect((await storedEvents(target)).length).toBe(3);
    expect((await run(['verify', '--data-dir', target, '--key', firstKey(dataDir)])).code).toBe(0);
    expect((await run(['doctor', '--data-dir', target])).code).toBe(0);
    dataDir = target;
    await backUp();
  });

  test('is not made in a directory that is not empty, which stays unchanged', async () => {
    await fillSigned(dataDir, [events(3)]);
    await backUp();
    fs.mkdirSync(target);
    fs.writeFileSync(path.join(target, 'thesis.txt'), 'all of it');
    const { code, stdout, stderr } = await restore();
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(`${target} is not empty, it holds thesis.txt`);
    expect(contents(target).size).toBe(1);
    for (const to of [backups, path.join(backups, 'here'), scratch]) {
      expect(await run(['restore', backups, '--data-dir', to])).toMatchObject({ code: 2, stdout: '' });
    }
    expect(fs.existsSync(path.join(backups, 'here'))).toBe(false);
  });

  test('is not made inside a data directory, also not through a link', async () => {
    await fillSigned(dataDir, [events(1)]);
    await backUp();
    const other = path.join(scratch, 'other');
    await createKey(other);
    const link = path.join(scratch, 'link');
    fs.symlinkSync(other, link);
    for (const within of [path.join(dataDir, 'ledger', 'new'), path.join(other, 'ledger'), link]) {
      target = within === link ? path.join(link, 'ledger') : within;
      const { code, stderr } = await restore();
      expect(code).toBe(2);
      expect(stderr).toContain(`${target} is inside ${within.startsWith(dataDir) ? dataDir : other}, `);
      expect(fs.existsSync(target)).toBe(false);
    }
  });

  test('is made beside a file that has the name of a directory of a log', async () => {
    await fillSigned(dataDir, [events(1)]);
    await backUp();
    for (const name of ['checkpoints', 'ledger']) fs.writeFileSync(path.join(scratch, name), '');
    expect(await restore()).toMatchObject({ code: 0, stderr: '' });
  });

  test('is not made in a file, and is made with a warning in a directory that others may enter', async () => {
    await fillSigned(dataDir, [events(3)]);
    await backUp();
    fs.writeFileSync(target, 'thesis');
    expect(await restore()).toEqual({
      ...{ code: 2, stdout: '' },
      stderr: `collector: ${target} is not a directory: give a new one or an empty one\n`,
    });
    expect(fs.readFileSync(target, 'utf8')).toBe('thesis');
    fs.rmSync(target);
    fs.mkdirSync(target);
    fs.chmodSync(target, 0o777);
    const { code, stderr } = await restore();
    expect([code, stderr]).toEqual([
      0,
      `collector: warning: ${target} can be entered by other users; it holds patient data: chmod 700\n`,
    ]);
  });

  test('[R-905] refuses a start without its signing key, and names the file, with exit code 2', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, [events(3)]);
    await backUp();
    expect((await restore()).code).toBe(0);
    const { code, stderr } = await run([
      ...['serve', '--port', '0', '--data-dir', target, '--log-level', 'error'],
    ]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/signing-keys\/[0-9a-f]{8}\.pem is missing.*back-up.*--with-signing-keys/);
    fs.cpSync(path.join(dataDir, 'signing-keys'), path.join(target, 'signing-keys'), { recursive: true });
    const serving = await start(target);
    expect(await serving.stop()).toBe(0);
  });

  test('[R-812] that lacks events of a given checkpoint is reported with exit code 7, and no collector starts on it', async () => {
    await fillSigned(dataDir, [events(30)]);
    await backUp();
    await fillSigned(dataDir, [events(12)]);
    const given = ['--against', keptOutside('outside'), '--key', firstKey(dataDir)];
    const { code, stdout } = await restore(...given);
    expect([code, stdout]).toEqual([
      7,
      expect.stringContaining('WARNING: entries 31 to 43 (13 entries) are missing: a checkpoint over 43'),
    ]);
    fs.rmSync(target, { recursive: true });
    const { stdout: json } = await restore(...given, '--json');
    expect(JSON.parse(json)).toMatchObject({
      ...{ events: 30, newest_checkpoint_given: 43 },
      missing: { first: 31, last: 43, entries: 13 },
    });
    fs.cpSync(path.join(dataDir, 'signing-keys'), path.join(target, 'signing-keys'), { recursive: true });
    expect(await run(['serve', '--port', '0', '--data-dir', target])).toMatchObject({
      ...{ code: 3, stderr: expect.stringContaining('events are lost') as string },
    });
    expect((await storedEvents(target)).length).toBe(30);
    expect((await run(['verify', '--data-dir', target])).code).toBe(3);
    // A back-up of it does not change that.
    [dataDir, backups, target] = [target, path.join(scratch, 'again'), path.join(scratch, 'restored-again')];
    await backUp();
    expect((await restore()).code).toBe(7);
    fs.cpSync(path.join(dataDir, 'signing-keys'), path.join(target, 'signing-keys'), { recursive: true });
    expect((await run(['serve', '--port', '0', '--data-dir', target])).code).toBe(3);
  });

  test('is not reported as intact when the log was rebuilt before it was backed up', async () => {
    await fillSigned(dataDir, [events(30)], { segmentBytes: 1 << 20 });
    const given = ['--against', keptOutside('outside'), '--key', firstKey(dataDir)];
    const [segment = ''] = segmentPaths(dataDir);
    putFrames(
      segment,
      framesIn(segment).map((frame, i) => (i === 7 ? changed(frame, 40) : frame)),
    );
    await rebuild(dataDir);
    await backUp();
    const { code, stdout } = await restore(...given);
    expect([code, stdout]).toEqual([3, expect.stringContaining('NOT INTACT')]);
    expect(fs.existsSync(target)).toBe(false);
    fs.mkdirSync(target);
    expect((await restore(...given)).code).toBe(3);
    expect(fs.readdirSync(target)).toEqual([]);
  });

  test('is not made when the back-up was cut short', async () => {
    await fillSigned(dataDir, [events(30)]);
    await backUp();
    const [segment = ''] = segmentPaths(backups);
    fs.truncateSync(segment, 1000);
    const { code, stdout } = await restore();
    expect([code, stdout]).toEqual([3, expect.stringContaining('Nothing was restored')]);
    expect(fs.existsSync(target)).toBe(false);
  });

  test('[R-812] holds what a full disk left of a copied back-up', async () => {
    await fillSigned(dataDir, [events(300)], { segmentBytes: 1 << 20 });
    await backUp();
    const copied = path.join(scratch, 'copied');
    fs.cpSync(backups, copied, { recursive: true });
    const [segment = ''] = segmentPaths(copied);
    fs.rmSync(segment);
    // No file may become larger, so the kernel cuts it as a full disk would.
    spawnSync('prlimit', ['--fsize=100000:', 'cp', segmentPaths(backups)[0] ?? '', segment]);
    expect(fs.statSync(segment).size).toBe(100_000);
    backups = copied;
    expect((await restore()).code).toBe(3);
    const { code, stdout } = await restore('--against', keptOutside('outside'), '--key', firstKey(dataDir));
    expect([code, stdout]).toEqual([
      7,
      expect.stringMatching(/entries \d+ to 300 \(\d+\s+entries\)\s+are\s+missing/),
    ]);
    const stored = await storedEvents(target);
    expect(stored.length).toBeGreaterThan(80);
    expect(stored.map(({ sequence }) => sequence)).toEqual(stored.map((_, i) => i + 1));
  });

  test('refuses a start after a restore that was killed at any step', async () => {
    await fillSigned(dataDir, [events(30)]);
    await backUp('--with-signing-keys');
    expect((await restore()).code).toBe(0);
    // The checkpoints are moved into place last.
    const names = fs.readdirSync(target).filter((name) => name !== 'checkpoints');
    fs.mkdirSync(path.join(target, 'restoring'));
    for (const name of ['checkpoints', ...names.reverse()]) {
      fs.renameSync(path.join(target, name), path.join(target, 'restoring', name));
      const { code, stderr } = await run(['serve', '--port', '0', '--data-dir', target]);
      expect([code, stderr], name).toEqual([3, expect.stringMatching(/restore.*interrupted/)]);
      expect(fs.existsSync(path.join(target, name)), name).toBe(false);
    }
    expect((await restore()).code).toBe(2);
  });

  test('[R-2055] needs a finished back-up of version 1', async () => {
    expect((await restore()).code).toBe(6);
    fs.mkdirSync(backups);
    expect((await restore()).code).toBe(6);
    fs.writeFileSync(path.join(backups, 'thesis.txt'), 'all of it');
    expect((await restore()).code).toBe(2);
    fs.rmSync(path.join(backups, 'thesis.txt'));
    await fillSigned(dataDir, [events(1)]);
    await backUp();
    const file = path.join(backups, 'backup.json');
    const state = JSON.parse(fs.readFileSync(file, 'utf8')) as object;
    fs.writeFileSync(file, JSON.stringify({ ...state, at: null }));
    expect((await restore()).code).toBe(6);
    // [R-2055] Another version, also the one before version 1 was frozen.
    for (const other of [{ format: 'clinical-events/backup/v2' }, { format: undefined, backup: 2 }]) {
      fs.writeFileSync(file, JSON.stringify({ ...state, ...other }));
      expect(await restore()).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/backup\/v1/) as string,
      });
    }
    fs.writeFileSync(file, '['.repeat(1 << 20));
    expect((await restore()).code).toBe(2);
    expect((await run(['restore', backups])).code).toBe(2);
    expect((await restore('--against', path.join(scratch, 'nothing'))).code).toBe(6);
    expect(fs.existsSync(target)).toBe(false);
  });
});
