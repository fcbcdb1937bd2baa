import fs from 'node:fs';
import path from 'node:path';
import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { modelsNamed, type RunFilter } from '../../src/catalogue/catalogue.js';
import { recordsIn } from '../../src/commands/catalogue.js';
import { toJson } from '../../src/records/raw-json.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import { naiveRecords, oddLog, stored, type SentEvent } from '../records/odd-log.js';
import { id } from '../records/run-events.js';
import { catalogueIn, emptyDirectory, withLog } from './made-catalogue.js';
import { runs } from '../../../../test/property-runs.js';

let scratch: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

/** A new data directory with these events, some to a batch. */
async function directoryOf(events: readonly SentEvent[], batch = 3): Promise<string> {
  const directory = fs.mkdtempSync(path.join(scratch, 'data-'));
  const batches = [];
  for (let i = 0; i < events.length; i += batch) batches.push(events.slice(i, i + batch).map(stored));
  // So small that even a short log has several segments.
  await fillDirectory(directory, batches, 8 << 10);
  return directory;
}

interface Made {
  readonly records: ClinicalRecord[];
  readonly next: number;
}

/** The records of a directory as commands make them. */
async function made(dataDir: string, selection: RunFilter = {}): Promise<Made> {
  const { all, next } = await madeOfEach(dataDir, [selection]);
  return { records: all[0] ?? [], next };
}

function madeOfEach(
  dataDir: string,
  selections: readonly RunFilter[],
): Promise<{ readonly all: ClinicalRecord[][]; readonly next: number }> {
  const catalogue = catalogueIn(emptyDirectory(scratch, 'catalogue'));
  return withLog(dataDir, async (log) => {
    await catalogue.update(log);
    const next = catalogue.cursor.sequence;
    const all: ClinicalRecord[][] = [];
    for (const selection of selections) {
      const records: ClinicalRecord[] = [];
      for await (const record of recordsIn({ catalogue, log }, { order: 'log', ...selection }))
        records.push(record);
      all.push(records);
    }
    catalogue.close();
    return { all, next };
  });
}

function keyOf({ metadata }: ClinicalRecord): string {
  return `${metadata.organisation} ${metadata.run_id === null ? 'event' : 'run'}:${metadata.record_id}`;
}

const byKey = (records: readonly ClinicalRecord[]) =>
  Object.fromEntries(records.map((record) => [keyOf(record), toJson(record)]));
const naive = (dataDir: string) => byKey([...naiveRecords(dataDir).values()]);

function beganBySender({ metadata }: ClinicalRecord): string {
  const start = metadata.events.find(({ kind }) => kind === 'inference-start');
  return start?.timestamp ?? metadata.first_timestamp ?? '';
}

function firstSequence({ metadata }: ClinicalRecord): number {
  return Math.min(...metadata.events.map(({ sequence }) => sequence));
}

test('the catalogue makes the same records as grouping in memory, oldest first [R-711]', async () => {
  await fc.assert(
    fc.asyncProperty(oddLog(40), async (events) => {
      const dataDir = await directoryOf(events);
      const { records, next } = await made(dataDir);
      expect(byKey(records)).toEqual(naive(dataDir));
      expect(next).toBe(events.length + 1);
      const order = records.map(firstSequence);
      expect(order).toEqual([...order].sort((a, b) => a - b));
    }),
    { numRuns: runs(30) },
  );
});

test('the order in which events were stored does not change the records [R-206] [R-711]', async () => {
  const log = oddLog(25).chain((events) =>
    fc.tuple(fc.constant(events), fc.shuffledSubarray(events, { minLength: events.length })),
  );
  const withoutSequences = (records: readonly ClinicalRecord[]) =>
    Object.fromEntries(
      Object.entries(byKey(records)).map(([key, text]) => [key, text.replace(/"sequence":\d+,/g, '')]),
    );
  await fc.assert(
    fc.asyncProperty(log, fc.integer({ min: 1, max: 9 }), async ([events, shuffled], batch) => {
      const one = await made(await directoryOf(events));
      const other = await made(await directoryOf(shuffled, batch));
      expect(withoutSequences(other.records)).toEqual(withoutSequences(one.records));
    }),
    { numRuns: runs(12) },
  );
});

