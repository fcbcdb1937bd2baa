import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { beginAccess } from '../../src/commands/access-log.js';
import { whyUnsigned } from '../../src/commands/verify/proof-findings.js';
import { CheckpointTrouble, writeSinkStates } from '../../src/tree/state-files.js';
import { createKey, run, start, temporaryDirectory } from '../running/collector-process.js';
import { lockDirectory } from '../../src/store/directory-lock.js';
import { fillDirectory, flipBit, segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned, loggedEvent, ORIGIN, signAccesses } from './signed-directory.js';

let dataDir: string;

beforeEach(async () => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  await createKey(dataDir);
  await fillSigned(dataDir, [Array.from({ length: 300 }, (_, i) => loggedEvent(`note ${i}`))]);
});

/** What doctor says of the proof: `subject: severity: message`. */
async function said(...options: string[]): Promise<{ code: number | null; lines: string[] }> {
  const { code, stdout, stderr } = await run(['doctor', '--json', '--data-dir', dataDir, ...options]);
  expect(stderr).toBe('');
  const { findings } = JSON.parse(stdout) as {
    findings: { severity: string; subject: string; message: string }[];
  };
  const subjects = ['events', 'signing key', 'checkpoint', 'tree', 'sink'];
  const lines = findings
    // Of the key's disk: signing-key.test.ts.
    .filter(({ subject, message }) => subjects.includes(subject) && !message.startsWith('is stored only'))
    .filter(({ subject, severity }) => subject !== 'events' || severity !== 'ok')
    .map(({ severity, subject, message }) => `${subject}: ${severity}: ${message}`);
  return { code, lines };
}

