import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { nodeFiles } from '../../../src/files.js';
import { frameEventId, frameSequence } from '../../../src/store/embedded/frame.js';
import { readFrames, walk } from '../../../src/store/embedded/log-frames.js';
import { SEGMENT_HEADER_BYTES, type Segment, surveySegments } from '../../../src/store/embedded/segment.js';
import { temporaryDirectory } from '../../running/collector-process.js';
import { candidate } from '../candidate.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from './filled-directory.js';
import { runs } from '../../../../../test/property-runs.js';

const EVENTS = Array.from({ length: 60 }, (_, i) =>
  candidate({ body: { i, filler: 'x'.repeat((i % 20) * 40) } }),
);
const BATCHES = Array.from({ length: 20 }, (_, i) => EVENTS.slice(i * 3, i * 3 + 3));

let whole: string;

beforeAll(async () => {
  whole = temporaryDirectory();
  await fillDirectory(whole, BATCHES, 10_000);
});
afterAll(() => fs.rmSync(whole, { recursive: true, force: true }));

function copy(): string {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  fs.cpSync(whole, directory, { recursive: true });
  return directory;
}

/** Every frame by its sequence, and all damage, a line each. */
function walked(segments: readonly Segment[], covered: number): (number | string)[] {
  return Array.from(walk(nodeFiles, segments, { onDamage: 'continue', covered }), (item) => {
    if (item.kind !== 'frames') return `${item.kind} ${item.sequence}+${item.count}`;
    return item.offsets.map((_, i) => item.sequence + i);
  }).flat();
}

/** The same of the log in a directory; each frame that holds is the event that its place says. */
function told(directory: string, covered = EVENTS.length): (number | string)[] {
  const segments = surveySegments(nodeFiles, path.join(directory, 'ledger'), undefined);
  const options = { onDamage: 'continue', covered } as const;
  for (const { buffer, offset, sequence } of readFrames(nodeFiles, segments, options)) {
    expect(frameSequence(buffer, offset)).toBe(sequence);
    expect(frameEventId(buffer, offset)).toEqual(Buffer.from(EVENTS[sequence - 1]?.eventId ?? []));
  }
  return walked(segments, covered);
}

const ALL = EVENTS.map((_, i) => i + 1);

function segmentOf(directory: string, sequence: number): string {
  return (
    segmentPaths(directory).findLast((file) => Number.parseInt(path.basename(file), 10) <= sequence) ?? ''
  );
}

