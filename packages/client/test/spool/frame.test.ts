import fc from 'fast-check';
import { expect, test } from 'vitest';
import { crc32 } from 'node:zlib';
import { decodeFrame, encodeFrame, frameSize, plausibleSize } from '../../src/spool/frame.js';
import { decodeSegmentHeader, encodeSegmentHeader, sealOf, segmentId } from '../../src/spool/segment.js';

const KEY = Buffer.from(Array.from({ length: 32 }, (_, index) => index));
const ID = segmentId('0190aabbccdd01020304050607', 5);

function encoded(body: Buffer, seal: ReturnType<typeof sealOf> | undefined): Buffer {
  const context = { checksumStart: crc32(ID), seal };
  const frame = Buffer.alloc(frameSize(body.length, context));
  encodeFrame(frame, 0, context, 'human-output', 1_800_000_000_000, 7, body);
  return frame;
}

// The examples of docs/CLIENT_SPEC.md: whoever writes the format in another language can begin with them.
test('a header and a frame in the clear are these bytes', () => {
  expect(encodeSegmentHeader(ID, undefined).toString('hex')).toBe(
    '43452d53504f4f4c01000000400000000190aabbccdd0102030405060700000500000000000000000000000000000000000000000000000000000000e57a0409',
  );
  expect(encoded(Buffer.from('{}'), undefined).toString('hex')).toBe(
    '688ab7a7ff5acefe220000000200000000505c18a301000007000000000000007b7d',
  );
});

test('a header and a frame that are sealed are these bytes', () => {
  const seal = sealOf(KEY, ID);
  expect(encodeSegmentHeader(ID, seal).toString('hex')).toBe(
    '43452d53504f4f4c01010000400000000190aabbccdd01020304050607000005984339f22f3ebb4cc3d5faa77a272d74000000000000000000000000521a13cb',
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

test('a header is read as it was written, told from damage, and from one of a later version', () => {
  const header = encodeSegmentHeader(ID, undefined);
  expect(decodeSegmentHeader(header)).toEqual({ id: ID, keyCheck: undefined });
  for (let at = 0; at < header.length; at++) {
    const changed = Buffer.from(header);
    changed[at] = (changed[at] as number) ^ 0x80;
    expect(decodeSegmentHeader(changed)).toBe('damaged');
  }
  const later = Buffer.from(header);
  later[8] = 2;
  later.writeUInt32LE(crc32(later.subarray(0, 60)), 60);
  expect(decodeSegmentHeader(later)).toBe('later');
});
