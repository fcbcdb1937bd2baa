/** Payloads that are encrypted in the log: what is on the disk, what opens, and what remains without keys. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { SALT_BYTES } from '@clinical-events/protocol';
import { type Files, nodeFiles } from '../../../src/files.js';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import { NotCommitted, type Candidate } from '../../../src/store/contract/events.js';
import { keyInventory, readKeys } from '../../../src/privacy/key-directories.js';
import { openKeys } from '../../../src/privacy/open-keys.js';
import { KeysUnfit } from '../../../src/privacy/key-vault.js';
import type { EventKey, PayloadKeys } from '../../../src/privacy/payload-keys.js';
import { framesIn, putFrames, sealed } from '../../commands/tampering.js';
import { candidate, idOf } from '../candidate.js';
import { encryptionIn, fillDirectory, segmentPaths } from './filled-directory.js';
import { noteKeyPlaces } from '../../../src/store/key-places.js';
import { failingAt, killedAt } from './killed-files.js';

let root: string;
let dataDir: string;
let keys: string;
let mirror: string;

beforeEach(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-encrypted-'));
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }));
  dataDir = path.join(root, 'data');
  keys = path.join(dataDir, 'encryption-keys');
  mirror = path.join(root, 'mirror');
});

function events(count: number, organisations = ['icu', 'ed']): Candidate[] {
  return Array.from({ length: count }, (_, i) =>
    candidate({
      organisation: organisations[i % organisations.length] ?? '',
      body: { text: `Lactate ${i}, Müller` },
    }),
  );
}

/** By these directories of keys; on return the store is closed. */
function fill(batches: readonly Candidate[][], directories = [keys]): Promise<void> {
  return fillDirectory(dataDir, batches, 64 << 10, encryptionIn(dataDir, { directories }));
}

async function open(options: Parameters<typeof encryptionIn>[1] = {}): Promise<EmbeddedStore> {
  const encryption = encryptionIn(dataDir, options);
  const store = await EmbeddedStore.open({
    ...{ directory: dataDir, segmentBytes: 16 << 10, encryption, onTrouble: () => undefined },
  });
  onTestFinished(() => store.close());
  return store;
}

/** The entries for a new reader: bodies, or the state of those without one. */
async function bodies(): Promise<string[]> {
  const log = new LogReader(dataDir, nodeFiles);
  try {
    const found: string[] = [];
    for await (const batch of log.entries())
      for (const { payloadState, body } of batch)
        found.push(payloadState === 'plain' ? body.toString() : payloadState);
    return found;
  } finally {
    await log.close();
  }
}

/** For the log that is there. */
function writerOf(directories: readonly string[]): Promise<PayloadKeys> {
  const { ledgerId } = new LogReader(dataDir, nodeFiles);
  const places = { directories, kek: '' };
  return openKeys({ places, ledgerId, onTrouble: () => undefined });
}

/** On return the key is durable. */
async function keyOf(writer: PayloadKeys, organisation: string, sequence: number): Promise<EventKey> {
  const key = writer.keyFor(organisation, sequence);
  await writer.flush();
  return key;
}

/** What a store that cannot write its keys answers. */
async function refused(appending: () => unknown): Promise<void> {
  await expect(Promise.resolve().then(appending)).rejects.toThrow(NotCommitted);
}

const bodyOf = ({ salted }: Candidate) => Buffer.from(salted).toString('utf8', SALT_BYTES);

