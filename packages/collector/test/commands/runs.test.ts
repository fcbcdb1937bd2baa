import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { modelsNamed, type RunSummary } from '../../src/catalogue/catalogue.js';
import { runsRequestFrom, type RunsOptions } from '../../src/commands/runs.js';
import { PLAIN_CELLS, SPREADSHEET_CELLS } from '../../src/records/exports/csv-cell.js';
import { csvLine, CSV_HEAD, objectOf, runTable } from '../../src/commands/run-list.js';
import { jsonLine as lineOf } from '../../src/commands/terminal.js';
import { id } from '../records/run-events.js';
import { runIdFrom, severalRuns, shortId } from '../../src/commands/arguments.js';

const BEGAN = Date.parse('2026-03-02T08:31:01.250Z');

const NO_FEEDBACK = { rating: 0, thumbs: 0, text: 0, survey: 0, other_words: 0, unreadable: 0 };
const COUNTS = { 'inference-start': 1, 'internal-artifact': 1, 'human-output': 1 };
const CALL = { ending: 'failed', status: 429, attempts: 1 } as const;

function listed(n: number, more: Partial<RunSummary> = {}): RunSummary {
  return {
    ...{ recordId: id(n), organisation: 'default', isRun: true, firstSequence: n, lastSequence: n + 5 },
    began: { received: BEGAN + n, sender: BEGAN + n },
    times: {
      ...{
        received: { first: BEGAN + n, last: BEGAN + 5000 },
        sent: { first: BEGAN + n, last: BEGAN + 5000 },
      },
      ...{ unreadable: 0, apart: 0 },
    },
    counts: { ...COUNTS, outcome: 1, 'user-feedback': 1 },
    ...{ modelId: 'sepsis-risk', modelVersion: '4.2.0', userId: 'clinician-8841', targetId: 'patient-30977' },
    ...{ application: 'triage', outcome: 'validated', outcomeAt: null, outcomesDiffer: false },
    ...{ feedback: NO_FEEDBACK, thumbs: { up: 0, down: 0 }, ratings: [0, 0, 0, 0, 0, 0], ratingSum: 0 },
    ...{ level: 'full', missing: [], conflicts: [], call: null, latencyMs: null, numbersInText: 0 },
    ...{ orphanEvents: 0, failedCalls: 0, tokens: { input: null, output: null } },
    ...more,
  };
}

const VIEW = { clock: 'received', idOf: ({ recordId }: RunSummary) => recordId.slice(0, 8) } as const;

const TELLING: readonly RunSummary[] = [
  listed(1, { call: CALL, failedCalls: 1, outcome: 'none', level: 'incomplete' }),
  listed(2, { outcome: 'contradicted', outcomesDiffer: true, conflicts: ['before_start'] }),
  listed(3, {
    ...{ modelVersion: null, userId: null, targetId: null, outcome: 'other_words' },
    feedback: { ...NO_FEEDBACK, thumbs: 2, rating: 1, text: 2 },
    ...{ thumbs: { up: 1, down: 1 }, ratings: [0, 0, 0, 0, 1, 0], ratingSum: 4 },
  }),
  listed(4, {
    ...{ modelId: null, feedback: { ...NO_FEEDBACK, rating: 3 }, ratings: [0, 0, 0, 0, 2, 1], ratingSum: 13 },
  }),
];

const jsonLine = (run: RunSummary) => lineOf(objectOf(run));

function widthOf(table: string): number {
  return Math.max(...table.split('\n').map((line) => line.length));
}

