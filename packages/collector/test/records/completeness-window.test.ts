import fs from 'node:fs';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { CompletenessWindow, WINDOW_MS } from '../../src/records/completeness-window.js';
import { nodeFiles } from '../../src/files.js';
import { LogReader } from '../../src/store/embedded/log-reader.js';
import { cursorAt, type Cursor } from '../../src/store/event-log.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { candidate, type Wanted } from '../store/candidate.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import { naiveRecords, oddLog, stored, type OddEvent } from './odd-log.js';
import { id } from './run-events.js';

let dataDir: string;

beforeEach(() => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

/** @param from the first sequence that is looked at. */
async function windowOver({ most, from = 1 }: { most?: number; from?: number } = {}) {
  const window = new CompletenessWindow(most);
  await addTo(window, cursorAt(from));
  return window;
}

/** @returns where to go on. */
async function addTo(window: CompletenessWindow, from: Cursor, through?: number): Promise<Cursor> {
  const log = new LogReader(dataDir, nodeFiles);
  onTestFinished(() => log.close());
  const pass = log.pass(from, through === undefined ? {} : { through });
  for (;;) {
    const next = await pass.next();
    if (next.done) return next.value;
    for (const entry of next.value) window.add(entry);
  }
}

const DAY_MS = 86_400_000;
/** A few days behind the events of an odd log. */
const NOW = Date.UTC(2026, 2, 9);

/** What the records of all events say. */
function expected() {
  const counts = { full: 0, minimum: 0, incomplete: 0, withoutOutcome: 0, orphanEvents: 0 };
  for (const { metadata } of naiveRecords(dataDir).values()) {
    const { missing, level, orphans } = metadata.completeness;
    if (missing.includes('inference-start')) {
      counts.orphanEvents += metadata.events.length;
      continue;
    }
    counts[level]++;
    if (missing.includes('outcome')) counts.withoutOutcome++;
    counts.orphanEvents += orphans.length;
  }
  return counts;
}

const run: readonly Wanted[] = [
  {
    ...{ kind: 'inference-start', eventId: id(1), runId: id(1) },
    body: { model_instance: {}, user_identity: {}, target_identity: {}, inputs: {} },
  },
  { kind: 'human-output', eventId: id(2), runId: id(1), body: { output: { output_uri: 'urn:x' } } },
  { kind: 'outcome', eventId: id(3), runId: id(1), body: { parent_event_id: id(2) } },
  { kind: 'user-feedback', eventId: id(4), runId: id(1) },
];
const fill = (events: readonly Wanted[], receivedAt = NOW) =>
  fillDirectory(dataDir, [events.map((event) => candidate({ receivedAt, ...event }))]);

describe('[R-836] the newest runs by completeness', () => {
  test('are those of the records, whatever order events came in, and when it is asked in between', async () => {
    await fc.assert(
      fc.asyncProperty(oddLog(14), fc.nat(14), async (events: OddEvent[], asked) => {
        fs.rmSync(dataDir, { recursive: true, force: true });
        await fillDirectory(dataDir, [events.map(stored)]);
        const window = new CompletenessWindow();
        const cursor = await addTo(window, cursorAt(1), asked);
        window.count(NOW);
        await addTo(window, cursor);
        // Chains of events that name no run are placed some steps at a time.
        window.count(NOW);
        expect(window.count(NOW)).toMatchObject({
          ...expected(),
          fromBeginning: true,
          through: events.length,
        });
      }),
      { numRuns: 60 },
    );
  });

  test('are full with all of a start, an output with its place, an outcome and feedback', async () => {
    await fill(run);
    expect((await windowOver()).count(NOW)).toMatchObject({
      full: 1,
      minimum: 0,
      incomplete: 0,
      orphanEvents: 0,
    });
  });

  test.each([
    ['a start without inputs', 0, { model_instance: {}, user_identity: {}, target_identity: {} }],
    ['an output without its place', 1, { output: { summary: 'High risk.' } }],
  ])('are not full with %s', async (_what, place, body) => {
    await fill(run.map((event, i) => (i === place ? { ...event, body } : event)));
    expect((await windowOver()).count(NOW)).toMatchObject({ full: 0, minimum: 1, withoutOutcome: 0 });
  });

  test('are told apart by organisation', async () => {
    await fill([...run, ...run.slice(1).map((event) => ({ ...event, organisation: 'ward-7' }))]);
    expect((await windowOver()).count(NOW)).toMatchObject({ full: 1, minimum: 0, orphanEvents: 3 });
  });

  test('are those that began in the last 30 days, and leave out those before', async () => {
    await fill(run, NOW - 29 * DAY_MS);
    const window = await windowOver();
    expect(window.count(NOW)).toMatchObject({ full: 1, since: NOW - WINDOW_MS });
    expect(window.count(NOW + 2 * DAY_MS)).toMatchObject({ full: 0, minimum: 0, incomplete: 0 });
  });

  test('are counted of the newest events alone when there are too many, and then since the oldest of these', async () => {
    const crowd = (n: number): Wanted[] => [
      { kind: 'inference-start', eventId: id(100 + n), runId: id(100 + n), receivedAt: NOW + n * 1000 },
      { kind: 'internal-artifact', eventId: id(300 + n), runId: id(100 + n), receivedAt: NOW + n * 1000 },
    ];
    await fill([...run, ...Array.from({ length: 60 }, (_, n) => crowd(n)).flat()]);
    const counts = (await windowOver({ most: 32 })).count(NOW + DAY_MS);
    expect(counts).toMatchObject({
      ...{ full: 0, minimum: 16, withoutOutcome: 16, orphanEvents: 0 },
      ...{ fromBeginning: false, since: NOW + 44_000, through: 124 },
    });
  });

  test('keep a run as long as anything of it is remembered, so that a late outcome finds it', async () => {
    const artifacts = Array.from({ length: 30 }, (_, n): Wanted => ({
      ...{ kind: 'internal-artifact', eventId: id(100 + n), runId: id(1) },
    }));
    await fill([...run.slice(0, 2), ...artifacts, ...run.slice(2)]);
    expect((await windowOver({ most: 16 })).count(NOW)).toMatchObject({ full: 1, orphanEvents: 0 });
  });

  test('call an outcome no orphan when its run may lie before what is looked at', async () => {
    const late = NOW + 2 * DAY_MS;
    const of = (kind: Wanted['kind'], n: number): Wanted => ({
      ...{ eventId: id(n), runId: id(n), receivedAt: late, ...(kind && { kind }) },
    });
    await fill([...run, of('outcome', 20), of('human-output', 21)].map(withOutput));
    expect((await windowOver()).count(late)).toMatchObject({ orphanEvents: 2 });
    expect((await windowOver({ from: 3 })).count(late)).toMatchObject({
      orphanEvents: 1,
      fromBeginning: false,
    });
  });
});

function withOutput(event: Wanted): Wanted {
  return event.kind === 'human-output' ? { ...event, body: { output: {} } } : event;
}