describe.each([1, 2] as const)('[R-1320] in suite %i', (suite) => {
  test('no file contains a body or a salt, and readers get what was sent', async () => {
    const sent = events(120);
    await fillDirectory(
      dataDir,
      [sent.slice(0, 70), sent.slice(70)],
      16 << 10,
      encryptionIn(dataDir, { suite }),
    );
    expect(await bodies()).toEqual(sent.map(bodyOf));
    const files = fs.readdirSync(dataDir, { recursive: true, encoding: 'utf8' });
    for (const file of files
      .map((name) => path.join(dataDir, name))
      .filter((name) => fs.statSync(name).isFile())) {
      const bytes = fs.readFileSync(file);
      expect(bytes.includes('Lactate'), file).toBe(false);
      for (const { salted } of sent)
        expect(bytes.includes(Buffer.from(salted.subarray(0, SALT_BYTES))), file).toBe(false);
    }
  });

  test('a repeat is distinguished from another event of its id, within a batch and after a restart', async () => {
    const [first, second] = events(2, ['icu']) as [Candidate, Candidate];
    const other = candidate({ organisation: 'icu', eventId: idOf(first), body: { text: 'another' } });
    const store = await open({ suite });
    expect(await store.append([first, first, other, second])).toEqual([
      'accepted',
      'duplicate',
      'conflict',
      'accepted',
    ]);
    expect(await store.append([second, other])).toEqual(['duplicate', 'conflict']);
    await store.close();
    expect(await (await open({ suite })).append([first, other])).toEqual(['duplicate', 'conflict']);
  });
});

describe('[R-1320] a sealed payload', () => {
  test('opens only in its own place, and only unchanged', async () => {
    await fill([events(4, ['icu'])]);
    const [segment = ''] = segmentPaths(dataDir);
    const whole = framesIn(segment);
    const stateOf = async (change: (frames: Buffer[]) => void) => {
      const frames = whole.map((frame) => Buffer.from(frame));
      change(frames);
      putFrames(segment, frames.map(sealed));
      return bodies();
    };
    const sequences = (one: Buffer, other: Buffer) => {
      const [a, b] = [one.readBigUInt64LE(16), other.readBigUInt64LE(16)];
      one.writeBigUInt64LE(b, 16);
      other.writeBigUInt64LE(a, 16);
    };
    const [first = '', , third = '', fourth = ''] = await stateOf(() => undefined);
    expect(third).toContain('Lactate 2');
    const swapped = await stateOf((frames) => {
      const [one, two] = frames as [Buffer, Buffer];
      sequences(one, two);
      [frames[0], frames[1]] = [two, one];
    });
    expect(swapped).toEqual(['encrypted', 'encrypted', third, fourth]);
    const flip = (frame: Buffer, at: number) => (frame[at] = (frame[at] ?? 0) ^ 1);
    const end = (whole[1]?.length ?? 0) - 1;
    for (const at of [40, 71, end - 30, end]) {
      const changed = await stateOf(([, two = Buffer.alloc(0)]) => void flip(two, at));
      expect(changed, `byte ${at}`).toEqual([first, 'encrypted', third, fourth]);
    }
  });

  test('needs its own key: with a missing or emptied bucket file it does not open', async () => {
    await fill([events(4)]);
    const [name = ''] = fs.readdirSync(path.join(keys, 'buckets'));
    const file = path.join(keys, 'buckets', name);
    fs.renameSync(file, `${file}.away`);
    expect(new Set(await bodies())).toEqual(new Set(['encrypted']));
    fs.writeFileSync(file, 'no keys');
    expect(new Set(await bodies())).toEqual(new Set(['encrypted']));
    fs.renameSync(`${file}.away`, file);
    expect(await bodies()).not.toContain('encrypted');
  });
});

