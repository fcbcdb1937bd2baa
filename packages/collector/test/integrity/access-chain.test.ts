import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AccessChain, headFields, headIn } from '../../src/integrity/access-chain.js';

/** As docs/INTEGRITY.md has it. */
function headOf(lines: readonly Uint8Array[]): string {
  let head: Buffer = Buffer.alloc(32);
  for (const line of lines) head = createHash('sha256').update(head).update(line).digest();
  return head.toString('hex');
}

const line = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.integer({ min: 4000, max: 9000 }).map((length) => new Uint8Array(length).fill(length)),
);
const lines = fc.array(line.map((bytes) => bytes.map((byte) => (byte === 0x0a ? 0x0b : byte))));

test('[R-718] the head is that of the lines, in whatever pieces they come, and each line is handed over', () => {
  fc.assert(
    fc.property(lines, fc.uint8Array({ maxLength: 20 }), fc.array(fc.nat(5000)), (whole, rest, cuts) => {
      const behind = rest.filter((byte) => byte !== 0x0a);
      const bytes = Buffer.concat([...whole.flatMap((each) => [each, Buffer.of(0x0a)]), behind]);
      const chain = new AccessChain(5000);
      const got: (Buffer | undefined)[] = [];
      let at = 0;
      for (const cut of [...cuts, bytes.length]) {
        const piece = Buffer.from(bytes.subarray(at, at + cut));
        chain.take(piece, (each) => got.push(each && Buffer.from(each)));
        piece.fill(0);
        at += cut;
      }
      expect(chain.head).toEqual({ lines: whole.length, head: headOf(whole) });
      expect([chain.bytes, chain.pending]).toEqual([bytes.length - behind.length, behind.length]);
      expect(got).toEqual(whole.map((each) => (each.length > 5000 ? undefined : Buffer.from(each))));
      // What had no end is read once more from where it begins.
      chain.rewind();
      chain.take(Buffer.concat([behind, Buffer.of(0x0a)]));
      expect(chain.head.head).toBe(headOf([...whole, behind]));
    }),
  );
});

test('[R-718] no line can be changed, removed, put in or moved without another head', () => {
  const log = ['a', 'b', 'c'].map((text) => Buffer.from(text));
  const [a, b, c] = log as [Buffer, Buffer, Buffer];
  const others = [
    [a, c],
    [a, b],
    [b, c],
    [a, c, b],
    [a, b, b, c],
    [Buffer.from('ab'), c],
    [a, Buffer.from('x'), c],
  ];
  expect(new Set([log, ...others].map(headOf)).size).toBe(8);
});

test('a head is read as it was written, and nothing else is one', () => {
  const head = { lines: 7, head: 'ab'.repeat(32) };
  const text = JSON.stringify({ event_id: 'x', ...headFields(head) });
  expect(headIn(Buffer.from(text))).toEqual(head);
  for (const [from, to] of [
    ['v1', 'v2'],
    [':7', ':-7'],
    [':7', ':"7"'],
    ['ab', 'AB'],
    ['ab', ''],
    ['{', '[{'],
  ] as const) {
    expect(headIn(Buffer.from(text.replace(from, to)))).toBeUndefined();
  }
  fc.assert(fc.property(fc.json(), (json) => headIn(Buffer.from(json)) === undefined));
});
