import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RecentTable, WORDS_PER_ENTRY } from '../../../../src/store/embedded/id-index/sorted-run.js';

const word = fc.oneof(
  fc.nat({ max: 0xffff_ffff }),
  // The ends of the range: clusters that wrap around, and equal high words.
  fc.constantFrom(0, 1, 0x7fff_ffff, 0xffff_fffe, 0xffff_ffff),
);
const entries = fc.array(fc.tuple(word, word, fc.maxSafeNat()), { maxLength: 48 });

function filled(list: [number, number, number][]): RecentTable {
  const table = new RecentTable(64);
  for (const [hi, lo, address] of list) table.add(hi, lo, address);
  return table;
}

describe('the recent table', () => {
  test('finds every address under its fingerprint and no other', () => {
    fc.assert(
      fc.property(entries, word, word, (list, otherHi, otherLo) => {
        const table = filled(list);
        const asked: [number, number][] = [
          ...list.map(([hi, lo]): [number, number] => [hi, lo]),
          [otherHi, otherLo],
        ];
        for (const [hi, lo] of asked) {
          const out: number[] = [];
          const found = table.find(hi, lo, out, 0);
          const expected = list.filter(([h, l]) => h === hi && l === lo).map(([, , address]) => address);
          expect(out.slice(0, found).sort()).toEqual(expected.sort());
        }
      }),
    );
  });

  test('comes out sorted and complete, also where clusters wrap around', () => {
    fc.assert(
      fc.property(entries, (list) => {
        const out = new Uint32Array(64 * WORDS_PER_ENTRY);
        const count = filled(list).sorted(out);
        const sorted = Array.from({ length: count }, (_, i) => {
          const [hi = 0, lo = 0, low = 0, high = 0] = out.subarray(i * WORDS_PER_ENTRY);
          return [hi, lo, high * 2 ** 32 + low];
        });
        const byFingerprint = (a: number[], b: number[]): number =>
          (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0);
        expect(sorted.map(([hi, lo]) => [hi, lo])).toEqual(
          [...list].sort(byFingerprint).map(([hi, lo]) => [hi, lo]),
        );
        expect(sorted.map(String).sort()).toEqual(list.map(String).sort());
      }),
    );
  });

  test('takes no more than three quarters of its slots, and all of them again once cleared', () => {
    const table = new RecentTable(8);
    for (const round of [1, 2]) {
      for (let i = 0; i < 6; i++) table.add(0xffff_ffff, i, round);
      expect(() => table.add(0, 0, 0)).toThrow(RangeError);
      table.clear();
      expect(table.find(0xffff_ffff, 1, [], 0)).toBe(0);
    }
  });
});
