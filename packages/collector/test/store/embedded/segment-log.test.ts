import path from 'node:path';
import { crc32 } from 'node:zlib';
import { SALT_BYTES } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { encodeFrame, frameSize, NO_ACTION } from '../../../src/store/embedded/frame.js';
import { SegmentLog, type SegmentLogOptions } from '../../../src/store/embedded/segment-log.js';
import {
  encodeSegmentHeader,
  listSegments,
  SEGMENT_HEADER_BYTES,
  segmentName,
} from '../../../src/store/embedded/segment.js';
import {
  CommitUnknown,
  NotCommitted,
  StoreDamaged,
  type Candidate,
} from '../../../src/store/contract/events.js';
import { runs } from '../../../../../test/property-runs.js';
import { candidate, idOf } from '../candidate.js';
import { storedEvents } from './filled-directory.js';
import { DiskFault, MemoryDisk, OPERATIONS, SECTOR_BYTES, type Manner } from './memory-disk.js';

const DATA = '/data';
const LEDGER = '/data/ledger';
const SEGMENT_BYTES = 8192;

function open(disk: MemoryDisk, more: Partial<SegmentLogOptions> = {}): Promise<SegmentLog> {
  return SegmentLog.open({
    ...{ directory: LEDGER, segmentBytes: SEGMENT_BYTES, files: disk.files, vouchedTo: 0 },
    vouchedEntries: 0,
    onRoomTrouble: () => undefined,
    ...more,
  });
}

/** Stores a batch, as the store above the log does. */
async function append(log: SegmentLog, ...batch: Candidate[]): Promise<void> {
  const frames = Buffer.alloc(batch.reduce((bytes, event) => bytes + frameSize(event), 0));
  const before = log.nextSequence;
  let at = 0;
  batch.forEach((event, i) => (at += encodeFrame(frames, at, event, before + i, before)));
  await log.makeRoom(frames.length);
  log.commit(frames, frames.length, batch.length);
}

function read(disk: MemoryDisk): { sequence: number; eventId: string; body: string }[] {
  const found = [];
  // A body is only good until the next event is asked for.
  for (const { sequence, eventId, body } of storedEvents(DATA, disk.files)) {
    found.push({ sequence, eventId, body: body.toString() });
  }
  return found;
}

/** What reading must return for these events, stored in this order. */
function asRead(events: readonly Candidate[], first = 1) {
  return events.map((event, i) => ({
    sequence: first + i,
    eventId: idOf(event),
    body: Buffer.from(event.salted.subarray(SALT_BYTES)).toString(),
  }));
}

const inFile = (file: string) => expect.stringMatching(`^${path.basename(file)}, byte \\d+$`) as string;

function events(count: number, note = 'x'): Candidate[] {
  return Array.from({ length: count }, (_, i) => candidate({ body: { note: `${note}${i}` } }));
}

function segmentFiles(disk: MemoryDisk): string[] {
  return disk.fileNames(LEDGER).filter((name) => /^\d{16}\.segment$/.test(name));
}

function lastSegment(disk: MemoryDisk): string {
  return path.join(LEDGER, segmentFiles(disk).at(-1) ?? '');
}

function damageOf(act: () => unknown): StoreDamaged {
  try {
    act();
  } catch (error) {
    if (error instanceof StoreDamaged) return error;
    throw error;
  }
  throw new Error('no damage was reported');
}

async function damageAtOpen(disk: MemoryDisk, more: Partial<SegmentLogOptions> = {}): Promise<StoreDamaged> {
  const error: unknown = await open(disk, more).then(
    () => new Error('it opened'),
    (reason: unknown) => reason,
  );
  if (error instanceof StoreDamaged) return error;
  throw error;
}

