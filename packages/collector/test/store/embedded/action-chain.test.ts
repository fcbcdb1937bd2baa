/** How the actions of a log are found: by whom, at what cost, and with pointers that disagree with the log. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { runs } from '../../../../../test/property-runs.js';
import { type Files, nodeFiles } from '../../../src/files.js';
import { ownEntry } from '../../../src/ledger/own-entry.js';
import { actionFields, type Actions } from '../../../src/privacy/actions.js';
import { SequenceSet } from '../../../src/privacy/sequence-set.js';
import { verifyLog } from '../../../src/commands/verify/verification.js';
import { type Candidate, NotCommitted, StoreDamaged } from '../../../src/store/contract/events.js';
import { compactLog } from '../../../src/store/embedded/compaction.js';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { envelopeEnd, frameSequence, sealFrame } from '../../../src/store/embedded/frame.js';
import { copiedLog } from '../../../src/store/embedded/log-copy.js';
import { readFrames } from '../../../src/store/embedded/log-frames.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import {
  ACTION_BEFORE_AT,
  listSegments,
  SEGMENT_HEADER_BYTES,
  segmentName,
} from '../../../src/store/embedded/segment.js';
import { candidate } from '../candidate.js';
import { segmentPaths } from './filled-directory.js';

const SEGMENT_BYTES = 16 << 10;

let dataDir: string;
let troubles: string[];

beforeEach(() => {
  dataDir = temporary();
  troubles = [];
});

function temporary(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-actions-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

const hold = () =>
  ownEntry(
    ENTRY_KINDS.lifecycleAction,
    'lifecycle000',
    actionFields({ action: randomUUID(), does: 'hold', record: 'ab'.repeat(32) }),
  );
const events = (count: number) =>
  Array.from({ length: count }, () => candidate({ body: { text: 'x'.repeat(300) } }));

/** A hold for each `h`, and as many events as each digit says. */
const batchOf = (text: string) =>
  text.split('').flatMap((each): Candidate[] => (each === 'h' ? [hold()] : events(Number(each))));

async function open({ directory = dataDir, segmentBytes = SEGMENT_BYTES, files = nodeFiles } = {}) {
  const onTrouble = (what: string) => void troubles.push(what);
  const store = await EmbeddedStore.open({ directory, segmentBytes, files, onTrouble });
  onTestFinished(() => store.close());
  return store;
}

/** `h` is a hold, a digit as many events, and a blank ends a batch. @returns the sequences of the holds. */
async function fill(log: string, segmentBytes = SEGMENT_BYTES): Promise<number[]> {
  const store = await open({ segmentBytes });
  const holds: number[] = [];
  let sequence = store.opened.entries;
  for (const batch of log.split(' ')) {
    const candidates = batchOf(batch);
    for (const { kind } of candidates) {
      sequence++;
      if (kind === ENTRY_KINDS.lifecycleAction) holds.push(sequence);
    }
    await store.append(candidates);
  }
  await store.close();
  return holds;
}

const sequencesOf = ({ logged }: Actions) => logged.map(({ sequence }) => sequence);

function readerOf(files = nodeFiles): LogReader {
  const log = new LogReader(dataDir, files);
  onTestFinished(() => log.close());
  return log;
}

const readNow = () => sequencesOf(readerOf().actions());

async function startNow(): Promise<number[]> {
  const store = await open();
  const found = sequencesOf(store.actions);
  await store.close();
  return found;
}

/** Both a reader and a start find these, and nothing else. */
async function expectFound(holds: readonly number[]): Promise<void> {
  expect(readNow()).toEqual(holds);
  expect(await startNow()).toEqual(holds);
}

/** Where the frame of an entry is. */
function placeOf(sequence: number): {
  readonly file: string;
  readonly offset: number;
  readonly address: number;
} {
  for (const segment of listSegments(nodeFiles, path.join(dataDir, 'ledger')))
    for (const frame of readFrames(nodeFiles, [segment]))
      if (frame.sequence === sequence)
        return {
          ...{ file: segment.path, address: frame.address },
          offset: frame.address - segment.base + SEGMENT_HEADER_BYTES,
        };
  throw new Error(`no entry ${sequence}`);
}