describe('the table of runs', () => {
  test('[R-1040] shows the main facts of each run in words', () => {
    const table = runTable(TELLING, VIEW, {});
    expect(table.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      [
        ...['RUN', 'BEGAN (UTC)', 'ORGANISATION', 'MODEL', 'USER', 'TARGET'],
        ...['OUTCOME', 'FEEDBACK', 'EVENTS', 'CALLS', 'TOKENS', 'NOTE'],
      ],
      [
        ...[
          'abcdef00',
          '2026-03-02 08:31',
          'default',
          'sepsis-risk@4.2.0',
          'clinician-8841',
          'patient-30977',
        ],
        ...['-', '-', '5', '-', '-', 'failed (429), incomplete'],
      ],
      [
        ...[
          'abcdef00',
          '2026-03-02 08:31',
          'default',
          'sepsis-risk@4.2.0',
          'clinician-8841',
          'patient-30977',
        ],
        ...['contradicted', '-', '5', '-', '-', 'conflict, outcomes differ'],
      ],
      [
        ...['abcdef00', '2026-03-02 08:31', 'default', 'sepsis-risk', '-', '-', 'other words'],
        ...['thumbs up, thumbs down, rating 4 of 5, 2 text', '5', '-', '-', '-'],
      ],
      [
        ...['abcdef00', '2026-03-02 08:31', 'default', '-', 'clinician-8841', 'patient-30977'],
        ...['validated', '3 ratings, mean 4.3 of 5', '5', '-', '-', '-'],
      ],
      [''],
    ]);
  });

  test('[R-1040] shows the number of calls of a run with several, their tokens, and how many failed', () => {
    const several = listed(1, {
      ...{ counts: { ...COUNTS, 'inference-start': 7, outcome: 0, 'user-feedback': 0 }, failedCalls: 2 },
      ...{ call: { ending: 'complete', status: null, attempts: 1 }, tokens: { input: 700, output: null } },
    });
    expect(runTable([several], VIEW, {})).toMatch(/ +7 +700\/- +2 failed\n$/);
    expect(JSON.parse(jsonLine(several))).toMatchObject({
      ...{ call_count: 7, failed_calls: 2, input_tokens: 700, output_tokens: null, call_ending: 'complete' },
    });
    // A list of runs of one call each has no such columns on a terminal.
    expect(runTable([listed(1)], VIEW, { isTTY: true, columns: 200 })).not.toMatch(/CALLS|TOKENS/);
  });

  test('[R-1040] escapes control characters of senders, and keeps to the width whatever the names are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ user: fc.string({ unit: 'binary' }), model: fc.string({ maxLength: 300 }) })),
        fc.integer({ min: 80, max: 200 }),
        (names, columns) => {
          const runs = names.map(({ user, model }, n) =>
            listed(n, { userId: user, modelId: model, targetId: '\u202e\u001b[2J' }),
          );
          const table = runTable(runs, VIEW, { isTTY: true, columns: columns });
          expect(widthOf(table)).toBeLessThanOrEqual(columns);
          for (const text of [table, runTable(runs, VIEW, {}), ...runs.map((run) => jsonLine(run))]) {
            // eslint-disable-next-line no-control-regex -- they are what is looked for
            expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
            expect(text.isWellFormed()).toBe(true);
          }
          expect(table.split('\n')).toHaveLength(runs.length + 2);
        },
      ),
    );
  });
});

describe('runs for programs', () => {
  test('[R-1040] are one JSON object a line, under stable names', () => {
    const [, , run = listed(0)] = TELLING;
    expect(JSON.parse(jsonLine(run))).toEqual({
      ...{ record_id: id(3), organisation: 'default', last_received_at: '2026-03-02T08:31:06.250Z' },
      ...{ began_received_at: '2026-03-02T08:31:01.253Z', began_timestamp: '2026-03-02T08:31:01.253Z' },
      ...{ model_id: 'sepsis-risk', model_version: null, caller_id: null, target_id: null },
      ...{ app_name: 'triage', event_count: 5, last_outcome: 'other_words', outcomes_differ: false },
      ...{ feedback_count: 5, thumbs_up: 1, thumbs_down: 1, rating_mean: 4, completeness: 'full' },
      ...{ missing: [], conflicts: [], call_ending: null, call_status: null },
      ...{ call_count: 1, failed_calls: 0, input_tokens: null, output_tokens: null },
    });
    expect(jsonLine(run)).toMatch(/^\{"record_id":.*\}\n$/);
  });

  test('[R-1040] are CSV with the same names, or for a spreadsheet [R-712]', () => {
    expect(CSV_HEAD.trimEnd().split(',')).toEqual(Object.keys(JSON.parse(jsonLine(listed(1))) as object));
    const run = listed(1, { targetId: '=A1', userId: 'a,"b"', missing: ['outcome', 'feedback'] });
    const row = csvLine(run, PLAIN_CELLS);
    expect(row).toContain(`,"a,""b""",=A1,`);
    expect(row).toMatch(/,full,outcome feedback,,,,1,0,,\r\n$/);
    expect(csvLine({ ...run, userId: '0012' }, SPREADSHEET_CELLS)).toContain(',"=""0012""","=""=A1""",');
  });
});

