import fc from 'fast-check';
import { expect, test } from 'vitest';
import { WaitingEvents } from '../src/demo-script.js';

test('what is taken is always the earliest, and of equal times the lowest number', () => {
  const step = fc.option(fc.tuple(fc.nat(50), fc.nat(1e6)));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const waiting = new WaitingEvents();
      let expected: (readonly [number, number])[] = [];
      const takeOne = () => {
        const earliest = expected[0];
        expect(waiting.due).toBe(earliest?.[0] ?? Infinity);
        if (earliest !== undefined) expect(waiting.take()).toBe(earliest[1]);
        expected = expected.slice(1);
      };
      for (const event of steps) {
        if (event === null) takeOne();
        else {
          waiting.add(event[0], event[1]);
          expected = [...expected, event].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
        }
        expect(waiting.size).toBe(expected.length);
      }
      while (expected.length > 0) takeOne();
    }),
  );
});

test('there is room for more than it begins with', () => {
  const waiting = new WaitingEvents();
  for (let number = 5000; number > 0; number--) waiting.add(number, number);
  for (let number = 1; number <= 5000; number++) expect(waiting.take()).toBe(number);
  expect(waiting.due).toBe(Infinity);
});
