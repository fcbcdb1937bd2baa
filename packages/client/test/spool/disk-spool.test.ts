import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { readQuarantineLine } from '../../src/spool/inspection.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import {
  type Spool,
  SpoolClosed,
  type SpooledEvent,
  SpoolFull,
  type SpoolOptions,
  SpoolUnwritable,
} from '../../src/spool/spool.js';
import { type DiskProcess, MemoryDisk } from './memory-disk.js';
import { canMount, inSmallFileSystem } from './small-file-system.js';
import { drain, scratchDirectory, startProcess } from './spool-processes.js';
import { ROOT, textOf } from './spooled-segments.js';

const REFUSAL = { status: 400, code: 'schema_violation', at: '2026-01-01T00:00:00Z' };
const event = (text: string) => Buffer.from(`{"text":"${text}"}`);

async function onDisk(
  options: Partial<SpoolOptions> = {},
): Promise<{ disk: MemoryDisk; process: DiskProcess; spool: Spool; troubles: string[] }> {
  const disk = new MemoryDisk();
  const process = disk.process();
  const troubles: string[] = [];
  const spool = await openSpool({
    ...{ directory: ROOT, durability: 'os', files: process.files },
    onTrouble: (what) => troubles.push(what),
    ...options,
  });
  onTestFinished(() => spool.close());
  return { disk, process, spool, troubles };
}

/** Counts the calls of the process on segments. */
function counted(process: DiskProcess): Map<string, number> {
  const calls = new Map<string, number>();
  process.fate = (operation, file) => {
    if (file.endsWith('.segment')) calls.set(operation, (calls.get(operation) ?? 0) + 1);
    return undefined;
  };
  return calls;
}

test('[R-851] events of one turn are one write, and with fsync one flush', async () => {
  for (const durability of ['os', 'fsync'] as const) {
    const { process, spool } = await onDisk({ durability });
    await spool.append('outcome', event('the first makes the segment'));
    const calls = counted(process);
    await Promise.all(Array.from({ length: 50 }, (_, index) => spool.append('outcome', event(`${index}`))));
    expect(calls.get('write')).toBe(1);
    expect(calls.get('datasync')).toBe(durability === 'fsync' ? 1 : undefined);
  }
});

test('[R-851] with fsync an append resolves only after the flush', async () => {
  const { process, spool } = await onDisk({ durability: 'fsync' });
  const datasync = process.files.datasync.bind(process.files);
  let flushed = false;
  process.files.datasync = async (fd) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    await datasync(fd);
    flushed = true;
  };
  await spool.append('outcome', event('one'));
  expect(flushed).toBe(true);
});

test('events are returned in the order of their appends, with kind and time', async () => {
  const { spool } = await onDisk({ segmentBytes: 300 });
  const body = event('mine');
  const before = Date.now();
  const first = spool.append('inference-start', body);
  // The caller may use its buffer again at once.
  body.fill(0);
  const rest = Array.from({ length: 20 }, (_, index) => spool.append('outcome', event(`${index}`)));
  await Promise.all([first, ...rest]);
  const events = [...(await spool.take(8, 1e6)), ...(await spool.take(100, 1e6))];
  expect(events[0]).toMatchObject({ kind: 'inference-start' });
  expect(events[0]?.capturedAt).toBeGreaterThanOrEqual(before);
  expect(events.map(textOf)).toEqual(
    ['mine', ...Array.from({ length: 20 }, (_, index) => index)].map((text) => event(`${text}`).toString()),
  );
});

test('take returns at most the requested events, but always one', async () => {
  const { spool } = await onDisk();
  await Promise.all(['one', 'two', 'three'].map((text) => spool.append('outcome', event(text))));
  expect(await spool.take(2, 1e6)).toHaveLength(2);
  expect(await spool.take(5, 1)).toHaveLength(1);
  await expect(spool.take(0, 1)).rejects.toThrow(RangeError);
});

test('take waits for an event, a signal or close, one call at a time', async () => {
  const { spool } = await onDisk();
  const stop = new AbortController();
  const first = spool.take(1, 1e6, stop.signal);
  await expect(spool.take(1, 1e6)).rejects.toThrow('one call of take at a time');
  stop.abort();
  expect(await first).toEqual([]);
  const second = spool.take(1, 1e6);
  await spool.append('outcome', event('one'));
  expect((await second).map(textOf)).toEqual([event('one').toString()]);
  const third = spool.take(9, 1e6);
  await spool.close();
  expect(await third).toEqual([]);
  expect(await spool.take(1, 1)).toEqual([]);
});

