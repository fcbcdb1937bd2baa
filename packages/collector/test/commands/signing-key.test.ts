import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { keyChain, noteKey, verifyNote } from '../../src/tree/note-signing.js';
import { scratchDirectory } from '../access/scratch-keys.js';
import { createKey, outcomeEvent, run as collector, start } from '../running/collector-process.js';
import { getJson, managementPort } from '../operate/managed.js';
import { DAY, keyFile, ORIGIN, ScratchLog, signersOf } from '../tree/scratch-log.js';

interface KeyJson extends Record<string, unknown> {
  readonly key: string;
  readonly key_id: string;
  readonly key_file: string;
  readonly rotation_note: string;
}

class Log extends ScratchLog {
  constructor() {
    super(true);
  }

  run(verb: string, ...options: string[]) {
    return collector(['signing-key', verb, '--data-dir', this.dataDir, ...options]);
  }

  async json(verb: string, ...options: string[]): Promise<KeyJson> {
    const { code, stdout, stderr } = await this.run(verb, '--json', ...options);
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as KeyJson;
  }

  /** The lines of every private key, which no one may ever see. */
  secrets(): string[] {
    return this.keyFiles().map(
      (name) => fs.readFileSync(path.join(this.directory, name), 'utf8').split('\n')[1] ?? '',
    );
  }
}

describe('show', () => {
  test('[R-905] prints the origin, the verifier key and where the private one is', async () => {
    const log = new Log();
    const [key] = log.start().keys;
    const file = path.join(log.directory, keyFile(key?.vkey ?? ''));
    const { stdout } = await log.run('show');
    for (const part of [ORIGIN, key?.vkey ?? '', file, log.originFile]) expect(stdout).toContain(part);
    expect(await log.json('show')).toEqual({
      origin: ORIGIN,
      key: key?.vkey,
      key_id: keyFile(key?.vkey ?? '').slice(0, 8),
      key_file: file,
      key_file_exists: true,
      signing_command: null,
      first_key_file: log.originFile,
      earlier: [],
    });
  });

  test('[R-905] prints for each earlier key until when it signs, and its rotation note', async () => {
    const log = new Log();
    log.start();
    const first = log.rotate(30 * DAY);
    log.nowMs += DAY;
    // Ends the overlap of the one before, 29 days too early.
    const second = log.rotate(0);
    const ended = new Date(log.nowMs).toISOString();
    expect((await log.json('show'))['earlier']).toMatchObject([
      { key: first.before.vkey, signs_until: ended, rotation_note: log.noteFile(1) },
      { key: second.before.vkey, signs_until: ended, rotation_note: log.noteFile(2) },
    ]);
    const { stdout } = await log.run('show');
    for (const key of [second.key, first.before, second.before]) expect(stdout).toContain(key.vkey);
  });

  test('says if the private key is missing, and changes nothing', async () => {
    const log = new Log();
    log.start();
    fs.rmSync(log.directory, { recursive: true });
    expect((await log.run('show')).code).toBe(0);
    expect((await log.json('show'))['key_file_exists']).toBe(false);
    expect(fs.existsSync(log.directory)).toBe(false);
  });

  test('names the signing command', async () => {
    const log = new Log();
    log.start();
    expect(await log.json('show', '--signing-keys', 'command:/opt/sign')).toMatchObject({
      key_file: null,
      key_file_exists: null,
      signing_command: '/opt/sign',
    });
  });
});

