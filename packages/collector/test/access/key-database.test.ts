import {
  copyFileSync,
  openSync,
  closeSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { EVENT_KINDS, PROFILES } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createKey } from '../../src/access/issuing.js';
import { KeyDatabase, keyDatabasePath } from '../../src/store/embedded/key-database.js';
import { type ApiKey, KeyStoreError } from '../../src/store/contract/keys.js';
import { openKeys, scratchDirectory } from './scratch-keys.js';

const NOW = Date.UTC(2026, 0, 1);

test('the directory and the file are for their owner only, also the log beside the file', async () => {
  const dataDir = scratchDirectory('data');
  const keys = openKeys(dataDir);
  await createKey(keys, { organisation: 'o', permissions: 'all' }, NOW);
  expect(statSync(dataDir).mode & 0o777).toBe(0o700);
  for (const file of ['keys.db', 'keys.db-wal', 'keys.db-shm']) {
    expect(statSync(path.join(dataDir, file)).mode & 0o777, file).toBe(0o600);
  }
});

test('[R-502] the secret is not in the file', async () => {
  const dataDir = scratchDirectory();
  const keys = openKeys(dataDir);
  const { text } = await createKey(keys, { organisation: 'o', permissions: 'all' }, NOW);
  await keys.close();
  expect(readFileSync(keyDatabasePath(dataDir)).includes(text.slice(17))).toBe(false);
});

