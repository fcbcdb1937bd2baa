import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Catalogue, EventLog } from '../../src/catalogue/catalogue.js';
import { SyntheticIv } from '../../src/privacy/name-cipher.js';
import { stored } from '../records/odd-log.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import { catalogueIn, twinLog, withLog } from './made-catalogue.js';

const EVENTS =
  fc.sample(twinLog(120), { numRuns: 40, seed: 14 }).sort((a, b) => b.length - a.length)[0] ?? [];
let scratch: string;
let dataDir: string;
let directory: string;

beforeEach(async () => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
  dataDir = path.join(scratch, 'data');
  directory = path.join(scratch, 'catalogue');
  await fillDirectory(dataDir, [EVENTS.map(stored)], 8 << 10);
});

function opened(names?: SyntheticIv): Catalogue {
  const catalogue = catalogueIn(directory, { names });
  onTestFinished(() => catalogue.close());
  return catalogue;
}

/** The log, as one whose derived files have their names encrypted. */
function withNames<Result>(names: SyntheticIv, use: (log: EventLog) => Promise<Result>): Promise<Result> {
  return withLog(dataDir, (log) => use(Object.defineProperty(log, 'names', { value: names })));
}

function ask(sql: string): Record<string, unknown>[] {
  using database = new DatabaseSync(path.join(directory, 'catalogue.sqlite'), { readOnly: true });
  return database.prepare(sql).all();
}

const utc = (time: number | undefined) => (time === undefined ? null : new Date(time).toISOString());
const wordsIn = (words: readonly string[]) => (words.length === 0 ? null : words.join(' '));

test('[R-1020] the views return the same runs and events as the catalogue', async () => {
  const catalogue = opened();
  await withLog(dataDir, (log) => catalogue.update(log));
  const runs = [...catalogue.runs({ isRun: true })];
  const parents = new Map(
    runs.flatMap((run) => catalogue.children(run).map((child) => [`${run.organisation} ${child}`, run])),
  );
  const expected = runs.map((run) => ({
    ...{ run: run.row, run_id: run.recordId, organisation: run.organisation },
    ...{ began: utc(run.began.received), began_by_sender: utc(run.began.sender) },
    ...{ model: run.modelId, version: run.modelVersion, application: run.application },
    ...{ user: run.userId, target: run.targetId, completeness: run.level },
    ...{ missing: wordsIn(run.missing), conflicts: wordsIn(run.conflicts), outcome: run.outcome },
    outcome_at: utc(run.outcomeAt?.last.received),
    ...{ feedbacks: run.counts['user-feedback'], rating_sum: run.ratingSum },
    ...{ thumbs_up: run.thumbs.up, thumbs_down: run.thumbs.down },
    ...{ call: run.call?.ending ?? null, status: run.call?.status ?? null },
    ...{ attempts: run.call?.attempts ?? null, latency_ms: run.latencyMs },
    ...{ calls: run.counts['inference-start'], failed_calls: run.failedCalls },
    ...{ input_tokens: run.tokens.input, output_tokens: run.tokens.output },
    events: Object.values(run.counts).reduce((sum, count) => sum + count, 0),
    ...{ first_sequence: run.firstSequence, last_sequence: run.lastSequence },
    parent_run_id: parents.get(`${run.organisation} ${run.recordId}`)?.recordId ?? null,
  }));
  const found = ask('SELECT * FROM runs ORDER BY first_sequence');
  expect(found.map((row) => ({ ...row }))).toEqual(
    expected.sort((a, b) => a.first_sequence - b.first_sequence),
  );
  const events = [...catalogue.runs()].flatMap((run) =>
    run.events().map(({ sequence, kind, receivedAt, sentAt, size }) => ({
      ...{
        run: run.row,
        run_id: run.recordId,
        sequence,
        kind,
        received: utc(receivedAt),
        sent: utc(sentAt),
        size,
      },
    })),
  );
  expect(ask('SELECT * FROM events ORDER BY sequence').map((row) => ({ ...row }))).toEqual(
    events.sort((a, b) => a.sequence - b.sequence),
  );
});

test('[R-1020] runs of an outcome by model are one SQL query', async () => {
  const catalogue = opened();
  await withLog(dataDir, (log) => catalogue.update(log));
  const validated = [...catalogue.runs({ isRun: true, outcome: 'validated' })];
  const byModel = Map.groupBy(validated, ({ modelId }) => modelId);
  const sql = "SELECT model, count(*) AS n FROM runs WHERE outcome = 'validated' GROUP BY model";
  expect(byModel.size).toBeGreaterThan(1);
  expect(new Map(ask(sql).map(({ model, n }) => [model, n]))).toEqual(
    new Map([...byModel].map(([model, runs]) => [model, runs.length])),
  );
});

test('[R-1020] events of runs are found by their key, whatever the other conditions', async () => {
  const catalogue = opened();
  await withLog(dataDir, (log) => catalogue.update(log));
  const sql = "FROM events JOIN runs USING (run) WHERE organisation = 'ward-7' GROUP BY kind";
  const plan = ask(`EXPLAIN QUERY PLAN SELECT kind, count(*) ${sql}`).map(({ detail }) => String(detail));
  expect(plan.filter((step) => step.startsWith('SCAN'))).toHaveLength(1);
  const counted = new Map<unknown, number>();
  for (const run of catalogue.runs({ isRun: true, organisation: 'ward-7' }))
    for (const { kind } of run.events()) counted.set(kind, (counted.get(kind) ?? 0) + 1);
  expect(counted.size).toBeGreaterThan(1);
  expect(new Map(ask(`SELECT kind, count(*) AS n ${sql}`).map(({ kind, n }) => [kind, n]))).toEqual(counted);
});

test('[R-1020] where names are encrypted, the views have no name as text', async () => {
  const names = new SyntheticIv(Buffer.alloc(32, 1));
  const catalogue = opened(names);
  await withNames(names, (log) => catalogue.update(log));
  const found = ask('SELECT organisation, model, version, application, user, target FROM runs');
  expect(found.length).toBeGreaterThan(0);
  for (const row of found)
    for (const value of Object.values(row)) expect(value === null || value instanceof Uint8Array).toBe(true);
});
