import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { exposureOf } from '../../src/store/directory-lock.js';
import {
  beside,
  createKey,
  keyFrom,
  outcomeEvent,
  run,
  start,
  storedEvents,
  temporaryDirectory,
} from '../running/collector-process.js';
import { erased } from '../running/erasing.js';
import { post } from '../running/load.js';
import { sampleEvent } from '../running/sample-events.js';

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
  const key = await keyFrom(collector);
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

/** All of a directory and of what is below it, by its path there. */
function everythingIn(directory: string): string[] {
  const names = fs.readdirSync(directory, { recursive: true, encoding: 'utf8' });
  return [directory, ...names.map((name) => path.join(directory, name))];
}

test.runIf(process.getuid?.() === 0)(
  '[R-615] what root writes in the directories of another user belongs to that user, and no link is followed',
  async () => {
    const scratch = temporaryDirectory();
    onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
    const [dataDir, keys, secret] = ['data', 'keys', 'secret'].map((name) => path.join(scratch, name)) as [
      string,
      string,
      string,
    ];
    for (const directory of [dataDir, keys]) fs.mkdirSync(directory, { mode: 0o700 });
    fs.writeFileSync(secret, 'of root');
    const on = (...args: readonly string[]) => run([...args, '--data-dir', dataDir]);
    const key = await createKey(dataDir);
    const collector = await start(dataDir, ['--encryption-keys', keys]);
    onTestFinished(() => collector.kill());
    const event = sampleEvent('inference-start');
    for (const each of [event, sampleEvent('inference-start')])
      expect(
        (await post(collector.port, key, JSON.stringify(each), { kind: 'inference-start' })).status,
      ).toBe(201);
    expect(await collector.stop()).toBe(0);
    fs.rmSync(path.join(dataDir, 'keys.db'));
    const [user, group] = [4711, 4712];
    for (const file of [dataDir, keys].flatMap(everythingIn)) fs.chownSync(file, user, group);
    for (const name of ['latest.draft', 'verify.json.unfinished'])
      fs.symlinkSync(secret, path.join(dataDir, 'checkpoints', name));

    const commands = [
      ['runs'],
      ['hold', 'add', 'trial', '--run', event.event_id],
      ['encryption-keys', 'rotate'],
      ['verify', '--note'],
      ['backup', path.join(scratch, 'backups'), '--keys-elsewhere'],
    ];
    await createKey(dataDir);
    await beside(dataDir, async () => {
      for (const command of commands) {
        const { code, stderr } = await on(...command);
        expect(code, `${command.join(' ')}: ${stderr}`).toBe(0);
      }
      expect((await on('hold', 'release', 'trial')).code).toBe(0);
      const { code, stderr } = await erased(['--data-dir', dataDir], ['--run', event.event_id]);
      expect(code, stderr).toBe(0);
    });
    await (await start(dataDir)).stop();

    const ofOthers = [dataDir, keys].flatMap(everythingIn).filter((file) => {
      const { uid, gid } = fs.lstatSync(file);
      return uid !== user || gid !== group;
    });
    expect(ofOthers).toEqual([]);
    expect([fs.readFileSync(secret, 'utf8'), fs.statSync(secret).uid]).toEqual(['of root', 0]);
  },
);

test('a directory that others can enter is reported, and one that they cannot enter is not', () => {
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
