import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClinicalRecord, EventKind } from '@clinical-events/protocol';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { toJson } from '../../src/records/raw-json.js';
import { id } from '../records/run-events.js';
import { naiveRecords, oddLog, stored, type SentEvent } from '../records/odd-log.js';
import { schemaFaults } from '../records/record-schema.js';
import { launch, run, temporaryDirectory } from '../running/collector-process.js';
import { hasTerminal, runOnTerminal } from '../running/restricted-process.js';
import { candidate } from '../store/candidate.js';
import { fillDirectory, flipBit, segmentPaths } from '../store/embedded/filled-directory.js';

let scratch: string;
let dataDir: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  dataDir = path.join(scratch, 'data');
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

const odd = (n: number, kind: EventKind, more: Partial<SentEvent> = {}): SentEvent => ({
  ...{ n, kind, organisation: 'default', run: 501, parent: null, second: 1, day: 0, ...more },
});

/** A run with an outcome a day later, one nested in it, one without a start, and an event of no run. */
const LOG: readonly SentEvent[] = [
  odd(1, 'inference-start'),
  odd(2, 'human-output', { run: null, parent: 1, second: 3 }),
  odd(3, 'inference-start', { run: 502, parent: 2 }),
  odd(4, 'internal-artifact', { run: 503, organisation: 'ward-7' }),
  odd(5, 'user-feedback', { run: null, parent: 999 }),
  odd(6, 'outcome', { parent: 2, day: 1 }),
];

async function fill(events: readonly SentEvent[] = LOG): Promise<void> {
  const batches = [];
  for (let i = 0; i < events.length; i += 100) batches.push(events.slice(i, i + 100).map(stored));
  await fillDirectory(dataDir, batches);
}

function records(...args: readonly string[]) {
  return run(['records', '--data-dir', dataDir, ...args]);
}

function parsed(text: string): ClinicalRecord[] {
  const lines = text.split('\n');
  expect(lines.pop()).toBe('');
  return lines.map((line) => JSON.parse(line) as ClinicalRecord);
}

async function ids(...args: readonly string[]): Promise<string[]> {
  const { code, stdout, stderr } = await records(...args);
  if (code !== 0) throw new Error(stderr);
  return parsed(stdout).map(({ metadata }) => metadata.record_id);
}

const place = (name: string) => path.join(scratch, name);

