/** Parquet files are read by DuckDB, which shares no code with the writer. */
import fs from 'node:fs';
import path from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { DuckDBInstance, DuckDBTimestampTZValue, type DuckDBConnection } from '@duckdb/node-api';
import fc from 'fast-check';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { assembleRun, recordOf, type AssembledRun } from '../../collector/src/records/assemble.js';
import { parquet } from '../src/parquet.js';
import { ScannedBody } from '../../collector/src/records/run-event.js';
import type { ReadEvents } from '../../collector/src/store/contract/events.js';
import { temporaryDirectory } from '../../collector/test/running/collector-process.js';
import { anyRun, type Sent } from '../../collector/test/records/any-run.js';
import { event, id } from '../../collector/test/records/run-events.js';
import { RECORD_COLUMNS } from '../../collector/src/records/exports/record-columns.js';
import { anyRuns, awkwardRun, fileOf, plainRun } from '../../collector/test/records/exports/odd-runs.js';

let directory: string;
let file: string;
let instance: DuckDBInstance;
let duckdb: DuckDBConnection;

beforeAll(async () => {
  directory = temporaryDirectory();
  file = path.join(directory, 'records.parquet');
  instance = await DuckDBInstance.create(':memory:');
  duckdb = await instance.connect();
  await duckdb.run("SET TimeZone = 'UTC'");
  DuckDBTimestampTZValue.timezoneOffsetInMinutes = 0;
});

afterAll(() => {
  duckdb.closeSync();
  instance.closeSync();
  fs.rmSync(directory, { recursive: true, force: true });
});

/** hyparquet has no decompressor for Zstandard. */
const compressors = { ZSTD: (bytes: Uint8Array) => zstdDecompressSync(bytes) };

type Row = Readonly<Record<string, unknown>>;

/** The rows that DuckDB reads from the records of these runs. */
async function read(runs: readonly AssembledRun[], select = '*'): Promise<Row[]> {
  fs.writeFileSync(file, fileOf(parquet, runs));
  const result = await duckdb.runAndReadAll(`SELECT ${select} FROM '${file}'`);
  return result.getRowObjectsJson();
}

test('every column has its type, and lists are lists [R-712]', async () => {
  await read([plainRun()]);
  const described = await duckdb.runAndReadAll(`DESCRIBE SELECT * FROM '${file}'`);
  const types = new Map(described.getRowObjectsJson().map((row) => [row['column_name'], row['column_type']]));
  expect(types.get('record_id')).toBe('VARCHAR');
  expect(types.get('first_timestamp')).toBe('TIMESTAMP WITH TIME ZONE');
  expect(types.get('latency_ms')).toBe('DOUBLE');
  expect(types.get('event_count')).toBe('INTEGER');
  expect(types.get('missing')).toBe('VARCHAR[]');
  expect(types.get('outcomes')).toBe(
    'STRUCT(event_id VARCHAR, "timestamp" TIMESTAMP WITH TIME ZONE, received_at TIMESTAMP WITH TIME ZONE, ' +
      'parent_event_id VARCHAR, call_event_id VARCHAR, "type" VARCHAR, ' +
      'occurred_at TIMESTAMP WITH TIME ZONE, description VARCHAR, uri VARCHAR, ' +
      '"json" VARCHAR, extra VARCHAR)[]',
  );
});

test('an empty list of row groups has a valid Thrift type [R-712]', () => {
  const bytes = fileOf(parquet, []);
  // num_rows: 0 (i64), then a list of 0 structs.
  expect(bytes.includes(Buffer.from([0x16, 0x00, 0x19, 0x0c]))).toBe(true);
  expect(bytes.includes(Buffer.from([0x16, 0x00, 0x19, 0x00]))).toBe(false);
});

