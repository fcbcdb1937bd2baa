import type { BaseEvent } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { assembleRun, type AssembledRun } from '../../../src/records/assemble.js';
import { PLAIN_CELLS, SPREADSHEET_CELLS } from '../../../src/records/exports/csv-cell.js';
import * as formats from '../../../src/records/exports/csv.js';
import { event, id, RUN } from '../run-events.js';
import { anyRuns, awkwardRun, fileOf, plainRun } from './odd-runs.js';

const { CSV_COLUMNS, CALL_ROW_COLUMNS } = formats;
const csv = formats.csv(false);
const spreadsheet = formats.csv(true);
const calls = formats.callsCsv(false);

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

function rowsOf(runs: readonly AssembledRun<BaseEvent>[], format = csv): Record<string, string>[] {
  const [head = [], ...rows] = parsed(
    fileOf(format, runs)
      .toString()
      .replace(/^\ufeff/, ''),
  );
  const columns: readonly { readonly name: string }[] = format === calls ? CALL_ROW_COLUMNS : CSV_COLUMNS;
  expect(head).toEqual(columns.map(({ name }) => name));
  return rows.map((row) => {
    expect(row.length).toBe(head.length);
    return Object.fromEntries(head.map((name, i) => [name, row[i] ?? '']));
  });
}

