/** Columns of any values, read by two readers: DuckDB and hyparquet. */
import fs from 'node:fs';
import path from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { DuckDBInstance, type DuckDBConnection } from '@duckdb/node-api';
import fc from 'fast-check';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RowGroupBuilder, RowGroupJoiner } from '../src/parquet-rows.js';
import { structs, type Table } from '../src/parquet-table.js';
import { temporaryDirectory } from '../../collector/test/running/collector-process.js';

interface Entry {
  readonly said: string | null;
  readonly dose: number | null;
  readonly seen: number | null;
  readonly sure: boolean | null;
}

interface Row {
  readonly text: string | null;
  readonly number: number | null;
  readonly count: number | null;
  readonly time: number | null;
  readonly flag: boolean | null;
  readonly texts: readonly string[];
  readonly entries: readonly Entry[];
}

const TABLE: Table<Row> = {
  name: 'rows',
  fields: [
    { name: 'text', type: 'text', of: ({ text }) => text ?? undefined },
    { name: 'number', type: 'number', of: ({ number }) => number ?? undefined },
    { name: 'count', type: 'count', of: ({ count }) => count ?? undefined },
    { name: 'time', type: 'time', of: ({ time }) => time ?? undefined },
    { name: 'flag', type: 'flag', of: ({ flag }) => flag ?? undefined },
    { name: 'texts', type: 'texts', of: ({ texts }) => texts },
    structs('entries', ({ entries }) => entries, [
      { name: 'said', type: 'text', of: ({ said }) => said ?? undefined },
      { name: 'dose', type: 'number', of: ({ dose }) => dose ?? undefined },
      { name: 'seen', type: 'time', of: ({ seen }) => seen ?? undefined },
      { name: 'sure', type: 'flag', of: ({ sure }) => sure ?? undefined },
    ]),
  ],
};

let directory: string;
let instance: DuckDBInstance;
let duckdb: DuckDBConnection;

beforeAll(async () => {
  directory = temporaryDirectory();
  instance = await DuckDBInstance.create(':memory:');
  duckdb = await instance.connect();
});

afterAll(() => {
  duckdb.closeSync();
  instance.closeSync();
  fs.rmSync(directory, { recursive: true, force: true });
});

/** A file of these row groups, made by one builder. */
function fileOf(groups: readonly (readonly Row[])[]): Buffer {
  const builder = new RowGroupBuilder(TABLE);
  const joiner = new RowGroupJoiner(TABLE);
  const pieces = groups.map((rows) => {
    for (const row of rows) builder.add(row);
    return joiner.join(structuredClone(builder.take()));
  });
  return Buffer.concat([...pieces, joiner.finish()]);
}

const instant = (milliseconds: number | null) => (milliseconds === null ? null : BigInt(milliseconds));
const wellFormed = (text: string | null) => text?.toWellFormed() ?? null;

/** The expected rows, with times in whole milliseconds. */
function expected(rows: readonly Row[]): unknown[] {
  return rows.map(({ text, number, count, time, flag, texts, entries }) => ({
    text: wellFormed(text),
    number,
    count,
    time: instant(time),
    flag,
    texts: texts.map(wellFormed),
    entries: entries.map(({ said, seen, ...more }) => ({
      ...more,
      said: wellFormed(said),
      seen: instant(seen),
    })),
  }));
}

async function byDuckdb(file: Buffer): Promise<unknown[]> {
  const name = path.join(directory, 'rows.parquet');
  fs.writeFileSync(name, file);
  const result = await duckdb.runAndReadAll(
    `SELECT text, number, count, epoch_ms(time) AS time, flag, texts,
       [{said: e.said, dose: e.dose, seen: epoch_ms(e.seen), sure: e.sure} FOR e IN entries] AS entries
     FROM '${name}'`,
  );
  return result.getRowObjectsJS().map((row) => ({ ...row }));
}

async function byHyparquet(file: Buffer): Promise<unknown[]> {
  const bytes = file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength) as ArrayBuffer;
  const rows = await parquetReadObjects({
    file: bytes,
    compressors: { ZSTD: (input) => zstdDecompressSync(input) },
  });
  const milliseconds = (time: unknown) => (time instanceof Date ? BigInt(time.getTime()) : null);
  return rows.map((row) => ({
    ...row,
    time: milliseconds(row['time']),
    entries: (row['entries'] as { seen: unknown }[]).map((entry) => ({
      ...entry,
      seen: milliseconds(entry.seen),
    })),
  }));
}

async function expectReadBack(groups: readonly (readonly Row[])[]): Promise<void> {
  const file = fileOf(groups);
  const rows = expected(groups.flat());
  expect(await byDuckdb(file)).toEqual(rows);
  expect(await byHyparquet(file)).toEqual(rows);
}

