import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { beginAccess } from '../../src/commands/access-log.js';
import { verifyLog } from '../../src/commands/verify/verification.js';
import { verificationFields } from '../../src/commands/verify/verification-report.js';
import { nodeFiles } from '../../src/files.js';
import { run, start, temporaryDirectory, type Running } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { sampleEvent } from '../running/sample-events.js';
import { candidate } from '../store/candidate.js';
import { copyOf, scratch } from '../running/scratch.js';
import { independentHead, verifyIndependently } from './independent-verifier.js';
import { fillSigned, firstKey, loggedEvent, signAccesses } from './signed-directory.js';

/** Two events, two accesses, a head over their four lines (entry 3), two more accesses, and a head over eight (entry 4). */
let master: string;
let dataDir: string;

beforeAll(async () => {
  master = temporaryDirectory();
  await issueKey(master);
  await fillSigned(master, [[loggedEvent('one'), loggedEvent('two')]]);
  for (let i = 0; i < 4; i++) {
    await run(['events', '--data-dir', master, '--organisation', `ward-${i}`]);
    if (i % 2 === 1) await signAccesses(master);
  }
});
afterAll(() => fs.rmSync(master, { recursive: true, force: true }));

beforeEach(() => {
  dataDir = copyOf(master);
});

const logOf = (directory: string) => path.join(directory, 'access.log');

function readLines(): string[] {
  return fs.readFileSync(logOf(dataDir), 'utf8').split('\n').slice(0, -1);
}

function writeLines(lines: readonly string[]): void {
  fs.writeFileSync(logOf(dataDir), lines.map((line) => `${line}\n`).join(''));
}

interface Report {
  readonly intact: boolean;
  readonly events: number;
  readonly entries: number;
  readonly access_log: Readonly<Record<string, unknown>> | null;
  readonly findings: readonly { kind: string; file?: string; message: string }[];
}

/** What `collector verify --json` prints. */
async function verify({ against = [], keys = [] }: { against?: string[]; keys?: string[] } = {}) {
  const verification = await verifyLog({
    ...{ dataDir, files: nodeFiles, against, keys },
    onProgress: () => undefined,
  });
  return JSON.parse(JSON.stringify(verificationFields(verification))) as Report;
}

/** What `doctor` says of the access log. */
async function doctor(): Promise<{ code: number | null; told: { severity: string; message: string }[] }> {
  const { code, stdout } = await run(['doctor', '--json', '--data-dir', dataDir]);
  const { findings } = JSON.parse(stdout) as {
    findings: { severity: string; subject: string; message: string }[];
  };
  return { code, told: findings.filter(({ subject }) => subject === 'access log') };
}

async function read(directory: string): Promise<void> {
  expect((await run(['events', '--data-dir', directory])).code).toBe(0);
}

async function serving(...args: readonly string[]): Promise<Running> {
  const collector = await start(dataDir, args);
  onTestFinished(() => collector.kill());
  return collector;
}

/** How many entries the newest checkpoint covers. */
function signedEntries(): number {
  return Number(fs.readFileSync(path.join(dataDir, 'checkpoints', 'latest'), 'utf8').split('\n')[1]);
}

/** The newest head in the log, by its proof. */
async function newestHead(): Promise<{ event_id: string; lines: number; head: string }> {
  const ledger = path.join(dataDir, 'ledger');
  const segments = fs.readdirSync(ledger).filter((name) => name.endsWith('.segment'));
  const bytes = Buffer.concat(segments.sort().map((name) => fs.readFileSync(path.join(ledger, name))));
  const from = bytes.lastIndexOf('{"event_id":"', bytes.lastIndexOf('"clinical-events/access-log-head/v1"'));
  const body = bytes.subarray(from, bytes.indexOf('}', from) + 1);
  const head = JSON.parse(body.toString()) as Awaited<ReturnType<typeof newestHead>>;
  const proof = await run(['proof', head.event_id, '--data-dir', dataDir]);
  verifyIndependently(proof.stdout, body, firstKey(dataDir));
  return head;
}

