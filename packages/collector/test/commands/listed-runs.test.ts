/** `collector runs` and other commands that find runs and events by the catalogue, as processes on a data directory. */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { EventKind } from '@clinical-events/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openCatalogue } from '../../src/commands/catalogue.js';
import { exitCodeOf } from '../../src/commands/program.js';
import { id } from '../records/run-events.js';
import { launch, run, temporaryDirectory, type PrintedEvent } from '../running/collector-process.js';
import { canMount, runReadOnly } from '../running/restricted-process.js';
import { candidate, type Made } from '../store/candidate.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from '../store/embedded/filled-directory.js';

const BEGAN = Date.now() - 40 * 86_400_000;
const HOUR = 3_600_000;

let next = 0;

/** An event of run `n`, an hour later for each run; by its sender's clock a year earlier. */
function eventOf(n: number, kind: EventKind, more: object = {}, organisation = 'default'): Made {
  const eventId = kind === 'inference-start' ? id(n) : id(1000 + ++next);
  const receivedAt = BEGAN + n * HOUR;
  const timestamp = new Date(receivedAt - 365 * 86_400_000).toISOString();
  const body = { event_id: eventId, run_id: id(n), timestamp, protocol_version: '0.0.1', ...more };
  return candidate({ eventId, runId: id(n), kind, organisation, receivedAt, body });
}

interface Wanted {
  readonly model?: string;
  readonly version?: string;
  readonly user?: string;
  readonly target?: string;
  readonly app?: string;
  readonly organisation?: string;
}

function start(n: number, { organisation, ...wanted }: Wanted = {}): Made {
  const { model = 'risk', version = '1', user = 'dr-a', target = 'p-1', app = 'triage' } = wanted;
  const said = {
    model_instance: { model_id: model, model_version: version },
    ...{ user_identity: { caller_id: user }, target_identity: { target_id: target } },
    ...{ inputs: [{ uri: 'urn:x:1' }], system_metadata: { app_name: app } },
  };
  return eventOf(n, 'inference-start', said, organisation);
}

const outcome = (n: number, outcome_type: string) => eventOf(n, 'outcome', { outcome: { outcome_type } });
const feedback = (n: number, said: object) => eventOf(n, 'user-feedback', { feedback: said });
const failure = (n: number) =>
  eventOf(n, 'internal-artifact', {
    artifact: { artifact_type: 'other', ending: 'failed', status: 429 },
    system_metadata: { instrumentation: { by: 'openai' } },
  });

const OTHER_TARGET = { event_id: id(900), run_id: id(8), target_identity: { target_id: 'p-9' } };

const EVENTS = [
  ...[start(1), outcome(1, 'contradicted'), feedback(1, { feedback_type: 'thumbs', direction: 'up' })],
  ...[start(2, { version: '2', user: 'dr-b' }), outcome(2, 'validated')],
  ...[start(3, { target: 'p-2', app: 'letters' }), failure(3)],
  ...[start(4, { model: 'risk@2' }), start(4, { model: 'risk@2' }), outcome(4, 'contradicted')].filter(
    (_, i) => i !== 1,
  ),
  ...[start(5, { organisation: 'ward-7' }), outcome(6, 'partial')],
  ...[
    start(7, { target: '\u001b[2J\u202e', user: '=1+1' }),
    feedback(7, { feedback_type: 'rating', rating_value: 4 }),
  ],
  // Its second start is about someone else.
  ...[start(8), candidate({ ...start(8), eventId: id(900), runId: id(8), body: OTHER_TARGET })],
];

let dataDir: string;

beforeEach(async () => {
  dataDir = temporaryDirectory();
  // Two segments: damage at the end of a log would count as left by a crash.
  await fillDirectory(dataDir, [EVENTS.slice(0, 10), EVENTS.slice(10)], 1);
});

afterEach(() => {
  fs.chmodSync(dataDir, 0o700);
  fs.rmSync(dataDir, { recursive: true, force: true });
});

const collector = (command: string, ...args: readonly string[]) =>
  run([command, '--data-dir', dataDir, ...args]);

