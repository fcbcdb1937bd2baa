/** `collector runs --contains` as a process on a data directory. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { Catalogue } from '../../src/catalogue/catalogue.js';
import { nodeFiles } from '../../src/files.js';
import { EmbeddedStore } from '../../src/store/embedded/embedded-store.js';
import { LogReader } from '../../src/store/embedded/log-reader.js';
import { id } from '../records/run-events.js';
import { launch, run } from '../running/collector-process.js';
import { scratch } from '../running/scratch.js';
import { candidate, type Made } from '../store/candidate.js';
import { encryptionIn, fillDirectory } from '../store/embedded/filled-directory.js';
import { eraseEvents } from '../store/embedded/erased.js';

const BEGAN = Date.parse('2026-03-01T00:00:00Z');

/** A start, and an output that names its run by its parent alone. */
function runOf(n: number, prompt: unknown, summary: unknown, model = 'risk'): Made[] {
  const base = { timestamp: '2026-03-01T00:00:00Z', protocol_version: '0.0.1' };
  const start = { ...base, event_id: id(n), run_id: id(n), model_instance: { model_id: model } };
  const output = { ...base, event_id: id(1000 + n), parent_event_id: id(n) };
  return [
    candidate({
      ...{ eventId: id(n), runId: id(n), kind: 'inference-start', receivedAt: BEGAN + n },
      body: { ...start, inputs: { prompt } },
    }),
    candidate({
      ...{ eventId: id(1000 + n), kind: 'human-output', receivedAt: BEGAN + n },
      body: { ...output, output: { summary, shown: [{ text: 'to the ward' }] } },
    }),
    candidate({
      ...{ eventId: id(2000 + n), runId: id(n), kind: 'outcome', receivedAt: BEGAN + n },
      body: { ...base, event_id: id(2000 + n), run_id: id(n), outcome: { description: 'readmitted' } },
    }),
  ];
}

const EVENTS = [
  ...runOf(1, 'Große Wunde', 'No sepsis'),
  ...runOf(2, ['Fever?', { deep: 'SEPSIS' }], 'GROSSE  wunde'),
  ...runOf(3, 'urosepsis', 'nothing', 'other'),
  ...runOf(4, 'Sepsis.', 'treated', 'other'),
];

let dataDir: string;

beforeEach(() => {
  dataDir = path.join(scratch(), 'data');
});

async function found(...args: readonly string[]): Promise<[runs: number[], said: string]> {
  const { code, stdout, stderr } = await run(['runs', '--data-dir', dataDir, '--json', ...args]);
  expect(code, stderr).toBe(0);
  const lines = stdout.split('\n').filter((line) => line !== '');
  const runs = lines.map((line) => Number((JSON.parse(line) as { record_id: string }).record_id.slice(-4)));
  return [runs, stderr];
}

test('[R-1862] runs with all words in inputs and outputs are found, newest first, up to --limit', async () => {
  await fillDirectory(dataDir, [EVENTS]);
  const searched = (runs: number) => `collector: ${runs} runs searched\n`;
  expect(await found('--contains', 'sepsis')).toEqual([[4, 2, 1], `collector: 3 runs\n${searched(4)}`]);
  expect(await found('--contains', 'große WUNDE sepsis')).toEqual([
    [2, 1],
    `collector: 2 runs\n${searched(4)}`,
  ]);
  expect(await found('--contains', 'ward', '--model', 'other')).toEqual([
    [4, 3],
    `collector: 2 runs\n${searched(2)}`,
  ]);
  expect(await found('--contains', 'sepsis', '--limit', '2')).toEqual([
    [4, 2],
    expect.stringContaining(`--limit 10, all: --limit all\n${searched(3)}`),
  ]);
  for (const words of ['prompt', 'readmitted', 'risk'])
    expect(await found('--contains', words)).toEqual([[], `collector: no run matches\n${searched(4)}`]);
});

test('[R-1343] the words can come from a file or standard input, and are in no log and no message', async () => {
  await fillDirectory(dataDir, [EVENTS]);
  const file = path.join(path.dirname(dataDir), 'words.txt');
  fs.writeFileSync(file, 'fever\nGroße\n');
  expect((await found('--contains', `@${file}`))[0]).toEqual([2]);
  const {
    process: child,
    output,
    exited,
  } = launch(['runs', '--data-dir', dataDir, '--json', '--contains', '-']);
  child.stdin?.end('fever');
  expect([await exited, output.stderr]).toEqual([0, 'collector: 1 run\ncollector: 4 runs searched\n']);
  await found('--contains', 'fever');
  const log = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8');
  expect(log).not.toMatch(/fever|words\.txt/i);
  expect(log.split('\n').filter((line) => line.includes('"filter":{"contains":true}'))).toHaveLength(3);
});

test.each([[' ?! '], ['@'], ['@.'], ['-', '--user', '-']])(
  '[R-1343] %j is refused, and nothing is read',
  async (...args) => {
    await fillDirectory(dataDir, [EVENTS]);
    const { code, stdout } = await run(['runs', '--data-dir', dataDir, '--contains', ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
  },
);

/** Destroys the keys of the start and the output of run `n`. */
async function erase(store: EmbeddedStore, n: number): Promise<void> {
  const log = new LogReader(dataDir, nodeFiles);
  const catalogue = Catalogue.open({
    directory: path.join(path.dirname(dataDir), 'catalogue'),
    ...{ ledgerId: log.ledgerId, names: log.names },
  });
  await catalogue.update(log);
  const events = catalogue.run('default', id(n)).flatMap((found) => found.events().slice(0, 2));
  await eraseEvents(dataDir, store, log, events);
  catalogue.close();
  await log.close();
}

test('[R-1862] payloads that were erased, or whose key is missing, are counted in a warning', async () => {
  const store = await EmbeddedStore.open({
    ...{ directory: dataDir, segmentBytes: 64 << 10, onTrouble: () => undefined },
    encryption: encryptionIn(dataDir),
  });
  await store.append(EVENTS);
  await erase(store, 2);
  await store.close();
  expect(await found('--contains', 'sepsis')).toEqual([
    [4, 1],
    'collector: 2 runs\ncollector: 4 runs searched\ncollector: warning: 2 payloads could not be read: 2 erased\n',
  ]);
  const buckets = path.join(dataDir, 'encryption-keys', 'buckets');
  fs.renameSync(buckets, `${buckets}.away`);
  fs.mkdirSync(buckets);
  expect(await found('--contains', 'sepsis')).toEqual([
    [],
    expect.stringContaining('8 payloads could not be read: 2 erased, 6 encrypted '),
  ]);
});
