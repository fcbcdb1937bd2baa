import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NoteMalformed, formatCheckpoint, parseCheckpoint } from '../../src/verify/index.js';
import type { Checkpoint } from '../../src/verify/index.js';

const good = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n';

describe('the text of a checkpoint', () => {
  it('[R-910] is read as the specification shows it', () => {
    const checkpoint = parseCheckpoint(good);
    expect(checkpoint.origin).toBe('example.com/behind-the-sofa');
    expect(checkpoint.size).toBe(20852163);
    expect(Buffer.from(checkpoint.root).toString('hex')).toBe(
      '0ac5186a91863e8e1d90c808014aa89bf5da8e3ee1d9f07630f0378f68f1ab62',
    );
    expect(formatCheckpoint(checkpoint)).toBe(good);
  });

  it('is read back as it was written', () => {
    const checkpoint: fc.Arbitrary<Checkpoint> = fc.record({
      origin: fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\n')),
      size: fc.oneof(fc.maxSafeNat(), fc.constantFrom(0, 1, 2 ** 53 - 1)),
      root: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    });
    fc.assert(
      fc.property(checkpoint, (written) => {
        expect(parseCheckpoint(formatCheckpoint(written))).toEqual(written);
      }),
    );
  });

  it('[R-910] may have extension lines, which are ignored', () => {
    expect(parseCheckpoint(`${good}extension\nanother one\n`)).toEqual(parseCheckpoint(good));
  });

  it.each([
    ['nothing', '', 'end with a newline'],
    ['no newline at the end', good.slice(0, -1), 'end with a newline'],
    ['an empty line', `\n${good}`, 'none of them empty'],
    ['two lines', good.replace('20852163\n', ''), 'three lines'],
    ['an empty extension line', `${good}\nextension\n`, 'none of them empty'],
    ['a size with a leading zero', good.replace('2085', '02085'), 'tree size'],
    ['a size with a sign', good.replace('2085', '+2085'), 'tree size'],
    ['a size in hexadecimal', good.replace('20852163', '0x10'), 'tree size'],
    ['a size beyond 2^53 - 1', good.replace('20852163', '9007199254740992'), 'tree size'],
    ['a size of very many digits', good.replace('20852163', '9'.repeat(400)), 'tree size'],
    ['a root of 31 bytes', good.replace('CsUYapGG', 'CsUY'), 'root'],
    ['a root that is not base64', good.replace('CsUY', 'Cs Y'), 'root'],
    ['the first line of a key rotation', good.replace(/^.*/, 'clinical-events/key-rotation/v1'), 'rotation'],
  ])('is refused with %s', (_, text, message) => {
    expect(() => parseCheckpoint(text)).toThrow(NoteMalformed);
    expect(() => parseCheckpoint(text)).toThrow(message);
  });

  it.each([
    ['a newline in its origin', { origin: 'a\nb' }],
    ['an origin and a size in its origin', { origin: `log\n1\n${'A'.repeat(43)}=` }],
    ['no origin', { origin: '' }],
    ['the first line of a key rotation for its origin', { origin: 'clinical-events/key-rotation/v1' }],
    ['a negative size', { size: -1 }],
    ['a size that a double does not hold', { size: 2 ** 53 }],
    ['half a leaf', { size: 0.5 }],
    ['a root too short', { root: new Uint8Array(31) }],
  ])('is not written with %s', (_, change) => {
    const checkpoint = { origin: 'log', size: 1, root: new Uint8Array(32), ...change };
    expect(() => formatCheckpoint(checkpoint)).toThrow(NoteMalformed);
  });

  it('causes no other error, whatever it is', () => {
    const piece = fc.constantFrom('log', '\n', '0', '17', 'A'.repeat(43), '=', '\0', '\ud800');
    const nearly = fc.array(piece, { maxLength: 10 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(fc.oneof(nearly, fc.string({ unit: 'binary' })), (text) => {
        try {
          parseCheckpoint(text);
        } catch (error) {
          expect(error).toBeInstanceOf(NoteMalformed);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
