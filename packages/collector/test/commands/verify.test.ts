import { generateKeyPairSync, hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { VerifyFindings } from '../../src/commands/verify/verification.js';
import { SigningKeys } from '../../src/tree/signing-keys.js';
import { createKey, run, temporaryDirectory } from '../running/collector-process.js';
import { contents } from '../running/directory-contents.js';
import { canMount, runReadOnly, runWithoutPrivilege } from '../running/restricted-process.js';
import { copyOf, scratch } from '../running/scratch.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned, firstKey, loggedEvent, ORIGIN } from './signed-directory.js';
import { sign } from './tampering.js';

const EVENTS = Array.from({ length: 60 }, (_, i) => loggedEvent(`event ${i}`));
const BATCHES = Array.from({ length: 6 }, (_, i) => EVENTS.slice(i * 10, i * 10 + 10));

let master: string;
let dataDir: string;

beforeAll(async () => {
  master = temporaryDirectory();
  await fillSigned(master, BATCHES.slice(0, 3), { segmentBytes: 8 << 10 });
  await fillSigned(master, BATCHES.slice(3), { segmentBytes: 8 << 10 });
});
afterAll(() => fs.rmSync(master, { recursive: true, force: true }));

beforeEach(() => {
  dataDir = copyOf(master);
});

interface Report {
  readonly intact: boolean;
  readonly events: number;
  readonly origin: string | null;
  readonly size: number | null;
  readonly root: string | null;
  readonly checkpoints_checked: number;
  readonly checkpoints_given: number;
  readonly keys_from: string;
  readonly unsigned_entries: number;
  readonly findings: readonly { kind: string; file?: string; message: string }[];
}

async function verify(...args: readonly string[]): Promise<{ code: number | null; report: Report }> {
  const { code, stdout, stderr } = await run(['verify', '--json', '--data-dir', dataDir, ...args]);
  expect(stderr).toBe('');
  return { code, report: JSON.parse(stdout) as Report };
}

/** The verifier key of a witness that signs by Ed25519 (C2SP tlog-cosignature). */
function witnessKey(name: string, raw: Buffer): string {
  const typed = Buffer.concat([Buffer.of(4), raw]);
  const id = hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), typed])).slice(0, 8);
  return `${name}+${id}+${typed.toString('base64')}`;
}

function kept(name: string): string {
  return fs.readFileSync(path.join(dataDir, 'checkpoints', name), 'utf8');
}

function rootIn(note: string): string {
  return note.split('\n')[2] ?? '';
}