describe('collector records [R-711]', () => {
  test('prints every record, oldest first, as its schema has it, and says where to continue', async () => {
    await fill();
    const { code, stdout, stderr } = await records();
    expect(code, stderr).toBe(0);
    const printed = parsed(stdout);
    expect(printed.map(({ metadata }) => metadata.record_id)).toEqual([id(501), id(502), id(503), id(5)]);
    for (const record of printed) expect(schemaFaults(record)).toEqual([]);
    const naive = [...naiveRecords(dataDir).values()].map((each) => toJson(each));
    expect(stdout.split('\n').slice(0, -1).sort()).toEqual(naive.sort());
    // No double has these digits.
    expect(stdout).toContain('1234567890123456789.10');
    expect(stderr).toMatch(/4 records of 6 events in .*--after 6\n$/);
  });

  test('prints the records that the options select', async () => {
    await fill();
    expect(await ids('--run', id(502).toUpperCase())).toEqual([id(502)]);
    expect(await ids('--run', id(5))).toEqual([id(5)]);
    expect(await ids('--organisation', 'ward-7')).toEqual([id(503)]);
    expect(await ids('--model', 'sepsis-risk')).toEqual([id(501), id(502)]);
    expect(await ids('--model', 'sepsis-risk@4.2.0')).toEqual([id(501), id(502)]);
    expect(await ids('--model', 'sepsis-risk@4.3.0')).toEqual([]);
    expect(await ids('--since', '2026-03-03')).toEqual([id(501)]);
    expect(await ids('--until', '2026-03-03', '--only', 'incomplete')).toEqual([id(503), id(5)]);
    expect(await ids('--after', '4')).toEqual([id(501), id(5)]);
    expect(await ids('--after', '6')).toEqual([]);
  });

  test('[R-711] prints what is in the log, however its events refer to each other', async () => {
    for (const [i, events] of fc.sample(oddLog(60), { numRuns: 4, seed: 1105 }).entries()) {
      dataDir = place(`odd-${i}`);
      await fill(events);
      const { code, stdout, stderr } = await records();
      expect(code, stderr).toBe(0);
      const naive = [...naiveRecords(dataDir).values()].map((each) => toJson(each));
      expect(stdout.split('\n').slice(0, -1).sort()).toEqual(naive.sort());
    }
  });

  test('[R-711] does not read records that have no event after --after', async () => {
    await fill(Array.from({ length: 400 }, (_, i) => odd(i + 1, 'outcome', { run: 1000 + i })));
    expect((await records('--out', place('all.ndjson'))).code).toBe(0);
    flipBit(segmentPaths(dataDir)[0] ?? '', 9000);
    expect(await ids('--after', '398')).toEqual([id(1398), id(1399)]);
    expect((await records('--after', '0')).code).toBe(3);
  });

  test('warns that no event has a given name, and suggests the nearest one', async () => {
    await fill();
    const near = await records('--organisation', 'wrad-7');
    expect([near.code, near.stdout]).toEqual([0, '']);
    expect(near.stderr).toMatch(
      /^collector: warning: no event has the organisation "wrad-7"; the nearest is "ward-7"\ncollector: 0 records of /,
    );
    const far = await records('--model', '\u001b[2J', '--json');
    expect(JSON.parse(far.stderr)).toMatchObject({
      records: 0,
      warnings: ['no run has the model "\\u001b[2J"'],
    });
    for (const args of [
      ['--model', 'sepsis-risk@4.2.0', '--after', '6'],
      ['--organisation', 'ward-7', '--model', 'sepsis-risk'],
    ])
      expect((await records(...args)).stderr, args.join(' ')).toMatch(/^collector: 0 records of /);
  });

  test('[R-1040] says if an empty period has records by the clocks of the senders, and writes 1 record in the singular', async () => {
    await fill(LOG.map((event) => ({ ...event, day: 10 })));
    const hint = /^collector: warning: .*--clock sender\ncollector: 0 records /;
    const past = await records('--since', '2026-03-01', '--until', '2026-03-04');
    expect([past.code, past.stdout, past.stderr]).toEqual([0, '', expect.stringMatching(hint)]);
    expect((await records('--since', '2026-02-01', '--until', '2026-02-02')).stderr).not.toMatch(hint);
    expect((await records('--run', id(503), '--format', 'csv')).stderr).toMatch(
      /^collector: 1 record of 1 event in /,
    );
  });

  test('[R-711] selects records and their days by when they began by the clock of their senders', async () => {
    const sentOn = (day: string) => ({ sentAt: `2026-03-${day}T08:31:01+00:00` });
    await fill([
      odd(1, 'inference-start', { day: 3 }),
      odd(2, 'outcome', { day: 3, ...sentOn('07') }),
      odd(3, 'inference-start', { run: 502, day: 3, ...sentOn('03') }),
      odd(4, 'inference-start', { run: 503, day: 4 }),
      odd(5, 'outcome', { run: 504, day: 4, ...sentOn('03') }),
      // The outcome has its own clock.
      odd(6, 'outcome', { run: 502, day: 4, sentAt: '1970-01-01T00:00:00Z' }),
    ]);
    const sent = (...args: readonly string[]) => ids('--clock', 'sender', ...args);
    expect(await sent('--since', '2026-03-03')).toEqual([id(502), id(504)]);
    expect(await sent('--until', '2026-03-03')).toEqual([id(501), id(503)]);
    expect(await sent('--since', '2026-03-04')).toEqual([]);
    expect(await ids('--until', '2026-03-05')).toEqual([]);
    expect((await records('--clock', 'sender', '--until', '2026-03-03')).stderr).not.toContain('--after');
    const days = async (clock: string) => {
      const out = place(clock);
      const args = ['--clock', clock, '--out', `${out}/`];
      expect(await records(...args)).toMatchObject({ code: 0 });
      return fs
        .globSync('*/*', { cwd: out })
        .sort()
        .map((file) => [
          file,
          parsed(fs.readFileSync(path.join(out, file), 'utf8')).map(({ metadata }) => metadata.record_id),
        ]);
    };
    expect(await days('sender')).toEqual([
      ['date=2026-03-02/part-0000.ndjson', [id(501), id(503)]],
      ['date=2026-03-03/part-0000.ndjson', [id(502), id(504)]],
    ]);
    expect(await days('received')).toEqual([
      ['date=2026-03-05/part-0000.ndjson', [id(501), id(502)]],
      ['date=2026-03-06/part-0000.ndjson', [id(503), id(504)]],
    ]);
  });

  test('[R-1040] shows a whole run with --full, also in a pipe, and refuses --full for anything else', async () => {
    await fill();
    const { code, stdout } = await records('--run', id(501), '--full');
    expect(code).toBe(0);
    expect(stdout).toContain(`Run           ${id(501)}\n`);
    expect(stdout).toContain('\n    summary: High risk\\u001b[2J.\n');
    for (const args of [['--full'], ['--full', '--run', id(501), '--format', 'json']])
      expect(await records(...args)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('--full') as string,
      });
    expect((await records('--full', '--run', id(501), '--out', place('x'))).code).toBe(2);
  });

  test.runIf(hasTerminal)('shows one run as text on a terminal, and all runs as escaped lines', async () => {
    await fill();
    const { stdout } = await runOnTerminal(['records', '--data-dir', dataDir, '--run', id(501)]);
    expect(stdout).toContain('Completeness');
    const lines = await runOnTerminal(['records', '--data-dir', dataDir]);
    expect(lines.stdout).toContain('"record_id"');
    expect(lines.stdout).not.toContain('\u001b[2J');
  });

  test('writes a FHIR transaction of one organisation only [R-712]', async () => {
    await fill();
    const asTransaction = ['--format', 'fhir-transaction'];
    const several = await records(...asTransaction);
    expect([several.code, several.stdout]).toEqual([2, '']);
    expect(several.stderr).toContain('(default, ward-7)');
    const { code, stdout, stderr } = await records(...asTransaction, '--organisation', 'ward-7');
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      type: 'transaction',
      entry: [{ request: { method: 'PUT', url: `AuditEvent/${id(4)}` } }, {}],
    });
    expect(JSON.parse((await records('--format', 'fhir', '--run', id(503))).stdout)).toMatchObject({
      type: 'collection',
    });
  });

  test('refuses --after beyond the end of the log, which may have been cut since [R-1001]', async () => {
    await fill();
    const { code, stderr } = await records('--after', '7');
    expect([code, stderr]).toEqual([2, expect.stringContaining('6')]);
  });

  test('refuses invalid arguments, and reads nothing', async () => {
    await fill();
    for (const args of [
      ['--run', '7'],
      ['--format', 'parket'],
      ['--format', 'text'],
      ['--after', '-1'],
      ['--out', dataDir],
      ['--out', place('nowhere/x')],
      ['--since', '2026-02-01', '--until', '2026-01-01'],
    ]) {
      const { code, stdout, stderr } = await records(...args);
      expect([code, stdout], args.join(' ')).toEqual([2, '']);
      expect(stderr).toContain(args[0] === '--out' ? scratch : args[0]);
    }
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
    expect((await records('--run', id(77))).code).toBe(6);
    expect((await run(['records', '--data-dir', place('none')])).code).toBe(6);
  });

  test('stops where the log is damaged, and leaves no file [R-1001]', async () => {
    await fill(Array.from({ length: 400 }, (_, i) => odd(i + 1, 'outcome', { run: 1000 + i })));
    flipBit(segmentPaths(dataDir)[0] ?? '', 9000);
    const { code, stderr } = await records('--out', place('r.ndjson'));
    expect(code).toBe(3);
    expect(stderr).toContain(path.basename(segmentPaths(dataDir)[0] ?? ''));
    expect(fs.readdirSync(scratch)).toEqual(['data']);
  });

  test('finds a parent in another run, however its name is written', async () => {
    const spelt = (n: number, name: string) => {
      const event = odd(n, 'outcome', { parent: 3, run: 501 });
      const body = stored(event).body.toString().replace('"parent_event_id":', name);
      return candidate({ eventId: id(n), runId: id(501), receivedAt: stored(event).receivedAt, body });
    };
    const spellings = [spelt(7, '"parent_event_id" :'), spelt(8, String.raw`"parent\u005fevent_id": `)];
    await fillDirectory(dataDir, [LOG.map(stored), spellings]);
    const [first] = parsed((await records()).stdout);
    expect(first?.metadata.conflicts).toContainEqual({
      kind: 'parent_in_other_run',
      event_ids: [id(7), id(8)],
    });
  });

  test('prints the same for a log that several threads read, and says where it is damaged [R-1001]', async () => {
    const large = (n: number) => {
      const event = stored(odd(n, 'outcome', { run: null, parent: 1 + (n % 6) }));
      const body = `${event.body.toString().slice(0, -1)},"filler":"${'x'.repeat(1 << 20)}"}`;
      return candidate({ eventId: id(n), receivedAt: event.receivedAt, body });
    };
    const more = [odd(7, 'outcome', { organisation: 'ward-8' }), odd(8, 'outcome', { parent: 70 })];
    const batches = [LOG, more].map((events) => events.map(stored));
    const filler = Array.from({ length: 70 }, (_, i) => [large(i + 9)]);
    await fillDirectory(dataDir, [...filler, ...batches, [large(100)]], 1 << 20);
    const { code, stdout, stderr } = await records();
    expect(code, stderr).toBe(0);
    const naive = [...naiveRecords(dataDir).values()].map((each) => toJson(each));
    expect(stdout.split('\n').slice(0, -1).sort()).toEqual(naive.sort());
    flipBit(segmentPaths(dataDir)[1] ?? '', 9000);
    expect(await records('--out', place('r.ndjson'))).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/\bevent 2: .*\bchanged\b/) as string,
    });
  });

  test('needs little memory for many runs', async () => {
    const filler = 'x'.repeat(1000);
    const batches = Array.from({ length: 60 }, (_, batch) =>
      Array.from({ length: 1000 }, (_unused, i) => {
        const n = batch * 1000 + i + 1;
        const body = {
          timestamp: '2026-03-02T08:31:01Z',
          protocol_version: '1',
          system_metadata: {},
          outcome: { filler },
        };
        return candidate({
          eventId: id(n),
          runId: id(100_000 + (n % 20_000)),
          body: { event_id: id(n), ...body },
        });
      }),
    );
    await fillDirectory(dataDir, batches, 16 << 20);
    const { code, stderr } = await run(
      ['records', '--data-dir', dataDir, '--out', place('r.ndjson'), '--json'],
      {
        // Less than the log, and much less than its records.
        env: { NODE_OPTIONS: '--max-old-space-size=48' },
      },
    );
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stderr)).toMatchObject({ records: 20_000, events: 60_000, next_after: 60_000 });
  });
});