describe('collector verify, of the access log', () => {
  test('[R-718] finds it intact by its heads in the log, and counts the lines that no head covers', async () => {
    expect(await verify({ keys: [firstKey(dataDir)] })).toMatchObject({
      ...{ intact: true, findings: [], events: 2, entries: 4 },
      access_log: { lines: 8, unsigned_lines: 0, heads: 2, unended: 0, torn: 0 },
    });
    await read(dataDir);
    const last = (JSON.parse(readLines()[8] ?? '') as { at: string }).at;
    expect(await verify()).toMatchObject({
      ...{ intact: true, findings: [] },
      access_log: { lines: 10, unsigned_lines: 2, last_reading: last },
    });
    const { code, stdout } = await run(['verify', '--data-dir', dataDir]);
    expect(code).toBe(0);
    const text = `10 lines, 2 of them not covered by a head in the log; the last began at ${last}`;
    expect(stdout).toContain(`\nAccess log  ${text}\n`);
    expect(await doctor()).toEqual({
      ...{ code: 0, told: [{ severity: 'ok', subject: 'access log', message: text }] },
    });
  });

  test('[R-718] the head can be computed and its entry proved without our program', async () => {
    const { lines, head } = await newestHead();
    expect([lines, head]).toEqual([8, independentHead(fs.readFileSync(logOf(dataDir)), 8)]);
  });

  test.each<[string, (lines: string[]) => string[], RegExp]>([
    [
      'altered',
      (lines) => lines.with(5, lines[5]?.replace('"events":0', '"events":7') ?? ''),
      /^lines 5 to 8 .* entry 4 /,
    ],
    [
      'altered early',
      (lines) => lines.with(1, lines[1]?.replace('"events":0', '"events":7') ?? ''),
      /^lines 1 to 4 .* entry 3 /,
    ],
    ['removed', (lines) => lines.toSpliced(4, 2), /has 6 whole lines, but entry 4 .* 8: .*the first 4 /],
    [
      'removed, and others logged',
      (lines) => [...lines.toSpliced(4, 2), ...lines.slice(0, 4)],
      /^lines 5 to 8 /,
    ],
    ['inserted', (lines) => lines.toSpliced(6, 0, ...lines.slice(0, 2)), /^lines 5 to 8 /],
    ['reordered', (lines) => [...lines.slice(2), ...lines.slice(0, 2)], /^lines 1 to 4 /],
    ['cut off the end', (lines) => lines.slice(0, 7), /has 7 whole lines, but entry 4 /],
    ['all removed', () => [], /has 0 whole lines, but entry 3 /],
  ])('[R-718] reports that lines were %s', async (_how, change, message) => {
    writeLines(change(readLines()));
    const { intact, findings } = await verify();
    expect(intact).toBe(false);
    expect(findings).toEqual([
      { kind: 'access_log_altered', file: 'access.log', message: expect.stringMatching(message) as string },
    ]);
    const { code: unwell, told } = await doctor();
    expect([unwell, told.map(({ severity }) => severity)]).toEqual([3, ['damage']]);
  });

  test('[R-718] reports a line that no command writes, whether a head covers it or not', async () => {
    fs.appendFileSync(logOf(dataDir), 'nobody was here\n');
    const { code, stdout } = await run(['verify', '--data-dir', dataDir]);
    expect([code, stdout]).toEqual([3, expect.stringMatching(/^NOT INTACT: 1 finding\n/)]);
    const message = 'line 9 of access.log was not written by a collector';
    for (const sign of [false, true]) {
      if (sign) await signAccesses(dataDir);
      expect(await verify()).toMatchObject({
        ...{ intact: false, findings: [{ kind: 'access_log_altered', message }] },
      });
    }
  });

  test.each([
    ['a directory', () => fs.mkdirSync(logOf(dataDir))],
    ['a link', () => fs.symlinkSync(logOf(master), logOf(dataDir))],
    ['a pipe', () => void execFileSync('mkfifo', [logOf(dataDir)])],
  ])('[R-718] reports that the log is not a file: %s', async (_what, make) => {
    fs.rmSync(logOf(dataDir));
    make();
    expect((await verify()).findings).toMatchObject([{ kind: 'unreadable', file: 'access.log' }]);
    expect((await doctor()).told).toMatchObject([{ severity: 'damage' }]);
    const backedUp = await run([
      'backup',
      path.join(scratch(), 'to'),
      '--keys-elsewhere',
      '--data-dir',
      dataDir,
    ]);
    expect(backedUp.code).not.toBe(0);
  });

  test('[R-702] accepts lines of later versions with unknown members, and checks them by the heads', async () => {
    const [begun = '', ended = ''] = readLines().slice(-2);
    const later = (text: string) => `${text.slice(0, -1)},"later":{"than":"this"}}`;
    writeLines([...readLines(), later(begun), later(ended)]);
    await signAccesses(dataDir);
    expect(await verify()).toMatchObject({
      ...{ intact: true, findings: [], access_log: { lines: 10, unsigned_lines: 0 } },
    });
    const lines = readLines();
    writeLines([...lines.slice(0, -1), (lines.at(-1) ?? '').replace('"this"', '"that"')]);
    expect(await verify()).toMatchObject({
      ...{ intact: false, findings: [{ kind: 'access_log_altered' }] },
    });
  });

  test('[R-702] counts the accesses whose end was not logged', async () => {
    beginAccess(dataDir, { command: 'events', filter: {} });
    expect(await verify()).toMatchObject({ intact: true, access_log: { lines: 9, unended: 1 } });
    expect((await doctor()).told).toMatchObject([
      { severity: 'ok', message: expect.stringContaining('; 1 access without a logged end; ') as string },
    ]);
  });

  test('[R-718] recognises a torn line, at the end or before another line', async () => {
    fs.appendFileSync(logOf(dataDir), '{"at":"2026-03-04T05:');
    const pending = 'the last 21 bytes of access.log are a torn line, or one that is being written';
    expect(await verify()).toMatchObject({
      ...{ intact: true, access_log: { lines: 8, unsigned_lines: 0 } },
      findings: [{ kind: 'note', message: pending }],
    });
    await read(dataDir);
    for (const unsigned of [3, 0]) {
      if (unsigned === 0) await signAccesses(dataDir);
      expect(await verify()).toMatchObject({
        ...{ intact: true, access_log: { lines: 11, unsigned_lines: unsigned, torn: 1 } },
        findings: [{ kind: 'note', message: '1 line of access.log is torn, as by a crash or a full disk' }],
      });
    }
    expect((await doctor()).told).toMatchObject([{ severity: 'ok' }, { severity: 'warning' }]);
  });

  test('[R-718] a log restored to before the last accesses is found by a later checkpoint from elsewhere', async () => {
    const older = copyOf(dataDir);
    await read(dataDir);
    await signAccesses(dataDir);
    const kept = path.join(scratch(), 'kept');
    fs.copyFileSync(path.join(dataDir, 'checkpoints', 'latest'), kept);
    dataDir = older;
    expect(await verify()).toMatchObject({ intact: true });
    expect(await verify({ against: [kept] })).toMatchObject({ findings: [{ kind: 'missing' }] });
  });
});

