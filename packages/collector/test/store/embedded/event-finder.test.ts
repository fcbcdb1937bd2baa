import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { nodeFiles, type Files } from '../../../src/files.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import { type FoundEntries, type SoughtId, StoreDamaged } from '../../../src/store/contract/events.js';
import { temporaryDirectory } from '../../running/collector-process.js';
import { candidate, envelopeOf, idOf, type Made } from '../candidate.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from './filled-directory.js';

let dataDir: string;

beforeEach(() => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

const SHARED = randomUUID();
/** In several segments; one id is that of two organisations. */
const EVENTS = Array.from({ length: 400 }, (_, i) =>
  candidate({
    organisation: i % 2 === 0 ? 'ward' : 'default',
    ...(i === 120 || i === 251 ? { eventId: SHARED } : {}),
    body: { i, filler: 'x'.repeat(700) },
  }),
);
const BATCHES = Array.from({ length: 40 }, (_, i) => EVENTS.slice(i * 10, i * 10 + 10));
const KNOWN = ['default', 'ward'];

/** Files that record of which of them more than a header or a single frame was read. */
function watched(): { files: Files; scanned: Set<string> } {
  const scanned = new Set<string>();
  const names = new Map<number, string>();
  return {
    scanned,
    files: {
      ...nodeFiles,
      open: (file, flags) => {
        const fd = nodeFiles.open(file, flags);
        names.set(fd, file);
        return fd;
      },
      read: (fd, target, offset, length, position) => {
        if (length > 4096) scanned.add(names.get(fd) ?? '');
        return nodeFiles.read(fd, target, offset, length, position);
      },
    },
  };
}

async function found(sought: SoughtId, files = nodeFiles): Promise<FoundEntries> {
  const log = new LogReader(dataDir, files);
  try {
    return await log.withId(sought);
  } finally {
    await log.close();
  }
}

async function sequences(sought: SoughtId, files = nodeFiles): Promise<number[]> {
  return (await found(sought, files)).entries.map(({ sequence }) => sequence);
}

function event(at: number): Made {
  const found = EVENTS[at];
  if (found === undefined) throw new Error(`there is no event ${at}`);
  return found;
}

/** Changes one byte of an event's frame. */
function spoil(sequence: number, at: number): void {
  const segment = segmentPaths(dataDir).findLast(
    (file) => Number.parseInt(path.basename(file), 10) <= sequence,
  );
  if (segment === undefined) throw new Error('there is no segment');
  flipBit(segment, frameOffset(segment, EVENTS, sequence) + at);
}

function indexFiles(): string[] {
  const directory = path.join(dataDir, 'index');
  return fs.readdirSync(directory).map((name) => path.join(directory, name));
}

describe('an event is found by its id', () => {
  test('wherever it is, with envelope, salt and body as they were stored', async () => {
    await fillDirectory(dataDir, BATCHES);
    expect(segmentPaths(dataDir).length).toBeGreaterThan(3);
    for (const at of [0, 1, 119, 200, 398, 399]) {
      const wanted = event(at);
      const { entries } = await found({ eventId: idOf(wanted), known: KNOWN });
      expect(entries).toMatchObject([{ sequence: at + 1, organisation: wanted.organisation }]);
      expect(entries[0]?.envelope.equals(envelopeOf(wanted))).toBe(true);
      expect(entries[0]?.salted.equals(wanted.salted)).toBe(true);
      expect(entries[0]?.body.equals(wanted.body)).toBe(true);
    }
  });

  test('through the index, without a pass over the segments before the last', async () => {
    await fillDirectory(dataDir, BATCHES);
    const { files, scanned } = watched();
    expect(await sequences({ eventId: idOf(event(5)), known: KNOWN }, files)).toEqual([6]);
    // In the last one there might be an event that the index does not know yet.
    expect([...scanned]).toEqual(segmentPaths(dataDir).slice(-1));
  });

  test('in each organisation that has it, or in the given one', async () => {
    await fillDirectory(dataDir, BATCHES);
    expect(await sequences({ eventId: SHARED, known: KNOWN })).toEqual([121, 252]);
    expect(await sequences({ eventId: SHARED, organisation: 'ward', known: [] })).toEqual([121]);
    expect(await sequences({ eventId: SHARED, organisation: 'default', known: KNOWN })).toEqual([252]);
    expect(await sequences({ eventId: SHARED, organisation: 'nobody', known: KNOWN })).toEqual([]);
    expect(await sequences({ eventId: randomUUID(), known: KNOWN })).toEqual([]);
  });

  test('when its organisation is not known', async () => {
    await fillDirectory(dataDir, BATCHES);
    expect(await sequences({ eventId: idOf(event(10)), known: [] })).toEqual([11]);
    expect(await sequences({ eventId: SHARED, known: ['nobody'] })).toEqual([121, 252]);
  });

  test('beside a collector, when it is newer than the index', async () => {
    await fillDirectory(dataDir, BATCHES.slice(0, 20));
    const index = path.join(dataDir, 'index');
    fs.cpSync(index, `${index}-then`, { recursive: true });
    await fillDirectory(dataDir, BATCHES.slice(20));
    fs.rmSync(index, { recursive: true });
    fs.renameSync(`${index}-then`, index);
    for (const at of [0, 199, 200, 201, 399]) {
      const { organisation } = event(at);
      expect(await sequences({ eventId: idOf(event(at)), organisation, known: [] })).toEqual([at + 1]);
    }
    expect(await sequences({ eventId: SHARED, known: KNOWN })).toEqual([121, 252]);
  });

  test('without an index', async () => {
    await fillDirectory(dataDir, BATCHES);
    fs.rmSync(path.join(dataDir, 'index'), { recursive: true });
    expect(await sequences({ eventId: SHARED, known: KNOWN })).toEqual([121, 252]);
    expect(await sequences({ eventId: SHARED, organisation: 'ward', known: [] })).toEqual([121]);
  });

  test('and an empty ledger has none', async () => {
    await fillDirectory(dataDir, []);
    expect(await sequences({ eventId: SHARED, known: KNOWN })).toEqual([]);
    expect(await sequences({ eventId: SHARED, organisation: 'ward', known: KNOWN })).toEqual([]);
  });
});

describe('an index that is wrong is not used', () => {
  test('when a page of it has changed', async () => {
    await fillDirectory(dataDir, BATCHES);
    for (const file of indexFiles()) flipBit(file, 4096 + 100);
    expect(await sequences({ eventId: SHARED, organisation: 'ward', known: [] })).toEqual([121]);
  });

  test('when it is of another ledger', async () => {
    const other = temporaryDirectory();
    onTestFinished(() => fs.rmSync(other, { recursive: true, force: true }));
    await fillDirectory(dataDir, BATCHES);
    await fillDirectory(other, [Array.from({ length: 400 }, () => candidate({ body: 'x'.repeat(800) }))]);
    fs.rmSync(path.join(dataDir, 'index'), { recursive: true });
    fs.cpSync(path.join(other, 'index'), path.join(dataDir, 'index'), { recursive: true });
    expect(await sequences({ eventId: SHARED, organisation: 'default', known: [] })).toEqual([252]);
  });

  test('when it is of a longer copy', async () => {
    await fillDirectory(dataDir, BATCHES);
    const copy = temporaryDirectory();
    onTestFinished(() => fs.rmSync(copy, { recursive: true, force: true }));
    await fillDirectory(copy, BATCHES.slice(0, 30));
    fs.rmSync(path.join(copy, 'index'), { recursive: true });
    fs.cpSync(path.join(dataDir, 'index'), path.join(copy, 'index'), { recursive: true });
    dataDir = copy;
    expect(await sequences({ eventId: SHARED, organisation: 'ward', known: [] })).toEqual([121]);
  });
});

describe('damage', () => {
  test('in the event itself is reported with its place', async () => {
    await fillDirectory(dataDir, BATCHES);
    spoil(121, 300);
    await expect(sequences({ eventId: SHARED, organisation: 'ward', known: [] })).rejects.toThrow(
      /^\d+\.segment, byte \d+, event 121: the frame is damaged$/,
    );
    await expect(sequences({ eventId: SHARED, organisation: 'ward', known: [] })).rejects.toThrow(
      StoreDamaged,
    );
  });

  test('at the end of the log, which looks like a torn tail, shows in the end of the log', async () => {
    await fillDirectory(dataDir, BATCHES);
    const { organisation } = event(399);
    const sought = { eventId: idOf(event(399)), organisation, known: [] };
    expect((await found(sought)).nextSequence).toBe(401);
    spoil(400, 300);
    expect(await found(sought)).toEqual({ entries: [], nextSequence: 400 });
  });

  test('elsewhere does not keep an event from being found', async () => {
    await fillDirectory(dataDir, BATCHES);
    spoil(40, 300);
    expect(await sequences({ eventId: SHARED, organisation: 'ward', known: [] })).toEqual([121]);
  });

  test('that makes a frame larger than its file is reported too', async () => {
    await fillDirectory(dataDir, BATCHES);
    spoil(121, 7);
    await expect(sequences({ eventId: SHARED, organisation: 'ward', known: [] })).rejects.toThrow(
      /, event 121: /,
    );
  });
});