test('commits are flushed: WAL mode with synchronous FULL', () => {
  const dataDir = scratchDirectory();
  openKeys(dataDir);
  const other = new DatabaseSync(keyDatabasePath(dataDir));
  expect(other.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
  other.close();
});

test('every row that can be written is read back the same, in the order of creation', async () => {
  const instant = fc.option(fc.integer({ min: 1, max: 253_402_300_799_999 }), { nil: undefined });
  const row = fc.record<ApiKey>({
    keyId: fc.stringMatching(/^[a-z2-7]{12}$/),
    hash: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    organisation: fc.stringMatching(/^[A-Za-z0-9._-]{1,64}$/),
    permissions: fc.oneof(fc.constant('all' as const), fc.subarray([...EVENT_KINDS], { minLength: 1 })),
    profile: fc.option(fc.constantFrom(...PROFILES), { nil: undefined }),
    rateLimit: fc.option(
      fc.record({
        perSecond: fc.double({ min: 0.001, max: 1e6, noNaN: true }),
        burst: fc.integer({ min: 1, max: 1e6 }),
      }),
      { nil: undefined },
    ),
    clientCertificate: fc.option(fc.constantFrom('dns:app.example.org', 'uri:spiffe://example.org/app'), {
      nil: undefined,
    }),
    note: fc.string({ unit: 'grapheme', maxLength: 200 }),
    createdAt: fc.integer({ min: 0, max: 253_402_300_799_999 }),
    expiresAt: instant,
    revokedAt: instant,
    rotatedFrom: fc.constant(undefined),
    replacedBy: fc.constant(undefined),
  });
  const rows = fc.uniqueArray(row, { selector: ({ keyId }) => keyId, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(rows, async (written) => {
      const keys = KeyDatabase.open(scratchDirectory());
      for (const each of written) await keys.insert(each);
      expect(await keys.list()).toEqual(written);
      await keys.close();
    }),
    { numRuns: 20 },
  );
});

test.each([
  ['with an application id and no schema', 'PRAGMA application_id = 7'],
  ['from before version 1', 'CREATE TABLE api_key (key_id TEXT); PRAGMA user_version = 2'],
])('[R-2055] a file %s is refused in one sentence and not changed', (_, made) => {
  const dataDir = scratchDirectory();
  const database = new DatabaseSync(keyDatabasePath(dataDir));
  database.exec(made);
  database.close();
  const before = readFileSync(keyDatabasePath(dataDir));
  for (const open of ['open', 'openReadOnly'] as const)
    expect(() => KeyDatabase[open](dataDir)).toThrow(
      /keys\.db cannot be used: it was written before version 1 of its format/,
    );
  expect(readFileSync(keyDatabasePath(dataDir))).toEqual(before);
});

test('revoking again keeps the first instant, and revoking an unknown key says so', async () => {
  const keys = openKeys();
  const { key } = await createKey(keys, { organisation: 'o', permissions: 'all' }, NOW);
  expect([await keys.revoke(key.keyId, NOW + 1), await keys.revoke(key.keyId, NOW + 2)]).toEqual([
    true,
    true,
  ]);
  expect(await keys.list()).toMatchObject([{ revokedAt: NOW + 1 }]);
  expect(await keys.revoke('aaaaaaaaaaaa', NOW)).toBe(false);
});

test('the version changes with every write, by this process or another, and only then', async () => {
  const dataDir = scratchDirectory();
  const [mine, theirs] = [openKeys(dataDir), openKeys(dataDir)];
  const versions = [await mine.version(), await mine.version()];
  expect(versions[0]).toBe(versions[1]);
  await createKey(theirs, { organisation: 'o', permissions: 'all' }, NOW);
  versions.push(await mine.version());
  await createKey(mine, { organisation: 'o', permissions: 'all' }, NOW);
  versions.push(await mine.version());
  expect(new Set(versions).size).toBe(3);
});

test('a write that fails changes nothing', async () => {
  const keys = openKeys();
  const { key } = await createKey(keys, { organisation: 'o', permissions: 'all' }, NOW);
  await expect(keys.insert(key)).rejects.toThrow(KeyStoreError);
  const successor = { ...key, rotatedFrom: key.keyId };
  await expect(keys.rotate(successor, NOW, NOW)).rejects.toThrow(KeyStoreError);
  expect(await keys.list()).toEqual([{ ...key, hash: new Uint8Array(key.hash) }]);
});

describe('a file that cannot be used is reported by name', () => {
  test('when it is no database', () => {
    const dataDir = scratchDirectory();
    writeFileSync(keyDatabasePath(dataDir), 'not a database'.repeat(1000));
    expect(() => KeyDatabase.open(dataDir)).toThrow(
      /keys in .*keys\.db cannot be used: file is not a database/,
    );
  });

  test('when a page of it was overwritten', async () => {
    const dataDir = scratchDirectory();
    const keys = openKeys(dataDir);
    for (let i = 0; i < 100; i++) await createKey(keys, { organisation: 'o', permissions: 'all' }, NOW);
    await keys.close();
    const descriptor = openSync(keyDatabasePath(dataDir), 'r+');
    const size = statSync(keyDatabasePath(dataDir)).size;
    for (let page = 4096; page < size; page += 4096)
      writeSync(descriptor, Buffer.alloc(64, 0xa5), 0, 64, page);
    closeSync(descriptor);
    await expect((async () => openKeys(dataDir).list())()).rejects.toThrow(
      /keys\.db cannot be used: .*malformed/,
    );
  });

  test('when a newer collector wrote it', () => {
    const dataDir = scratchDirectory();
    const database = new DatabaseSync(keyDatabasePath(dataDir));
    database.exec('PRAGMA application_id = 0x434c4b59; PRAGMA user_version = 99');
    database.close();
    expect(() => KeyDatabase.open(dataDir)).toThrow(/newer collector \(schema 99/);
  });

  test('when it has a permission that this collector does not know', async () => {
    const dataDir = scratchDirectory();
    const keys = openKeys(dataDir);
    await createKey(keys, { organisation: 'o', permissions: 'all' }, NOW);
    const database = new DatabaseSync(keyDatabasePath(dataDir));
    database.exec("UPDATE api_key SET permissions = 'outcome,telepathy'");
    database.close();
    await expect(keys.list()).rejects.toThrow(/"telepathy", which this collector does not know/);
  });

  test('when it was replaced while it was open', async () => {
    const dataDir = scratchDirectory();
    const keys = openKeys(dataDir);
    const file = keyDatabasePath(dataDir);
    copyFileSync(file, `${file}.backup`);
    renameSync(`${file}.backup`, file);
    await expect(keys.version()).rejects.toThrow(/was replaced while it was open/);
  });
});
