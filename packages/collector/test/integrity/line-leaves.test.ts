import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LineLeaves, type Line } from '../../src/integrity/line-leaves.js';
import { leafOf } from './rfc-tree.js';

const LIMIT = 6;

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const size of sizes) {
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return [...pieces, bytes.subarray(at)];
}

const text = fc.string({ unit: fc.constantFrom('a', '\r', '\0', '\u00e9', '\n'), maxLength: 60 });

describe('the lines of a file as leaves', () => {
  test('[R-718] are the same in whatever pieces it is read, and what has no line feed is none yet', () => {
    fc.assert(
      fc.property(text, fc.array(fc.nat(9)), (file, sizes) => {
        const taken: Line[] = [];
        const lines = new LineLeaves(LIMIT);
        for (const piece of cut(Buffer.from(file), sizes)) {
          for (const line of lines.take(piece)) {
            const { leaf, length, bytes } = line;
            taken.push({ leaf: Buffer.from(leaf), length, bytes: bytes && Buffer.from(bytes) });
          }
        }
        const parts = file.split('\n').map((part) => Buffer.from(part));
        expect(lines.pending).toBe(parts.pop()?.length);
        expect(taken).toEqual(
          parts.map((bytes) => ({
            leaf: leafOf(bytes),
            length: bytes.length + 1,
            bytes: bytes.length > LIMIT ? undefined : bytes,
          })),
        );
      }),
    );
  });

  test('[R-718] of any length have the hash that the standard says', () => {
    for (const length of [0, 1, 4095, 4096, 4097, 100_000]) {
      const line = Buffer.alloc(length, 'x');
      const [taken] = new LineLeaves(0).take(Buffer.concat([line, Buffer.from('\n')]));
      expect(taken).toMatchObject({ leaf: leafOf(line), length: length + 1 });
    }
  });
});
