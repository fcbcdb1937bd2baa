import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EventKind } from '@clinical-events/protocol';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { ReportNumbers } from '../src/report-numbers.js';
import { stored, type SentEvent } from '../../collector/test/records/odd-log.js';
import { launch, run, temporaryDirectory } from '../../collector/test/running/collector-process.js';
import {
  fillDirectory,
  flipBit,
  segmentPaths,
} from '../../collector/test/store/embedded/filled-directory.js';

let scratch: string;
let dataDir: string;
let out: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  dataDir = path.join(scratch, 'data');
  out = path.join(scratch, 'report.html');
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

/** Received `day` days after 2 March 2026; its timestamp is of 2 March. */
const odd = (n: number, kind: EventKind, more: Partial<SentEvent> = {}): SentEvent => ({
  ...{ n, kind, organisation: 'default', run: 501, parent: null, second: 1, day: 0, ...more },
});

const LOG: readonly SentEvent[] = [
  odd(1, 'inference-start'),
  odd(2, 'human-output', { second: 3 }),
  odd(3, 'inference-start', { run: 502, organisation: 'ward-7' }),
  odd(4, 'outcome', { day: 1 }),
  odd(5, 'user-feedback', { day: 2 }),
];

async function fill(events: readonly SentEvent[] = LOG): Promise<void> {
  const batches = [];
  for (let i = 0; i < events.length; i += 100) batches.push(events.slice(i, i + 100).map(stored));
  await fillDirectory(dataDir, batches);
}

function report(...args: readonly string[]) {
  return run(['report', '--data-dir', dataDir, '--out', out, ...args]);
}

const CLOCKS_APART =
  /^collector: warning: in .* more than a day from the time of receipt.*--clock sender.*\n/;

/** The numbers of a new report. */
async function numbers(...args: readonly string[]): Promise<ReportNumbers> {
  fs.rmSync(out, { force: true });
  const { code, stdout, stderr } = await report('--json', ...args);
  expect([code, stderr.replace(CLOCKS_APART, '')]).toEqual([0, '']);
  return JSON.parse(stdout) as ReportNumbers;
}

