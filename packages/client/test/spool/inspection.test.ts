import { expect, test } from 'vitest';
import { inspectSpool, looksLikeSpool, type VisitedEvent, readSpool } from '../../src/spool/inspection.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { SpoolKeyWrong } from '../../src/spool/spool.js';
import { MemoryDisk } from './memory-disk.js';
import { ROOT, segmentWith, textOf } from './spooled-segments.js';

const KEY = Buffer.alloc(32, 4);

test.each([undefined, KEY])(
  '[R-866] inspectSpool reports the contents of a spool, and changes nothing',
  async (key) => {
    const disk = new MemoryDisk();
    const options = { directory: ROOT, durability: 'os', ...(key && { key }) } as const;
    const dead = disk.process();
    const left = await openSpool({ ...options, files: dead.files, segmentBytes: 300 });
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

    const living = await openSpool({ ...options, files: disk.process().files });
    const found = await inspectSpool(ROOT, key, disk.process().files);
    expect(found.parts).toMatchObject([{ holder: { pid: process.pid, here: true }, waiting: 4 }]);
    if (key) {
      const blind = await inspectSpool(ROOT, undefined, disk.process().files);
      // Only what is in a frame is sealed.
      expect(blind.parts).toMatchObject([{ holder: {}, waiting: 4, waitingBytes: 4 * frame }]);
      expect(blind.parts[0]?.problem).toContain('encrypted');
      expect(blind.quarantine).toMatchObject([{ events: 1, sealed: 1, reasons: [] }]);
    }
    await living.close();
  },
);

test('[R-866] an empty directory may be a spool, and one with only other files is not', async () => {
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

const SERIES = '0'.repeat(26);

function diskWith(files: Readonly<Record<string, Uint8Array>>): MemoryDisk {
  const disk = new MemoryDisk();
  disk.directories.add(ROOT).add(`${ROOT}/${SERIES}`);
  for (const [name, bytes] of Object.entries(files)) disk.put(`${ROOT}/${SERIES}/${name}`, bytes);
  return disk;
}

test.each([undefined, KEY])('[R-866] a change of any byte of a segment is found', async (key) => {
  const { name, bytes } = await segmentWith(['one', 'two'], 'closed', key && { key });
  const read = (changed: Buffer) =>
    readSpool(ROOT, key, undefined, diskWith({ [`${name}.segment`]: changed }).process().files);
  expect(await read(bytes)).toMatchObject({ segments: 1, events: 2, done: 0, findings: [] });
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] as number) ^ 1;
    const { findings, cut } = await read(changed);
    // A size that has grown in the last frame looks like a write that was cut off.
    expect(findings.length + cut, `byte ${at}`).toBeGreaterThan(0);
    expect(cut === 0 || at >= bytes.length - (key ? 48 : 32)).toBe(true);
    for (const { path } of findings) expect(path).toBe(`${ROOT}/${SERIES}/${name}.segment`);
  }
});

test('[R-866] frames that were cut out of an ended segment are reported as missing', async () => {
  const { name, bytes } = await segmentWith(['one', 'two'], 'closed');
  const cut = Buffer.concat([bytes.subarray(0, 64 + 35), bytes.subarray(64 + 2 * 35)]);
  const { files } = diskWith({ [`${name}.segment`]: cut }).process();
  const { findings } = await readSpool(ROOT, undefined, undefined, files);
  expect(findings.map(({ message }) => message)).toEqual(['1 of its events are missing']);
});

test('[R-866] a partial write of a dead process is found, that of a living one is ignored', async () => {
  const disk = new MemoryDisk();
  const writer = disk.process();
  const spool = await openSpool({ directory: ROOT, durability: 'os', files: writer.files });
  await spool.append('outcome', Buffer.from('whole'));
  const [file = ''] = disk.files(ROOT, '.segment');
  const bytes = Buffer.from(disk.bytesOf(file));
  disk.put(file, Buffer.concat([bytes, bytes.subarray(64, 90)]));
  const { files } = disk.process();
  const found = () => readSpool(ROOT, undefined, undefined, files);
  expect(await found()).toMatchObject({ events: 1, cut: 0, findings: [] });
  writer.end();
  expect(await found()).toMatchObject({ events: 1, cut: 1, findings: [] });
  disk.put(file, Buffer.concat([bytes, Buffer.alloc(26, 1)]));
  const { findings } = await found();
  expect(findings.map(({ message }) => message)).toEqual([expect.stringContaining('26 bytes at 101')]);
  await spool.close();
});

test('[R-866] without its key a sealed spool is not read', async () => {
  const { name, bytes } = await segmentWith(['one'], 'closed', { key: KEY });
  const { files } = diskWith({ [`${name}.segment`]: bytes }).process();
  await expect(readSpool(ROOT, undefined, undefined, files)).rejects.toThrow(SpoolKeyWrong);
});

test('[R-866] each waiting or refused event is visited, and done ones are not', async () => {
  const disk = new MemoryDisk();
  const spool = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
  for (const text of ['one', 'two', 'three', 'four']) await spool.append('user-feedback', Buffer.from(text));
  const [, two, , four] = await spool.take(4, 1e6);
  if (two) spool.done(two);
  const refusal = { status: 400, at: '2026-01-01T00:00:00Z' };
  if (four) await spool.quarantine(four, refusal);
  await spool.flush();
  const found: unknown[] = [];
  const meet = ({ event }: VisitedEvent) => {
    if (typeof event === 'object') found.push([event.kind, textOf(event), event.refusal]);
  };
  await readSpool(ROOT, undefined, meet, disk.process().files);
  // Those that are taken wait as long as they are not done.
  expect(found).toEqual([
    ['user-feedback', 'one', undefined],
    ['user-feedback', 'three', undefined],
    ['user-feedback', 'four', refusal],
  ]);
  await spool.close();
});
