import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeBase64, encodeBase64 } from '../../src/verify/encoding.js';

describe('base64', () => {
  it.each([
    ['', ''],
    ['f', 'Zg=='],
    ['fo', 'Zm8='],
    ['foo', 'Zm9v'],
    ['foob', 'Zm9vYg=='],
    ['fooba', 'Zm9vYmE='],
    ['foobar', 'Zm9vYmFy'],
  ])('[R-910] encodes the test vector "%s" of RFC 4648', (plain, text) => {
    expect(encodeBase64(Buffer.from(plain))).toBe(text);
    expect(decodeBase64(text)).toEqual(new Uint8Array(Buffer.from(plain)));
  });

  it('writes what Node writes, and reads it back', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const text = Buffer.from(bytes).toString('base64');
        expect(encodeBase64(bytes)).toBe(text);
        expect(decodeBase64(text)).toEqual(bytes);
      }),
    );
  });

  it('reads no text that it would not write', () => {
    const nearly = fc.string({
      unit: fc.constantFrom(...Array.from('AQZagz019+/=-_ \n\0é\u{1F600}')),
      maxLength: 12,
    });
    fc.assert(
      fc.property(fc.oneof(nearly, fc.string()), (text) => {
        const bytes = decodeBase64(text);
        if (bytes !== undefined) expect(encodeBase64(bytes)).toBe(text);
      }),
      { numRuns: 5000 },
    );
  });

  it.each([
    ['no padding', 'Zg'],
    ['too little padding', 'Zg='],
    ['too much padding', 'Zm9v===='],
    ['padding alone', '===='],
    ['one digit', 'Z==='],
    ['bits left over', 'Zh=='],
    ['bits left over before one padding', 'Zm9='],
    ['padding in the middle', 'Zg==Zg=='],
    ['the alphabet for URLs', 'Zm-_'],
    ['white space', 'Zm9v\n'],
    ['a digit that is not ASCII', 'Zm9\u0410'],
  ])('refuses %s', (_, text) => {
    expect(decodeBase64(text)).toBeUndefined();
  });
});