describe('rotate', () => {
  test('[R-905] makes a key that a running collector signs with next, and keeps the old one 30 days', async () => {
    const log = new Log();
    const running = log.start();
    const [old] = running.keys;
    const before = Date.now();
    const rotated = await log.json('rotate');
    const until = Date.parse(String(rotated['old_key_signs_until']));
    expect(until - before).toBeGreaterThanOrEqual(30 * DAY);
    expect(until - Date.now()).toBeLessThanOrEqual(30 * DAY);
    expect(rotated).toMatchObject({
      origin: ORIGIN,
      key_id: keyFile(rotated.key).slice(0, 8),
      key_file: path.join(log.directory, keyFile(rotated.key)),
      rotated_from: old?.vkey,
      rotation_note: log.noteFile(1),
    });
    const note = fs.readFileSync(rotated.rotation_note, 'utf8');
    expect(keyChain(old?.vkey ?? '', [note]).current.vkey).toBe(rotated.key);
    log.nowMs = before;
    expect(await signersOf(running)).toEqual([old?.vkey, rotated.key]);
    expect((await log.json('show'))['key']).toBe(rotated.key);
  });

  test('[R-905] is followed by a running collector, which then destroys the old key', async () => {
    const dataDir = scratchDirectory('data');
    const apiKey = await createKey(dataDir);
    const serving = await start(dataDir, ['--checkpoint-interval-ms', '100']);
    onTestFinished(() => serving.kill());
    const first = fs.readFileSync(path.join(dataDir, 'checkpoints', 'origin.vkey'), 'utf8').trimEnd();
    const post = async () => {
      const headers = { 'x-api-key': apiKey, 'content-type': 'application/json' };
      const body = JSON.stringify(outcomeEvent());
      const answer = await fetch(`${serving.url}/event/outcome`, { method: 'POST', headers, body });
      expect(answer.status).toBe(201);
    };
    const keys = [noteKey(first)];
    const newest = () => {
      const note = fs.readFileSync(path.join(dataDir, 'checkpoints', 'latest'), 'utf8');
      return verifyNote(note, keys).signedBy.map(({ vkey }) => vkey);
    };
    for (const [overlap, signing, files] of [
      ['30d', 2, 2],
      ['0', 1, 1],
    ] as const) {
      const args = ['rotate', '--data-dir', dataDir, '--overlap', overlap, '--json'];
      const { stdout } = await collector(['signing-key', ...args]);
      keys.push(noteKey((JSON.parse(stdout) as KeyJson).key));
      await post();
      await expect.poll(newest).toEqual(keys.slice(-signing).map(({ vkey }) => vkey));
      await expect.poll(() => fs.readdirSync(path.join(dataDir, 'signing-keys'))).toHaveLength(files);
    }
    expect(await serving.stop()).toBe(0);
    expect(serving.output.stderr).not.toMatch(/"level":"(warn|error|fatal)"/);
  });

  test('[R-905] in several processes at once makes one key', async () => {
    const log = new Log();
    const running = log.start();
    const ended = await Promise.all(Array.from({ length: 4 }, () => log.run('rotate')));
    const lost = ended.filter(({ code }) => code !== 0);
    expect(lost).toHaveLength(3);
    // A process that came after the note is refused because of its overlap.
    for (const { code } of lost) expect([1, 2]).toContain(code);
    log.nowMs = Date.now();
    expect(await signersOf(running)).toHaveLength(2);
    expect(log.keyFiles()).toHaveLength(2);
  });

  test('is refused while an overlap lasts, except with --overlap 0', async () => {
    const log = new Log();
    log.start();
    const first = await log.json('rotate', '--overlap', '1h');
    const until = expect.stringContaining(String(first['old_key_signs_until'])) as string;
    expect(await log.run('rotate')).toEqual({ code: 2, stdout: '', stderr: until });
    expect((await log.json('rotate', '--overlap', '0'))['rotated_from']).toBe(first.key);
  });

  test('takes the directory of the keys from --signing-keys', async () => {
    const log = new Log();
    log.start();
    const elsewhere = `${log.dataDir}-keys`;
    fs.renameSync(log.directory, elsewhere);
    const missing = await log.run('rotate');
    expect(missing).toMatchObject({ code: 6, stdout: '' });
    expect(missing.stderr).toMatch(/signing-keys\/[0-9a-f]{8}\.pem/);
    const { key_file: file } = await log.json('rotate', '--signing-keys', elsewhere);
    expect([path.dirname(file), fs.existsSync(file)]).toEqual([elsewhere, true]);
    expect(fs.existsSync(log.directory)).toBe(false);
  });

  test('refuses a key of a signing command', async () => {
    const log = new Log();
    log.start();
    expect(await log.run('rotate', '--signing-keys', 'command:/opt/sign')).toMatchObject({
      code: 2,
      stdout: '',
    });
    expect(log.keyFiles()).toHaveLength(1);
  });

  test.each(['soon', '30', '-1d', ''])('refuses the overlap "%s"', async (overlap) => {
    const log = new Log();
    log.start();
    const { code, stderr } = await log.run('rotate', `--overlap=${overlap}`);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--overlap')]);
    expect(log.keyFiles()).toHaveLength(1);
  });
});

/** A directory that is on another file system than scratch directories, if there is any. */
const OTHER_DISK = ['/dev/shm', '/var/tmp', process.cwd()].find(
  (directory) => fs.existsSync(directory) && fs.statSync(directory).dev !== fs.statSync(os.tmpdir()).dev,
);