interface Pointer {
  readonly sequence: number;
  readonly address: number;
}

function writePointer(bytes: Buffer, at: number, { sequence, address }: Pointer): void {
  bytes.writeBigUInt64LE(BigInt(sequence), at);
  bytes.writeBigUInt64LE(BigInt(address), at + 8);
}

/** With a checksum that fits. */
function pointFrame(sequence: number, to: Pointer): void {
  const { file, offset } = placeOf(sequence);
  const bytes = fs.readFileSync(file);
  writePointer(bytes, envelopeEnd(bytes, offset), to);
  sealFrame(bytes, offset, bytes.readUInt32LE(offset + 4));
  fs.writeFileSync(file, bytes);
}

/** With a checksum that fits. */
function pointHeader(file: string, to: Pointer): void {
  const bytes = fs.readFileSync(file);
  writePointer(bytes, ACTION_BEFORE_AT, to);
  bytes.writeUInt32LE(crc32(bytes.subarray(12, SEGMENT_HEADER_BYTES)), 8);
  fs.writeFileSync(file, bytes);
}

/** The faults of pointers that verify finds, and where. */
async function misnamed(): Promise<unknown[]> {
  const { findings } = await verifyLog({
    ...{ dataDir, files: nodeFiles, against: [], keys: [] },
    onProgress: () => undefined,
  });
  return findings.listed.flatMap(({ kind, sequence, file, offset }) =>
    kind === 'altered' ? [{ sequence, file: path.join(dataDir, file ?? ''), offset }] : [],
  );
}

const inFrame = (sequence: number) => {
  const { file, offset } = placeOf(sequence);
  return { sequence, file, offset };
};
const inHeader = (file: string) => ({
  ...{ sequence: Number.parseInt(path.basename(file), 10), file },
  offset: ACTION_BEFORE_AT,
});

function counting() {
  const counted = { open: 0, read: 0, bytes: 0 };
  const files: Files = {
    ...nodeFiles,
    open(file, flags) {
      counted.open++;
      return nodeFiles.open(file, flags);
    },
    read(...call) {
      const read = nodeFiles.read(...call);
      counted.read++;
      counted.bytes += read;
      return read;
    },
  };
  return { files, counted };
}

