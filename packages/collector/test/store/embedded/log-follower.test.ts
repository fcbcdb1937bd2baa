import fs from 'node:fs';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { nodeFiles } from '../../../src/store/embedded/files.js';
import { LogFollower } from '../../../src/store/embedded/log-follower.js';
import { StoreDamaged } from '../../../src/store/store.js';
import { temporaryDirectory } from '../../running/collector-process.js';
import { candidate } from '../candidate.js';
import { fillDirectory, flipBit, segmentPaths } from './filled-directory.js';

let dataDir: string;

beforeEach(() => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

const batch = (events: number) => Array.from({ length: events }, () => candidate({ body: 'x'.repeat(2000) }));
const sequences = (follower: LogFollower, through = Infinity) =>
  Array.from(follower.read(through), ({ sequence }) => sequence);
const upTo = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test('it goes on behind a writer across segments, and never beyond what is durable', async () => {
  const store = await EmbeddedStore.open({
    ...{ directory: dataDir, segmentBytes: 64 << 10, onTrouble: () => undefined },
  });
  const follower = new LogFollower(dataDir, nodeFiles, 1);
  expect(sequences(follower)).toEqual([]);
  await store.append(batch(20));
  expect(sequences(follower, 12)).toEqual(upTo(1, 12));
  expect(sequences(follower, 20)).toEqual(upTo(13, 20));
  expect(sequences(follower, 20)).toEqual([]);
  for (let i = 0; i < 4; i++) await store.append(batch(20));
  expect(segmentPaths(dataDir).length).toBeGreaterThan(2);
  expect(sequences(follower, 100)).toEqual(upTo(21, 100));
  await store.close();
});

test('who stops in the middle goes on behind the last one', async () => {
  await fillDirectory(dataDir, [batch(10)]);
  const follower = new LogFollower(dataDir, nodeFiles, 3);
  for (const { sequence } of follower.read(10)) if (sequence === 6) break;
  expect(sequences(follower)).toEqual(upTo(7, 10));
});

test('it stops at a damaged frame', async () => {
  await fillDirectory(dataDir, [batch(40), batch(40)]);
  flipBit(segmentPaths(dataDir)[0] ?? '', 5000);
  expect(() => sequences(new LogFollower(dataDir, nodeFiles, 1))).toThrow(StoreDamaged);
});
