import { expect, test } from 'vitest';
import { inspectSpool, looksLikeSpool } from '../../src/spool/inspection.js';
import { Spool } from '../../src/spool/spool.js';
import { MemoryDisk } from './memory-disk.js';
import { ROOT } from './spooled-segments.js';

const KEY = Buffer.alloc(32, 4);

test.each([undefined, KEY])(
  '[R-866] what a spool holds is told, and nothing in it is changed',
  async (key) => {
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

    const { parts, quarantine, damaged } = await inspectSpool(ROOT, key, disk.process().files);
    const frame = 32 + 100 + (key ? 16 : 0);
    const [part] = parts;
    expect(parts).toHaveLength(1);
    expect(part).toMatchObject({ holder: undefined, waiting: 4, waitingBytes: 4 * frame });
    expect(part?.segments).toBe(files.filter((file) => file.endsWith('.segment')).length);
    expect(Date.parse(part?.oldest ?? '')).toBeGreaterThanOrEqual(before);
    const reasons = [{ status: '400', code: '', events: 1 }];
    expect(quarantine).toMatchObject([{ events: 1, sealed: 0, unreadable: 0, reasons }]);
    expect(damaged).toEqual([{ path: `${ROOT}/damaged/some.bytes`, bytes: 7, missing: undefined }]);
    expect(disk.files(ROOT)).toEqual(files);

    const living = await Spool.open({ ...options, files: disk.process().files });
    const found = await inspectSpool(ROOT, key, disk.process().files);
    expect(found.parts).toMatchObject([{ holder: { pid: process.pid, here: true }, waiting: 4 }]);
    if (key) {
      const blind = await inspectSpool(ROOT, undefined, disk.process().files);
      // Only what is in a frame is sealed.
      expect(blind.parts).toMatchObject([{ holder: {}, waiting: 4, waitingBytes: 4 * frame }]);
      expect(blind.parts[0]?.problem).toContain('sealed');
      expect(blind.quarantine).toMatchObject([{ events: 1, sealed: 1, reasons: [] }]);
    }
    await living.close();
  },
);

test('[R-866] a directory that is empty may be a spool, and one with other things in it is none', async () => {
  const disk = new MemoryDisk();
  const { files } = disk.process();
  disk.directories.add(ROOT);
  expect(await looksLikeSpool(ROOT, files)).toBe(true);
  disk.put(`${ROOT}/letters.txt`, Buffer.alloc(1));
  expect(await looksLikeSpool(ROOT, files)).toBe(false);
  disk.directories.add(`${ROOT}/${'0'.repeat(26)}`);
  expect(await looksLikeSpool(ROOT, files)).toBe(true);
  await expect(looksLikeSpool('/elsewhere', files)).rejects.toThrow();
});

test('[R-866] reasons of a hostile file are short, few and text', async () => {
  const disk = new MemoryDisk();
  const refusals = Array.from({ length: 500 }, (_, index) => ({
    status: 100 + index,
    code: 'x'.repeat(index + 1),
    at: '',
  }));
  const strange = [
    { status: {}, code: [], at: '' },
    { status: 'John Doe', code: 'John Doe 1950-01-01', at: '' },
  ];
  const lines = [...refusals, ...strange].map((refusal) =>
    JSON.stringify({ kind: 'outcome', captured_at: '', event: '', refusal }),
  );
  disk.directories.add(ROOT).add(`${ROOT}/quarantine`);
  disk.put(`${ROOT}/quarantine/a.ndjson`, Buffer.from(lines.reverse().join('\n') + '\n\n{"kind":'));
  const { quarantine } = await inspectSpool(ROOT, undefined, disk.process().files);
  expect(quarantine).toMatchObject([{ events: 502, unreadable: 1 }]);
  expect(quarantine[0]?.reasons).toHaveLength(100);
  for (const { status, code } of quarantine[0]?.reasons ?? []) {
    expect(status).toMatch(/^(\d{3}|unknown)$/);
    expect(code).toMatch(/^(x{1,64}|an unknown code)$/);
  }
});