describe('[R-907] the actions of a log', () => {
  test('are found by a start and by readers, anywhere in segments and batches', async () => {
    const entry = fc.oneof(fc.constant('h'), fc.constantFrom('1', '3', '9'), fc.constant(' '));
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 60 }), async (entries) => {
        fs.rmSync(dataDir, { recursive: true, force: true });
        const log = entries.join('').replaceAll(/ +/g, ' ').trim() || '1';
        await expectFound(await fill(log));
        expect(troubles).toEqual([]);
      }),
      { numRuns: runs(150) },
    );
  });

  test('cost two reads each and a few for each segment: 5,000 actions in 200 segments', async () => {
    const store = await open({ segmentBytes: 12 << 10 });
    for (let i = 0; i < 1000; i++) await store.append([...events(1), hold(), hold(), hold(), hold(), hold()]);
    await store.close();
    const { length: segments } = segmentPaths(dataDir);
    expect(segments).toBeGreaterThanOrEqual(200);
    const { files, counted } = counting();
    const log = readerOf(files);
    expect(log.actions().logged).toHaveLength(5000);
    expect(counted.open).toBeLessThan(4 * segments);
    expect(counted.read).toBeLessThan(2 * 5000 + 8 * segments);
    expect(counted.bytes).toBeLessThan(5000 * 1000 + segments * 1000 + (64 << 10));
    Object.assign(counted, { open: 0, read: 0, bytes: 0 });
    for (let i = 0; i < 10; i++) expect(log.actions().logged).toHaveLength(5000);
    expect(counted).toMatchObject({ open: 0, read: 20 });
    const again = await open({ files, segmentBytes: 12 << 10 });
    expect(again.actions.logged).toHaveLength(5000);
    expect(counted.read).toBeLessThan(2 * 5000 + 12 * segments);
  });

  test('are the same once their segments are compacted, at the same cost: no other frame is unpacked', async () => {
    const holds = await fill('9h 99hh h9 999 h 99 9h9 999 9h');
    const cost = () => {
      const { files, counted } = counting();
      expect(sequencesOf(readerOf(files).actions())).toEqual(holds);
      return counted.bytes;
    };
    const bytes = () => segmentPaths(dataDir).reduce((sum, file) => sum + fs.statSync(file).size, 0);
    const [before, size] = [cost(), bytes()];
    const erased = SequenceSet.of(Array.from({ length: 100 }, (_, i) => 2 * i + 1));
    const onTrouble = (error: unknown) => {
      throw error;
    };
    await compactLog(dataDir, [{ sequence: 1000, entryId: randomUUID(), erased }], { onTrouble });
    expect(bytes()).toBeLessThan(size);
    expect(cost()).toBeLessThan(before + 1000 * segmentPaths(dataDir).length);
    await expectFound(holds);
    expect(await fill('h 9')).toEqual([(holds.at(-1) ?? 0) + 1]);
    expect(readNow()).toHaveLength(holds.length + 1);
    expect(await misnamed()).toEqual([]);
  });

  test('of a log that was cut after any entry are those before the cut, and others can follow', async () => {
    const holds = await fill('1h hh 3 h3 9 1h1 h', 4 << 10);
    expect(segmentPaths(dataDir).length).toBeGreaterThan(2);
    const log = temporary();
    fs.cpSync(dataDir, log, { recursive: true });
    for (let last = 24; last >= 1; last--) {
      fs.rmSync(dataDir, { recursive: true });
      fs.cpSync(path.join(log, 'ledger'), path.join(dataDir, 'ledger'), { recursive: true });
      const { file, offset } = placeOf(last);
      for (const later of segmentPaths(dataDir).filter((each) => each > file)) fs.rmSync(later);
      fs.truncateSync(file, offset + fs.readFileSync(file).readUInt32LE(offset + 4));
      // A torn tail.
      if (last % 2 === 0) fs.appendFileSync(file, Buffer.alloc(100, 7));
      const left = holds.filter((sequence) => sequence <= last);
      expect(readNow()).toEqual(left);
      const store = await open({ segmentBytes: 4 << 10 });
      expect(sequencesOf(store.actions)).toEqual(left);
      await store.append([hold()]);
      await store.close();
      expect(readNow()).toEqual([...left, last + 1]);
      expect(await misnamed()).toEqual([]);
    }
    expect(troubles).toEqual([]);
  });

  test('of a back-up that was restored are those of the back-up, and others can follow', async () => {
    const holds = await fill('1h hh 9 h99 9h 9h1 99 h');
    const backup = temporary();
    copiedLog(dataDir, { signed: 0, agreed: 0 })?.copyTo(backup, undefined, () => undefined);
    await fill('h9 9 9h');
    fs.rmSync(dataDir, { recursive: true });
    fs.cpSync(backup, dataDir, { recursive: true });
    await expectFound(holds);
    await fill('9h');
    expect(readNow()).toHaveLength(holds.length + 1);
    expect(await misnamed()).toEqual([]);
  });

  test('are those of the log, whatever the list of an earlier build has', async () => {
    const holds = await fill('h 9 h');
    fs.writeFileSync(path.join(dataDir, 'index/actions'), Buffer.alloc(48, 1));
    await expectFound(holds);
  });

  test('are on stable storage with their batch, and those of a batch that was undone are not listed', async () => {
    let isFull = false;
    const files: Files = {
      ...nodeFiles,
      write(fd, source, length, position) {
        nodeFiles.write(fd, source, isFull ? length - 100 : length, position);
        if (!isFull) return;
        isFull = false;
        throw new Error('ENOSPC');
      },
    };
    const store = await open({ files, segmentBytes: 1 << 20 });
    await store.append([hold()]);
    isFull = true;
    await expect(Promise.resolve().then(() => store.append([hold(), hold()]))).rejects.toThrow(NotCommitted);
    await store.append(events(1));
    await store.append([hold()]);
    expect(sequencesOf(store.actions)).toEqual([1, 3]);
    await store.close();
    await expectFound([1, 3]);
    expect(await misnamed()).toEqual([]);
  });
});

