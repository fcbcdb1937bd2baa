/** Segments without the payloads of erased events: what readers see, what is on the disk, and what a crash leaves. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { SALT_BYTES } from '@clinical-events/protocol';
import { type Files, nodeFiles } from '../../../src/files.js';
import { SequenceSet } from '../../../src/privacy/sequence-set.js';
import { compactedAt, compactLog, type Erasure } from '../../../src/store/embedded/compaction.js';
import { StoreDamaged } from '../../../src/store/contract/events.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import { runs } from '../../../../../test/property-runs.js';
import { candidate, type Made } from '../candidate.js';
import { encryptionIn, fillDirectory, flipBit, segmentPaths } from './filled-directory.js';
import { killedAt } from './killed-files.js';

let dataDir: string;

beforeEach(() => {
  dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-compacted-'));
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

/** Artifacts of a run each ten, whose frames take some 1,300 bytes. */
function events(count: number, bytes = 1100): Made[] {
  let runId = crypto.randomUUID();
  return Array.from({ length: count }, (_, i) => {
    if (i % 10 === 0) runId = crypto.randomUUID();
    return candidate({
      kind: 'internal-artifact',
      organisation: 'icu',
      runId,
      body: { text: `${i} `.padEnd(bytes, 'x') },
    });
  });
}

async function readAll(): Promise<unknown[]> {
  const log = new LogReader(dataDir, nodeFiles);
  try {
    const found: unknown[] = [];
    for await (const batch of log.entries())
      for (const { body, salted, envelope, commitment, payloadState, ...facts } of batch) {
        const said =
          payloadState === 'plain'
            ? { body: body.toString(), salt: salted.toString('hex', 0, SALT_BYTES) }
            : {};
        found.push({
          ...facts,
          ...said,
          payloadState,
          envelope: envelope.toString('hex'),
          commitment: commitment.toString('hex'),
        });
      }
    return found;
  } finally {
    await log.close();
  }
}

let entries = 1000;
/** As an entry of the log orders it. */
const erasure = (erased: SequenceSet): Erasure => ({
  sequence: entries++,
  entryId: crypto.randomUUID(),
  erased,
});
const compactBy = (erasures: readonly Erasure[], files: Files = nodeFiles) =>
  compactLog(dataDir, erasures, {
    files,
    onTrouble(error) {
      throw error;
    },
  });
const compactNow = (erased: SequenceSet, files?: Files) => compactBy([erasure(erased)], files);
const diskBytes = () =>
  segmentPaths(dataDir)
    .slice(0, -1)
    .reduce((sum, file) => sum + fs.statSync(file).size, 0);
const all = (from: number, end: number) => SequenceSet.ofStretches([{ first: from, end }]);

function withErased(entries: readonly unknown[], erased: SequenceSet, last: number): unknown[] {
  return entries.map((entry) => {
    const { body, salt, ...facts } = entry as Record<string, unknown>;
    const isErased = erased.has(Number(facts['sequence'])) && Number(facts['sequence']) < last;
    return isErased ? { ...facts, payloadState: 'erased' } : { ...facts, body, salt };
  });
}

/** The first sequence of the segment that is written to. */
const newest = () => Number.parseInt(path.basename(segmentPaths(dataDir).at(-1) ?? ''), 10);

