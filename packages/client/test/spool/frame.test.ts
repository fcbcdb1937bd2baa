import { crc32 } from 'node:zlib';
import path from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeFrame, encodeFrame, frameSize, plausibleSize } from '../../src/spool/segment.js';
import { decodeSegmentHeader, encodeSegmentHeader, sealOf, segmentId } from '../../src/spool/segment.js';
import { openText, sealText } from '../../src/spool/seal.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { SpoolKeyWrong } from '../../src/spool/spool.js';
import { MemoryDisk } from './memory-disk.js';
import { read, ROOT, segmentWith, textOf } from './spooled-segments.js';

const KEY = Buffer.from(Array.from({ length: 32 }, (_, index) => index));
const ID = segmentId('0190aabbccdd01020304050607', 5);

function encoded(body: Buffer, seal: ReturnType<typeof sealOf> | undefined): Buffer {
  const context = { checksumStart: crc32(ID), seal };
  const frame = Buffer.alloc(frameSize(body.length, context));
  encodeFrame(frame, 0, context, 'human-output', 1_800_000_000_000, 7, body);
  return frame;
}

// The examples of docs/internals/formats.md: anyone who writes the format in another language can begin with them.
test('a plain header and frame have the documented bytes', () => {
  expect(encodeSegmentHeader(ID, undefined).toString('hex')).toBe(
    '434c494e53504f4c01000000400000000190aabbccdd010203040506070000050000000000000000000000000000000000000000000000000000000038a9da24',
  );
  expect(encoded(Buffer.from('{}'), undefined).toString('hex')).toBe(
    '688ab7a7ff5acefe220000000200000000505c18a301000007000000000000007b7d',
  );
});

test('a sealed header and frame have the documented bytes', () => {
  const seal = sealOf(KEY, ID);
  expect(encodeSegmentHeader(ID, seal).toString('hex')).toBe(
    '434c494e53504f4c01010000400000000190aabbccdd01020304050607000005984339f22f3ebb4cc3d5faa77a272d740000000000000000000000008fc9cde6',
  );
  expect(encoded(Buffer.from('{}'), seal).toString('hex')).toBe(
    '35fc229fff5acefe320000000201000000505c18a301000007000000000000007c63a365c841c649b54a682249bc8aabc835',
  );
});

test('a frame is read as it was written', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), fc.nat(40), (body, sealed, before) => {
      const context = { checksumStart: crc32(ID), seal: sealed ? sealOf(KEY, ID) : undefined };
      const size = frameSize(body.length, context);
      const target = Buffer.alloc(before + size + 10, 1);
      encodeFrame(target, before, context, 'outcome', 2 ** 41, 2 ** 40, body);
      expect(plausibleSize(target, before, size)).toBe(size);
      expect(plausibleSize(target, before, size - 1)).toBe(0);
      const frame = decodeFrame(target, before, size, context);
      const read = { kind: 'outcome', capturedAt: 2 ** 41, number: 2 ** 40 };
      expect(frame).toEqual({ ...read, body: Buffer.from(body) });
      const blind = { checksumStart: crc32(ID), seal: undefined, blind: true };
      expect(decodeFrame(target, before, size, blind)).toMatchObject(read);
    }),
  );
});

test('[R-2055] a header is read as it was written, and differs from damage and other versions', () => {
  const header = encodeSegmentHeader(ID, undefined);
  expect(decodeSegmentHeader(header)).toEqual({ id: ID, keyCheck: undefined });
  for (let at = 0; at < header.length; at++) {
    const changed = Buffer.from(header);
    changed[at] = (changed[at] as number) ^ 0x80;
    expect(decodeSegmentHeader(changed)).toBe('damaged');
  }
  for (const [magic, version, verdict] of [
    ['CE-SPOOL', 1, 'earlier'],
    ['CE-SPOOL', 2, 'earlier'],
    ['CLINSPOL', 0, 'later'],
    ['CLINSPOL', 2, 'later'],
  ] as const) {
    const other = Buffer.from(header);
    other.write(magic);
    other[8] = version;
    other.writeUInt32LE(crc32(other.subarray(0, 60)), 60);
    expect(decodeSegmentHeader(other)).toBe(verdict);
  }
});

const OTHER = Buffer.alloc(32, 1);
const TEXTS = ['{"patient":"first"}', '{"patient":"second"}'];

test('[R-855] with a key, no event is on the disk in the clear', async () => {
  const { name, bytes } = await segmentWith(TEXTS, 'closed', { key: KEY });
  expect(bytes.includes('patient')).toBe(false);
  expect(bytes.includes(KEY.subarray(0, 8))).toBe(false);
  expect((await read({ [`${name}.segment`]: bytes }, { key: KEY })).texts).toEqual(TEXTS);
});

