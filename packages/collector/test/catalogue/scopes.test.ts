/** Queries for the runs of several organisations and applications, and of one caller only. */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Catalogue, RunFilter } from '../../src/catalogue/catalogue.js';
import { queryOf } from '../../src/catalogue/questions.js';
import { candidate, type Made } from '../store/candidate.js';
import { id } from '../records/run-events.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import { catalogueIn, withLog } from './made-catalogue.js';

const ORGANISATIONS = ['north', 'south', 'east', 'west'];
const APPLICATIONS = ['triage', 'letters', 'coding'];
/** The users of the calls of a run, by run. */
const USERS = [['ann'], ['ben'], ['ann', 'ann'], ['ann', 'ben'], ['ben', 'ann'], ['ann', undefined]];
const RUNS = 240;

let scratch: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

function startOf(run: number, call: number, user: string | undefined): Made {
  const eventId = id(10 * run + call);
  return candidate({
    ...{ kind: 'inference-start', eventId, runId: id(10 * run), receivedAt: 1_772_438_400_000 + run * 7919 },
    organisation: ORGANISATIONS[run % 4] ?? '',
    body: JSON.stringify({
      ...{ event_id: eventId, run_id: id(10 * run), timestamp: '2026-03-02T08:31:00Z' },
      ...{ protocol_version: '0.0.1', system_metadata: { app_name: APPLICATIONS[run % 3] } },
      ...(user !== undefined && { user_identity: { caller_id: user } }),
    }),
  });
}

async function made(): Promise<Catalogue> {
  const events = Array.from({ length: RUNS }, (_, i) => i + 1).flatMap((run) =>
    (USERS[run % 6] ?? []).map((user, call) => startOf(run, call, user)),
  );
  const dataDir = path.join(scratch, 'data');
  await fillDirectory(dataDir, [events]);
  return withLog(dataDir, async (log) => {
    const catalogue = catalogueIn(path.join(scratch, 'catalogue'), { ledgerId: log.ledgerId });
    onTestFinished(() => catalogue.close());
    await catalogue.update(log);
    return catalogue;
  });
}

const idsOf = (catalogue: Catalogue, filter: RunFilter) =>
  [...catalogue.runs(filter)].map(({ recordId }) => recordId);

test('[R-2047] lists the runs of several organisations and applications in one order', async () => {
  const catalogue = await made();
  const all = [...catalogue.runs()];
  const of = (isOne: (run: (typeof all)[number]) => boolean) => all.filter(isOne).map((run) => run.recordId);
  const organisations = ['south', 'west', 'nowhere'];
  for (const clock of ['received', 'sender'] as const)
    expect(idsOf(catalogue, { organisations, clock })).toHaveLength(RUNS / 2);
  const own = of(({ organisation }) => organisations.includes(organisation));
  expect(idsOf(catalogue, { organisations })).toEqual(own);
  expect(idsOf(catalogue, { organisations, order: 'oldest' })).toEqual(own.toReversed());
  expect(idsOf(catalogue, { organisations, limit: 7 })).toEqual(own.slice(0, 7));
  expect(catalogue.count({ organisations })).toBe(own.length);
  expect(idsOf(catalogue, { applications: ['triage', 'coding'] })).toEqual(
    of(({ application }) => application !== 'letters'),
  );
  expect(idsOf(catalogue, { organisations, applications: ['letters'] })).toEqual(
    of((run) => organisations.includes(run.organisation) && run.application === 'letters'),
  );
  expect(
    [...catalogue.names('organisations', { organisations })].map(({ names }) => names[0]).sort(),
  ).toEqual(['south', 'west']);
  for (const nothing of [{ organisations: [] }, { applications: ['none'] }])
    expect(idsOf(catalogue, nothing)).toEqual([]);
  expect(idsOf(catalogue, { organisation: 'north', organisations })).toEqual([]);
  const counted: string[] = [];
  const pages = catalogue.counted({ organisations }, (run) => counted.push(run.organisation));
  while ((await pages.next()).done !== true);
  expect(new Set(counted)).toEqual(new Set(['south', 'west']));
});

test('[R-2047] finds the runs in which no other user has a call', async () => {
  const catalogue = await made();
  const numbers = idsOf(catalogue, { onlyUser: 'ann' }).map((each) => each);
  const expected = Array.from({ length: RUNS }, (_, i) => RUNS - i).filter((run) =>
    [0, 2, 5].includes(run % 6),
  );
  expect(numbers).toEqual(expected.map((run) => id(10 * run)));
  expect(idsOf(catalogue, { user: 'ann' }).length).toBeGreaterThan(numbers.length);
  expect(idsOf(catalogue, { onlyUser: 'ann', user: 'ben' })).toEqual([]);
  expect(idsOf(catalogue, { onlyUser: 'ann', organisations: ['north'], limit: 3 })).toHaveLength(3);
});

test('[R-2047] a list of several organisations reads indexes in order and sorts nothing', async () => {
  await made();
  using database = new DatabaseSync(path.join(scratch, 'catalogue', 'catalogue.sqlite'), { readOnly: true });
  const planOf = (filter: RunFilter) => {
    const numberOf = new Map(ORGANISATIONS.map((name, i) => [name, i + 1]));
    const query = queryOf({ ...filter, limit: 50 }, (text) => numberOf.get(text) ?? 99);
    if (query === undefined) throw new Error('nothing can match');
    return database
      .prepare(`EXPLAIN QUERY PLAN ${query.select('record')}`)
      .all(...query.values)
      .map(({ detail }) => String(detail));
  };
  const few = planOf({ organisations: ORGANISATIONS, isRun: true });
  expect(few.filter((step) => /^SEARCH run USING INDEX run_organisation/.test(step))).toHaveLength(4);
  const many = planOf({
    organisations: Array.from({ length: 300 }, (_, i) => `of ${i}`),
    applications: ['a'],
  });
  const several = planOf({
    organisations: Array.from({ length: 100 }, (_, i) => ORGANISATIONS[i % 4] ?? ''),
  });
  for (const plan of [few, many, several]) {
    expect(plan.join('\n')).not.toMatch(/TEMP B-TREE|SCAN run$/);
  }
});