describe('collector report [R-715]', () => {
  test('writes one page, readable by its owner, and prints what it counted', async () => {
    await fill();
    const { code, stdout, stderr } = await report();
    expect([code, stdout]).toEqual([0, '']);
    expect(stderr.replace(CLOCKS_APART, '')).toMatch(
      /^collector: 2 runs and 5 events counted in .* s, in .*report\.html\n$/,
    );
    const page = fs.readFileSync(out, 'utf8');
    expect(page).toMatch(/^<!doctype html>/);
    expect(page).toContain('sepsis-risk');
    expect(fs.statSync(out).mode & 0o777).toBe(0o600);
    expect(fs.readdirSync(scratch).sort()).toEqual(['data', 'report.html']);
    expect((await report()).stderr).toMatch(/--out: .*report.html/);
    expect(fs.readFileSync(out, 'utf8')).toBe(page);
  });

  test('[R-715] its commands name the data directory, the period and the conditions', async () => {
    await fill([odd(1, 'outcome'), odd(2, 'outcome', { run: 502, organisation: 'ward-7' })]);
    expect(
      (await report('--organisation', 'ward-7', '--clock', 'sender', '--since', '2026-03-01')).code,
    ).toBe(0);
    const [, command] = /<code>([^<]* runs [^<]*)<\/code>/.exec(fs.readFileSync(out, 'utf8')) ?? [];
    expect(command).toMatch(/^collector runs --data-dir \//);
    expect(command).toContain(
      `--data-dir ${dataDir} --only incomplete --organisation ward-7 --since 2026-03-01 ` +
        '--until 2026-03-02T08:31:02.001Z --clock sender',
    );
  });

  test('prints the numbers of the page with --json', async () => {
    await fill();
    const all = await numbers();
    expect(all).toMatchObject({ report: 1, clock: 'received', since: '2026-03-02T00:00:00.000Z' });
    expect(all.log).toEqual({ events: 5, ends_at: '2026-03-04T08:31:05.000Z' });
    expect(all.all.runs_by_step).toEqual([2, 0, 0]);
    expect(all.events_by_step.outcome).toEqual([0, 1, 0]);
    expect(all.all.latency_ms.p50).toBeCloseTo(2000, -2);
    expect((await numbers('--organisation', 'ward-7')).all.runs).toBe(1);
    expect((await numbers('--model', 'sepsis-risk@4.2.0')).all.runs).toBe(2);
    const third = await numbers('--since', '2026-03-03', '--until', '2026-03-04');
    expect([third.all.runs, third.all.events, third.other_runs.runs]).toEqual([0, 1, 1]);
    const sent = await numbers('--clock', 'sender');
    expect(sent.events_by_step.outcome.indexOf(1)).toBe(
      sent.steps.starts.indexOf('2026-03-02T00:00:00.000Z'),
    );
    // It begins with the first event, not 90 days before the last.
    expect([sent.since, sent.steps.starts.length]).toEqual(['2026-03-02T00:00:00.000Z', 3]);
    expect(sent.events_outside).toEqual({ before: 0, after: 0 });
    const later = await numbers('--clock', 'sender', '--since', '2026-03-03');
    expect([later.since, later.events_outside]).toEqual([
      '2026-03-03T00:00:00.000Z',
      { before: 5, after: 0 },
    ]);
  });

  test('warns where the days are those of an import [R-715]', async () => {
    await fill(LOG.map((event) => ({ ...event, day: 40 })));
    const { code, stderr } = await report();
    expect(code).toBe(0);
    expect(stderr).toMatch(CLOCKS_APART);
    expect(stderr).toContain(
      "in 5 of 5 events the sender's timestamp is more than a day from the time of receipt",
    );
    expect(fs.readFileSync(out, 'utf8')).toContain('This report uses the time of receipt');
    fs.rmSync(out);
    const sent = await report('--clock', 'sender');
    expect(sent.stderr).not.toContain('warning');
    expect(fs.readFileSync(out, 'utf8')).not.toContain('This report uses the time of receipt');
    expect((await numbers()).clocks_apart).toEqual({ events: 5, of: 5 });
    fs.rmSync(out);
    const before = await report('--until', '2026-03-02');
    expect(before.stderr).toMatch(
      /^collector: warning: no such event was received in this period; --clock sender/,
    );
  });

  test('does not warn of clocks that are close [R-715]', async () => {
    await fill(LOG.slice(0, 3));
    const { stderr } = await report();
    expect(stderr).not.toContain('warning');
  });

  test('warns of an unknown organisation or model, and writes the page', async () => {
    await fill();
    const unknown = await report('--model', 'sepsis-risk@4.3.0', '--organisation', 'ward-8');
    expect(unknown.code).toBe(0);
    expect(unknown.stderr.split('\n').slice(0, 2)).toEqual([
      'collector: warning: no event has the organisation "ward-8"; the nearest is "ward-7"',
      'collector: warning: no run has the model "sepsis-risk@4.3.0"; the nearest is "sepsis-risk@4.2.0"',
    ]);
    expect(fs.readFileSync(out, 'utf8')).toContain('There is no run in this period.');
    // Known, but not in this period.
    fs.rmSync(out);
    const known = await report('--model', 'sepsis-risk', '--organisation', 'ward-7', '--until', '2026-01-01');
    expect(known.stderr).not.toContain('names');
  });

  test('is the same for the same log, except for the time', async () => {
    await fill();
    const pages = [];
    for (let i = 0; i < 2; i++) {
      fs.rmSync(out, { force: true });
      await report();
      pages.push(fs.readFileSync(out, 'utf8').replace(/Made on [^]*? UTC/, ''));
    }
    expect(pages[0]).toBe(pages[1]);
  });

  test('refuses wrong options before it reads anything', async () => {
    await fill();
    const faults: readonly (readonly [readonly string[], RegExp])[] = [
      [['--clock', 'senders'], /not one of received, sender; did you mean "?sender/i],
      [['--since', 'yesterday'], /--since/],
      [['--since', '2026-02-01', '--until', '2026-02-01'], /not earlier than/],
      [['--since', '0001-01-01'], /more than 100 years before the end/],
      [['--since', '2026-01-01', '--until', '9999-01-01'], /more than 100 years/],
      [['--organisation', ''], /--organisation/],
      [['--out', path.join(scratch, 'nowhere', 'x.html')], /there is no directory/],
      [['--out', dataDir], /--out: .*data/],
    ];
    for (const [args, message] of faults) {
      const { code, stdout, stderr } = await report(...args);
      expect([code, stdout], args.join(' ')).toEqual([2, '']);
      expect(stderr).toMatch(message);
    }
    const without = await run(['report', '--data-dir', dataDir]);
    expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('--out')]);
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
    expect((await run(['report', '--out', out, '--data-dir', path.join(scratch, 'none')])).code).toBe(6);
  });

  test('stops at a damaged log and leaves no file', async () => {
    await fill(Array.from({ length: 400 }, (_, i) => odd(i + 1, 'outcome', { run: 1000 + i })));
    flipBit(segmentPaths(dataDir)[0] ?? '', 9000);
    expect((await report()).code).toBe(3);
    expect(fs.readdirSync(scratch)).toEqual(['data']);
  });

  test('[R-715] counts from the catalogue without reading events', async () => {
    await fill(Array.from({ length: 400 }, (_, i) => odd(i + 1, 'outcome', { run: 1000 + (i % 150) })));
    const whole = await report('--json');
    fs.rmSync(out);
    flipBit(segmentPaths(dataDir)[1] ?? '', 9000);
    const again = await report('--json');
    expect(again.code, again.stderr).toBe(0);
    const numbers = ({ stdout }: typeof whole) => ({ ...(JSON.parse(stdout) as object), made_at: '' });
    expect(numbers(again)).toEqual(numbers(whole));
  });

  test('leaves no file when a signal ends it', async () => {
    await fill(Array.from({ length: 12_000 }, (_, i) => odd(i + 1, 'outcome', { run: 100_000 + i })));
    const temporary = path.join(scratch, 'temporary');
    fs.mkdirSync(temporary);
    const command = launch(['report', '--data-dir', dataDir, '--out', out], { env: { TMPDIR: temporary } });
    while (!fs.existsSync(path.join(dataDir, 'catalogue'))) await sleep(2);
    command.process.kill('SIGTERM');
    await once(command.process, 'exit');
    expect(await command.exited, command.output.stderr).toBe(130);
    expect(command.output.stderr).toBe('collector: interrupted; no file was written\n');
    expect(fs.readdirSync(temporary)).toEqual([]);
    expect(fs.readdirSync(scratch).sort()).toEqual(['data', 'temporary']);
  });

  test('has entries in the access log before and after [R-702]', async () => {
    await fill();
    await report('--organisation', 'ward-7', '--json');
    const noted = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8').split('\n').slice(0, -1);
    expect(noted.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { state: 'begun', command: 'report', filter: { organisation: 'ward-7', out } },
      { state: 'ended', command: 'report', events: 1, complete: true },
    ]);
  });
});