describe('[R-907] a reader beside a collector', () => {
  test('sees an action at the next look, in the same segment or in another one', async () => {
    const store = await open();
    const log = readerOf();
    const holds: number[] = [];
    let sequence = 0;
    for (const batch of '1 h h9 9 h 99 99 h 9 hh 9 99 9 9 9 9 9 h'.split(' ')) {
      const candidates = batchOf(batch);
      await store.append(candidates);
      for (const { kind } of candidates) {
        sequence++;
        if (kind === ENTRY_KINDS.lifecycleAction) holds.push(sequence);
      }
      expect(sequencesOf(log.actions())).toEqual(holds);
    }
    expect(segmentPaths(dataDir).length).toBeGreaterThan(2);
  });

  test('forgets an action that was undone, also for another of the same size', async () => {
    await fill('1', 1 << 20);
    const [file = ''] = segmentPaths(dataDir);
    const before = fs.readFileSync(file);
    /** The log as it is with one more hold. */
    const withHold = async () => {
      await fill('h', 1 << 20);
      const bytes = fs.readFileSync(file);
      const [{ entryId } = { entryId: '' }] = readerOf().actions().logged;
      fs.writeFileSync(file, before);
      fs.rmSync(path.join(dataDir, 'index'), { recursive: true });
      return { bytes, entryId };
    };
    const [one, other] = [await withHold(), await withHold()];
    expect(one.bytes.length).toBe(other.bytes.length);
    const log = readerOf();
    for (const { bytes, entryId } of [one, other, one]) {
      fs.writeFileSync(file, bytes);
      expect(log.actions().logged.map((each) => each.entryId)).toEqual([entryId]);
    }
    fs.writeFileSync(file, before);
    expect(log.actions().logged).toEqual([]);
    fs.writeFileSync(file, other.bytes);
    expect(log.actions().logged[0]?.entryId).toBe(other.entryId);
  });
});

