import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { exposureOf } from '../../src/store/embedded/directory-lock.js';
import { outcomeEvent, start, storedEvents, temporaryDirectory } from '../running/collector-process.js';
import { post } from '../running/load.js';

/** Node's threads cannot set a umask, and inherit what is preloaded. */
const OPEN = `data:text/javascript,${encodeURIComponent(
  "import { isMainThread } from 'node:worker_threads'; if (isMainThread) process.umask(0);",
)}`;

test('everything in the data directory is for its owner alone, whatever the umask', async () => {
  const scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
  const dataDir = path.join(scratch, 'data');
  const collector = await start(dataDir, [], ['--import', OPEN]);
  onTestFinished(() => collector.kill());
  await expect.poll(() => collector.output.stdout).toContain('cek_');
  const [key = ''] = /cek_[\w-]+/.exec(collector.output.stdout) ?? [];
  expect((await post(collector.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
  await storedEvents(dataDir);
  const modes = new Map<string, string>();
  const look = () => {
    const entries = fs.readdirSync(dataDir, { recursive: true, withFileTypes: true });
    for (const entry of entries) {
      const file = path.join(entry.parentPath, entry.name);
      const mode = (fs.statSync(file).mode & 0o777).toString(8);
      modes.set(path.relative(dataDir, file), `${entry.isDirectory() ? 'directory' : 'file'} ${mode}`);
    }
  };
  look();
  // The runs of the index are written at the end.
  expect(await collector.stop()).toBe(0);
  look();
  expect([...modes].filter(([, mode]) => !['directory 700', 'file 600'].includes(mode))).toEqual([]);
  const names = [...modes.keys()];
  expect(names).toEqual(
    expect.arrayContaining([
      'lock',
      'index',
      'ledger',
      'keys.db',
      'keys.db-wal',
      'keys.db-shm',
      'access.log',
    ]),
  );
  expect(names.filter((name) => name.endsWith('.run'))).toHaveLength(1);
  expect(fs.statSync(dataDir).mode & 0o777).toBe(0o700);
});

test('a directory that others can enter is told of, and one that they cannot is not', () => {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  expect(exposureOf(dataDir)).toBeUndefined();
  for (const mode of [0o755, 0o750, 0o701]) {
    fs.chmodSync(dataDir, mode);
    expect(exposureOf(dataDir)).toBe(
      `${dataDir} can be entered by other users; it holds patient data: chmod 700`,
    );
  }
});