describe('a torn tail', () => {
  const earlier = events(3, 'earlier');
  const last = events(3, 'last');
  const sizes = last.map((event) => frameSize(event));
  const start = SEGMENT_HEADER_BYTES + earlier.reduce((bytes, event) => bytes + frameSize(event), 0);
  const batchBytes = sizes.reduce((a, b) => a + b, 0);

  async function written(): Promise<MemoryDisk> {
    const disk = new MemoryDisk();
    const log = await open(disk);
    await append(log, ...earlier.slice(0, 2));
    await append(log, ...earlier.slice(2));
    await append(log, ...last);
    return disk.afterKill();
  }

  /** How many frames of the last batch end at or before `bytes` of it. */
  function wholeIn(bytes: number): number {
    let end = 0;
    return sizes.filter((size) => (end += size) <= bytes).length;
  }

  function endOf(frames: number): number {
    return sizes.slice(0, frames).reduce((a, b) => a + b, 0);
  }

  function withoutTrailingZeros(bytes: Buffer): Buffer {
    let end = bytes.length;
    while (end > 0 && bytes[end - 1] === 0) end--;
    return bytes.subarray(0, end);
  }

  /** Opens, and checks that exactly `kept` frames of the last batch are there and the cut bytes were kept aside. */
  async function expectRepaired(disk: MemoryDisk, kept: number, torn: Buffer): Promise<void> {
    const stored = [...earlier, ...last.slice(0, kept)];
    const log = await open(disk);
    expect(log.nextSequence).toBe(stored.length + 1);
    expect(log.tornTail?.bytes ?? 0).toBe(torn.length);
    const files = disk.fileNames(path.join(LEDGER, 'torn'));
    expect(files.length).toBe(torn.length > 0 ? 1 : 0);
    for (const file of files) expect(disk.bytesOf(path.join(LEDGER, 'torn', file)).equals(torn)).toBe(true);
    const next = candidate({ body: 'null' });
    await append(log, next);
    await log.close();
    // Durable, and a second start finds nothing more to repair.
    const again = disk.afterPowerLoss();
    const reopened = await open(again);
    expect(reopened.tornTail).toBeUndefined();
    expect(read(again)).toEqual(asRead([...stored, next]));
  }

  const GARBAGE = Buffer.from(Array.from({ length: 300 }, (_, i) => 1 + ((i * 97) % 255)));

  // When all that is missing of a frame is zeros, it is whole.
  test.each<readonly [string, step: number, cut: (bytes: Buffer, at: number) => Buffer]>([
    ['where the file ends', 1, (bytes, at) => bytes.subarray(0, at)],
    ['where zeros follow', 1, (bytes, at) => bytes.fill(0, at)],
    [
      'where garbage follows',
      1,
      (bytes, at) => {
        GARBAGE.copy(bytes.fill(0, at), at);
        return bytes;
      },
    ],
    [
      'where a part is missing on the disk before later frames',
      16,
      (bytes, at) => bytes.fill(0, at, Math.min(at + 64, start + batchBytes)),
    ],
  ])('[R-603] is cut at every byte of a batch %s, and the log continues there', async (_, step, cut) => {
    const whole = await written();
    for (let at = 0; at <= batchBytes; at += step) {
      const disk = whole.afterKill();
      const bytes = cut(Buffer.from(disk.bytesOf(lastSegment(disk))), start + at);
      disk.put(lastSegment(disk), bytes);
      const kept = wholeIn(at);
      await expectRepaired(
        disk,
        kept,
        Buffer.from(withoutTrailingZeros(bytes.subarray(start + endOf(kept)))),
      );
    }
  });

  test('is cut whichever sectors of the batch a power failure left', async () => {
    const big = Array.from({ length: 5 }, (_, i) =>
      candidate({ body: { note: `${i}`.repeat(SECTOR_BYTES) } }),
    );
    for (let pattern = 0; pattern < 2 ** 6; pattern++) {
      const disk = new MemoryDisk();
      const log = await open(disk);
      await append(log, ...earlier);
      disk.fail('datasync', 1, 'before');
      // The machine fails in the middle of the flush: some sectors are written, in any order.
      let crashed: MemoryDisk | undefined;
      disk.onCall = (operation) => {
        if (operation !== 'datasync') return;
        crashed ??= disk.afterPowerLoss((_, sector) => sector >= 0 && ((pattern >> (sector % 6)) & 1) === 1);
      };
      await expect(append(log, ...big)).rejects.toThrow(CommitUnknown);
      if (!crashed) throw new Error('nothing was flushed');
      const reopened = await open(crashed);
      const found = read(crashed);
      expect(found).toEqual(asRead([...earlier, ...big].slice(0, found.length)));
      expect(found.length).toBeGreaterThanOrEqual(earlier.length);
      expect(reopened.nextSequence).toBe(found.length + 1);
    }
  });

  test('is cut also when it is a whole frame that is not the next one', async () => {
    const disk = await written();
    const bytes = disk.bytesOf(lastSegment(disk));
    const copy = Buffer.from(bytes.subarray(start, start + (sizes[0] ?? 0)));
    copy.copy(bytes, start + batchBytes);
    await expectRepaired(disk, last.length, copy);
  });

  test('that cannot be saved is not cut, and leaves no partial copy', async () => {
    const disk = await written();
    const before = Buffer.from(disk.bytesOf(lastSegment(disk)).fill(0, start + 50));
    disk.put(lastSegment(disk), before);
    for (const manner of ['before', 'partly', 'after'] as const) {
      // The first write brings the last batch to the disk once more, the second saves the tail.
      disk.fail('write', 2, manner);
      await expect(open(disk)).rejects.toThrow('write failed');
      disk.heal();
      expect(disk.fileNames(path.join(LEDGER, 'torn'))).toEqual([]);
      expect(disk.bytesOf(lastSegment(disk)).equals(before)).toBe(true);
    }
    await expectRepaired(disk, 0, Buffer.from(withoutTrailingZeros(before.subarray(start))));
  });
});

