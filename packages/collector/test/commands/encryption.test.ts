/** Encrypted payloads as an operator meets them: starts, readers, verify, doctor, back-ups. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { createKey, run, start, storedEvents, type Running } from '../running/collector-process.js';
import { expectAllStored, Load, post } from '../running/load.js';
import { sampleEvent } from '../running/sample-events.js';
import { scratch } from '../running/scratch.js';
import { encryptionIn, flipBit, segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned, loggedEvent } from './signed-directory.js';
import { changed, framesIn, putFrames } from './tampering.js';

let root: string;
let dataDir: string;
let keys: string;
let mirror: string;
let mirrored: string[];

beforeEach(() => {
  root = scratch();
  dataDir = path.join(root, 'data');
  keys = path.join(root, 'keys');
  mirror = path.join(root, 'mirror');
  for (const directory of [keys, mirror]) fs.mkdirSync(directory);
  mirrored = ['--encryption', 'on', '--encryption-keys', `${keys},${mirror}`];
});

/** Sends a start and an outcome, and stops the collector. */
async function sendTwo(collector: Running, key: string): Promise<void> {
  for (const kind of ['inference-start', 'outcome'] as const) {
    const { status } = await post(collector.port, key, JSON.stringify(sampleEvent(kind)), { kind });
    expect(status).toBe(201);
  }
}

/** All bytes of the data directory and below it. */
function everything(directory: string): Buffer {
  const names = fs.readdirSync(directory, { recursive: true, encoding: 'utf8' });
  const files = names.map((name) => path.join(directory, name)).filter((name) => fs.statSync(name).isFile());
  return Buffer.concat(files.map((file) => fs.readFileSync(file)));
}

async function json<Told>(...args: readonly string[]): Promise<Told> {
  const { stdout, stderr } = await run([...args, '--json', '--data-dir', dataDir]);
  expect(stderr).toBe('');
  return JSON.parse(stdout) as Told;
}

interface Verified {
  readonly intact: boolean;
  readonly unopened_payloads: number;
  readonly findings: readonly { kind: string; sequence?: number; message: string }[];
}

describe('[R-1320] a collector that encrypts', () => {
  test('leaves no plain text of payloads or names in its data directory, and every command reads them', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, mirrored);
    await sendTwo(collector, key);
    const runs = await run(['runs', '--data-dir', dataDir, '--target', 'patient-4711']);
    expect(runs.stdout).toContain('clinician-17');
    for (const name of ['patient-4711', 'clinician-17', 'Chest pain', 'The ECG showed it', 'triage'])
      expect(everything(dataDir).includes(name), name).toBe(false);
    expect(await collector.stop()).toBe(0);
    for (const name of ['patient-4711', 'clinician-17', 'Chest pain'])
      expect(everything(dataDir).includes(name), name).toBe(false);
    expect((await storedEvents(dataDir)).map(({ body }) => body).join()).toContain('Chest pain');
    const records = await run(['records', '--data-dir', dataDir]);
    expect(records.stdout).toContain('Chest pain');
    expect((await json<Verified>('verify')).intact).toBe(true);
    const doctor = await run(['doctor', '--data-dir', dataDir]);
    expect([doctor.code, doctor.stderr]).toEqual([0, '']);
    expect(doctor.stdout).toMatch(/ok +encryption +new payloads are encrypted/);
  });

  test('continues to encrypt when it is started without the options, also after kill -9', async () => {
    const key = await createKey(dataDir);
    const load = new Load(key, { connections: 8 });
    for (const args of [mirrored, [], []]) {
      const collector = await start(dataDir, args);
      const enough = load.acknowledged.size + 500;
      const sending = load.run(collector.port, () => false);
      await expect.poll(() => load.acknowledged.size).toBeGreaterThan(enough);
      await collector.kill();
      await sending;
    }
    const collector = await start(dataDir);
    await collector.stop();
    expect(await expectAllStored(dataDir, load)).toBeGreaterThan(0);
    for (const frame of segmentPaths(dataDir).flatMap(framesIn)) {
      const isOwn = (frame[65] ?? 0) >= 0x80;
      expect(frame[9]).toBe(isOwn ? 0 : 1);
    }
  });

  test('encrypts new events of a log that began without encryption, and its catalogue has all runs', async () => {
    const key = await createKey(dataDir);
    const plain = await start(dataDir, ['--encryption', 'off']);
    await sendTwo(plain, key);
    await run(['runs', '--data-dir', dataDir]);
    await plain.stop();
    expect(everything(path.join(dataDir, 'catalogue')).includes('patient-4711')).toBe(true);
    const collector = await start(dataDir, mirrored);
    await sendTwo(collector, key);
    const runs = await run(['runs', '--data-dir', dataDir, '--target', 'patient-4711']);
    expect(runs.stdout.match(/clinician-17/g)).toHaveLength(2);
    await collector.stop();
    expect((await json<Verified>('verify')).intact).toBe(true);
  });
});