function otherKey(): string {
  return String(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
}

function inData(...names: string[]): string {
  return path.join(dataDir, ...names);
}

function signingKeyFile(): string {
  return inData('signing-keys', fs.readdirSync(inData('signing-keys'))[0] ?? '');
}

describe('collector doctor on the proof', () => {
  test('[R-903] [R-905] finds key, checkpoint and tree intact, and warns that there is no sink', async () => {
    expect(await said()).toEqual({
      code: 0,
      lines: [
        `signing key: ok: ${signingKeyFile()}, only its owner has access`,
        `checkpoint: ok: over 300 entries, signed as ${ORIGIN}`,
        'tree: ok: gives the root that was signed',
        'sink: warning: checkpoints stay on this host, which could rewrite its log undetected: configure --checkpoint-sink',
      ],
    });
  });

  test('[R-903] does not wait at a pipe among the checkpoints', async () => {
    execFileSync('mkfifo', [inData('checkpoints', 'cosigned-0a1b2c3d')]);
    const { code, stdout, stderr } = await run(['doctor', '--json', '--data-dir', dataDir]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(inData('checkpoints', 'cosigned-0a1b2c3d'));
  });

  test('[R-905] warns of a key that others can read, or that is gone', async () => {
    const file = signingKeyFile();
    fs.chmodSync(file, 0o644);
    expect((await said()).lines[0]).toMatch(/^signing key: warning: .* can be read by other users/);
    fs.rmSync(file);
    const { code, lines } = await said();
    expect(lines[0]).toMatch(/^signing key: warning: .* does not exist/);
    expect(code).toBe(0);
  });

  test.each([
    ['holds no key', 'not the PKCS#8 PEM', (file: string) => fs.writeFileSync(file, 'no key')],
    [
      'holds another key',
      'not hold the private key of',
      (file: string) => fs.writeFileSync(file, otherKey()),
    ],
    [
      'is a directory',
      'not a directory',
      (file: string) => {
        fs.rmSync(file);
        fs.mkdirSync(file);
      },
    ],
  ])('[R-905] reports a private key file that %s, as the start of a collector does', async (_, why, act) => {
    const file = signingKeyFile();
    act(file);
    const { code, lines } = await said();
    expect(code).toBe(3);
    expect(lines[0]).toMatch(
      new RegExp(`^signing key: damage: .*\\.pem .*${why}.*; no collector starts with it$`),
    );
    const started = await run(['serve', '--port', '0', '--data-dir', dataDir]);
    expect([started.code, started.stderr]).toEqual([3, expect.stringContaining(file)]);
  });

  test('[R-904] reports a rotation whose note is gone while the old key still signs, as verify and a start do', async () => {
    const before = await said();
    expect((await run(['signing-key', 'rotate', '--data-dir', dataDir])).code).toBe(0);
    await fillSigned(dataDir, [[loggedEvent('by both keys')]]);
    expect((await said()).code).toBe(0);
    fs.rmSync(inData('checkpoints', 'rotations', '0001.note'));
    const missing = /the key [0-9a-f]{8} signed it too, and no note in checkpoints\/rotations names that key/;
    const { code, lines } = await said();
    expect([code, lines[0]]).toEqual([3, before.lines[0]]);
    expect(lines[1]).toMatch(missing);
    for (const command of [['serve', '--port', '0'], ['verify']]) {
      const { code, stdout, stderr } = await run([...command, '--data-dir', dataDir]);
      expect(code, command[0]).toBe(3);
      expect(stdout + stderr, command[0]).toMatch(missing);
    }
  });

  test('[R-905] looks for the key where the options say that it is', async () => {
    const elsewhere = temporaryDirectory();
    onTestFinished(() => fs.rmSync(elsewhere, { recursive: true, force: true }));
    const name = path.basename(signingKeyFile());
    fs.rmSync(elsewhere, { recursive: true });
    fs.renameSync(inData('signing-keys'), elsewhere);
    expect((await said('--signing-keys', elsewhere)).lines[0]).toBe(
      `signing key: ok: ${path.join(elsewhere, name)}, only its owner has access`,
    );
    expect((await said()).lines[0]).toMatch(/^signing key: warning: .* does not exist/);
    const vkey = fs.readFileSync(inData('checkpoints', 'origin.vkey'), 'utf8').trim();
    expect((await said('--signing-keys', `command:${process.execPath}`)).lines[0]).toBe(
      `signing key: ok: signs by ${process.execPath}: ${vkey}`,
    );
    expect((await said('--signing-keys', 'command:/no/such/program')).lines[0]).toMatch(
      /^signing key: warning: /,
    );
  });

  test('[R-903] reports since when, and why, no checkpoint could be made', async () => {
    const trouble = new CheckpointTrouble(dataDir, () => Date.UTC(2026, 0, 1));
    trouble.failed('the signing command /opt/sign ended with exit code 1 (sign)');
    const { code, lines } = await said();
    expect(code).toBe(0);
    const reason =
      'since 2026-01-01T00:00:00.000Z: the signing command /opt/sign ended with exit code 1 (sign)';
    expect(lines).toContainEqual(expect.stringMatching(/^checkpoint: warning: no checkpoint .* since /));
    expect(lines.join()).toContain(reason);
    fs.writeFileSync(inData('checkpoints', 'trouble.json'), '{}');
    expect((await said()).lines.join()).toContain('checkpoint: warning: ');
    // The next collector makes a checkpoint, and removes the note.
    const collector = await start(dataDir);
    expect(await collector.stop()).toBe(0);
    expect(collector.output.stderr).toContain('"msg":"checkpoints are being made again"');
    expect((await said()).lines.join()).not.toContain('checkpoint: warning');
  });

  test('[R-904] reports a newest checkpoint that is gone or changed, as the start of a collector does', async () => {
    const latest = inData('checkpoints', 'latest');
    const note = fs.readFileSync(latest, 'utf8');
    const refusal = async () => start(dataDir).then(() => '', String);
    fs.rmSync(latest);
    const missing = expect.stringMatching(/^checkpoint: damage: checkpoints\/latest is missing/) as string;
    expect(await said()).toMatchObject({ code: 3, lines: expect.arrayContaining([missing]) as string[] });
    expect(await refusal()).toContain('the ledger holds 300 entries, but its newest checkpoint is missing');
    fs.writeFileSync(latest, note.replace('\n300\n', '\n299\n'));
    const { code, lines } = await said();
    expect([code, lines[1]]).toEqual([
      3,
      expect.stringContaining('checkpoint: damage: checkpoints/latest is not a checkpoint of this log'),
    ]);
    expect(await refusal()).toContain('checkpoints/latest is not a checkpoint of this log');
    // Nothing was changed by that: with the checkpoint back, all is well.
    fs.writeFileSync(latest, note);
    expect((await said()).code).toBe(0);
  });

  test('[R-904] reports events that are missing from the end, also without an index', async () => {
    fs.rmSync(inData('index'), { recursive: true });
    const last = segmentPaths(dataDir).at(-1) ?? '';
    const bytes = fs.readFileSync(last);
    const end = bytes.findLastIndex((byte) => byte !== 0);
    fs.writeFileSync(last, bytes.fill(0, end - 100));
    const { code, lines } = await said();
    expect(code).toBe(3);
    expect(lines[0]).toMatch(/^events: damage: .*event 300 .*/);
    // What can be read is printed, and reported as incomplete.
    const events = await run(['events', '--data-dir', dataDir]);
    expect([events.code, events.stdout.split('\n').length]).toEqual([3, 300]);
    expect(events.stderr).toMatch(/entry 299 .*300 entries/);
    const refusal = await start(dataDir).then(() => '', String);
    expect(refusal).toMatch(/checkpoint.* 300 entries/);
    expect(fs.readFileSync(last).equals(bytes)).toBe(true);
  });

  test('[R-903] warns of events that wait for a checkpoint only if a collector is running', async () => {
    // A collector that is killed leaves events after its newest checkpoint; here the test leaves them.
    const batch = [loggedEvent('new', { receivedAt: Date.now() - 600_000 })];
    await fillDirectory(dataDir, [batch]);
    expect((await said()).lines[1]).toMatch(/^checkpoint: ok: over 300 entries.* 1 entry after them/);
    const lock = lockDirectory(dataDir);
    onTestFinished(() => lock.release());
    const since = new Date(batch[0]?.receivedAt ?? 0).toISOString();
    expect((await said()).lines[1]).toMatch(new RegExp(`^checkpoint: warning: .*1 entry.* since ${since}: `));
  });

  test('[R-903] reports a full disk as the reason for missing checkpoints', () => {
    expect(whyUnsigned(4096)).toMatch(/^the disk is full/);
    expect(whyUnsigned(1 << 30)).not.toMatch(/disk/);
  });

  test('[R-901] warns of a damaged tree, and the start of a collector rebuilds it', async () => {
    flipBit(inData('tree', 'level-0'), 299 * 32);
    const { code, lines } = await said();
    expect(code).toBe(0);
    expect(lines).toContainEqual(
      expect.stringMatching(/^tree: warning: does not give the root that was signed/),
    );
    const collector = await start(dataDir);
    expect(collector.output.stderr).toMatch(/"level":"warn".*\btree\b.*damaged.*rebuilt/);
    expect((await said()).lines).toContain('tree: ok: gives the root that was signed');
    expect(await collector.stop()).toBe(0);
  });

  test('[R-906] reports the state of each sink', async () => {
    const at = new Date().toISOString();
    writeSinkStates(dataDir, [
      { sink: 'dir:/mnt/worm', state: 'ok', size: 300, at },
      { sink: 'https://witness.example', state: 'failing', failing_since: at, message: 'it does not answer' },
      { sink: 'file:/var/log/checkpoints', state: 'forked', failing_since: at, message: 'it knows more' },
    ]);
    const { code, lines } = await said();
    expect(code).toBe(3);
    expect(lines.slice(-3)).toEqual([
      expect.stringMatching(/^sink: ok: dir:\/mnt\/worm .*300 entries/),
      expect.stringMatching(/^sink: warning: https:\/\/witness\.example .*it does not answer/),
      expect.stringMatching(/^sink: damage: file:\/var\/log\/checkpoints .*it knows more/),
    ]);
    writeSinkStates(dataDir, [{ sink: 'dir:/mnt/worm', state: 'ok', size: 300, at, lost_at: at }]);
    const lost = await said();
    expect([lost.code, lost.lines.at(-1)]).toEqual([0, expect.stringMatching(/^sink: warning: .*held less/)]);
    fs.writeFileSync(inData('checkpoints', 'sinks.json'), '[{}]');
    expect((await said()).lines.at(-1)).toContain('does not hold the states of checkpoint sinks');
  });

  test('[R-905] reports keys that do not follow from each other', async () => {
    fs.writeFileSync(inData('checkpoints', 'origin.vkey'), 'rubbish\n');
    const { code, lines } = await said();
    expect(code).toBe(3);
    expect(lines).toEqual([
      expect.stringMatching(/^signing key: damage: the keys in .*checkpoints do not follow/),
    ]);
  });

  test('[R-2056] names the command that checks a file of the access log that was moved elsewhere', async () => {
    onTestFinished(() => void vi.useRealTimers());
    for (const now of ['2026-12-31', '2027-01-01']) {
      vi.useFakeTimers({ toFake: ['Date'], now: new Date(now) });
      beginAccess(dataDir, { command: 'events', filter: {} })({ events: 1, complete: true });
    }
    await signAccesses(dataDir);
    fs.rmSync(inData('access.log'));
    const { stdout } = await run(['doctor', '--data-dir', dataDir]);
    const unwrapped = stdout.replaceAll(/\s+/g, ' ');
    const command = `collector verify --data-dir ${dataDir} --access-log FILE`;
    expect(unwrapped).toContain(`of access.log not checked (${command})`);
  });
});
