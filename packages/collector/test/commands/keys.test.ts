import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { EVENT_KINDS } from '@clinical-events/protocol';
import { describe, expect, test } from 'vitest';
import { createKey } from '../../src/access/issuing.js';
import { KeyRing, newKeyId, newKeyText } from '../../src/access/key-ring.js';
import { openKeys, scratchDirectory } from '../access/scratch-keys.js';
import { outcomeEvent, run as collector, start } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { post } from '../running/load.js';

const DAY = 86_400_000;

interface KeyJson extends Record<string, unknown> {
  readonly key: string;
  readonly key_id: string;
}

async function create(dataDir: string, ...options: string[]): Promise<KeyJson> {
  const { code, stdout } = await collector([
    ...['keys', 'create', '--data-dir', dataDir, '--json', ...options],
  ]);
  expect(code).toBe(0);
  return JSON.parse(stdout) as KeyJson;
}

async function list(dataDir: string, ...options: string[]): Promise<unknown> {
  const { code, stdout } = await collector(['keys', 'list', '--data-dir', dataDir, '--json', ...options]);
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

async function answerTo(dataDir: string, key: string): Promise<string> {
  const answer = (await KeyRing.open(openKeys(dataDir))).authenticate(key, Date.now());
  return typeof answer === 'string' ? answer : answer.organisation;
}

describe('create', () => {
  test('makes the data directory and prints the key once, with a curl line for a kind that it permits', async () => {
    const dataDir = scratchDirectory('a/b');
    const env = { COLLECTOR_DATA_DIR: dataDir, COLLECTOR_PORT: '9000' };
    const { code, stdout, stderr } = await collector(['keys', 'create', '--permissions', 'outcome'], { env });
    expect([code, stderr]).toEqual([0, expect.stringContaining(dataDir)]);
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
    const [key = ''] = /cek_[a-z2-7]{12}_[A-Za-z0-9_-]{43}/.exec(stdout) ?? [];
    expect(stdout).toContain('curl -sS -X POST http://127.0.0.1:9000/event/outcome');
    expect(stdout).toContain(`-H 'X-API-Key: ${key}'`);
    expect(await answerTo(dataDir, key)).toBe('default');
  });

  test('prints the line with https for a collector with a certificate [R-821]', async () => {
    const tls = ['--tls-cert', '/etc/collector/tls.crt', '--tls-key', '/etc/collector/tls.key'];
    const options = ['--data-dir', scratchDirectory(), '--permissions', 'all', '--host', 'collector.example'];
    const { stdout } = await collector(['keys', 'create', ...options, ...tls]);
    expect(stdout).toContain('https://collector.example:8080/event/inference-start');
  });

  test('binds a key to a client certificate, which list shows and rotate keeps [R-821]', async () => {
    const dataDir = scratchDirectory();
    const bound = await create(
      dataDir,
      '--permissions',
      'all',
      '--client-certificate',
      'dns:App.Example.org',
    );
    expect(bound['client_certificate']).toBe('dns:app.example.org');
    const rotated = await collector(['keys', 'rotate', bound.key_id, '--data-dir', dataDir, '--json']);
    expect(JSON.parse(rotated.stdout)).toMatchObject({ client_certificate: 'dns:app.example.org' });
    await create(dataDir, '--permissions', 'all');
    expect(await list(dataDir)).toMatchObject([
      { client_certificate: 'dns:app.example.org' },
      { client_certificate: 'dns:app.example.org' },
      { client_certificate: null },
    ]);
    const table = await collector(['keys', 'list', '--data-dir', dataDir]);
    expect(table.stdout).toContain('dns:app.example.org');
  });

  test('[R-503] takes every grant', async () => {
    const dataDir = scratchDirectory();
    const grants = ['--organisation', 'ward-7', '--permissions', 'outcome,human-output', '--profile', 'full'];
    const created = await create(
      dataDir,
      ...grants,
      ...['--expires', '2099-12-31T23:59:59+01:00', '--rate-limit', '2.5/s:10', '--note', 'for tests'],
    );
    expect(created).toMatchObject({
      organisation: 'ward-7',
      permissions: ['human-output', 'outcome'],
      profile: 'full',
      rate_limit: { events_per_second: 2.5, burst: 10 },
      expires_at: '2099-12-31T22:59:59.000Z',
      note: 'for tests',
      state: 'active',
    });
  });

  test('accepts an expiry as a time from now', async () => {
    const { created_at: created, expires_at: expires } = await create(
      scratchDirectory(),
      ...['--permissions', 'all', '--expires', '90d'],
    );
    expect(Date.parse(String(expires)) - Date.parse(String(created))).toBe(90 * DAY);
  });

  test.each([
    ['--permissions', 'outcom'],
    ['--permissions', ''],
    ['--permissions', 'all,outcome,'],
    ['--expires', '2001-01-01T00:00:00Z'],
    ['--expires', '2099-02-30T00:00:00Z'],
    ['--expires', '2099-13-01T00:00:00Z'],
    ['--expires', '2099-01-01'],
    ['--expires', '90'],
    ['--expires', '99999999d'],
    ['--rate-limit', '100'],
    ['--client-certificate', 'app.example.org'],
    ['--client-certificate', 'dns:*.example.org'],
    ['--profile', 'maximum'],
    ['--organisation', 'ward 7'],
    ['--note', 'two\nlines'],
  ])('refuses %j %j in one line with exit code 2', async (...options) => {
    const dataDir = scratchDirectory('data');
    const permissions = options[0] === '--permissions' ? [] : ['--permissions', 'all'];
    const { code, stdout, stderr } = await collector([
      ...['keys', 'create', '--data-dir', dataDir, ...permissions, ...options],
    ]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^collector: [^\n]*\n$/);
    expect(stderr).toContain(options[0].slice(2));
  });

  test('in many processes at once loses no key', async () => {
    const dataDir = scratchDirectory('data');
    const made = await Promise.all(Array.from({ length: 12 }, () => create(dataDir, '--permissions', 'all')));
    const stored = (await openKeys(dataDir).list()).map(({ keyId }) => keyId);
    expect(stored.sort()).toEqual(made.map((each) => each.key_id).sort());
  });
});

describe('list', () => {
  test('shows a table without any secret', async () => {
    const dataDir = scratchDirectory();
    const one = await create(dataDir, '--permissions', 'all');
    const options = [
      '--permissions',
      EVENT_KINDS.slice(0, 2).join(','),
      '--rate-limit',
      '5/s',
      '--note',
      'second one',
    ];
    const two = await create(dataDir, '--organisation', 'ward-7', ...options);
    const { stdout } = await collector(['keys', 'list', '--data-dir', dataDir]);
    expect(stdout).toMatch(new RegExp(`^${one.key_id} +default `, 'm'));
    expect(stdout).toMatch(new RegExp(`^${two.key_id} +ward-7 .* 5/s:5 +active .* second one$`, 'm'));
    for (const { key } of [one, two]) expect(stdout).not.toContain(key.slice(17));
  });

  test('as JSON holds neither key nor hash, and can be narrowed to an organisation', async () => {
    const dataDir = scratchDirectory();
    const { key, ...row } = await create(dataDir, '--permissions', 'all');
    await create(dataDir, '--organisation', 'ward-7', '--permissions', 'all');
    expect(key).toMatch(/^cek_/);
    expect(await list(dataDir, '--organisation', 'default')).toEqual([row]);
    expect(await list(dataDir)).toHaveLength(2);
  });

  test('says that there is no data directory, and makes none', async () => {
    const dataDir = scratchDirectory('nothing');
    expect((await collector(['keys', 'list', '--data-dir', dataDir])).code).toBe(6);
    expect(existsSync(dataDir)).toBe(false);
  });

  test('changes nothing in the directory, not even if a crash left a WAL', async () => {
    const dataDir = scratchDirectory();
    const held = openKeys(dataDir);
    const { key } = await createKey(held, { organisation: 'ward-7', permissions: 'all' }, Date.now());
    const copy = scratchDirectory('copy');
    cpSync(dataDir, copy, { recursive: true });
    rmSync(`${copy}/keys.db-shm`);
    const before = readdirSync(copy);
    expect(before).toEqual(['keys.db', 'keys.db-wal']);
    expect(await list(copy)).toMatchObject([{ key_id: key.keyId }]);
    expect(readdirSync(copy)).toEqual(before);
    expect(await list(dataDir)).toMatchObject([{ key_id: key.keyId }]);
  });

  test('says that there are no keys, and makes no file', async () => {
    const dataDir = scratchDirectory('data');
    mkdirSync(dataDir);
    expect(await collector(['keys', 'list', '--data-dir', dataDir])).toMatchObject({ code: 0, stdout: '' });
    expect(await list(dataDir)).toEqual([]);
    expect(existsSync(`${dataDir}/keys.db`)).toBe(false);
  });
});

describe('rotate', () => {
  test('keeps the old key for a day by default', async () => {
    const dataDir = scratchDirectory();
    const old = await create(dataDir, '--organisation', 'ward-7', '--permissions', 'outcome');
    const before = Date.now();
    const { code, stdout } = await collector(['keys', 'rotate', old.key_id, '--data-dir', dataDir, '--json']);
    expect(code).toBe(0);
    const successor = JSON.parse(stdout) as KeyJson;
    expect(successor).toMatchObject({
      organisation: 'ward-7',
      permissions: ['outcome'],
      rotated_from: old.key_id,
    });
    const ends = Date.parse(String(successor['old_key_expires_at']));
    expect(ends - before).toBeGreaterThanOrEqual(DAY);
    expect(ends - Date.now()).toBeLessThanOrEqual(DAY);
    expect([await answerTo(dataDir, old.key), await answerTo(dataDir, successor.key)]).toEqual([
      'ward-7',
      'ward-7',
    ]);
  });

  test('with overlap 0 ends the old key immediately, and says so', async () => {
    const dataDir = scratchDirectory();
    const old = await create(dataDir, '--permissions', 'all');
    const { stdout } = await collector([
      ...['keys', 'rotate', old.key_id, '--data-dir', dataDir, '--overlap', '0'],
    ]);
    expect(stdout).toContain(old.key_id);
    expect(await answerTo(dataDir, old.key)).toBe('key_expired');
  });

  test('is refused a second time, and for an invalid overlap', async () => {
    const dataDir = scratchDirectory();
    const { key_id: keyId } = await create(dataDir, '--permissions', 'all');
    for (const overlap of ['24', 'soon', '-1h']) {
      const refused = await collector([
        ...['keys', 'rotate', keyId, '--data-dir', dataDir, `--overlap=${overlap}`],
      ]);
      expect(refused).toMatchObject({ code: 2, stdout: '' });
    }
    await collector(['keys', 'rotate', keyId, '--data-dir', dataDir]);
    expect((await collector(['keys', 'rotate', keyId, '--data-dir', dataDir])).code).toBe(2);
  });
});

describe('revoke', () => {
  test('ends a key for good, and changes nothing the second time', async () => {
    const dataDir = scratchDirectory();
    const { key, key_id: keyId } = await create(dataDir, '--permissions', 'all');
    expect(await collector(['keys', 'revoke', keyId, '--data-dir', dataDir])).toMatchObject({
      code: 0,
      stderr: '',
    });
    expect(await answerTo(dataDir, key)).toBe('key_revoked');
    const first = await list(dataDir);
    expect(await collector(['keys', 'revoke', keyId, '--data-dir', dataDir])).toMatchObject({ code: 0 });
    expect(await list(dataDir)).toEqual(first);
  });
});

describe.each(['rotate', 'revoke'])('%s', (name) => {
  test('ends with 6 for a key that does not exist, and makes no data directory', async () => {
    const dataDir = scratchDirectory('nothing');
    const expected = { code: 6, stdout: '', stderr: expect.stringContaining('aaaaaaaaaaaa') as string };
    expect(await collector(['keys', name, 'aaaaaaaaaaaa', '--data-dir', dataDir])).toEqual(expected);
    expect(existsSync(dataDir)).toBe(false);
    await create(dataDir, '--permissions', 'all');
    expect(await collector(['keys', name, 'aaaaaaaaaaaa', '--data-dir', dataDir])).toEqual(expected);
  });

  test('refuses a whole key instead of its id, and does not repeat the secret', async () => {
    const dataDir = scratchDirectory();
    const keyId = newKeyId();
    const text = newKeyText(keyId);
    for (const given of [text, `${text}x`]) {
      const { code, stdout, stderr } = await collector(['keys', name, given, '--data-dir', dataDir]);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).not.toContain(text.slice(17));
    }
  });
});

test('[R-504] a running collector accepts a key as soon as it is made, also while unknown keys are presented', async () => {
  const dataDir = scratchDirectory('data');
  const running = await start(dataDir);
  const send = async (key: string) => {
    const { status, body } = await post(running.port, key, JSON.stringify(outcomeEvent()));
    return status === 201 ? 201 : (JSON.parse(body) as { code: string }).code;
  };
  for (let i = 0; i < 10; i++) {
    const guesses = Array.from({ length: 20 }, () => send(newKeyText(newKeyId())));
    const { text, keyId } = await issueKey(dataDir);
    expect(await Promise.all(Array.from({ length: 4 }, () => send(text)))).toEqual([201, 201, 201, 201]);
    expect(await send(newKeyText(keyId))).toBe('key_invalid');
    expect(new Set(await Promise.all(guesses))).toEqual(new Set(['key_invalid']));
  }
  expect(await running.stop()).toBe(0);
});
