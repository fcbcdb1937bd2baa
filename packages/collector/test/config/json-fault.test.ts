import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonFaultAt, repeatedNames } from '../../src/config/json-fault.js';

test.each([
  ['', 1, 1],
  ['abc', 1, 1],
  ['{"port": ', 1, 10],
  ['{"port": 1,}', 1, 12],
  ['{\n  "port": 80x\n}', 2, 13],
  ['{"host" "x"}', 1, 9],
  ["{'host': 1}", 1, 2],
  ['[1, 2', 1, 6],
  ['{} {}', 1, 4],
  ['"a\nb"', 1, 1],
  ['01', 1, 2],
])('in %j the first fault is at line %d, column %d', (text, line, column) => {
  expect(jsonFaultAt(text)).toEqual({ line, column });
});

const LETTERS = ['', ...Array.from(' \n\t"\\{}[]:,01-+.eEtrufalsn\u0001\u007fü')];

/** JSON, and JSON with one letter put in, taken out or changed. */
const nearlyJson = fc
  .tuple(fc.json({ maxDepth: 3 }), fc.nat(), fc.constantFrom(...LETTERS), fc.nat(1))
  .map(([text, place, letter, cut]) => {
    const at = place % (text.length + 1);
    return text.slice(0, at) + letter + text.slice(at + cut);
  });

test('there is a fault exactly where JSON.parse refuses', () => {
  fc.assert(
    fc.property(nearlyJson, (text) => {
      let valid = true;
      try {
        JSON.parse(text);
      } catch {
        valid = false;
      }
      expect(jsonFaultAt(text) === undefined).toBe(valid);
    }),
    { numRuns: 2000 },
  );
});

test('names that an object holds twice are told, however they are written, and once each', () => {
  expect(repeatedNames(String.raw`{"a": 1, "b": {"b": 1, "c": [{"c": 2}]}, "\u0061": {}, "a": 3}`)).toEqual([
    'a',
  ]);
  expect(repeatedNames('{"a": {"b": 1, "c": 1, "b": 2}, "c": [{"d": 1}, {"d": 1, "d": 2}]}')).toEqual([
    ...['a.b', 'c.d'],
  ]);
  expect(repeatedNames('"a"')).toEqual([]);
  fc.assert(
    fc.property(fc.array(fc.string(), { maxLength: 8 }), (names) => {
      const text = `{${names.map((name) => `${JSON.stringify(name)}: {"x": []}`).join(', ')}}`;
      const repeated = names.filter((name, i) => names.indexOf(name) < i);
      expect(new Set(repeatedNames(text))).toEqual(new Set(repeated));
    }),
  );
});
