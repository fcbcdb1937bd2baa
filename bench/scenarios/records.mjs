/** Rate and memory of `collector records` with Parquet on a large log. */
import fs from 'node:fs';
import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { demoLedger } from '../lib/demo-ledger.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { table } from '../lib/table.mjs';
import { timedCommand } from '../lib/timed-command.mjs';

/** Counts the records of the file by DuckDB, an independent reader. */
async function countedIn(file) {
  const instance = await DuckDBInstance.create(':memory:');
  const duckdb = await instance.connect();
  const counted = await duckdb.runAndReadAll(
    `SELECT count(*)::DOUBLE AS records, sum(event_count)::DOUBLE AS events,
       sum(len(artifacts) + len(outputs) + len(outcomes) + len(feedback))::DOUBLE AS entries,
       count(model)::DOUBLE AS starts FROM '${file}'`,
  );
  duckdb.closeSync();
  instance.closeSync();
  return counted.getRowObjectsJS()[0];
}

async function exportOnce(directory, scratch) {
  const file = path.join(scratch, 'records.parquet');
  const args = ['--data-dir', directory, '--format', 'parquet', '--out', file];
  const { seconds, cpuSeconds, peakBytes } = await timedCommand('records', args);
  const counted = await countedIn(file);
  const fileBytes = fs.statSync(file).size;
  fs.rmSync(file);
  return { ...counted, seconds, cpuSeconds, peakBytes, fileBytes, rate: counted.events / seconds };
}

/** One row for each export. `rounds` are pairs of a title and a measurement. */
export function recordsTable(rounds) {
  const rows = rounds.map(([title, { events, records, seconds, cpuSeconds, rate, peakBytes, fileBytes }]) => [
    title,
    whole(events),
    whole(records),
    decimals(seconds),
    decimals(cpuSeconds),
    whole(rate),
    mebibytes(peakBytes),
    whole(fileBytes / 1e6),
  ]);
  return table([
    ['Round', 'events', 'records', 's', 'CPU s', 'events/s', 'peak RSS MiB', 'file MB'],
    ...rows,
  ]);
}

export async function records({ options, say, print }) {
  const directory = await demoLedger(options, options.events, say);
  const scratch = temporaryDirectory(options.scratch, 'exports');
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    say(`records, round ${i + 1} of ${options.rounds}`);
    rounds.push(await exportOnce(directory, scratch));
    if (rounds[i].events !== rounds[0].events) throw new Error('two exports of one log differ');
  }
  removeDirectory(scratch);
  if (options.dataDir === undefined) removeDirectory(directory);
  print(`\n${recordsTable(rounds.map((round, i) => [`${i + 1}`, round]))}`);
  const figures = {
    'records/rate': rounds.map(({ rate }) => rate),
    'records/rss': rounds.map(({ peakBytes }) => peakBytes / (1 << 20)),
  };
  print(`\n${figuresTable(figures)}`);
  return { rounds, figures, failures: 0 };
}