describe('the output of collector records [R-712] [R-1001]', () => {
  test('is the same in a file as when printed, in each format, for its owner alone', async () => {
    await fill();
    for (const format of ['ndjson', 'json', 'csv', 'csv-calls', 'parquet']) {
      const file = place(`records.${format}`);
      expect((await records('--format', format, '--out', file)).code).toBe(0);
      expect(fs.statSync(file).mode & 0o777).toBe(0o600);
      if (format !== 'parquet') {
        expect((await records('--format', format)).stdout).toBe(fs.readFileSync(file, 'utf8'));
      }
    }
    expect((await records('--out', place('records.csv'))).stderr).toContain('records.csv');
    expect(fs.readdirSync(scratch).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  test('is for a spreadsheet on request, with its warning [R-712]', async () => {
    const start = (n: number, prompt: string) => {
      const sent = { timestamp: '2026-03-02T08:31:01Z', protocol_version: '0.0.1', system_metadata: {} };
      const more = { target_identity: { target_id: '0000123456' }, inputs: { prompt } };
      const body = { event_id: id(n), ...sent, ...more };
      return candidate({ kind: 'inference-start', eventId: id(n), runId: id(n), body });
    };
    await fillDirectory(dataDir, [[start(1, 'x'.repeat(32_767)), start(2, 'y'.repeat(32_768))]]);
    const plain = await records('--format', 'csv');
    expect(plain.stdout).toContain(',0000123456,');
    expect(plain.stderr).not.toContain('warning');
    for (const args of [[], ['--out', `${place('days')}/`]]) {
      const asked = await records('--format', 'csv', '--for-spreadsheet', '--json', ...args);
      expect(JSON.parse(asked.stderr)).toMatchObject({
        records: 2,
        warnings: [expect.stringMatching(/^1 cell .*32,767 characters/)],
      });
    }
    const { stdout, stderr } = await records('--format', 'csv', '--for-spreadsheet');
    expect(stdout).toMatch(/^\ufeffrecord_id,/);
    expect(stdout).toContain(',"=""0000123456""",');
    expect(stdout).toContain('y'.repeat(32_768));
    expect(stderr).toMatch(/^collector: warning: 1 cell /);
    for (const format of [[], ['--format', 'parquet']]) {
      const refused = await records('--for-spreadsheet', ...format);
      expect([refused.code, refused.stdout]).toEqual([2, '']);
      expect(refused.stderr).toContain('--for-spreadsheet');
    }
  });

  test('is in a directory for each day on which records began', async () => {
    await fill([
      ...LOG,
      odd(7, 'inference-start', { run: 507, day: 2 }),
      odd(8, 'outcome', { run: 508, day: 1 }),
    ]);
    expect((await records('--out', `${place('days')}/`)).code).toBe(0);
    const files = fs.readdirSync(place('days'), { recursive: true }).map(String).sort();
    const days = ['date=2026-03-02', 'date=2026-03-03', 'date=2026-03-04'];
    expect(files).toEqual(days.flatMap((day) => [day, `${day}/part-0000.ndjson`]));
    const found = files
      .filter((name) => name.endsWith('.ndjson'))
      .map((name) =>
        parsed(fs.readFileSync(path.join(place('days'), name), 'utf8')).map(
          (each) => each.metadata.record_id,
        ),
      );
    expect(found).toEqual([[id(501), id(502), id(503), id(5)], [id(508)], [id(507)]]);
  });

  test('appears whole or not at all, and a signal leaves nothing in TMPDIR', async () => {
    await fill(Array.from({ length: 30_000 }, (_, i) => odd(i + 1, 'outcome', { run: 100_000 + i })));
    const temporary = place('temporary');
    fs.mkdirSync(temporary);
    for (const [signal, code, left] of [
      ['SIGTERM', 130, 0],
      ['SIGKILL', null, 1],
    ] as const) {
      const file = place(`${signal}.ndjson`);
      const command = launch(['records', '--data-dir', dataDir, '--out', file], {
        env: { TMPDIR: temporary },
      });
      // Its draft is there once it has begun to write.
      while (!fs.readdirSync(scratch).some((name) => name.startsWith(`.${signal}`))) await sleep(2);
      command.process.kill(signal);
      await once(command.process, 'exit');
      expect(await command.exited, command.output.stderr).toBe(code);
      expect(fs.existsSync(file)).toBe(false);
      expect(fs.readdirSync(scratch).filter((name) => name.startsWith(`.${signal}`)).length).toBe(left);
      expect(fs.readdirSync(temporary)).toEqual([]);
    }
  });
});
