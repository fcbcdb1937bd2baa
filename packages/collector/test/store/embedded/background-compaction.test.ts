/** The encrypted bytes of erased events: when a collector removes them, and what an old copy of the keys opens then. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { nodeFiles } from '../../../src/files.js';
import { KeysUnfit } from '../../../src/privacy/key-vault.js';
import { BackgroundCompaction } from '../../../src/store/embedded/background-compaction.js';
import { askForCompaction, isCompactionAsked } from '../../../src/store/embedded/inbox.js';
import { segmentFiles } from '../../../src/store/embedded/compacted-segment.js';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { frameIsOwn, framePayloadState } from '../../../src/store/embedded/frame.js';
import { readFrames } from '../../../src/store/embedded/log-frames.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import { listSegments } from '../../../src/store/embedded/segment.js';
import type { Place } from '../../../src/store/contract/events.js';
import { candidate, type Made } from '../candidate.js';
import { encryptionIn, flipBit, segmentPaths, storedEvents } from './filled-directory.js';
import { eraseEvents } from './erased.js';

const HOUR_MS = 3_600_000;

let dataDir: string;
let store: EmbeddedStore;
let troubles: string[];

beforeEach(async () => {
  dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-background-'));
  troubles = [];
  store = await open();
  onTestFinished(async () => {
    await store.close();
    fs.rmSync(dataDir, { recursive: true, force: true });
  });
});

const open = () =>
  EmbeddedStore.open({
    ...{ directory: dataDir, segmentBytes: 48 << 10, onTrouble: () => undefined },
    encryption: encryptionIn(dataDir),
  });
const begun = () => {
  const compaction = new BackgroundCompaction({ dataDir, store, onTrouble: (what) => troubles.push(what) });
  onTestFinished(() => compaction.close());
  return compaction;
};

/** Of some 1,300 bytes each. */
async function append(count: number): Promise<void> {
  const made = (i: number): Made => candidate({ body: { text: `patient ${i} `.padEnd(1100, 'x') } });
  for (let i = 0; i < count; i += 20) await store.append(Array.from({ length: 20 }, (_, j) => made(i + j)));
}

async function erase(...sequences: readonly number[]): Promise<void> {
  const log = new LogReader(dataDir, nodeFiles);
  const places: (Place & { readonly sequence: number })[] = [];
  for await (const batch of log.pass())
    for (const { sequence, at, size } of batch)
      if (sequences.includes(sequence)) places.push({ sequence, at, size });
  await eraseEvents(dataDir, store, log, places);
  await log.close();
}

/** Which events the present keys open, whatever actions say. */
function opened(): number[] {
  return [...storedEvents(dataDir, segmentFiles)].flatMap(({ sequence, payloadState }) =>
    payloadState === 'plain' ? [sequence] : [],
  );
}

/** A part of the encrypted payload of each event, as the files of the segments have it. */
function encryptedBytes(): Map<number, Buffer> {
  const found = new Map<number, Buffer>();
  for (const { buffer, offset, size, sequence } of readFrames(segmentFiles, segments()))
    found.set(sequence, Buffer.from(buffer.subarray(offset + size - 600, offset + size - 100)));
  return found;
}

/** Whether any file of the directory has these bytes. */
const isAnywhere = (bytes: Buffer) =>
  fs
    .readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(dataDir, name))
    .some((file) => fs.statSync(file).isFile() && fs.readFileSync(file).includes(bytes));
const segments = () => listSegments(segmentFiles, path.join(dataDir, 'ledger'));
const range = (from: number, end: number) => Array.from({ length: end - from }, (_, i) => from + i);

/** On return what was asked for was tried. */
async function askAndWait(compaction: BackgroundCompaction): Promise<void> {
  askForCompaction(dataDir, 'by-a-test');
  await compaction.look();
  expect(isCompactionAsked(dataDir, 'by-a-test')).toBe(false);
}

describe('[R-1336] an old copy of the keys', () => {
  test('opens no erased event with the current log after compaction, also in the newest segment', async () => {
    await append(140);
    const copy = path.join(dataDir, 'encryption-keys.old');
    fs.cpSync(path.join(dataDir, 'encryption-keys'), copy, { recursive: true });
    const [, second] = segments();
    const gone = [1, second?.firstSequence ?? 0, (second?.firstSequence ?? 0) + 1, 140];
    const bytes = encryptedBytes();
    const { length } = segments();
    await erase(...gone);
    const withOldKeys = () => {
      const keys = path.join(dataDir, 'encryption-keys');
      fs.renameSync(keys, `${keys}.new`);
      fs.renameSync(copy, keys);
      const found = opened();
      fs.renameSync(keys, copy);
      fs.renameSync(`${keys}.new`, keys);
      return found;
    };
    // It does until then.
    expect(withOldKeys()).toEqual(range(1, 141));
    await askAndWait(begun());
    expect(segments().length).toBe(length + 1);
    const left = range(1, 141).filter((sequence) => !gone.includes(sequence));
    expect(withOldKeys()).toEqual(left);
    expect(opened()).toEqual(left);
    for (const sequence of gone) expect(isAnywhere(bytes.get(sequence) ?? Buffer.alloc(0))).toBe(false);
    expect(isAnywhere(bytes.get(2) ?? Buffer.alloc(0))).toBe(true);
    expect(troubles).toEqual([]);
  });
});

