import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_KINDS } from '@clinical-events/protocol';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  createKey,
  launch,
  limits,
  outcomeEvent,
  run,
  start,
  storedEvents,
  temporaryDirectory,
  type PrintedEvent,
} from '../running/collector-process.js';
import { expectNoGap, post } from '../running/load.js';
import { sampleEvent } from '../running/sample-events.js';
import { canMount, runReadOnly } from '../running/restricted-process.js';
import { candidate, idOf } from '../store/candidate.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned, firstKey, signAccesses } from './signed-directory.js';

let dataDir: string;

beforeEach(() => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

const RUN = '0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10';
const NARROWED = ' that matches the other options';
const DAY = Date.parse('2026-01-10');
const HOUR = 3_600_000;

/** Two events of each kind, an hour apart, those of one run in another organisation. */
const EVENTS = Array.from({ length: 10 }, (_, i) =>
  candidate({
    kind: EVENT_KINDS[i % 5] ?? 'outcome',
    organisation: i % 3 === 0 ? 'ward' : 'default',
    ...(i % 3 === 0 && { runId: RUN }),
    receivedAt: DAY + i * HOUR,
    body: ` {"i" : ${i},\n "timestamp":"2026-01-10T00:00:00Z", "text":"Gr\u00fc\u00dfe \\u00e9 \u{1f469}"}`,
  }),
);

function readings(): Record<string, unknown>[] {
  const text = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8');
  expect(text.endsWith('\n')).toBe(true);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

function parsed(text: string): PrintedEvent[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as PrintedEvent);
}

async function until(what: () => boolean): Promise<void> {
  while (!what()) await sleep(25);
}

describe('collector events', () => {
  test('[R-701] prints every event with its fields and the exact body, one JSON object a line', async () => {
    await fillDirectory(dataDir, [EVENTS]);
    const printed = await storedEvents(dataDir);
    expect(printed).toEqual(
      EVENTS.map((event, i) => ({
        sequence: i + 1,
        received_at: new Date(event.receivedAt).toISOString(),
        ...{ kind: event.kind, profile: 'minimum', door: 'endpoint' },
        ...{ organisation: event.organisation, key_id: event.keyId },
        ...{
          event_id: idOf(event),
          run_id: i % 3 === 0 ? RUN : null,
          sha256: hash('sha256', event.body, 'hex'),
        },
        body: Buffer.from(event.body).toString(),
      })),
    );
  });

  test.each<[string[], (i: number) => boolean]>([
    [['--kind', 'outcome'], (i) => i % 5 === 3],
    [['--kind', 'outcome, user-feedback'], (i) => i % 5 >= 3],
    [['--run', RUN.toUpperCase()], (i) => i % 3 === 0],
    [['--event', idOf(EVENTS[4] as (typeof EVENTS)[number]).toUpperCase()], (i) => i === 4],
    [['--organisation', 'ward'], (i) => i % 3 === 0],
    [['--organisation', 'nobody'], () => false],
    [['--since', '2026-01-10T03:00:00Z'], (i) => i >= 3],
    [['--until', '2026-01-10T03:00:00Z'], (i) => i < 3],
    [['--since', '2026-01-10T03:00+01:00', '--until', '2026-01-10T05:00:00.001Z'], (i) => i >= 2 && i <= 5],
    [['--since', '2026-01-11'], () => false],
    [
      ['--until', '2026-01-11', '--kind', 'outcome', '--organisation', 'ward'],
      (i) => i % 5 === 3 && i % 3 === 0,
    ],
  ])('with %j prints only the matching events', async (args, wanted) => {
    await fillDirectory(dataDir, [EVENTS]);
    const printed = await storedEvents(dataDir, ...args);
    expect(printed.map(({ sequence }) => sequence - 1)).toEqual(EVENTS.map((_, i) => i).filter(wanted));
  });

  test.each([
    ['--kind', 'result'],
    ['--kind', ''],
    ['--event', 'abc'],
    ['--organisation', ''],
    ['--since', '2026-02-02', '--until', '2026-02-01'],
    ['--run', 'abc'],
    ['--since', 'yesterday'],
    ['--since', '2026-02-30'],
    ['--until', '2026-02-31T10:00:00Z'],
    ['--until', '2026-01-01T10:00:00'],
    ['--since', '2026-13-01'],
    ['--organization', 'x'],
    ['extra'],
  ])('with %s %s is refused in one line with exit code 2, and nothing is read', async (...args) => {
    await fillDirectory(dataDir, [EVENTS.slice(0, 1)]);
    const { code, stdout, stderr } = await run(['events', '--data-dir', dataDir, ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^collector: [^\n]*\n$/);
    if (args.length > 1) expect(stderr).toContain(args[0]);
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
  });

  test.each(['', 'nowhere'])('[R-701] without a ledger ends with 6 and says so (in %j)', async (inside) => {
    const directory = path.join(dataDir, inside);
    expect(await run(['events', '--data-dir', directory])).toEqual({
      ...{ code: 6, stdout: '', stderr: expect.stringContaining(`${directory} holds no ledger`) as string },
    });
  });

  test('[R-1262] with --event prints once an event that arrives after the catalogue was opened', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir);
    const headers = { 'X-API-Key': key, 'Content-Type': 'application/json' };
    const begun = await fetch(`${collector.url}/event/inference-start`, {
      ...{ method: 'POST', headers, body: JSON.stringify(sampleEvent('inference-start')) },
    });
    expect(begun.status).toBe(201);
    const event = outcomeEvent();
    const request = JSON.stringify({ method: 'POST', headers, body: JSON.stringify(event) });
    const sender = `fetch('${collector.url}/event/outcome', ${request})`;
    // The organisations are queried when the catalogue is open.
    const preload = `import { spawnSync } from 'node:child_process'; import { DatabaseSync } from 'node:sqlite';
      const { prepare } = DatabaseSync.prototype; delete process.env.NODE_OPTIONS;
      DatabaseSync.prototype.prepare = function (sql) {
        if (sql.includes('min(organisation)')) spawnSync(process.execPath, ['-e', ${JSON.stringify(sender)}]);
        return prepare.call(this, sql);
      };`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` };
    const { stdout } = await run(['events', '--data-dir', dataDir, '--event', event.event_id], { env });
    expect(parsed(stdout).map(({ event_id }) => event_id)).toEqual([event.event_id]);
    await collector.stop();
  });

  test('with --event finds the event of each organisation that has this id, or ends with exit code 6', async () => {
    const id = '6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10';
    const twins = ['ward', 'default'].map((organisation) => candidate({ organisation, eventId: id }));
    await fillDirectory(dataDir, [[...EVENTS, ...twins]]);
    const printed = await storedEvents(dataDir, '--event', id);
    expect(printed.map(({ event_id, organisation }) => [event_id, organisation])).toEqual([
      [id, 'ward'],
      [id, 'default'],
    ]);
    expect(await storedEvents(dataDir, '--event', id, '--organisation', 'ward')).toHaveLength(1);
    expect(readings()[0]).toMatchObject({ filter: { event: id } });
    expect(await run(['events', '--data-dir', dataDir, '--event', RUN])).toEqual({
      ...{ code: 6, stdout: '' },
      stderr: `collector: there is no event ${RUN} in ${dataDir}\n`,
    });
  });

  test.each([
    [['events', '--run', RUN], `run ${RUN}`, ''],
    [['events', '--run', RUN, '--kind', 'outcome'], `run ${RUN}`, NARROWED],
    [['events', '--event', RUN.toUpperCase()], `event ${RUN}`, ''],
    [['records', '--run', RUN], `run ${RUN}`, ''],
    [['records', '--run', RUN, '--format', 'csv', '--since', '2026-01-01'], `run ${RUN}`, NARROWED],
    [['proof', RUN], `event ${RUN}`, ''],
  ])('[R-701] %j reports a missing id with exit code 6', async (args, what, narrowed) => {
    await fillSigned(dataDir, [[candidate({ kind: 'outcome' })]]);
    expect(await run([...args, '--data-dir', dataDir])).toEqual({
      ...{ code: 6, stdout: '' },
      stderr: expect.stringContaining(`there is no ${what} in ${dataDir}${narrowed}`) as string,
    });
  });

  test('[R-701] --event with a number prints an entry of the log itself as it is stored, logs the reading, and refuses events', async () => {
    const first = EVENTS[0] as (typeof EVENTS)[number];
    await fillSigned(dataDir, [[first]]);
    await storedEvents(dataDir);
    await signAccesses(dataDir);
    const entry = (...args: readonly string[]) => run(['events', '--data-dir', dataDir, '--event', ...args]);
    const { code, stdout } = await entry('2');
    const [head] = parsed(stdout);
    expect([code, head]).toMatchObject([0, { sequence: 2, kind: 129, organisation: '', run_id: null }]);
    expect(Date.parse(head?.received_at ?? '')).toBeGreaterThan(DAY);
    const body = String(head?.body);
    expect(JSON.parse(body)).toMatchObject({ event_id: head?.event_id, lines: 2 });
    const begun = readings().findLast(({ state }) => state === 'begun');
    expect(begun).toMatchObject({ command: 'events', filter: { entry: 2 } });
    expect(readings().at(-1)).toMatchObject({ reading: begun?.['reading'], events: 1, complete: true });
    // What is printed is what the log has committed to.
    const [proof, content] = ['proof', 'body'].map((name) => path.join(temporaryDirectory(), name));
    fs.writeFileSync(content ?? '', body);
    await run(['proof', head?.event_id ?? '', '--out', proof ?? '', '--data-dir', dataDir]);
    const checked = ['check-proof', proof ?? '', '--event', content ?? '', '--key', firstKey(dataDir)];
    expect((await run(checked)).stdout).toMatch(/^VALID/);

    for (const [args, exit, part] of [
      [['1'], 6, `--event ${idOf(first)}`],
      [['3'], 6, 'entry 3'],
      [['0'], 2, '--event'],
      [['2', '--kind', 'outcome'], 2, '--kind'],
    ] as const)
      expect(await entry(...args)).toEqual({
        ...{ code: exit, stdout: '', stderr: expect.stringContaining(part) as string },
      });
  });

  test.skipIf(!canMount)(
    'reads a read-only snapshot with a warning, but not a directory that is in use',
    async () => {
      await createKey(dataDir);
      await fillSigned(dataDir, [EVENTS]);
      const read = () => runReadOnly(dataDir, ['events', '--data-dir', dataDir]);
      const { code, stdout, stderr } = await read();
      expect([code, parsed(stdout).length]).toEqual([0, EVENTS.length]);
      const log = path.join(dataDir, 'access.log');
      expect(stderr).toMatch(/^collector: warning: [^\n]*access\.log [^\n]*\n$/);
      const collector = await start(dataDir);
      onTestFinished(() => collector.kill());
      expect(await read()).toEqual({
        ...{ code: 1, stdout: '' },
        stderr: expect.stringContaining(`${log} cannot be written (EROFS)`) as string,
      });
    },
  );

  test('is logged as not complete if its output is not read to the end', async () => {
    const many = Array.from({ length: 3000 }, () => candidate({ body: { filler: 'x'.repeat(1000) } }));
    await fillDirectory(dataDir, [many.slice(0, 1000), many.slice(1000, 2000), many.slice(2000)], 4 << 20);
    const reader = launch(['events', '--data-dir', dataDir]);
    await until(() => reader.output.stdout.length > 0);
    reader.process.stdout?.destroy();
    expect(await reader.exited).toBe(0);
    const [, ended] = readings();
    expect(ended).toMatchObject({ state: 'ended', complete: false });
    expect(ended?.['events']).toBeLessThan(3000);
    // A killed command has at least logged its beginning.
    const killed = launch(['events', '--data-dir', dataDir]);
    await until(() => killed.output.stdout.length > 0);
    killed.process.kill('SIGKILL');
    await killed.exited;
    expect(readings().map(({ state }) => state)).toEqual(expect.arrayContaining(['begun', 'ended', 'begun']));
  });

  test('prints the events before damage in an old segment, then names the place and ends with 3', async () => {
    const events = Array.from({ length: 300 }, (_, i) => candidate({ body: { i, filler: 'x'.repeat(600) } }));
    await fillDirectory(
      dataDir,
      Array.from({ length: 30 }, (_, i) => events.slice(i * 10, i * 10 + 10)),
    );
    const segments = segmentPaths(dataDir);
    expect(segments.length).toBeGreaterThan(3);
    for (const segment of segments) {
      const sequence = Number.parseInt(path.basename(segment), 10) + 4;
      const offset = frameOffset(segment, events, sequence);
      flipBit(segment, offset + 150);
      const { code, stdout, stderr } = await run(['events', '--data-dir', dataDir]);
      expect(code).toBe(3);
      expect(parsed(stdout).map((event) => event.sequence)).toEqual(
        Array.from({ length: sequence - 1 }, (_, i) => i + 1),
      );
      expect(stderr).toBe(
        `collector: ${path.basename(segment)}, byte ${offset}, event ${sequence}: the frame is damaged\n`,
      );
      flipBit(segment, offset + 150);
    }
    expect((await storedEvents(dataDir)).length).toBe(300);
  });

  test.each([[], ['--follow']])('warns once that no event is of an organisation (%s)', async (...more) => {
    await fillDirectory(dataDir, [EVENTS]);
    const command = launch(['events', '--data-dir', dataDir, '--organisation', 'warp', ...more]);
    onTestFinished(() => void command.process.kill('SIGKILL'));
    await until(() => command.output.stderr.endsWith('\n'));
    await sleep(more.length === 0 ? 0 : 500);
    command.process.kill('SIGINT');
    await command.exited;
    expect(command.output).toEqual({
      stdout: '',
      stderr: 'collector: warning: no event has the organisation "warp"; the nearest is "ward"\n',
    });
    const known = await run([
      ...['events', '--data-dir', dataDir, '--organisation', 'ward', '--until', '2020-01-01'],
    ]);
    expect(known).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  test('with --follow prints new events as they come, also from new segments, until it is interrupted', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, [
      '--max-body-bytes',
      '64KiB',
      ...limits({ 'segment-bytes': '128KiB' }),
    ]);
    onTestFinished(() => collector.kill());
    const send = async (count: number, filler: number): Promise<string[]> => {
      const ids: string[] = [];
      for (let i = 0; i < count; i++) {
        const event = outcomeEvent({ filler: 'x'.repeat(filler) });
        expect((await post(collector.port, key, JSON.stringify(event))).status).toBe(201);
        ids.push(event.event_id);
      }
      return ids;
    };
    const ids = await send(3, 10);
    const follower = launch(['events', '--follow', '--data-dir', dataDir]);
    onTestFinished(() => void follower.process.kill('SIGKILL'));
    const seen = () => {
      const { stdout } = follower.output;
      return parsed(stdout.slice(0, stdout.lastIndexOf('\n') + 1)).map((event) => event.event_id);
    };
    await until(() => seen().length === 3);
    ids.push(...(await send(2, 10)));
    await until(() => seen().length === 5);
    ids.push(...(await send(12, 40_000)));
    await until(() => seen().length === 17);
    expect(segmentPaths(dataDir).length).toBeGreaterThan(2);
    expect(seen()).toEqual(ids);
    follower.process.kill('SIGINT');
    expect(await follower.exited).toBe(0);
    expect(follower.output.stderr).toBe('');
    expect(readings().at(-1)).toMatchObject({ state: 'ended', events: 17, complete: true });
  });

  test('beside a collector under load never reports a batch that is being written as damage', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir);
    onTestFinished(() => collector.kill());
    let stopped = false;
    const senders = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (!stopped) {
          await post(collector.port, key, JSON.stringify(outcomeEvent()));
          // Without a pause the log grows faster than it is read.
          await sleep(5);
        }
      }),
    );
    for (let i = 0; i < 4; i++) {
      const printed = await storedEvents(dataDir);
      expectNoGap(dataDir, printed);
      const doctor = await run(['doctor', '--data-dir', dataDir]);
      expect([doctor.code, doctor.stdout]).toEqual([0, expect.not.stringContaining('DAMAGED')]);
    }
    stopped = true;
    await senders;
    expect(await collector.stop()).toBe(0);
  });
});

test('control and direction characters in an event do not reach the terminal', async () => {
  const body = '{"text":"\u009b31m \u007f \u202e \u2066 \u00e9"}';
  await fillDirectory(dataDir, [[candidate({ body })]]);
  const { stdout } = await run(['events', '--data-dir', dataDir]);
  expect(stdout).not.toMatch(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
  expect(stdout).toContain('\u00e9');
  expect(parsed(stdout)[0]?.body).toBe(body);
});