describe('[R-905] a signing key on the disk of the log', () => {
  test('is reported at the first start and after a rotation', async () => {
    const dataDir = scratchDirectory();
    const running = await start(dataDir);
    onTestFinished(() => running.kill());
    const notice = `${path.join(dataDir, 'signing-keys')}.\nWithout it the log cannot be continued`;
    await expect.poll(() => running.output.stdout).toContain(notice);
    const rotated = await collector(['signing-key', 'rotate', '--overlap', '0', '--data-dir', dataDir]);
    expect(rotated.stdout).toContain(notice);
  });

  test('[R-905] whose file is gone under a running collector causes a warning until it is put back', async () => {
    const dataDir = scratchDirectory();
    const running = await start(dataDir, ['--management', 'on']);
    onTestFinished(() => running.kill());
    const warned = async () => {
      const { warnings } = await getJson(managementPort(running), '/console/state.json');
      return (warnings as { id: string }[]).some(({ id }) => id === 'signing_key_gone');
    };
    expect(await warned()).toBe(false);
    const keys = path.join(dataDir, 'signing-keys');
    fs.renameSync(keys, `${keys}.away`);
    await expect.poll(warned).toBe(true);
    fs.renameSync(`${keys}.away`, keys);
    await expect.poll(warned).toBe(false);
    const [file = ''] = fs.readdirSync(keys);
    const text = fs.readFileSync(path.join(keys, file));
    fs.truncateSync(path.join(keys, file));
    await expect.poll(warned).toBe(true);
    fs.writeFileSync(path.join(keys, file), text);
    await expect.poll(warned).toBe(false);
    fs.rmSync(path.join(dataDir, 'checkpoints', 'origin.vkey'));
    await expect.poll(warned).toBe(true);
  });

  test.skipIf(OTHER_DISK === undefined)('is not reported on another file system', async () => {
    const dataDir = scratchDirectory();
    const elsewhere = fs.mkdtempSync(path.join(OTHER_DISK ?? '', 'collector-keys-'));
    onTestFinished(() => fs.rmSync(elsewhere, { recursive: true }));
    const running = await start(dataDir, ['--signing-keys', path.join(elsewhere, 'keys')]);
    expect(await running.stop()).toBe(0);
    expect(running.output.stdout).not.toContain('Without it the log cannot be continued');
  });
});

describe.each(['show', 'rotate'])('%s', (verb) => {
  test('ends with 6 if there is no log yet, and makes nothing', async () => {
    const log = new Log();
    expect((await log.run(verb)).code).toBe(6);
    expect(fs.existsSync(log.dataDir)).toBe(false);
    fs.mkdirSync(log.dataDir);
    expect((await log.run(verb)).code).toBe(6);
    expect(fs.readdirSync(log.dataDir)).toEqual([]);
  });

  test('ends with 3 when the notes do not lead from key to key, and names the wrong one', async () => {
    const log = new Log();
    log.start();
    const { note } = log.rotate(0);
    fs.writeFileSync(note, fs.readFileSync(note, 'utf8').replace(/^2026-/m, '2027-'));
    const { code, stdout, stderr } = await log.run(verb);
    expect([code, stdout]).toEqual([3, '']);
    expect(stderr).toMatch(/^collector: .*rotation note 1: .*\n$/);
  });

  test('[R-905] never shows a private key, not even in an error', async () => {
    const log = new Log();
    log.start();
    const said: string[] = [];
    const note = async (...options: string[]) => {
      const { stdout, stderr } = await log.run(verb, '--log-level', 'trace', ...options);
      said.push(stdout, stderr);
    };
    const secrets = log.secrets();
    if (verb !== 'copied') await note('--json');
    await note();
    secrets.push(...log.secrets());
    for (const name of log.keyFiles()) {
      const file = path.join(log.directory, name);
      fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('BEGIN', 'BEGUN'));
    }
    await note(...(verb === 'rotate' ? ['--overlap', '0'] : []));
    expect(secrets.length).toBeGreaterThan(1);
    for (const secret of secrets) {
      expect(secret).toMatch(/^[\w+/=]{64}$/);
      // Of its 64 characters the first 21 are the same for every key.
      for (const text of said) expect(text).not.toContain(secret.slice(22, 44));
    }
    expect(said.join('')).not.toContain('PRIVATE');
  });
});
