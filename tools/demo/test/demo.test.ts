import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { EVENT_KINDS } from '@clinical-events/protocol';
import { expect, onTestFinished, test } from 'vitest';
import { ANOMALIES } from '../src/anomalies.js';
import { KeyDatabase } from '../../../packages/collector/src/store/embedded/key-database.js';
import { scratchDirectory } from '../../../packages/collector/test/access/scratch-keys.js';
import {
  launch,
  run as collector,
  start,
  storedEvents,
  type PrintedEvent,
} from '../../../packages/collector/test/running/collector-process.js';
import { issueKey } from '../../../packages/collector/test/running/issued-keys.js';
import { oneCollector } from '../../../packages/collector/test/running/one-collector.js';
import { send } from '../../../packages/collector/test/running/raw-http.js';

const one = oneCollector();

interface Summary {
  readonly seed: string;
  readonly runs: number;
  readonly events: number;
  readonly events_by_kind: Record<string, number>;
  readonly mixed_in: Record<string, number>;
  readonly sendings: number;
  readonly repeat_with: string;
  readonly scenarios: { name: string; runs: number; example: { run_id: string; look_with: string } }[];
  readonly sent: Record<string, unknown>;
}

function demo(...args: readonly string[]) {
  return collector(['demo', '--url', one.running.url, '--data-dir', one.dataDir, ...args]);
}

/** Sends to an organisation of its own. @returns the summary, and everything that is stored. */
async function sent(organisation: string, ...args: readonly string[]): Promise<[Summary, PrintedEvent[]]> {
  const { code, stdout, stderr } = await demo('--organisation', organisation, '--json', ...args);
  expect([code, stderr]).toEqual([0, '']);
  const stored = await storedEvents(one.dataDir, '--organisation', organisation);
  return [JSON.parse(stdout) as Summary, stored];
}

/** On return the running collector knows the key. */
async function isKnown(key: string): Promise<void> {
  await expect.poll(async () => (await send(one.port, { key, body: '{}' })).status).toBe(400);
}

function keyFile(text: string): string {
  const file = scratchDirectory('demo.key');
  fs.writeFileSync(file, `${text}\n`);
  return `@${file}`;
}

test('[R-717] by default all but the conflicts is accepted, and each event is stored once', async () => {
  const [summary, stored] = await sent('ward-1');
  const { mixed_in: mixed } = summary;
  expect(summary.runs).toBe(1000);
  expect(stored).toHaveLength(summary.events);
  for (const kind of EVENT_KINDS) {
    expect(stored.filter((event) => event.kind === kind)).toHaveLength(summary.events_by_kind[kind] ?? -1);
  }
  expect(summary.sent).toMatchObject({
    organisation: 'ward-1',
    complete: true,
    accepted: summary.events,
    repeats_accepted: (mixed['repeat'] ?? 0) + (mixed['respelt'] ?? 0),
    conflicts_expected: mixed['conflict'],
    conflicts_met: mixed['conflict'],
    conflicts_missed: 0,
    refused: {},
    retries: 0,
  });
  for (const name of Object.keys(ANOMALIES)) expect(mixed[name], name).toBeGreaterThan(0);
  for (const { example } of summary.scenarios) {
    expect(stored.some(({ run_id: runId }) => runId === example.run_id)).toBe(true);
    expect(example.look_with).toBe(`collector records --run ${example.run_id} --data-dir ${one.dataDir}`);
  }
  for (const { body } of stored) {
    const { system_metadata: metadata } = JSON.parse(body) as { system_metadata: Record<string, unknown> };
    expect(metadata['environment']).toBe('demo');
  }
});

test('[R-717] the printed command sends the same events again, and nothing more is stored', async () => {
  const [first, stored] = await sent('ward-2', '--runs', '20', '--days', '3', '--seed', 'again');
  const args = first.repeat_with.split(' ').slice(2);
  const [second, afterwards] = await sent('ward-2', ...args);
  expect(second.sent).toMatchObject({ accepted: first.events, refused: {}, conflicts_missed: 0 });
  expect(afterwards).toEqual(stored);
});

