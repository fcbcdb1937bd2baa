import fs from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { nodeFiles, type Files } from '../../../src/files.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import { segmentPieces } from '../../../src/store/embedded/log-frames.js';
import { SEGMENT_HEADER_BYTES, listSegments } from '../../../src/store/embedded/segment.js';

import { StoreDamaged } from '../../../src/store/contract/events.js';
import { temporaryDirectory } from '../../running/collector-process.js';
import { candidate } from '../candidate.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from './filled-directory.js';

const EVENTS = [900, 3 << 20, 10, 600_000, 600_000, 20, 50_000, 30].map((bytes) =>
  candidate({ body: { text: 'x'.repeat(bytes) } }),
);

/** Two segments, the first one with seven of the eight events. */
async function filled() {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const batches = EVENTS.map((event) => [event]);
  await fillDirectory(dataDir, batches.slice(0, 7), 5 << 20);
  await fillDirectory(dataDir, batches.slice(7), 64 << 10);
  const segments = listSegments(nodeFiles, `${dataDir}/ledger`);
  const [first, last] = segments;
  if (first === undefined || last === undefined) throw new Error('not two segments');
  expect(segments.length).toBe(2);
  return { first, last };
}

function read(pieces: Iterable<Uint8Array>): Buffer {
  return Buffer.concat([...pieces].map((piece) => Buffer.from(piece)));
}

test('[R-811] the pieces of a segment are its bytes, up to the given end', async () => {
  const { first, last } = await filled();
  const bytes = fs.readFileSync(first.path);
  expect(read(copies(segmentPieces(nodeFiles, first, last.base))).equals(bytes)).toBe(true);
  const third = frameOffset(first.path, EVENTS, 4);
  const until = first.base + third - SEGMENT_HEADER_BYTES;
  expect(read(copies(segmentPieces(nodeFiles, first, until))).equals(bytes.subarray(0, third))).toBe(true);
  const header = read(copies(segmentPieces(nodeFiles, last, last.base)));
  expect(header.equals(fs.readFileSync(last.path).subarray(0, SEGMENT_HEADER_BYTES))).toBe(true);
});

/** Each piece is valid until the next is asked for. */
function* copies(pieces: Iterable<Uint8Array>): Generator<Uint8Array> {
  for (const piece of pieces) yield Buffer.from(piece);
}

test('[R-811] a byte that has changed anywhere in a segment is detected before it is returned', async () => {
  const { first, last } = await filled();
  const sound = fs.readFileSync(first.path);
  const places = [3, 9, 20, 30, 39, 45, 60, 64, 70, 100, 500, 40_000, 3 << 20, sound.length - 1];
  for (const place of places) {
    flipBit(first.path, place);
    let given = 0;
    expect(() => {
      for (const piece of segmentPieces(nodeFiles, first, last.base)) given += piece.length;
    }, `byte ${place}`).toThrow(StoreDamaged);
    expect(given).toBeLessThanOrEqual(place);
    fs.writeFileSync(first.path, sound);
  }
});

test('[R-811] a segment that ends too early is detected, also the last one', async () => {
  const { first, last } = await filled();
  const whole = () => read(segmentPieces(nodeFiles, last, last.base + 300));
  expect(whole).toThrow('the frame is damaged');
  fs.truncateSync(first.path, frameOffset(first.path, EVENTS, 3));
  expect(() => read(segmentPieces(nodeFiles, first, last.base))).toThrow(
    `0000000000000001.segment, byte ${frameOffset(first.path, EVENTS, 3)}, event 3: `,
  );
});

test('[R-1001] a batch that is undone while it is read is not shown, and one that stays is', async () => {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const events = Array.from({ length: 12 }, () => candidate({ body: { text: 'x'.repeat(500) } }));
  await fillDirectory(dataDir, [events.slice(0, 5), events.slice(5, 9), events.slice(9)], 1 << 20);
  const [file = ''] = segmentPaths(dataDir);
  /** What a writer does between a reading and the flush that follows it. */
  const shownWhen = async (meanwhile: () => void) => {
    let flushes = 0;
    const files: Files = {
      ...nodeFiles,
      datasync(fd) {
        if (flushes++ === 0) meanwhile();
        nodeFiles.datasync(fd);
      },
    };
    const log = new LogReader(dataDir, files);
    const shown: number[] = [];
    const pass = log.pass();
    for (;;) {
      const next = await pass.next();
      if (!next.done) shown.push(...Array.from(next.value, ({ sequence }) => sequence));
      else {
        await log.close();
        expect(flushes).toBeGreaterThan(0);
        expect(next.value.sequence).toBe(shown.length + 1);
        return shown.length;
      }
    }
  };
  expect(await shownWhen(() => undefined)).toBe(12);
  const takenBack = () => {
    const from = frameOffset(file, events, 10);
    const bytes = fs.readFileSync(file);
    fs.writeFileSync(file, bytes.fill(0, from));
  };
  expect(await shownWhen(takenBack)).toBe(9);
  expect(await shownWhen(() => undefined)).toBe(9);
});