describe('[R-2025] a compacted segment', () => {
  test('reads as before, except for erased events, at the same places', async () => {
    const sent = events(200);
    await fillDirectory(dataDir, [sent.slice(0, 90), sent.slice(90)], 48 << 10, encryptionIn(dataDir));
    const before = await readAll();
    const places: { sequence: number; at: number; size: number }[] = [];
    const log = new LogReader(dataDir, nodeFiles);
    onTestFinished(() => log.close());
    for await (const batch of log.pass())
      for (const { sequence, at, size } of batch) places.push({ sequence, at, size });
    const erased = SequenceSet.of([1, 2, 3, 5, 8, 13, 21, ...Array.from({ length: 60 }, (_, i) => 40 + i)]);
    await compactNow(erased);
    expect(await readAll()).toEqual(withErased(before, erased, newest()));
    const again: typeof places = [];
    const anew = new LogReader(dataDir, nodeFiles);
    onTestFinished(() => anew.close());
    for await (const batch of anew.pass())
      for (const { sequence, at, size } of batch) again.push({ sequence, at, size });
    expect(again).toEqual(places);
    const read = await anew.read(places.filter((_, i) => i % 7 === 0));
    for (const [i, { sequence }] of places.filter((_, place) => place % 7 === 0).entries()) {
      expect(read.facts(i).sequence).toBe(sequence);
      const isGone = erased.has(sequence) && sequence < newest();
      expect(read.body(i)).toBe(isGone ? undefined : sent[sequence - 1]?.body.toString());
    }
    const found = await anew.find('icu', sent[44]?.eventId ?? new Uint8Array(16));
    expect(found?.sequence).toBe(45);
    // A reader from before continues, with the old file or the new one.
    expect((await log.read([places[99] ?? { at: 0, size: 0 }])).facts(0).sequence).toBe(100);
  });

  test('of frames of 1.3 KB that are all erased frees 92 percent of their bytes', async () => {
    await fillDirectory(dataDir, chunked(events(2000), 200), 1 << 20, encryptionIn(dataDir));
    const before = diskBytes();
    await compactNow(all(1, 2001));
    expect(diskBytes() / before).toBeLessThan(0.08);
  });

  test('has no byte of the payload or salt of erased events', async () => {
    const sent = events(120);
    await fillDirectory(dataDir, [sent], 32 << 10);
    await compactNow(all(1, newest()));
    const files = segmentPaths(dataDir)
      .slice(0, -1)
      .map((file) => fs.readFileSync(file));
    for (const { salted } of sent.slice(0, newest() - 1))
      for (const file of files)
        expect(file.includes(Buffer.from(salted.subarray(0, SALT_BYTES)))).toBe(false);
  });

  test('is compacted again when more of it is erased', async () => {
    await fillDirectory(dataDir, chunked(events(300), 50), 64 << 10, encryptionIn(dataDir));
    const before = await readAll();
    await compactNow(all(1, 100));
    const once = diskBytes();
    const more = all(1, newest());
    await compactNow(more);
    expect(diskBytes()).toBeLessThan(once);
    expect(await readAll()).toEqual(withErased(before, more, newest()));
  });

  test('equals the log without the erased events, whatever was stored and erased', async () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 9000 }), { minLength: 20, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(
        sizes,
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 5 }),
        async (lengths, gone) => {
          fs.rmSync(dataDir, { recursive: true });
          const sent = lengths.map((length, i) => candidate({ body: { text: `${i}`.padEnd(length, 'y') } }));
          await fillDirectory(dataDir, chunked(sent, 7), 16 << 10, encryptionIn(dataDir));
          const before = await readAll();
          const erased = SequenceSet.of(gone);
          await compactNow(erased);
          const after = (await readAll()) as Record<string, unknown>[];
          for (const [i, entry] of after.entries()) {
            const expected = before[i] as Record<string, unknown>;
            const { payloadState, body, salt, ...facts } = entry;
            expect(facts).toEqual({
              ...expected,
              payloadState: undefined,
              body: undefined,
              salt: undefined,
              ...facts,
            });
            const sequence = Number(facts['sequence']);
            expect(payloadState === 'erased').toBe(erased.has(sequence) && sequence < newest());
            if (payloadState !== 'erased')
              expect({ body, salt }).toEqual({ body: expected['body'], salt: expected['salt'] });
          }
          expect(after).toHaveLength(before.length);
        },
      ),
      { numRuns: runs(20) },
    );
  });
});

describe('[R-2025] a compaction', () => {
  test('that is interrupted at any step leaves a log that reads as before, and is done the next time', async () => {
    await fillDirectory(dataDir, chunked(events(100), 25), 48 << 10, encryptionIn(dataDir));
    const before = await readAll();
    const erased = all(1, newest());
    fs.cpSync(dataDir, `${dataDir}.0`, { recursive: true });
    onTestFinished(() => fs.rmSync(`${dataDir}.0`, { recursive: true, force: true }));
    for (let step = 1; ; step++) {
      fs.rmSync(dataDir, { recursive: true });
      fs.cpSync(`${dataDir}.0`, dataDir, { recursive: true });
      const isWhole = await compactNow(erased, killedAt(step).files).then(
        () => true,
        () => false,
      );
      for (const [i, entry] of (await readAll()).entries()) {
        const { payloadState } = entry as { payloadState: string };
        if (payloadState !== 'erased') expect(entry).toEqual(before[i]);
      }
      await compactNow(erased);
      expect(await readAll()).toEqual(withErased(before, erased, newest()));
      if (isWhole) break;
    }
  });

  test('of a log whose segment is damaged is refused, and leaves it unchanged', async () => {
    await fillDirectory(dataDir, chunked(events(100), 25), 48 << 10, encryptionIn(dataDir));
    const [first = ''] = segmentPaths(dataDir);
    flipBit(first, 2000);
    const bytes = fs.readFileSync(first);
    await expect(compactNow(all(1, newest()))).rejects.toThrow(/the frame is damaged/);
    expect(fs.readFileSync(first)).toEqual(bytes);
  });

  test('leaves a file in which any damage is detected', async () => {
    await fillDirectory(dataDir, chunked(events(100), 25), 48 << 10, encryptionIn(dataDir));
    await compactNow(SequenceSet.of(Array.from({ length: 30 }, (_, i) => 2 * i + 1)));
    const [first = ''] = segmentPaths(dataDir);
    const whole = fs.readFileSync(first);
    expect(whole.toString('latin1', 0, 8)).toBe('CLINSEGC');
    for (let at = 0; at < whole.length; at += 97) {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] ?? 0) ^ 4;
      fs.writeFileSync(first, bytes);
      await expect(readAll(), `byte ${at}`).rejects.toThrow();
    }
    for (const length of [0, 40, 64, 80, 1000, whole.length - 1]) {
      fs.writeFileSync(first, whole.subarray(0, length));
      await expect(readAll(), `${length} bytes`).rejects.toThrow();
    }
  });
});