describe('[R-1323] the keys of an event', () => {
  test('are durable before it is, in the directory and in a mirror', async () => {
    const store = await open({ directories: [keys, mirror] });
    for (const organisation of ['icu', 'ed', 'ward 7']) await store.append(events(3, [organisation]));
    const files = (directory: string) =>
      fs
        .readdirSync(directory, { recursive: true, encoding: 'utf8' })
        .filter((name) => /\.(keys|json)$|kek/.test(name));
    expect(files(mirror)).toEqual(files(keys));
    for (const name of files(keys))
      expect(
        fs.readFileSync(path.join(mirror, name)).equals(fs.readFileSync(path.join(keys, name))),
        name,
      ).toBe(true);
    fs.rmSync(keys, { recursive: true });
    fs.cpSync(mirror, keys, { recursive: true });
    expect(await bodies()).not.toContain('encrypted');
  });

  test('that cannot be written refuse the event, which is stored when they can', async () => {
    const store = await open({ directories: [keys, mirror] });
    await store.append(events(3, ['icu']));
    fs.renameSync(mirror, `${mirror}.away`);
    fs.writeFileSync(mirror, '');
    const [late] = events(1, ['ed']) as [Candidate];
    // Events that need no new key are still stored.
    expect(await store.append(events(1, ['icu']))).toEqual(['accepted']);
    await refused(() => store.append([late]));
    fs.rmSync(mirror);
    fs.renameSync(`${mirror}.away`, mirror);
    expect(await store.append([late])).toEqual(['accepted']);
    expect(await bodies()).toHaveLength(5);
  });

  test('belong to a bucket of one process, and to the next one when it is full', async () => {
    await fill([events(4)]);
    await fill([events(4)]);
    expect(fs.readdirSync(path.join(keys, 'buckets'))).toHaveLength(2);
    const writer = await writerOf([keys]);
    const first = await keyOf(writer, 'icu', 9);
    const last = await keyOf(writer, 'icu', 9 + 65_535);
    expect(last.tag).toBe(first.tag);
    const next = await keyOf(writer, 'icu', 9 + 65_536);
    expect(next.tag).not.toBe(last.tag);
    expect(writer.stored.keyOf(last.tag, 'icu', 9 + 65_535)).toBe(last.key);
    expect(writer.stored.keyOf(next.tag, 'icu', 9 + 65_536)).toBe(next.key);
    expect(writer.stored.keyOf(next.tag, 'icu', 9 + 65_535)).toBeUndefined();
  });

  test('of a batch that was not committed are used again', async () => {
    const store = await open();
    await store.append(events(1));
    const writer = await writerOf([keys]);
    const once = [2, 3, 4].map((sequence) => writer.keyFor('icu', sequence).key);
    expect([2, 3, 4].map((sequence) => writer.keyFor('icu', sequence).key)).toEqual(once);
  });

  test('of a new organisation are seen by a reader that was opened before', async () => {
    const store = await open();
    await store.append(events(2, ['icu']));
    const log = new LogReader(dataDir, nodeFiles);
    onTestFinished(() => log.close());
    const states = async () => {
      const found: string[] = [];
      for await (const batch of log.entries()) for (const { payloadState } of batch) found.push(payloadState);
      return found;
    };
    expect(await states()).toEqual(['plain', 'plain']);
    await store.append(events(2, ['ed']));
    expect(await states()).toEqual(['plain', 'plain', 'plain', 'plain']);
  });
});

