import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LineSplitter, type Line } from '../../src/importing/line-splitter.js';

/** The lines of an input that comes in these chunks, in memory that is used again for each. */
function linesOf(chunks: readonly Uint8Array[], limit = 1000): (Omit<Line, 'bytes'> & { text?: string })[] {
  const splitter = new LineSplitter(limit);
  const memory = Buffer.alloc(Math.max(1, ...chunks.map(({ length }) => length)));
  const told: (Omit<Line, 'bytes'> & { text?: string })[] = [];
  const tell = ({ bytes, ...line }: Line) =>
    told.push(bytes === undefined ? line : { ...line, text: bytes.toString('latin1') });
  for (const chunk of chunks) {
    memory.fill(0).set(chunk);
    for (const line of splitter.push(memory.subarray(0, chunk.length))) tell(line);
  }
  for (const line of splitter.end()) tell(line);
  return told;
}

function textsOf(input: string, limit?: number): (string | undefined)[] {
  return linesOf([Buffer.from(input, 'latin1')], limit).map(({ text }) => text);
}

/** The input, cut at these places. */
function cut(input: Uint8Array, places: readonly number[]): Uint8Array[] {
  const sorted = [0, ...places.map((place) => place % (input.length + 1)), input.length].sort(
    (a, b) => a - b,
  );
  return sorted.slice(1).map((end, i) => input.subarray(sorted[i], end));
}

describe('a line splitter [R-714]', () => {
  test('cuts at LF and CRLF, and hands over a last line that has neither', () => {
    expect(textsOf('one\r\ntwo\n\nthree')).toEqual(['one', 'two', '', 'three']);
    expect(textsOf('one\n')).toEqual(['one']);
    expect(textsOf('')).toEqual([]);
    // Only the one that belongs to the ending is taken away.
    expect(textsOf('a\rb\r\r\nc\r')).toEqual(['a\rb\r', 'c']);
  });

  test('takes a byte order mark away from the first line and from no other', () => {
    const mark = '\xef\xbb\xbf';
    expect(textsOf(`${mark}one\n${mark}two`)).toEqual(['one', `${mark}two`]);
    expect(textsOf(mark)).toEqual(['']);
  });

  test('does not hand over a line that is over the limit, tells where it stands, and goes on behind it', () => {
    expect(linesOf([Buffer.from('ab\nabcdef\nabcde\n')], 5)).toEqual([
      { number: 1, offset: 0, length: 2, text: 'ab' },
      { number: 2, offset: 3, length: 6 },
      { number: 3, offset: 10, length: 5, text: 'abcde' },
    ]);
  });

  test('gives the same lines however the input is cut into chunks', () => {
    const bytes = fc.array(fc.constantFrom(...Buffer.from('ab\n\r\xef\xbb\xbf', 'latin1')), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(
        bytes,
        fc.array(fc.nat(60), { maxLength: 8 }),
        fc.integer({ min: 0, max: 8 }),
        (all, places, limit) => {
          const input = Buffer.from(all);
          expect(linesOf(cut(input, places), limit)).toEqual(linesOf([input], limit));
        },
      ),
    );
  });

  test('tells places from which the whole input can be put together again', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', '{', '\r', '\n'), { maxLength: 60 }), (characters) => {
        const input = characters.join('');
        const lines = linesOf([Buffer.from(input)]);
        expect(lines.map(({ number }) => number)).toEqual(lines.map((_, i) => i + 1));
        const pieces = lines.map(({ offset, length }) => input.slice(offset, offset + length));
        expect(pieces.join('\n')).toBe(input.endsWith('\n') ? input.slice(0, -1) : input);
      }),
    );
  });
});
