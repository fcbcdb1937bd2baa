import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { numberOf, parseExact } from '../../src/records/raw-json.js';
import { growth, LINEAR } from '../running/growth.js';
import { runs } from '../../../../test/property-runs.js';

const spelling = fc.oneof(
  fc.stringMatching(/^-?(0|[1-9]\d{0,20})(\.\d{1,20})?([eE][+-]?\d{1,3})?$/),
  fc.stringMatching(/^-?(0|[1-9]\d{0,2})(\.[0-9]{1,3})?$/),
  fc.stringMatching(/^-?0\.0{0,9}[1-9]{0,3}0?$/).filter((text) => !text.endsWith('.')),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
);
const space = fc.constantFrom('', '', ' ', '\n', '\r\n\t ');
const text = fc.oneof(
  fc.string(),
  fc.constantFrom('a: 1.0, b', ':1.10,', '"', '\\', '\\"1.0', '44.180', '1e5'),
);

describe('parseExact', () => {
  test('keeps every number as it was written, and reads everything else like JSON.parse [R-112]', () => {
    const member = fc.tuple(text, space, space, spelling, space);
    fc.assert(
      fc.property(fc.array(member, { maxLength: 5 }), space, (members, before) => {
        const written = members.map(
          ([word, a, b, number, c]) => `${JSON.stringify(word)},${a}${b}${number}${c}`,
        );
        const value = parseExact(`${before}[${written.join(',')}]`);
        const expected = members.map(([word, , , number]) => `${JSON.stringify(word)},${number}`).join(',');
        expect(JSON.stringify(value)).toBe(`[${expected}]`);
      }),
      { numRuns: runs(3000) },
    );
  });

  test.each([
    ...['-0', '0', '0.0', '1.10', '1e400', '-1E-7', '12345678901234567890', '0.0000001', '0.1', '1.5'],
    '100',
  ])('%s is written as it was read, in any place [R-112]', (number) => {
    for (const whole of [`{"a":${number}}`, `{"a":{"b":[${number},"x",${number}]}}`, `[${number}]`, number]) {
      expect(JSON.stringify(parseExact(whole))).toBe(whole);
    }
  });

  test('names are written as they were read, whatever names were read before [R-112]', () => {
    for (const name of ['\\', '\n', 'a\\', 'a/', '"', '__proto__', '', '\u2028', '\ud800'])
      for (const spelt of [JSON.stringify(name), JSON.stringify(name).replaceAll('/', '\\/')]) {
        const value = parseExact(`{"x": [{}, [] , {"y":1.10}],${spelt} : {"x":1,${spelt}:[-0,"a:{[\\n"]} }`);
        const written = JSON.stringify(name);
        expect(JSON.stringify(value)).toBe(
          `{"x":[{},[],{"y":1.10}],${written}:{"x":1,${written}:[-0,"a:{[\\n"]}}`,
        );
      }
  });

  test('a number that a double spells the same way is a plain number', () => {
    expect(parseExact('{"latency_ms":412,"risk":0.873,"x":-1.5}')).toEqual({
      latency_ms: 412,
      risk: 0.873,
      x: -1.5,
    });
  });

  test('a member called __proto__ is a member', () => {
    const whole = '{"__proto__":{"a":1.0},"b":[1.0]}';
    expect(JSON.stringify(parseExact(whole))).toBe(whole);
  });

  test('a body of a mebibyte of odd numbers is read in linear time [R-803]', () => {
    const read = (numbers: number) => {
      const whole = `[${'1.0,'.repeat(numbers)}1.0]`;
      expect(JSON.stringify(parseExact(whole)).length).toBe(whole.length);
    };
    expect(growth(read, 1 << 15)).toBeLessThan(LINEAR);
  });
});

describe('numberOf', () => {
  test.each([
    ['3', 3],
    ['3.50', 3.5],
    ['1e2', 100],
    ['0.1000', 0.1],
    ['1e400', undefined],
    ['"3"', undefined],
    ['null', undefined],
    ['{"rawJSON":"3"}', undefined],
  ])('of %s is %s', (written, value) => {
    expect(numberOf((parseExact(`[${written}]`) as unknown[])[0])).toBe(value);
  });
});