const nothing: Row = {
  ...{ text: null, number: null, count: null, time: null, flag: null },
  ...{ texts: [], entries: [] },
};

/** Some texts are frequent, so that a dictionary pays; some have lone surrogates. */
const anyText = fc.oneof(
  fc.constantFrom('', 'ward', '护理 🩺', 'é', '\ud800', 'a\u0000b'),
  fc.string({ unit: 'binary', maxLength: 40 }),
);
const nullable = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
const anyNumber = fc
  .double({ noNaN: true, noDefaultInfinity: true })
  .map((number) => (number === 0 ? 0 : number));
// The range of both Date and DuckDB's TIMESTAMP.
const anyTime = fc.integer({ min: -8.64e15 / 2, max: 8.64e15 / 2 });
const anyEntry = fc.record({
  said: nullable(anyText),
  dose: nullable(anyNumber),
  seen: nullable(anyTime),
  sure: nullable(fc.boolean()),
});
const anyRow: fc.Arbitrary<Row> = fc.record({
  text: nullable(anyText),
  number: nullable(anyNumber),
  count: nullable(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })),
  time: nullable(anyTime),
  flag: nullable(fc.boolean()),
  texts: fc.array(anyText, { maxLength: 4 }),
  entries: fc.array(anyEntry, { maxLength: 4 }),
});

test('two readers read any rows unchanged [R-712]', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(anyRow, { maxLength: 30 }), { maxLength: 3 }), expectReadBack),
    { numRuns: 60 },
  );
});

test('rows without any value are read back [R-712]', async () => {
  await expectReadBack([[nothing, nothing], [nothing]]);
});

test('a chunk of several pages is read back, and no row spans two pages [R-712]', async () => {
  const long = 'x'.repeat(1500);
  const rows = Array.from({ length: 1200 }, (_, i): Row => ({
    ...nothing,
    text: `${i} ${long}`,
    number: i,
    flag: i % 3 === 0,
    entries: Array.from({ length: i % 4 }, (__, n) => ({
      said: `${i}.${n} ${long}`,
      dose: n,
      seen: null,
      sure: n > 1,
    })),
  }));
  const file = fileOf([rows]);
  const { row_groups } = parquetMetadata(
    file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength) as ArrayBuffer,
  );
  const pages = row_groups[0]?.columns.map(({ meta_data }) =>
    meta_data?.encoding_stats?.reduce((sum, { count }) => sum + count, 0),
  );
  expect(Math.max(...(pages ?? []).map(Number))).toBeGreaterThan(2);
  await expectReadBack([rows]);
});

test('a chunk whose dictionary does not pay is plain, and the next may have one [R-712]', async () => {
  const group = Array.from({ length: 3000 }, (_, i): Row => ({
    ...nothing,
    text: i < 1000 ? `ward ${i % 7}` : `bed ${i}`,
    texts: i % 3 === 0 ? [] : [`ward ${i % 5}`, `bed ${i}`],
    entries: [{ said: `ward ${i % 3}`, dose: null, seen: i, sure: null }],
  }));
  const file = fileOf([group, group]);
  const metadata = parquetMetadata(
    file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength) as ArrayBuffer,
  );
  for (const { columns } of metadata.row_groups) {
    const encodings = (name: string) =>
      columns
        .find(({ meta_data }) => meta_data?.path_in_schema.at(-1) === name)
        ?.meta_data?.encoding_stats?.map(({ page_type, encoding }) => `${page_type} ${encoding}`);
    expect(encodings('text')).toEqual(['DATA_PAGE PLAIN']);
    expect(encodings('element')).toEqual(['DATA_PAGE PLAIN']);
    expect(encodings('said')).toEqual(['DATA_PAGE RLE_DICTIONARY', 'DICTIONARY_PAGE PLAIN']);
  }
  await expectReadBack([group, group]);
});

test('the footer has minimum, maximum and null count of numbers and times [R-712]', () => {
  const rows = [3, -2, null, 7].map((n): Row => ({ ...nothing, number: n, time: n, text: 'a' }));
  const file = fileOf([rows]);
  const { row_groups } = parquetMetadata(
    file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength) as ArrayBuffer,
  );
  const statistics = new Map(
    row_groups[0]?.columns.map(({ meta_data }) => [
      meta_data?.path_in_schema.join('.'),
      meta_data?.statistics,
    ]),
  );
  expect(statistics.get('number')).toMatchObject({ min_value: -2, max_value: 7, null_count: 1n });
  expect(statistics.get('time')).toMatchObject({
    min_value: new Date(-2),
    max_value: new Date(7),
    null_count: 1n,
  });
  expect(statistics.get('entries.list.element.dose')).toMatchObject({ null_count: 4n });
});