describe('[R-2025] a collector removes encrypted bytes', () => {
  test('an hour after the first erasure, then once a day, and the rest at the next start', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const compaction = begun();
    await append(140);
    await compaction.look();
    const isOpenAfter = async (ms: number) => {
      vi.advanceTimersByTime(ms);
      await compaction.look();
      return [compaction.pending, ...[1, 2, 3].map((sequence) => states().get(sequence) === 1)];
    };
    await erase(1);
    expect(await isOpenAfter(HOUR_MS - 60_000)).toEqual([1, true, true, true]);
    await erase(2);
    expect(await isOpenAfter(60_000)).toEqual([0, false, false, true]);
    await erase(3);
    expect(await isOpenAfter(23 * HOUR_MS)).toEqual([1, false, false, true]);
    expect(await isOpenAfter(HOUR_MS)).toEqual([0, false, false, false]);
    await erase(4, 5);
    expect(await isOpenAfter(2 * HOUR_MS)).toEqual([1, false, false, false]);
    await compaction.close();
    const next = begun();
    await next.look();
    expect([next.pending, states().get(4), states().get(5), states().get(6)]).toEqual([0, 2, 2, 1]);
    expect(troubles).toEqual([]);
  });

  test('and ends the newest segment only if it has such bytes', async () => {
    await append(140);
    const count = segments().length;
    await erase(1, 2);
    const compaction = begun();
    await compaction.look();
    expect(segments().length).toBe(count);
    expect(states().get(1)).toBe(2);
  });

  test('at the next start when a stop has interrupted it, beside batches and readers', async () => {
    await append(140);
    const before = [...(await bodies())];
    await erase(...range(1, 100));
    const cut = begun();
    const looked = cut.look();
    const reading = bodies();
    await append(20);
    await cut.close();
    await looked;
    for (const [sequence, body] of await reading)
      if (sequence >= 100 && sequence <= 140) expect(body).toBe(before[sequence - 1]?.[1]);
    await begun().look();
    expect([...states()].filter(([sequence]) => sequence < 100).every(([, state]) => state === 2)).toBe(true);
    expect([...(await bodies())].slice(99, 140)).toEqual(before.slice(99));
    expect(troubles).toEqual([]);
  });

  test('except in a damaged segment: it is reported, and tried again after an hour', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    await append(140);
    await erase(1, 60, 140);
    const [first = ''] = segmentPaths(dataDir);
    const compaction = begun();
    flipBit(first, 2000);
    await askAndWait(compaction);
    expect(troubles).toHaveLength(1);
    flipBit(first, 2000);
    expect([states().get(1), states().get(60), states().get(140)]).toEqual([1, 2, 2]);
    await compaction.look();
    expect([states().get(1), compaction.pending]).toEqual([1, 1]);
    vi.advanceTimersByTime(HOUR_MS);
    await compaction.look();
    expect([states().get(1), compaction.pending, troubles.length]).toEqual([2, 0, 1]);
  });
});

test('[R-2025] a log whose newest events are all removed is not opened with the keys of another', async () => {
  await append(140);
  const from = segments().at(-1)?.firstSequence ?? 0;
  await erase(...range(from, 141));
  await askAndWait(begun());
  await store.close();
  const keys = path.join(dataDir, 'encryption-keys');
  fs.renameSync(keys, `${keys}.right`);
  await expect(open()).rejects.toThrow(KeysUnfit);
  fs.rmSync(keys, { recursive: true, force: true });
  fs.renameSync(`${keys}.right`, keys);
  store = await open();
});

/** Of each event: 0 in the clear, 1 encrypted, 2 removed. */
function states(): Map<number, number> {
  const found = new Map<number, number>();
  for (const { buffer, offset, sequence } of readFrames(segmentFiles, segments()))
    if (!frameIsOwn(buffer, offset)) found.set(sequence, framePayloadState(buffer, offset));
  return found;
}

/** As a reader gets them. */
async function bodies(): Promise<Map<number, string>> {
  const log = new LogReader(dataDir, nodeFiles);
  const found = new Map<number, string>();
  for await (const batch of log.entries())
    for (const { sequence, payloadState, body } of batch)
      found.set(sequence, payloadState === 'plain' ? body.toString() : payloadState);
  await log.close();
  return found;
}