describe('the log’s own entries', () => {
  test('[R-901] are proved and exported as leaves, and are in no listing, record, count or export of events', async () => {
    dataDir = scratch();
    const [eventId, runId] = [randomUUID(), randomUUID()];
    const body = sampleEvent('inference-start', { event_id: eventId, run_id: runId });
    await fillSigned(dataDir, [[candidate({ kind: 'inference-start', eventId, runId, body })]]);
    await read(dataDir);
    await signAccesses(dataDir);
    const { event_id: id, lines, head } = await newestHead();
    const events = await run(['events', '--data-dir', dataDir]);
    expect(events.stdout.trimEnd().split('\n')).toHaveLength(1);
    expect(events.stdout).not.toContain('access-log-head');
    expect((await run(['events', '--event', id, '--data-dir', dataDir])).stdout).toBe('');
    const records = await run(['records', '--format', 'ndjson', '--data-dir', dataDir]);
    expect([records.code, records.stdout.trimEnd().split('\n')]).toEqual([
      0,
      [expect.stringContaining(runId)],
    ]);
    expect(records.stdout).not.toContain('access-log-head');
    const tiles = path.join(scratch(), 'tiles');
    const exported = await run(['proof', '--tiles', tiles, '--data-dir', dataDir]);
    expect([exported.code, exported.stderr]).toEqual([0, '']);
    expect(fs.readFileSync(path.join(tiles, 'checkpoint'), 'utf8').split('\n')[1]).toBe('2');
    const { stdout } = await run(['doctor', '--data-dir', dataDir]);
    expect(stdout).toMatch(/1 event, each checked/);
    const proof = path.join(scratch(), 'proof');
    const headBody = path.join(scratch(), 'body');
    expect((await run(['proof', id, '--out', proof, '--data-dir', dataDir])).code).toBe(0);
    const format = 'clinical-events/access-log-head/v1';
    fs.writeFileSync(headBody, JSON.stringify({ event_id: id, format, lines, head }));
    const checked = await run(['check-proof', proof, '--event', headBody, '--key', firstKey(dataDir)]);
    expect([checked.code, checked.stderr]).toEqual([0, '']);
  });
});

