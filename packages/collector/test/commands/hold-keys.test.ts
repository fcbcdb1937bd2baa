/** Holds and names that end: a released hold names no one, and no old copy lists what was erased. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { holdsOf } from '../../src/commands/lifecycle/holds.js';
import { Actions } from '../../src/privacy/actions.js';
import { openStore } from '../../src/store/open-to-read.js';
import { createKey, run, start, storedEvents, type Running } from '../running/collector-process.js';
import { applied, mark, planIn, planned } from '../running/erasing.js';
import { post } from '../running/load.js';
import { sampleEvent } from '../running/sample-events.js';
import { copyOf, scratch } from '../running/scratch.js';

const SUBJECT = 'patient-zwiebelkuchen-ß';
const OTHER = 'patient-pflaumenmus';

let root: string;
let dataDir: string;
let subjects: string;
let directories: string[];
let key: string;
let collector: Running;

beforeEach(async () => {
  root = scratch();
  dataDir = path.join(root, 'data');
  subjects = path.join(root, 'subject.txt');
  fs.writeFileSync(subjects, `${SUBJECT}\n`);
  directories = ['keys', 'mirror'].map((name) => path.join(root, name));
  for (const directory of directories) fs.mkdirSync(directory);
  key = await createKey(dataDir);
  collector = await start(dataDir, ['--encryption-keys', directories.join()]);
  onTestFinished(() => collector.kill());
});

const on = (...args: readonly string[]) => run([...args, '--data-dir', dataDir]);

async function done(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await on(...args);
  expect(code, stdout + stderr).toBe(0);
  return stdout;
}

/** A start. @returns the id of its run. */
async function begin(target: string): Promise<string> {
  const event = sampleEvent('inference-start', {
    target_identity: { target_id: target, target_type: 'patient' },
  });
  const { status, body } = await post(collector.port, key, JSON.stringify(event), {
    kind: 'inference-start',
  });
  expect(status, body).toBe(201);
  return event.event_id;
}

async function erase(...asked: readonly string[]): Promise<void> {
  const { file, code, stderr } = await planned(['--data-dir', dataDir], asked);
  expect(code, stderr).toBe(0);
  const erased = await applied(['--data-dir', dataDir], file);
  expect(erased.code, erased.stderr).toBe(0);
}

/** The files below some directories that have one of these texts. */
function named(texts: readonly string[], ...below: readonly string[]): string[] {
  return below.flatMap((directory) =>
    fs
      .readdirSync(directory, { recursive: true, encoding: 'utf8' })
      .map((name) => path.join(directory, name))
      .filter((file) => fs.statSync(file).isFile())
      .filter((file) => texts.some((text) => fs.readFileSync(file).includes(text)))
      .map((file) => path.basename(file)),
  );
}

/** Opens the holds of a directory by its keys, as a reading program does. */
function holdsIn(directory: string) {
  const { events: log } = openStore(directory);
  return holdsOf(directory, log.actions?.() ?? new Actions(), log);
}

/** An older state of the data directory, beside these directories of keys. */
function withKeysIn(data: string, keys: readonly string[]): string {
  const file = path.join(data, 'encryption-keys.json');
  const note = JSON.parse(fs.readFileSync(file, 'utf8')) as object;
  fs.writeFileSync(file, JSON.stringify({ ...note, directories: keys }));
  return data;
}