test('a row summarises its record [R-712]', () => {
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

test('the system of a run and its sampling have columns [R-712]', () => {
  const sampling = { rate: 0.5, selected: false };
  const system_metadata = { app_name: 'triage', hostname: 'ward-7', environment: 'pilot', sampling };
  const run = assembleRun([event({ kind: 'inference-start', n: 1, more: { system_metadata } })]);
  expect(rowsOf([run])[0]).toMatchObject({
    ...{ app_name: 'triage', hostname: 'ward-7', environment: 'pilot' },
    ...{ sampling_rate: '0.5', sampling_selected: 'false', sampling_trigger: '', not_captured_runs: '' },
  });
});

test('a number that was sent as a text is in its column, and is counted [R-206]', () => {
  const feedback = { feedback_type: 'rating', rating_value: '4.50' };
  const run = assembleRun([
    event({ kind: 'inference-start', n: 1 }),
    event({ kind: 'user-feedback', n: 2, more: { feedback } }),
  ]);
  expect(rowsOf([run])[0]).toMatchObject({ last_rating: '4.5', numbers_in_text: '1' });
});

test('the report of an instrumentation on a call has columns, with the version of the model [R-1830]', () => {
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

/** As docs/reference/records.md says that a program gets a text back from a file for a spreadsheet. */
function readBack(cell: string): string {
  const [, formula] = /^="(.*)"$/s.exec(cell) ?? [];
  return formula ?? cell.replace(/(^|[;\t\r\n])'/g, '$1');
}

/** Control characters as their pictures. */
function pictured(text: string): string {
  // eslint-disable-next-line no-control-regex -- the test looks for them
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, (each) =>
    String.fromCharCode(0x2400 + each.charCodeAt(0)),
  );
}

function cellsOf(cells: typeof PLAIN_CELLS, texts: readonly string[]): string[] {
  return parsed(`${texts.map((text) => cells.cell(text)).join(',')}\r\n`)[0] ?? [];
}

test('the calls of a run are counted, with their models and all their tokens [R-712]', () => {
  const ended = (ending: string, input: number) => ({
    output: { ending, response_model: 'a-1', usage: { input_tokens: input, output_tokens: 1 } },
    system_metadata: { instrumentation: { by: 'openai' } },
  });
  const run = assembleRun([
    event({ kind: 'inference-start', n: 1, more: { model_instance: { model_id: 'a' } } }),
    event({ kind: 'human-output', n: 2, parent: id(1), more: ended('complete', 10) }),
    event({ kind: 'inference-start', n: 3, more: { model_instance: { model_id: 'b', model_version: '2' } } }),
    event({ kind: 'human-output', n: 4, parent: id(3), more: ended('failed', 5) }),
    event({
      kind: 'inference-start',
      n: 5,
      more: { model_instance: { model_id: 'a', model_version: 'a-1' } },
    }),
    event({ kind: 'inference-start', n: 6, more: { model_instance: { version: 7 } } }),
  ]);
  for (const columns of [CSV_COLUMNS, CALL_ROW_COLUMNS]) {
    const names = columns.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  }
  expect(rowsOf([run])[0]).toMatchObject({
    ...{ model_id: 'a', model_version: 'a-1', call_count: '4', failed_calls: '1', models: 'a@a-1 b@2' },
    ...{ input_tokens: '15', output_tokens: '2', call_ending: 'failed' },
  });
});

test('each call is a row, with its own values only (R-712)', () => {
  const ended = {
    output: { ending: 'failed', status: 500, summary: 'none', usage: { input_tokens: 10 } },
    system_metadata: { instrumentation: { by: 'openai' } },
  };
  const run = assembleRun([
    event({ kind: 'inference-start', n: 1 }),
    event({ kind: 'human-output', n: 2, parent: id(1), more: ended }),
    event({ kind: 'inference-start', n: 3, parent: id(2), more: { inputs: { prompt: 'a, "b"' } } }),
    event({ kind: 'user-feedback', n: 4, parent: id(3), more: { feedback: { comment: 'late' } } }),
    event({ kind: 'outcome', n: 5 }),
  ]);
  const alone = assembleRun([event({ kind: 'outcome', n: 6, run: null })]);
  const of = { record_id: RUN, organisation: 'default', model_id: 'sepsis-risk', model_version: '4.2.0' };
  expect(rowsOf([alone, run, alone], calls)).toMatchObject([
    {
      ...{ ...of, call_number: '1', call_event_id: id(1), timestamp: '2026-03-02T08:31:01.000Z' },
      ...{ received_at: '2026-03-02T08:31:01.500Z', prompt: 'Estimate the risk.', latency_ms: '1000' },
      ...{ by: 'openai', ending: 'failed', status: '500', input_tokens: '10', output_tokens: '' },
      ...{ output_count: '1', last_output_summary: 'none', outcome_count: '0', feedback_count: '0' },
    },
    {
      ...{ ...of, call_number: '2', call_event_id: id(3), parent_event_id: id(2), prompt: 'a, "b"' },
      ...{ by: '', ending: '', output_count: '0', feedback_count: '1', last_comment: 'late' },
    },
  ]);
  expect(rowsOf([alone], calls)).toEqual([]);
  expect(rowsOf([], calls)).toEqual([]);
});

test('any records have as many rows of calls as calls, in whatever pieces they come (R-712)', () => {
  fc.assert(
    fc.property(anyRuns, (runs) => {
      expect(rowsOf(runs, calls).map(({ call_event_id }) => call_event_id)).toEqual(
        runs.flatMap(({ metadata }) => metadata.calls.map(({ start }) => start.event.eventId)),
      );
    }),
  );
});

test('a text is in its cell as it was sent, also where a spreadsheet would compute it [R-712]', () => {
  const [row] = rowsOf([awkwardRun()]);
  expect(row).toMatchObject({
    model_id: `=cmd|"/c calc"!A1`,
    model_version: '1,2\r\n3',
    prompt: 'Line one\n"line two", and a comma',
    last_outcome_type: '',
    last_rating: '4.5',
    last_comment: '-1+1, 护理 🩺',
  });
});

test('a control character is written as its picture, except for tab, CR and LF [R-712]', () => {
  const texts = ['a\u0000b', '\u0001\u001f\u007f', '\t\r\n', '\u0085'];
  const written = ['a\u2400b', '\u2401\u241f\u2421', '\t\r\n', '\u0085'];
  expect(cellsOf(PLAIN_CELLS, texts)).toEqual(written);
  expect(cellsOf(SPREADSHEET_CELLS, texts).map(readBack)).toEqual(written);
});

test('any texts are read back by the grammar of RFC 4180, with nothing inserted [R-712]', () => {
  fc.assert(
    fc.property(fc.array(anyText, { minLength: 1 }), (texts) => {
      expect(cellsOf(PLAIN_CELLS, texts)).toEqual(texts.map(pictured));
    }),
  );
});

const anyText = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({
    unit: fc.constantFrom(...['=', '+', '-', '@', "'", '"', ';', '\t', '\r', '\n', ' ', ',', '0', 'e', '＝']),
  }),
  fc.stringMatching(/^[+-]?[0-9]{1,320}([.,/:-][0-9]{1,4}){0,2}$/),
);

const NUMBERS = [
  '0000123456',
  '1E10',
  '12345678901234567890',
  '1-2',
  'MAR1',
  'Sept-2026',
  '-5',
  '5 %',
  '٠١٢',
];
const CONSTANTS = ['TRUE', 'faux', '#N/A'];

test('an id, a date or a truth value is written as the text of a formula for a spreadsheet [R-712]', () => {
  for (const text of [...NUMBERS, ...CONSTANTS, '7'.repeat(255), '=1+1']) {
    expect(cellsOf(SPREADSHEET_CELLS, [text])).toEqual([`="${text}"`]);
  }
  const others = [
    'patient A',
    '0a6f2a52-1c7e-4d0f-8b5a-6f2f3a9d1e22',
    'validated',
    'https://e.org/a/b/c/1',
    '',
  ];
  expect(cellsOf(SPREADSHEET_CELLS, others)).toEqual(others);
});

test('a text that cannot be in a formula has an apostrophe before it [R-712]', () => {
  const [longNumber, formula] = ['7'.repeat(256), '=HYPERLINK("https://e.org";A1)'];
  const texts = [
    longNumber,
    formula,
    '1\t2',
    '＝SUM(A)',
    ' @SUM(A)',
    '-',
    "'x",
    'a;=A1',
    'a\r\n+A',
    '\n=2',
    'a; b-c',
  ];
  expect(cellsOf(SPREADSHEET_CELLS, texts)).toEqual([
    ...[`'${longNumber}`, `'${formula}`, "'1\t2", "'＝SUM(A)", "' @SUM(A)", "'-", "''x"],
    ...["a;'=A1", "a\r\n'+A", "'\n'=2", 'a; b-c'],
  ]);
});

test('for a spreadsheet no cell is a formula other than a quoted text, and all are read back [R-712]', () => {
  fc.assert(
    fc.property(fc.array(anyText, { minLength: 1 }), (texts) => {
      const cells = cellsOf(SPREADSHEET_CELLS, texts);
      expect(cells.map(readBack)).toEqual(texts.map(pictured));
      for (const cell of cells) {
        if (/^="[^";\t\r\n]{1,255}"$/.test(cell)) continue;
        // Wherever a spreadsheet may split a cell once more.
        for (const part of cell.split(/[;\t\r\n]/)) expect(part).not.toMatch(/^\s*[=+\-@\uff1d]/);
        expect(cell).not.toMatch(/^[\d.,/:%-]*\d[\d.,/:%-]*$/);
      }
    }),
  );
});

test('a file for a spreadsheet begins with a byte order mark, also without records [R-712]', () => {
  for (const runs of [[], [awkwardRun(), plainRun()]]) {
    const [plain, marked] = [fileOf(csv, runs), fileOf(spreadsheet, runs)];
    expect(marked.subarray(0, 3)).toEqual(Buffer.from([0xef, 0xbb, 0xbf]));
    expect(plain[0]).not.toBe(0xef);
  }
  expect(fileOf(spreadsheet, []).subarray(3)).toEqual(fileOf(csv, []));
  expect(rowsOf([awkwardRun()], spreadsheet)[0]).toMatchObject({
    model_id: `'=cmd|"/c calc"!A1`,
    last_rating: '4.5',
    last_comment: '="-1+1, 护理 🩺"',
  });
});

test('cells of more than 32,767 UTF-16 units are whole, and counted for a spreadsheet [R-712]', () => {
  const run = plainRun();
  const prompts = ['x'.repeat(32_767), '🩺'.repeat(16_384), `=${'x'.repeat(32_766)}`];
  const runs = prompts.map((prompt) => ({ ...run, inputs: { prompt } }));
  for (const [format, longCells] of [
    [csv, 0],
    [spreadsheet, 2],
  ] as const) {
    const builder = format.builder();
    for (const each of runs) builder.add(each);
    expect(builder.take().longCells).toBe(longCells);
    expect(builder.take().longCells).toBe(0);
    expect(rowsOf(runs, format).map(({ prompt = '' }) => readBack(prompt))).toEqual(prompts);
  }
});

test('any records have one row each [R-712]', () => {
  fc.assert(
    fc.property(anyRuns, (runs) => {
      const counts = runs.map(({ metadata }) => String(metadata.events.length));
      for (const format of [csv, spreadsheet])
        expect(rowsOf(runs, format).map(({ event_count }) => event_count)).toEqual(counts);
    }),
  );
});
