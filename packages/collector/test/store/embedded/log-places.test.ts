import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { nodeFiles } from '../../../src/store/embedded/files.js';
import { LogPlaces } from '../../../src/store/embedded/log-places.js';
import { SEGMENT_HEADER_BYTES } from '../../../src/store/embedded/segment.js';
import type { EventPlace } from '../../../src/store/event-places.js';
import { StoreDamaged } from '../../../src/store/store.js';
import { idBytes } from '../../../src/records/run-entry.js';
import { id } from '../../records/run-events.js';
import { temporaryDirectory } from '../../running/collector-process.js';
import { candidate } from '../candidate.js';
import { fillDirectory, flipBit, segmentPaths } from './filled-directory.js';

const EVENTS = 60;
const EVENT_NUMBERS = Array.from({ length: EVENTS }, (_, i) => i + 1);

let directory: string;
let log: LogPlaces;
/** By sequence. */
let places: EventPlace[];

beforeEach(async () => {
  directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const events = EVENT_NUMBERS.map((n) =>
    candidate({
      kind: 'outcome',
      eventId: id(n),
      runId: id(1000 + n),
      body: `{"n":${n},"pad":"${'x'.repeat(300)}"}`,
    }),
  );
  await fillDirectory(
    directory,
    events.map((event) => [event]),
    8 << 10,
  );
  log = new LogPlaces(directory, nodeFiles);
  onTestFinished(() => log.close());
  places = Array.from(log.pass(), ({ address, size }) => ({ address, size }));
});

function reader(share = log.share): LogPlaces {
  const made = LogPlaces.beside(directory, nodeFiles, share);
  onTestFinished(() => made.close());
  return made;
}

test('what was read stays while other places are read once more [R-711]', () => {
  const first = log.read(places.slice(0, 10));
  const second = log.read(places.slice(20, 40));
  const bodies = (read: typeof first, count: number) =>
    Array.from({ length: count }, (_, i) => read.source.toString('utf8', read.bodyFrom(i), read.bodyTo(i)));
  expect(bodies(first, 10).map((text) => (JSON.parse(text) as { n: number }).n)).toEqual(
    EVENT_NUMBERS.slice(0, 10),
  );
  expect(bodies(second, 20).map((text) => (JSON.parse(text) as { n: number }).n)).toEqual(
    EVENT_NUMBERS.slice(20, 40),
  );
  expect(bodies(second, 20)).toEqual(Array.from({ length: 20 }, (_, i) => second.body(i)));
});

test('a reader beside another finds what that one’s index covers, and nothing behind it [R-711]', () => {
  expect(log.share.coveredTo).toBeGreaterThan(0);
  const beside = reader();
  for (const n of EVENT_NUMBERS) {
    const found = beside.find('default', idBytes(id(n)), 0);
    expect(found).toMatchObject(places[n - 1] ?? {});
    expect(found?.runId).toEqual(idBytes(id(1000 + n)));
  }
  expect(beside.find('default', idBytes(id(EVENTS + 1)), 0)).toBeUndefined();
  expect(beside.find('ward-7', idBytes(id(1)), 0)).toBeUndefined();
  const half = reader({ coveredTo: places[EVENTS / 2]?.address ?? 0, checkedTo: 0 });
  const found = EVENT_NUMBERS.filter((n) => half.find('default', idBytes(id(n)), 0) !== undefined);
  expect(found).toEqual(EVENT_NUMBERS.slice(0, EVENTS / 2));
});

test('in whatever order events are looked for, each comes once [R-711]', () => {
  const numbers = EVENT_NUMBERS.toReversed();
  const ids = Buffer.concat(numbers.map((n) => idBytes(id(n))));
  const order = log.findingOrder({
    count: numbers.length,
    ids,
    at: (number) => number * 16,
    organisation: () => 'default',
  });
  expect([...order].sort((a, b) => a - b)).toEqual(numbers.map((_, i) => i));
  expect([...order]).not.toEqual(numbers.map((_, i) => i));
});

test('checksums are looked at once more where somebody may have written since the pass [R-711]', () => {
  const [oldest, newest] = [places.slice(0, 1), places.slice(-1)];
  expect(segmentPaths(directory).length).toBeGreaterThan(2);
  flipInPayload(oldest[0]);
  flipInPayload(newest[0]);
  expect(() => log.read(oldest)).toThrow(StoreDamaged);
  expect(() => reader().read(newest)).toThrow(StoreDamaged);
  expect(reader().read(oldest).body(0)).toMatch(/x{200}/);
  // What is no frame of that size is none wherever it stands.
  flipBit(segmentPaths(directory)[0] ?? '', SEGMENT_HEADER_BYTES + 4);
  expect(() => reader().read(oldest)).toThrow(StoreDamaged);
});

function flipInPayload({ address, size }: EventPlace = { address: 0, size: 0 }): void {
  const baseOf = (file: string) => places[Number.parseInt(path.basename(file), 10) - 1]?.address ?? Infinity;
  const file = segmentPaths(directory).findLast((each) => baseOf(each) <= address) ?? '';
  flipBit(file, SEGMENT_HEADER_BYTES + address - baseOf(file) + size - 10);
}