describe('damage', () => {
  // A bit of every byte; frame.test.ts shows that every bit counts.
  async function threeSegments(): Promise<{ disk: MemoryDisk; stored: Candidate[] }> {
    const disk = new MemoryDisk();
    const log = await open(disk);
    const stored: Candidate[] = [];
    for (let batch = 0; log.segments.length < 3 || batch % 4 > 0; batch++) {
      const more = events(2, `${batch}-${'filler'.repeat(37)}`);
      await append(log, ...more);
      stored.push(...more);
    }
    await log.close();
    return { disk, stored };
  }

  /** Offset, in the file of a segment, of the frame of `sequence`. */
  function offsetOf(stored: readonly Candidate[], first: number, sequence: number): number {
    return (
      SEGMENT_HEADER_BYTES +
      stored.slice(first - 1, sequence - 1).reduce((bytes, event) => bytes + frameSize(event), 0)
    );
  }

  test('[R-603] of any byte of a frame in the last segment is reported with its place when the log is opened, and changes nothing', async () => {
    const { disk, stored } = await threeSegments();
    const file = lastSegment(disk);
    const first = Number.parseInt(path.basename(file), 10);
    const sequence = first + 2;
    const offset = offsetOf(stored, first, sequence);
    const target = stored[sequence - 1];
    if (!target) throw new Error('too few events');
    for (let bit = 0; bit < frameSize(target) * 8; bit += 9) {
      const bytes = disk.bytesOf(file);
      const at = offset + (bit >> 3);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7));
      const before = Buffer.from(bytes);
      const place = { where: `${path.basename(file)}, byte ${offset}`, sequence };
      expect((await damageAtOpen(disk)).place, `bit ${bit}`).toEqual(place);
      if (bit % 27 === 0) {
        const got: number[] = [];
        const damage = damageOf(() => {
          for (const event of storedEvents(DATA, disk.files)) got.push(event.sequence);
        });
        expect(damage.place).toEqual(place);
        expect(got).toEqual(Array.from({ length: sequence - 1 }, (_, i) => i + 1));
      }
      expect(bytes.equals(before)).toBe(true);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7));
    }
    expect(disk.fileNames(path.join(LEDGER, 'torn'))).toEqual([]);
    expect(read(disk)).toEqual(asRead(stored));
  });

  test('[R-603] of any byte of a frame in an old segment is reported with its place when events are read or indexed', async () => {
    const { disk, stored } = await threeSegments();
    const [, file = ''] = segmentFiles(disk);
    const first = Number.parseInt(file, 10);
    const sequence = first + 3;
    const offset = offsetOf(stored, first, sequence);
    const target = stored[sequence - 1];
    if (!target) throw new Error('too few events');
    const bytes = disk.bytesOf(path.join(LEDGER, file));
    const log = await open(disk);
    const address = log.segments[1]?.base ?? 0;
    for (let bit = 0; bit < frameSize(target) * 8; bit += 9) {
      const at = offset + (bit >> 3);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7));
      const place = { where: `${file}, byte ${offset}`, sequence };
      expect(damageOf(() => read(disk)).place, `bit ${bit}`).toEqual(place);
      expect(damageOf(() => [...log.framesFrom(address + offset - SEGMENT_HEADER_BYTES)]).place).toEqual(
        place,
      );
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7));
    }
    expect(read(disk)).toEqual(asRead(stored));
  });

  test('of any bit of a segment header is reported with its file', async () => {
    const { disk } = await threeSegments();
    for (const file of segmentFiles(disk)) {
      const bytes = disk.bytesOf(path.join(LEDGER, file));
      for (let bit = 0; bit < SEGMENT_HEADER_BYTES * 8; bit++) {
        bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        const damage = await damageAtOpen(disk);
        expect(damage.place.where).toMatch(file);
        expect(damage.place.sequence).toBe(Number.parseInt(file, 10));
        bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      }
    }
  });

  test('[R-904] of the last batch is reported as damage when a signed checkpoint covers it', async () => {
    const { disk, stored } = await threeSegments();
    const vouchedEntries = stored.length;
    const log = await open(disk.afterKill(), { vouchedEntries });
    const { offset } = log.placeOf(log.end);
    const bytes = disk.bytesOf(lastSegment(disk));
    bytes[offset - 1] = (bytes[offset - 1] ?? 0) ^ 1;
    const before = Buffer.from(bytes);
    const { message, place } = await damageAtOpen(disk, { vouchedEntries });
    expect(message).toContain(`a checkpoint was signed over ${vouchedEntries} entries`);
    expect(place.sequence).toBe(vouchedEntries);
    expect(bytes.equals(before)).toBe(true);
    expect((await open(disk, { vouchedEntries: vouchedEntries - 1 })).nextSequence).toBe(vouchedEntries);
  });

  test('of the last batch is reported as damage, not as a torn tail, when the index covers it', async () => {
    const { disk } = await threeSegments();
    const file = lastSegment(disk);
    const log = await open(disk.afterKill());
    const vouchedTo = log.end;
    const { offset } = log.placeOf(log.end);
    const bytes = disk.bytesOf(file);
    bytes[offset - 1] = (bytes[offset - 1] ?? 0) ^ 1;
    const before = Buffer.from(bytes);
    const damage = await damageAtOpen(disk, { vouchedTo });
    expect(damage.place).toMatchObject({ where: inFile(file), sequence: log.nextSequence - 1 });
    expect(bytes.equals(before)).toBe(true);
    bytes.fill(0, Number(/\d+$/.exec(damage.place.where)?.[0]));
    expect((await damageAtOpen(disk, { vouchedTo })).place).toEqual(damage.place);
    // Without a witness it looks like a batch that was never acknowledged.
    expect((await open(disk)).nextSequence).toBe(damage.place.sequence);
  });

  test('by a missing, foreign, renamed or shortened segment is reported when the log is opened', async () => {
    const { disk, stored } = await threeSegments();
    const [first = '', middle = '', last = ''] = segmentFiles(disk);
    const at = (file: string) => path.join(LEDGER, file);

    const headless = disk.afterKill();
    headless.remove(at(first));
    expect(await damageAtOpen(headless)).toMatchObject({
      place: { where: `${middle}, byte 0` },
      message: expect.stringContaining('are missing') as string,
    });

    const gap = disk.afterKill();
    gap.remove(at(middle));
    expect(await damageAtOpen(gap)).toMatchObject({ place: { where: `${last}, byte 0` } });
    expect(damageOf(() => read(gap)).place).toMatchObject({
      where: inFile(first),
      sequence: Number.parseInt(middle, 10),
    });

    const all = disk.afterKill();
    for (const file of [first, middle, last]) all.remove(at(file));
    expect(await damageAtOpen(all, { vouchedTo: 1 })).toMatchObject({
      place: { where: inFile(first), sequence: 1 },
    });

    const foreign = disk.afterKill();
    const base = listSegments(foreign.files, LEDGER)[1]?.base ?? 0;
    const header = {
      base,
      firstSequence: Number.parseInt(middle, 10),
      ledgerId: 'ab'.repeat(16),
      ownBefore: 0,
      actionBefore: NO_ACTION,
    };
    encodeSegmentHeader(header, 0).copy(foreign.bytesOf(at(middle)));
    expect(await damageAtOpen(foreign)).toMatchObject({
      place: { where: inFile(middle) },
      message: expect.stringContaining('another ledger') as string,
    });

    const renamed = disk.afterKill();
    renamed.put(at(segmentName(stored.length + 10)), renamed.bytesOf(at(last)));
    renamed.remove(at(last));
    expect(await damageAtOpen(renamed)).toMatchObject({
      message: expect.stringContaining('says that it is') as string,
    });

    const short = disk.afterKill();
    short.put(at(first), short.bytesOf(at(first)).subarray(0, -1));
    expect(await damageAtOpen(short)).toMatchObject({
      message: expect.stringContaining('too short') as string,
    });
    expect(damageOf(() => read(short)).place.where).toMatch(first);

    expect(read(disk)).toEqual(asRead(stored));
  });

  test('by a segment that does not begin where the one before it ends is reported when events are read', async () => {
    const { disk } = await threeSegments();
    const [first = '', middle = ''] = segmentFiles(disk);
    // A whole frame less in the first segment than the second one says.
    const log = await open(disk.afterKill());
    const { base } = log.segments[1] ?? { base: 0 };
    const bytes = disk.bytesOf(path.join(LEDGER, middle));
    const header = {
      base,
      firstSequence: Number.parseInt(middle, 10) + 1,
      ledgerId: log.segments[0]?.ledgerId ?? '',
      ownBefore: 0,
      actionBefore: NO_ACTION,
    };
    encodeSegmentHeader(header, 0).copy(bytes);
    disk.put(path.join(LEDGER, segmentName(header.firstSequence)), bytes);
    disk.remove(path.join(LEDGER, middle));
    expect(damageOf(() => read(disk)).place).toMatchObject({
      where: inFile(segmentName(header.firstSequence)),
      sequence: Number.parseInt(middle, 10),
    });
    expect(first).toBe(segmentName(1));
  });

  test('is not reported when a collector writes between a read and its look at the tail', async () => {
    const disk = new MemoryDisk();
    const log = await open(disk);
    const stored = events(2);
    await append(log, ...stored);
    // The reader has seen the end of the log; before it looks after it, three more batches are written.
    const more = [events(1), events(2), events(1)];
    let opens = 0;
    disk.onCall = (operation) => {
      if (operation !== 'open' || ++opens !== 3) return;
      disk.onCall = () => undefined;
      for (const batch of more) {
        const frames = Buffer.alloc(batch.reduce((bytes, event) => bytes + frameSize(event), 0));
        const before = log.nextSequence;
        let at = 0;
        batch.forEach((event, i) => (at += encodeFrame(frames, at, event, before + i, before)));
        log.commit(frames, frames.length, batch.length);
      }
    };
    expect(read(disk)).toEqual(asRead([...stored, ...more.flat()]));
    expect(opens).toBe(3);
  });
});