describe('[R-1323] a mirror that fails', () => {
  const both = () => ({ directories: [keys, mirror] });

  /** On return it answers everything with an error. */
  function breakMirror(): void {
    fs.renameSync(mirror, `${mirror}.away`);
    fs.symlinkSync(mirror, mirror);
  }

  function mendMirror(): void {
    fs.rmSync(mirror);
    fs.renameSync(`${mirror}.away`, mirror);
  }

  test('does not hide repeats, and a reader or a start uses the other directory', async () => {
    const [sent] = events(1, ['icu']) as [Candidate];
    const store = await open(both());
    await store.append([sent]);
    breakMirror();
    expect(await store.append([sent])).toEqual(['duplicate']);
    expect(await bodies()).toEqual([bodyOf(sent)]);
    fs.rmSync(keys, { recursive: true });
    fs.symlinkSync(keys, keys);
    // No directory answers any more, which does not end the store.
    const [unknown] = events(1, ['icu']) as [Candidate];
    expect(await store.append([unknown])).toEqual(['accepted']);
  });

  test('refuses events that need it after a restart too, until it is back', async () => {
    await (await open(both())).append(events(1, ['icu']));
    breakMirror();
    const store = await open(both());
    await refused(() => store.append(events(1, ['icu'])));
    await expect(store.prove()).rejects.toThrow(NotCommitted);
    mendMirror();
    await store.prove();
    expect(await store.append(events(1, ['icu']))).toEqual(['accepted']);
    fs.rmSync(keys, { recursive: true });
    fs.cpSync(mirror, keys, { recursive: true });
    expect(await bodies()).not.toContain('encrypted');
  });

  test('and comes back empty is a failed mount: it is not filled, and completed when it has its keys again', async () => {
    const store = await open(both());
    await store.append(events(1, ['icu']));
    fs.renameSync(mirror, `${mirror}.away`);
    fs.mkdirSync(mirror);
    await refused(() => store.append(events(1, ['ed'])));
    expect(fs.readdirSync(mirror)).toEqual([]);
    fs.rmdirSync(mirror);
    fs.renameSync(`${mirror}.away`, mirror);
    await store.append(events(1, ['ed']));
    const { directories } = keyInventory({ directories: [keys, mirror], kek: '' });
    expect(directories.map(({ behind }) => behind)).toEqual([0, 0]);
  });

  test('keeps both notes of one action from two states of the log', async () => {
    await (await open(both())).append(events(1, ['icu']));
    const writer = await writerOf([keys, mirror]);
    const bodies = [
      { action: 'a', events: 2 },
      { action: 'a', events: 1 },
    ];
    for (const body of [...bodies, ...bodies]) expect(await writer.noteAction(body)).toEqual([]);
    const noted = writer.stored.noted().map((body) => JSON.parse(body.toString()) as unknown);
    expect(noted).toHaveLength(2);
    expect(noted).toEqual(expect.arrayContaining(bodies));
  });

  test('leaves a root that is the same when it becomes durable later', async () => {
    await (await open(both())).append(events(1, ['icu']));
    const writer = await writerOf([keys, mirror]);
    const { tag } = await keyOf(writer, 'icu', 2);
    breakMirror();
    await expect(keyOf(writer, 'ed', 3)).rejects.toThrow();
    // Another organisation continues.
    expect(writer.keyFor('icu', 3).tag).toBe(tag);
    // A reader may have seen what the first directory has by now.
    const seen = writer.stored.keyOf(tag, 'ed', 3);
    mendMirror();
    expect((await keyOf(writer, 'ed', 3)).key).toBe(seen);
  });

  test('and was used alone for a while loses no key of either directory', async () => {
    const stale = path.join(root, 'stale');
    const [first, second, third, fourth] = events(4, ['icu', 'ed', 'ed', 'lab']) as [
      Candidate,
      ...Candidate[],
    ];
    await fill([[first]], [keys, mirror]);
    fs.cpSync(mirror, stale, { recursive: true });
    await fill([[second ?? first]], [keys, mirror]);
    fs.rmSync(mirror, { recursive: true });
    fs.renameSync(stale, mirror);
    // It lacks the newest key, and a start on it is refused.
    const alone = encryptionIn(dataDir, { directories: [mirror] });
    await expect(fillDirectory(dataDir, [[third ?? first]], 64 << 10, alone)).rejects.toThrow(
      /key of event 2 is missing/,
    );
    await fill([[third ?? first], [fourth ?? first]], [keys, mirror]);
    expect(await bodies()).toHaveLength(4);
    expect(await bodies()).not.toContain('encrypted');
  });
});

describe('[R-1325] a mirror', () => {
  test('that lacks keys is updated by a start, and so is a directory that was lost', async () => {
    await fill([events(4, ['icu'])]);
    const places = { directories: [keys, mirror], kek: '' };
    expect(keyInventory(places).directories).toEqual([
      { directory: keys, isThere: true, behind: 0 },
      { directory: mirror, isThere: false, behind: 4 },
    ]);
    await fill([events(4, ['icu'])], [keys, mirror]);
    fs.cpSync(mirror, `${mirror}.old`, { recursive: true });
    await fill([events(4, ['ed'])], [keys, mirror]);
    fs.rmSync(keys, { recursive: true });
    fs.renameSync(`${mirror}.old`, keys);
    // The directory lacks a bucket by now.
    expect(keyInventory(places).directories.map(({ behind }) => behind)).toEqual([1, 0]);
    await (await open({ directories: [keys, mirror] })).close();
    expect(keyInventory(places).directories.map(({ behind }) => behind)).toEqual([0, 0]);
    expect(await bodies()).not.toContain('encrypted');
  });
});

