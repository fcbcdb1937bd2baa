import { describe, expect, test } from 'vitest';
import { addressIn, nameIn, OUTCOME_TYPES, ratingIn, wordIn } from '../src/values.js';

describe('a value of FHIR, OTLP and PROV', () => {
  test('is a name as sent, except characters that some format cannot hold [R-712]', () => {
    expect(nameIn('sepsis|risk é')).toBe('sepsis|risk é');
    expect(nameIn('a\u00a0b\u2028c\u3000d\te')).toBe('a b c d\te');
    expect(nameIn('a\u0000b\ud800c\u0085')).toBe('a\ufffdb\ufffdc\ufffd');
    for (const value of ['', ' \t\n', undefined, 4, null, {}, JSON.rawJSON('1.10')]) {
      expect(nameIn(value)).toBeUndefined();
    }
  });

  test('is an address that is a URI, but not a data: URI [R-712]', () => {
    expect(addressIn('s3://bucket/a%20b?v=1#c')).toBe('s3://bucket/a%20b?v=1#c');
    for (const value of [
      'see the chart',
      'note: high risk',
      'data:,High%20risk',
      'DATA:;base64,SGlnaA==',
      '',
      7,
    ]) {
      expect(addressIn(value)).toBeUndefined();
    }
  });

  test('is a word of the vocabulary [R-712]', () => {
    expect(wordIn(OUTCOME_TYPES, 'partial')).toBe('partial');
    for (const value of ['died in ICU', 'Partial', 'toString', undefined]) {
      expect(wordIn(OUTCOME_TYPES, value)).toBeUndefined();
    }
  });

  test('is a rating from 0 to 5, as a number or a text [R-712]', () => {
    expect(ratingIn(JSON.rawJSON('4.50'))).toBe(4.5);
    for (const value of [-1, 6, '4', JSON.rawJSON('1e400'), NaN]) expect(ratingIn(value)).toBeUndefined();
  });
});
