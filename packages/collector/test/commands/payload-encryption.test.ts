/** Where a start finds the keys of payloads: in the noted directories, or moved to those that it names. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { encryptionOf } from '../../src/commands/payload-encryption.js';
import { nodeFiles } from '../../src/files.js';
import { readKeys } from '../../src/privacy/key-directories.js';
import { KeysUnfit } from '../../src/privacy/key-vault.js';
import type { EventKey, PayloadKeys } from '../../src/privacy/payload-keys.js';
import { defaultKeys, readKeyPlaces } from '../../src/store/key-places.js';
import { temporaryDirectory } from '../running/collector-process.js';

const LEDGER = 'ab'.repeat(16);
let dataDir: string;
let safe: string;
let mirror: string;

beforeEach(() => {
  const root = temporaryDirectory();
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }));
  [dataDir, safe, mirror] = ['data', 'safe', 'mirror'].map((name) => path.join(root, name)) as [
    string,
    string,
    string,
  ];
  for (const directory of [dataDir, safe, mirror]) fs.mkdirSync(directory);
});

async function start(...directories: readonly string[]): Promise<PayloadKeys> {
  const settings = { dataDir, encryption: 'on', encryptionKeys: directories.join(), kek: '' } as const;
  const keys = await encryptionOf(settings, () => undefined).openKeys(LEDGER, false, true);
  if (keys === undefined) throw new Error('there are no keys');
  return keys;
}

async function filled(...directories: readonly string[]): Promise<EventKey> {
  const keys = await start(...directories);
  const key = keys.keyFor('icu', 1);
  await keys.flush();
  return key;
}

/** Each directory of the note has the key. */
function expectThere({ tag, key }: EventKey): void {
  for (const directory of readKeyPlaces(dataDir).directories)
    expect(readKeys({ directories: [directory], kek: '' })?.keyOf(tag, 'icu', 1)).toBe(key);
}

describe('[R-1996] the keys of payloads', () => {
  test('move from the default place to the directories that a start names, and none is left behind', async () => {
    const key = await filled();
    await start(safe, mirror);
    expect(readKeyPlaces(dataDir)).toEqual({ directories: [safe, mirror], kek: '', leftOut: [] });
    expectThere(key);
    expect(fs.existsSync(defaultKeys(dataDir))).toBe(false);
    await start();
    expectThere(key);
  });

  test('are not lost if their move is cut off at any write, and the next start finishes it', async () => {
    const key = await filled();
    const CALLS = ['write', 'datasync', 'rename', 'remove', 'syncDirectory', 'replace'] as const;
    for (const directory of [dataDir, safe, mirror])
      fs.cpSync(directory, `${directory}.old`, { recursive: true });
    for (let step = 1; ; step++) {
      for (const directory of [dataDir, safe, mirror]) {
        fs.rmSync(directory, { recursive: true });
        fs.cpSync(`${directory}.old`, directory, { recursive: true });
      }
      let steps = 0;
      for (const call of CALLS) {
        const real = nodeFiles[call].bind(nodeFiles) as (...args: unknown[]) => unknown;
        vi.spyOn(nodeFiles, call).mockImplementation((...args: unknown[]) => {
          if (++steps >= step) throw new Error('killed');
          return real(...args);
        });
      }
      await start(safe, mirror).catch(() => undefined);
      vi.restoreAllMocks();
      expectThere(key);
      // Also by a start that names no directory.
      await start();
      expectThere(key);
      await start(safe, mirror);
      expectThere(key);
      expect(readKeyPlaces(dataDir).directories).toEqual([safe, mirror]);
      expect(fs.existsSync(defaultKeys(dataDir))).toBe(false);
      if (steps < step) break;
    }
  });

  test('do not move to a directory that does not exist, or that had keys and has none', async () => {
    const key = await filled();
    await expect(start(path.join(safe, 'none'))).rejects.toThrow(KeysUnfit);
    expectThere(key);
    await start(safe);
    fs.renameSync(safe, `${safe}.away`);
    fs.mkdirSync(safe);
    await expect(start(safe)).rejects.toThrow(KeysUnfit);
    expect(fs.readdirSync(safe)).toEqual([]);
  });

  test('stay in a directory elsewhere that a start leaves out, and the note names it', async () => {
    const key = await filled(safe, mirror);
    await start(safe);
    expectThere(key);
    expect(readKeyPlaces(dataDir).leftOut?.map(({ directory }) => directory)).toEqual([mirror]);
    expect(readKeys({ directories: [mirror], kek: '' })?.keyOf(key.tag, 'icu', 1)).toBe(key.key);
  });

  test('stay at the default place while another directory lacks them', async () => {
    fs.mkdirSync(defaultKeys(dataDir));
    const key = await filled(defaultKeys(dataDir), mirror);
    fs.renameSync(mirror, `${mirror}.away`);
    await start(safe, mirror);
    expect(readKeyPlaces(dataDir).directories).toEqual([safe, mirror, defaultKeys(dataDir)]);
    fs.renameSync(`${mirror}.away`, mirror);
    await start(safe, mirror);
    expectThere(key);
    expect(fs.existsSync(defaultKeys(dataDir))).toBe(false);
  });
});