test('a selection returns all records that match it [R-711]', async () => {
  const day = Date.UTC(2026, 2, 3);
  const at = (second: number) => Date.UTC(2026, 2, 2, 8, 31, second);
  const all = [
    { selection: { recordId: id(501) }, fits: ({ metadata }) => metadata.record_id === id(501) },
    { selection: { recordId: id(3) }, fits: ({ metadata }) => metadata.record_id === id(3) },
    { selection: { organisation: 'ward-7' }, fits: ({ metadata }) => metadata.organisation === 'ward-7' },
    {
      selection: { models: modelsNamed('sepsis-risk@4.2.0') },
      // A run fits by the model of any of its calls.
      fits: ({ metadata }) => metadata.calls.some(({ model }) => model?.['model_version'] === '4.2.0'),
    },
    { selection: { models: modelsNamed('sepsis-risk@4.3.0') }, fits: () => false },
    {
      selection: { level: 'incomplete' },
      fits: ({ metadata }) => metadata.completeness.level === 'incomplete',
    },
    {
      selection: { clock: 'sender', since: at(2), until: at(3) },
      fits: (record) => beganBySender(record) === '2026-03-02T08:31:02Z',
    },
    {
      selection: { afterSequence: 9 },
      fits: ({ metadata }) => metadata.events.some(({ sequence }) => sequence > 9),
    },
    {
      selection: { eventsSince: day, until: day + 86_400_000 },
      fits: ({ metadata }) => metadata.events.some(({ received_at }) => received_at.startsWith('2026-03-03')),
    },
    {
      selection: { organisation: 'default', recordId: id(502), afterSequence: 4 },
      fits: ({ metadata }) =>
        metadata.organisation === 'default' &&
        metadata.record_id === id(502) &&
        metadata.events.some(({ sequence }) => sequence > 4),
    },
  ] satisfies { selection: RunFilter; fits: (record: ClinicalRecord) => boolean }[];
  await fc.assert(
    fc.asyncProperty(oddLog(30), async (events) => {
      const dataDir = await directoryOf(events);
      const records = [...naiveRecords(dataDir).values()];
      const found = await madeOfEach(
        dataDir,
        all.map(({ selection }) => selection),
      );
      for (const [i, { fits }] of all.entries()) {
        expect(byKey(found.all[i] ?? [])).toEqual(byKey(records.filter(fits)));
      }
    }),
    { numRuns: runs(20) },
  );
});

test('each run that changed after a position comes once [R-1001]', async () => {
  await fc.assert(
    fc.asyncProperty(oddLog(30), fc.integer({ min: 0, max: 30 }), async (events, cut) => {
      const before = await directoryOf(events.slice(0, Math.min(cut, events.length - 1)));
      const { next } = await made(before).catch(() => ({ next: 1 }));
      const dataDir = await directoryOf(events);
      const changed = await made(dataDir, { afterSequence: next - 1 });
      const keys = changed.records.map(keyOf);
      expect(new Set(keys).size).toBe(keys.length);
      const expected = [...naiveRecords(dataDir).values()].filter(({ metadata }) =>
        metadata.events.some(({ sequence }) => sequence >= next),
      );
      expect(byKey(changed.records)).toEqual(byKey(expected));
      expect((await made(dataDir, { afterSequence: changed.next - 1 })).records).toEqual([]);
    }),
    { numRuns: runs(12) },
  );
});

test('records come in the order of the sender’s clock on request [R-711]', async () => {
  await fc.assert(
    fc.asyncProperty(oddLog(30), async (events) => {
      const { all } = await madeOfEach(await directoryOf(events), [{ order: 'sender' }, {}]);
      const [records = [], inOrderOfLog = []] = all;
      const began = records.map(beganBySender);
      expect(began).toEqual([...began].sort());
      expect(byKey(records)).toEqual(byKey(inOrderOfLog));
    }),
    { numRuns: runs(12) },
  );
});
