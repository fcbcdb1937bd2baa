import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { EventLog } from '../../src/catalogue/catalogue.js';
import { jobsOf, sumBy } from '../../src/catalogue/summing.js';
import type { SummingThreads } from '../../src/catalogue/updating.js';
import { type SentEvent, stored } from '../records/odd-log.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import {
  callsIn,
  catalogueIn,
  contentsOf,
  emptyDirectory,
  expectedCallsOf,
  expectedOf,
  tallied,
  twinLog,
  withLog,
} from './made-catalogue.js';
import { runs } from '../../../../test/property-runs.js';

let scratch: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

async function directoryOf(events: readonly SentEvent[]): Promise<string> {
  const directory = fs.mkdtempSync(path.join(scratch, 'data-'));
  await fillDirectory(directory, [events.map(stored)], 8 << 10);
  return directory;
}

class Killed extends Error {}

/** Does the work of threads here. */
function jobsIn(log: EventLog): SummingThreads {
  const run = jobsOf(log);
  return { sum: (records, before) => sumBy(run, records, before), stop: () => Promise.resolve() };
}

const plan = fc.record({
  events: twinLog(40),
  /** Up to where each update goes, and whether it is killed before it commits. */
  cuts: fc.array(fc.record({ through: fc.integer({ min: 1, max: 40 }), isKilled: fc.boolean() }), {
    maxLength: 5,
  }),
  mostEntries: fc.integer({ min: 1, max: 8 }),
  /** Whether the last update, where it adds most of the log, has its records summed by jobs. */
  byJobs: fc.boolean(),
});

test('[R-1020] [R-1836] any order of arrival and any cuts of the updates give the same rows as one update over the whole log, which are those of its records', async () => {
  await fc.assert(
    fc.asyncProperty(plan, async ({ events, cuts, mostEntries, byJobs }) => {
      const dataDir = await directoryOf(events);
      const directory = emptyDirectory(scratch, 'followed');
      let seen = 0;
      for (const { through, isKilled } of cuts) {
        const catalogue = catalogueIn(directory, { mostEntries });
        const onProgress = () => {
          if (isKilled) throw new Killed();
        };
        await withLog(dataDir, async (log) => {
          const update = catalogue.update(log, { through, onProgress });
          if (isKilled) await update.catch((error: unknown) => expect(error).toBeInstanceOf(Killed));
          else {
            expect((await update).complete).toBe(true);
            seen = Math.max(seen, Math.min(through, events.length));
          }
        });
        // One that was killed while it added most of the log answers no query.
        if (!isKilled || catalogue.hold())
          expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, seen));
        catalogue.close();
      }
      const followed = catalogueIn(directory, { mostEntries });
      const rebuiltIn = emptyDirectory(scratch, 'rebuilt');
      const rebuilt = catalogueIn(rebuiltIn);
      await withLog(dataDir, async (log) => {
        await followed.update(log, { startThreads: byJobs ? () => jobsIn(log) : undefined });
        await rebuilt.update(log);
      });
      const expected = await expectedOf(dataDir, events.length);
      expect(contentsOf(rebuilt)).toEqual(expected);
      expect(contentsOf(followed)).toEqual(expected);
      const calls = await expectedCallsOf(dataDir);
      expect(callsIn(rebuiltIn)).toEqual(calls);
      expect(callsIn(directory)).toEqual(calls);
      expect(followed.tally(0)).toEqual({ since: 0, events: events.length, ...tallied(expected) });
      followed.close();
      rebuilt.close();
      fs.rmSync(path.dirname(directory), { recursive: true });
    }),
    { numRuns: runs(60) },
  );
});

/** Events that name no run and are parents of each other, in chains and circles, in any order of arrival. */
const runless = fc
  .integer({ min: 2, max: 9 })
  .chain((count) =>
    fc.tuple(
      fc.shuffledSubarray(
        Array.from({ length: count }, (_, i) => i + 1),
        { minLength: count },
      ),
      fc.array(fc.integer({ min: 1, max: count }), { minLength: count, maxLength: count }),
    ),
  )
  .map(([order, parents]) => order.map((n): SentEvent => hung(n, parents[n - 1])));

function hung(n: number, parent: number | undefined): SentEvent {
  return { ...{ kind: 'outcome', n, organisation: 'default', run: null, parent, second: 1, day: 0 } };
}

async function assertPlaced(events: readonly SentEvent[]): Promise<void> {
  const dataDir = await directoryOf(events);
  const catalogue = catalogueIn(emptyDirectory(scratch, 'placed'));
  await withLog(dataDir, (log) => catalogue.update(log));
  expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, events.length));
  catalogue.close();
}

test('[R-1020] an event that is its own parent is found by a chain that waits for it', async () => {
  await assertPlaced([hung(1, 3), hung(2, 1), hung(3, 3)]);
});

test('[R-1020] chains and circles of events without a run become records in any order of arrival', async () => {
  await fc.assert(fc.asyncProperty(runless, assertPlaced), { numRuns: runs(150) });
});
