import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatProof, NoteMalformed, parseProof } from '../../src/verify/index.js';
import type { TlogProof } from '../../src/verify/index.js';

const hash = (byte: number) => Buffer.alloc(32, byte).toString('base64');
const checkpoint = 'log.example\n2\nx\n\n— log.example YWJjZGU=\n';
const good = `c2sp.org/tlog-proof@v1\nextra YWJj\nindex 7\n${hash(1)}\n${hash(2)}\n\n${checkpoint}`;

const proofs: fc.Arbitrary<TlogProof> = fc.record({
  extra: fc.uint8Array({ maxLength: 80 }),
  index: fc.oneof(fc.maxSafeNat(), fc.constantFrom(0, 2 ** 53 - 1)),
  path: fc.array(fc.uint8Array({ minLength: 32, maxLength: 32 }), { maxLength: 64 }),
  checkpoint: fc.string({ unit: 'binary' }),
});

describe('the proof file', () => {
  it('[R-910] is laid out as the specification says', () => {
    const proof = {
      extra: Uint8Array.of(0x61, 0x62, 0x63),
      index: 7,
      path: [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)],
      checkpoint,
    };
    expect(formatProof(proof)).toBe(good);
    expect(parseProof(good)).toEqual(proof);
  });

  it('[R-910] has no line for missing extra data or an empty path', () => {
    const proof = { extra: new Uint8Array(0), index: 0, path: [], checkpoint };
    expect(formatProof(proof)).toBe(`c2sp.org/tlog-proof@v1\nindex 0\n\n${checkpoint}`);
    expect(parseProof(formatProof(proof))).toEqual(proof);
  });

  it('is read back as it was written', () => {
    fc.assert(
      fc.property(proofs, (proof) => {
        expect(parseProof(formatProof(proof))).toEqual(proof);
      }),
    );
  });

  it.each([
    ['nothing', '', 'no empty line'],
    ['another first line', good.replace('@v1', '@v2'), 'does not begin with'],
    ['no checkpoint', good.slice(0, good.indexOf('\n\n')), 'no empty line'],
    ['extra data that is not base64', good.replace('YWJj', 'YW-j'), 'extra data is not base64'],
    ['empty extra data', good.replace('YWJj', ''), 'announced and missing'],
    ['extra data twice', good.replace('index', 'extra YWJj\nindex'), 'index of the leaf'],
    ['no index', good.replace('index 7\n', ''), 'index of the leaf'],
    ['an index below zero', good.replace('7', '-7'), 'not a number'],
    ['an index with a leading zero', good.replace('7', '07'), 'not a number'],
    ['an index beyond 2^53 - 1', good.replace('7', '9007199254740992'), 'not a number'],
    ['a hash that is too long', good.replace(hash(1), `YWJj${hash(1)}`), '32 bytes'],
    ['a hash that is not base64', good.replace(hash(1), hash(1).replace('A', ' ')), '32 bytes'],
    ['carriage returns', good.replaceAll('\n', '\r\n'), 'no empty line'],
    ['65 hashes', good.replace(hash(1), Array(64).fill(hash(1)).join('\n')), 'longer than that of any tree'],
    ['more than 2 MiB', `${good}${'x'.repeat(1 << 21)}`, 'longer than 2 MiB'],
  ])('is refused with %s', (_, file, message) => {
    expect(() => parseProof(file)).toThrow(NoteMalformed);
    expect(() => parseProof(file)).toThrow(message);
  });

  it('is not written with invalid parts', () => {
    const proof = { extra: new Uint8Array(0), index: 0, path: [], checkpoint };
    expect(() => formatProof({ ...proof, index: -1 })).toThrow(NoteMalformed);
    expect(() => formatProof({ ...proof, path: [new Uint8Array(31)] })).toThrow(NoteMalformed);
  });

  it('causes no other error, and is read only as formatProof would write it', () => {
    const piece = fc.constantFrom('c2sp.org/tlog-proof@v1\n', 'extra ', 'YWJj', 'index ', '7', '\n', hash(3));
    const nearly = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
    const changed = fc
      .tuple(fc.nat(good.length - 1), fc.string({ unit: 'binary', maxLength: 1 }))
      .map(([at, character]) => good.slice(0, at) + character + good.slice(at + 1));
    fc.assert(
      fc.property(fc.oneof(nearly, changed, fc.string()), (text) => {
        let proof;
        try {
          proof = parseProof(text);
        } catch (error) {
          expect(error).toBeInstanceOf(NoteMalformed);
          return;
        }
        expect(formatProof(proof)).toBe(text);
      }),
      { numRuns: 3000 },
    );
  });
});