test('take returns an event again after giveBack, and never after done, even after a restart', async () => {
  const { disk, process, spool } = await onDisk();
  await Promise.all(['one', 'two', 'three'].map((text) => spool.append('outcome', event(text))));
  const [one, two, three] = await spool.take(3, 1e6);
  if (!one || !two || !three) throw new Error('not all were given out');
  spool.giveBack(two);
  spool.done(one);
  // A repeated call, or one for an event that is not out, has no effect.
  spool.done(one);
  spool.giveBack(one);
  spool.done(two);
  expect(spool.state.waiting).toBe(2);
  const again = await spool.take(3, 1e6);
  expect(again).toEqual([two]);
  await spool.flush();
  process.end();
  const next = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
  expect((await next.take(9, 1e6)).map(textOf)).toEqual([two, three].map(textOf));
  await next.close();
});

test('the state has the number, size and age of waiting events', async () => {
  const { spool } = await onDisk();
  expect(spool.state).toEqual({ waiting: 0, waitingBytes: 0, quarantined: 0, cut: 0, watched: 0 });
  const before = new Date().toISOString();
  await spool.append('outcome', event('one'));
  expect(spool.state).toMatchObject({ waiting: 1, waitingBytes: 32 + event('one').length });
  const oldest = spool.state.oldest ?? '';
  expect(oldest >= before && oldest <= new Date().toISOString()).toBe(true);
  const [one] = await spool.take(1, 1e6);
  expect(spool.state.oldest).toBe(oldest);
  if (one) spool.done(one);
  expect(spool.state).toEqual({ waiting: 0, waitingBytes: 0, quarantined: 0, cut: 0, watched: 0 });
});

test('a clock that is set back does not change the order or the events', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const { disk, process, spool } = await onDisk({ segmentBytes: 200 });
  for (const [index, day] of ['2026-05-05', '2020-01-01', '1970-01-01', '2030-01-01'].entries()) {
    vi.setSystemTime(new Date(day));
    await spool.append('outcome', event(`${index}`));
  }
  process.end();
  vi.setSystemTime(new Date('1999-01-01'));
  const next = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
  const events = await next.take(9, 1e6);
  expect(events.map(textOf)).toEqual(['0', '1', '2', '3'].map((text) => event(text).toString()));
  expect(next.state.oldest).toBe('1970-01-01T00:00:00.000Z');
  await next.close();
});

test('[R-852] a closed spool refuses events, and writes nothing of them', async () => {
  const { spool, disk } = await onDisk();
  await spool.append('outcome', event('one'));
  await spool.close();
  await expect(spool.append('outcome', event('two'))).rejects.toThrow(SpoolClosed);
  expect(disk.files(ROOT).some((file) => disk.bytesOf(file).includes('two'))).toBe(false);
  await spool.close();
});

test('[R-852] a full spool refuses the new event, keeps the old ones, and takes more once some are done', async () => {
  const { spool } = await onDisk({ maxBytes: 4000 });
  const accepted: string[] = [];
  for (let index = 0; ; index++) {
    const body = event(`${index}`.padEnd(100, '.'));
    const refused = await spool.append('outcome', body).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (refused) {
      expect(refused).toBeInstanceOf(SpoolFull);
      break;
    }
    accepted.push(body.toString());
  }
  expect(accepted.length).toBeGreaterThan(20);
  const events = await spool.take(1000, 1e6);
  expect(events.map(textOf)).toEqual(accepted);
  for (const done of events) spool.done(done);
  await spool.append('outcome', event('more'));
});