test('frames are not read from an address at which none begins', async () => {
  const disk = new MemoryDisk();
  const log = await open(disk);
  await append(log, ...events(3));
  expect(() => [...log.framesFrom(1)]).toThrow('no frame of the log begins at 1');
  expect([...log.framesFrom(log.end)]).toEqual([]);
  expect([...log.framesFrom(0)].length).toBe(3);
});

describe('rolling', () => {
  test('spreads the events over segments of the size asked for, and they are read back in order', async () => {
    const disk = new MemoryDisk();
    const log = await open(disk);
    const stored = events(120, 'x'.repeat(200));
    for (let i = 0; i < stored.length; i += 3) await append(log, ...stored.slice(i, i + 3));
    expect(log.segments.length).toBeGreaterThan(3);
    await log.close();
    for (const file of segmentFiles(disk)) {
      expect(disk.bytesOf(path.join(LEDGER, file)).length).toBeLessThanOrEqual(SEGMENT_BYTES);
    }
    expect(disk.fileNames(LEDGER)).not.toContain('next.segment');
    expect(read(disk.afterPowerLoss())).toEqual(asRead(stored));
  });

  test('gives a batch that is larger than a segment its own segment, allocated in full beforehand', async () => {
    const disk = new MemoryDisk();
    const log = await open(disk);
    const small = events(1);
    await append(log, ...small);
    const large = events(3, 'y'.repeat(SEGMENT_BYTES));
    const sizes: number[] = [];
    disk.onCall = (operation) => {
      if (operation === 'write') sizes.push(disk.bytesOf(lastSegment(disk)).length);
    };
    await append(log, ...large);
    const bytes = SEGMENT_HEADER_BYTES + large.reduce((sum, event) => sum + frameSize(event), 0);
    expect(sizes.at(-1)).toBe(bytes);
    await append(log, ...small);
    expect(segmentFiles(disk)).toEqual([1, 2, 5].map(segmentName));
    expect(read(disk)).toEqual(asRead([...small, ...large, ...small]));
    await log.close();
    // A file that ends exactly after its last frame.
    const exact = new MemoryDisk();
    const other = await open(exact);
    await append(other, ...large);
    await other.close();
    const reopened = await open(exact);
    expect([...reopened.framesFrom(reopened.end)]).toEqual([]);
    expect(reopened.nextSequence).toBe(4);
  });

  test('can be cut off by a kill or a power failure at any call, and the next start has every event stored before', async () => {
    const filler = events(24, 'z'.repeat(600));
    for (const power of [false, true]) {
      let crashes = 0;
      for (let nth = 1; ; nth++) {
        const disk = new MemoryDisk();
        const crashed: { disk?: MemoryDisk; acknowledged?: number } = {};
        let calls = 0;
        let acknowledged = 0;
        disk.onCall = () => {
          if (++calls !== nth) return;
          crashed.disk = power ? disk.afterPowerLoss() : disk.afterKill();
          crashed.acknowledged = acknowledged;
        };
        const log = await open(disk);
        for (const event of filler) {
          await append(log, event);
          acknowledged++;
        }
        await log.close();
        if (!crashed.disk) break;
        crashes++;
        const reopened = await open(crashed.disk);
        const found = read(crashed.disk);
        expect(found, `call ${nth}`).toEqual(asRead(filler.slice(0, found.length)));
        expect(found.length).toBeGreaterThanOrEqual(crashed.acknowledged ?? 0);
        await append(reopened, ...events(1, 'w'.repeat(SEGMENT_BYTES / 2)), ...events(1));
        const after = read(crashed.disk.afterPowerLoss());
        expect(after.map(({ sequence }) => sequence)).toEqual(
          Array.from({ length: found.length + 2 }, (_, i) => i + 1),
        );
        expect(crashed.disk.fileNames(LEDGER).filter((name) => name.startsWith('next')).length).toBeLessThan(
          2,
        );
      }
      expect(crashes).toBeGreaterThan(60);
    }
  });

  test.each([
    ['an earlier', (bytes: Buffer) => bytes.write('CLINEVNT', 'latin1')],
    ['an earlier, compacted', (bytes: Buffer) => bytes.write('CLINEVNC', 'latin1')],
    ['a later', (bytes: Buffer) => [12, SEGMENT_HEADER_BYTES + 8].forEach((at) => (bytes[at] = 2))],
  ])(
    '[R-2031] refuses a log of %s format in one sentence, and changes nothing of it',
    async (which, change) => {
      const disk = new MemoryDisk();
      const log = await open(disk);
      await append(log, candidate());
      await log.close();
      const file = path.join(LEDGER, segmentName(1));
      const fd = disk.files.open(file, 'r+');
      // With the version of the first frame.
      const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES + 9);
      disk.files.read(fd, bytes, 0, bytes.length, 0);
      change(bytes);
      bytes.writeUInt32LE(crc32(bytes.subarray(12, SEGMENT_HEADER_BYTES)), 8);
      disk.files.write(fd, bytes, bytes.length, 0);
      const size = disk.files.size(fd);
      const before = Buffer.alloc(size);
      disk.files.read(fd, before, 0, size, 0);
      await expect(open(disk)).rejects.toThrow(
        new RegExp(
          `was written by ${which.split(',')[0]}.* version of the collector; this version reads format 1 only`,
        ),
      );
      const after = Buffer.alloc(size);
      disk.files.read(fd, after, 0, size, 0);
      expect(after.equals(before)).toBe(true);
      disk.files.close(fd);
    },
  );

  test('removes a next.segment that an earlier process began', async () => {
    const disk = new MemoryDisk();
    const log = await open(disk);
    const stored = events(2);
    await append(log, ...stored);
    disk.put(path.join(LEDGER, 'next.segment'), Buffer.alloc(100, 7));
    const crashed = disk.afterKill();
    const reopened = await open(crashed);
    expect(crashed.fileNames(LEDGER)).toEqual([segmentName(1)]);
    const more = events(60, 'x'.repeat(200));
    for (const event of more) await append(reopened, event);
    expect(read(crashed)).toEqual(asRead([...stored, ...more]));
  });

  test('into an empty last segment continues from there', async () => {
    const disk = new MemoryDisk();
    const log = await open(disk);
    const stored = events(20, 'x'.repeat(600));
    for (const event of stored) {
      if (log.segments.length > 1) break;
      await log.makeRoom(frameSize(event));
      if (log.segments.length === 1) await append(log, event);
    }
    const crashed = disk.afterPowerLoss();
    const reopened = await open(crashed);
    expect(reopened.segments.length).toBe(2);
    const { nextSequence } = reopened;
    const [next = candidate()] = events(1);
    await append(reopened, next);
    expect(read(crashed)).toEqual([
      ...asRead(stored.slice(0, nextSequence - 1)),
      ...asRead([next], nextSequence),
    ]);
  });

  test('does not try with every batch to allocate room that is not there yet', async () => {
    const disk = new MemoryDisk();
    disk.capacity = SEGMENT_BYTES * 1.5;
    let troubles = 0;
    const log = await open(disk, { onRoomTrouble: () => troubles++ });
    for (let i = 0; i < 30; i++) {
      await append(log, ...events(1));
      await new Promise(setImmediate);
    }
    expect(log.segments.length).toBe(1);
    expect([troubles, disk.calls.get('createZeroed')]).toEqual([1, 2]);
  });

  test('frees the space when there is not enough of it, and continues when there is', async () => {
    const disk = new MemoryDisk();
    disk.capacity = SEGMENT_BYTES * 1.5;
    let troubles = 0;
    const log = await open(disk, { onRoomTrouble: () => troubles++ });
    const [event = candidate()] = events(1, 'x'.repeat(1500));
    let stored = 0;
    let refused = 0;
    for (let i = 0; i < 8; i++) {
      try {
        await append(log, event);
        stored++;
      } catch (error) {
        expect(error).toBeInstanceOf(NotCommitted);
        refused++;
      }
      await new Promise(setImmediate);
      expect(disk.fileNames(LEDGER)).toEqual([segmentName(1)]);
    }
    expect([stored, refused]).toEqual([4, 4]);
    expect(troubles).toBeGreaterThan(0);
    disk.capacity = Infinity;
    await append(log, event);
    expect(segmentFiles(disk)).toEqual([1, 5].map(segmentName));
    expect(read(disk).length).toBe(5);
  });
});

