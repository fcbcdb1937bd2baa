import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { durationText } from '../src/page/wording.js';

const MILLISECONDS: Readonly<Record<string, number>> = { ms: 1, s: 1e3, min: 6e4, h: 3.6e6, d: 8.64e7 };

describe('a duration has only known digits [R-715]', () => {
  test.each([
    [0, 0, '0 ms'],
    [1000, 0, '1 s'],
    [15.25, 0, '15.25 ms'],
    [83_456, 0, '1.391 min'],
    [997, 0.005, '1.00 s'],
    [304.2, 0.005, '300 ms'],
    [151.3, 0.005, '151 ms'],
    [1.234, 0.005, '1.23 ms'],
    [12_345, 0.005, '12.3 s'],
    [59_900, 0.005, '1.00 min'],
    [8_640_000_000, 0.005, '100 d'],
  ])('%d ms with an error of %d is %s', (value, error, text) => {
    expect(durationText(value, error).replace('\u202f', ' ')).toBe(text);
  });

  test('its last digit is at least the error', () => {
    fc.assert(
      fc.property(fc.double({ min: 0.01, max: 1e9, noNaN: true }), (value) => {
        const [number = '', unit = ''] = durationText(value, 0.005).split('\u202f');
        const size = MILLISECONDS[unit] ?? NaN;
        const [, decimals = ''] = number.split('.');
        expect(Math.abs(Number(number) * size - value)).toBeLessThanOrEqual(value * 0.026);
        if (decimals !== '') expect(10 ** -decimals.length * size).toBeGreaterThan(value * 0.0049);
      }),
    );
  });
});