describe('collector verify', () => {
  test('[R-907] [R-703] finds a sound log intact, for people and for scripts, and changes nothing', async () => {
    const before = contents(dataDir);
    const root = rootIn(kept('latest'));
    expect(await verify()).toEqual({
      code: 0,
      report: {
        ...{ intact: true, events: 60, entries: 60, origin: ORIGIN, size: 60, root, checkpoints_checked: 4 },
        ...{ checkpoints_given: 0, access_log: null },
        ...{
          keys_from: 'data-dir',
          unsigned_entries: 0,
          unsequenced_entries: 0,
          quarantined_batches: 0,
          unopened_payloads: 0,
          erased_events: {},
          erasing_events: 0,
          findings: [],
          findings_not_listed: 0,
        },
      },
    });
    const { code, stdout } = await run(['verify', '--data-dir', dataDir]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^INTACT: the 60 entries /);
    for (const part of [ORIGIN, root, '4 checkpoints', '--key', '--against']) expect(stdout).toContain(part);
    expect(contents(dataDir)).toEqual(before);
  });

  test('[R-907] names the key and the checkpoints as its basis when they were given', async () => {
    const against = path.join(scratch(), 'given');
    fs.writeFileSync(against, kept('0000000000000030.checkpoint'));
    const key = path.join(scratch(), 'log.vkey');
    fs.writeFileSync(key, `${firstKey(dataDir)}\n`);
    for (const given of [firstKey(dataDir), key, `@${key}`]) {
      const { stdout, code } = await run([
        ...['verify', '--data-dir', dataDir, '--key', given, '--against', against],
      ]);
      expect(code).toBe(0);
      expect(stdout).toMatch(
        /^Checked {5}5 checkpoints: 1 given, 4 in the data directory; by the keys given$/m,
      );
      expect(stdout).not.toMatch(/--key|--against/);
    }
    expect((await verify('--key', firstKey(dataDir))).report).toMatchObject({
      keys_from: 'given',
      intact: true,
    });
  });

  test('[R-907] counts the events that are not yet under a checkpoint, and checks them by themselves', async () => {
    const more = Array.from({ length: 8 }, (_, i) => loggedEvent(`more ${i}`));
    await fillDirectory(dataDir, [more.slice(0, 4), more.slice(4)], 16 << 10);
    const { code, report } = await verify();
    expect(code).toBe(0);
    expect(report).toMatchObject({
      ...{ intact: true, events: 68, size: 60, unsigned_entries: 8 },
      findings: [{ kind: 'note' }],
    });
    const { stdout } = await run(['verify', '--data-dir', dataDir]);
    expect(stdout).toMatch(/^INTACT where signed: the first 60 entries /);
    expect(stdout).toMatch(/^Events {6}68, 8 of them not yet /m);
    const all = [...EVENTS, ...more];
    const last = segmentPaths(dataDir).at(-1) ?? '';
    const offset = frameOffset(last, all, 64);
    flipBit(last, offset + 200);
    const altered = { kind: 'altered', sequence: 64, file: `ledger/${path.basename(last)}`, offset };
    expect(await verify()).toMatchObject({
      code: 3,
      report: { intact: false, unsigned_entries: 8, findings: [altered, { kind: 'note' }] },
    });
    // The last batch may have been one that was being written.
    flipBit(last, offset + 200);
    flipBit(last, frameOffset(last, all, 68) + 200);
    expect(await verify()).toMatchObject({
      code: 0,
      report: {
        intact: true,
        events: 67,
        unsigned_entries: 7,
        findings: [{ kind: 'note' }, { kind: 'note' }],
      },
    });
  });

  test('[R-907] reports a log as intact only when that was confirmed, not because nothing was found', () => {
    const findings = new VerifyFindings();
    expect(findings.intact).toBe(false);
    findings.confirm();
    findings.add({ kind: 'note', message: 'something of no weight' });
    expect(findings.intact).toBe(true);
    findings.unlisted = 1;
    expect(findings.intact).toBe(false);
    findings.unlisted = 0;
    findings.add({ kind: 'altered', message: 'something' });
    expect(findings.intact).toBe(false);
  });

  test('[R-907] finds nothing wrong before the first event', async () => {
    dataDir = scratch();
    await fillSigned(dataDir, []);
    expect(await verify()).toMatchObject({
      code: 0,
      report: { intact: true, events: 0, size: 0, findings: [] },
    });
    // As a collector that was killed in its first start leaves it.
    dataDir = scratch();
    await fillDirectory(dataDir, []);
    const { code, report } = await verify();
    expect(code).toBe(0);
    expect(report).toMatchObject({ intact: true, events: 0, size: null, root: null, origin: null });
    expect(report.findings).toMatchObject([{ kind: 'note' }]);
  });

  test('[R-907] ends with 6 if there is no log or no such file, and with 2 if an argument is invalid', async () => {
    const failure = async (...args: readonly string[]) => {
      const { code, stdout, stderr } = await run(['verify', '--data-dir', dataDir, ...args]);
      expect(stdout).toBe('');
      return [code, stderr];
    };
    const none = path.join(dataDir, 'none');
    for (const args of [
      ['--against', none],
      ['--key', `@${none}`],
      ['--key', none],
    ])
      expect((await failure(...args))[0]).toBe(6);
    expect((await failure('--key', 'no.vkey'))[0]).toBe(6);
    const secret = 'PRIVATE+KEY+log.example+2e8f2b0e+AbCd';
    const [code, stderr] = await failure('--key', secret);
    expect([code, String(stderr).includes('AbCd')]).toEqual([2, false]);
    const { publicKey } = generateKeyPairSync('ed25519');
    const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32);
    const witness = await failure('--key', witnessKey('witness.example', raw));
    expect(witness).toEqual([2, expect.stringContaining('the key of a witness')]);
    dataDir = scratch();
    expect(await failure()).toEqual([6, `collector: ${dataDir} holds no log\n`]);
    await createKey(dataDir);
    expect((await failure())[0]).toBe(6);
    dataDir = path.join(dataDir, 'no');
    expect((await failure())[0]).toBe(6);
  });

  test('[R-907] says with exit code 1 what it may not read, and gives no verdict', async () => {
    const [segment = ''] = segmentPaths(dataDir);
    fs.chmodSync(dataDir, 0o755);
    for (const entry of fs.readdirSync(dataDir, { recursive: true, withFileTypes: true })) {
      fs.chmodSync(path.join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644);
    }
    expect((await runWithoutPrivilege(['verify', '--data-dir', dataDir])).code).toBe(0);
    fs.chmodSync(segment, 0o000);
    expect(await runWithoutPrivilege(['verify', '--data-dir', dataDir])).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: `collector: permission denied: ${segment}\n`,
    });
  });

  test.runIf(canMount)('[R-907] reads a read-only snapshot', async () => {
    const { code, stdout } = await runReadOnly(dataDir, ['verify', '--data-dir', dataDir]);
    expect([code, stdout.slice(0, 7)]).toEqual([0, 'INTACT:']);
  });
});

