import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createKey, temporaryDirectory } from '../running/collector-process.js';
import { runWithoutPrivilege } from '../running/restricted-process.js';
import { candidate } from '../store/candidate.js';
import { fillDirectory, segmentPaths } from '../store/embedded/filled-directory.js';

let dataDir: string;

beforeEach(async () => {
  dataDir = temporaryDirectory();
  onTestFinished(() => {
    fs.chmodSync(dataDir, 0o700);
    fs.rmSync(dataDir, { recursive: true, force: true });
  });
  await fillDirectory(dataDir, [[candidate({ body: {} })]]);
  await createKey(dataDir);
});

test.each([
  'doctor',
  'events',
  'keys list',
  'keys create --permissions all',
  'keys revoke aaaaaaaaaaaa',
  'serve --port 0',
])('"collector %s" names the path that is denied, and ends with 1', async (command) => {
  fs.chmodSync(dataDir, 0);
  const { code, stdout, stderr } = await runWithoutPrivilege([...command.split(' '), '--data-dir', dataDir]);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^collector: permission denied: [^\n]*\n$/);
  expect(stderr).toContain(`denied: ${dataDir}${path.sep}`);
});

describe('in a directory that may be entered', () => {
  beforeEach(() => {
    fs.chmodSync(dataDir, 0o755);
  });

  test('doctor and keys list name the keys that they may not read', async () => {
    fs.chmodSync(path.join(dataDir, 'ledger'), 0o755);
    fs.chmodSync(path.join(dataDir, 'index'), 0o755);
    fs.chmodSync(path.join(dataDir, 'keys.db'), 0);
    for (const args of [['doctor'], ['keys', 'list']]) {
      expect(await runWithoutPrivilege([...args, '--data-dir', dataDir])).toEqual({
        ...{ code: 1, stdout: '' },
        stderr: `collector: permission denied: ${path.join(dataDir, 'keys.db')}\n`,
      });
    }
  });

  test('doctor names the segment that it may not read', async () => {
    for (const name of fs.readdirSync(dataDir, { recursive: true, encoding: 'utf8' })) {
      fs.chmodSync(path.join(dataDir, name), 0o755);
    }
    const [segment = ''] = segmentPaths(dataDir);
    fs.chmodSync(segment, 0);
    expect(await runWithoutPrivilege(['doctor', '--data-dir', dataDir])).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: `collector: permission denied: ${segment}\n`,
    });
  });

  test('events prints nothing if it may not write the access log', async () => {
    fs.chmodSync(path.join(dataDir, 'ledger'), 0o755);
    for (const segment of segmentPaths(dataDir)) fs.chmodSync(segment, 0o644);
    fs.chmodSync(dataDir, 0o555);
    const { code, stdout, stderr } = await runWithoutPrivilege(['events', '--data-dir', dataDir]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      `collector: permission denied: ${path.join(dataDir, 'access.log')}; nothing is read unless it is logged there\n`,
    );
  });
});
