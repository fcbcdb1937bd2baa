import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { splitNotes } from '@clinical-events/protocol/verify';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Publisher, type PublisherOptions } from '../../src/tree/publisher.js';
import { DirectorySink, FileSink } from '../../src/tree/disk-sinks.js';
import type { LogView } from '../../src/tree/sink-queue.js';
import { nodeSinkFiles, type SinkFiles } from '../../src/tree/sink-files.js';
import { SinkWorker } from '../../src/tree/sink-worker.js';
import { readSinkStates, type SinkState } from '../../src/tree/state-files.js';
import { type DiskSinkSpec, parseSinks } from '../../src/tree/sink.js';
import { FakeWitness } from './fake-witness.js';
import { newKey, SampleLog, scratchDirectory, SINK_PROCESS } from './sample-log.js';

const log = new SampleLog();
const RETRY_POLICY = { firstMs: 5, mostMs: 20, tryMs: 2000 };

/** Runs the sinks here, on these calls. */
function inThisProcess(files: SinkFiles = nodeSinkFiles): NonNullable<PublisherOptions['worker']> {
  return {
    sinkOf(spec: DiskSinkSpec, view: LogView) {
      const options = { ...spec, files, log: view };
      return spec.kind === 'directory' ? new DirectorySink(options) : new FileSink(options);
    },
    kill: () => undefined,
  };
}

function publisherTo(sinks: string, options: Partial<PublisherOptions> = {}) {
  const dataDir = options.dataDir ?? scratchDirectory();
  const tell = () => vi.fn<(sink: string, message: string) => void>();
  const told = {
    onTrouble: tell(),
    onForked: tell(),
    onShared: tell(),
    onLost: tell(),
    onRecovered: vi.fn(),
    onUnwritten: vi.fn<(message: string) => void>(),
  };
  const publisher = new Publisher({
    sinks: parseSinks(sinks),
    tiles: log.tiles,
    entries: log.entries,
    dataDir,
    logKeys: log.logKeys,
    retryPolicy: RETRY_POLICY,
    worker: inThisProcess(),
    ...told,
    ...options,
  });
  onTestFinished(() => publisher.close(0));
  return { publisher, dataDir, ...told };
}

/** But that a sink is late, as all are on a busy machine. */
const troubleIn = ({ mock }: ReturnType<typeof publisherTo>['onTrouble']) =>
  mock.calls.filter(([, message]) => !message.startsWith('gives no answer within'));

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(10);
}

function stateOf(dataDir: string, sink: string): SinkState | undefined {
  return readSinkStates(dataDir).find((state) => state.sink.startsWith(sink));
}

const hang = (): Promise<never> => new Promise(() => undefined);
const hanging: SinkFiles = { last: hang, create: hang, append: hang, tail: hang };