test('[R-852] a full disk refuses a whole group, and accepts events once sent ones are removed', async () => {
  const { disk, spool } = await onDisk({ segmentBytes: 350 });
  await spool.append('outcome', event('before'));
  const [file = ''] = disk.files(ROOT, '.segment');
  const size = disk.bytesOf(file).length;
  disk.capacity = disk.used + 100;
  const group = ['a', 'b', 'c', 'd', 'e'].map((text) => spool.append('outcome', event(text)));
  for (const { status, reason } of (await Promise.allSettled(group)) as PromiseRejectedResult[]) {
    expect(status).toBe('rejected');
    expect(reason).toBeInstanceOf(SpoolFull);
  }
  // With its end frame, for which there was room.
  expect(disk.bytesOf(file).length - size).toBeLessThan(100);
  for (const before of await spool.take(9, 1e6)) {
    expect(textOf(before)).toBe(event('before').toString());
    spool.done(before);
  }
  const after = spool.take(9, 1e6);
  // The segment could hold more, but only its removal makes room.
  await expect.poll(() => disk.files(ROOT, '.segment')).toEqual([]);
  await spool.append('outcome', event('after'));
  expect((await after).map(textOf)).toEqual([event('after').toString()]);
});

/** A disk full to the last byte, on which a process was killed that had captured events, some of them done. */
async function fullDisk(events: number): Promise<{ disk: MemoryDisk; names: string[] }> {
  const { disk, process, spool } = await onDisk({ segmentBytes: 700 });
  for (let i = 0; i < events; i++) await spool.append('outcome', event(`${i}`));
  const [done] = await spool.take(1, 1);
  if (done) spool.done(done);
  await spool.flush();
  process.end();
  disk.capacity = disk.used;
  return { disk, names: Array.from({ length: events - 1 }, (_, i) => event(`${i + 1}`).toString()) };
}

test('[R-852] a restart on a full disk adopts and captures only once there is room', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { disk, names } = await fullDisk(40);
  const troubles: string[] = [];
  const spool = await openSpool({
    ...{ directory: ROOT, durability: 'fsync', files: disk.process().files },
    onTrouble: (what) => troubles.push(what),
  });
  expect(troubles).toEqual([expect.stringContaining('the disk is full')]);
  expect(spool.state.waiting).toBe(0);
  await expect(spool.append('outcome', event('refused'))).rejects.toThrow(SpoolFull);
  disk.capacity = Infinity;
  const taking = spool.take(100, 1e6);
  await vi.advanceTimersByTimeAsync(10_001);
  const taken = await taking;
  expect(taken.map(textOf)).toEqual(names);
  for (const one of taken) spool.done(one);
  await spool.append('outcome', event('there is room'));
  await spool.close();
  expect((await drainOf(disk)).map(textOf)).toEqual([event('there is room').toString()]);
});

async function drainOf(disk: MemoryDisk): Promise<readonly SpooledEvent[]> {
  const spool = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
  const taken = spool.state.waiting > 0 ? await spool.take(1000, 1e6) : [];
  for (const one of taken) spool.done(one);
  await spool.close();
  return taken;
}

test('[R-852] a spool opened on a full disk without its directory captures once there is room', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const disk = new MemoryDisk();
  disk.capacity = 0;
  const troubles: string[] = [];
  const onTrouble = (what: string) => troubles.push(what);
  const spool = await openSpool({
    directory: ROOT,
    durability: 'os',
    files: disk.process().files,
    onTrouble,
  });
  await vi.advanceTimersByTimeAsync(10_001);
  expect(troubles[1]).toContain(`no part can be created in ${ROOT}: `);
  await expect(spool.append('outcome', event('refused'))).rejects.toThrow(SpoolFull);
  disk.capacity = Infinity;
  await vi.advanceTimersByTimeAsync(10_001);
  await spool.append('outcome', event('there is room'));
  await spool.close();
  await expect(spool.append('outcome', event('late'))).rejects.toThrow(SpoolClosed);
  expect((await drainOf(disk)).map(textOf)).toEqual([event('there is room').toString()]);
});

test('[R-852] if a full disk has no room for marks, no event is lost at the next start', async () => {
  const { disk, spool } = await onDisk({ segmentBytes: 700 });
  const names = Array.from({ length: 40 }, (_, i) => event(`${i}`).toString());
  for (const name of names) await spool.append('outcome', Buffer.from(name));
  disk.capacity = disk.used;
  const [undone, ...taken] = await spool.take(20, 1e6);
  for (const one of taken) spool.done(one);
  await spool.close();
  disk.capacity = Infinity;
  const again = (await drainOf(disk)).map(textOf);
  expect(new Set([...taken.map(textOf), ...again])).toEqual(new Set(names));
  expect(again).toContain(undone && textOf(undone));
  // No file is left, not even marks of removed segments.
  expect(disk.files(ROOT)).toEqual([]);
});

