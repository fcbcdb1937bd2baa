import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fold, Words } from '../../src/records/words.js';

function isIn(text: string, ...values: readonly unknown[]): boolean {
  const search = new Words(text).search();
  for (const value of values) {
    if (search.mayBeIn(JSON.stringify(value))) search.look(value);
  }
  return search.isFound;
}

describe('words', () => {
  test.each<[string, string, boolean]>([
    ['sepsis', 'The criteria for SEPSIS are met.', true],
    ['sepsis', 'urosepsis', false],
    ['sepsis', 'sepsis2', false],
    ['"Sepsis", criteria!', 'criteria: (sepsis)', true],
    ['sepsis criteria', 'sepsis', false],
    ['straße', 'HAUPTSTRASSE, STRASSE', true],
    ['STRAẞE', 'straße', true],
    ['istanbul', 'İSTANBUL', true],
    ['ISTANBUL', 'ıstanbul', true],
    ['ü', 'u', false],
    ['Müller', 'Mu\u0308ller', true],
    ['Mu', 'Mu\u0308ller', false],
    ['fiber', 'ﬁber', true],
    ['5 µg', 'about 5 μg', true],
    ['οδός', 'ΟΔΌΣ', true],
    ['4.2', 'lactate 4.2 mmol/L.', true],
    ['4.2', '14.2', false],
    ['4.2', '4.25', false],
    ['mmol/l', 'mmol/L', true],
    ['hyper\u00adtension', 'hypertension', true],
    // There are no spaces between these.
    ['肺炎', '患者は肺炎です', true],
    ['ปอด', 'โรคปอดบวม', true],
    ['𝔰epsis', 'Sepsis', true],
    ['𐐨', 'a𐐀', false],
    ['𐐨', '😀𐐀😀', true],
  ])('[R-1862] "%s" in "%s": %s', (text, value, expected) => {
    expect(isIn(text, value)).toBe(expected);
  });

  test('[R-1862] all words are found anywhere in strings, and never in names of members', () => {
    const values = [{ prompt: [{ deep: ['septic'] }] }, { summary: 'shock', shock: 1 }];
    expect(isIn('septic shock', ...values)).toBe(true);
    expect(isIn('septic shock', values[0])).toBe(false);
    expect(isIn('prompt', ...values)).toBe(false);
    expect(isIn('1', ...values)).toBe(false);
    expect([new Words(' - ! ').count, new Words('a, A b').count]).toEqual([0, 2]);
  });

  test('[R-1862] the form and the case of a letter make no difference', () => {
    // A space is not a letter of a word.
    const spaced = (made: string) => made.replaceAll(/\s/gu, ' ');
    const text = fc.oneof(
      ...(['grapheme', 'binary'] as const).map((unit) => fc.string({ unit, maxLength: 12 })),
    );
    fc.assert(
      fc.property(text, (each) => {
        const folded = spaced(fold(each));
        const forms = ['NFC', 'NFD', 'NFKC', 'NFKD'].map((form) => each.normalize(form));
        for (const form of [...forms, each.toUpperCase(), each.toLowerCase(), folded])
          expect(spaced(fold(form))).toBe(folded);
      }),
      { examples: [['Straße'], ['İiIı'], ['ŉ'], ['ᾳ'], ['ﬃ'], ['\u1e9e'], ['ΐ'], ['ΑΣ ς'], ['\0가']] },
    );
  });

  test('[R-1862] at most 30 marks on a letter count', () => {
    const marked = (marks: number) => fold(`e${'\u0323\u0301'.repeat(marks / 2)}x`);
    expect(marked(40)).toBe(marked(100_000));
    expect(marked(30)).not.toBe(marked(28));
  });

  test('[R-1862] words that cannot be in the text of an event are in none of its strings', () => {
    const words = fc.string({
      unit: fc.constantFrom('a', 'B', 'ß', 'u', '\u0308', ' ', '.', '"', '\n', 'İ'),
    });
    fc.assert(
      fc.property(words, fc.array(words), fc.boolean(), (text, strings, isEscaped) => {
        const plain = JSON.stringify({ inputs: strings });
        const escape = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
        const json = isEscaped ? plain.replace(/[^\0-\x7f]/g, escape) : plain;
        const search = new Words(text).search();
        const other = new Words(text).search();
        if (search.mayBeIn(json)) search.look(JSON.parse(json));
        other.look(strings);
        expect(search.isFound).toBe(other.isFound);
      }),
    );
  });
});