describe('[R-1324] a start', () => {
  /** @returns what it said when it refused with exit code 2. */
  async function refusal(...args: readonly string[]): Promise<string> {
    const { code, stderr } = await run(['serve', '--port', '0', '--data-dir', dataDir, ...args]);
    expect(code, stderr).toBe(2);
    return stderr;
  }

  test('without the keys, or without the right KEK, is refused with the reason', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, mirrored);
    await sendTwo(collector, key);
    await collector.stop();
    expect(await refusal('--encryption', 'off')).toContain(
      '--encryption off: the payloads of this log are encrypted',
    );
    const kek = fs.readFileSync(path.join(keys, 'kek'));
    for (const directory of [keys, mirror])
      fs.writeFileSync(path.join(directory, 'kek'), `${Buffer.alloc(32, 1).toString('base64')}\n`);
    expect(await refusal()).toContain('is not the key that wraps the payload keys');
    for (const directory of [keys, mirror]) fs.rmSync(path.join(directory, 'kek'));
    expect(await refusal()).toMatch(/--kek: .*kek cannot be read \(ENOENT\)/);
    for (const directory of [keys, mirror])
      fs.writeFileSync(path.join(directory, 'kek'), kek, { mode: 0o600 });
    fs.renameSync(keys, `${keys}.away`);
    fs.renameSync(mirror, `${mirror}.away`);
    const told = await refusal();
    expect(told).toContain(
      `the payloads of this log are encrypted, and their keys are not in ${keys}, ${mirror}`,
    );
    expect(told).not.toContain(kek.toString().trim());
    expect(await refusal('--encryption', 'on')).toContain('their keys are not in');
    fs.renameSync(`${mirror}.away`, mirror);
    fs.mkdirSync(keys);
    // One mirror is enough, and the directory is made again from it on request.
    expect((await run(['encryption-keys', 'copy', '--mirror', keys, '--data-dir', dataDir])).code).toBe(0);
    const again = await start(dataDir);
    await sendTwo(again, key);
    await again.stop();
    expect(fs.readdirSync(path.join(keys, 'buckets'))).toEqual(fs.readdirSync(path.join(mirror, 'buckets')));
  });

  test('with an invalid --kek, or with a note that does not name the key directories, is refused', async () => {
    expect(await refusal('--kek', 'vault')).toContain('--kek: must be file: or command:');
    const note = path.join(dataDir, 'encryption-keys.json');
    fs.mkdirSync(dataDir, { mode: 0o700 });
    for (const text of ['', 'null', '[]', '{"directories":[],"kek":""}', '{"directories":[1],"kek":""}']) {
      fs.writeFileSync(note, text);
      expect(await refusal('--encryption', 'on'), text).toContain('does not name the key directories');
    }
  });

  test('runs a program to wrap and unwrap keys, and never for an event', async () => {
    const key = await createKey(dataDir);
    const kms = path.join(root, 'kms');
    fs.writeFileSync(kms, '#!/bin/sh\nread text\necho "$1" >> "$0.asked"\necho "$text" | rev\n', {
      mode: 0o700,
    });
    const args = ['--encryption', 'on', '--encryption-keys', keys, '--kek', `command:${kms}`];
    const collector = await start(dataDir, args);
    await sendTwo(collector, key);
    await collector.stop();
    expect(fs.existsSync(path.join(keys, 'kek'))).toBe(false);
    // The epoch key is wrapped, and is unwrapped as a test before it is used.
    const asked = fs.readFileSync(`${kms}.asked`, 'utf8').trim().split('\n');
    expect(asked.slice(0, 3)).toEqual(['wrap', 'unwrap', 'unwrap']);
    expect(asked.length).toBeLessThan(6);
    expect((await storedEvents(dataDir)).map(({ body }) => body).join()).toContain('Chest pain');
    // A key that was unwrapped once stays in memory: a repeat is recognised while the KMS is away.
    const running = await start(dataDir);
    const event = JSON.stringify(sampleEvent('outcome'));
    expect((await post(running.port, key, event)).status).toBe(201);
    fs.chmodSync(kms, 0o600);
    expect((await post(running.port, key, event)).status).toBe(201);
    expect(await running.stop()).toBe(0);
    expect(await refusal()).toMatch(/--kek: .*kms cannot be started: EACCES/);
    const events = await run(['events', '--data-dir', dataDir]);
    expect([events.code, events.stderr]).toEqual([1, expect.stringContaining('cannot be started')]);
    // verify and doctor report it, and check the rest.
    const { intact, unopened_payloads: unopened, findings } = await json<Verified>('verify');
    expect([intact, unopened]).toEqual([true, 3]);
    expect(findings).toContainEqual({
      kind: 'note',
      message: expect.stringContaining('no payload was opened') as string,
    });
    const doctor = await run(['doctor', '--data-dir', dataDir]);
    expect(doctor.stdout.replace(/\s+/g, ' ')).toContain('except 3 payloads that could not be opened');
  });
});

