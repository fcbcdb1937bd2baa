import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Reload, type Settings } from '../../src/commands/serve/reload.js';
import { type Config, loadConfig, reloaded } from '../../src/config.js';
import { Authority, writePair } from '../running/certificates.js';
import { keyFrom, limits, run, start, type Running } from '../running/collector-process.js';
import { hasTerminal } from '../running/restricted-process.js';
import { scratch } from '../running/scratch.js';

/** Resolves once the collector has logged a line with the text after what it had logged before. */
async function logged(running: Running, text: string, from = 0): Promise<string> {
  for (;;) {
    const line = running.output.stderr
      .slice(from)
      .split('\n')
      .find((each) => each.includes(text));
    if (line !== undefined) return line;
    await sleep(20);
  }
}

async function hangUp(running: Running, until: string): Promise<string> {
  const from = running.output.stderr.length;
  running.process.kill('SIGHUP');
  return logged(running, until, from);
}

/** An outcome that is valid in the profile `minimum` and not in `full`. */
function openOutcome(): string {
  return JSON.stringify({
    ...{ event_id: crypto.randomUUID(), timestamp: new Date().toISOString(), protocol_version: '0.0.1' },
    ...{ system_metadata: {}, outcome: { said: 'fine' } },
  });
}

describe('[R-842] SIGHUP', () => {
  test('applies settings while events are accepted, and names those that need a restart', async () => {
    const directory = scratch();
    const config = path.join(directory, 'collector.json');
    const write = (content: unknown) => fs.writeFileSync(config, JSON.stringify(content));
    write({ profile: 'minimum', limits: { 'queue-events': 100 } });
    const running = await start(path.join(directory, 'data'), ['--config', config]);
    onTestFinished(async () => expect(await running.stop()).toBe(0));
    const key = await keyFrom(running);
    const send = async () => {
      const headers = { 'X-API-Key': key, 'Content-Type': 'application/json' };
      const answer = await fetch(`${running.url}/event/outcome`, {
        ...{ method: 'POST', headers, body: openOutcome() },
      });
      return { status: answer.status, keepAlive: answer.headers.get('keep-alive') };
    };
    expect(await send()).toEqual({ status: 201, keepAlive: 'timeout=65' });
    expect(running.output.stderr).not.toContain('"status":201');

    write({
      ...{ profile: 'full', 'log-level': 'debug' },
      limits: { 'queue-events': 200, 'segment-bytes': '4MiB', 'keep-alive-timeout-ms': '5s' },
    });
    const done = await hangUp(running, 'configuration reloaded');
    expect(JSON.parse(done)).toMatchObject({
      options: ['profile', 'log-level', 'limits.keep-alive-timeout-ms'],
    });
    const waiting = await logged(running, 'a restart is needed');
    expect(JSON.parse(waiting)).toMatchObject({ options: ['limits.queue-events', 'limits.segment-bytes'] });
    expect(await send()).toEqual({ status: 400, keepAlive: 'timeout=5' });
    await logged(running, '"status":400');

    write({ profile: 'minimum' });
    await hangUp(running, 'configuration reloaded');
    expect(await send()).toEqual({ status: 201, keepAlive: 'timeout=65' });
  });

  test('keeps the earlier values when the file has faults, and logs each fault', async () => {
    const directory = scratch();
    const config = path.join(directory, 'collector.json');
    fs.writeFileSync(config, '{}');
    const running = await start(path.join(directory, 'data'), ['--config', config]);
    onTestFinished(async () => expect(await running.stop()).toBe(0));
    fs.writeFileSync(config, '{"profile": "full", "limits": {"max-connections": 0}, "prot": 1}');
    const line = await hangUp(running, 'the configuration is invalid');
    expect(JSON.parse(line)).toMatchObject({
      level: 'error',
      faults: [
        { source: `${config}, "prot"`, message: 'no such setting; did you mean "port"?' },
        { source: `${config}, "limits.max-connections"`, message: '0 is out of range: 1 to 1000000' },
      ],
    });
    fs.writeFileSync(config, '{"profile": "full"}');
    expect(JSON.parse(await hangUp(running, 'configuration reloaded'))).toMatchObject({
      options: ['profile'],
    });
  });

  test('with a pipe in place of the file neither reads nor waits', async () => {
    const directory = scratch();
    const config = path.join(directory, 'collector.json');
    fs.writeFileSync(config, '{}');
    const running = await start(path.join(directory, 'data'), ['--config', config]);
    onTestFinished(async () => expect(await running.stop()).toBe(0));
    fs.rmSync(config);
    execFileSync('mkfifo', [config]);
    const message = `${config} is not a regular file`;
    expect(JSON.parse(await hangUp(running, 'the configuration is invalid'))).toMatchObject({
      faults: [{ message }],
    });
    const refused = await run(['serve', '--config', config, '--data-dir', path.join(directory, 'other')]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test('whose file cannot be read to its end does not prevent an orderly end by SIGTERM [R-609]', async () => {
    const directory = scratch();
    const [pipe, hangs, preload] = ['pipe', 'hangs', 'preload.mjs'].map((name) => path.join(directory, name));
    execFileSync('mkfifo', [pipe ?? '']);
    // As on a mount that is gone: the system does not answer the read.
    fs.writeFileSync(
      preload ?? '',
      `import fs from 'node:fs';
       import { syncBuiltinESMExports } from 'node:module';
       const { readFile } = fs.promises;
       fs.promises.readFile = (file, ...more) =>
         readFile(fs.existsSync('${hangs}') && file.endsWith?.('tls.key') ? '${pipe}' : file, ...more);
       syncBuiltinESMExports();`,
    );
    const pair = writePair(directory, new Authority().issue());
    const running = await start(
      path.join(directory, 'data'),
      [...pair, ...limits({ 'shutdown-timeout-ms': '500ms' })],
      ['--import', preload ?? ''],
    );
    fs.writeFileSync(hangs ?? '', '');
    running.process.kill('SIGHUP');
    await sleep(200);
    // Nothing but SIGKILL ends a process whose file system does not answer.
    expect(await running.stop()).toBe(null);
    expect(running.output.stderr).toMatch(/a reload is stuck[^]*"exitCode":0,"msg":"stopped"/);
    expect((await run(['doctor', '--data-dir', path.join(directory, 'data')])).code).toBe(0);
  });

  test('that comes before the collector listens is not lost, and does not end it', async () => {
    const directory = scratch();
    const marker = path.join(directory, 'early.mjs');
    // As early as a collector can handle the signal: when it adds the handler.
    fs.writeFileSync(
      marker,
      `process.on('newListener', (name) => name === 'SIGHUP' && setImmediate(() => process.kill(process.pid, 'SIGHUP')));`,
    );
    const running = await start(path.join(directory, 'data'), [], ['--import', marker]);
    await logged(running, 'configuration reloaded');
    expect(running.output.stderr.indexOf('"listening"')).toBeLessThan(
      running.output.stderr.indexOf('configuration reloaded'),
    );
    expect(await running.stop()).toBe(0);
  });

  test.skipIf(!hasTerminal)('from a closed terminal ends a collector in order [R-609]', async () => {
    const directory = scratch();
    const main = path.resolve(import.meta.dirname, '../../dist/main.js');
    const log = path.join(directory, 'log');
    const data = path.join(directory, 'data');
    const command = `${process.execPath} ${main} serve --port 0 --management off --data-dir ${data} 2>${log}`;
    const terminal = spawn('script', ['-qec', command, '/dev/null'], {
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    const read = () => (fs.existsSync(log) ? fs.readFileSync(log, 'utf8') : '');
    const closed = new Promise((resolve) => terminal.on('close', resolve));
    while (!read().includes('"listening"')) await sleep(50);
    terminal.kill('SIGKILL');
    await closed;
    while (!read().includes('"stopped"')) await sleep(50);
    expect(read()).toContain('"reason":"SIGHUP"');
    expect(read()).toContain('"exitCode":0');
    expect((await run(['doctor', '--data-dir', data])).code).toBe(0);
  });
});

describe('a reload', () => {
  const quiet = pino({ level: 'silent' });
  const running = loadConfig({}, {});

  function reloadOf(read: () => Config, sources: Record<string, () => Promise<boolean>> = {}, log = quiet) {
    const steps: string[] = [];
    const settings: Settings = { current: running };
    const reload = new Reload(settings, {
      read,
      sources,
      apply: ({ profile }) => steps.push(`apply ${profile}`),
      onBegin: () => steps.push('begin'),
      onEnd: () => steps.push('end'),
      log,
    });
    return { reload, settings, steps };
  }

  test('reads the other sources again also when the configuration is faulty or another source fails', async () => {
    const again: string[] = [];
    const lines: string[] = [];
    const log = pino({ base: null }, { write: (line: string) => lines.push(line) });
    const first = () => Promise.reject(new Error('no such file'));
    const second = () => Promise.resolve(again.push('second') > 0);
    const { reload, settings, steps } = reloadOf(() => loadConfig({ port: 'x' }, {}), { first, second }, log);
    reload.ask();
    await reload.done;
    expect(again).toEqual(['second']);
    // The result is logged last.
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ level: 50, faults: [{ source: '--port' }] });
    expect(steps).toEqual(['begin', 'end']);
    expect(settings.current).toBe(running);
  });

  test('waits for the one before it, and does not begin after the end', async () => {
    const profiles = ['full', 'minimum'];
    const { reload, steps } = reloadOf(() => loadConfig({ profile: profiles.shift() ?? '' }, {}));
    reload.ask();
    reload.ask();
    await reload.done;
    expect(steps).toEqual(['begin', 'apply full', 'end', 'begin', 'apply minimum', 'end']);
    await reload.end(10_000);
    reload.ask();
    await reload.done;
    expect(steps).toHaveLength(6);
  });

  test('that hangs does not delay the end, and reports nothing afterwards', async () => {
    const hanging = Promise.withResolvers<boolean>();
    const { reload, steps } = reloadOf(() => running, { certificate: () => hanging.promise });
    reload.ask();
    await expect.poll(() => steps).toEqual(['begin']);
    await reload.end(50);
    hanging.resolve(true);
    await reload.done;
    expect(steps).toEqual(['begin']);
  });

  test('applies no value that needs a restart, and reports it each time until the restart', () => {
    const read = loadConfig({ port: '9', profile: 'full', 'max-body-bytes': '2MiB' }, {});
    const first = reloaded(running, read);
    expect(first.taken).toEqual(['profile']);
    expect(first.waiting).toEqual(['port', 'max-body-bytes']);
    expect(first.config).toEqual({ ...running, profile: 'full' });
    expect(reloaded(first.config, read)).toMatchObject({ taken: [], waiting: ['port', 'max-body-bytes'] });
  });
});
