/**
 * The frozen formats (docs/internals/formats.md): small files of each are committed in `vectors`, with their contents. To
 * write them again after an intended change of version: `WRITE_VECTORS=1` in the environment of this test.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { hasPython } from '../../../../test/python.js';
import { accessLines } from '../../src/commands/access-lines.js';
import { certificateIn } from '../../src/commands/lifecycle/certificate.js';
import { readPlan } from '../../src/commands/lifecycle/plan-file.js';
import { AccessLogCheck } from '../../src/commands/verify/access-log-check.js';
import { readState } from '../../src/replica/replica.js';
import { KeyDatabase } from '../../src/store/embedded/key-database.js';
import { openAccessLog } from '../../src/store/open-access-log.js';

const HERE = import.meta.dirname;
const VECTORS = path.join(HERE, 'vectors');
const PAGE = path.join(HERE, '../../../../docs/internals/formats.md');
const PRELOAD = path.join(HERE, '../../../../test/net/preload.mjs');
const NAMES = ['plain', 'encrypted', 'encrypted-suite-2', 'erased', 'compacted'];
const COMPACTED = 'CLINSEGC';

function output(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): string {
  const { status, stdout, stderr } = spawnSync(program, args, {
    ...{ encoding: 'utf8', maxBuffer: 64 << 20, env: { PATH: process.env['PATH'], ...env } },
  });
  expect(status, stderr).toBe(0);
  return stdout;
}

/** Python has Zstandard since version 3.14 only. */
const UNZSTD = `${process.execPath} -e process.stdout.write(zlib.zstdDecompressSync(fs.readFileSync(0)))`;
const decoded = (directory: string, decoder = 'decoder.py'): unknown =>
  JSON.parse(output('python3', ['-B', path.join(HERE, decoder), directory], { UNZSTD }));
const expected = (directory: string): unknown =>
  JSON.parse(fs.readFileSync(path.join(directory, 'expected.json'), 'utf8'));

/** All files of a directory, by name. */
function filesIn(directory: string): Map<string, Buffer> {
  const names = fs.readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort();
  const files = names.filter((name) => fs.statSync(path.join(directory, name)).isFile());
  return new Map(files.map((name) => [name, fs.readFileSync(path.join(directory, name))]));
}

let made: string;

beforeAll(() => {
  made = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-formats-'));
  const clock = path.join(made, 'clock');
  fs.writeFileSync(clock, '0');
  const env = { NET_CLOCK: clock, NET_SEED: 'formats' };
  output(process.execPath, ['--import', PRELOAD, path.join(HERE, 'make-vectors.mjs'), made], env);
  fs.rmSync(clock);
  if (process.env['WRITE_VECTORS'] === undefined) return;
  fs.rmSync(VECTORS, { recursive: true, force: true });
  fs.cpSync(made, VECTORS, { recursive: true });
});

describe.each(NAMES)('[R-2031] the example %s', (name) => {
  test('is written again byte for byte', () => {
    const [committed, now] = [VECTORS, made].map((directory) => filesIn(path.join(directory, name)));
    expect([...(now?.keys() ?? [])]).toEqual([...(committed?.keys() ?? [])]);
    for (const [file, bytes] of committed ?? []) {
      // Another version of Zstandard may pack the same frames otherwise; the decoder reads both.
      if (bytes.toString('latin1', 0, COMPACTED.length) === COMPACTED) continue;
      expect(now?.get(file)?.toString('hex'), file).toBe(bytes.toString('hex'));
    }
  });

  test('is read by the collector', () => {
    const directory = fs.mkdtempSync(path.join(made, 'read-'));
    fs.cpSync(path.join(VECTORS, name), directory, { recursive: true });
    // Git stores no modes, and the collector refuses a key that others may read.
    const kek = path.join(directory, 'keys', 'kek');
    if (fs.existsSync(kek)) fs.chmodSync(kek, 0o600);
    const contents = output(process.execPath, [path.join(HERE, 'contents.mjs'), directory]);
    expect(JSON.parse(contents)).toEqual(expected(directory));
  });

  test.runIf(hasPython)('[R-2031] is read by a decoder that was written from the page alone', () => {
    for (const directory of [VECTORS, made])
      expect(decoded(path.join(directory, name))).toEqual(expected(path.join(directory, name)));
  });
});

describe('[R-2055] plan, certificate, API keys and back-up', () => {
  const KEYS = 'backup/keys.db';

  test('are written again as they were committed', async () => {
    const [committed, now] = [VECTORS, made].map((directory) => filesIn(path.join(directory, 'documents')));
    expect([...(now?.keys() ?? [])]).toEqual([...(committed?.keys() ?? [])]);
    for (const [file, bytes] of committed ?? []) {
      // SQLite writes its own version into its files.
      if (file === KEYS) continue;
      const tool = /"tool": ".*"/;
      expect(String(now?.get(file)).replace(tool, ''), file).toBe(String(bytes).replace(tool, ''));
    }
    expect(await apiKeysIn(path.join(made, 'documents'))).toEqual(
      await apiKeysIn(path.join(VECTORS, 'documents')),
    );
  });

  test.runIf(hasPython)(
    'are read alike by the collector and by a decoder written from the page alone',
    async () => {
      for (const directory of [VECTORS, made].map((each) => path.join(each, 'documents'))) {
        const found = decoded(directory, 'documents.py') as Record<string, unknown>;
        const { plan, sha256, marks } = readPlan(path.join(directory, 'plan.json'));
        expect(found).toMatchObject({
          plan: { ...plan, sha256 },
          marks,
          backup: readState(path.join(directory, 'backup')),
        });
        const file = path.join(directory, 'certificate.json');
        const { log, action, events } = certificateIn(fs.readFileSync(file), file);
        const ids = Map.groupBy(events, ({ organisation }) => organisation);
        const event_ids = Object.fromEntries([...ids].map(([of, each]) => [of, each.map(({ id }) => id)]));
        expect(found).toMatchObject({ certificate: { log, action, event_ids } });
        expect(found).toMatchObject({ keys: await apiKeysIn(directory) });
      }
    },
  );
});