test('[R-852] marks that cannot be written take a bounded part of the memory', async () => {
  const { process, spool } = await onDisk({ segmentBytes: 64 << 20 });
  process.fate = (operation, file) => (operation === 'open' && file.endsWith('.done') ? 'before' : undefined);
  const BOUND = 1 << 17;
  const body = Buffer.from('{}');
  let done = 0;
  for (let round = 0; round < 140; round++) {
    await Promise.all(Array.from({ length: 1000 }, () => spool.append('outcome', body)));
    for (const one of await spool.take(1000, 1e6)) {
      // The last one keeps the segment.
      if (done++ < 139_999) spool.done(one);
    }
  }
  expect(spool.state.waiting).toBe(1);
  process.fate = () => undefined;
  await spool.close();
  const next = await openSpool({ directory: ROOT, durability: 'os', files: process.files });
  expect(next.state.waiting).toBe(140_000 - BOUND);
  await next.close();
});

const WORDY = { ...REFUSAL, details: 'x'.repeat(3000), code: 'c' };

test('[R-852] the quarantine counts towards the size of the spool, also after a restart', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { disk, spool } = await onDisk({ maxBytes: 5000, segmentBytes: 300 });
  const quarantine = async () => {
    await spool.append('outcome', event('refused'));
    const [taken] = await spool.take(1, 1e6);
    if (taken) await spool.quarantine(taken, WORDY);
  };
  await quarantine();
  await quarantine();
  const [file = ''] = disk.files(`${ROOT}/quarantine`);
  expect(disk.bytesOf(file).length).toBeGreaterThan(5000);
  await expect(spool.append('outcome', event('more'))).rejects.toThrow(SpoolFull);
  await spool.close();
  const options = { ...{ directory: ROOT, durability: 'os' as const }, maxBytes: 5000, segmentBytes: 300 };
  const next = await openSpool({ ...options, files: disk.process().files });
  await expect(next.append('outcome', event('more'))).rejects.toThrow(SpoolFull);
  // It was requeued or removed.
  disk.names.delete(file);
  await vi.advanceTimersByTimeAsync(10_001);
  await next.append('outcome', event('more'));
  await next.close();
});

test('[R-852] a full spool still quarantines refused events, without the text of the refusal', async () => {
  const { disk, spool } = await onDisk({ maxBytes: 8000, segmentBytes: 1000 });
  const count = 50;
  await Promise.all(Array.from({ length: count }, (_, i) => spool.append('outcome', event(`${i}`))));
  for (const one of await spool.take(100, 1e6)) await spool.quarantine(one, WORDY);
  expect(spool.state).toMatchObject({ waiting: 0, quarantined: count });
  const [file = ''] = disk.files(`${ROOT}/quarantine`);
  const lines = disk.bytesOf(file).toString().trimEnd().split('\n');
  const wordy = lines.filter((line) => line.includes('xxx')).length;
  expect(wordy).toBeGreaterThan(0);
  expect(wordy).toBeLessThan(5);
  expect(readQuarantineLine(lines.at(-1) ?? '', undefined)).toMatchObject({
    refusal: { status: 400, code: 'c', at: REFUSAL.at },
  });
  expect(lines.at(-1)).not.toContain('message');
});

test('[R-852] a segment whose first write failed does not block the next one', async () => {
  const { disk, process, spool, troubles } = await onDisk();
  process.fate = (operation, file) =>
    file.endsWith('.segment') && ['write', 'remove'].includes(operation) ? 'before' : undefined;
  await expect(spool.append('outcome', event('one'))).rejects.toThrow(SpoolUnwritable);
  expect(troubles).toEqual(['a segment without events could not be removed']);
  process.fate = () => undefined;
  await spool.append('outcome', event('two'));
  expect((await spool.take(9, 1e6)).map(textOf)).toEqual([event('two').toString()]);
  expect(disk.files(ROOT, '.segment')).toHaveLength(2);
});

