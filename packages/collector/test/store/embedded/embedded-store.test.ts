import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { verifyLog } from '../../../src/commands/verify/verification.js';
import { isLocked, lockDirectory, DirectoryInUse } from '../../../src/store/directory-lock.js';
import { EmbeddedStore, type Held } from '../../../src/store/embedded/embedded-store.js';
import { nodeFiles, type Files } from '../../../src/files.js';
import { SEGMENT_HEADER_BYTES } from '../../../src/store/embedded/segment.js';
import { indexState } from '../../../src/store/embedded/id-index/index-state.js';
import { CommitUnknown, StoreDamaged, type Candidate } from '../../../src/store/contract/events.js';
import { candidate, idOf } from '../candidate.js';
import { storedEvents } from './filled-directory.js';

const SEGMENT_BYTES = 64 << 10;

let directory: string;
let troubles: string[];

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-store-'));
  troubles = [];
  onTestFinished(() => fs.rmSync(directory, { recursive: true }));
});

async function open(files: Partial<Files> = {}): Promise<EmbeddedStore> {
  const store = await EmbeddedStore.open({
    ...{ directory, segmentBytes: SEGMENT_BYTES },
    files: { ...nodeFiles, ...files },
    onTrouble: (what) => troubles.push(what),
  });
  onTestFinished(() => store.close().catch(() => undefined));
  return store;
}

function events(count: number, size = 10): Candidate[] {
  return Array.from({ length: count }, (_, i) => candidate({ body: { i, filler: 'x'.repeat(size) } }));
}

function storedIds(): string[] {
  const ids: string[] = [];
  for (const { eventId } of storedEvents(directory)) ids.push(eventId);
  return ids;
}

/** The report on the events, and whether the index covers some that are missing. Nothing here is signed. */
async function findings(): Promise<string[]> {
  const reading = {
    dataDir: directory,
    files: nodeFiles,
    against: [],
    keys: [],
    onProgress: () => undefined,
  };
  const { findings: found, bytes } = await verifyLog(reading);
  const faults = found.listed.filter(({ kind }) => kind !== 'note' && kind !== 'checkpoint_missing');
  const isShort = (indexState(directory)?.coveredTo ?? 0) > bytes;
  return [...faults.map(({ message }) => message), ...(isShort ? ['the log is shorter than its index'] : [])];
}