describe('[R-1324] key files', () => {
  const places = () => ({ directories: [keys, mirror], kek: '' });
  const isWhole = () => keyInventory(places()).directories.map(({ behind }) => behind);

  test.each(['kek', 'names.keys', 'epochs/0000001.json'])(
    'a damaged %s is reported and replaced from a mirror',
    async (name) => {
      await fill([events(2)], [keys, mirror]);
      for (const [directory, lacks] of [
        [keys, [1, 0]],
        [mirror, [0, 1]],
      ] as const) {
        fs.writeFileSync(path.join(directory, name), 'x');
        expect(isWhole()).toEqual(lacks);
        await fill([events(2)], [keys, mirror]);
        expect(isWhole()).toEqual([0, 0]);
      }
      expect(await bodies()).not.toContain('encrypted');
    },
  );

  test.each(['epochs', 'buckets'])('without any %s none are made', async (name) => {
    await fill([events(2)]);
    fs.rmSync(path.join(keys, name), { recursive: true });
    const before = fs.readdirSync(keys);
    await expect(fill([events(2)])).rejects.toThrow(KeysUnfit);
    expect(fs.readdirSync(keys)).toEqual(before);
  });

  test('a directory that is named twice, or is missing, is refused', async () => {
    const twice = encryptionIn(dataDir, { directories: [keys, path.join(keys, '.')] });
    await expect(fillDirectory(dataDir, [events(1)], 64 << 10, twice)).rejects.toThrow(/named twice/);
    const gone = encryptionIn(dataDir, { directories: [mirror] });
    fs.rmSync(mirror, { recursive: true });
    await expect(fillDirectory(dataDir, [events(1)], 64 << 10, gone)).rejects.toThrow(
      /too few key directories/,
    );
  });
});

describe('[R-1324] keys', () => {
  test('of another log are refused as a mirror too, and remain unchanged', async () => {
    const other = path.join(path.dirname(dataDir), 'other-keys');
    const openOn = (directories: string[], ledgerId: string) =>
      openKeys({ places: { directories, kek: '' }, ledgerId, onTrouble: () => undefined });
    fs.mkdirSync(other);
    await openOn([other], 'ab'.repeat(16));
    const files = () =>
      fs.readdirSync(other, { recursive: true, encoding: 'utf8' }).flatMap((name) => {
        const file = path.join(other, name);
        return fs.statSync(file).isFile() ? [[name, fs.readFileSync(file).toString('hex')]] : [];
      });
    const before = files();
    const own = path.join(path.dirname(dataDir), 'own-keys');
    fs.mkdirSync(own);
    await openOn([own], 'cd'.repeat(16));
    await expect(openOn([own, other], 'cd'.repeat(16))).rejects.toThrow(
      /other-keys are those of another log/,
    );
    expect(files()).toEqual(before);
  });

  test('of another log are refused', async () => {
    await fill([events(1)]);
    const other = path.join(root, 'other');
    const opening = fillDirectory(other, [events(1)], 64 << 10, encryptionIn(other, { directories: [keys] }));
    await expect(opening).rejects.toThrow(KeysUnfit);
    await expect(opening).rejects.toThrow(/of another log/);
  });

  test('whose loss prevents a comparison refuse the repeat of that event, and nothing else', async () => {
    const sent = events(2, ['icu']);
    await fill([sent]);
    await fill([events(1)]);
    const [name = ''] = fs.readdirSync(path.join(keys, 'buckets'));
    fs.rmSync(path.join(keys, 'buckets', name));
    const store = await open();
    expect(await store.append([sent[0] ?? candidate(), candidate({ eventId: randomUUID() })])).toEqual([
      'unreadable',
      'accepted',
    ]);
  });

  test('are required where the newest events are encrypted', async () => {
    const batches = Array.from({ length: 5 }, () => events(40));
    await fillDirectory(dataDir, batches, 16 << 10, encryptionIn(dataDir));
    const asked: boolean[] = [];
    const openKeys = (_: string, isNeeded: boolean) => {
      asked.push(isNeeded);
      return Promise.resolve(undefined);
    };
    const options = { directory: dataDir, segmentBytes: 16 << 10, onTrouble: () => undefined };
    await (await EmbeddedStore.open({ ...options, encryption: { suite: 1, openKeys } })).close();
    // A new segment without a frame: the one before it decides.
    const segments = segmentPaths(dataDir);
    putFrames(segments.at(-1) ?? '', []);
    fs.rmSync(path.join(dataDir, 'index'), { recursive: true });
    await (await EmbeddedStore.open({ ...options, encryption: { suite: 1, openKeys } })).close();
    const plain = path.join(root, 'plain');
    await fillDirectory(plain, [events(2)]);
    await (
      await EmbeddedStore.open({ ...options, directory: plain, encryption: { suite: 1, openKeys } })
    ).close();
    expect(asked).toEqual([true, true, false]);
  });
});