test('the summary is readable and names a run of each scenario', async () => {
  const { code, stdout, stderr } = await demo('--runs', '60');
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/^60 runs, \d+ events from 20\d\d-.*Z to 20\d\d-.*Z$/m);
  expect(stdout).toMatch(/^icu-deterioration +\d+ +\d+ +deterioration-index 4\.2\.0, then 5\.0\.0$/m);
  expect(stdout).toMatch(/^internal-artifact +\d+$/m);
  expect(stdout).toMatch(/^Sent \d+ to http:\S+ for organisation "demo" in [\d.]+ s, [\d,]+\/s:$/m);
  expect(stdout).toMatch(/^ {2}(\d+) of \1 conflicts refused \(event_id_conflict\), as expected$/m);
  expect(stdout).toMatch(
    /^Before that it checked the key .*\n {2}1 key_missing, (\d key_invalid, )?5 unsupported_media_type$/m,
  );
  expect(stdout.match(/^ {4}collector records --run [0-9a-f-]{36}/gm)?.length).toBeGreaterThanOrEqual(4);
  expect(stdout).toMatch(
    /^To send the same events again: collector demo --runs 60 --days 30 --seed \S+ --until \S+Z --data-dir /m,
  );
  expect(stdout).not.toContain('cek_');
  const shown = /^The record of one run:\n\nRun +([0-9a-f-]{36})\n/m.exec(stdout);
  expect(stdout).toContain(`collector records --run ${shown?.[1]}`);
  expect(stdout).toMatch(/^[+-]\S.* +human-output +\S/m);
  const accesses = fs.readFileSync(path.join(one.dataDir, 'access.log'), 'utf8');
  expect(accesses).toContain(`"command":"demo","filter":{"run":"${shown?.[1]}"`);
});

test('[R-725] without --url and --port it sends to the collector that holds the data directory', async () => {
  const { code, stdout, stderr } = await collector(['demo', '--data-dir', one.dataDir, '--runs', '1']);
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain(` to ${one.running.url}/ `);
  const created = await collector(['keys', 'create', '--permissions', 'all', '--data-dir', one.dataDir]);
  expect(created.stdout).toContain(`curl -sS -X POST ${one.running.url}/event/`);
});

test('[R-725] the address that a killed collector left behind is not used', async () => {
  const dataDir = scratchDirectory();
  const killed = await start(dataDir);
  await killed.kill();
  const { code, stderr } = await collector(['demo', '--data-dir', dataDir], { env: { COLLECTOR_PORT: '9' } });
  expect([code, stderr]).toEqual([6, expect.stringContaining('no collector answers at http://127.0.0.1:9/')]);
});

test('[R-725] every printed command works in the shell of the demo', () => {
  const main = path.resolve(import.meta.dirname, '../../../packages/collector/dist/main.js');
  const env = { PATH: `${path.dirname(process.execPath)}:/usr/bin:/bin` };
  const pasted = (command: string) => spawnSync('sh', ['-c', command], { env, encoding: 'utf8' });
  const args = `demo --runs 60 --url ${one.running.url} --data-dir '${one.dataDir}'`;
  const { stdout } = pasted(`'${process.execPath}' '${main}' ${args}`);
  const lines = [
    ...stdout.matchAll(/^ {4}(\S.* (?:records|runs) .*)$|^To send the same events again: (.*)$/gm),
  ];
  expect(lines.length).toBeGreaterThanOrEqual(5);
  expect(stdout).toMatch(
    /^Runs whose outcome is contradicted:\n {4}\S.* runs --outcome contradicted --clock sender /m,
  );
  for (const [, look, again] of lines) {
    const { status, stdout: shown, stderr } = pasted(look ?? again ?? '');
    expect([status, shown.length > 100], stderr).toEqual([0, true]);
  }
});

