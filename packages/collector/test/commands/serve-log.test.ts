/** What `collector serve` logs, for which reader, and that it never waits for the reader. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { commit, version } from '../../src/commands/typed.js';
import { get, getJson, managementPort, Scrape } from '../operate/managed.js';
import { launch, outcomeEvent, type Running, start } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { post } from '../running/load.js';
import { hasTerminal, launchOnTerminal } from '../running/restricted-process.js';
import { scratch } from '../running/scratch.js';

/** Sends `count` events over 16 connections. @returns how often each status was answered. */
async function sendMany(port: number, key: string, count: number): Promise<Record<number, number>> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  const body = JSON.stringify(outcomeEvent());
  const statuses: Record<number, number> = {};
  const sender = async () => {
    for (let i = 0; i < count / 16; i++) {
      const { status } = await post(port, key, body, { agent });
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 16 }, sender));
  agent.destroy();
  return statuses;
}

/** A collector whose log has a line for each request. */
async function talkative(): Promise<{ running: Running; key: string }> {
  const dataDir = scratch();
  const { text: key } = await issueKey(dataDir);
  const running = await start(dataDir, ['--log-level', 'debug']);
  onTestFinished(() => running.kill());
  return { running, key };
}

/** What 11,008 requests log is more than a pipe and the memory for waiting lines hold. */
const MANY = 11_008;

test('[R-871] a reader of the log that hangs delays no event and no probe; lost lines are counted and reported', async () => {
  const { running, key } = await talkative();
  running.process.stderr?.pause();
  expect(await sendMany(running.port, key, MANY)).toEqual({ 201: MANY });
  const management = managementPort(running);
  expect((await get(management, '/livez')).status).toBe(200);
  const lost = (await Scrape.of(management)).value('collector_log_lines_dropped_total') ?? 0;
  expect(lost).toBeGreaterThan(0);
  const { warnings } = (await getJson(management, '/console/state.json')) as { warnings: { id: string }[] };
  expect(warnings.map(({ id }) => id)).toContain('log_lines_dropped');
  running.process.stderr?.resume();
  await expect.poll(() => running.output.stderr).toContain('standard error accepted no lines');
  expect(await running.stop()).toBe(0);
  const lines = running.output.stderr.trimEnd().split('\n');
  const parsed = lines.map((line) => JSON.parse(line) as { msg: string; dropped?: number });
  expect(parsed.find(({ dropped }) => dropped !== undefined)?.dropped).toBe(lost);
  expect(parsed.at(-1)?.msg).toBe('stopped');
});