describe('[R-907] a wrong pointer', () => {
  /** Holds in three segments, the last of which has none. */
  async function filled(): Promise<{ holds: number[]; files: string[] }> {
    const holds = await fill('h 9 h9h 99 9 h 99 99 9 99 1');
    const files = segmentPaths(dataDir);
    expect(files.length).toBeGreaterThan(2);
    expect(placeOf(holds.at(-1) ?? 0).file < (files.at(-1) ?? '')).toBe(true);
    return { holds, files };
  }
  const pointer = (sequence: number) => ({ sequence, address: placeOf(sequence).address });

  test.each([
    ['no entry', () => ({ sequence: 7, address: 13 })],
    ['no action', () => pointer(3)],
    ['another sequence', (holds: number[]) => ({ sequence: 3, address: pointer(holds[1] ?? 0).address })],
    [
      'another place',
      (holds: number[]) => ({ ...pointer(holds[2] ?? 0), address: pointer(holds[1] ?? 0).address }),
    ],
    ['an entry after the last', () => ({ sequence: 900, address: 2 ** 40 })],
    ['a sequence beyond 2^53', () => ({ sequence: 2 ** 60, address: 2 ** 63 })],
  ])('in a header that leads to %s costs a pass and no action, and verify names it', async (_, to) => {
    const { holds, files } = await filled();
    const [last = ''] = files.slice(-1);
    pointHeader(last, to(holds));
    expect(readNow()).toEqual(holds);
    expect(await startNow()).toEqual(holds);
    expect(troubles).toEqual([expect.stringContaining('collector verify')]);
    expect(await misnamed()).toEqual([inHeader(last)]);
    await fill('1 h');
    expect(await misnamed()).toEqual([inHeader(last)]);
  });

  test('in a frame that leads to itself or nowhere costs a pass and no action, and verify names it', async () => {
    const { holds } = await filled();
    for (const sequence of holds) {
      const before = fs.readFileSync(placeOf(sequence).file);
      for (const to of [pointer(sequence), pointer(2), { sequence: 1, address: 5 }]) {
        pointFrame(sequence, to);
        await expectFound(holds);
        expect(await misnamed()).toEqual([inFrame(sequence)]);
      }
      fs.writeFileSync(placeOf(sequence).file, before);
    }
  });

  test('in a frame that leads to an action with another sequence costs a pass', async () => {
    const holds = await fill('h1h 99 99 99 99 99');
    expect(segmentPaths(dataDir).length).toBeGreaterThan(1);
    pointFrame(3, { ...pointer(1), sequence: 2 });
    await expectFound(holds);
    expect(troubles).toEqual([expect.stringContaining('collector verify')]);
    expect(await misnamed()).toEqual([inFrame(3)]);
  });

  test('that skips an action is detected from a header, or from the segment that is read', async () => {
    const { holds, files } = await filled();
    const [first = 0, second = 0] = holds;
    // The newest header names an older action: the one before it names the newest.
    const [last = ''] = files.slice(-1);
    const kept = fs.readFileSync(last);
    pointHeader(last, pointer(second));
    await expectFound(holds);
    expect(await misnamed()).toEqual([inHeader(last)]);
    fs.writeFileSync(last, kept);
    await expectFound(holds);
    // A frame names an older action: the header of its segment names the newer one.
    const newest = holds.at(-1) ?? 0;
    expect(placeOf(second).file < placeOf(newest).file).toBe(true);
    pointFrame(newest, pointer(first));
    await expectFound(holds);
    expect(await misnamed()).toEqual([inFrame(newest)]);
  });

  test('that skips an action in the last segment is detected by a start and a reader', async () => {
    const holds = await fill('h h h 1', 1 << 20);
    pointFrame(3, pointer(1));
    expect(readNow()).toEqual(holds);
    expect(await startNow()).toEqual(holds);
    expect(await misnamed()).toEqual([inFrame(3)]);
  });

  test('with which all headers agree is found by verify, and by a reader that passes the action', async () => {
    const { holds, files } = await filled();
    const [newest = 0, before = 0] = holds.toReversed();
    for (const file of files) if (file > placeOf(newest).file) pointHeader(file, pointer(before));
    const [wrong = ''] = files.filter((file) => file > placeOf(newest).file);
    expect(await misnamed()).toContainEqual(inHeader(wrong));
    const log = readerOf();
    expect(sequencesOf(log.actions())).not.toContain(newest);
    for await (const batch of log.pass({ sequence: newest, at: 0 }))
      expect([...batch].length).toBeGreaterThan(0);
    expect(sequencesOf(log.actions())).toEqual(holds);
  });

  test('that leads to an action that cannot be read stops a start and a reader', async () => {
    const { holds } = await filled();
    const { file, offset } = placeOf(holds[1] ?? 0);
    const bytes = fs.readFileSync(file);
    bytes[offset + 200] = (bytes[offset + 200] ?? 0) ^ 1;
    fs.writeFileSync(file, bytes);
    expect(() => readNow()).toThrow(StoreDamaged);
    await expect(open()).rejects.toThrow(StoreDamaged);
  });

  test('to an action that cannot be read is not a separate finding', async () => {
    const { holds } = await filled();
    for (const damaged of [holds[1] ?? 0, holds.at(-1) ?? 0]) {
      const { file, offset } = placeOf(damaged);
      const bytes = fs.readFileSync(file);
      const changed = Buffer.from(bytes);
      changed[offset + 200] = (changed[offset + 200] ?? 0) ^ 1;
      fs.writeFileSync(file, changed);
      expect(await misnamed()).toEqual([{ sequence: damaged, file, offset }]);
      fs.writeFileSync(file, bytes);
    }
  });

  test('of a log that was cut before the action that a header names stops a start and a reader', async () => {
    const { holds } = await filled();
    const { file, offset } = placeOf(holds.at(-1) ?? 0);
    fs.truncateSync(file, offset);
    expect(() => readNow()).toThrow(StoreDamaged);
    await expect(open()).rejects.toThrow(StoreDamaged);
  });

  test('is not used after damage in the last segment: actions after it are found', async () => {
    await fill('h 1 1 1 h 1', 1 << 20);
    const { file, offset } = placeOf(3);
    const bytes = fs.readFileSync(file);
    bytes[offset + 200] = (bytes[offset + 200] ?? 0) ^ 1;
    fs.writeFileSync(file, bytes);
    expect(readNow()).toEqual([1, 5]);
    expect(segmentName(1)).toBe(path.basename(file));
    expect(frameSequence(bytes, offset)).toBe(3);
  });
});