describe('collector verify and the keys of a log', () => {
  const directory = () => path.join(dataDir, 'signing-keys');
  const rotate = () => SigningKeys.rotate({ dataDir, directory: directory(), overlapMs: 0 }).key.vkey;

  test('[R-907] follows rotation notes from a key that was given, and from the first one', async () => {
    const first = firstKey(dataDir);
    const second = rotate();
    await fillSigned(dataDir, [[loggedEvent('after a rotation')]]);
    const third = rotate();
    await fillSigned(dataDir, [[loggedEvent('after another one')]]);
    for (const args of [[], ['--key', first]]) {
      const { code, report } = await verify(...args);
      expect([code, report.checkpoints_checked, report.findings]).toEqual([0, 6, []]);
    }
    // What was signed before is compared with the log, but a later key does not confirm it.
    for (const [key, message] of [
      [second, 'checkpoints/0000000000000000.checkpoint and 2 more'],
      [third, 'checkpoints/0000000000000000.checkpoint and 3 more'],
    ] as const) {
      const { code, report } = await verify('--key', key);
      expect([code, report.keys_from]).toEqual([0, 'given']);
      expect(report.findings).toEqual([
        { kind: 'note', message: expect.stringContaining(message) as string },
      ]);
    }
  });

  test('[R-907] does not trust what only an earlier key than the given one has signed', async () => {
    const second = rotate();
    const { code, report } = await verify('--key', second);
    expect(code).toBe(3);
    expect(report.findings).toMatchObject([
      { kind: 'checkpoint_invalid', file: 'checkpoints/latest' },
      { kind: 'note' },
    ]);
  });

  test('[R-907] finds that a directory of the same name was made with another key than the given one', async () => {
    const trusted = firstKey(dataDir);
    dataDir = scratch();
    await fillSigned(dataDir, BATCHES);
    expect((await verify()).code).toBe(0);
    const { code, report } = await verify('--key', trusted);
    expect([code, report.intact, report.unsigned_entries]).toEqual([3, false, 60]);
    expect(report.findings).toMatchObject([{ kind: 'checkpoint_invalid', file: 'checkpoints/latest' }]);
  });

  test('[R-907] reports a rotation note that is missing or was changed', async () => {
    rotate();
    rotate();
    await fillSigned(dataDir, [[loggedEvent('after two rotations')]]);
    const notes = path.join(dataDir, 'checkpoints/rotations');
    const note = fs.readFileSync(path.join(notes, '0002.note'), 'utf8');
    fs.writeFileSync(path.join(notes, '0002.note'), note.replace('Z\n', 'Z \n'));
    const unsigned = [{ kind: 'checkpoint_invalid', file: 'checkpoints/latest' }, { kind: 'note' }];
    expect(await verify()).toMatchObject({
      code: 3,
      report: { findings: [{ kind: 'checkpoint_invalid' }, ...unsigned] },
    });
    fs.rmSync(path.join(notes, '0002.note'));
    expect(await verify()).toMatchObject({ code: 3, report: { findings: unsigned } });
    // It may have been kept elsewhere.
    const given = path.join(scratch(), 'second.note');
    fs.writeFileSync(given, note);
    const chain = ['--key', path.dirname(given)];
    for (const key of [[], ['--key', firstKey(dataDir)]]) {
      expect(await verify(...chain, ...key)).toMatchObject({ code: 0, report: { findings: [] } });
    }
    const both = path.join(scratch(), 'both');
    fs.writeFileSync(both, [note, fs.readFileSync(path.join(notes, '0001.note'), 'utf8')].join('\n'));
    fs.rmSync(path.join(notes, '0001.note'));
    expect((await verify('--key', both)).code).toBe(0);
    expect((await verify(...chain)).code).toBe(3);
    // A note that is not a rotation note, or that is forged, is reported.
    fs.writeFileSync(given, `${kept('latest')}\n${note.slice(0, -20)}${'A'.repeat(16)}=\n`);
    const refused = await verify('--key', both, '--key', given);
    expect(refused.code).toBe(3);
    expect(refused.report.findings.map(({ message }) => message)).toEqual(
      [3, 4].map((number) => expect.stringContaining(` number ${number} cannot be followed: `) as string),
    );
  });

  test('[R-907] refuses keys that are all of other logs, with exit code 2', async () => {
    const other = scratch();
    await fillSigned(other, [], { origin: 'log.example/another' });
    const refused = {
      ...{ code: 2, stdout: '' },
      stderr: `collector: --key: the key is of the log log.example/another, and this directory is ${ORIGIN}\n`,
    };
    const own = ['verify', '--data-dir', dataDir, '--key', firstKey(dataDir)];
    expect((await run([...own, '--key', firstKey(other)])).code).toBe(0);
    expect(await run(['verify', '--data-dir', dataDir, '--key', firstKey(other)])).toEqual(refused);
    // When the first key is lost, the newest checkpoint names the log.
    fs.rmSync(path.join(dataDir, 'checkpoints/origin.vkey'));
    expect(await run(['verify', '--data-dir', dataDir, '--key', firstKey(other)])).toEqual(refused);
    expect((await run(own)).code).toBe(3);
  });
});

