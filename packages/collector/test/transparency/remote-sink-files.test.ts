import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { RemoteSinkFiles } from '../../src/transparency/remote-sink-files.js';
import { SinkFilesError } from '../../src/transparency/sink-files.js';
import { rejection, scratchDirectory } from './sample-log.js';

function remote(): RemoteSinkFiles {
  const files = new RemoteSinkFiles();
  onTestFinished(() => files.kill());
  return files;
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
  for (let i = 0; i < 200 && isRunning(pid); i++) await sleep(10);
  return !isRunning(pid);
}

function pidOf(files: RemoteSinkFiles): number {
  if (files.pid === undefined) throw new Error('no process was started');
  return files.pid;
}

describe('the process for directories and files', () => {
  test('does every call, and passes bytes and codes on', async () => {
    const files = remote();
    const directory = scratchDirectory();
    const file = path.join(directory, 'a');
    const bytes = Buffer.from([0, 255, 10, 128]);
    expect(await files.create(file, bytes)).toBeUndefined();
    expect(Buffer.from((await files.create(file, Buffer.of(1))) ?? [])).toEqual(bytes);
    await files.append(file, Buffer.of(7), false);
    const size = bytes.length + 1;
    expect(await files.tail(file, 2)).toEqual({ bytes: Buffer.of(128, 7), size });
    expect(await files.tail(file, 9)).toEqual({ bytes: Buffer.from([...bytes, 7]), size });
    expect(await files.tail(`${file}-none`, 9)).toBeUndefined();
    expect((await files.last(directory, '^a$', 3, () => undefined)).map(({ name }) => name)).toEqual(['a']);
    for (const name of ['b', 'd', 'c']) await files.create(path.join(directory, name), Buffer.from(name));
    const found = await files.last(directory, '^[a-c]$', 2, () => undefined);
    expect(found.map(({ name }) => name)).toEqual(['c', 'b']);
    const error = await rejection(files.create(path.join(directory, 'no', 'a'), bytes));
    expect(error).toBeInstanceOf(SinkFilesError);
    expect(error).toMatchObject({ code: 'ENOENT' });
    expect(await rejection(files.append(directory, bytes, false))).toMatchObject({ code: 'EISDIR' });
  });

  test('tells that the reading of a large directory gets on', async () => {
    const directory = scratchDirectory();
    for (let i = 0; i < 5000; i++) fs.writeFileSync(path.join(directory, String(i)), '');
    let told = 0;
    expect(await remote().last(directory, '^x$', 3, () => told++)).toEqual([]);
    expect(told).toBeGreaterThan(0);
  });

  test('is started again when it has ended, and calls under way reject', async () => {
    const files = remote();
    const file = path.join(scratchDirectory(), 'a');
    await files.create(file, Buffer.of(1));
    const first = pidOf(files);
    process.kill(first, 'SIGSTOP');
    const call = rejection(files.tail(file, 1));
    process.kill(first, 'SIGKILL');
    expect(await call).toMatchObject({ code: 'EPIPE' });
    expect((await files.tail(file, 1))?.bytes.length).toBe(1);
    expect(pidOf(files)).not.toBe(first);
  });

  test('[R-906] is killed although it hangs, and calls reject, these and later ones', async () => {
    const files = remote();
    const file = path.join(scratchDirectory(), 'a');
    await files.create(file, Buffer.of(1));
    const pid = pidOf(files);
    process.kill(pid, 'SIGSTOP');
    const call = rejection(files.tail(file, 1));
    files.kill();
    expect(await call).toMatchObject({ code: 'EPIPE' });
    expect(await rejection(files.tail(file, 1))).toMatchObject({ code: 'EPIPE' });
    expect(files.pid).toBeUndefined();
    expect(await ended(pid)).toBe(true);
  });

  test('lives on through the signals that stop a service, so that the last checkpoints get out', async () => {
    const files = remote();
    const file = path.join(scratchDirectory(), 'a');
    await files.create(file, Buffer.of(1));
    const pid = pidOf(files);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid, signal);
    await files.append(file, Buffer.of(2), false);
    expect(pidOf(files)).toBe(pid);
  });

  test('ends with the collector, however that ends, and does not keep it alive', async () => {
    const module = path.resolve(import.meta.dirname, '../../dist/transparency/remote-sink-files.js');
    const file = path.join(scratchDirectory(), 'a');
    const start = `import { RemoteSinkFiles } from ${JSON.stringify(module)};
      const files = new RemoteSinkFiles();
      const alive = setInterval(() => undefined, 1000);
      await files.create(${JSON.stringify(file)}, Buffer.of(1));
      console.log(files.pid);`;
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
