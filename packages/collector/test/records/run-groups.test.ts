import fs from 'node:fs';
import path from 'node:path';
import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { recordsOf, windowsOf } from '../../src/records/record-windows.js';
import { LogPass, type PassSettings } from '../../src/records/log-pass.js';
import { sortShare, type GroupElsewhere } from '../../src/records/group-maker.js';
import type { SortSettings } from '../../src/records/run-sorter.js';
import { RunGroups, type RunSelection } from '../../src/records/run-groups.js';
import { toJson } from '../../src/records/raw-json.js';
import type { LogPart } from '../../src/store/event-places.js';
import { nodeFiles } from '../../src/files.js';
import { LogPlaces, type PlacesShare } from '../../src/store/embedded/log-places.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import { naiveRecords, oddLog, stored, type OddEvent } from './odd-log.js';
import { id } from './run-events.js';

let scratch: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

/** A new data directory with these events, some to a batch. */
async function directoryOf(events: readonly OddEvent[], batch = 3): Promise<string> {
  const directory = fs.mkdtempSync(path.join(scratch, 'data-'));
  const batches = [];
  for (let i = 0; i < events.length; i += batch) batches.push(events.slice(i, i + batch).map(stored));
  // So small that even a short log has several segments.
  await fillDirectory(directory, batches, 8 << 10);
  return directory;
}

interface Grouped {
  readonly records: ClinicalRecord[];
  readonly next: number;
}

/** Passes parts, and sorts shares, as threads do. */
function elsewhere(dataDir: string, share: PlacesShare): GroupElsewhere {
  const passed = async (part: LogPart, number: number, settings: PassSettings) => {
    const log = LogPlaces.beside(dataDir, nodeFiles, share);
    const made = await new LogPass(number, settings).run(log, part, () => undefined);
    await log.close();
    return structuredClone(made);
  };
  const sorted = async (files: readonly number[], settings: SortSettings) => {
    const log = LogPlaces.beside(dataDir, nodeFiles, share);
    const made = await sortShare(log, files, settings);
    await log.close();
    return structuredClone(made);
  };
  return {
    threads: 2,
    sort: (shares, settings) => shares.map((files) => sorted(files, structuredClone(settings))),
    pass: (parts, settings) => parts.map((part, number) => passed(part, number, structuredClone(settings))),
  };
}

/** The records of a directory as the command makes them, with several files for so little. */
async function grouped(dataDir: string, selection: RunSelection = {}): Promise<Grouped> {
  const log = new LogPlaces(dataDir, nodeFiles);
  const own = fs.mkdtempSync(path.join(scratch, 'grouping-'));
  try {
    const options = { scratch: own, bytesPerFile: 2 << 10, elsewhere: elsewhere(dataDir, log.share) };
    const groups = await RunGroups.of(log, selection, options);
    const records: ClinicalRecord[] = [];
    for (const window of windowsOf(groups.runs())) {
      records.push(...(await recordsOf(log, window, (run) => groups.linksOf(window[run]))));
    }
    expect(fs.readdirSync(own), 'temporary files that were left').toEqual([]);
    expect(groups.records).toBe(records.length);
    return { records, next: groups.nextSequence };
  } finally {
    await log.close();
  }
}

function keyOf({ metadata }: ClinicalRecord): string {
  return `${metadata.organisation} ${metadata.run_id === null ? 'event' : 'run'}:${metadata.record_id}`;
}

const byKey = (records: readonly ClinicalRecord[]) =>
  Object.fromEntries(records.map((record) => [keyOf(record), toJson(record)]));
const naive = (dataDir: string) => byKey([...naiveRecords(dataDir).values()]);

function firstSequence({ metadata }: ClinicalRecord): number {
  return Math.min(...metadata.events.map(({ sequence }) => sequence));
}

test('grouping in temporary files makes the records that grouping in memory makes, oldest first [R-711]', async () => {
  await fc.assert(
    fc.asyncProperty(oddLog(40), async (events) => {
      const dataDir = await directoryOf(events);
      const { records, next } = await grouped(dataDir);
      expect(byKey(records)).toEqual(naive(dataDir));
      expect(next).toBe(events.length + 1);
      const order = records.map(firstSequence);
      expect(order).toEqual([...order].sort((a, b) => a - b));
    }),
    { numRuns: 60 },
  );
});

/** A start of the odd log. */
function oddStart(event: Pick<OddEvent, 'n' | 'run' | 'parent'>): OddEvent {
  return { kind: 'inference-start', organisation: 'default', second: 1, day: 0, ...event };
}

