import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { LogView } from '../../src/tree/sink-queue.js';
import { nodeSinkFiles } from '../../src/tree/sink-files.js';
import { SinkWorker } from '../../src/tree/sink-worker.js';
import { type Attempt, type DiskSinkSpec, SinkForked, SinkTrouble } from '../../src/tree/sink.js';
import { attemptFor, newKey, rejection, SampleLog, scratchDirectory, SINK_PROCESS } from './sample-log.js';

const log = new SampleLog();

function startWorker(): SinkWorker {
  const worker = new SinkWorker(SINK_PROCESS);
  onTestFinished(() => worker.kill());
  return worker;
}

function scratchSink(kind: DiskSinkSpec['kind'], directory = scratchDirectory()): DiskSinkSpec {
  const place = kind === 'directory' ? directory : path.join(directory, 'checkpoints');
  return { kind, path: place, shown: `${kind}:${place}` };
}

interface Giving {
  readonly of?: SampleLog;
  readonly view?: LogView;
  readonly attempt?: Partial<Attempt>;
}

/** Gives the checkpoint of this size to the sink, in the worker's process. */
function give(
  worker: SinkWorker,
  sink: DiskSinkSpec,
  size: number,
  { of = log, view = of, attempt = {} }: Giving = {},
) {
  const notes = [of.published(size)];
  return worker.sinkOf(sink, view).deliver(notes, { ...attemptFor(notes), ...attempt });
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A process that ended stays in the table until its parent has taken note.
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function ended(pid: number): Promise<boolean> {
  while (isRunning(pid)) await sleep(10);
  return true;
}

function pidOf(worker: SinkWorker): number {
  if (worker.pid === undefined) throw new Error('no process was started');
  return worker.pid;
}

test('the calls on a disk make, append and read, and reject with a code', async () => {
  const directory = scratchDirectory();
  const file = path.join(directory, 'a');
  const bytes = Buffer.from([0, 255, 10, 128]);
  const files = nodeSinkFiles;
  expect(await files.create(file, bytes)).toBeUndefined();
  expect(Buffer.from((await files.create(file, Buffer.of(1))) ?? [])).toEqual(bytes);
  await files.append(file, Buffer.of(7));
  const size = bytes.length + 1;
  expect(await files.tail(file, 2)).toEqual({ bytes: Buffer.of(128, 7), size });
  expect(await files.tail(file, 9)).toEqual({ bytes: Buffer.from([...bytes, 7]), size });
  expect(await files.tail(`${file}-none`, 9)).toBeUndefined();
  expect((await files.last(directory, '^a$', 3, () => undefined)).map(({ name }) => name)).toEqual(['a']);
  for (const name of ['b', 'd', 'c']) await files.create(path.join(directory, name), Buffer.from(name));
  const found = await files.last(directory, '^[a-c]$', 2, () => undefined);
  expect(found.map(({ name }) => name)).toEqual(['c', 'b']);
  expect(await rejection(files.create(path.join(directory, 'no', 'a'), bytes))).toMatchObject({
    code: 'ENOENT',
  });
  expect(await rejection(files.append(directory, bytes))).toMatchObject({ code: 'EISDIR' });
});

describe('the process that runs directory and file sinks', () => {
  test('reports what came of a delivery: how many, trouble, a fork, another log, a loss', async () => {
    const worker = startWorker();
    const [directory, file] = [scratchSink('directory'), scratchSink('file')];
    for (const sink of [directory, file]) expect(await give(worker, sink, 100)).toBe(1);
    const missing = scratchSink('directory', path.join(scratchDirectory(), 'missing'));
    const trouble = await rejection(give(worker, missing, 100));
    expect(trouble).toBeInstanceOf(SinkTrouble);
    expect(trouble).not.toBeInstanceOf(SinkForked);
    expect(trouble.message).toContain('(ENOENT)');
    const lost = vi.fn();
    fs.truncateSync(file.path, 0);
    await give(worker, file, 110, { attempt: { lost } });
    expect(lost).toHaveBeenCalledTimes(1);
    const other = new SampleLog(newKey('log.example/other'), undefined, 'log.example/other');
    const alsoHolds = vi.fn();
    await give(startWorker(), file, 10, { of: other, attempt: { alsoHolds } });
    expect(alsoHolds.mock.calls).toEqual([['log.example/ward-7']]);
  });

  test('[R-906] holds what a sink has against the tree of the ledger, which it asks for', async () => {
    for (const kind of ['directory', 'file'] as const) {
      const sink = scratchSink(kind);
      await give(startWorker(), sink, 100);
      const forked = await rejection(give(startWorker(), sink, 200, { of: log.forkedAt(50) }));
      expect(forked).toBeInstanceOf(SinkForked);
      expect(forked.message).toContain('are not the first 100 of this ledger');
      const rootAt = () => Promise.reject(new SinkTrouble('the tree cannot tell'));
      const view = { rootAt, entries: log.entries, logKeys: log.logKeys };
      const trouble = await rejection(give(startWorker(), sink, 200, { view }));
      expect(trouble).not.toBeInstanceOf(SinkForked);
      expect(trouble.message).toBe('the tree cannot tell');
      expect(await give(startWorker(), sink, 200)).toBe(1);
    }
  });

  test('tells that the reading of a large directory gets on', async () => {
    const directory = scratchDirectory();
    for (let i = 0; i < 5000; i++) fs.writeFileSync(path.join(directory, String(i)), '');
    const progress = vi.fn();
    await give(startWorker(), scratchSink('directory', directory), 1, { attempt: { progress } });
    // One is of the checkpoint.
    expect(progress.mock.calls.length).toBeGreaterThan(1);
  });

  test('is started again when it has ended, and deliveries under way reject', async () => {
    const worker = startWorker();
    const sink = scratchSink('file');
    await give(worker, sink, 1);
    const first = pidOf(worker);
    process.kill(first, 'SIGSTOP');
    const delivery = rejection(give(worker, sink, 2));
    process.kill(first, 'SIGKILL');
    expect((await delivery).message).toContain('(EPIPE)');
    expect(await give(worker, sink, 2)).toBe(1);
    expect(pidOf(worker)).not.toBe(first);
  });

  test('[R-906] is killed although it hangs, and deliveries reject, these and later ones', async () => {
    const worker = startWorker();
    const sink = scratchSink('file');
    await give(worker, sink, 1);
    const pid = pidOf(worker);
    process.kill(pid, 'SIGSTOP');
    const delivery = rejection(give(worker, sink, 2));
    worker.kill();
    expect((await delivery).message).toContain('(EPIPE)');
    expect((await rejection(give(worker, sink, 2))).message).toContain('(EPIPE)');
    expect(worker.pid).toBeUndefined();
    expect(await ended(pid)).toBe(true);
  });

  test('lives on through the signals that stop a service, so that the last checkpoints get out', async () => {
    const worker = startWorker();
    const sink = scratchSink('file');
    await give(worker, sink, 1);
    const pid = pidOf(worker);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid, signal);
    await give(worker, sink, 2);
    expect(pidOf(worker)).toBe(pid);
  });

  test('ends with the collector, however that ends, and does not keep it alive', async () => {
    const module = path.resolve(import.meta.dirname, '../../dist/tree/sink-worker.js');
    const file = path.join(scratchDirectory(), 'a');
    const start = `import { SinkWorker } from ${JSON.stringify(module)};
      const worker = new SinkWorker();
      const alive = setInterval(() => undefined, 1000);
      const sink = { kind: 'file', shown: 'file', path: ${JSON.stringify(file)} };
      const checkpoint = { origin: 'log', size: 0, root: new Uint8Array(32) };
      await worker
        .sinkOf(sink, { rootAt() {}, entries: () => 0, logKeys: () => [] })
        .deliver([{ note: 'log', checkpoint }], { newest: checkpoint });
      console.log(worker.pid);`;
    for (const end of ['clearInterval(alive)', '']) {
      fs.rmSync(file, { force: true });
      const parent = spawn(process.execPath, ['--input-type=module', '-e', start + end]);
      const exited = new Promise((resolve) => parent.on('exit', resolve));
      const pid = await new Promise<number>((resolve) => {
        parent.stdout.once('data', (text: Buffer) => resolve(Number(text.toString())));
      });
      if (end === '') parent.kill('SIGKILL');
      await exited;
      expect(await ended(pid)).toBe(true);
    }
  });
});
