/** The key that wraps the others: exchanged, interrupted at any write, and in a KMS that misbehaves. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  type ErasureFacts,
  erasureRecordOf,
  keepErasureRecord,
  rewrapErasureRecords,
} from '../../src/commands/lifecycle/erasure-record.js';
import { nodeFiles, type Files } from '../../src/files.js';
import { exchangeKek, rewrapEpochs } from '../../src/privacy/kek-exchange.js';
import {
  eraseKekFiles,
  kekFileOf,
  kekOf,
  type KeyPlaces,
  readKeys,
  vaultOf,
} from '../../src/privacy/key-directories.js';
import { openKeys } from '../../src/privacy/open-keys.js';
import { KekFault, newKekFile, openKek } from '../../src/privacy/key-encryption-key.js';
import type { EventKey } from '../../src/privacy/payload-keys.js';
import { noteKeyPlaces } from '../../src/store/key-places.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { killedAt } from '../store/embedded/killed-files.js';

const LEDGER = 'ab'.repeat(16);
let root: string;
let directories: string[];

beforeEach(() => {
  root = temporaryDirectory();
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }));
  directories = ['keys', 'mirror'].map((name) => path.join(root, name));
  for (const directory of directories) fs.mkdirSync(directory);
});

function newKek(): string {
  const file = path.join(root, 'new-kek');
  fs.writeFileSync(file, newKekFile(), { mode: 0o600 });
  return `file:${file}`;
}

/** On return keys of two epochs are there. */
async function filled(places: KeyPlaces): Promise<EventKey> {
  const keys = await openKeys({ places, ledgerId: LEDGER, onTrouble: () => undefined });
  const key = keys.keyFor('icu', 1);
  await keys.flush();
  expect(await keys.rotate()).toEqual([]);
  return key;
}

/** By each directory alone. */
function expectOpen(kek: string, { tag, key }: EventKey): void {
  for (const directory of directories)
    expect(readKeys({ directories: [directory], kek })?.keyOf(tag, 'icu', 1)).toBe(key);
}

async function exchange(places: KeyPlaces, next: string, files: Files): Promise<string> {
  let noted = places.kek;
  const vault = vaultOf(places, {}, files);
  try {
    await exchangeKek(
      [kekOf(places, vault), openKek(next)],
      (rewrapping) => rewrapEpochs(vault, rewrapping),
      () => Promise.resolve(void (noted = next)),
    );
    eraseKekFiles(places);
  } catch {
    // It was killed.
  }
  return noted;
}

describe('[R-1996] an exchange of the key that wraps the keys', () => {
  test('interrupted at any write leaves keys that the noted place opens, and is completed by another run', async () => {
    const key = await filled({ directories, kek: '' });
    const next = newKek();
    for (const directory of directories) fs.cpSync(directory, `${directory}.old`, { recursive: true });
    for (let step = 1; ; step++) {
      for (const directory of directories) {
        fs.rmSync(directory, { recursive: true });
        fs.cpSync(`${directory}.old`, directory, { recursive: true });
      }
      const { files, steps } = killedAt(step);
      const noted = await exchange({ directories, kek: '' }, next, files);
      expectOpen(noted, key);
      expect(await exchange({ directories, kek: noted }, next, nodeFiles)).toBe(next);
      expectOpen(next, key);
      for (const directory of directories) expect(fs.existsSync(kekFileOf(directory))).toBe(false);
      // The old key opens nothing any more.
      const old = `file:${kekFileOf(`${directories[0] ?? ''}.old`)}`;
      expect(() => readKeys({ directories, kek: old })?.keyOf(key.tag, 'icu', 1)).toThrow(KekFault);
      if (steps() < step) break;
    }
  });
});

describe('[R-1996] the record of an erasure', () => {
  test('is read with the noted key, during the exchange and afterwards', async () => {
    await filled({ directories, kek: '' });
    const next = newKek();
    const dataDir = path.join(root, 'data');
    fs.mkdirSync(dataDir);
    await noteKeyPlaces(dataDir, { directories, kek: '' });
    const action = randomUUID();
    const person = { name: 'A', isProven: false, at: '2026-01-01T00:00:00Z' };
    const facts: ErasureFacts = {
      ...{ action, case: 'C-1', planner: person, applier: person, left: [], mentions: 0, overridden: [] },
      ...{ setByHand: { marked: 0, unmarked: 0 }, unread: 0 },
    };
    const record = await keepErasureRecord(dataDir, facts);
    const expectRead = () => expect(erasureRecordOf(dataDir, action, record)).toMatchObject({ case: 'C-1' });
    await exchangeKek(
      [kekOf({ directories, kek: '' }), openKek(next)],
      async (rewrapping) => {
        await rewrapErasureRecords(dataDir, rewrapping);
        expectRead();
      },
      async () => {
        await noteKeyPlaces(dataDir, { directories, kek: next });
        expectRead();
      },
    );
    await noteKeyPlaces(dataDir, { directories, kek: '' });
    expect(erasureRecordOf(dataDir, action, record)).toBeUndefined();
  });
});

describe('[R-1323] a KMS', () => {
  const kms = () => path.join(root, 'kms');
  const places = (): KeyPlaces => ({ directories, kek: `command:${kms()}` });
  const does = (script: string) => fs.writeFileSync(kms(), `#!/bin/sh\n${script}\n`, { mode: 0o700 });
  const WRAPS = 'read text; echo "$text" | rev';

  function everything(): string[] {
    return directories.flatMap((directory) =>
      fs.readdirSync(directory, { recursive: true, encoding: 'utf8' }).flatMap((name) => {
        const file = path.join(directory, name);
        return fs.statSync(file).isFile() ? [`${name} ${fs.readFileSync(file, 'hex')}`] : [];
      }),
    );
  }

  test.each([
    ['prints another key', `echo ${Buffer.alloc(32).toString('base64')}`],
    ['prints no key', 'true'],
    ['prints a key that is too long', `echo ${Buffer.alloc(33).toString('base64')}`],
    ['prints a message', 'echo "permission denied"'],
    ['fails', 'exit 1'],
  ])('that %s is reported, and no key is called damaged or written', async (_, script) => {
    does(WRAPS);
    const key = await filled(places());
    const before = everything();
    does(script);
    const opening = openKeys({
      places: places(),
      ledgerId: LEDGER,
      isNeeded: true,
      onTrouble: () => undefined,
    });
    await expect(opening).rejects.toThrow(KekFault);
    expect(() => readKeys(places())?.keyOf(key.tag, 'icu', 1)).toThrow(KekFault);
    expect(everything()).toEqual(before);
    does(WRAPS);
    expectOpen(places().kek, key);
  });

  test.each(['unwrap', 'wrap'] as const)(
    'that hangs at %s is killed with all processes that it started',
    async (verb) => {
      does(`sleep 300 & echo $! > "$0.pid"; wait`);
      const kek = openKek(places().kek, 500);
      const asked =
        verb === 'wrap' ? kek.wrap(Buffer.alloc(32)) : Promise.resolve().then(() => kek.unwrap('AAAA'));
      await expect(asked).rejects.toThrow(/did not end within 0.5 s/);
      const pid = Number(fs.readFileSync(`${kms()}.pid`, 'utf8'));
      await expect.poll(() => isRunning(pid)).toBe(false);
    },
  );
});

/** A process that has ended and was not waited for is a zombie, and does not run. */
function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(fs.readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}