test('a file without records has the same columns and types, for two readers [R-712]', async () => {
  const one = [plainRun()];
  const many = [awkwardRun(), ...Array.from({ length: 3 }, () => plainRun())];
  const seen = [];
  for (const runs of [[], one, many]) {
    expect((await read(runs)).length).toBe(runs.length);
    const described = await duckdb.runAndReadAll(`DESCRIBE SELECT * FROM '${file}'`);
    const bytes = new Uint8Array(fs.readFileSync(file)).buffer;
    const { schema, num_rows } = parquetMetadata(bytes);
    expect(num_rows).toBe(BigInt(runs.length));
    expect((await parquetReadObjects({ file: bytes, compressors })).length).toBe(runs.length);
    seen.push({ types: described.getRowObjectsJson(), schema });
  }
  const columns = RECORD_COLUMNS.map(({ name }) => name);
  expect(new Set(columns).size).toBe(columns.length);
  expect(seen[0]?.types.length).toBeGreaterThan(columns.length);
  expect(seen[0]).toEqual(seen[1]);
  expect(seen[0]).toEqual(seen[2]);
});

test('a record is read back unchanged [R-712]', async () => {
  const run = plainRun();
  const record = recordOf(run);
  const [row] = await read([run]);
  expect(row).toMatchObject({
    record_id: record.metadata.record_id,
    model_id: 'sepsis-risk',
    first_timestamp: '2026-03-02 08:31:01+00',
    first_received_at: '2026-03-02 08:31:01.5+00',
    latency_ms: 2000,
    completeness: 'full',
    missing: [],
    event_count: 5,
    model: '{"model_id":"sepsis-risk","model_version":"4.2.0"}',
  });
  expect(row?.['outputs']).toMatchObject([
    { event_id: record.outputs[0]?.event_id, summary: 'High risk.', type: null },
  ]);
});

test('a value of another type than its column is only in the JSON [R-712]', async () => {
  const [row] = await read([awkwardRun()]);
  expect(row).toMatchObject({ model_id: '=cmd|"/c calc"!A1', model_version: '1,2\r\n3' });
  expect(row?.['outcomes']).toMatchObject([{ type: null, json: '{"outcome_type":{"code":7},"dose":12}' }]);
  expect(row?.['feedback']).toMatchObject([{ type: 'rating', rating: 4.5, comment: '-1+1, 护理 🩺' }]);
});

test('numbers sent as texts, and the ending of a call, have columns [R-206] [R-1830]', async () => {
  const said = { ending: 'failed', status: 500, error_name: 'Error', usage: { input_tokens: '11' } };
  const artifact = { artifact_type: 'other', artifact_uri: 'urn:x:1', ...said };
  const system_metadata = { instrumentation: { by: 'openai' } };
  const feedback = { feedback_type: 'rating', rating_value: '4.50' };
  const run = assembleRun([
    event({ kind: 'internal-artifact', n: 2, more: { artifact, system_metadata } }),
    event({ kind: 'user-feedback', n: 3, more: { feedback } }),
  ]);
  const [row] = await read([run]);
  expect(row).toMatchObject({
    ...{ call_by: 'openai', call_ending: 'failed', call_attempts: 1, call_status: 500, call_error: 'Error' },
    ...{ input_tokens: 11, output_tokens: null, numbers_in_text: 2, feedback: [{ rating: 4.5 }] },
  });
});

test('environment and sampling of a run have typed columns [R-712]', async () => {
  const sampling = { rate: 0.5, selected: true };
  const system_metadata = { app_name: 'triage', hostname: 'ward-7', environment: 'pilot', sampling };
  const marked = assembleRun([event({ kind: 'inference-start', n: 1, more: { system_metadata } })]);
  const rows = await read([
    marked,
    assembleRun([event({ kind: 'outcome', n: 2, more: { system_metadata: {} } })]),
  ]);
  expect(rows).toMatchObject([
    {
      ...{ app_name: 'triage', hostname: 'ward-7', environment: 'pilot' },
      ...{ sampling_rate: 0.5, sampling_selected: true, sampling_after_model_change: null },
      ...{ sampling_trigger: null, not_captured_runs: null },
    },
    { app_name: null, hostname: null, environment: null, sampling_rate: null, sampling_selected: null },
  ]);
});

