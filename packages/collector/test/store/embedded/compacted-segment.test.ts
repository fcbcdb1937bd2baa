/** Segments without the payloads of retired events: what readers see, what is on the disk, and what a crash leaves. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { SALT_BYTES } from '@clinical-events/protocol';
import { type Files, nodeFiles } from '../../../src/files.js';
import { SequenceSet } from '../../../src/privacy/sequence-set.js';
import { compactLog } from '../../../src/store/embedded/compacted-segment.js';
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

const compactNow = (retired: SequenceSet, files?: Files) =>
  compactLog(dataDir, retired, () => undefined, files);
const diskBytes = () =>
  segmentPaths(dataDir)
    .slice(0, -1)
    .reduce((sum, file) => sum + fs.statSync(file).size, 0);
const all = (from: number, end: number) => SequenceSet.ofStretches([{ first: from, end }]);

function withRetired(entries: readonly unknown[], retired: SequenceSet, last: number): unknown[] {
  return entries.map((entry) => {
    const { body, salt, ...facts } = entry as Record<string, unknown>;
    const isRetired = retired.has(Number(facts['sequence'])) && Number(facts['sequence']) < last;
    return isRetired ? { ...facts, payloadState: 'retired' } : { ...facts, body, salt };
  });
}

/** The first sequence of the segment that is written to. */
const newest = () => Number.parseInt(path.basename(segmentPaths(dataDir).at(-1) ?? ''), 10);

describe('[R-1345] a compacted segment', () => {
  test('reads as it did, but for what was retired, at the same places', async () => {
    const sent = events(200);
    await fillDirectory(dataDir, [sent.slice(0, 90), sent.slice(90)], 48 << 10, encryptionIn(dataDir));
    const before = await readAll();
    const places: { sequence: number; at: number; size: number }[] = [];
    const log = new LogReader(dataDir, nodeFiles);
    onTestFinished(() => log.close());
    for await (const batch of log.pass())
      for (const { sequence, at, size } of batch) places.push({ sequence, at, size });
    const retired = SequenceSet.of([1, 2, 3, 5, 8, 13, 21, ...Array.from({ length: 60 }, (_, i) => 40 + i)]);
    await compactNow(retired);
    expect(await readAll()).toEqual(withRetired(before, retired, compactedTo(retired)));
    const again: typeof places = [];
    const anew = new LogReader(dataDir, nodeFiles);
    onTestFinished(() => anew.close());
    for await (const batch of anew.pass())
      for (const { sequence, at, size } of batch) again.push({ sequence, at, size });
    expect(again).toEqual(places);
    const read = await anew.read(places.filter((_, i) => i % 7 === 0));
    for (const [i, { sequence }] of places.filter((_, place) => place % 7 === 0).entries()) {
      expect(read.facts(i).sequence).toBe(sequence);
      const isGone = retired.has(sequence) && sequence < compactedTo(retired);
      expect(read.body(i)).toBe(isGone ? undefined : sent[sequence - 1]?.body.toString());
    }
    const found = await anew.find('icu', sent[44]?.eventId ?? new Uint8Array(16));
    expect(found?.sequence).toBe(45);
    // A reader that was there before goes on, with the old file or the new one.
    expect((await log.read([places[99] ?? { at: 0, size: 0 }])).facts(0).sequence).toBe(100);
  });

  /** Segments that had too little to win stay as they were. */
  function compactedTo(retired: SequenceSet): number {
    const log = segmentPaths(dataDir).filter(
      (file) => fs.readFileSync(file).toString('latin1', 0, 8) === 'CLINSEGC',
    );
    expect(log.length).toBeGreaterThan(0);
    return retired.size > 0 ? newest() : 0;
  }

  test('of frames of 1.3 KB that are all retired gives 92 percent of their bytes back', async () => {
    await fillDirectory(dataDir, chunked(events(2000), 200), 1 << 20, encryptionIn(dataDir));
    const before = diskBytes();
    const won = await compactNow(all(1, 2001));
    expect(won.before - won.after).toBe(before - diskBytes());
    expect(diskBytes() / before).toBeLessThan(0.08);
  });

  test('has no byte of payload or salt of what was retired', async () => {
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

  test('is compacted again when more of it is retired', async () => {
    await fillDirectory(dataDir, chunked(events(300), 50), 64 << 10, encryptionIn(dataDir));
    const before = await readAll();
    await compactNow(all(1, 100));
    const once = diskBytes();
    const more = all(1, newest());
    await compactNow(more);
    expect(diskBytes()).toBeLessThan(once);
    expect(await readAll()).toEqual(withRetired(before, more, newest()));
  });

  test('whatever was stored and retired, is the log without that', async () => {
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
          const retired = SequenceSet.of(gone);
          await compactNow(retired);
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
            if (payloadState === 'retired') expect(retired.has(Number(facts['sequence']))).toBe(true);
            else expect({ body, salt }).toEqual({ body: expected['body'], salt: expected['salt'] });
          }
          expect(after).toHaveLength(before.length);
        },
      ),
      { numRuns: runs(20) },
    );
  });
});

describe('[R-1346] a compaction', () => {
  test('that is cut off at any step leaves a log that reads as before, and is done the next time', async () => {
    await fillDirectory(dataDir, chunked(events(100), 25), 48 << 10, encryptionIn(dataDir));
    const before = await readAll();
    const retired = all(1, newest());
    fs.cpSync(dataDir, `${dataDir}.0`, { recursive: true });
    onTestFinished(() => fs.rmSync(`${dataDir}.0`, { recursive: true, force: true }));
    for (let step = 1; ; step++) {
      fs.rmSync(dataDir, { recursive: true });
      fs.cpSync(`${dataDir}.0`, dataDir, { recursive: true });
      const isWhole = await compactNow(retired, killedAt(step).files).then(
        () => true,
        () => false,
      );
      for (const [i, entry] of (await readAll()).entries()) {
        const { payloadState } = entry as { payloadState: string };
        if (payloadState !== 'retired') expect(entry).toEqual(before[i]);
      }
      await compactNow(retired);
      expect(await readAll()).toEqual(withRetired(before, retired, newest()));
      if (isWhole) break;
    }
  });

  test('of a log whose segment is damaged is refused, and leaves it', async () => {
    await fillDirectory(dataDir, chunked(events(100), 25), 48 << 10, encryptionIn(dataDir));
    const [first = ''] = segmentPaths(dataDir);
    flipBit(first, 2000);
    const bytes = fs.readFileSync(first);
    await expect(compactNow(all(1, newest()))).rejects.toThrow(/does not hold what was written/);
    expect(fs.readFileSync(first)).toEqual(bytes);
  });

  test('leaves a file in which any damage shows', async () => {
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

function chunked<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}