describe('[R-1342] the record of a hold', () => {
  test('[R-1342] has its own key: the hold survives an erasure and a rotation, and covers later events', async () => {
    const other = await begin(OTHER);
    await done('hold', 'add', 'CASE-4711', '--subject-file', subjects);
    expect(named([SUBJECT, 'CASE-4711'], path.join(dataDir, 'lifecycle'), ...directories)).toEqual([]);
    expect(await done('hold', 'list')).toMatch(/CASE-4711.*a subject \(1 id\)/);
    await done('encryption-keys', 'rotate');
    await erase('--run', other);
    const later = await begin(SUBJECT);
    const { file } = await planned(['--data-dir', dataDir], ['--run', later]);
    expect(planIn(file).events.map(({ blocked }) => blocked)).toMatchObject([
      [{ by: 'hold', name: 'CASE-4711' }],
    ]);
    mark(file, () => true);
    expect((await applied(['--data-dir', dataDir], file)).code).toBe(10);
    expect(await done('hold', 'list', '--json')).toContain('"subjects":1');
  });

  test('[R-1342] cannot be opened once the hold is released, not even in an old copy with the keys of today', async () => {
    await begin(SUBJECT);
    const run = await begin(OTHER);
    await done('hold', 'add', 'CASE-4711', '--subject-file', subjects, '--run', run);
    const [held] = holdsIn(dataDir);
    expect(held).toMatchObject({ name: 'CASE-4711', subjects: [SUBJECT], runs: [run] });
    await collector.stop();
    const [oldData = '', oldKeys = '', oldMirror = ''] = [dataDir, ...directories].map(copyOf);
    collector = await start(dataDir);
    await done('hold', 'release', 'CASE-4711');
    expect(fs.readdirSync(path.join(dataDir, 'lifecycle', 'holds'))).toEqual([]);
    expect(await on('hold', 'list')).toMatchObject({ code: 0, stdout: '' });
    await collector.stop();
    expect(() => holdsIn(withKeysIn(copyOf(oldData), directories))).toThrow(/cannot be decrypted/);
    // A key that one directory has destroyed counts as destroyed.
    expect(() => holdsIn(withKeysIn(copyOf(oldData), [oldKeys, ...directories.slice(1)]))).toThrow(
      /cannot be decrypted/,
    );
    expect(holdsIn(withKeysIn(oldData, [oldKeys, oldMirror]))).toHaveLength(1);
    expect((await on('verify')).code).toBe(0);
  });

  test('[R-1342] is fully released by the next start, if a directory of keys was missing', async () => {
    const [, mirror = ''] = directories;
    await done('hold', 'add', 'CASE-4711', '--subject-file', subjects);
    const oldData = copyOf(dataDir);
    fs.renameSync(mirror, `${mirror}-away`);
    const { code, stderr } = await on('hold', 'release', 'CASE-4711');
    expect([code, stderr]).toEqual([9, expect.stringContaining('cannot be reached')]);
    const listed = async () => (await done('erase', '--list')).trim().split('\n').at(-1);
    expect(await listed()).toMatch(/ release .* pending$/);
    expect(holdsIn(withKeysIn(copyOf(oldData), [`${mirror}-away`]))).toHaveLength(1);
    await collector.stop();
    fs.renameSync(`${mirror}-away`, mirror);
    collector = await start(dataDir);
    await expect
      .poll(() => {
        try {
          return holdsIn(withKeysIn(copyOf(oldData), [mirror])).length;
        } catch (error) {
          return (error as Error).message;
        }
      })
      .toMatch(/cannot be decrypted/);
    await expect.poll(listed).toMatch(/ release .* done$/);
  });
});

describe('[R-1338] names', () => {
  test('[R-1336] of erased runs can be opened only with an old copy of both data and keys', async () => {
    const [his, other] = [await begin(SUBJECT), await begin(OTHER)];
    expect(await done('runs')).toContain(SUBJECT);
    await collector.stop();
    const [oldData = '', oldKeys = '', oldMirror = ''] = [dataDir, ...directories].map(copyOf);
    collector = await start(dataDir);
    await erase('--run', his);
    expect(await done('runs')).not.toContain(SUBJECT);
    expect(await done('runs')).toContain(OTHER);
    await collector.stop();

    const listed = async (data: string, keys: readonly string[]) => {
      const copy = withKeysIn(copyOf(data), keys);
      const { stdout } = await run(['runs', '--data-dir', copy]);
      const sealed = openStore(copy).events;
      const bytes = fs.readFileSync(path.join(copy, 'catalogue', 'catalogue.sqlite'));
      const isSealed = bytes.includes(sealed.names?.seal(SUBJECT) ?? SUBJECT);
      const bodies = (await storedEvents(copy)).filter(({ body }) => typeof body === 'string');
      return {
        isNamed: stdout.includes(SUBJECT) || isSealed,
        isRead: bodies.some(({ event_id: id }) => id === his),
      };
    };
    const nothing = { isNamed: false, isRead: false };
    expect(await listed(oldData, directories), 'old data, keys of today').toEqual(nothing);
    expect(await listed(dataDir, [oldKeys, oldMirror]), 'old keys, data of today').toEqual(nothing);
    expect(await listed(oldData, [oldKeys, ...directories.slice(1)]), 'both old, a mirror of today').toEqual(
      nothing,
    );
    expect(await listed(oldData, [oldKeys, oldMirror]), 'a whole old copy').toEqual({
      isNamed: true,
      isRead: true,
    });
    expect(other).not.toBe(his);
  });

  test('get another key with each rotation, and are listed as before', async () => {
    await begin(SUBJECT);
    const id = () => openStore(dataDir).events.names?.id;
    await done('runs');
    const first = id();
    await done('encryption-keys', 'rotate');
    const second = id();
    expect(second).not.toBe(first);
    expect(await done('runs')).toContain(SUBJECT);
  });
});