test('the temporary key has an organisation of its own, expires, and is revoked at the end', async () => {
  await demo('--runs', '3', '--organisation', 'ward-3');
  const keys = KeyDatabase.openReadOnly(one.dataDir);
  onTestFinished(() => keys.close());
  const made = (await keys.list()).filter(({ organisation }) => organisation === 'ward-3');
  expect(made).toHaveLength(1);
  expect(made[0]).toMatchObject({ note: 'made by collector demo', permissions: 'all' });
  expect(made[0]?.revokedAt).toBeDefined();
  expect(made[0]?.expiresAt).toBeLessThanOrEqual(Date.now() + 24 * 3_600_000);
});

test('[R-717] with a key of profile full, only the outcomes in own words are refused', async () => {
  const { text } = await issueKey(one.dataDir, { organisation: 'strict', profile: 'full' });
  await isKnown(text);
  const { code, stdout } = await demo('--key', keyFile(text), '--json', '--runs', '150');
  const { mixed_in: mixed, events, sent } = JSON.parse(stdout) as Summary;
  expect(code).toBe(0);
  expect(mixed['own_words']).toBeGreaterThan(0);
  const stored = await storedEvents(one.dataDir, '--organisation', 'strict');
  expect(stored).toHaveLength(events - (mixed['own_words'] ?? 0));
  expect(sent).toMatchObject({
    organisation: null,
    accepted: stored.length,
    refused: {},
    conflicts_missed: 0,
  });
  expect(sent['own_words_refused']).toBeGreaterThanOrEqual(mixed['own_words'] ?? 0);
});

test('a key that may not send everything is refused before anything is sent', async () => {
  const { text } = await issueKey(one.dataDir, { permissions: ['inference-start', 'outcome'] });
  await isKnown(text);
  const before = await storedEvents(one.dataDir);
  const { code, stderr } = await demo('--key', keyFile(text));
  expect(code).toBe(1);
  expect(stderr).toContain('the key may not send internal-artifact;');
  const stranger = await issueKey(scratchDirectory());
  const refused = await demo('--key', keyFile(stranger.text));
  expect([refused.code, refused.stderr]).toEqual([
    1,
    `collector: the collector at ${one.running.url}/ refuses the key: key_invalid\n`,
  ]);
  expect(await storedEvents(one.dataDir)).toEqual(before);
});

test('[R-717] where no collector answers, it prints how to start one', async () => {
  const { code, stdout, stderr } = await collector(['demo', '--url', 'http://127.0.0.1:9']);
  expect([code, stdout]).toEqual([6, '']);
  expect(stderr).toMatch(/no collector answers at http:\/\/127\.0\.0\.1:9\/.* collector serve --port 9/);
});

test('no key is created in a data directory without a running collector', async () => {
  const { code, stderr } = await demo('--data-dir', scratchDirectory());
  expect(code).toBe(2);
  expect(stderr).toMatch(/^collector: no collector runs on \S+: .*--data-dir/);
});

test.each([
  [['--runs', '0'], '--runs: "0" is not a whole number from 1 to 10000000'],
  [['--days', '1.5'], '--days: "1.5" is not a whole number from 1 to 3650'],
  [['--rate', '100'], '--rate: "100" is not of the form 200/s'],
  [['--seed', 'a b'], '--seed: "a b" is not 1 to 64 characters of A-Z a-z 0-9 . _ -'],
  [['--until', '2999-01-01'], '--until: 2999-01-01 is in the future'],
  [['--url', 'http://u:secret@127.0.0.1'], '--url: not of the form http://127.0.0.1:8080'],
  [['--url', 'http://192.0.2.1', '--out', 'x'], '--url: nothing is sent with --out'],
  [['--key', '@/nowhere'], '--key: the file cannot be read (ENOENT)'],
  [['--key', '@k', '--organisation', 'x'], '--organisation: not together with --key'],
])('%j is refused in one line', async (args, message) => {
  const { code, stdout, stderr } = await collector(['demo', ...args]);
  expect([code, stdout, stderr]).toEqual([2, '', `collector: ${message}\n`]);
});