describe('a walk that continues after damage', () => {
  test('reads a whole log, and frames larger than its window', async () => {
    expect(segmentPaths(whole).length).toBeGreaterThan(3);
    expect(told(whole)).toEqual(ALL);
    const directory = temporaryDirectory();
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
    const sizes = [10, 300_000, 20, 1_000_000, 30, 262_144];
    const large = sizes.map((size) => candidate({ body: { filler: 'x'.repeat(size) } }));
    await fillDirectory(directory, [large], 4 << 20);
    const segments = surveySegments(nodeFiles, path.join(directory, 'ledger'), undefined);
    const read = () => walked(segments, 6);
    expect(read()).toEqual([1, 2, 3, 4, 5, 6]);
    const [file = ''] = segmentPaths(directory);
    flipBit(file, frameOffset(file, large, 4) + 500_000);
    expect(read()).toEqual([1, 2, 3, 'damaged 4+1', 5, 6]);
  });

  test('reports every event whatever bytes are overwritten, and reads those that are whole', () => {
    const directory = copy();
    const files = segmentPaths(directory).map((file) => ({ file, bytes: fs.readFileSync(file) }));
    const damage = fc.record({
      segment: fc.nat(files.length - 1),
      at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      length: fc.integer({ min: 1, max: 2000 }),
      fill: fc.constantFrom(0x00, 0xff, 0x02, 0x41),
    });
    fc.assert(
      fc.property(fc.array(damage, { minLength: 1, maxLength: 3 }), (damages) => {
        const touched = new Set<number>();
        for (const { segment, at, length, fill } of damages) {
          const { file } = files[segment] ?? { file: '' };
          const bytes = fs.readFileSync(file);
          const from = SEGMENT_HEADER_BYTES + Math.floor(at * (bytes.length - SEGMENT_HEADER_BYTES));
          const before = Buffer.from(bytes);
          bytes.fill(fill, from, Math.min(from + length, bytes.length));
          fs.writeFileSync(file, bytes);
          for (const sequence of ALL) {
            if (segmentOf(directory, sequence) !== file) continue;
            const start = frameOffset(file, EVENTS, sequence);
            const end = frameOffset(file, EVENTS, sequence + 1);
            if (!bytes.subarray(start, end).equals(before.subarray(start, end))) touched.add(sequence);
          }
        }
        let items: (number | string)[];
        try {
          items = told(directory);
        } finally {
          for (const { file, bytes } of files) fs.writeFileSync(file, bytes);
        }
        expect(items.filter((item) => typeof item === 'number')).toEqual(
          ALL.filter((each) => !touched.has(each)),
        );
        // The rest is reported for exactly those that were touched; at the end of the log nothing may be left of them.
        const rest = items.flatMap((item) => {
          const [, sequence = 0, count = 0] =
            /^(?:damaged|unreadable|missing) (\d+)\+(\d+)$/.exec(String(item)) ?? [];
          return Array.from({ length: Number(count) }, (_, i) => Number(sequence) + i);
        });
        const expected = [...touched].sort((a, b) => a - b);
        expect(expected.slice(0, rest.length)).toEqual(rest);
        const uncounted = expected.slice(rest.length);
        expect(uncounted).toEqual(ALL.slice(ALL.length - uncounted.length));
      }),
      { numRuns: runs(150) },
    );
  });

  test('takes bytes after the last event for a torn tail only where no checkpoint covers them', () => {
    const directory = copy();
    const last = segmentPaths(directory).at(-1) ?? '';
    const end = frameOffset(last, EVENTS, EVENTS.length + 1);
    const bytes = Buffer.concat([fs.readFileSync(last), Buffer.alloc(1000)]);
    bytes.fill('torn', end, end + 100);
    fs.writeFileSync(last, bytes);
    expect(told(directory)).toEqual([...ALL, 'torn 61+0']);
    expect(told(directory, 61)).toEqual([...ALL, 'damaged 61+1']);
    expect(told(directory, 70)).toEqual([...ALL, 'unreadable 61+10']);
    // The last event itself: torn when no checkpoint covers it.
    fs.truncateSync(last, end);
    flipBit(last, frameOffset(last, EVENTS, 60) + 200);
    expect(told(directory, 59)).toEqual([...ALL.slice(0, 59), 'torn 60+0']);
    expect(told(directory, 60)).toEqual([...ALL.slice(0, 59), 'damaged 60+1']);
    // One before it that a later batch proves durable is not torn.
    flipBit(last, frameOffset(last, EVENTS, 60) + 200);
    expect(segmentOf(directory, 57)).toBe(last);
    flipBit(last, frameOffset(last, EVENTS, 57) + 200);
    expect(told(directory, 0)).toEqual(ALL.map((each) => (each === 57 ? 'damaged 57+1' : each)));
  });

  test('detects a segment of another ledger by the name of the log, also when it is the only one', () => {
    const survey = (id?: string) => surveySegments(nodeFiles, path.join(whole, 'ledger'), id);
    expect(survey().flatMap(({ faults }) => faults)).toEqual([]);
    for (const { faults } of survey('0'.repeat(32))) expect(faults).toHaveLength(1);
  });

  test('finds no log in an empty directory, and skips other files', () => {
    const directory = temporaryDirectory();
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
    expect(told(directory)).toEqual([]);
    const ledger = path.join(copy(), 'ledger');
    fs.writeFileSync(path.join(ledger, 'next.segment'), Buffer.alloc(1000));
    fs.mkdirSync(path.join(ledger, 'torn'), { recursive: true });
    expect(told(path.dirname(ledger))).toEqual(ALL);
  });
});