describe('a proof that there is room', () => {
  test('[R-604] fails while there is no room, and then allocates room for the next batch', async () => {
    const disk = new MemoryDisk();
    disk.capacity = SEGMENT_BYTES * 1.5;
    const log = await open(disk);
    const [event = candidate()] = events(1, 'x'.repeat(1500));
    for (let i = 0; i < 4; i++) await append(log, event);
    await expect(append(log, event)).rejects.toBeInstanceOf(NotCommitted);
    await expect(log.prove()).rejects.toBeInstanceOf(NotCommitted);
    expect(disk.fileNames(LEDGER)).toEqual([segmentName(1)]);
    disk.capacity = Infinity;
    await log.prove();
    const made = disk.calls.get('createZeroed');
    await append(log, event);
    expect(disk.calls.get('createZeroed')).toBe(made);
    expect(read(disk.afterPowerLoss()).length).toBe(5);
  });

  test.each<Manner>(['before', 'partly', 'after'])(
    '[R-604] fails when nothing can be written, %s, and leaves nothing',
    async (manner) => {
      const disk = new MemoryDisk();
      const log = await open(disk);
      await append(log, ...events(3));
      disk.fail('write', 1, manner);
      await expect(log.prove()).rejects.toBeInstanceOf(NotCommitted);
      disk.heal();
      await log.prove();
      await append(log, ...events(1, 'next'));
      expect(read(disk.afterPowerLoss())).toEqual(read(disk));
      expect(read(disk).length).toBe(4);
    },
  );

  test('[R-605] ends the log when its flush fails', async () => {
    const disk = new MemoryDisk();
    const log = await open(disk);
    disk.fail('datasync', 1, 'before');
    await expect(log.prove()).rejects.toBeInstanceOf(CommitUnknown);
    disk.heal();
    await expect(append(log, ...events(1))).rejects.toBeInstanceOf(CommitUnknown);
  });
});