test.each(['on', 'off'])(
  '[R-1430] with the management port %s, a change of the clock is logged once, with its direction and amount',
  async (management) => {
    const directory = scratch();
    const [wrong, preload] = [path.join(directory, 'wrong'), path.join(directory, 'clock.mjs')];
    fs.writeFileSync(
      preload,
      `import fs from 'node:fs'; const now = Date.now;
      Date.now = () => now() - (fs.existsSync(${JSON.stringify(wrong)}) ? 7_200_000 : 0);`,
    );
    const running = await start(scratch(), ['--management', management], ['--import', preload]);
    onTestFinished(() => running.kill());
    const steps = () =>
      running.output.stderr.match(/"reason":"[^"]*","msg":"this host's clock was changed"/g) ?? [];
    fs.writeFileSync(wrong, '');
    await expect.poll(steps).toEqual([expect.stringMatching(/"reason":"back by 720\d s, to 20/)]);
    fs.rmSync(wrong);
    await expect
      .poll(steps)
      .toEqual([
        expect.stringContaining('back'),
        expect.stringMatching(/"reason":"forward by 7\d\d\d s, to 20/),
      ]);
    if (management === 'off') return;
    const port = managementPort(running);
    expect((await Scrape.of(port)).value('collector_clock_steps_total')).toBe(2);
    const { warnings } = (await getJson(port, '/console/state.json')) as { warnings: { title: string }[] };
    expect(warnings.map(({ title }) => title)).toContainEqual(
      expect.stringMatching(/^The clock was set forward by 7\d\d\d s, to 20/),
    );
  },
);

/** A collector whose log goes to this file or device; what it prints on standard output says where it listens. */
async function loggingTo(file: string, env: NodeJS.ProcessEnv = {}) {
  const log = fs.openSync(file, 'w');
  const { dev, ino } = fs.fstatSync(log, { bigint: true });
  const dataDir = scratch();
  const {
    process: child,
    output,
    exited,
  } = launch(['serve', '--port', '0', '--data-dir', dataDir], {
    stderr: log,
    env: { JOURNAL_STREAM: `${dev}:${ino}`, ...env },
  });
  fs.closeSync(log);
  onTestFinished(() => void child.kill('SIGKILL'));
  await expect.poll(() => output.stdout).toMatch(/console/);
  const [, port = ''] = /http:\/\/127\.0\.0\.1:(\d+)\/event/.exec(output.stdout) ?? [];
  const [key = ''] = /cek_\w+/.exec(output.stdout) ?? [];
  const stop = () => {
    child.kill('SIGTERM');
    return exited;
  };
  return { port: Number(port), key, stop };
}

test.skipIf(!fs.existsSync('/dev/full'))(
  '[R-871] a log on a full disk does not end the collector',
  async () => {
    const { port, key, stop } = await loggingTo('/dev/full', { COLLECTOR_LOG_LEVEL: 'debug' });
    expect(await sendMany(port, key, 160)).toEqual({ 201: 160 });
    expect(await stop()).toBe(0);
  },
);

test('[R-871] a start that fails ends also if the reader of its log hangs', async () => {
  const fifo = path.join(scratch(), 'log');
  execFileSync('mkfifo', [fifo]);
  const stuck = fs.openSync(fifo, fs.constants.O_RDWR | fs.constants.O_NONBLOCK);
  onTestFinished(() => fs.closeSync(stuck));
  expect(() => {
    for (;;) fs.writeSync(stuck, 'x'.repeat(1000));
  }).toThrow('EAGAIN');
  const { exited } = launch(['serve', '--host', '192.0.2.1', '--data-dir', scratch()], { stderr: stuck });
  expect(await exited).toBe(1);
});

test('[R-871] only lines that systemd reads begin with their priority', async () => {
  const file = path.join(scratch(), 'log');
  const priorities = async (env: NodeJS.ProcessEnv) => {
    const { port, stop } = await loggingTo(file, env);
    await fetch(`http://127.0.0.1:${port}/`);
    expect(await stop()).toBe(0);
    const lines = fs.readFileSync(file, 'utf8').trimEnd().split('\n');
    return new Set(lines.map((line) => /^(<\d>)?\{"level":"(\w+)"/.exec(line)?.slice(1).join(' ')));
  };
  expect(await priorities({ COLLECTOR_LOG_LEVEL: 'debug' })).toEqual(new Set(['<6> info', '<7> debug']));
  expect(await priorities({ JOURNAL_STREAM: '8:12345' })).toEqual(new Set([' info']));
});

test('[R-871] in a pipe each line is JSON with the name of its level and the time by ISO 8601', async () => {
  const running = await start(scratch());
  expect(await running.stop()).toBe(0);
  for (const line of running.output.stderr.trimEnd().split('\n')) {
    const { level, time } = JSON.parse(line) as { level: string; time: string };
    expect(level).toBe('info');
    expect(new Date(time).toISOString()).toBe(time);
  }
});

/** Starts a collector on a terminal, and resolves when it listens. */
async function onTerminal(args: readonly string[], colours = false) {
  const terminal = launchOnTerminal(['serve', '--port', '0', ...args], colours);
  const shown = (text: string | RegExp) => expect.poll(terminal.output).toMatch(text);
  await shown(/ dataDir=/);
  const [, port = ''] = /Listening on: http:\/\/127\.0\.0\.1:(\d+)/.exec(terminal.output()) ?? [];
  return { ...terminal, shown, port: Number(port) };
}

const ESCAPE = '\u001b';

test.skipIf(!hasTerminal)(
  '[R-871] a terminal shows lines for people, and the addresses at every start',
  async () => {
    const dataDir = scratch();
    for (const keys of [1, 0]) {
      const { output, type, exited } = await onTerminal(['--data-dir', dataDir]);
      type('\u0003');
      expect(await exited).toBe(0);
      expect(output()).toMatch(
        /Listening on: http:\/\/127\.0\.0\.1:\d+\r\nConsole: +http:\/\/127\.0\.0\.1:\d+\/\r\n/,
      );
      expect(output().match(/^ {2}cek_/gm) ?? []).toHaveLength(keys);
      expect(output()).toMatch(/\d\d:\d\d:\d\d INFO {2}stopping reason=SIGINT pending=0 version=\S+\r\n/);
      expect(output()).not.toContain(ESCAPE);
    }
  },
);

test.skipIf(!hasTerminal)('[R-871] a terminal that is stopped by Ctrl-S delays no event', async () => {
  const dataDir = scratch();
  const { text: key } = await issueKey(dataDir);
  const { port, type, exited, shown } = await onTerminal(['--data-dir', dataDir, '--log-level', 'debug']);
  type('\u0013');
  expect(await sendMany(port, key, 2000)).toEqual({ 201: 2000 });
  type('\u0011');
  await shown(/DEBUG request/);
  type('\u0003');
  expect(await exited).toBe(0);
});

test('[R-871] the lines of a start and of a stop name the version of the collector', async () => {
  const running = await start(scratch());
  expect(await running.stop()).toBe(0);
  const lines = running.output.stderr.trimEnd().split('\n');
  const of = (msg: string) =>
    lines
      .map((line) => JSON.parse(line) as { msg: string; version?: string })
      .find((line) => line.msg === msg);
  expect(version()).toMatch(/^\d+\.\d+\.\d+/);
  for (const msg of ['listening', 'stopping']) expect(of(msg)?.version, msg).toBe(version());
});

test('[R-2058] the first line of a start names the version and the commit', async () => {
  const running = await start(scratch());
  expect(await running.stop()).toBe(0);
  const [first = ''] = running.output.stderr.split('\n');
  expect(JSON.parse(first)).toMatchObject({ msg: 'starting', version: version(), commit: commit() });
});