describe('the options of collector runs', () => {
  const NOW = Date.parse('2026-04-01T00:00:00Z');
  const request = (options: RunsOptions) => runsRequestFrom(options, NOW);

  test('[R-1040] select runs by all that they name', () => {
    expect(request({})).toEqual({
      ...{ filter: { isRun: true, clock: 'received' }, limit: 20, form: 'table', cells: PLAIN_CELLS },
    });
    const names = { organisation: 'ward-7', target: 'patient 1', user: 'dr', app: 'triage', model: 'm@2' };
    const states = { only: 'incomplete,contradictory,failed', feedback: 'thumbs-down' } as const;
    const rest = {
      since: '2026-01-01',
      until: '2026-02-01',
      clock: 'sender',
      limit: 'all',
      format: 'csv',
      forSpreadsheet: true,
    } as const;
    expect(request({ ...names, ...states, ...rest, outcome: 'other-words' })).toEqual({
      filter: {
        ...{ organisation: 'ward-7', target: 'patient 1', user: 'dr', application: 'triage' },
        models: [{ model: 'm@2' }, { model: 'm', version: '2' }],
        ...{ level: 'incomplete', hasConflict: true, failed: true, feedback: 'down', isRun: true },
        ...{ outcome: 'other_words', since: Date.UTC(2026, 0), until: Date.UTC(2026, 1), clock: 'sender' },
      },
      ...{ limit: Infinity, form: 'csv', cells: SPREADSHEET_CELLS },
    });
    expect(request({ outcome: 'none:30d' }).filter.noOutcomeSince).toBe(Date.UTC(2026, 2, 2));
    expect(request({ outcome: 'none' }).filter).toEqual({
      isRun: true,
      outcome: 'none',
      clock: 'received',
    });
    expect(modelsNamed('a@b@c')).toEqual([
      { model: 'a@b@c' },
      { model: 'a', version: 'b@c' },
      { model: 'a@b', version: 'c' },
    ]);
  });

  test.each<[RunsOptions, string]>([
    [{ outcome: 'contradict' }, '--outcome: '],
    [{ feedback: 'thumbs-u' }, '--feedback: '],
    [{ only: 'incomplet' }, '--only'],
    [{ clock: 'collector' }, '--clock: '],
    [{ limit: '0' }, '--limit: '],
    [{ limit: '1e3' }, '--limit: '],
    [{ outcome: 'none:30' }, '--outcome: '],
    [{ outcome: 'none:0d' }, '--outcome: '],
    [{ json: true, format: 'csv' }, '--format'],
    [{ forSpreadsheet: true }, '--for-spreadsheet'],
    [{ format: 'cvs' }, '--format: '],
    [{ target: '' }, '--target: '],
    [{ target: import.meta.filename }, '--target: '],
    [{ contains: import.meta.filename }, '--contains: '],
    [{ model: '' }, '--model: '],
    [{ organisation: 'a b' }, '--organisation: '],
    [{ since: 'today' }, '--since: '],
    [{ since: '2026-02-01', until: '2026-02-01' }, '--since'],
  ])('[R-1040] %j are refused, and the message names the option', (options, option) => {
    expect(() => request(options)).toThrow(
      expect.objectContaining({ exitCode: 2, message: expect.stringContaining(option) as string }),
    );
  });
});

describe('short ids [R-1040]', () => {
  const uuids = fc.array(fc.oneof(fc.uuid(), fc.integer({ min: 0, max: 99 }).map(id)), { minLength: 1 });

  test('are the beginning of exactly one run id, and select that run', () => {
    fc.assert(
      fc.property(uuids, (made) => {
        const ids = [...new Set(made)].sort();
        for (const [i, each] of ids.entries()) {
          const short = shortId(
            each,
            [ids[i - 1], ids[i + 1]].filter((other) => other !== undefined),
          );
          expect(ids.filter((other) => other.startsWith(short))).toEqual([each]);
          const isWhole = short.length === each.length;
          for (const text of [short, short.toUpperCase(), short.replaceAll('-', '')])
            expect(runIdFrom('--run', text)).toEqual({ id: short, isWhole });
        }
      }),
    );
    expect(shortId(id(1), [])).toBe('abcdef00');
  });

  test.each(['abcdef0', 'abcdef0g', 'abcdef-00', 'abcdef00-00000', `${id(1)}0`, '', '-', 'abcdef00-000-4'])(
    '%j is not valid',
    (text) => {
      expect(() => runIdFrom('--run', text)).toThrow(/^--run: ".*" is neither a UUID/);
    },
  );

  test('of several runs are refused with the ids of these runs', () => {
    const ids = Array.from({ length: 9 }, (_, n) => id(n));
    expect(severalRuns('--run', 'abcdef00', ids.slice(0, 2))).toMatchObject({
      exitCode: 2,
      message: `--run: several runs begin with abcdef00; give one of ${id(0)}, ${id(1)}`,
    });
    expect(severalRuns('--run', 'abcdef00', ids).message).toMatch(/007, …$/);
  });
});