/** A disk with a part that is abandoned, and one sealed segment in it. */
async function withSealedPart(): Promise<{ disk: MemoryDisk; file: string; bytes: Buffer }> {
  const { name, bytes } = await segmentWith(TEXTS, 'closed', { key: KEY });
  const disk = new MemoryDisk();
  const series = 'a'.repeat(26);
  for (const at of [ROOT, `${ROOT}/${series}`]) disk.directories.add(at);
  const file = `${ROOT}/${series}/${name}.segment`;
  disk.put(file, bytes);
  return { disk, file, bytes };
}

test('[R-855] with another key the spool is refused, and nothing is changed', async () => {
  const { disk, file, bytes } = await withSealedPart();
  const { files } = disk.process();
  const opened = openSpool({ directory: ROOT, durability: 'os', files, key: OTHER });
  await expect(opened).rejects.toThrow(SpoolKeyWrong);
  expect(disk.files(ROOT)).toEqual([file]);
  expect(disk.bytesOf(file)).toEqual(bytes);
  expect([...disk.directories]).toEqual(['/', ROOT, path.dirname(file)]);
});

test('[R-855] a spool without a key leaves sealed parts alone, and captures in the clear', async () => {
  const { disk, file, bytes } = await withSealedPart();
  const troubles: string[] = [];
  const onTrouble = (what: string, error: unknown) => troubles.push(`${what}: ${String(error)}`);
  const { files } = disk.process();
  const spool = await openSpool({ directory: ROOT, durability: 'os', files, onTrouble });
  await spool.append('outcome', Buffer.from('in the clear'));
  expect((await spool.take(9, 1e6)).map(textOf)).toEqual(['in the clear']);
  await spool.close();
  expect(disk.bytesOf(file)).toEqual(bytes);
  expect(troubles).toEqual([expect.stringContaining('SpoolKeyWrong')]);
});

test('[R-855] events written in the clear before there was a key are still returned', async () => {
  const { name, bytes } = await segmentWith(TEXTS, 'closed');
  expect((await read({ [`${name}.segment`]: bytes }, { key: KEY })).texts).toEqual(TEXTS);
});

test('[R-855] a changed frame with a new checksum is detected', async () => {
  const { name, bytes } = await segmentWith(TEXTS, 'killed', { key: KEY });
  const size = bytes.readUInt32LE(64 + 8);
  const checksumStart = crc32(Buffer.from(name, 'hex'));
  // The kind, the time, the number, the ciphertext, the tag.
  for (const at of [12, 16, 24, 40, size - 1]) {
    const forged = Buffer.from(bytes);
    forged[64 + at] = (forged[64 + at] as number) ^ 1;
    forged.writeUInt32LE(crc32(forged.subarray(64 + 4, 64 + size), checksumStart), 64);
    const { texts, damaged } = await read({ [`${name}.segment`]: forged }, { key: KEY });
    expect(texts).toEqual([TEXTS[1]]);
    expect([...damaged.values()]).toEqual([forged.subarray(64, 64 + size)]);
  }
});

test('[R-855] no nonce is used twice under one key, not even after a write that failed', async () => {
  const disk = new MemoryDisk();
  const process = disk.process();
  const options = { directory: ROOT, durability: 'os', files: process.files, key: KEY } as const;
  const nonces = new Set<string>();
  let frames = 0;
  process.fate = (operation, file) => {
    if (operation !== 'write' || !file.endsWith('.segment')) return undefined;
    return ++frames % 5 === 0 ? 'after' : undefined;
  };
  // Everything that ever was on the disk, by watching the file after each append.
  const spool = await openSpool({ ...options, segmentBytes: 400 });
  const seen = new Set<string>();
  for (let i = 0; i < 20; i++) {
    await spool.append('outcome', Buffer.from(`event ${i}`)).catch(() => undefined);
    for (const file of disk.files(ROOT, '.segment')) {
      const bytes = disk.bytesOf(file);
      for (let at = 64; at + 32 <= bytes.length; at += bytes.readUInt32LE(at + 8)) {
        const frame = bytes.subarray(at, at + bytes.readUInt32LE(at + 8)).toString('hex');
        if (seen.has(frame)) continue;
        seen.add(frame);
        const nonce = `${file.slice(-40)} ${bytes.toString('hex', at + 24, at + 32)}`;
        expect(nonces.has(nonce)).toBe(false);
        nonces.add(nonce);
      }
    }
  }
  await spool.close();
  expect(nonces.size).toBeGreaterThan(8);
});

test('a key of another length is refused', async () => {
  const opened = openSpool({ directory: ROOT, durability: 'os', key: Buffer.alloc(16) });
  await expect(opened).rejects.toThrow(SpoolKeyWrong);
});

test('a sealed text opens with its key, and with no other, and not when it was changed', () => {
  const sealed = sealText(KEY, 'a line of text');
  expect(sealed.includes('line')).toBe(false);
  expect(openText(KEY, sealed)).toBe('a line of text');
  expect(openText(OTHER, sealed)).toBeUndefined();
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] as number) ^ 1;
    expect(openText(KEY, changed)).toBeUndefined();
  }
  expect(openText(KEY, sealed.subarray(0, 20))).toBeUndefined();
  expect(textOf({ body: sealText(KEY, '') })).not.toBe('');
});
