import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  keyFrom,
  outcomeEvent,
  postEvent,
  type Running,
  start,
  temporaryDirectory,
} from '../running/collector-process.js';
import { STRAY } from '../../src/stray-signals.js';

const ROOT = path.resolve(import.meta.dirname, '../../../..');

function scratch(): string {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function started(args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Promise<Running> {
  const running = await start(path.join(scratch(), 'data'), args, [], env);
  onTestFinished(() => running.kill());
  return running;
}

/** Ports on which the process listens: by its own sockets, so that no other process counts. */
function listening(pid: number | undefined): number[] {
  const own = fs.readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
    try {
      const target = fs.readlinkSync(`/proc/${pid}/fd/${descriptor}`, 'utf8');
      return /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? [];
    } catch {
      // It was closed in the meantime.
      return [];
    }
  });
  const ports = ['tcp', 'tcp6'].flatMap((table) =>
    fs
      .readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === '0A' && own.includes(inode ?? ''))
      .map(([, address = '']) => Number.parseInt(address.split(':')[1] ?? '', 16)),
  );
  return ports.sort((a, b) => a - b);
}

/** Processes that it started, for example that of the checkpoint sinks. */
function childrenOf(pid: number | undefined): number[] {
  return fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
}

test('[R-609] no stray signal ends a collector, and SIGUSR1 opens no debugger in it or its children', async () => {
  const sink = scratch();
  const running = await started(['--checkpoint-sink', `dir:${sink}`]);
  const key = await keyFrom(running);
  const { pid } = running.process;
  // Then the child of the sinks has begun.
  await expect.poll(() => fs.readdirSync(sink)).not.toEqual([]);
  const children = childrenOf(pid);
  expect(children).toHaveLength(1);
  const before = listening(pid);
  for (const signal of STRAY) {
    running.process.kill(signal);
    await expect.poll(() => running.output.stderr).toContain(`"signal":"${signal}"`);
    for (const child of children) process.kill(child, signal);
  }
  expect((await postEvent(running, key, outcomeEvent())).status).toBe(201);
  expect(listening(pid)).toEqual(before);
  expect(childrenOf(pid)).toEqual(children);
  expect(children.flatMap(listening)).toEqual([]);
  expect(await running.stop()).toBe(0);
  expect(running.output.stderr).not.toContain('Debugger');
});

test('[R-609] SIGQUIT stops a collector in order', async () => {
  const running = await started();
  running.process.kill('SIGQUIT');
  expect(await running.exited).toBe(0);
  expect(running.output.stderr).toContain('"msg":"stopped"');
});

// A preloaded module runs before our first line, as a signal during the start of Node itself comes.
test('[R-609] a SIGUSR1 before the first line of the program leaves no debugger either', async () => {
  const early = path.join(scratch(), 'early.mjs');
  fs.writeFileSync(
    early,
    `import inspector from 'node:inspector';
    import { isMainThread } from 'node:worker_threads';
    if (isMainThread) process.kill(process.pid, 'SIGUSR1');
    while (isMainThread && inspector.url() === undefined) await new Promise((resolve) => setTimeout(resolve, 1));`,
  );
  const running = await started([], { NODE_OPTIONS: `--import=${early}` });
  expect(running.output.stderr).toContain('Debugger listening');
  const management = /"port":(\d+),.*"msg":"management listening"/.exec(running.output.stderr)?.[1];
  expect(listening(running.process.pid)).toEqual([running.port, Number(management)].sort((a, b) => a - b));
  expect(await running.stop()).toBe(0);
});

test('[R-609] a debugger that was requested stays', async () => {
  const running = await started([], { NODE_OPTIONS: '--inspect=127.0.0.1:0' });
  expect(listening(running.process.pid)).toHaveLength(3);
});

test('[R-609] ./collector, the npm scripts and the deployment files start Node without SIGUSR1', () => {
  const starts = {
    collector: /^exec .*$/gm,
    'package.json': /node .*dist\/main\.js/g,
    'deploy/docker/Dockerfile': /^ENTRYPOINT .*$/gm,
    'deploy/systemd/collector.service': /\/usr\/bin\/node .*$/gm,
    'deploy/compose.postgres.yaml': /node .*\$\$main .*$/gm,
  };
  for (const [file, pattern] of Object.entries(starts)) {
    const found = fs.readFileSync(path.join(ROOT, file), 'utf8').match(pattern) ?? [];
    expect(found, file).not.toEqual([]);
    for (const line of found) expect(line, file).toContain('--disable-sigusr1');
  }
});