describe('[R-1324] an interrupted first start', () => {
  const both = () => ({ directories: [keys, mirror] });

  function writerWith(files: Files): Promise<PayloadKeys> {
    const places = { ...both(), kek: '' };
    return openKeys({ files, places, ledgerId: LEDGER, onTrouble: () => undefined });
  }

  const LEDGER = 'ab'.repeat(16);

  test.each([
    ['killed', (step: number) => killedAt(step)],
    ['with an error', (step: number) => failingAt(step)],
  ])(
    'at any write, %s, is continued by the next start, in the directory and its mirror',
    async (_, filesAt) => {
      let cutOff = 0;
      for (let step = 1; ; step++) {
        for (const directory of [keys, mirror]) {
          fs.rmSync(directory, { recursive: true, force: true });
          fs.mkdirSync(directory, { recursive: true });
        }
        const { files, steps } = filesAt(step);
        try {
          await writerWith(files);
        } catch {
          cutOff++;
        }
        if (steps() < step) break;
        const { tag, key } = await keyOf(await writerWith(nodeFiles), 'icu', 1);
        // The key that it returned is there for every other process, in either directory.
        for (const directory of [keys, mirror]) {
          const reader = readKeys({ directories: [directory], kek: '' });
          expect(reader?.keyOf(tag, 'icu', 1), `step ${step}, ${directory}`).toBe(key);
          expect(() => reader?.names()).not.toThrow();
        }
      }
      expect(cutOff).toBeGreaterThan(10);
    },
  );

  test('is refused once there is an event, whatever is left of its keys', async () => {
    await fill([events(2)], [keys, mirror]);
    for (const lost of [['epochs'], ['epochs', 'buckets']]) {
      for (const directory of [keys, mirror])
        for (const name of lost) fs.rmSync(path.join(directory, name), { recursive: true, force: true });
      const { ledgerId } = new LogReader(dataDir, nodeFiles);
      const places = { ...both(), kek: '' };
      const opening = { places, ledgerId, isNeeded: true, onTrouble: () => undefined };
      await expect(openKeys(opening)).rejects.toThrow(/are incomplete/);
      expect(fs.existsSync(path.join(keys, 'epochs'))).toBe(false);
    }
  });
});