describe('[R-1996] encryption-keys rewrap', () => {
  test('replaces the KEK, once no collector runs, and leaves no file kek', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, mirrored);
    await sendTwo(collector, key);
    const next = path.join(root, 'next-kek');
    fs.writeFileSync(next, `${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
    const rewrap = (kek: string) => run(['encryption-keys', 'rewrap', kek, '--data-dir', dataDir]);
    expect((await rewrap(`file:${next}`)).code).toBe(5);
    expect(await collector.stop()).toBe(0);
    expect((await rewrap('vault:x')).code).toBe(2);
    expect((await rewrap(`file:${path.join(keys, 'kek')}`)).code).toBe(2);
    const old = fs.readFileSync(path.join(keys, 'kek'));
    const done = await rewrap(`file:${next}`);
    expect([done.code, done.stderr]).toEqual([0, '']);
    for (const directory of [keys, mirror]) expect(fs.readdirSync(directory)).not.toContain('kek');
    expect((await rewrap(`file:${next}`)).code).toBe(0);
    // With the KEK that is noted.
    expect((await run(['encryption-keys', 'status', '--data-dir', dataDir])).code).toBe(0);
    const again = await start(dataDir);
    await sendTwo(again, key);
    expect(await again.stop()).toBe(0);
    expect((await storedEvents(dataDir)).filter(({ body }) => body.includes('Chest pain'))).toHaveLength(2);
    const before = path.join(root, 'old-kek');
    fs.writeFileSync(before, old, { mode: 0o600 });
    const refused = await run(['serve', '--port', '0', '--data-dir', dataDir, '--kek', `file:${before}`]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('is not the key that')]);
  });
});

describe('[R-1324] a first start', () => {
  test.each([1, 2, 3])('whose KMS fails at call %i is continued by the next one', async (call) => {
    const kms = path.join(root, 'kms');
    const script = `#!/bin/sh\nread text\necho >> "$0.asked"\n[ "$(wc -l < "$0.asked")" -ne ${call} ] || exit 1\necho "$text" | rev\n`;
    fs.writeFileSync(kms, script, { mode: 0o700 });
    const args = ['--encryption-keys', `${keys},${mirror}`, '--kek', `command:${kms}`];
    const failed = await run(['serve', '--port', '0', '--data-dir', dataDir, ...args]);
    expect([failed.code, failed.stderr]).toEqual([2, expect.stringContaining('kms ended with exit code 1')]);
    // [R-1324]
    const doctor = await run(['doctor', '--data-dir', dataDir]);
    expect([doctor.code, doctor.stderr]).toEqual([0, '']);
    expect(doctor.stdout.replace(/\s+/g, ' ')).toContain(
      `WARNING encryption an earlier start began to make payload keys in ${keys}, ${mirror} and did not finish; no event is encrypted with them, and the next start continues`,
    );
    const status = await run(['encryption-keys', 'status', '--data-dir', dataDir]);
    expect([status.code, status.stderr]).toEqual([6, expect.stringContaining('next start')]);
    const key = await createKey(dataDir);
    const collector = await start(dataDir, args);
    await sendTwo(collector, key);
    expect(await collector.stop()).toBe(0);
    const whole = await run(['doctor', '--data-dir', dataDir]);
    expect([whole.code, /did\s+not\s+finish/.test(whole.stdout)]).toEqual([0, false]);
    expect((await storedEvents(dataDir)).map(({ body }) => body).join()).toContain('Chest pain');
    // Once there is an event, a start without the keys is not a first start.
    for (const directory of [keys, mirror])
      for (const name of ['epochs', 'buckets']) fs.rmSync(path.join(directory, name), { recursive: true });
    const refused = await run(['serve', '--port', '0', '--data-dir', dataDir, ...args]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('their keys are not in')]);
  });
});