/** The numbers of the runs that are listed. */
async function listed(...args: readonly string[]): Promise<number[]> {
  const { stdout, stderr, code } = await collector('runs', '--json', ...args);
  expect(code, stderr).toBe(0);
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => Number((JSON.parse(line) as { record_id: string }).record_id.slice(-4)));
}

function catalogueFile(): string {
  return path.join(dataDir, 'catalogue', 'catalogue.sqlite');
}

describe('collector runs', () => {
  test.each<[string, number[]]>([
    ['', [8, 7, 6, 5, 4, 3, 2, 1]],
    ['--target p-1', [8, 5, 4, 2, 1]],
    ['--target p-1 --outcome contradicted', [4, 1]],
    ['--user dr-b', [2]],
    ['--app letters', [3]],
    ['--organisation ward-7', [5]],
    ['--model risk', [8, 7, 5, 3, 2, 1]],
    // A model may have an @ in its id.
    ['--model risk@2', [4, 2]],
    ['--model risk@1 --limit 2', [8, 7]],
    ['--outcome none --target p-1', [8, 5]],
    ['--outcome partial', [6]],
    ['--feedback thumbs-up', [1]],
    ['--feedback any', [7, 1]],
    ['--feedback none --user dr-a', [8, 5, 4, 3]],
    ['--only failed', [3]],
    ['--only incomplete', [6]],
    ['--only contradictory', [8]],
    ['--outcome none:30d --app triage', [8, 7, 5]],
    ['--outcome none:400d', []],
    [`--since ${new Date(BEGAN + 6 * HOUR).toISOString()}`, [8, 7, 6]],
    [`--until ${new Date(BEGAN + 3 * HOUR).toISOString()} --clock received`, [2, 1]],
    [`--until ${new Date(BEGAN).toISOString()} --clock sender --limit 3`, [8, 7, 6]],
    ['--outcome none:300d --clock sender --only failed', [3]],
  ])('[R-1040] %s lists the runs that match, newest first', async (args, expected) => {
    expect(await listed(...args.split(' ').filter((word) => word !== ''))).toEqual(expected);
  });

  test('[R-1040] says how many there are, how to see more and how to see one, and is logged without names', async () => {
    const first = await collector('runs', '--target', 'p-1', '--limit', '2');
    expect([first.code, first.stdout.split('\n').length], first.stderr).toEqual([0, 4]);
    expect(first.stdout).toContain(`\n${id(8)}  `);
    expect(first.stderr).toContain('the newest 2 of 5 runs; more: --limit 5, all: --limit all\n');
    expect(first.stderr).toMatch(/ 2 of .*--clock sender/);
    expect(first.stderr).toMatch(/ records --data-dir .* --run abcdef00-0000-/);
    // An event that has come since is in the answer.
    await fillDirectory(dataDir, [[start(9)]]);
    expect(await listed('--target', 'p-1', '--limit', '1')).toEqual([9]);
    const notes = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8').split('\n');
    expect(JSON.parse(notes[0] ?? '')).toMatchObject({
      ...{ command: 'runs', state: 'begun', filter: { target: true, limit: '2' } },
    });
    expect(JSON.parse(notes[1] ?? '')).toMatchObject({ state: 'ended', events: 3, complete: true });
  });

  test('[R-1040] counts exactly what it lists, also of more than ten thousand', async () => {
    const more = Array.from({ length: 10_010 }, (_, i) => eventOf(100_000 + i, 'outcome'));
    const batches = Array.from({ length: 11 }, (_, i) => more.slice(i * 1000, (i + 1) * 1000));
    await fillDirectory(dataDir, batches);
    const counted = async (limit: string) => {
      const { stdout, stderr } = await collector('runs', '--json', '--limit', limit);
      return [stdout.split('\n').length - 1, /^collector: (.*runs)/.exec(stderr)?.[1]];
    };
    expect(await counted('all')).toEqual([10_018, '10018 runs']);
    expect(await counted('10018')).toEqual([10_018, '10018 runs']);
    expect(await counted('10017')).toEqual([10_017, 'the newest 10017 of more than 10017 runs']);
    expect(await counted('5')).toEqual([5, 'the newest 5 of more than 10000 runs']);
  });

  test('[R-1343] reads the ids of persons from a file or standard input, and logs only that one was given', async () => {
    const [target, user] = ['target', 'user'].map((name) => path.join(dataDir, `${name}.txt`)) as [
      string,
      string,
    ];
    fs.writeFileSync(target, '  p-1\r\n\n');
    fs.writeFileSync(user, 'dr-b\n');
    expect(await listed('--target', `@${target}`, '--outcome', 'contradicted')).toEqual([4, 1]);
    expect(await listed('--user', `@${user}`)).toEqual([2]);
    expect(await listed('--target', `@${target}`, '--user', `@${user}`)).toEqual([2]);
    const {
      process: child,
      output,
      exited,
    } = launch(['runs', '--data-dir', dataDir, '--json', '--user', '-']);
    child.stdin?.end('dr-b');
    expect([await exited, output.stderr]).toEqual([0, expect.stringContaining('1 run')]);
    expect(output.stdout).toContain(id(2));
    const notes = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8');
    expect(notes).toContain('"filter":{"user":true}');
    expect(notes).not.toMatch(/p-1|dr-b|target\.txt/);
  });

  test('[R-1343] a file that does not hold exactly one id is refused, and no id is printed', async () => {
    const file = path.join(dataDir, 'ids.txt');
    for (const content of [undefined, '', ' \n\n', 'dr-a\ndr-b\n', Buffer.of(0xff, 0xfe, 0x70, 0)]) {
      if (content !== undefined) fs.writeFileSync(file, content);
      const { code, stdout, stderr } = await collector('runs', '--user', `@${file}`);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toContain('ids.txt');
      expect(stderr).not.toMatch(/dr-[ab]/);
    }
    for (const args of [
      ['--target', '@.'],
      ['--user', '@'],
      ['--target', '-', '--user', '-'],
    ])
      expect((await collector('runs', ...args)).code).toBe(2);
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
  });

  test('[R-1040] an empty list warns of each name that no run has, and suggests no name of a person', async () => {
    const names = ['--target', 'p-3', '--user', 'dr-a', '--app', 'triag', '--organisation', 'ward-8'];
    const { code, stdout, stderr } = await collector('runs', '--format', 'csv', ...names, '--model', 'risc');
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^record_id,[a-z_,]+\r\n$/)]);
    for (const name of ['"ward-8"; the nearest is "ward-7"', '"risc"; the nearest is "risk"'])
      expect(stderr).toContain(name);
    expect(stderr).toContain('"triag"; the nearest is "triage"');
    expect(stderr).toContain('no run has this target\n');
    expect(stderr).not.toMatch(/p-1|dr-a/);
  });

  test('[R-1040] an empty list of a period says if it has runs by the clocks of the senders', async () => {
    const period = (days: number) => [
      ...['--since', new Date(BEGAN - days * 86_400_000).toISOString()],
      ...['--until', new Date(BEGAN - (days - 1) * 86_400_000).toISOString()],
    ];
    const told = async (...args: readonly string[]) => (await collector('runs', ...args)).stderr;
    const hint = /^collector: no run matches\ncollector: .*--clock sender\n$/;
    expect(await told(...period(365))).toMatch(hint);
    expect(await told('--outcome', 'none:300d')).toMatch(hint);
    for (const args of [period(364), [...period(366), '--clock', 'sender'], ['--outcome', 'unknown']])
      expect(await told(...args), args.join(' ')).toBe('collector: no run matches\n');
  });

  test('[R-1040] text of senders is printed escaped in every format', async () => {
    const csv = await collector('runs', '--format', 'csv', '--for-spreadsheet', '--feedback', 'rating');
    expect(csv.stdout).toMatch(/^\ufeffrecord_id,/);
    expect(csv.stdout).toContain(',"=""=1+1""",');
    const json = await collector('runs', '--json', '--feedback', 'rating');
    expect(JSON.parse(json.stdout)).toMatchObject({ caller_id: '=1+1', target_id: '\u001b[2J\u202e' });
    const { stdout } = await collector('runs', '--feedback', 'rating');
    for (const text of [json.stdout, stdout]) {
      for (const character of ['\u001b', '\u202e']) expect(text).not.toContain(character);
    }
  });

  test('[R-1040] invalid input is refused before anything is read or logged', async () => {
    for (const args of [
      ['--outcome', 'wrong'],
      ['--limit', '0'],
      ['--outcome', 'none:30'],
    ]) {
      const { code, stdout, stderr } = await collector('runs', ...args);
      expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining(args[0] ?? '')]);
    }
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
    expect(fs.existsSync(path.join(dataDir, 'catalogue'))).toBe(false);
  });
});

