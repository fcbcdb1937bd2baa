import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { runs } from '../../../../test/property-runs.js';

const few = fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 40 });
const listed = (set: SequenceSet) =>
  [...set].flatMap(({ first, end }) => Array.from({ length: end - first }, (_, i) => first + i));
const sorted = (numbers: Iterable<number>) => [...new Set(numbers)].sort((a, b) => a - b);

describe('a set of sequences', () => {
  test('has its sequences, and behaves as a set', () => {
    fc.assert(
      fc.property(few, few, (a, b) => {
        const [one, other] = [SequenceSet.of(a), SequenceSet.of(b)];
        expect(listed(one)).toEqual(sorted(a));
        expect(one.size).toBe(new Set(a).size);
        expect(listed(one.with(other))).toEqual(sorted([...a, ...b]));
        expect(listed(one.without(other))).toEqual(sorted(a.filter((each) => !b.includes(each))));
        expect(listed(one.within(other))).toEqual(sorted(a.filter((each) => b.includes(each))));
        for (let i = 0; i < 62; i++) expect(one.has(i)).toBe(a.includes(i));
        const windows = one.windows(5);
        const gaps = windows.slice(1).map(({ first }, i) => first - (windows[i]?.end ?? 0));
        expect(gaps.every((gap) => gap >= 5)).toBe(true);
        const inWindows = listed(SequenceSet.ofStretches(windows));
        expect(inWindows.filter((each) => one.has(each))).toEqual(listed(one));
        expect(windows.every(({ first, end }) => one.has(first) && one.has(end - 1))).toBe(true);
        for (const [first, end] of [
          [1, 4],
          [10, 11],
          [20, 40],
        ] as const) {
          const between = (each: number) => each >= first && each < end;
          expect(one.meets(first, end)).toBe(a.some(between));
          expect(one.covers(first, end)).toBe(new Set(a.filter(between)).size === end - first);
        }
      }),
      { numRuns: runs(300) },
    );
  });

  test('is read as it was written', () => {
    const any = fc.array(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER - 1 }), { maxLength: 30 });
    fc.assert(
      fc.property(fc.oneof(few, any), (sequences) => {
        const set = SequenceSet.of(sequences);
        expect(SequenceSet.fromText(set.toText())).toEqual(set);
      }),
      { numRuns: runs(300) },
    );
  });

  test('is not read from a text that it does not write', () => {
    const texts = ['!', 'AA==', 'AQA=', '/w==', 'AQE', '////////////AQ==', 'AQEAAQ=='];
    for (const text of texts) expect(SequenceSet.fromText(text), text).toBeUndefined();
    fc.assert(
      fc.property(fc.base64String(), (text) => {
        const set = SequenceSet.fromText(text);
        if (set !== undefined) expect(set.toText()).toBe(text);
      }),
      { numRuns: runs(300) },
    );
  });
});