describe('the id index of an embedded store', () => {
  test('covers everything after an orderly end, and no event is read again', async () => {
    const store = await open();
    await store.append(events(10));
    await store.close();
    const again = await open();
    const { ledgerId } = store.opened;
    expect(ledgerId).toMatch(/^[0-9a-f]{32}$/);
    const found = { events: 10, entries: 10, segments: 1, ledgerId, replayed: 0, tornTail: undefined };
    expect(again.opened).toEqual({ ...found, bytes: again.opened.bytes });
    expect(again.opened.bytes).toBeGreaterThan(10 * 100);
  });

  test('reports after each flush what the log then holds, as the next start finds it', async () => {
    const told: Held[] = [];
    const onFlushed = (milliseconds: number, held: Held) => {
      expect(milliseconds).toBeGreaterThan(0);
      told.push(held);
    };
    const store = await EmbeddedStore.open({
      ...{ directory, segmentBytes: SEGMENT_BYTES, onTrouble: () => undefined, onFlushed },
    });
    const batch = events(3);
    await store.append(batch);
    // Repeats alone are not flushed.
    await store.append(batch);
    await store.append([...events(2), { ...candidate({ organisation: '' }), kind: 0x81 }]);
    await store.close();
    expect(told.map((held) => [held.events, held.entries])).toEqual([
      [3, 3],
      [5, 6],
    ]);
    const { opened } = await open();
    expect(opened).toMatchObject({ ...told.at(-1) });
  });

  test('[R-718] has after a start the newest entry of the log’s own in the last segment, and the number of all', async () => {
    const own = (text: string) => ({ ...candidate({ organisation: '', body: text }), kind: 0x81 });
    const newest = async () => {
      const store = await open();
      const { events: count, entries, segments } = store.opened;
      await store.close();
      return [store.newestOwn.get(0x81)?.toString(), count, entries, segments];
    };
    const fill = async (...batches: Candidate[][]) => {
      const store = await open();
      for (const batch of batches) await store.append(batch);
      await store.close();
    };
    await fill([own('{"a":1}')], events(3), [own('{"a":2}')]);
    // As the last frame, and with events after it.
    expect(await newest()).toEqual(['{"a":2}', 3, 5, 1]);
    await fill(events(2));
    expect(await newest()).toEqual(['{"a":2}', 5, 7, 1]);
    // As the last frame of a segment that is full: the next one says how many came before.
    const large = candidate({ body: { text: 'x'.repeat(SEGMENT_BYTES) } });
    await fill([own('{"a":3}')], [large]);
    expect(await newest()).toEqual([undefined, 6, 9, 2]);
    await fill([own('{"a":4}')]);
    expect(await newest()).toEqual(['{"a":4}', 6, 10, 3]);
  });

  test('is rebuilt when it is of another ledger, or of a copy with another history [R-606]', async () => {
    const mine = events(50);
    const store = await open();
    await store.append(mine);
    await store.close();
    const home = directory;
    // As many events of the same sizes, so that every address of the one is an address of the other.
    directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-store-'));
    const other = await open();
    await other.append(events(50));
    await other.close();
    fs.rmSync(path.join(home, 'index'), { recursive: true });
    fs.cpSync(path.join(directory, 'index'), path.join(home, 'index'), { recursive: true });
    fs.rmSync(directory, { recursive: true });
    directory = home;
    const again = await open();
    expect(troubles).toEqual([expect.stringContaining('another ledger')]);
    expect(again.opened.replayed).toBe(50);
    expect(await again.append(mine)).toEqual(mine.map(() => 'duplicate'));
  });

  test.each(['deleted', 'emptied', 'damaged', 'cut'])(
    'is rebuilt when it was %s, and repeats are recognised again',
    async (fate) => {
      const stored = events(300, 500);
      const store = await open();
      await store.append(stored.slice(0, 150));
      await store.append(stored.slice(150));
      await store.close();
      const index = path.join(directory, 'index');
      const runs = fs.readdirSync(index).map((name) => path.join(index, name));
      expect(runs.length).toBeGreaterThan(0);
      if (fate === 'deleted') fs.rmSync(index, { recursive: true });
      for (const run of fate === 'deleted' ? [] : runs) {
        if (fate === 'emptied') fs.rmSync(run);
        if (fate === 'cut') fs.truncateSync(run, fs.statSync(run).size - 1);
        if (fate === 'damaged') {
          const bytes = fs.readFileSync(run);
          bytes[5000] = (bytes[5000] ?? 0) ^ 4;
          fs.writeFileSync(run, bytes);
        }
      }
      expect(await findings()).toEqual([]);
      const again = await open();
      expect(again.opened).toMatchObject({ events: 300, replayed: 300 });
      expect(new Set(await again.append(stored))).toEqual(new Set(['duplicate']));
      expect(storedIds()).toEqual(stored.map(idOf));
    },
  );

  test('that is older than the log is brought up to date', async () => {
    const stored = events(40);
    const store = await open();
    await store.append(stored.slice(0, 20));
    await store.close();
    fs.cpSync(path.join(directory, 'index'), path.join(directory, 'old'), { recursive: true });
    const second = await open();
    await second.append(stored.slice(20));
    await second.close();
    fs.rmSync(path.join(directory, 'index'), { recursive: true });
    fs.renameSync(path.join(directory, 'old'), path.join(directory, 'index'));
    const third = await open();
    expect(third.opened).toMatchObject({ events: 40, replayed: 20 });
    expect(new Set(await third.append(stored))).toEqual(new Set(['duplicate']));
  });

  test('that covers more than the log holds proves a loss of durable events: refused, and reported by the inspection', async () => {
    const stored = events(5);
    const store = await open();
    for (const event of stored) await store.append([event]);
    await store.close();
    const [file = ''] = fs
      .readdirSync(path.join(directory, 'ledger'))
      .filter((name) => name.endsWith('.segment'));
    const segment = path.join(directory, 'ledger', file);
    const whole = fs.readFileSync(segment);
    let end = whole.length;
    while (whole[end - 1] === 0) end--;
    const flipped = Buffer.from(whole);
    flipped[end - 3] = (flipped[end - 3] ?? 0) ^ 1;
    for (const bytes of [flipped, whole.subarray(0, end - 1), Buffer.alloc(SEGMENT_HEADER_BYTES, whole)]) {
      fs.writeFileSync(segment, bytes);
      await expect(open()).rejects.toThrow(StoreDamaged);
      expect(fs.readFileSync(segment).equals(bytes)).toBe(true);
      expect(await findings()).toEqual(['the log is shorter than its index']);
    }
    expect(fs.existsSync(path.join(directory, 'ledger', 'torn'))).toBe(false);
    fs.rmSync(segment);
    await expect(open()).rejects.toThrow(StoreDamaged);
    fs.writeFileSync(segment, whole);
    await open();
    expect(storedIds()).toEqual(stored.map(idOf));
  });
});

