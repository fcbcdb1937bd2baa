/** Which spellings of an id a search for mentions finds, and which it does not. */
import { describe, expect, test } from 'vitest';
import { Mentions, NOT_FOUND_BY_SEARCH } from '../../src/commands/lifecycle/mentions.js';

const isIn = (id: string, body: string) => new Mentions([id]).areIn(Buffer.from(body));

describe('[R-1570] an id that a payload mentions', () => {
  test.each([
    ['unchanged', 'patient-4711-ß', '{"a":"of patient-4711-ß."}'],
    ['as a JSON escape', 'patient-4711-ß', String.raw`{"a":"patient-4711-\u00df"}`],
    ['as a surrogate pair of escapes', 'p-𝟜', String.raw`{"a":"p-\ud835\udfdc"}`],
    ['with an escaped letter', 'jane', String.raw`{"a":"\u006aane"}`],
    ['with an escaped solidus', 'a/b', String.raw`{"a":"a\/b"}`],
    ['with an escaped quote', 'a"b', String.raw`{"a":"a\"b"}`],
    ['with an escaped backslash', 'a\\b', String.raw`{"a":"a\\b"}`],
    ['after an escape', '4711', String.raw`{"a":"of\n4711\t"}`],
    ['in upper case', 'jane doe', '{"a":"JANE DOE"}'],
    ['in lower case', 'JANE DOE', '{"a":"jane doe"}'],
    ['with SS for a sharp s', 'straße', '{"a":"STRASSE"}'],
    ['with a capital sharp s', 'straße', '{"a":"STRAẞE"}'],
    ['with a final sigma', 'ΟΔΟΣ', '{"a":"οδος"}'],
    ['with a combining accent', 'ren\u00e9', '{"a":"rene\u0301"}'],
    ['with a precomposed accent', 'rene\u0301', '{"a":"REN\u00c9"}'],
    ['in full width', 'P-4711', '{"a":"Ｐ－４７１１"}'],
    ['with a ligature', 'office', '{"a":"o\ufb03ce"}'],
    ['with the Kelvin sign', 'k-7', '{"a":"\u212a-7"}'],
    ['with several spaces', 'jane doe', '{"a":"jane   doe"}'],
    ['across lines', 'jane doe', String.raw`{"a":"jane\r\n\tdoe"}`],
    ['with a no-break space', 'jane doe', '{"a":"jane\u00a0doe"}'],
    ['with a tab in the file of subjects', 'jane\tdoe', '{"a":"jane doe"}'],
    ['with a control character', 'a\bc', String.raw`{"a":"a\bc"}`],
    ['as a number', '4711', '{"a":[{"b":4711}]}'],
    ['as a number beyond the precision of a double', '12345678901234567890', '{"a":12345678901234567890}'],
    ['as a member name', '4711', String.raw`{"\u0034711":1}`],
    ['deep in lists', 'jane', `${'['.repeat(20_000)}"jane"${']'.repeat(20_000)}`],
  ])('is found %s: %s', (_, id, body) => {
    expect(isIn(id, body)).toBe(true);
  });

  test.each([
    ['part of another', '4711', '{"a":"4711-2, ward_4711, 47112, x4711 and ä4711"}'],
    ['a pattern', 'a.b', '{"a":"axb"}'],
    ['a number near it', '12345678901234567890', '{"a":12345678901234567891}'],
    ['split over two members', 'jane doe', '{"given":"jane","family":"doe"}'],
    ['in base64', 'jane doe', '{"a":"amFuZSBkb2U="}'],
    ['misspelt', 'jane doe', '{"a":"jnae doe"}'],
    ['abbreviated', 'jane doe', '{"a":"j. doe"}'],
  ])('is not found where it is %s: %s', (_, id, body) => {
    expect(isIn(id, body)).toBe(false);
  });

  test('is found among several ids, whatever characters they have', () => {
    const ids = ['^$.*+?()[]{}|\\/-', 'zoë', '4711'];
    for (const id of ids)
      expect(new Mentions(ids).areIn(Buffer.from(JSON.stringify({ a: [`of ${id}!`] })))).toBe(true);
    expect(new Mentions(ids).areIn(Buffer.from('{"a":"of others"}'))).toBe(false);
  });

  test('is found in every case and composition that Unicode has for each character', () => {
    const missed = [];
    for (let code = 0; code < 0x1_1000; code += 0x100) {
      if (code >= 0xd800 && code < 0xe000) continue;
      const id = String.fromCodePoint(
        ...Array.from({ length: 0x200 }, (_, i) => (i % 2 === 0 ? 0x78 : code + (i >> 1))),
      ).trim();
      const mentions = new Mentions([id]);
      for (const text of [id.toUpperCase(), id.toLowerCase(), id.normalize('NFD'), id.normalize('NFKC')])
        if (!mentions.areIn(Buffer.from(JSON.stringify([text])))) missed.push(code.toString(16));
    }
    expect(missed).toEqual([]);
  });
});

test('[R-1570] a plan says that a search does not find misspelt, abbreviated, split and encoded ids', () => {
  for (const word of ['misspelt', 'abbreviated', 'split', 'encoded'])
    expect(NOT_FOUND_BY_SEARCH).toContain(word);
});