test('[R-851] events in memory at the end of the process are written and, with fsync, flushed', async () => {
  const { disk, process: owner, spool } = await onDisk({ durability: 'fsync', segmentBytes: 400 });
  await spool.append('outcome', event('before'));
  const [before] = await spool.take(1, 1e6);
  if (before) spool.done(before);
  for (let index = 0; index < 20; index++) spool.append('outcome', event(`${index}`)).catch(() => undefined);
  // Node calls this at exit.
  (process.listeners('exit').at(-1) as () => void)();
  await expect(spool.append('outcome', event('too late'))).rejects.toThrow(SpoolClosed);
  expect(disk.files(ROOT, '.done')).toHaveLength(1);
  owner.end();
  // All names are kept; of the bytes that were not flushed, only the marks are.
  disk.losePower((what, sector) => sector < 0 || what.endsWith('.done'));
  const next = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
  expect((await next.take(99, 1e6)).map(textOf)).toEqual(
    Array.from({ length: 20 }, (_, index) => event(`${index}`).toString()),
  );
  await next.close();
});

test('many events of one turn are written in groups of a megabyte', async () => {
  const { process, spool } = await onDisk();
  await spool.append('outcome', event('the first makes the segment'));
  const calls = counted(process);
  const body = Buffer.alloc(100_000, 'x');
  await Promise.all(Array.from({ length: 44 }, () => spool.append('outcome', body)));
  expect(calls.get('write')).toBe(5);
});

test.runIf(canMount)('[R-852] a file system of 1 MiB that fills up loses no accepted event', async () => {
  const process = startProcess(
    { directory: 'spool', durability: 'fsync', prefix: 'f', do: 'fill' },
    inSmallFileSystem(),
  );
  expect(await process.ended, process.lines.join('\n')).toBe(0);
  const said = (start: string) =>
    process.lines.filter((line) => line.startsWith(start)).map((line) => line.slice(1));
  const refused = process.lines.filter((line) => line.startsWith('!'));
  expect(refused.length).toBeGreaterThan(10);
  expect(new Set(refused.map((line) => line.split(' ')[0]))).toEqual(new Set(['!SpoolFull']));
  expect(said('+').length).toBeGreaterThan(300);
  expect(said('=')).toEqual(said('+'));
});

test('[R-852] after a failed flush, nothing is appended to that segment', async () => {
  const { disk, process, spool } = await onDisk({ durability: 'fsync' });
  await spool.append('outcome', event('before'));
  let failed = false;
  process.fate = (operation) => {
    if (operation !== 'datasync' || failed) return undefined;
    failed = true;
    return 'before';
  };
  const refused = spool.append('outcome', event('lost'));
  await expect(refused).rejects.toThrow(SpoolUnwritable);
  await expect(refused).rejects.toMatchObject({ uncertain: false });
  await spool.append('outcome', event('after'));
  expect(disk.files(ROOT, '.segment')).toHaveLength(2);
  expect((await spool.take(9, 1e6)).map(textOf)).toEqual(
    ['before', 'after'].map((text) => event(text).toString()),
  );
});

test('[R-852] an event that could be neither written nor removed is reported as uncertain', async () => {
  const { disk, process, spool } = await onDisk();
  await spool.append('outcome', event('before'));
  process.fate = (operation) => (operation === 'write' || operation === 'truncate' ? 'partly' : undefined);
  await expect(spool.append('outcome', event('lost'))).rejects.toMatchObject({ uncertain: true });
  process.fate = () => undefined;
  await spool.append('outcome', event('after'));
  expect(disk.files(ROOT, '.segment')).toHaveLength(2);
  expect((await spool.take(9, 1e6)).map(textOf)).toEqual(
    ['before', 'after'].map((text) => event(text).toString()),
  );
});

test('[R-852] while the disk does not answer, events in memory are bounded', async () => {
  const { process, spool } = await onDisk();
  await spool.append('outcome', event('before'));
  let answer!: () => void;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  const write = process.files.write.bind(process.files);
  process.files.write = async (...args) => {
    await answered;
    await write(...args);
  };
  const body = Buffer.alloc(1 << 20, 'x');
  const appended = Array.from({ length: 40 }, () =>
    spool.append('outcome', body).then(
      () => 'taken',
      (error: unknown) => error,
    ),
  );
  answer();
  const answers = await Promise.all(appended);
  expect(answers.filter((one) => one === 'taken')).toHaveLength(31);
  expect(answers.at(-1)).toBeInstanceOf(SpoolFull);
});