describe('[R-1324] a wrong kek in one directory', () => {
  test('is reported by log, doctor and status, and no event is lost', async () => {
    const key = await createKey(dataDir);
    const first = await start(dataDir, mirrored);
    await sendTwo(first, key);
    await first.stop();
    const wrong = `${Buffer.alloc(32, 1).toString('base64')}\n`;
    fs.writeFileSync(path.join(keys, 'kek'), wrong);
    for (const command of [['doctor'], ['encryption-keys', 'status']]) {
      const { code, stdout, stderr } = await run([...command, '--data-dir', dataDir]);
      expect([code, stderr], command.join(' ')).toEqual([3, '']);
      expect(stdout.replace(/\s+/g, ' ')).toContain(
        `${keys}/kek is not the key that wraps the payload keys; the one in ${mirror} is used, and the next start copies it there`,
      );
      expect(stdout).not.toContain(`${keys} lacks`);
    }
    expect((await storedEvents(dataDir)).map(({ body }) => body).join()).toContain('Chest pain');
    const second = await start(dataDir);
    expect(second.output.stderr).toContain(keys);
    await sendTwo(second, key);
    await second.stop();
    expect(fs.readFileSync(path.join(keys, 'kek'))).toEqual(fs.readFileSync(path.join(mirror, 'kek')));
    expect((await run(['doctor', '--data-dir', dataDir])).code).toBe(0);
    for (const directory of [keys, mirror]) fs.writeFileSync(path.join(directory, 'kek'), wrong);
    const status = await run(['encryption-keys', 'status', '--data-dir', dataDir]);
    expect([status.code, status.stdout.replace(/\s+/g, ' ')]).toEqual([
      3,
      expect.stringContaining('is not the key that wraps the payload keys, and no other directory has it'),
    ]);
  });
});