test('an id index that is lost, or of another log, makes no difference [R-711]', async () => {
  await fc.assert(
    fc.asyncProperty(oddLog(25), oddLog(5), async (events, others) => {
      const dataDir = await directoryOf(events);
      const expected = naive(dataDir);
      fs.rmSync(path.join(dataDir, 'index'), { recursive: true });
      expect(byKey((await grouped(dataDir)).records)).toEqual(expected);
      fs.cpSync(path.join(await directoryOf(others), 'index'), path.join(dataDir, 'index'), {
        recursive: true,
      });
      expect(byKey((await grouped(dataDir)).records)).toEqual(expected);
    }),
    {
      numRuns: 15,
      // The other log begins with the same event, of which it says more: its index ends within our second one.
      examples: [
        [
          [oddStart({ n: 1, run: null, parent: 2 }), oddStart({ n: 2, run: null, parent: 1 })],
          [oddStart({ n: 1, run: 501, parent: null })],
        ],
      ],
    },
  );
});

test('the order in which events were stored makes no difference to the records [R-205] [R-711]', async () => {
  const log = oddLog(25).chain((events) =>
    fc.tuple(fc.constant(events), fc.shuffledSubarray(events, { minLength: events.length })),
  );
  const withoutSequences = (records: readonly ClinicalRecord[]) =>
    Object.fromEntries(
      Object.entries(byKey(records)).map(([key, text]) => [key, text.replace(/"sequence":\d+,/g, '')]),
    );
  await fc.assert(
    fc.asyncProperty(log, fc.integer({ min: 1, max: 9 }), async ([events, shuffled], batch) => {
      const one = await grouped(await directoryOf(events));
      const other = await grouped(await directoryOf(shuffled, batch));
      expect(withoutSequences(other.records)).toEqual(withoutSequences(one.records));
    }),
    { numRuns: 25 },
  );
});

test('what is asked for is what all records have that fit [R-711]', async () => {
  const day = Date.UTC(2026, 2, 3);
  const all = [
    { selection: { recordId: id(501) }, fits: ({ metadata }) => metadata.record_id === id(501) },
    { selection: { recordId: id(3) }, fits: ({ metadata }) => metadata.record_id === id(3) },
    { selection: { organisation: 'ward-7' }, fits: ({ metadata }) => metadata.organisation === 'ward-7' },
    { selection: { after: 9 }, fits: ({ metadata }) => metadata.events.some(({ sequence }) => sequence > 9) },
    {
      selection: { since: day, until: day + 86_400_000 },
      fits: ({ metadata }) => metadata.events.some(({ received_at }) => received_at.startsWith('2026-03-03')),
    },
    {
      selection: { organisation: 'default', recordId: id(502), after: 4 },
      fits: ({ metadata }) =>
        metadata.organisation === 'default' &&
        metadata.record_id === id(502) &&
        metadata.events.some(({ sequence }) => sequence > 4),
    },
  ] satisfies { selection: RunSelection; fits: (record: ClinicalRecord) => boolean }[];
  await fc.assert(
    fc.asyncProperty(oddLog(30), async (events) => {
      const dataDir = await directoryOf(events);
      const records = [...naiveRecords(dataDir).values()];
      for (const { selection, fits } of all) {
        expect(byKey((await grouped(dataDir, selection)).records)).toEqual(byKey(records.filter(fits)));
      }
    }),
    { numRuns: 30 },
  );
});

test('each run that has changed comes once with what was told the last time [R-713]', async () => {
  await fc.assert(
    fc.asyncProperty(oddLog(30), fc.integer({ min: 0, max: 30 }), async (events, cut) => {
      const before = await directoryOf(events.slice(0, Math.min(cut, events.length - 1)));
      const { next } = await grouped(before).catch(() => ({ next: 1 }));
      const dataDir = await directoryOf(events);
      const changed = await grouped(dataDir, { after: next - 1 });
      const keys = changed.records.map(keyOf);
      expect(new Set(keys).size).toBe(keys.length);
      const expected = [...naiveRecords(dataDir).values()].filter(({ metadata }) =>
        metadata.events.some(({ sequence }) => sequence >= next),
      );
      expect(byKey(changed.records)).toEqual(byKey(expected));
      expect((await grouped(dataDir, { after: changed.next - 1 })).records).toEqual([]);
    }),
    { numRuns: 25 },
  );
});

test('it can be stopped while it goes through the log [R-713]', async () => {
  const dataDir = await directoryOf(
    Array.from({ length: 5000 }, (_, i): OddEvent => ({
      ...{
        kind: 'outcome',
        n: i + 1,
        organisation: 'default',
        run: 501,
        parent: undefined,
        second: 1,
        day: 0,
      },
    })),
    1000,
  );
  const log = new LogPlaces(dataDir, nodeFiles);
  const reason = new Error('enough');
  const stop = AbortSignal.abort(reason);
  await expect(RunGroups.of(log, {}, { scratch, signal: stop })).rejects.toBe(reason);
  await log.close();
});