/** Two calls of different models, the second without an ending; an outcome belongs to the run only. */
function twoCalls() {
  const ended = {
    ...{ ending: 'failed', status: 429, error_name: 'RateLimit', response_model: 'a-2026' },
    usage: { input_tokens: 100, output_tokens: 7 },
  };
  const system_metadata = { instrumentation: { by: 'openai', attempt: 2 } };
  return assembleRun([
    event({
      ...{ kind: 'inference-start', n: 1 },
      more: { model_instance: { model_id: 'a' }, inputs: { prompt: 'p', temperature: 0.7 }, unnamed: 1 },
    }),
    event({ kind: 'human-output', n: 2, parent: id(1), more: { output: ended, system_metadata } }),
    event({
      ...{ kind: 'inference-start', n: 3, parent: id(2) },
      more: { model_instance: { model_id: 'b', model_version: '2' }, target_identity: { target_id: 't' } },
    }),
    event({ kind: 'internal-artifact', n: 4, parent: id(3) }),
    event({ kind: 'human-output', n: 5, parent: id(4) }),
    event({ kind: 'outcome', n: 6 }),
  ]);
}

test('the calls of a run are a list, and each event names its call [R-712]', async () => {
  const [row] = await read([twoCalls()]);
  expect(row).toMatchObject({
    ...{ model_id: 'a', call_count: 2, failed_calls: 1, models: ['a@a', 'b@2'] },
    ...{ input_tokens: 100, output_tokens: 7 },
    calls: [
      {
        ...{ event_id: id(1), parent_event_id: null, model_id: 'a', model_version: 'a' },
        ...{ by: 'openai', ending: 'failed', attempts: 2, status: 429, error: 'RateLimit' },
        ...{ response_model: 'a-2026', input_tokens: 100, output_tokens: 7, latency_ms: 1000 },
        ...{ artifact_count: 0, output_count: 1, outcome_count: 0, feedback_count: 0 },
        ...{ inputs: '{"prompt":"p","temperature":0.7}', extra: '{"unnamed":1}' },
      },
      {
        ...{ event_id: id(3), parent_event_id: id(2), model_id: 'b', model_version: '2', target_id: 't' },
        ...{ by: null, ending: null, attempts: null, input_tokens: null, latency_ms: 2000 },
        ...{ artifact_count: 1, output_count: 1, model: '{"model_id":"b","model_version":"2"}', extra: null },
      },
    ],
    artifacts: [{ event_id: id(4), call_event_id: id(3) }],
    outputs: [{ call_event_id: id(1) }, { call_event_id: id(3) }],
    outcomes: [{ event_id: id(6), call_event_id: null }],
  });
  const summed = await duckdb.runAndReadAll(
    `SELECT c.model_id, count(*)::INT AS calls, sum(c.input_tokens) AS tokens
     FROM '${file}', unnest(calls) AS t(c) GROUP BY ALL ORDER BY ALL`,
  );
  expect(summed.getRowObjectsJson()).toEqual([
    { model_id: 'a', calls: 1, tokens: 100 },
    { model_id: 'b', calls: 1, tokens: null },
  ]);
});