describe('the catalogue of a command', () => {
  test('[R-1020] that is damaged, cut, emptied or of another log is rebuilt, and the answer is right', async () => {
    const damages: (() => void)[] = [
      () => fs.truncateSync(catalogueFile(), 5000),
      () => fs.writeFileSync(catalogueFile(), ''),
      () => fs.writeFileSync(catalogueFile(), Buffer.alloc(65_536, 7)),
      () => {
        // All pages except the first, which is read when it is opened.
        const bytes = fs.readFileSync(catalogueFile());
        fs.writeFileSync(catalogueFile(), bytes.fill(0x5a, 4096));
      },
    ];
    for (const damage of damages) {
      await listed();
      damage();
      expect(await listed('--target', 'p-1')).toEqual([8, 5, 4, 2, 1]);
    }
    const other = temporaryDirectory();
    await fillDirectory(other, [[start(3)]]);
    fs.rmSync(path.join(dataDir, 'catalogue'), { recursive: true });
    await run(['runs', '--data-dir', other]);
    fs.cpSync(path.join(other, 'catalogue'), path.join(dataDir, 'catalogue'), { recursive: true });
    fs.rmSync(other, { recursive: true });
    expect(await listed('--target', 'p-1')).toEqual([8, 5, 4, 2, 1]);
  });

  test('[R-1020] that fails at a query is rebuilt, and queried again', async () => {
    const signal = new AbortController().signal;
    const access = await openCatalogue({ dataDir, quiet: true, signal });
    try {
      let asked = 0;
      const found = await access.ask((catalogue) => {
        if (asked++ === 0) {
          const writer = new DatabaseSync(catalogueFile(), { timeout: 600_000 });
          writer.exec('DELETE FROM name');
          writer.close();
          // Only the next state shows rows whose texts were deleted.
          catalogue.release();
        }
        return [...catalogue.runs({ isRun: true })].map(({ recordId }) => recordId);
      });
      expect([asked, found.length]).toEqual([2, 8]);
    } finally {
      await access.close();
    }
  });

  test('[R-1020] that stays locked is reported with exit code 5', async () => {
    await listed();
    const holder = new DatabaseSync(catalogueFile());
    holder.exec('BEGIN IMMEDIATE');
    try {
      const signal = new AbortController().signal;
      const opened = openCatalogue({ dataDir, quiet: true, signal, waitMs: 200 });
      const fault: unknown = await opened.catch((error: unknown) => error);
      expect(String(fault)).toContain('catalogue');
      expect(exitCodeOf(fault)).toBe(5);
    } finally {
      holder.close();
    }
  });

  test('[R-1020] reports the reason if a signal ends its update, and leaves no lock', async () => {
    const stop = new AbortController();
    stop.abort(new Error('interrupted'));
    await expect(openCatalogue({ dataDir, quiet: true, signal: stop.signal })).rejects.toThrow('interrupted');
    expect(await listed('--only', 'failed')).toEqual([3]);
  });

  test('[R-1020] of a log that is damaged is not made: the damage is reported with exit code 3', async () => {
    const [first = ''] = segmentPaths(dataDir);
    flipBit(first, frameOffset(first, EVENTS, 3) + 200);
    const { code, stdout, stderr } = await collector('runs');
    expect([code, stdout, stderr]).toEqual([3, '', expect.stringMatching(/event 3/)]);
  });

  test('[R-1020] is not made in TMPDIR if the data directory can be written, whatever else fails', async () => {
    fs.rmSync(path.join(dataDir, 'catalogue'), { recursive: true, force: true });
    fs.mkdirSync(catalogueFile(), { recursive: true });
    const TMPDIR = temporaryDirectory();
    try {
      const { code, stdout, stderr } = await run(['runs', '--data-dir', dataDir], { env: { TMPDIR } });
      expect([code, stdout], stderr).toEqual([1, '']);
      expect(stderr).toContain(`${catalogueFile()} `);
      expect(fs.readdirSync(TMPDIR)).toEqual([]);
    } finally {
      fs.rmSync(TMPDIR, { recursive: true });
    }
  });

  test.runIf(canMount)('[R-1020] of a read-only copy is made in TMPDIR, and removed at the end', async () => {
    const temp = temporaryDirectory();
    try {
      const args = ['runs', '--data-dir', dataDir, '--json', '--only', 'failed'];
      const { code, stdout, stderr } = await runReadOnly(dataDir, args, { TMPDIR: temp });
      expect([code, (JSON.parse(stdout) as { record_id: string }).record_id], stderr).toEqual([0, id(3)]);
      const eventsOf = (TMPDIR: string) =>
        runReadOnly(dataDir, ['events', '--data-dir', dataDir, '--run', id(3)], { TMPDIR });
      const events = await eventsOf(temp);
      const [first = ''] = events.stdout.split('\n');
      expect([events.code, (JSON.parse(first) as PrintedEvent).run_id]).toEqual([0, id(3)]);
      const nowhere = await eventsOf(dataDir);
      expect([nowhere.code, nowhere.stdout]).toEqual([1, '']);
      expect(nowhere.stderr).toMatch(/TMPDIR: .*EROFS/);
      expect(fs.readdirSync(temp)).toEqual([]);
      expect(fs.existsSync(path.join(dataDir, 'catalogue'))).toBe(false);
    } finally {
      fs.rmSync(temp, { recursive: true });
    }
  });
});

