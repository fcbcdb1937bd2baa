/** A log with half surrogate pairs in it: every export can be read by programs that reject such text. */
import fs from 'node:fs';
import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import type { ClinicalRecord, EventKind } from '@clinical-events/protocol';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { schemaFaults } from '../records/record-schema.js';
import { id } from '../records/run-events.js';
import { run, temporaryDirectory } from '../running/collector-process.js';
import { scratch } from '../running/scratch.js';
import { candidate } from '../store/candidate.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';

const directory = temporaryDirectory();
const dataDir = path.join(directory, 'data');

afterAll(() => fs.rmSync(directory, { recursive: true, force: true }));

/** As it is written in JSON: halves of either case, and what only looks like one. */
const ODD = String.raw`a\ud83d b\uDE42\ud83d\ude42 \\ud83d \\\ud83d 🙂 \u00e9`;
const READ = 'a\ufffd b\ufffd🙂 \\ud83d \\\ufffd 🙂 é';

function body(n: number, payload: string): string {
  const base = `"timestamp":"2026-03-02T08:31:0${n % 10}Z","protocol_version":"0.0.1"`;
  const parts = [`"event_id":"${id(n)}","run_id":"${id(101)}"`, base, payload];
  return `{${parts.join()},"system_metadata":{"app_name":"${ODD}","${ODD}":1},"extra ${ODD}":["${ODD}"]}`;
}

const EVENTS: readonly (readonly [EventKind, string])[] = [
  [
    'inference-start',
    `"model_instance":{"model_id":"m ${ODD}","model_version":"1"},"user_identity":{"caller_id":"${ODD}"},` +
      `"target_identity":{"target_id":"${ODD}"},"inputs":{"prompt":"${ODD}","input_uri":"urn:x:1"}`,
  ],
  ['internal-artifact', `"artifact":{"artifact_type":"other","artifact_uri":"x:1","description":"${ODD}"}`],
  ['human-output', `"output":{"output_uri":"x:2","summary":"${ODD}"}`],
  ['outcome', `"outcome":{"outcome_type":"validated","description":"${ODD}","${ODD}":{"a":"${ODD}"}}`],
  ['user-feedback', `"feedback":{"feedback_type":"${ODD}","comment":"${ODD}"}`],
];
const BODIES = EVENTS.map(([, payload], i) => body(i + 1, payload));

beforeAll(async () => {
  const odd = EVENTS.map(([kind], i) =>
    candidate({ kind, eventId: id(i + 1), runId: id(101), body: BODIES[i] }),
  );
  const plain = body(6, '"outcome":{"outcome_type":"validated"}').replaceAll(ODD, 'plain');
  const other = plain.replaceAll(id(101), id(102));
  await fillDirectory(dataDir, [[...odd, candidate({ eventId: id(6), runId: id(102), body: other })]]);
});

async function exported(format: string): Promise<string> {
  const file = path.join(scratch(), `records.${format}`);
  const { code, stderr } = await run([
    ...['records', '--data-dir', dataDir, '--format', format],
    ...['--out', file],
  ]);
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('completeness.replaced_text');
  return file;
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [name, ...textsIn(member)]);
}

test.each(['ndjson', 'fhir', 'otlp', 'prov', 'json'])(
  '[R-206] %s has U+FFFD for each half of a pair, and every other text as it was sent',
  async (format) => {
    const text = fs.readFileSync(await exported(format), 'utf8');
    const lines = format === 'json' ? [text] : text.trimEnd().split('\n');
    const values = lines.map((line) => JSON.parse(line) as unknown);
    for (const each of values.flatMap((value) => textsIn(value))) expect(each.isWellFormed()).toBe(true);
    if (format === 'fhir') return;
    expect(text).toContain('replaced_text');
    if (format !== 'ndjson') return;
    for (const value of values) expect(schemaFaults(value as ClinicalRecord)).toEqual([]);
    const ids = EVENTS.map((_, i) => id(i + 1));
    expect(values).toMatchObject([
      {
        model: { model_id: `m ${READ}` },
        outcomes: [{ outcome: { description: READ, [READ]: { a: READ } } }],
        metadata: { completeness: { replaced_text: ids } },
      },
      { metadata: { completeness: { replaced_text: [] } } },
    ]);
  },
);

test('[R-206] DuckDB reads every format, and the mark of the record', async () => {
  const instance = await DuckDBInstance.create(':memory:');
  const duckdb = await instance.connect();
  onTestFinished(() => {
    duckdb.closeSync();
    instance.closeSync();
  });
  const rows = async (sql: string) => (await duckdb.runAndReadAll(sql)).getRowsJson();
  const parquet = await exported('parquet');
  expect(
    await rows(
      `SELECT record_id, replaced_text, prompt, model->>'$.model_id', o.description, o.json->>'$.description', json_valid(o.extra)
       FROM '${parquet}', unnest(outcomes) AS t(o) ORDER BY 1`,
    ),
  ).toMatchObject([
    [id(101), 5, READ, `m ${READ}`, READ, READ, true],
    [id(102), 0, null, null, null, null, true],
  ]);
  for (const format of ['ndjson', 'json']) {
    const file = await exported(format);
    expect(
      await rows(
        `SELECT inputs.prompt, len(metadata.completeness.replaced_text) FROM read_json_auto('${file}')`,
      ),
    ).toEqual([
      [READ, '5'],
      [null, '0'],
    ]);
  }
  const csv = await exported('csv');
  expect(await rows(`SELECT prompt, replaced_text, last_comment FROM read_csv_auto('${csv}')`)).toEqual([
    [READ, '5', READ],
    [null, '0', null],
  ]);
});

test('[R-206] events prints what was sent, and the other commands print valid Unicode', async () => {
  const events = await run(['events', '--data-dir', dataDir]);
  const lines = events.stdout.trimEnd().split('\n');
  expect(lines.map((line) => (JSON.parse(line) as { body: string }).body).slice(0, 5)).toEqual(BODIES);
  // Each body is a string with its own escapes, which every JSON reader accepts.
  expect(events.stdout).not.toMatch(/[^\\](\\\\)*\\u[dD]/);
  for (const args of [
    ['runs', '--json'],
    ['runs', '--format', 'csv'],
    ['report', '--json', '--out', path.join(scratch(), 'report.html')],
    ['records', '--run', id(101), '--format', 'text'],
    ['records', '--run', id(101), '--full'],
  ]) {
    const { code, stdout, stderr } = await run([...args, '--data-dir', dataDir]);
    expect(code, stderr).toBe(0);
    if (args.includes('--json')) {
      const texts = args[0] === 'runs' ? stdout.trimEnd().split('\n') : [stdout];
      for (const each of texts.flatMap((text) => textsIn(JSON.parse(text)))) {
        expect(each.isWellFormed()).toBe(true);
      }
    }
    if (args[0] === 'records') {
      expect(stdout).toMatch(new RegExp(`^Replaced text +${id(1)}`, 'm'));
      expect(stderr).toContain('completeness.replaced_text');
    }
  }
});
