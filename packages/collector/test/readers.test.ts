import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { applyReadGroup, readGroupOf } from '../src/commands/read-group.js';
import { createDurably, makeFile, nodeFiles, replaceNow } from '../src/files.js';
import { exposureOf } from '../src/store/directory-lock.js';
import { writeBackupNote, writeMirrorNote } from '../src/tree/state-files.js';

const GROUP = String(process.getegid?.() ?? 0);

let dataDir: string;

beforeEach(() => {
  dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'readers-'));
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

const settings = (readGroup: string) =>
  ({ dataDir, readGroup, encryption: 'off', encryptionKeys: '', kek: '' }) as const;
const inData = (...names: readonly string[]) => path.join(dataDir, ...names);
const modeOf = (...names: readonly string[]) => (fs.statSync(inData(...names)).mode & 0o7777).toString(8);

/** Creates a file of each kind by each function that creates files. */
async function fill(): Promise<void> {
  for (const name of ['lock', 'keys.db', 'kek']) makeFile(inData(name));
  for (const name of ['ledger', 'ledger/torn', 'checkpoints', 'lifecycle/holds', 'lifecycle/inbox'])
    nodeFiles.makeDirectory(inData(name));
  nodeFiles.makeDirectory(inData('signing-keys'));
  await nodeFiles.createZeroed(inData('ledger', '1.segment'), 10);
  makeFile(inData('ledger', 'torn', '1.torn'));
  await nodeFiles.replace(inData('lifecycle', 'holds', 'a.json'), Buffer.from('{}'));
  await nodeFiles.replace(inData('lifecycle', 'inbox', 'a.json'), Buffer.from('{}'));
  await nodeFiles.replace(inData('encryption-keys.json'), Buffer.from('{}'));
  replaceNow(nodeFiles, inData('encryption-keys', 'names.keys'), Buffer.from('names'));
  replaceNow(nodeFiles, inData('encryption-keys', 'kek'), Buffer.from('kek'));
  replaceNow(nodeFiles, inData('encryption-keys', 'buckets', '1.keys'), Buffer.from('keys'));
  createDurably(inData('checkpoints', 'origin.vkey'), 'key');
  createDurably(inData('signing-keys', 'a.key'), 'key');
  writeBackupNote(dataDir, { at: new Date(0).toISOString(), events: 1 });
  const note = { store: 'postgres://log', ledger_id: 'a', forwarded: 0, id: 'a', followed: 0 };
  writeMirrorNote(dataDir, note);
}

const OPEN = {
  '': '2710',
  lock: '640',
  'keys.db': '600',
  kek: '600',
  ledger: '2750',
  'ledger/1.segment': '640',
  'ledger/torn/1.torn': '600',
  checkpoints: '2750',
  'checkpoints/origin.vkey': '640',
  'checkpoints/mirror.json': '640',
  'checkpoints/backup.json': '600',
  lifecycle: '2710',
  'lifecycle/holds': '2750',
  'lifecycle/holds/a.json': '640',
  'lifecycle/inbox/a.json': '600',
  'encryption-keys.json': '640',
  'encryption-keys': '2710',
  'encryption-keys/names.keys': '640',
  'encryption-keys/kek': '600',
  'encryption-keys/buckets': '2750',
  'encryption-keys/buckets/1.keys': '640',
  'signing-keys/a.key': '600',
};
const found = () => Object.fromEntries(Object.keys(OPEN).map((name) => [name, modeOf(name)]));

describe('[R-2045] files for readers', () => {
  test.each([0o077, 0])(
    'are open to the group when they are created, whatever the umask (%i)',
    async (mask) => {
      const before = process.umask(mask);
      onTestFinished(() => void process.umask(before));
      applyReadGroup(settings(GROUP));
      await fill();
      expect(found()).toEqual(OPEN);
      for (const name of ['ledger/torn', 'lifecycle/inbox', 'signing-keys'])
        expect(fs.statSync(inData(name)).mode & 0o777).toBe(0o700);
      expect([readGroupOf(dataDir) !== undefined, exposureOf(dataDir)]).toEqual([true, undefined]);
    },
  );

  test('are opened if they exist, and private again without the option', async () => {
    await fill();
    const isPrivate = () => {
      const modes = Object.keys(OPEN).map((name) => fs.statSync(inData(name)));
      expect(modes.map((stat) => stat.mode & 0o7777)).toEqual(
        modes.map((stat) => (stat.isDirectory() ? 0o700 : 0o600)),
      );
    };
    isPrivate();
    applyReadGroup(settings(GROUP));
    expect(found()).toEqual(OPEN);
    applyReadGroup(settings(''));
    isPrivate();
    expect(readGroupOf(dataDir)).toBeUndefined();
  });

  test('are private again if systemd has reset the mode of the data directory', async () => {
    applyReadGroup(settings(GROUP));
    await fill();
    fs.chmodSync(dataDir, 0o700);
    applyReadGroup(settings(''));
    expect([modeOf('ledger'), modeOf('ledger/1.segment'), modeOf('lock')]).toEqual(['700', '600', '600']);
  });

  test('a group that was given rights by hand keeps them without the option', () => {
    fs.chmodSync(dataDir, 0o750);
    makeFile(inData('lock'));
    fs.chmodSync(inData('lock'), 0o640);
    applyReadGroup(settings(''));
    expect([modeOf(''), modeOf('lock')]).toEqual(['750', '640']);
    expect(exposureOf(dataDir)).toContain('can be entered by other users');
  });

  test('other rights of the group on files are removed', async () => {
    await fill();
    fs.chmodSync(inData('keys.db'), 0o660);
    fs.chmodSync(inData('signing-keys'), 0o750);
    applyReadGroup(settings(GROUP));
    expect([modeOf('keys.db'), modeOf('signing-keys')]).toEqual(['600', '700']);
  });

  test('a link is neither opened nor followed', () => {
    const other = path.join(dataDir, 'other');
    fs.writeFileSync(other, '', { mode: 0o600 });
    fs.symlinkSync(other, inData('encryption-keys.json'));
    applyReadGroup(settings(GROUP));
    expect(modeOf('other')).toBe('600');
  });

  test('a shared directory of other users is not taken for an open one', () => {
    const shared = path.join(dataDir, 'ledger');
    fs.mkdirSync(shared);
    fs.chmodSync(shared, 0o2775);
    createDurably(path.join(shared, 'plan.json'), 'plan');
    expect(modeOf('ledger/plan.json')).toBe('600');
  });
});
