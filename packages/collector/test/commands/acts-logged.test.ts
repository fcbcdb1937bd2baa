/** Acts on keys, policy, holds and what is stored, in the access log: before, after, or not done. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { run, start } from '../running/collector-process.js';
import { post } from '../running/load.js';
import { canMount, runReadOnly } from '../running/restricted-process.js';
import { sampleEvent } from '../running/sample-events.js';
import { scratch } from '../running/scratch.js';

let root: string;
let dataDir: string;
let log: string;
let made: string[];

beforeEach(() => {
  root = scratch();
  dataDir = path.join(root, 'data');
  log = path.join(dataDir, 'access.log');
  made = [];
});

const at = (name: string): string => path.join(root, name);
const on = (...args: readonly string[]) => run([...args, '--data-dir', dataDir]);

async function done(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await on(...args);
  expect(code, stderr).toBe(0);
  return stdout;
}

interface Line {
  readonly state: string;
  readonly reading: string;
  readonly command: string;
  readonly filter?: Readonly<Record<string, unknown>>;
  readonly complete?: boolean;
  readonly done?: unknown;
}

const texts = () => fs.readFileSync(log, 'utf8').trimEnd().split('\n');
const lines = (): Line[] => texts().map((text) => JSON.parse(text) as Line);

/** The two lines of the newest access. */
function newest(): { command: string; filter: unknown; complete: unknown; done: unknown } {
  const [begun, ended] = lines().slice(-2);
  expect([begun?.state, ended?.state, ended?.reading]).toEqual(['begun', 'ended', begun?.reading]);
  expect(ended?.command).toBe(begun?.command);
  return {
    ...{ command: begun?.command ?? '', filter: begun?.filter, complete: ended?.complete, done: ended?.done },
  };
}

/** A collector that encrypts, with an event of a patient, and files that acts are given. */
async function running() {
  for (const name of ['keys', 'copy', 'mirror']) fs.mkdirSync(at(name));
  const key = (JSON.parse(await done('keys', 'create', '--permissions', 'all', '--json')) as { key: string })
    .key;
  const collector = await start(dataDir, ['--encryption', 'on', '--encryption-keys', at('keys')]);
  onTestFinished(() => collector.kill());
  const kind = 'inference-start';
  expect((await post(collector.port, key, JSON.stringify(sampleEvent(kind)), { kind })).status).toBe(201);
  fs.writeFileSync(
    at('policy.json'),
    JSON.stringify({ version: 1, name: 'short', default: { keep: 'P9Y' } }),
  );
  fs.writeFileSync(at('subjects'), 'patient-4711\n');
  return { collector, key };
}

/** Each act that a directory with a collector on it can be given, with what its lines say. */
function acts(keyId: string): readonly [args: string[], filter: object, done?: object][] {
  const id = expect.any(String) as string;
  return [
    [
      ['keys', 'create', '--permissions', 'outcome', '--organisation', 'icu', '--note', 'of Dr. Adler'],
      { key_id: id, organisation: 'icu', permissions: ['outcome'], expires_at: null },
    ],
    [['keys', 'rotate', keyId, '--overlap', '7d'], { key_id: keyId, replaced_by: id, accepted_until: id }],
    [['keys', 'revoke', keyId], { key_id: keyId }],
    [['signing-key', 'rotate', '--overlap', '0'], { key_id: id, overlap: '0' }, { key_id: id }],
    [['encryption-keys', 'copy', at('copy'), '--expires', '14d'], { directory: at('copy'), expires: id }],
    [['encryption-keys', 'copy', at('mirror'), '--mirror'], { directory: at('mirror'), mirror: true }],
    [['encryption-keys', 'rotate'], { action: id }, { epoch: 2 }],
    [
      ['retention', 'policy', 'set', at('policy.json')],
      { action: id, policy: 'short', sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string },
    ],
    [
      ['hold', 'add', 'CASE-7', '--subject-file', at('subjects')],
      { action: id, name: 'CASE-7', subjects: 1 },
    ],
    [['hold', 'release', 'CASE-7'], { name: 'CASE-7', hold: id }],
    [
      ['backup', at('backup'), '--with-signing-keys', '--keys-elsewhere'],
      { directory: at('backup'), signing_keys: true },
    ],
  ];
}