describe('a publisher', () => {
  test('[R-906] gives each checkpoint to every sink, by its own process for those on a disk', async () => {
    const witness = await new FakeWitness().trust(log.signer.key.vkey).listen();
    const [worm, file] = [scratchDirectory(), path.join(scratchDirectory(), 'checkpoints')];
    const worker = new SinkWorker(SINK_PROCESS);
    const { publisher, dataDir, onTrouble } = publisherTo(
      `dir:${worm},file:${file},${witness.prefix}#${witness.key.vkey}`,
      { worker },
    );
    for (const size of [10, 20, 30]) publisher.publish(log.note(size));
    await publisher.close(600_000);
    expect(fs.readdirSync(worm)).toHaveLength(3);
    expect(splitNotes(fs.readFileSync(file, 'utf8'))).toEqual([10, 20, 30].map((size) => log.note(size)));
    expect(witness.seen.get('log.example/ward-7')?.size).toBe(30);
    expect(troubleIn(onTrouble)).toEqual([]);
    expect(readSinkStates(dataDir).map(({ sink, state, size }) => ({ sink, state, size }))).toEqual([
      { sink: `dir:${worm}`, state: 'ok', size: 30 },
      { sink: `file:${file}`, state: 'ok', size: 30 },
      { sink: `${witness.prefix} (witness.example/w1)`, state: 'ok', size: 30 },
    ]);
    expect(worker.pid).toBeUndefined();
  });

  test('[R-906] that all sinks hang does not hold up, and that some do not the others', async () => {
    const witness = await new FakeWitness().trust(log.signer.key.vkey).listen();
    witness.instead = () => true;
    const worm = scratchDirectory();
    const sinks = `dir:${worm},file:${path.join(worm, 'f')},${witness.prefix}#${witness.key.vkey}`;
    const { publisher } = publisherTo(sinks, { worker: inThisProcess(hanging) });
    const note = log.note(10);
    publisher.publish(note);
    await sleep(20);
    for (let i = 0; i < 2000; i++) publisher.publish(note);

    const halfDead = { ...nodeSinkFiles, tail: hang };
    const { publisher: other, dataDir } = publisherTo(sinks, { worker: inThisProcess(halfDead) });
    for (const size of [10, 20, 30]) other.publish(log.note(size));
    await until(() => stateOf(dataDir, 'dir:')?.state === 'ok' && fs.readdirSync(worm).length === 3);
  });

  test('takes no longer to close than it is given, tells what was not delivered, and leaves no process behind', async () => {
    const witness = await new FakeWitness().trust(log.signer.key.vkey).listen();
    const [worm, file] = [scratchDirectory(), path.join(scratchDirectory(), 'checkpoints')];
    const worker = new SinkWorker(SINK_PROCESS);
    const { publisher, dataDir } = publisherTo(
      `dir:${worm},file:${file},${witness.prefix}#${witness.key.vkey}`,
      {
        worker,
      },
    );
    publisher.publish(log.note(10));
    // A first try may be given up on a busy machine.
    await until(() => readSinkStates(dataDir).filter(({ size }) => size === 10).length === 3);
    // As a mount does whose server has gone.
    process.kill(worker.pid ?? 0, 'SIGSTOP');
    witness.instead = () => true;
    for (const size of [20, 30]) publisher.publish(log.note(size));
    await sleep(20);
    // Neither the process nor the witness would ever answer.
    await publisher.close(150);
    for (const { state, size, message } of readSinkStates(dataDir)) {
      const end = 'had not taken the newest checkpoint when the collector ended';
      expect([state, size, message]).toEqual(['failing', 10, end]);
    }
    expect(readSinkStates(dataDir).map(({ dropped }) => dropped)).toEqual([2, 2, 0]);
    expect(worker.pid).toBeUndefined();
    publisher.publish(log.note(40));
    await publisher.close(0);
  });

  test('tells of trouble and of its end, and shows both in the states', async () => {
    const worm = path.join(scratchDirectory(), 'worm');
    const { publisher, dataDir, onTrouble, onRecovered } = publisherTo(`dir:${worm}`);
    publisher.publish(log.note(10));
    await until(() => stateOf(dataDir, 'dir:')?.state === 'failing');
    expect(onTrouble.mock.calls).toEqual([[`dir:${worm}`, expect.stringContaining('(ENOENT)')]]);
    expect(stateOf(dataDir, 'dir:')).toMatchObject({ failing_since: expect.any(String) as string });
    publisher.publish(log.note(20));
    fs.mkdirSync(worm);
    await until(() => stateOf(dataDir, 'dir:')?.state === 'ok');
    expect(onRecovered.mock.calls).toEqual([[`dir:${worm}`]]);
    // It does well from the first one on that it took.
    await until(() => fs.readdirSync(worm).length === 2);
    expect(stateOf(dataDir, 'dir:')).not.toHaveProperty('failing_since');
  });

  test('[R-906] says at a start that a sink is ahead of the ledger', async () => {
    const [worm, file] = [scratchDirectory(), path.join(scratchDirectory(), 'checkpoints')];
    const sinks = `dir:${worm},file:${file}`;
    const before = publisherTo(sinks);
    before.publisher.publish(log.note(200));
    await before.publisher.close(600_000);
    const worker = new SinkWorker(SINK_PROCESS);
    const { publisher, dataDir, onTrouble, onForked } = publisherTo(sinks, { worker });
    publisher.publish(log.note(150));
    await until(() => readSinkStates(dataDir).filter(({ state }) => state === 'forked').length === 2);
    await publisher.close(600_000);
    // Not as trouble, which most often is someone else's and passes.
    expect(onForked.mock.calls.map(([sink]) => sink).sort()).toEqual([`dir:${worm}`, `file:${file}`]);
    expect(troubleIn(onTrouble)).toEqual([]);
    expect(fs.readdirSync(worm)).toHaveLength(1);
    expect(splitNotes(fs.readFileSync(file, 'utf8'))).toHaveLength(1);
    expect(readSinkStates(dataDir).map(({ state, dropped }) => [state, dropped])).toEqual([
      ['forked', 1],
      ['forked', 1],
    ]);
  });

  test('[R-906] says at a start that another log uses the place of a sink, and delivers to it all the same', async () => {
    const other = new SampleLog(newKey('log.example/other'), undefined, 'log.example/other');
    const [worm, file] = [scratchDirectory(), path.join(scratchDirectory(), 'checkpoints')];
    const sinks = `dir:${worm},file:${file}`;
    const before = publisherTo(sinks, { logKeys: other.logKeys, tiles: other.tiles });
    for (const size of [10, 20]) before.publisher.publish(other.note(size));
    await before.publisher.close(600_000);
    expect(before.onShared).not.toHaveBeenCalled();
    const worker = new SinkWorker(SINK_PROCESS);
    const { publisher, dataDir, onTrouble, onShared } = publisherTo(sinks, { worker });
    for (const size of [10, 15]) publisher.publish(log.note(size));
    await until(() => readSinkStates(dataDir).filter(({ state }) => state === 'ok').length === 2);
    const text = 'also holds checkpoints of the log log.example/other: give each log a place of its own';
    expect(onShared.mock.calls.sort()).toEqual([
      [`dir:${worm}`, text],
      [`file:${file}`, text],
    ]);
    expect(troubleIn(onTrouble)).toEqual([]);
    expect(readSinkStates(dataDir)).toMatchObject(Array(2).fill({ also_holds: 'log.example/other' }));
    await publisher.close(600_000);
    expect(fs.readdirSync(worm)).toHaveLength(4);
    expect(splitNotes(fs.readFileSync(file, 'utf8'))).toHaveLength(4);
    // Moved to a place of its own, it is not shown any more.
    fs.rmSync(worm, { recursive: true });
    fs.mkdirSync(worm);
    const moved = publisherTo(`dir:${worm}`, { dataDir });
    moved.publisher.publish(log.note(20));
    await moved.publisher.close(600_000);
    expect(stateOf(dataDir, 'dir:')).toMatchObject({ state: 'ok', size: 20 });
    expect(stateOf(dataDir, 'dir:')).not.toHaveProperty('also_holds');
  });

  test('[R-906] writes the states when one changes, and within about a second when only the checkpoint does', async () => {
    const [one, two] = [scratchDirectory(), scratchDirectory()];
    let now = Date.UTC(2026, 0, 1);
    const { publisher, dataDir } = publisherTo(`dir:${one}`, { now: () => now });
    publisher.publish(log.note(10));
    await until(() => stateOf(dataDir, 'dir:')?.size === 10);
    now += 1000;
    // The second does not pass by itself.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    publisher.publish(log.note(20));
    await until(() => fs.readdirSync(one).length === 2);
    await sleep(20);
    // Not at once: a load of checkpoints is not to be a load of files.
    expect(stateOf(dataDir, 'dir:')).toMatchObject({ size: 10, at: '2026-01-01T00:00:00.000Z' });
    vi.advanceTimersByTime(1000);
    vi.useRealTimers();
    await until(() => stateOf(dataDir, 'dir:')?.size === 20);
    expect(stateOf(dataDir, 'dir:')).toMatchObject({ size: 20, at: '2026-01-01T00:00:01.000Z' });
    publisher.publish(log.note(30));
    await publisher.close(600_000);
    expect(stateOf(dataDir, 'dir:')).toMatchObject({ size: 30 });
    // A sink that is not named any more is not shown; one that is goes on from its state.
    publisherTo(`dir:${one},dir:${two}`, { dataDir });
    expect(readSinkStates(dataDir).map(({ sink, size }) => [sink, size])).toEqual([[`dir:${one}`, 30]]);
    publisherTo('', { dataDir });
    expect(readSinkStates(dataDir)).toEqual([]);
  });

  test('without sinks writes nothing and starts nothing', async () => {
    const { publisher, dataDir } = publisherTo('');
    publisher.publish(log.note(10));
    await publisher.close(600_000);
    expect(fs.readdirSync(dataDir)).toEqual([]);
  });

  test('goes on when its states cannot be read or written, and tells of it once', async () => {
    const worm = scratchDirectory();
    const dataDir = path.join(scratchDirectory(), 'file');
    fs.writeFileSync(dataDir, '');
    const { publisher, onTrouble, onUnwritten } = publisherTo(`dir:${worm}`, { dataDir });
    for (const size of [10, 20]) publisher.publish(log.note(size));
    await publisher.close(600_000);
    expect(fs.readdirSync(worm)).toHaveLength(2);
    expect(onTrouble.mock.calls).toEqual([]);
    expect(onUnwritten.mock.calls).toEqual([[expect.stringContaining('ENOTDIR')]]);
    const rubbish = scratchDirectory();
    fs.mkdirSync(path.join(rubbish, 'checkpoints'));
    fs.writeFileSync(path.join(rubbish, 'checkpoints', 'sinks.json'), '{');
    publisherTo(`dir:${worm}`, { dataDir: rubbish });
    expect(readSinkStates(rubbish)).toEqual([]);
  });
});
