import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ServiceManager } from '../../src/commands/serve/service-manager.js';
import { serviceManagement } from '../../src/config.js';
import { start, temporaryDirectory } from '../running/collector-process.js';

/** Node has no sockets for datagrams on this host, so a script replaces the program that would write to one. */
function listener(script = 'echo "$*" >> "$0.said"'): { path: string; said: () => string[] } {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const program = path.join(directory, 'systemd-notify');
  fs.writeFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const said = () =>
    fs.existsSync(`${program}.said`)
      ? fs
          .readFileSync(`${program}.said`, 'utf8')
          .trimEnd()
          .split('\n')
          .map((line) => line.replace(/MONOTONIC_USEC=\d+/, 'MONOTONIC_USEC=n'))
      : [];
  return { path: `${directory}:${process.env['PATH'] ?? ''}`, said };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(20);
}

describe('[R-842] a collector that a service manager started', () => {
  test('reports when it is ready, reloads, is alive and stops', async () => {
    const { path: searched, said } = listener();
    const dataDir = temporaryDirectory();
    onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
    const running = await start(dataDir, [], [], {
      ...{ PATH: searched, NOTIFY_SOCKET: '/run/systemd/notify', WATCHDOG_USEC: '400000' },
    });
    await until(() => said().includes('WATCHDOG=1'));
    expect(said()[0]).toBe(`READY=1 STATUS=listening on 127.0.0.1:${running.port}`);
    running.process.kill('SIGHUP');
    await until(() => said().some((line) => line.startsWith('RELOADING')));
    await until(() => said().filter((line) => line.startsWith('READY=1')).length === 2);
    expect(await running.stop()).toBe(0);
    const lines = said().filter((line) => line !== 'WATCHDOG=1');
    expect(lines.map((line) => line.split(' ', 2).join(' '))).toEqual([
      'READY=1 STATUS=listening',
      'RELOADING=1 MONOTONIC_USEC=n',
      'READY=1 STATUS=listening',
      'STOPPING=1 STATUS=finishing',
    ]);
  });

  test('runs no program when no manager listens', async () => {
    const { path: searched, said } = listener();
    const dataDir = temporaryDirectory();
    onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
    const running = await start(dataDir, [], [], { PATH: searched });
    expect(await running.stop()).toBe(0);
    expect(said()).toEqual([]);
  });

  test('continues, and logs it once, when it cannot report to the manager', async () => {
    const { path: searched } = listener('exit 3');
    const dataDir = temporaryDirectory();
    onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
    const running = await start(dataDir, [], [], { PATH: searched, NOTIFY_SOCKET: '/x' });
    await until(() => running.output.stderr.includes('systemd-notify cannot report'));
    expect(await running.stop()).toBe(0);
    expect(running.output.stderr.match(/systemd-notify cannot report/g)).toHaveLength(1);
    expect(running.output.stderr).toContain('exit code 3');
  });
});

test('[R-842] no sign of life is sent while a thread does not respond, and the log says so', async () => {
  const { path: searched, said } = listener();
  vi.stubEnv('PATH', searched);
  onTestFinished(() => {
    vi.unstubAllEnvs();
  });
  const lines: string[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(line) });
  const manager = new ServiceManager({ listens: true, watchdogMs: 80 }, log);
  let lives = true;
  const asked: number[] = [];
  const answers = { true: 0, false: 0 };
  manager.watch((milliseconds) => {
    asked.push(milliseconds);
    answers[`${lives}`]++;
    return lives;
  });
  await until(() => answers.true >= 2);
  lives = false;
  await until(() => answers.false >= 3 && said().length >= answers.true);
  expect(said()).toHaveLength(answers.true);
  expect(lines.filter((line) => line.includes('a thread does not respond'))).toHaveLength(1);
  lives = true;
  const before = answers.true;
  await until(() => answers.true > before);
  lives = false;
  await until(() => said().length >= answers.true);
  await manager.close();
  expect(said()).toHaveLength(answers.true);
  const end = asked.length;
  await sleep(60);
  expect(asked).toHaveLength(end);
  expect(new Set(asked)).toEqual(new Set([40]));
});

test('variables of a service manager are used only when they are meant for this process', () => {
  const NOTIFY_SOCKET = '/run/systemd/notify';
  expect(serviceManagement({}, 7)).toEqual({ listens: false, watchdogMs: undefined });
  expect(serviceManagement({ NOTIFY_SOCKET: '' }, 7).listens).toBe(false);
  const both = { NOTIFY_SOCKET, WATCHDOG_USEC: '60000000' };
  expect(serviceManagement(both, 7)).toEqual({ listens: true, watchdogMs: 60_000 });
  expect(serviceManagement({ ...both, WATCHDOG_PID: '7' }, 7).watchdogMs).toBe(60_000);
  expect(serviceManagement({ ...both, WATCHDOG_PID: '8' }, 7).watchdogMs).toBeUndefined();
  expect(serviceManagement({ WATCHDOG_USEC: '60000000' }, 7).watchdogMs).toBeUndefined();
  for (const WATCHDOG_USEC of ['', '0', '-1', '1e3', 'soon']) {
    expect(serviceManagement({ NOTIFY_SOCKET, WATCHDOG_USEC }, 7).watchdogMs).toBeUndefined();
  }
});