describe('an act', () => {
  test('[R-702] has a line before and a line after it, which name its object but no secret and no person', async () => {
    const { collector, key } = await running();
    const { filter } = lines()[0] ?? {};
    const keyId = String(filter?.['key_id']);
    for (const [args, asked, had] of acts(keyId)) {
      made.push(await done(...args));
      expect(newest()).toEqual({
        command: args.slice(0, args[1] === 'policy' ? 3 : args[0] === 'backup' ? 1 : 2).join(' '),
        filter: expect.objectContaining(asked) as object,
        ...{ complete: true, done: had },
      });
    }
    const text = texts().join('\n');
    const keys = [key, ...(made.join('\n').match(/cek_[a-z2-7]{12}_[\w-]{43}/g) ?? [])];
    expect(new Set(keys).size).toBe(3);
    for (const secret of [...keys.map((each) => each.slice(-43)), 'patient-4711', 'Adler', 'PRIVATE'])
      expect(text).not.toContain(secret);
    // A refused act has a line for its beginning, and one which says that it was not done.
    expect((await on('keys', 'rotate', keyId)).code).toBe(2);
    expect((await on('keys', 'revoke', 'aaaaaaaaaaaa')).code).toBe(6);
    expect(newest()).toMatchObject({ command: 'keys revoke', complete: false });
    expect(await collector.stop()).toBe(0);
    const { intact, access_log } = JSON.parse(await done('verify', '--json')) as Record<string, unknown>;
    expect([intact, access_log]).toMatchObject([true, { unsigned_lines: 0, unended: 0 }]);
  });

  test('[R-702] is not done where its line cannot be written', async () => {
    const { collector } = await running();
    const keyId = String(lines()[0]?.filter?.['key_id']);
    const state = async () => {
      const keys = await done('keys', 'list', '--json');
      const status = JSON.parse(await done('encryption-keys', 'status', '--json')) as Record<string, unknown>;
      const { epoch, directories, copies } = status;
      const signing = await done('signing-key', 'show', '--json');
      const holds = await on('hold', 'list');
      const policy = await on('retention', 'policy', 'show');
      const copied = [at('copy'), at('mirror')].flatMap((each) => fs.readdirSync(each));
      return {
        keys,
        epoch,
        directories,
        copies,
        signing,
        holds,
        policy,
        copied,
        backup: fs.existsSync(at('backup/signing-keys')),
      };
    };
    const before = await state();
    fs.renameSync(log, at('access.log'));
    fs.mkdirSync(log);
    for (const [args] of acts(keyId)) {
      // There is no hold to release, and the command looks for it first.
      if (args[1] === 'release') continue;
      const { code, stdout, stderr } = await on(...args);
      expect([args, code, stdout]).toEqual([args, 1, '']);
      expect(stderr).toContain(`${log} cannot be written (EISDIR)`);
    }
    expect(await state()).toEqual(before);
    fs.rmdirSync(log);
    fs.renameSync(at('access.log'), log);
    await done('hold', 'add', 'CASE-7', '--organisation', 'default');
    fs.renameSync(log, at('access.log'));
    fs.mkdirSync(log);
    expect((await on('hold', 'release', 'CASE-7')).stderr).toContain('EISDIR');
    expect(await done('hold', 'list')).toContain('CASE-7');
    await collector.kill();
  });

  test.skipIf(!canMount)(
    '[R-702] is not done on a read-only file system, where reading needs no line',
    async () => {
      const { collector } = await running();
      await collector.stop();
      const args = ['encryption-keys', 'copy', at('copy'), '--expires', '14d', '--data-dir', dataDir];
      const copied = await runReadOnly(dataDir, args);
      expect(copied).toEqual({
        ...{ code: 1, stdout: '' },
        stderr: expect.stringContaining(`${log} cannot be written (EROFS)`) as string,
      });
      expect(fs.readdirSync(at('copy'))).toEqual([]);
      expect((await runReadOnly(dataDir, ['events', '--data-dir', dataDir])).code).toBe(0);
    },
  );

  test('[R-702] before the first start has its lines in the directory that it makes, and the log has a head of them', async () => {
    await done('keys', 'create', '--permissions', 'all');
    expect(newest()).toMatchObject({ command: 'keys create', complete: true });
    expect(fs.statSync(log).mode & 0o777).toBe(0o600);
    const collector = await start(dataDir);
    expect(await collector.stop()).toBe(0);
    const { intact, access_log } = JSON.parse(await done('verify', '--json')) as Record<string, unknown>;
    expect([intact, access_log]).toMatchObject([true, { lines: 2, unsigned_lines: 0 }]);
    // Nothing is made in a place where there is no log.
    fs.mkdirSync(at('elsewhere'));
    expect((await run(['signing-key', 'rotate', '--data-dir', at('elsewhere')])).code).toBe(6);
    expect(fs.readdirSync(at('elsewhere'))).toEqual([]);
  });
});