describe('an embedded store', () => {
  test('reports that a repeat cannot be read when its place is damaged, with the place, and continues', async () => {
    const [first = candidate(), ...rest] = events(3);
    const store = await open();
    await store.append([first, ...rest]);
    const segment = path.join(directory, 'ledger', '0000000000000001.segment');
    const bytes = fs.readFileSync(segment);
    const at = SEGMENT_HEADER_BYTES + 120;
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    fs.writeFileSync(segment, bytes);
    expect(await store.append([first, ...rest, ...events(1)])).toEqual([
      'unreadable',
      'duplicate',
      'duplicate',
      'accepted',
    ]);
    expect(troubles).toEqual([expect.stringContaining('0000000000000001.segment, byte 80') as string]);
    expect(() => storedIds()).toThrow(StoreDamaged);
    expect(await findings()).toEqual([
      expect.stringContaining('0000000000000001.segment, byte 80') as string,
    ]);
  });

  test('answers nothing after a flush that failed, and a new one flushes the batch before it answers', async () => {
    let flushes = 0;
    let failing = false;
    const store = await open({
      datasync: (fd) => {
        if (failing) throw new Error('EIO');
        nodeFiles.datasync(fd);
      },
    });
    const stored = events(2);
    await store.append(stored.slice(0, 1));
    failing = true;
    const attempt = () => Promise.resolve().then(() => store.append(stored.slice(1)));
    await expect(attempt()).rejects.toThrow(CommitUnknown);
    failing = false;
    await expect(attempt()).rejects.toThrow(CommitUnknown);
    await store.close();
    const written: number[] = [];
    const again = await open({
      write: (fd, source, length, position) => {
        written.push(position);
        nodeFiles.write(fd, source, length, position);
      },
      datasync: (fd) => {
        flushes++;
        nodeFiles.datasync(fd);
      },
    });
    expect([written.length, flushes]).toEqual([1, 1]);
    expect(await again.append(stored)).toEqual(['duplicate', 'duplicate']);
    expect(storedIds()).toEqual(stored.map(idOf));
  });

  test('reports an event whose hash is not that of its body, although the checksum is right', async () => {
    const store = await open();
    const event = { ...candidate(), commitment: Buffer.alloc(32, 0xab) };
    await store.append([candidate(), event]);
    await store.close();
    expect(await findings()).toEqual([
      expect.stringContaining(
        `the payload of event 2 (${idOf(event)}), which no checkpoint covers, does not match the commitment to it`,
      ) as string,
    ]);
  });
});

describe('the lock of a data directory', () => {
  test('is held by one process at a time, is visible from outside, and is free after its release', () => {
    const inner = path.join(directory, 'a', 'b');
    expect(isLocked(inner)).toBe(false);
    const lock = lockDirectory(inner);
    expect(fs.statSync(inner).mode & 0o777).toBe(0o700);
    expect(isLocked(inner)).toBe(true);
    expect(() => lockDirectory(inner)).toThrow(DirectoryInUse);
    lock.release();
    expect(isLocked(inner)).toBe(false);
    lockDirectory(inner).release();
  });
});

describe('the file layer', () => {
  test('brings the names of all directories that it makes to stable storage', () => {
    const synced: string[] = [];
    const files: Files = { ...nodeFiles, syncDirectory: (name) => void synced.push(name) };
    files.makeDirectory(path.join(directory, 'a', 'b', 'c'));
    expect(synced).toEqual([path.join(directory, 'a', 'b'), path.join(directory, 'a'), directory]);
    synced.length = 0;
    files.makeDirectory(path.join(directory, 'a', 'b', 'c'));
    expect(synced).toEqual([]);
  });

  test('allocates exactly the size asked for, all zeros, whatever was there', async () => {
    const file = path.join(directory, 'room');
    fs.writeFileSync(file, 'x'.repeat(4 << 20));
    await nodeFiles.createZeroed(file, (1 << 20) + 7);
    expect(fs.readFileSync(file).equals(Buffer.alloc((1 << 20) + 7))).toBe(true);
  });
});