test('a quarantined event is in the file unchanged, with its reason, and no longer waits', async () => {
  const directory = scratchDirectory();
  const spool = await openSpool({ directory, durability: 'fsync' });
  const bodies = [event('häßlich "quoted"'), Buffer.from([0xff, 0x00, 0x80])];
  for (const body of bodies) await spool.append('human-output', body);
  for (const taken of await spool.take(2, 1e6)) await spool.quarantine(taken, REFUSAL);
  expect(spool.state).toMatchObject({ waiting: 0, waitingBytes: 0, quarantined: 2 });
  await spool.close();
  const [file = ''] = fs.readdirSync(path.join(directory, 'quarantine'));
  const lines = fs
    .readFileSync(path.join(directory, 'quarantine', file), 'utf8')
    .trimEnd()
    .split('\n');
  const [text, bytes] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(text).toMatchObject({ at: REFUSAL.at, kind: 'human-output', refusal: REFUSAL });
  expect(text?.['event']).toBe(bodies[0]?.toString());
  expect(bytes?.['event_base64']).toBe(bodies[1]?.toString('base64'));
  for (const [index, line] of lines.entries()) {
    expect(readQuarantineLine(line, undefined)).toMatchObject({ kind: 'human-output', refusal: REFUSAL });
    expect(readQuarantineLine(line, undefined)).toMatchObject({ body: bodies[index] });
    // Cut short by a crash.
    expect(readQuarantineLine(line.slice(0, -1), undefined)).toBeUndefined();
  }
  expect((await drain(directory)).names).toEqual([]);
});

test('events that are quarantined at once are in the file in their order', async () => {
  const { disk, spool } = await onDisk();
  for (let index = 0; index < 9; index++) await spool.append('outcome', event(`${index}`));
  const events = await spool.take(9, 1e6);
  await Promise.all(events.map((taken) => spool.quarantine(taken, REFUSAL)));
  const [file = ''] = disk.files(`${ROOT}/quarantine`);
  const lines = disk.bytesOf(file).toString().trimEnd().split('\n');
  expect(lines.map((line) => (JSON.parse(line) as { event: string }).event)).toEqual(events.map(textOf));
});

test('a quarantined event is done, also after a restart', async () => {
  const { disk, process, spool } = await onDisk();
  for (const text of ['one', 'two']) await spool.append('outcome', event(text));
  const [one] = await spool.take(1, 1e6);
  if (one) await spool.quarantine(one, REFUSAL);
  process.end();
  const next = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
  expect((await next.take(9, 1e6)).map(textOf)).toEqual([event('two').toString()]);
  await next.close();
});

test('[R-855] with a key the quarantine is sealed too', async () => {
  const key = Buffer.alloc(32, 3);
  const { disk, spool } = await onDisk({ key });
  await spool.append('outcome', event('secret'));
  const [taken] = await spool.take(1, 1e6);
  if (taken) await spool.quarantine(taken, { ...REFUSAL, message: 'secret' });
  const [file = ''] = disk.files(`${ROOT}/quarantine`);
  const line = disk.bytesOf(file).toString();
  expect(line).not.toContain('secret');
  expect(readQuarantineLine(line, key)).toMatchObject({ body: event('secret') });
  for (const other of [Buffer.alloc(32, 4), undefined]) {
    expect(readQuarantineLine(line, other)).toBe('sealed');
  }
});

test('[R-852] an event that cannot be quarantined still waits, and nothing of it is written', async () => {
  const { disk, process, spool } = await onDisk();
  await Promise.all(['one', 'two'].map((text) => spool.append('outcome', event(text))));
  const [one, two] = await spool.take(2, 1e6);
  if (!one || !two) throw new Error('not all were given out');
  await spool.quarantine(one, REFUSAL);
  const [file = ''] = disk.files(`${ROOT}/quarantine`);
  const before = Buffer.from(disk.bytesOf(file));
  disk.capacity = disk.used + 20;
  await expect(spool.quarantine(two, REFUSAL)).rejects.toThrow(SpoolFull);
  disk.capacity = Infinity;
  process.fate = (operation) => (operation === 'write' ? 'partly' : undefined);
  await expect(spool.quarantine(two, REFUSAL)).rejects.toThrow(SpoolUnwritable);
  expect(disk.bytesOf(file)).toEqual(before);
  expect(spool.state).toMatchObject({ waiting: 1, quarantined: 1 });
  process.fate = () => undefined;
  await spool.quarantine(two, REFUSAL);
  expect(spool.state).toMatchObject({ waiting: 0, quarantined: 2 });
  expect(disk.bytesOf(file).toString().trimEnd().split('\n')).toHaveLength(2);
});