test('[R-717] --out writes the same events as are sent, and needs no collector', async () => {
  const file = scratchDirectory('demo.ndjson');
  const plan = ['--runs', '40', '--seed', 'file', '--until', '2026-05-01'];
  const { code, stdout, stderr } = await collector(['demo', ...plan, '--out', file, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  const summary = JSON.parse(stdout) as Summary & { written: { lines: number; bytes: number } };
  const lines = fs.readFileSync(file, 'utf8').trimEnd().split('\n');
  expect(summary.written).toMatchObject({ file, lines: summary.sendings, bytes: fs.statSync(file).size });
  expect(lines).toHaveLength(summary.sendings);
  const [summarySent, stored] = await sent('ward-4', ...plan);
  expect(summarySent.events).toBe(summary.events);
  const bodies = new Set(stored.map(({ body }) => body));
  expect(lines.filter((line) => line.includes('"organisation":"demo"'))).toHaveLength(lines.length);
  const inFile = new Set(lines.map((line) => /"event":(.*)\}$/.exec(line)?.[1]));
  for (const body of bodies) expect(inFile).toContain(body);

  const again = await collector(['demo', ...plan, '--out', file]);
  expect(again.code).toBe(2);
  expect(again.stderr).toContain(`--out: ${file} exists`);
  const nowhere = path.join(file, 'below');
  const failed = await collector(['demo', ...plan, '--out', nowhere]);
  expect([failed.code, failed.stderr]).toEqual([
    1,
    `collector: --out: ${nowhere} cannot be written (ENOTDIR)\n`,
  ]);
});

test('a collector on this host can be given by its port, as serve has it', async () => {
  const { port } = new URL(one.running.url);
  const data = ['--data-dir', one.dataDir, '--organisation', 'ward-6', '--runs', '2', '--json'];
  const { code, stdout, stderr } = await collector(['demo', '--port', port, ...data]);
  expect([code, stderr]).toEqual([0, '']);
  expect((JSON.parse(stdout) as Summary).sent['url']).toBe(`http://127.0.0.1:${port}/`);
  for (const [args, message] of [
    [['--port', '0'], '--port: "0" is not a whole number from 1 to 65535'],
    [['--port', '65536'], '--port: "65536" is not a whole number from 1 to 65535'],
    [['--port', port, '--url', one.running.url], '--port: not together with --url'],
    [['--port', port, '--out', 'x.ndjson'], '--port: nothing is sent with --out'],
  ] as const) {
    expect(await collector(['demo', ...args])).toEqual({
      code: 2,
      stdout: '',
      stderr: `collector: ${message}\n`,
    });
  }
});

test('when interrupted, it prints what was sent and how to send the rest', async () => {
  const args = ['demo', '--url', one.running.url, '--data-dir', one.dataDir, '--organisation', 'ward-5'];
  const child = launch([...args, '--rate', '50/s']);
  await expect
    .poll(async () => (await storedEvents(one.dataDir, '--organisation', 'ward-5')).length)
    .toBeGreaterThan(5);
  child.process.kill('SIGINT');
  expect(await child.exited).toBe(130);
  expect(child.output.stdout).toContain('INTERRUPTED before all was sent');
  expect(child.output.stdout).toMatch(
    /^To send the rest, and the others again: collector demo --runs 1000 /m,
  );
  const accepted = /^ {2}(\d+) events accepted/m.exec(child.output.stdout)?.[1];
  expect(await storedEvents(one.dataDir, '--organisation', 'ward-5')).toHaveLength(Number(accepted));
});