describe('another process', () => {
  const LOCK = '/data/lock';
  const hands: readonly [string, string, (disk: MemoryDisk, segment: string) => void][] = [
    ['removes the lock', LOCK, (disk) => disk.remove(LOCK)],
    ['replaces the lock', LOCK, (disk) => disk.put(LOCK, Buffer.alloc(0))],
    ['removes the segment', 'segment', (disk, segment) => disk.remove(segment)],
    [
      'replaces the segment by its copy',
      'segment',
      (disk, segment) => disk.put(segment, Buffer.from(disk.bytesOf(segment))),
    ],
    ['cuts the segment', 'segment', (disk, segment) => resize(disk, segment, -1)],
    ['lengthens the segment', 'segment', (disk, segment) => resize(disk, segment, 1)],
    ['fills the segment with zeros', 'segment', (disk, segment) => void disk.bytesOf(segment).fill(0)],
    [
      'fills the events with zeros',
      'segment',
      (disk, segment) => void disk.bytesOf(segment).fill(0, SEGMENT_HEADER_BYTES),
    ],
    ['changes the header', 'segment', (disk, segment) => void disk.bytesOf(segment).fill(0xff, 8, 16)],
  ];

  function resize(disk: MemoryDisk, file: string, by: number): void {
    const fd = disk.files.open(file, 'r+');
    disk.files.truncate(fd, disk.files.size(fd) + by);
    disk.files.close(fd);
  }

  async function held(disk: MemoryDisk, restarted: boolean): Promise<SegmentLog> {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    disk.put(LOCK, Buffer.alloc(0));
    const lock = { path: LOCK, id: disk.files.look(LOCK)?.id ?? '' };
    const log = await open(disk, { lock });
    await append(log, ...events(2));
    await append(log, ...events(2));
    if (!restarted) return log;
    await log.close();
    return open(disk, { lock });
  }

  for (const restarted of [false, true]) {
    const when = restarted ? 'after a start' : 'while the log is written';
    test.each(hands)(
      `[R-605] that %s is found by a look ${when}, and the file named`,
      async (_, file, act) => {
        const disk = new MemoryDisk();
        const log = await held(disk, restarted);
        log.look();
        act(disk, lastSegment(disk));
        const name = file === LOCK ? LOCK : path.join(LEDGER, segmentName(1));
        expect(() => log.look()).toThrow(name);
        expect(() => log.look()).toThrow(CommitUnknown);
        await expect(append(log, ...events(1))).rejects.toBeInstanceOf(CommitUnknown);
      },
    );
  }

  test.each(hands)(
    '[R-605] that %s keeps a batch from being acknowledged a second later',
    async (_, __, act) => {
      const disk = new MemoryDisk();
      const log = await held(disk, false);
      act(disk, lastSegment(disk));
      vi.advanceTimersByTime(1000);
      await expect(append(log, ...events(1))).rejects.toBeInstanceOf(CommitUnknown);
    },
  );

  test.each(hands)('[R-605] that %s during a flush of a second does so as well', async (_, __, act) => {
    const disk = new MemoryDisk();
    const log = await held(disk, false);
    const segment = lastSegment(disk);
    disk.onCall = (operation) => {
      if (operation !== 'datasync') return;
      act(disk, segment);
      vi.advanceTimersByTime(1000);
    };
    await expect(append(log, ...events(1))).rejects.toBeInstanceOf(CommitUnknown);
  });

  test.each(hands)('[R-605] that %s is found before the log rolls', async (_, __, act) => {
    const disk = new MemoryDisk();
    const log = await held(disk, false);
    act(disk, lastSegment(disk));
    const before = segmentFiles(disk);
    await expect(append(log, ...events(3, 'x'.repeat(2500)))).rejects.toBeInstanceOf(CommitUnknown);
    expect(segmentFiles(disk)).toEqual(before);
  });

  test('[R-605] that shortens a new segment before its name is durable is found', async () => {
    const disk = new MemoryDisk();
    const log = await held(disk, false);
    disk.onCall = (operation) => {
      if (operation === 'syncDirectory') resize(disk, lastSegment(disk), -1);
    };
    await append(log, ...events(3, 'x'.repeat(2500)));
    disk.onCall = () => undefined;
    expect(() => log.look()).toThrow(CommitUnknown);
  });

  test('[R-605] is never reported by mistake, whatever is stored, refused or rolled', async () => {
    const disk = new MemoryDisk();
    const log = await held(disk, false);
    for (let i = 0; i < 40; i++) {
      if (i % 7 === 3) disk.fail('write', 1, 'partly');
      await append(log, ...events(2, 'x'.repeat(500))).catch((error: unknown) =>
        expect(error).toBeInstanceOf(NotCommitted),
      );
      disk.heal();
      if (i % 5 === 0) await log.prove();
      log.look();
      vi.advanceTimersByTime(700);
    }
    expect(log.segments.length).toBeGreaterThan(3);
  });

  test('[R-605] is not reported when a segment without room grows, and each flush takes a second', async () => {
    const disk = new MemoryDisk();
    await (await held(disk, false)).close();
    const lock = { path: LOCK, id: disk.files.look(LOCK)?.id ?? '' };
    const log = await open(disk, { lock, segmentBytes: 16 * SEGMENT_BYTES });
    const { length } = disk.bytesOf(lastSegment(disk));
    disk.onCall = (operation) => {
      if (operation === 'datasync') vi.advanceTimersByTime(1000);
    };
    for (let i = 0; i < 10; i++) await append(log, ...events(2, 'x'.repeat(500)));
    expect(disk.bytesOf(lastSegment(disk)).length).toBeGreaterThan(length);
    expect(log.segments).toHaveLength(1);
  });
});