describe('[R-1339] verify', () => {
  const texts = Array.from({ length: 20 }, (_, i) => loggedEvent(`event ${i}`));

  async function verified(): Promise<Verified> {
    return json<Verified>('verify');
  }

  test('opens every payload, and finds one that was changed although its checksum fits', async () => {
    await fillSigned(dataDir, [texts], { encryption: encryptionIn(dataDir) });
    expect(await verified()).toMatchObject({ intact: true, unopened_payloads: 0 });
    const [segment = ''] = segmentPaths(dataDir);
    const whole = framesIn(segment);
    const extension = (frame: Buffer) => 64 + 62 + (frame[68] ?? 0) + (frame[69] ?? 0);
    const spots: [string, (frame: Buffer) => number, string?][] = [
      ['the payload', (frame) => frame.length - 1],
      ['the salt', (frame) => extension(frame) + 24],
      ['the tag of the cipher', (frame) => extension(frame) + 8],
      ['the tag of the bucket', (frame) => extension(frame) + 4, 'unexplained'],
      ['the suite', extension],
      ['the state', () => 9],
    ];
    for (const [what, at, found = 'altered'] of spots) {
      const frames: Buffer[] = whole.map((frame) => Buffer.from(frame));
      const third = frames[2] ?? Buffer.alloc(0);
      frames[2] = changed(third, at(third));
      putFrames(segment, frames);
      const { intact, findings } = await verified();
      expect([what, intact]).toEqual([what, false]);
      expect(
        findings.map(({ kind, sequence }) => [kind, sequence]),
        what,
      ).toContainEqual([found, 3]);
    }
    // A byte that changed by itself.
    putFrames(segment, whole);
    flipBit(segment, 80 + whole.slice(0, 3).reduce((sum, { length }) => sum + length, 0) - 1);
    const [broken] = (await verified()).findings;
    expect(broken?.message).toContain('cannot be opened with its key; its envelope is what was signed');
    expect(broken?.message).not.toMatch(/payload are|made to match/);
    // Lengths that lead out of the frame.
    const misled: Buffer[] = whole.map((frame) => Buffer.from(frame));
    misled[2]?.fill(255, 67, 69);
    putFrames(segment, misled);
    expect((await verified()).findings.map(({ sequence }) => sequence)).toContain(3);
    putFrames(segment, whole);
    expect((await verified()).intact).toBe(true);
  });

  test('finds keys that were destroyed, and without any keys says what it did not check', async () => {
    await fillSigned(dataDir, [texts], { encryption: encryptionIn(dataDir) });
    const directory = path.join(dataDir, 'encryption-keys');
    const [bucket = ''] = fs.readdirSync(path.join(directory, 'buckets'));
    fs.renameSync(path.join(directory, 'buckets', bucket), path.join(root, bucket));
    const { intact, findings } = await verified();
    expect(intact).toBe(false);
    expect(findings[0]).toMatchObject({ kind: 'unexplained', sequence: 1 });
    expect(findings[0]?.message).toContain('events 1 to 20 cannot be opened');
    expect(findings[0]?.message).not.toContain('made to match');
    fs.renameSync(directory, `${directory}.away`);
    expect(await verified()).toMatchObject({ intact: true, unopened_payloads: 20 });
    const { stdout } = await run(['verify', '--data-dir', dataDir]);
    expect(stdout.replace(/\s+/g, ' ')).toContain('20 payloads are encrypted');
    const [event] = await storedEvents(dataDir);
    expect(event).toMatchObject({ sequence: 1, payload_state: 'encrypted' });
  });
});

