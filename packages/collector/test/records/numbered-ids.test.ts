import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NumberedIds } from '../../src/records/numbered-ids.js';

/** So few low words that most ids meet others on their way. */
const id = fc.record({ hi: fc.integer({ min: 0, max: 3 }), lo: fc.integer({ min: 0, max: 40 }) });
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ add: id }) },
  { weight: 2, arbitrary: fc.record({ remove: fc.nat(200) }) },
);

test('it finds what a map finds, whatever is added and removed', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const ids = new NumberedIds();
      const model = new Map<string, number>();
      const free: number[] = [];
      let used = 0;
      for (const each of steps) {
        if ('add' in each) {
          const { hi, lo } = each.add;
          if (model.has(`${hi} ${lo}`)) continue;
          const number = free.pop() ?? used++;
          ids.add(number, hi, lo);
          model.set(`${hi} ${lo}`, number);
        } else {
          const [key, number] = [...model][each.remove] ?? [];
          if (key === undefined || number === undefined) continue;
          ids.remove(number);
          model.delete(key);
          free.push(number);
        }
      }
      for (let hi = 0; hi <= 3; hi++) {
        for (let lo = 0; lo <= 40; lo++) expect(ids.find(hi, lo)).toBe(model.get(`${hi} ${lo}`) ?? -1);
      }
    }),
    { numRuns: 500 },
  );
});