describe('[R-1324] a file kek', () => {
  const both = () => ({ directories: [keys, mirror] });
  const faults = () => keyInventory({ ...both(), kek: '' }).directories.map(({ kekFault }) => kekFault);
  const another = () =>
    fs.readFileSync(path.join(keys, 'kek'), 'latin1').replace(/^./, (c) => (c === 'A' ? 'B' : 'A'));

  test.each([
    ['is another key', another, /is not the key that wraps the payload keys/],
    ['is damaged', () => 'x', /contains no key/],
    ['is empty', () => '', /contains no key/],
    ['is missing', undefined, /cannot be read/],
  ])(
    'that %s in one directory is replaced from the other, and a line says so',
    async (_, content, reason) => {
      await fill([events(2)], [keys, mirror]);
      await noteKeyPlaces(dataDir, { ...both(), kek: '' });
      for (const [directory, other] of [
        [keys, mirror],
        [mirror, keys],
      ] as const) {
        const file = path.join(directory, 'kek');
        const text = content?.();
        fs.rmSync(file);
        // With the rights that a careless copy has.
        if (text !== undefined) fs.writeFileSync(file, text, { mode: 0o644 });
        expect(await bodies()).not.toContain('encrypted');
        const [first, second] = directory === keys ? faults() : faults().toReversed();
        expect(first).toBeDefined();
        expect(second).toBeUndefined();
        const told: string[] = [];
        const { ledgerId } = new LogReader(dataDir, nodeFiles);
        await openKeys({
          ...{ places: { ...both(), kek: '' }, ledgerId, isNeeded: true },
          onTrouble: (what, error) => told.push(`${what}: ${String(error)}`),
        });
        expect(told).toHaveLength(1);
        expect(told[0]).toContain(`the file kek of ${directory} is replaced`);
        expect(told[0]).toMatch(
          text === undefined ? reason : /is not the key|contains no key|other users than its owner/,
        );
        expect(fs.readFileSync(file)).toEqual(fs.readFileSync(path.join(other, 'kek')));
        expect(faults()).toEqual([undefined, undefined]);
      }
      await fill([events(2)], [keys, mirror]);
      expect(await bodies()).toHaveLength(4);
      expect(await bodies()).not.toContain('encrypted');
    },
  );

  test('that is wrong in all of them, or right and open to others, still refuses a start', async () => {
    await fill([events(2)], [keys, mirror]);
    const file = path.join(keys, 'kek');
    fs.chmodSync(file, 0o644);
    await expect(writerOf([keys, mirror])).rejects.toThrow(/other users than its owner may read it/);
    fs.chmodSync(file, 0o600);
    const wrong = another();
    for (const directory of [keys, mirror]) fs.writeFileSync(path.join(directory, 'kek'), wrong);
    await expect(writerOf([keys, mirror])).rejects.toThrow(/is not the key that wraps the payload keys/);
    expect(fs.readFileSync(file, 'latin1')).toBe(wrong);
    expect(faults().every((fault) => fault?.includes('is not the key') === true)).toBe(true);
  });
});

describe('[R-1323] the check that keys can be written', () => {
  test('is made at the start, once, by a write that leaves nothing', async () => {
    const writes: string[] = [];
    const counting: Files = {
      ...nodeFiles,
      rename(from, to) {
        writes.push(path.relative(keys, to));
        nodeFiles.rename(from, to);
      },
    };
    await (await open()).close();
    const store = await open({ files: counting });
    writes.length = 0;
    await store.proveKeys();
    await store.proveKeys();
    expect(writes).toEqual([path.join('buckets', 'trial')]);
    expect(fs.readdirSync(path.join(keys, 'buckets'))).toEqual([]);
    expect(await store.append(events(1))).toEqual(['accepted']);
    expect(await bodies()).not.toContain('encrypted');
  });

  test('reports keys_unwritable until they can', async () => {
    let isReadOnly = true;
    const files: Files = {
      ...nodeFiles,
      open(file, flags) {
        if (isReadOnly && flags !== 'r')
          throw Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS' });
        return nodeFiles.open(file, flags);
      },
    };
    await (await open()).close();
    const store = await open({ files });
    await expect(store.proveKeys()).rejects.toMatchObject({
      name: 'NotCommitted',
      reason: 'keys_unwritable',
    });
    await refused(() => store.append(events(1)));
    isReadOnly = false;
    await store.proveKeys();
    expect(await store.append(events(1))).toEqual(['accepted']);
  });
});