describe('a collector', () => {
  test('[R-718] stores a head of the access log, at most once an interval, and one more when it ends', async () => {
    const collector = await serving('--checkpoint-interval-ms', '100');
    await read(dataDir);
    await expect.poll(signedEntries).toBeGreaterThan(4);
    expect(await collector.stop()).toBe(0);
    // The second line of the access may have come an interval later.
    const entries = signedEntries();
    expect([5, 6]).toContain(entries);
    const seldom = await serving('--checkpoint-interval-ms', '1h');
    await read(dataDir);
    expect(await seldom.stop()).toBe(0);
    expect(signedEntries()).toBe(entries + 1);
    expect(await verify()).toMatchObject({
      ...{ intact: true, findings: [], access_log: { lines: 12, unsigned_lines: 0 } },
    });
    // Without accesses nothing is added.
    expect(await (await serving()).stop()).toBe(0);
    expect(signedEntries()).toBe(entries + 1);
  });

  test('[R-718] killed between an access and its head loses neither, and the next start stores the head', async () => {
    const killed = await serving('--checkpoint-interval-ms', '1h');
    await read(dataDir);
    await killed.kill();
    const before = { lines: 10, unsigned_lines: 2, unended: 0 };
    expect(await verify()).toMatchObject({ access_log: before });
    await (await serving('--checkpoint-interval-ms', '1h')).stop();
    expect(await verify()).toMatchObject({ access_log: { lines: 10, unsigned_lines: 0, heads: 3 } });
  });

  test('[R-718] continues if the access log was changed, logs an error, and covers new lines by heads', async () => {
    writeLines(readLines().toSpliced(0, 1));
    const collector = await serving('--checkpoint-interval-ms', '100');
    await expect.poll(() => collector.output.stderr).toContain('access log was changed');
    const told = collector.output.stderr
      .split('\n')
      .filter((line) => line.includes('access log was changed'));
    expect(told.map((line) => JSON.parse(line) as object)).toEqual([
      expect.objectContaining({
        level: 'error',
        reason: 'access.log: it has 7 whole lines, and the log has a head of 8',
      }),
    ]);
    await read(dataDir);
    expect((await fetch(`${collector.url}/health`)).status).toBeLessThan(500);
    expect(await collector.stop()).toBe(0);
    const { findings, access_log: log } = await verify();
    expect(log).toMatchObject({ lines: 9, unsigned_lines: 0 });
    expect(findings.map(({ message }) => message)).toEqual([
      expect.stringMatching(/entry 3 .*; from entry 6 on the heads match again$/),
    ]);
  });
});