test('the calls are those of the record for any order of the events [R-712]', async () => {
  const runsOf = fc.array(
    anyRun.map((sent) => assembleRun(sent.map(({ event: each }) => each))),
    {
      minLength: 1,
      maxLength: 4,
    },
  );
  await fc.assert(
    fc.asyncProperty(runsOf, async (runs) => {
      const rows = await read(runs);
      for (const [i, run] of runs.entries()) {
        const record = recordOf(run);
        const { calls } = record.metadata;
        const callOf = (kind: 'artifacts' | 'outputs' | 'outcomes' | 'feedback') =>
          record[kind].map(({ event_id }) => ({
            event_id,
            call_event_id: calls.find((call) => call[kind].includes(event_id))?.event_id ?? null,
          }));
        expect(rows[i]).toMatchObject({
          call_count: calls.length,
          input_tokens: record.metadata.tokens.input,
          calls: calls.map((call) => ({
            event_id: call.event_id,
            parent_event_id: call.parent_event_id,
            output_count: call.outputs.length,
            feedback_count: call.feedback.length,
            latency_ms: call.latency_ms,
            ending: call.ended?.ending ?? null,
            output_tokens: call.ended?.output_tokens ?? null,
            inputs: call.inputs === null ? null : JSON.stringify(call.inputs).toWellFormed(),
          })),
          artifacts: callOf('artifacts'),
          outputs: callOf('outputs'),
          outcomes: callOf('outcomes'),
          feedback: callOf('feedback'),
        });
      }
    }),
    { numRuns: 40 },
  );
});

test('any records are read back with the same counts and the same JSON [R-712]', async () => {
  const wellFormed = (text: string | undefined) => text?.toWellFormed() ?? null;
  await fc.assert(
    fc.asyncProperty(anyRuns, async (runs) => {
      const rows = await read(runs);
      expect(rows.length).toBe(runs.length);
      for (const [i, run] of runs.entries()) {
        const { metadata, model, artifacts, outputs, outcomes, feedback } = recordOf(run);
        expect(rows[i]).toMatchObject({
          record_id: metadata.record_id,
          organisation: metadata.organisation,
          event_count: metadata.events.length,
          latency_ms: metadata.latency_ms,
          missing: metadata.completeness.missing,
          model: model === null ? null : wellFormed(JSON.stringify(model)),
          artifacts: artifacts.map((each) => ({ json: wellFormed(JSON.stringify(each.artifact)) })),
          outputs: outputs.map((each) => ({ json: wellFormed(JSON.stringify(each.output)) })),
          outcomes: outcomes.map((each) => ({ json: wellFormed(JSON.stringify(each.outcome)) })),
          feedback: feedback.map((each) => ({ json: wellFormed(JSON.stringify(each.feedback)) })),
        });
      }
    }),
    { numRuns: 50 },
  );
});

test('several row groups are one table [R-712]', async () => {
  const run = plainRun();
  const many = Array.from({ length: 20_000 }, (_, i): AssembledRun => ({
    ...run,
    metadata: { ...run.metadata, latency_ms: i },
  }));
  const [row] = await read(
    many,
    'count(*)::INT AS n, sum(latency_ms) AS total, sum(len(feedback))::INT AS said',
  );
  expect(row).toEqual({ n: 20_000, total: (19_999 * 20_000) / 2, said: 20_000 });
});

/** Events as read from the log. */
function readOf(sent: readonly Sent[]): ReadEvents {
  const bodies = sent.map(({ text }) => Buffer.from(text));
  const ends = bodies.map((_, i) => bodies.slice(0, i + 1).reduce((sum, { length }) => sum + length, 0));
  return {
    source: Buffer.concat(bodies),
    facts: (index) => sent[index]?.event.event ?? raise(index),
    body: (index) => sent[index]?.text,
    bodyFrom: (index) => ends[index - 1] ?? 0,
    bodyTo: (index) => ends[index] ?? raise(index),
  };
}

function raise(index: number): never {
  throw new RangeError(`there is no event ${index}`);
}

test('scanned and parsed events make the same file [R-712]', () => {
  let plain = 0;
  fc.assert(
    fc.property(fc.array(anyRun, { maxLength: 4 }), (runs) => {
      const reader = parquet.reader();
      for (const sent of runs) {
        reader.begin(readOf(sent));
        const events = sent.map((_, index) => reader.event(index));
        plain += events.filter(({ body }) => body instanceof ScannedBody).length;
        const parsed = assembleRun(sent.map(({ event }) => event));
        expect(fileOf(parquet, [assembleRun(events)]).equals(fileOf(parquet, [parsed]))).toBe(true);
      }
    }),
  );
  expect(plain).toBeGreaterThan(50);
});
