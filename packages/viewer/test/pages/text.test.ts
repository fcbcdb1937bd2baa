import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { block, exactly, inline, marked, plain } from '../../src/pages/text.js';
import { runs } from '../../../../test/property-runs.js';
import { textOfMarkup } from './markup.js';

describe('[R-2049] text of models and persons', () => {
  test.each([
    ['direction', 'a\u202eb\u202c', 'aU+202EbU+202C'],
    ['isolates', '\u2066a\u2069', 'U+2066aU+2069'],
    ['marks of direction', '\u200ea\u200fb\u061c', 'U+200EaU+200FbU+061C'],
    ['zero width', 'a\u200bb\u200dc\ufeff', 'aU+200BbU+200DcU+FEFF'],
    ['ignorable', 'a\u00adb\u{e0041}c\u3164', 'aU+00ADbU+E0041cU+3164'],
    ['controls', '\0\u001b[31m\u009b', 'U+0000 U+001B[31mU+009B'],
    ['separators', 'a\u2028b\u2029c\u0085', 'aU+2028bU+2029cU+0085'],
    ['half a character', '\ud83da', 'U+D83Da'],
    ['no character', '\ufdd0\uffff', 'U+FDD0 U+FFFF'],
    ['a return alone', 'a\rb', 'aU+000Db'],
    ['many in a row', '\u202e\u202e\u202e\u200b', 'U+202E ×3 U+200B'],
  ])('shows as marks: %s', (_, text, shown) => {
    expect(textOfMarkup(marked(text).text)).toBe(shown);
  });

  test('keeps letters of all scripts, signs, tabs and line breaks', () => {
    const text = 'Grüße שלום مرحبا 你好 🙂 \u00a0 a\tb\nc\r\nd';
    expect(marked(text).text).toBe(text.replace('\r\n', '\n'));
  });

  test('is never markup, and nothing of it is left out', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        for (const { text: made } of [marked(text), inline(text), block(text)]) {
          expect(
            made.replace(
              /<\/?(?:bdi|span class="mark"|span|div class="text prose" dir="auto"(?: role="group" aria-label="The whole text" tabindex="0")?|div)>/g,
              '',
            ),
          ).not.toMatch(/[<>"']|&(?!(?:amp|lt|gt|quot|#39);)/);
        }
        // Marks are taken back; a text that has such words itself is not of interest.
        fc.pre(!/U\+|×/.test(text));
        const back = marked(text).text.replace(/<span class="mark">([^<]*)<\/span>/g, (_, names: string) =>
          names.replace(/U\+([0-9A-F]+)(?: ×([\d,]+))? ?/g, (__, hex: string, times: string | undefined) =>
            `&#x${hex};`.repeat(Number(times?.replaceAll(',', '') ?? 1)),
          ),
        );
        expect(textOfMarkup(back)).toBe(text.replaceAll('\r\n', '\n'));
      }),
      { numRuns: runs(2000) },
    );
  });

  test('a mebibyte of invisible characters is one mark', () => {
    expect(marked('\u202e'.repeat(1 << 20)).text).toBe('<span class="mark">U+202E ×1,048,576</span>');
  });

  test('more invisible characters than a browser could show as elements are written in brackets', () => {
    const shown = marked('a\u202e\n'.repeat(100_000)).text;
    expect(shown.match(/<span/g)).toHaveLength(1);
    expect(shown).toMatch(/^<span class="mark">[^<]*<\/span> (?:a\[U\+202E\]\n){100000}$/);
  });

  test('a long text is folded and complete, a short one is not folded', () => {
    const long = `begin ${'word '.repeat(2000)}end`;
    expect(block(long).text).toMatch(/^<details class="long">/);
    expect(block(long).text).toContain(long);
    expect(block('line\n'.repeat(100)).text).toMatch(/^<details/);
    expect(block('short\ntext').text).toBe('<div class="text prose" dir="auto">short\ntext</div>');
  });

  test('in a field it comes back as it is, and in a title without invisible characters', () => {
    expect(exactly('a"\n\u202e<b>\0').text).toBe('a&quot;&#10;\u202e&lt;b&gt;\ufffd');
    expect(plain('a\u202eb')).toBe('a[U+202E]b');
  });
});