describe('a call that fails', () => {
  test('[R-604] at any call leaves the log whole: acknowledged events are there, uncommitted ones are not', async () => {
    const batches = [2, 3, 1, 4, 2, 5, 1, 3, 2, 4].map((count, i) =>
      events(count, 'x'.repeat(300 * (i % 5))),
    );
    let faults = 0;
    for (const operation of OPERATIONS) {
      for (const manner of ['before', 'partly', 'after'] satisfies Manner[]) {
        for (let nth = 1; ; nth++) {
          const label = `${operation} ${nth} ${manner}`;
          const disk = new MemoryDisk();
          disk.fail(operation, nth, manner);
          const acknowledged: Candidate[] = [];
          const unknown: Candidate[] = [];
          try {
            const log = await open(disk);
            for (const batch of batches) {
              try {
                await append(log, ...batch);
                acknowledged.push(...batch);
              } catch (error) {
                if (error instanceof NotCommitted) continue;
                expect(error, label).toBeInstanceOf(CommitUnknown);
                unknown.push(...batch);
                await expect(append(log, ...events(1)), label).rejects.toThrow();
                break;
              }
            }
            await log.close();
          } catch (error) {
            if (![NotCommitted, CommitUnknown, DiskFault].some((type) => error instanceof type)) throw error;
          }
          if (!disk.heal()) break;
          faults++;
          for (const crashed of [disk.afterKill(), disk.afterPowerLoss()]) {
            const reopened = await open(crashed);
            const found = read(crashed);
            const possible = asRead([...acknowledged, ...unknown]);
            expect(found, label).toEqual(possible.slice(0, found.length));
            expect(found.length, label).toBeGreaterThanOrEqual(acknowledged.length);
            await append(reopened, ...events(1));
            // What a start has found is durable, even if it had only been in memory after a failed flush.
            expect(read(crashed.afterPowerLoss()).length, label).toBe(found.length + 1);
          }
        }
      }
    }
    expect(faults).toBeGreaterThan(100);
  });
});

