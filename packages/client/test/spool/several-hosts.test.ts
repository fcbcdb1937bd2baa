/** Hosts that restart, volumes that move, processes that stop for minutes, and two hosts by mistake. */
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { openSpool } from '../../src/spool/disk-spool.js';
import type { Spool, SpoolOptions } from '../../src/spool/spool.js';
import { MemoryDisk } from './memory-disk.js';
import { ROOT, textOf } from './spooled-segments.js';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  return () => void vi.useRealTimers();
});

interface Running {
  readonly spool: Spool;
  readonly troubles: string[];
  /** All events that it took; they are done at once. */
  readonly sent: string[];
  append(text: string): Promise<unknown>;
  /** It runs no code, and gives no sign of life. */
  stopped: boolean;
  /** It ends as by kill -9. */
  kill(): void;
}

/** A process of the host with a spool on the disk, which sends what it finds. */
async function onHost(host: string, disk: MemoryDisk, more: Partial<SpoolOptions> = {}): Promise<Running> {
  const process = disk.process();
  const touch = process.files.touch.bind(process.files);
  const troubles: string[] = [];
  const sent: string[] = [];
  const files = Object.assign(process.files, {
    host,
    touch: (file: string) => (running.stopped ? Promise.resolve() : touch(file)),
  });
  const spool = await openSpool({
    ...{ directory: ROOT, durability: 'os', files, ...more },
    onTrouble: (what) => troubles.push(what),
  });
  const running: Running = {
    ...{ spool, troubles, sent, stopped: false, kill: () => process.end() },
    append: (text) => spool.append('outcome', Buffer.from(text)),
  };
  onTestFinished(() => spool.close().catch(() => undefined));
  return running;
}

/** Takes and sends all that waits there now. */
async function send({ spool, sent }: Running): Promise<void> {
  while (spool.state.waiting > 0) {
    for (const event of await spool.take(10, 1 << 20)) {
      sent.push(textOf(event));
      spool.done(event);
    }
  }
}

/** Lets seconds pass for the running processes. */
async function pass(seconds: number): Promise<void> {
  for (let at = 0; at < seconds; at += 10) await vi.advanceTimersByTimeAsync(10_000);
  // Lets a heartbeat that has begun end.
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
}

test.each(['restarted', 'another'])(
  '[R-854] events of a dead process are adopted on the %s host after three minutes, not before',
  async () => {
    const disk = new MemoryDisk();
    const dead = await onHost('boot 1', disk);
    await dead.append('left');
    dead.kill();
    const next = await onHost('boot 2', disk);
    expect(next.spool.state).toMatchObject({ waiting: 0, watched: 1 });
    await pass(170);
    expect(next.spool.state.waiting).toBe(0);
    await pass(30);
    await send(next);
    expect(next.sent).toEqual(['left']);
    expect(next.spool.state).toMatchObject({ waiting: 0, watched: 0 });
    // It rests for half a minute, since its holder may only have been stopped; then it is removed.
    expect(disk.files(ROOT, '.segment')).toHaveLength(1);
    await pass(40);
    expect(disk.files(ROOT, '.segment')).toEqual([]);
  },
);

test('[R-854] two hosts that share a spool are each warned once, and no event is lost', async () => {
  const disk = new MemoryDisk();
  const [one, two] = [await onHost('one', disk), await onHost('two', disk)];
  for (let at = 0; at < 40; at++) {
    await one.append(`one ${at}`);
    await two.append(`two ${at}`);
    await pass(10);
  }
  await send(one);
  await send(two);
  expect(one.sent).toEqual(Array.from({ length: 40 }, (_, at) => `one ${at}`));
  expect(two.sent).toEqual(Array.from({ length: 40 }, (_, at) => `two ${at}`));
  const warned = [expect.stringContaining('is in use by another host')];
  expect([one.troubles, two.troubles]).toEqual([warned, warned]);
});

test('[R-854] a process that was stopped for five minutes begins a new part and loses no event', async () => {
  const disk = new MemoryDisk();
  const paused = await onHost('one', disk);
  await paused.append('before');
  paused.stopped = true;
  const other = await onHost('two', disk);
  await pass(300);
  await send(other);
  expect(other.sent).toEqual(['before']);
  paused.stopped = false;
  await Promise.all(['after', 'and after that'].map((text) => paused.append(text)));
  await pass(60);
  expect(paused.troubles.filter((what) => what.includes('was removed'))).toHaveLength(1);
  await send(paused);
  expect(paused.sent).toEqual(['after', 'and after that']);
});

test('[R-854] an event written to a segment that was just adopted is sent by both processes', async () => {
  const disk = new MemoryDisk();
  const paused = await onHost('one', disk);
  await paused.append('before');
  paused.stopped = true;
  const other = await onHost('two', disk);
  await pass(200);
  // It still has the file open, under whichever name.
  await paused.append('in flight');
  await send(other);
  await pass(60);
  await send(other);
  expect(other.sent).toEqual(['before', 'in flight']);
  await send(paused);
  expect(paused.sent).toEqual(['in flight']);
});
