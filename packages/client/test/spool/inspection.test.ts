import { expect, test } from 'vitest';
import { inspectSpool } from '../../src/spool/inspection.js';
import { Spool } from '../../src/spool/spool.js';
import { MemoryDisk } from './memory-disk.js';
import { ROOT } from './spooled-segments.js';

const KEY = Buffer.alloc(32, 4);

test.each([undefined, KEY])('what a spool holds is told, and nothing in it is changed', async (key) => {
  const disk = new MemoryDisk();
  const options = { directory: ROOT, durability: 'os', ...(key && { key }) } as const;
  const dead = disk.process();
  const left = await Spool.open({ ...options, files: dead.files, segmentBytes: 300 });
  const before = Date.now();
  for (let index = 0; index < 6; index++) await left.append('outcome', Buffer.alloc(100, 'x'));
  const [done, refused] = await left.take(2, 1e6);
  if (!done || !refused) throw new Error('not all were given out');
  left.done(done);
  await left.quarantine(refused, { status: 400, at: '2026-01-01T00:00:00Z' });
  dead.end();
  disk.put(`${ROOT}/damaged/some.bytes`, Buffer.alloc(7));
  disk.directories.add(`${ROOT}/damaged`);
  const files = disk.files(ROOT);

  const { directories, quarantine, damaged } = await inspectSpool(ROOT, key, disk.process().files);
  const frame = 32 + 100 + (key ? 16 : 0);
  const [directory] = directories;
  expect(directories).toHaveLength(1);
  expect(directory).toMatchObject({ held: false, waiting: 4, waitingBytes: 4 * frame });
  expect(directory?.segments).toBe(files.filter((file) => file.endsWith('.segment')).length);
  expect(Date.parse(directory?.oldest ?? '')).toBeGreaterThanOrEqual(before);
  expect(quarantine).toMatchObject([{ events: 1 }]);
  expect(damaged).toEqual([{ path: `${ROOT}/damaged/some.bytes`, bytes: 7 }]);
  expect(disk.files(ROOT)).toEqual(files);

  const living = await Spool.open({ ...options, files: disk.process().files });
  const found = await inspectSpool(ROOT, key, disk.process().files);
  expect(found.directories).toMatchObject([{ held: true, waiting: 4 }]);
  if (key) {
    const blind = await inspectSpool(ROOT, undefined, disk.process().files);
    expect(blind.directories).toMatchObject([{ held: true, waiting: undefined }]);
  }
  await living.close();
});
