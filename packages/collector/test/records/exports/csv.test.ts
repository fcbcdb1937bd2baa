import type { BaseEvent } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { assembleRun, type AssembledRun } from '../../../src/records/assemble.js';
import { csv, CSV_COLUMNS } from '../../../src/records/exports/csv.js';
import { event, RUN } from '../run-events.js';
import { anyRuns, awkwardRun, fileOf, plainRun } from './odd-runs.js';

/** The grammar of RFC 4180, section 2, to the letter; anything else is a fault. */
function parsed(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y;
  while (field.lastIndex < text.length) {
    const at = field.lastIndex;
    const found = field.exec(text);
    if (found === null) throw new SyntaxError(`no field of CSV at ${at}`);
    row.push(found[1]?.replaceAll('""', '"') ?? found[2] ?? '');
    if (found[3] === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

function rowsOf(runs: readonly AssembledRun<BaseEvent>[]): Record<string, string>[] {
  const [head = [], ...rows] = parsed(fileOf(csv, runs).toString());
  expect(head).toEqual(CSV_COLUMNS.map(({ name }) => name));
  return rows.map((row) => {
    expect(row.length).toBe(head.length);
    return Object.fromEntries(head.map((name, i) => [name, row[i] ?? '']));
  });
}

test('a row says in brief what the record says [R-712]', () => {
  expect(rowsOf([plainRun()])[0]).toMatchObject({
    record_id: RUN,
    model_id: 'sepsis-risk',
    model_version: '4.2.0',
    caller_id: 'clinician-8841',
    target_id: 'patient-30977',
    first_timestamp: '2026-03-02T08:31:01.000Z',
    latency_ms: '2000',
    completeness: 'full',
    missing: '',
    event_count: '5',
    artifact_count: '1',
    last_output_summary: 'High risk.',
    last_outcome_type: 'validated',
    last_feedback_type: 'thumbs',
  });
});

test('a number that was sent as a text stands in its column, and is counted [R-208]', () => {
  const feedback = { feedback_type: 'rating', rating_value: '4.50' };
  const run = assembleRun([
    event({ kind: 'inference-start', n: 1 }),
    event({ kind: 'user-feedback', n: 2, more: { feedback } }),
  ]);
  expect(rowsOf([run])[0]).toMatchObject({ last_rating: '4.5', numbers_in_text: '1' });
});

test('what an instrumentation told of a call stands in columns, with the version of the model [R-209] [R-210]', () => {
  const said = {
    ending: 'complete',
    response_model: 'gpt-9-2026',
    usage: { input_tokens: 11, output_tokens: 7 },
  };
  const system_metadata = { instrumentation: { by: 'openai', attempt: 2 } };
  const run = assembleRun([
    event({ kind: 'inference-start', n: 1, more: { model_instance: { model_id: 'gpt-9' } } }),
    event({ kind: 'human-output', n: 2, more: { output: said, system_metadata } }),
  ]);
  expect(rowsOf([run])[0]).toMatchObject({
    ...{ model_id: 'gpt-9', model_version: 'gpt-9-2026', response_model: 'gpt-9-2026' },
    ...{ call_by: 'openai', call_ending: 'complete', call_attempts: '2', call_status: '', call_error: '' },
    ...{ input_tokens: '11', output_tokens: '7' },
  });
});

test('every text can be read back by the grammar of RFC 4180, and none is a formula [R-712]', () => {
  const [row] = rowsOf([awkwardRun()]);
  expect(row).toMatchObject({
    model_id: `'=cmd|"/c calc"!A1`,
    model_version: '1,2\r\n3',
    prompt: 'Line one\n"line two", and a comma',
    last_outcome_type: '',
    last_rating: '4.5',
    last_comment: "'-1+1, 护理 🩺",
  });
});

test('any records make as many rows, and no cell begins as a formula does [R-712]', () => {
  fc.assert(
    fc.property(anyRuns, (runs) => {
      const rows = rowsOf(runs);
      expect(rows.map(({ event_count }) => event_count)).toEqual(
        runs.map(({ metadata }) => String(metadata.events.length)),
      );
      for (const row of rows) for (const text of Object.values(row)) expect(text).not.toMatch(/^[=+@\t\r]/);
    }),
  );
});

test('no text is a formula where a spreadsheet splits it once more [R-712]', () => {
  const run = plainRun();
  const texts = ['x;=1+1', 'x\n@SUM', 'x\t-1', '\n=2', '＝3', 'a;b - c'];
  const prompts = rowsOf(texts.map((prompt) => ({ ...run, inputs: { prompt } }))).map(({ prompt }) => prompt);
  expect(prompts).toEqual(["x;'=1+1", "x\n'@SUM", "x\t'-1", "'\n'=2", "'＝3", 'a;b - c']);
});
