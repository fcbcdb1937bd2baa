import { expect, test } from 'vitest';
import { eachWaiting, verifySpool } from '../../src/spool/inspection.js';
import { Spool, SpoolKeyWrong } from '../../src/spool/spool.js';
import { MemoryDisk } from './memory-disk.js';
import { ROOT, segmentWith, textOf } from './spooled-segments.js';

const KEY = Buffer.alloc(32, 4);
const SERIES = '0'.repeat(26);

function diskWith(files: Readonly<Record<string, Uint8Array>>): MemoryDisk {
  const disk = new MemoryDisk();
  disk.directories.add(ROOT).add(`${ROOT}/${SERIES}`);
  for (const [name, bytes] of Object.entries(files)) disk.put(`${ROOT}/${SERIES}/${name}`, bytes);
  return disk;
}

test.each([undefined, KEY])('[R-866] any byte of a segment that has changed is found', async (key) => {
  const { name, bytes } = await segmentWith(['one', 'two'], 'closed', key && { key });
  const verify = (changed: Buffer) =>
    verifySpool(ROOT, key, diskWith({ [`${name}.segment`]: changed }).process().files);
  expect(await verify(bytes)).toMatchObject({ segments: 1, events: 2, done: 0, findings: [] });
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] as number) ^ 1;
    const { findings } = await verify(changed);
    expect(findings, `byte ${at}`).not.toEqual([]);
    expect(findings[0]?.path).toBe(`${ROOT}/${SERIES}/${name}.segment`);
  }
});

test('[R-866] frames that were cut out of a segment that was ended are missed', async () => {
  const { name, bytes } = await segmentWith(['one', 'two'], 'closed');
  const cut = Buffer.concat([bytes.subarray(0, 64 + 35), bytes.subarray(64 + 2 * 35)]);
  const { findings } = await verifySpool(
    ROOT,
    undefined,
    diskWith({ [`${name}.segment`]: cut }).process().files,
  );
  expect(findings.map(({ message }) => message)).toEqual(['1 of its 2 events are missing']);
});

test('[R-866] what a living process is writing just now is no damage, and what a dead one has left is', async () => {
  const disk = new MemoryDisk();
  const writer = disk.process();
  const spool = await Spool.open({ directory: ROOT, durability: 'os', files: writer.files });
  await spool.append('outcome', Buffer.from('whole'));
  const [file = ''] = disk.files(ROOT, '.segment');
  const bytes = Buffer.from(disk.bytesOf(file));
  disk.put(file, Buffer.concat([bytes, bytes.subarray(64, 90)]));
  const { files } = disk.process();
  expect(await verifySpool(ROOT, undefined, files)).toMatchObject({ events: 1, findings: [] });
  writer.end();
  const { findings } = await verifySpool(ROOT, undefined, files);
  expect(findings.map(({ message }) => message)).toEqual([
    '26 bytes at 101 are no whole frame, nor is what is behind them: damage, or what a crash in the middle of a write leaves',
  ]);
  await spool.close();
});

test('[R-866] without its key a sealed spool is neither verified nor listed', async () => {
  const { name, bytes } = await segmentWith(['one'], 'closed', { key: KEY });
  const { files } = diskWith({ [`${name}.segment`]: bytes }).process();
  await expect(verifySpool(ROOT, undefined, files)).rejects.toThrow(SpoolKeyWrong);
  await expect(eachWaiting(ROOT, undefined, () => undefined, files)).rejects.toThrow(SpoolKeyWrong);
});

test('[R-866] the events that wait are listed, and those that are done are not', async () => {
  const disk = new MemoryDisk();
  const spool = await Spool.open({ directory: ROOT, durability: 'os', files: disk.process().files });
  for (const text of ['one', 'two', 'three']) await spool.append('user-feedback', Buffer.from(text));
  const [, two] = await spool.take(3, 1e6);
  if (two) spool.done(two);
  await spool.flush();
  const found: string[] = [];
  const { files } = disk.process();
  await eachWaiting(ROOT, undefined, (event) => void found.push(`${event.kind} ${textOf(event)}`), files);
  // Those that are taken wait as long as they are not done.
  expect(found).toEqual(['user-feedback one', 'user-feedback three']);
  await spool.close();
});