describe('[R-1328] a back-up', () => {
  test('[R-1328] requires a mirror of the keys, holds no keys, and is restored with the mirror and a warning', async () => {
    const key = await createKey(dataDir);
    const alone = await start(dataDir, ['--encryption', 'on', '--encryption-keys', keys]);
    await sendTwo(alone, key);
    await alone.stop();
    const backups = path.join(root, 'backups');
    const refused = await run(['backup', backups, '--data-dir', dataDir]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(keys)]);
    expect(fs.existsSync(backups)).toBe(false);
    const said = await run(['backup', backups, '--data-dir', dataDir, '--keys-elsewhere']);
    expect([said.code, said.stderr]).toEqual([0, '']);
    const collector = await start(dataDir, mirrored);
    await collector.stop();
    const done = await run(['backup', backups, '--data-dir', dataDir, '--with-signing-keys']);
    expect([done.code, done.stderr]).toEqual([0, '']);
    expect(done.stdout.replace(/\s+/g, ' ')).toMatch(/payloads are encrypted.* keys are not in it/);
    const held = fs.readdirSync(backups, { recursive: true, encoding: 'utf8' });
    expect(held.filter((name) => /encryption|kek|\.keys$|names\.keys/.test(name))).toEqual([]);
    expect(everything(backups).includes('Chest pain')).toBe(false);
    const target = path.join(root, 'restored');
    const restored = await run(['restore', backups, '--data-dir', target]);
    expect(restored.code, restored.stderr).toBe(0);
    expect(restored.stdout.replace(/\s+/g, ' ')).toMatch(
      /payloads are encrypted.* mirror .*--encryption-keys/,
    );
    // [R-1328]
    expect(restored.stdout.replace(/\s+/g, ' ')).toMatch(
      /WARNING: this back-up .*any events .*erased after \d{4}-.*Z/,
    );
    expect(fs.readFileSync(path.join(target, 'access.log'), 'utf8')).toMatch(
      /"erasures_known_until":"\d{4}-/,
    );
    fs.rmSync(keys, { recursive: true });
    fs.mkdirSync(keys);
    const again = await start(target, ['--encryption-keys', `${keys},${mirror}`]);
    await sendTwo(again, key);
    await again.stop();
    const events = await storedEvents(target);
    expect(events.filter(({ body }) => body.includes('Chest pain'))).toHaveLength(2);
  });
});

describe('[R-1320] a reader without keys', () => {
  test('reports that, and prints no names from the catalogue', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, mirrored);
    await sendTwo(collector, key);
    await run(['runs', '--data-dir', dataDir]);
    await collector.stop();
    for (const directory of [keys, mirror]) fs.renameSync(directory, `${directory}.away`);
    const { code, stderr } = await run(['runs', '--data-dir', dataDir]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('if they are lost, remove that directory')]);
    fs.rmSync(path.join(dataDir, 'catalogue'), { recursive: true });
    const without = await run(['runs', '--data-dir', dataDir]);
    expect([without.code, without.stdout.includes('clinician-17')]).toEqual([0, false]);
    for (const directory of [keys, mirror]) fs.renameSync(`${directory}.away`, directory);
    expect((await run(['runs', '--data-dir', dataDir])).stdout).toContain('clinician-17');
  });
});

describe('[R-1325] encryption-keys status', () => {
  test('reports directories, mirrors that lag, and risks', async () => {
    const key = await createKey(dataDir);
    const plain = await run(['encryption-keys', 'status', '--data-dir', dataDir]);
    expect([plain.code, plain.stderr]).toEqual([6, expect.stringContaining('are not encrypted')]);
    const collector = await start(dataDir, mirrored);
    await sendTwo(collector, key);
    await collector.stop();
    const { code, stdout } = await run(['encryption-keys', 'status', '--data-dir', dataDir]);
    expect(code).toBe(0);
    expect(stdout.replace(/\s+/g, ' ')).toContain(`${mirror} has all keys`);
    expect(stdout.replace(/\s+/g, ' ')).toContain('is on the disk of the data');
    const [bucket = ''] = fs.readdirSync(path.join(mirror, 'buckets'));
    fs.rmSync(path.join(mirror, 'buckets', bucket));
    const behind = await run(['encryption-keys', 'status', '--data-dir', dataDir, '--json']);
    expect(behind.code).toBe(3);
    expect(JSON.parse(behind.stdout)).toMatchObject({
      epoch: 1,
      buckets: 1,
      directories: [{ behind: 0 }, { behind: 1 }],
    });
    const doctor = await run(['doctor', '--data-dir', dataDir]);
    expect([doctor.code, doctor.stdout.replace(/\s+/g, ' ')]).toEqual([
      3,
      expect.stringContaining(`${mirror} is not up to date: 1 bucket missing`),
    ]);
  });
});