describe('runs and events by their ids', () => {
  const parsed = (text: string) =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as PrintedEvent);

  test('[R-701] events --run and --event print what is in the log, by the catalogue', async () => {
    const all = parsed((await collector('events')).stdout);
    for (const n of [1, 5, 8]) {
      const { stdout } = await collector('events', '--run', id(n).toUpperCase());
      expect(parsed(stdout)).toEqual(all.filter(({ run_id }) => run_id === id(n)));
    }
    const narrowed = await collector('events', '--run', id(1), '--kind', 'outcome,user-feedback');
    expect(parsed(narrowed.stdout)).toEqual(all.slice(1, 3));
    const one = await collector('events', '--event', id(5));
    expect(parsed(one.stdout)).toEqual(all.filter(({ event_id }) => event_id === id(5)));
    const elsewhere = await collector('events', '--event', id(5), '--organisation', 'default');
    expect([elsewhere.code, elsewhere.stdout]).toEqual([6, '']);
  });

  test('[R-1040] [R-701] a short id means the one run that begins with it; several are listed', async () => {
    const twin = `${id(1).slice(0, -1)}f`;
    const whole = '99999999-0000-4000-8000-000000000001';
    await fillDirectory(dataDir, [[candidate({ runId: whole }), candidate({ runId: twin })]]);
    const events = await collector('events', '--run', '99999999');
    expect(
      parsed(events.stdout).map(({ run_id }) => run_id),
      events.stderr,
    ).toEqual([whole]);
    const record = await collector('records', '--run', '99999999', '--format', 'text');
    expect([record.code, record.stdout], record.stderr).toEqual([
      0,
      expect.stringContaining(`Run           ${whole}`),
    ]);
    for (const command of ['events', 'records']) {
      const several = await collector(command, '--run', id(1).slice(0, -1));
      expect([several.code, several.stdout]).toEqual([2, '']);
      expect(several.stderr).toContain(id(1));
      const none = await collector(command, '--run', '77777777');
      expect([none.code, none.stdout]).toEqual([6, '']);
      expect(none.stderr).toContain('77777777');
    }
  });
});