describe('[R-2025] a segment that is ended early', () => {
  const firsts = (log: SegmentLog) => log.segments.map(({ firstSequence }) => firstSequence);

  test('is not written to any more, and an empty one is not ended again', async () => {
    const disk = new MemoryDisk();
    const log = await open(disk);
    await log.endSegment();
    const stored = events(3);
    await append(log, ...stored.slice(0, 2));
    await log.endSegment();
    await log.endSegment();
    expect(firsts(log)).toEqual([1, 3]);
    const [ended = ''] = segmentFiles(disk);
    const bytes = Buffer.from(disk.bytesOf(path.join(LEDGER, ended)));
    await append(log, ...stored.slice(2));
    expect(disk.bytesOf(path.join(LEDGER, ended))).toEqual(bytes);
    await log.close();
    const reopened = await open(disk.afterPowerLoss());
    expect(firsts(reopened)).toEqual([1, 3]);
    expect(read(disk.afterPowerLoss())).toEqual(asRead(stored));
  });

  test('loses and doubles nothing, at whatever moment of a batch it is ended, and for any size', async () => {
    const whole = fc.array(
      fc.record({
        bytes: fc.constantFrom(10, 900, 3000, 2 * SEGMENT_BYTES),
        ends: fc.nat(2),
        waits: fc.nat(6),
      }),
      { minLength: 3, maxLength: 25 },
    );
    await fc.assert(
      fc.asyncProperty(whole, async (steps) => {
        const disk = new MemoryDisk();
        const log = await open(disk);
        const stored: Candidate[] = [];
        const ended: Promise<void>[] = [];
        for (const { bytes, ends, waits } of steps) {
          for (let i = 0; i < ends; i++) ended.push(log.endSegment());
          for (let i = 0; i < waits; i++) await Promise.resolve();
          const batch = events(2, 'x'.repeat(bytes));
          const appended = append(log, ...batch);
          if (waits % 2 === 1) ended.push(log.endSegment());
          await appended;
          stored.push(...batch);
          expect(read(disk.afterPowerLoss())).toEqual(asRead(stored));
        }
        await Promise.all(ended);
        await log.close();
        await open(disk.afterPowerLoss());
        expect(read(disk.afterPowerLoss())).toEqual(asRead(stored));
      }),
      { numRuns: runs(100) },
    );
  });

  test('can be cut off by a kill or a power failure at any call, and the next start has every event stored before', async () => {
    for (const power of [false, true]) {
      for (let nth = 1; ; nth++) {
        const disk = new MemoryDisk();
        const log = await open(disk);
        const stored = events(6, 'z'.repeat(300));
        await append(log, ...stored.slice(0, 2));
        let calls = 0;
        let acknowledged = 2;
        let crashed: { readonly disk: MemoryDisk; readonly acknowledged: number } | undefined;
        disk.onCall = () => {
          if (++calls === nth)
            crashed = { disk: power ? disk.afterPowerLoss() : disk.afterKill(), acknowledged };
        };
        const ended = log.endSegment();
        for (const event of stored.slice(2)) {
          await append(log, event);
          acknowledged++;
        }
        await ended;
        if (crashed === undefined) {
          expect(log.segments.length).toBe(2);
          expect(nth).toBeGreaterThan(10);
          break;
        }
        await open(crashed.disk);
        const found = read(crashed.disk);
        expect(found, `call ${nth}`).toEqual(asRead(stored.slice(0, found.length)));
        expect(found.length).toBeGreaterThanOrEqual(crashed.acknowledged);
      }
    }
  });

  test('is not ended while the disk is full, and takes events that still fit', async () => {
    const disk = new MemoryDisk();
    disk.capacity = SEGMENT_BYTES * 1.5;
    const log = await open(disk);
    const stored = events(3);
    await append(log, ...stored.slice(0, 1));
    await expect(log.endSegment()).rejects.toThrow();
    await append(log, ...stored.slice(1, 2));
    expect(firsts(log)).toEqual([1]);
    disk.capacity = Infinity;
    await log.endSegment();
    await append(log, ...stored.slice(2));
    expect(firsts(log)).toEqual([1, 3]);
    expect(read(disk.afterPowerLoss())).toEqual(asRead(stored));
  });
});
