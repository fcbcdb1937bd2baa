import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { startReading } from '../../dist/commands/counting.js';
import type { CountedRun } from '../../src/records/counted-run.js';
import { CatalogueDamaged, type Catalogue, type EventEntry } from '../../src/catalogue/catalogue.js';
import { stored, type SentEvent } from '../records/odd-log.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import { catalogueIn, twinLog, withLog } from './made-catalogue.js';

let scratch: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

/** Of all kinds and in two organisations. */
const ODD = fc.sample(twinLog(120), { numRuns: 10, seed: 14 }).sort((a, b) => b.length - a.length)[0] ?? [];
/** Runs of more events than fit in a row, and, on another page, runs of one. */
const MANY = Array.from({ length: 17_000 }, (_, i): SentEvent => ({
  ...{ kind: 'outcome', n: 1000 + i, organisation: 'default', parent: undefined, second: i % 60, day: 0 },
  run: i < 16_000 ? 70_000 + (i % 50) : 80_000 + i,
}));

async function catalogueOf(events: readonly SentEvent[]): Promise<Catalogue> {
  const dataDir = path.join(scratch, 'data');
  const batches = Array.from({ length: Math.ceil(events.length / 1000) }, (_, i) =>
    events.slice(1000 * i, 1000 * (i + 1)).map(stored),
  );
  await fillDirectory(dataDir, batches, 1 << 20);
  const catalogue = catalogueIn(path.join(scratch, 'catalogue'), { mostEntries: 4096 });
  onTestFinished(() => catalogue.close());
  await withLog(dataDir, (log) => catalogue.update(log));
  return catalogue;
}

async function countedIn(
  catalogue: Catalogue,
  until?: number,
  startReading?: Parameters<Catalogue['counted']>[2],
): Promise<object[]> {
  const counted: object[] = [];
  const visit = (record: CountedRun) => {
    const events: object[] = [];
    record.eachEvent((kind, receivedAt, sentAt) => events.push({ kind, receivedAt, sentAt }));
    const { summary, ...rest } = { ...record, eachEvent: undefined, calls: undefined };
    counted.push({ ...rest, ...summary, events });
  };
  const ends: number[] = [];
  for await (const end of catalogue.counted({ until }, visit, startReading)) ends.push(end);
  expect(ends.at(-1)).toBe(catalogue.cursor.sequence - 1);
  return counted;
}

const timesOf = ({ kind, receivedAt, sentAt }: EventEntry) => ({ kind, receivedAt, sentAt });

function inRows(catalogue: Catalogue, until?: number): object[] {
  const runs = [...catalogue.runs({ until })].sort((a, b) => a.row - b.row);
  const others = [
    ...['row', 'recordId', 'firstSequence', 'lastSequence', 'userId', 'targetId', 'application'],
    ...['orphanEvents', 'failedCalls'],
  ];
  return runs.map((run) => ({
    ...run,
    ...Object.fromEntries(others.map((member) => [member, undefined])),
    outcomeAt: run.outcomeAt && { earliest: run.outcomeAt.earliest },
    events: run.events().map(timesOf),
  }));
}

test('counts over records agree with their rows and events, on every page', async () => {
  const catalogue = await catalogueOf([...ODD, ...MANY]);
  const expected = inRows(catalogue);
  expect(expected.length).toBeGreaterThan(550);
  expect(await countedIn(catalogue)).toEqual(expected);
  const began = expected.map((said) => (said as { began: { received: number } }).began.received).sort();
  const half = began[began.length >> 1] ?? 0;
  const before = await countedIn(catalogue, half);
  expect(before).toEqual(inRows(catalogue, half));
  expect(before.length).toBeLessThan(expected.length);
});

test('pages read by a thread are counted as others are, and those of another state are not used', async () => {
  const catalogue = await catalogueOf([...ODD, ...MANY]);
  const expected = await countedIn(catalogue);
  for (const [of, taken] of [
    [0, 2],
    [1, 0],
  ] as const) {
    let read = 0;
    const found = await countedIn(catalogue, undefined, (file, sequence, query) => {
      const reader = startReading(file, sequence - of, query);
      onTestFinished(() => reader.stop());
      return async (range) => {
        const rows = await reader.read(range);
        if (rows !== null) read++;
        return rows;
      };
    });
    expect(found).toEqual(expected);
    expect(read).toBe(taken);
  }
});

test('a thread that ends does not change a count', async () => {
  const catalogue = await catalogueOf([...ODD, ...MANY]);
  const found = countedIn(catalogue, undefined, (file, sequence, query) => {
    const reader = startReading(`${file}.none`, sequence, query);
    onTestFinished(() => reader.stop());
    return reader.read;
  });
  expect(await found).toEqual(inRows(catalogue));
});

test.each([
  'UPDATE run SET outcome = 99',
  "UPDATE run SET ratings = '1 2'",
  'UPDATE run SET model = 99999',
  'UPDATE event SET kind = 99',
])('[R-1020] after %s a record is reported as damaged, and not counted', async (sql) => {
  const catalogue = await catalogueOf(ODD);
  const database = new DatabaseSync(path.join(scratch, 'catalogue', 'catalogue.sqlite'));
  database.exec(sql);
  database.close();
  await expect(countedIn(catalogue)).rejects.toThrow(CatalogueDamaged);
  expect(catalogue.isCurrent).toBe(false);
});