describe('[R-2025] a segment that is due', () => {
  const filesNow = () => segmentPaths(dataDir).map((file) => fs.statSync(file).ino);
  const changedSince = (before: readonly number[]) =>
    filesNow().flatMap((ino, i) => (ino === before[i] ? [] : [i]));
  const firstOf = (i: number) => Number.parseInt(path.basename(segmentPaths(dataDir)[i] ?? ''), 10);

  beforeEach(async () => {
    await fillDirectory(dataDir, chunked(events(200), 20), 48 << 10, encryptionIn(dataDir));
    expect(segmentPaths(dataDir).length).toBeGreaterThan(3);
  });

  test('is each with an erased event, also with a single one, once for each erasure', async () => {
    const erasures = [erasure(SequenceSet.of([firstOf(1)]))];
    const before = filesNow();
    await compactBy(erasures);
    expect(changedSince(before)).toEqual([1]);
    const done = filesNow();
    await compactBy(erasures);
    expect(changedSince(done)).toEqual([]);
    erasures.push(erasure(SequenceSet.of([firstOf(2)])));
    await compactBy(erasures);
    expect(changedSince(done)).toEqual([2]);
    erasures.push(erasure(SequenceSet.of([firstOf(1) + 1, newest()])));
    const twice = filesNow();
    await compactBy(erasures);
    expect(changedSince(twice)).toEqual([1]);
    const states = ((await readAll()) as { payloadState: string; sequence: number }[]).flatMap(
      ({ payloadState, sequence }) => (payloadState === 'erased' ? [sequence] : []),
    );
    expect(states).toEqual([firstOf(1), firstOf(1) + 1, firstOf(2)]);
  });

  test('is due again where the log has lost the erasure of a compaction, and another has its number', async () => {
    const lost = erasure(SequenceSet.of([firstOf(1)]));
    await compactBy([lost]);
    const before = filesNow();
    await compactBy([{ ...erasure(SequenceSet.of([firstOf(1) + 1])), sequence: lost.sequence }]);
    expect(changedSince(before)).toEqual([1]);
  });

  test('[R-1344] has the time of the first compaction after an erasure, whatever is erased later', async () => {
    const [one, two] = [erasure(SequenceSet.of([1])), erasure(SequenceSet.of([2, firstOf(1)]))];
    expect(compactedAt(dataDir, one)).toBeUndefined();
    await compactBy([one]);
    const at = compactedAt(dataDir, one) ?? 0;
    expect(Date.now() - at).toBeLessThan(3_600_000);
    vi.spyOn(Date, 'now').mockReturnValue(at + 86_400_000);
    onTestFinished(() => void vi.restoreAllMocks());
    await compactBy([one, two]);
    expect([compactedAt(dataDir, one), compactedAt(dataDir, two)]).toEqual([at, at + 86_400_000]);
  });

  test('[R-2025] is left if it is damaged or the disk has no room, and the others are compacted', async () => {
    flipBit(segmentPaths(dataDir)[1] ?? '', 2000);
    const before = filesNow();
    const troubles: unknown[] = [];
    const erasures = [erasure(all(1, newest()))];
    const options = { onTrouble: (error: unknown) => void troubles.push(error) };
    const room = Object.assign(await fs.promises.statfs(dataDir), { bavail: 8, bsize: 4096 });
    const full = vi.spyOn(fs.promises, 'statfs').mockResolvedValue(room);
    await compactLog(dataDir, erasures, options);
    expect([changedSince(before), troubles]).toEqual([
      [],
      before.slice(1).map(() => expect.objectContaining({ code: 'ENOSPC' }) as unknown),
    ]);
    full.mockRestore();
    troubles.length = 0;
    await compactLog(dataDir, erasures, options);
    expect(changedSince(before)).toEqual(before.slice(0, -1).flatMap((_, i) => (i === 1 ? [] : [i])));
    expect(troubles).toEqual([expect.any(StoreDamaged)]);
    expect(fs.readdirSync(path.join(dataDir, 'ledger')).filter((name) => name.endsWith('.draft'))).toEqual(
      [],
    );
  });
});

function chunked<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}