/** The API keys as their rows have them. */
async function apiKeysIn(directory: string): Promise<object[]> {
  const copy = fs.mkdtempSync(path.join(made, 'keys-'));
  fs.copyFileSync(path.join(directory, 'backup/keys.db'), path.join(copy, 'keys.db'));
  const keys = KeyDatabase.openReadOnly(copy);
  const listed = await keys.list();
  await keys.close();
  return listed.map((key) => ({
    ...{ key_id: key.keyId, hash: Buffer.from(key.hash).toString('hex'), organisation: key.organisation },
    permissions: key.permissions === 'all' ? 'all' : key.permissions.join(),
    ...(key.profile && { profile: key.profile }),
    ...(key.rateLimit && { rate_per_second: key.rateLimit.perSecond, rate_burst: key.rateLimit.burst }),
    ...(key.clientCertificate && { client_certificate: key.clientCertificate }),
    ...{ note: key.note, created_at: key.createdAt },
    ...(key.expiresAt && { expires_at: key.expiresAt }),
    ...(key.revokedAt && { revoked_at: key.revokedAt }),
    ...(key.rotatedFrom && { rotated_from: key.rotatedFrom }),
    ...(key.replacedBy && { replaced_by: key.replacedBy }),
  }));
}

describe('[R-2055] the access log', () => {
  const COMMITTED = path.join(VECTORS, 'access-log');
  const bodies = () => fs.readFileSync(path.join(COMMITTED, 'heads.ndjson'), 'utf8').trimEnd().split('\n');

  async function check(heads: readonly string[]) {
    const accessLog = new AccessLogCheck(openAccessLog(COMMITTED));
    for (const [i, body] of heads.entries()) accessLog.head(i + 1, Buffer.from(body));
    return accessLog.finish();
  }

  test('is written again byte for byte', () => {
    expect(filesIn(path.join(made, 'access-log'))).toEqual(filesIn(COMMITTED));
  });

  test('is read and checked by the collector', async () => {
    expect(await check(bodies())).toMatchObject({
      ...{ lines: 5, covered: 5, heads: 3, unended: 1, torn: 0, unchecked: [], findings: [] },
    });
  });

  test('is not checked by a head of another version', async () => {
    const later = bodies().map((body) => body.replace('/v1"', '/v2"'));
    const message = expect.stringContaining('is an access-log head of an unknown version') as string;
    const findings = [1, 2, 3].map((sequence) => ({
      ...{ kind: 'unreadable', sequence, file: 'access.log', message },
    }));
    expect(await check(later)).toMatchObject({ covered: 0, heads: 0, findings });
  });

  test.runIf(hasPython)('is read alike by a decoder that was written from the page alone', async () => {
    const lines: unknown[] = [];
    for await (const line of accessLines(COMMITTED)) lines.push(line);
    expect(decoded(COMMITTED, 'access_log.py')).toEqual({
      'access.log': { lines: lines.slice(0, 3), covered: 3, closed: true },
      'access-2027.log': { lines: lines.slice(3), covered: 2, closed: false },
    });
  });

  test.runIf(hasPython).each<[string, string, string, string]>([
    ['a changed line', 'access-2027.log', '"events":214', '"events":215'],
    ['a lost line', 'access.log', '\n{"at":"2026-12-31', '{"at":"2026-12-31'],
    ['another version', 'heads.ndjson', 'head/v1', 'head/v2'],
    ['a moved member', 'heads.ndjson', '"file":"access.log","lines":3', '"lines":3,"file":"access.log"'],
  ])('is refused by this decoder with %s', (_what, file, from, to) => {
    const copy = fs.mkdtempSync(path.join(made, 'changed-'));
    fs.cpSync(COMMITTED, copy, { recursive: true });
    const text = fs.readFileSync(path.join(copy, file), 'utf8');
    expect(text).toContain(from);
    fs.writeFileSync(path.join(copy, file), text.replace(from, to));
    expect(() => decoded(copy, 'access_log.py')).toThrow('Damaged');
  });
});

test('[R-2031] the examples of the page are bytes of the committed files', () => {
  const page = fs.readFileSync(PAGE, 'utf8');
  const examples = [...page.matchAll(/`([\w./-]+)`, bytes (\d+) to (\d+):\n\n((?: {4}.*\n)+)/g)];
  expect(examples.length).toBeGreaterThan(5);
  for (const [, file = '', from, to, lines = ''] of examples) {
    const bytes = fs.readFileSync(path.join(VECTORS, file)).subarray(Number(from), Number(to) + 1);
    const hex = lines.replaceAll(/^ {4}((?:[0-9a-f]{2} ?)*).*\n/gm, '$1').replaceAll(' ', '');
    expect(hex, `${file} from ${from}`).toBe(bytes.toString('hex'));
  }
});