describe('collector verify and the checkpoints that witnesses have cosigned', () => {
  test('[R-907] compares them with the log as well, by the signature of the log', async () => {
    const file = path.join(dataDir, 'checkpoints/cosigned-0badc0de');
    fs.writeFileSync(`${file}.unfinished`, 'half of it');
    fs.writeFileSync(file, kept('0000000000000030.checkpoint'));
    expect((await verify()).report).toMatchObject({ intact: true, checkpoints_checked: 5 });
    fs.writeFileSync(file, await sign(dataDir, 30, Buffer.alloc(32, 3)));
    const { code, report } = await verify();
    expect(code).toBe(3);
    expect(report.findings).toMatchObject([{ kind: 'forked' }]);
    fs.writeFileSync(file, 'nothing');
    expect((await verify()).report.findings).toMatchObject([{ kind: 'checkpoint_invalid' }]);
  });
});

describe('collector verify --against', () => {
  test('[R-907] reads a file of many checkpoints, as a sink appends them', async () => {
    const against = path.join(scratch(), 'appended');
    const [some, all] = [kept('0000000000000030.checkpoint'), kept('latest')];
    fs.writeFileSync(against, `${some}\n${all}\n${some}\n`);
    expect((await verify('--against', against)).report).toMatchObject({
      intact: true,
      checkpoints_checked: 7,
    });
    // A wrong one among them is reported with its number.
    const wrong = await sign(dataDir, 45, Buffer.alloc(32, 1));
    fs.writeFileSync(against, `${some}\n${wrong}\n${all}\n`);
    const { code, report } = await verify('--against', against);
    expect(code).toBe(3);
    const message = expect.stringContaining(`${against}, note 2, `) as string;
    expect(report.findings).toMatchObject([{ kind: 'forked', sequence: 31, message }]);
  });

  test('[R-907] skips a checkpoint that was cut short while it was written, and says so', async () => {
    const against = path.join(scratch(), 'appended');
    const [some, all] = [kept('0000000000000030.checkpoint'), kept('latest')];
    for (let bytes = 1; bytes < all.length - 1; bytes += 17) {
      fs.writeFileSync(against, `${some}\n${all.slice(0, bytes)}`);
      const { code, report } = await verify('--against', against);
      expect(code).toBe(0);
      expect(report.findings).toMatchObject([{ kind: 'note', file: against }]);
    }
    // As a sink ends one when it starts again, so that the next one is separate.
    const ended = `${all.slice(0, -20)}\n\u2014 the note above was cut short\n\n`;
    fs.writeFileSync(against, `${some}\n${ended}${ended}${all}\n`);
    const { code, report } = await verify('--against', against);
    expect(code).toBe(0);
    expect(report.checkpoints_checked).toBe(6);
    expect(report.findings).toMatchObject([{ kind: 'note', file: against }]);
    // Where no other is whole, nothing was compared.
    fs.writeFileSync(against, all.slice(0, -20));
    expect((await verify('--against', against)).code).toBe(3);
    fs.writeFileSync(against, '');
    expect(await verify('--against', against)).toMatchObject({
      code: 3,
      report: {
        findings: [
          { kind: 'checkpoint_invalid', file: against },
          { kind: 'note', file: against },
        ],
      },
    });
  });

  test('[R-907] gives no verdict when there was nothing to compare with', async () => {
    const against = scratch();
    const refused = {
      ...{ code: 6, stdout: '' },
      stderr: expect.stringContaining(`${against} `) as string,
    };
    const args = ['verify', '--data-dir', dataDir, '--against', against];
    expect(await run(args)).toEqual(refused);
    const below = path.join(against, 'icu');
    fs.mkdirSync(below);
    fs.copyFileSync(
      path.join(dataDir, 'checkpoints/latest'),
      path.join(below, '0000000000000060.checkpoint'),
    );
    fs.writeFileSync(path.join(against, 'README'), 'What is kept here\n');
    expect(await run(args)).toEqual(refused);
    // Also when another path holds some.
    expect(await run([...args, '--against', below])).toEqual(refused);
    expect((await verify('--against', below)).report).toMatchObject({
      ...{ intact: true, checkpoints_checked: 5, checkpoints_given: 1 },
    });
    // What was cut short was not compared either.
    fs.truncateSync(path.join(below, '0000000000000060.checkpoint'), 50);
    expect(await verify('--against', below)).toMatchObject({
      code: 3,
      report: { checkpoints_given: 0, findings: [{ kind: 'checkpoint_invalid' }, { kind: 'note' }] },
    });
  });

  test('[R-907] skips checkpoints of another log only among those of this one', async () => {
    const other = scratch();
    await fillSigned(other, BATCHES.slice(0, 2), { origin: 'log.example/another' });
    const theirs = fs.readFileSync(path.join(other, 'checkpoints/latest'), 'utf8');
    const against = path.join(scratch(), 'shared');
    fs.writeFileSync(against, [theirs, kept('latest'), theirs].join('\n'));
    const { code, report } = await verify('--against', against);
    expect([code, report.checkpoints_given]).toEqual([0, 1]);
    expect(report.findings).toMatchObject([{ kind: 'note', file: against }]);
    // Not one of this log whose name was changed.
    fs.writeFileSync(
      against,
      [kept('latest').replace(ORIGIN, 'log.example/another'), kept('latest')].join('\n'),
    );
    expect((await verify('--against', against)).code).toBe(3);
    fs.writeFileSync(against, [theirs, theirs].join('\n'));
    expect(await verify('--against', against)).toMatchObject({
      code: 3,
      report: { findings: [{ kind: 'checkpoint_invalid', file: against }] },
    });
  });

  test('[R-907] reads a directory of checkpoints, as a write-once directory holds them', async () => {
    const against = scratch();
    const file = (name: string) => path.join(against, name);
    fs.writeFileSync(file('0000000000000030.checkpoint'), kept('0000000000000030.checkpoint').slice(0, 50));
    fs.writeFileSync(file('0000000000000030-2.checkpoint'), kept('0000000000000030.checkpoint'));
    fs.writeFileSync(file('0000000000000060.checkpoint'), kept('latest').slice(0, 90));
    fs.writeFileSync(file('README'), 'What is kept here\n');
    fs.mkdirSync(file('elsewhere'));
    const { code, report } = await verify('--against', against);
    expect([code, report.checkpoints_checked]).toEqual([0, 5]);
    const passedOver = ['0000000000000030.checkpoint', 'README'];
    expect(report.findings).toMatchObject(passedOver.map((name) => ({ kind: 'note', file: file(name) })));
    // With no whole one beside it, nothing was compared.
    fs.rmSync(file('0000000000000030-2.checkpoint'));
    expect((await verify('--against', against)).code).toBe(3);
    // The checkpoints of a back-up are accepted as well.
    expect((await verify('--against', path.join(master, 'checkpoints'))).report).toMatchObject({
      intact: true,
      checkpoints_checked: 8,
    });
  });

  test('[R-907] escapes control characters of a checkpoint for the terminal', async () => {
    const against = path.join(scratch(), 'given');
    const note = kept('latest').replace(ORIGIN, 'evil\u009b2J\u202e');
    fs.writeFileSync(against, note);
    const { code, stdout } = await run(['verify', '--data-dir', dataDir, '--against', against]);
    expect(code).toBe(3);
    expect(stdout).toContain('it is of the log evil\\u009b2J\\u202e');
    expect(stdout).not.toMatch(/[\u0080-\u009f\u202e]/);
  });
});