test('segments with only done events are removed', async () => {
  const { disk, spool } = await onDisk({ segmentBytes: 300 });
  for (let index = 0; index < 30; index++) await spool.append('outcome', event(`${index}`));
  expect(disk.files(ROOT, '.segment').length).toBeGreaterThan(3);
  for (const taken of await spool.take(100, 1e6)) spool.done(taken);
  await spool.flush();
  expect(disk.files(ROOT, '.segment').length).toBeLessThan(2);
});

test('[R-851] done events are marked in batches, and again after a failed write', async () => {
  const { disk, process, spool } = await onDisk();
  for (let index = 0; index < 10; index++) await spool.append('outcome', event(`${index}`));
  for (let index = 0; index < 8; index++) {
    for (const taken of await spool.take(1, 1e6)) spool.done(taken);
    process.fate = (operation, file) =>
      index % 3 === 1 && operation === 'write' && file.endsWith('.done') ? 'partly' : undefined;
    await spool.flush();
  }
  process.fate = () => undefined;
  await spool.flush();
  const [marks = ''] = disk.files(ROOT, '.done');
  // Each event once: the heads of the six batches, and 4 bytes an event.
  expect(disk.bytesOf(marks)).toHaveLength(6 * 8 + 8 * 4);
  process.end();
  const next = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
  expect((await next.take(99, 1e6)).map(textOf)).toEqual(['8', '9'].map((text) => event(text).toString()));
  await next.close();
});

test('events after giveBack and other events alternate', async () => {
  const { spool } = await onDisk();
  for (let index = 0; index < 10; index++) await spool.append('outcome', event(`${index}`));
  for (const taken of await spool.take(5, 1e6)) spool.giveBack(taken);
  const order: string[] = [];
  for (let index = 0; index < 10; index++) {
    order.push(
      ...(await spool.take(1, 1e6)).map((taken) => (JSON.parse(textOf(taken)) as { text: string }).text),
    );
  }
  expect(order.slice().sort()).toEqual(Array.from({ length: 10 }, (_, index) => `${index}`));
  expect(order.slice(0, 6).filter((text) => text < '5')).toHaveLength(3);
});

test('[R-853] a segment that is cut off while it is written does not block the spool', async () => {
  const { disk, spool, troubles } = await onDisk();
  for (let index = 0; index < 4; index++) await spool.append('outcome', event(`${index}`));
  const [file = ''] = disk.files(ROOT, '.segment');
  disk.cut(file, disk.bytesOf(file).length - 70);
  const events = await spool.take(9, 1e6);
  expect(events.map(textOf)).toEqual(['0', '1'].map((text) => event(text).toString()));
  expect(troubles[0]).toMatch(/are not a frame/);
});

test('troubles are reported each time', async () => {
  const { process, spool, troubles } = await onDisk();
  await spool.append('outcome', event('one'));
  const [one] = await spool.take(1, 1e6);
  process.fate = (operation, file) => (operation === 'open' && file.endsWith('.done') ? 'before' : undefined);
  if (one) spool.done(one);
  await spool.flush();
  await spool.flush();
  expect(troubles).toEqual(Array(2).fill('done events could not be marked'));
});

test('the number of open files does not grow', async () => {
  const { process, spool } = await onDisk({ segmentBytes: 200 });
  for (let index = 0; index < 200; index++) {
    await spool.append('outcome', event(`${index}`));
    for (const taken of await spool.take(1, 1e6)) spool.done(taken);
  }
  await spool.flush();
  expect(process.openDescriptors).toBeLessThan(4);
  await spool.close();
  expect(process.openDescriptors).toBe(0);
});

test('[R-866] after a request to stop reading, a spool returns no more events and closes', async () => {
  const { disk, spool } = await onDisk();
  await spool.append('outcome', Buffer.from('left'));
  await spool.close();
  const reading = new AbortController();
  const { files } = disk.process();
  const next = await openSpool({ directory: ROOT, durability: 'os', files, reading: reading.signal });
  reading.abort();
  expect(await next.take(1, 1000, AbortSignal.timeout(50))).toEqual([]);
  expect(next.state.waiting).toBe(1);
  await next.close();
});
