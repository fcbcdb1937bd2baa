import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatNote,
  formatVerifierKey,
  KeyMalformed,
  keyIdText,
  NoteMalformed,
  parseNote,
  parseVerifierKey,
  splitNotes,
} from '../../src/verify/index.js';
import type { NoteSignature, VerifierKey } from '../../src/verify/index.js';

const SPACES = /[\s\u0085]/u;
const name = fc.oneof(
  fc.stringMatching(/^[a-z0-9./-]{1,20}$/),
  fc
    .string({ unit: 'binary', minLength: 1 })
    // eslint-disable-next-line no-control-regex
    .filter((text) => !SPACES.test(text) && !/[+\u0000-\u001f]/.test(text)),
);
const signature: fc.Arbitrary<NoteSignature> = fc.record({
  name,
  keyId: fc.nat(0xffffffff),
  signature: fc.uint8Array({ minLength: 1, maxLength: 80 }),
});
const signatures = fc.array(signature, { minLength: 1, maxLength: 20 });
const noteText = fc
  .array(fc.constantFrom('', 'a', '— x YWJjZGU=', 'è subito sera.', '\u{1F600}', ' '), { maxLength: 8 })
  .map((lines) => `${lines.join('\n')}\n`);

const good = 'text\n\n— n YWJjZGU=\n';

describe('parseNote', () => {
  it('reads back what formatNote wrote, whatever the text looks like', () => {
    fc.assert(
      fc.property(noteText, signatures, (text, signed) => {
        expect(parseNote(formatNote(text, signed))).toEqual({ text, signatures: signed });
      }),
    );
  });

  it('[R-910] splits the note of the specification at its last empty line', () => {
    const text =
      'Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n';
    const encoded =
      'NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=';
    const note = parseNote(`${text}\n— quasimodo.example/salvatore ${encoded}\n`);
    expect(note.text).toBe(text);
    expect(note.signatures).toHaveLength(1);
    expect(note.signatures[0]).toMatchObject({ name: 'quasimodo.example/salvatore', keyId: 0x367ba04b });
    expect(note.signatures[0]?.signature).toHaveLength(64);
  });

  it('[R-910] reads 16 signatures and more, even if they are long', () => {
    const signed = Array.from({ length: 16 }, (_, keyId) => ({
      name: 'witness.example',
      keyId,
      signature: new Uint8Array(5000).fill(keyId),
    }));
    expect(parseNote(formatNote('text\n', signed)).signatures).toEqual(signed);
  });

  it.each([
    ['nothing', '', 'no empty line'],
    ['a text alone', 'text\n', 'no empty line'],
    ['no signature', 'text\n\n', 'no signature'],
    ['no newline at the end', good.slice(0, -1), 'end with a newline'],
    ['an empty line after the signatures', `${good}\n`, 'no signature'],
    ['something else after the signatures', `${good}text\n`, 'does not begin as one'],
    ['a hyphen for the dash', good.replace('—', '-'), 'does not begin as one'],
    ['no space after the dash', good.replace('— ', '—'), 'does not begin as one'],
    ['a key without a name', good.replace('n ', ' '), 'not a key name'],
    ['a plus in the name', good.replace('n ', 'n+ '), 'not a key name'],
    ['a wide space in the name', good.replace('n ', 'n\u3000n '), 'not a key name'],
    ['a next-line character in the name', good.replace('n ', 'n\u0085 '), 'not a key name'],
    ['a third part', good.replace('=\n', '= x\n'), 'not a key name'],
    ['a name alone', 'text\n\n— n\n', 'not a key name'],
    ['a signature that is not base64', good.replace('YW', '!!'), 'not the base64'],
    ['a key id and no signature', 'text\n\n— n YWJjZA==\n', 'not the base64'],
    ['a carriage return', good.replace('\n', '\r\n'), 'control character'],
    ['a tab', good.replace('text', 'te\txt'), 'control character'],
    ['a null', good.replace('text', 'te\0xt'), 'control character'],
    ['half a character', good.replace('text', 'te\ud800xt'), 'not Unicode'],
    ['129 signatures', `text\n\n${'— n YWJjZGU=\n'.repeat(129)}`, 'more than 128'],
    ['more than 1 MiB', `${'x'.repeat(1 << 20)}${good}`, 'longer than 1 MiB'],
  ])('refuses %s', (_, note, message) => {
    expect(() => parseNote(note)).toThrow(NoteMalformed);
    expect(() => parseNote(note)).toThrow(message);
  });

  it('throws nothing but NoteMalformed, and reads only what formatNote would write', () => {
    const piece = fc.constantFrom(
      'text',
      '\n',
      '\n\n',
      '— ',
      '—',
      ' ',
      '+',
      'YWJjZGU=',
      '=',
      '\r',
      '\ud800',
      'é',
    );
    const nearly = fc.array(piece, { maxLength: 14 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(fc.oneof(nearly, fc.string({ unit: 'binary' })), (text) => {
        let note;
        try {
          note = parseNote(text);
        } catch (error) {
          expect(error).toBeInstanceOf(NoteMalformed);
          return;
        }
        expect(formatNote(note.text, note.signatures)).toBe(text);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('formatNote', () => {
  const one = { name: 'n', keyId: 1, signature: new Uint8Array(4) };

  it.each([
    ['a text without a newline at its end', 'text', [one]],
    ['no signature', 'text\n', []],
    ['a text that ends as a note does, and no signature', good, []],
    ['a name with a newline', 'text\n', [{ ...one, name: 'n YWJjZGU=\n— n' }]],
    ['an empty signature', 'text\n', [{ ...one, signature: new Uint8Array(0) }]],
    ['a control character', 'te\u0001xt\n', [one]],
  ])('refuses %s', (_, text, signed) => {
    expect(() => formatNote(text, signed)).toThrow(NoteMalformed);
  });
});

describe('parseVerifierKey', () => {
  const example = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k';

  it('[R-910] reads the verifier key of the specification', () => {
    const key = parseVerifierKey(example);
    expect(key).toMatchObject({ name: 'example.com/foo', keyId: 0x530d903a, type: 1 });
    expect(key.publicKey).toHaveLength(32);
    expect(keyIdText(key.keyId)).toBe('530d903a');
    expect(formatVerifierKey(key)).toBe(example);
  });

  it('reads back what formatVerifierKey wrote', () => {
    const key: fc.Arbitrary<VerifierKey> = fc.record({
      name,
      keyId: fc.nat(0xffffffff),
      type: fc.constantFrom(1, 4),
      publicKey: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    });
    const longer = fc.record({
      name,
      keyId: fc.nat(0xffffffff),
      type: fc.constantFrom(0, 2, 5, 6, 255),
      publicKey: fc.uint8Array({ minLength: 1, maxLength: 1312 }),
    });
    fc.assert(
      fc.property(fc.oneof(key, longer), (written) => {
        expect(parseVerifierKey(formatVerifierKey(written))).toEqual(written);
      }),
    );
  });

  it.each([
    ['nothing', '', 'joined by plus signs'],
    ['two parts', 'n+530d903a', 'joined by plus signs'],
    ['no name', example.replace('example.com/foo', ''), 'name'],
    ['a space in the name', example.replace('/', ' '), 'name'],
    ['a newline before it', `\n${example}`, 'name'],
    ['a control character in the name', example.replace('/', '\u0001'), 'name'],
    ['half a character in the name', example.replace('/', '\ud800'), 'name'],
    ['a newline after it', `${example}\n`, 'not the base64'],
    ['a key id in upper case', example.replace('530d903a', '530D903A'), 'lowercase'],
    ['a key id of seven digits', example.replace('530d903a', '530d903'), 'lowercase'],
    ['a type and no key', 'n+530d903a+AQ==', 'not the base64'],
    ['no type', 'n+530d903a+', 'not the base64'],
    ['an Ed25519 key that is too short', 'n+530d903a+AekyeRrm', '32 bytes'],
    ['a very long key', `n+530d903a+${'A'.repeat(1 << 15)}`, 'too long'],
  ])('refuses %s', (_, vkey, message) => {
    expect(() => parseVerifierKey(vkey)).toThrow(KeyMalformed);
    expect(() => parseVerifierKey(vkey)).toThrow(message);
  });

  it('throws nothing but KeyMalformed, and reads only what formatVerifierKey would write', () => {
    const piece = fc.constantFrom('n', '+', '530d903a', 'AekyeRrm', '/w==', '=', ' ', '\n', example);
    const nearly = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(fc.oneof(nearly, fc.string()), (text) => {
        let key;
        try {
          key = parseVerifierKey(text);
        } catch (error) {
          expect(error).toBeInstanceOf(KeyMalformed);
          return;
        }
        expect(formatVerifierKey(key)).toBe(text);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('splitNotes', () => {
  const plainText = fc
    .array(fc.constantFrom('a', 'b c', '-'), { minLength: 1, maxLength: 4 })
    .map((lines) => `${lines.join('\n')}\n`);
  const note = fc.tuple(plainText, signatures).map(([text, signed]) => formatNote(text, signed));

  it('splits notes that are each followed by an empty line', () => {
    fc.assert(
      fc.property(fc.array(note, { maxLength: 5 }), (notes) => {
        expect(splitNotes(notes.map((one) => `${one}\n`).join(''))).toEqual(notes);
      }),
    );
  });

  it('reads a file with a single note', () => {
    expect(splitNotes(good)).toEqual([good]);
  });

  it('keeps the empty lines within a text', () => {
    const long = 'a\n\nb\n\n\n\nc\n\n— n YWJjZGU=\n';
    expect(splitNotes(`${long}\n\n\n${good}\n`)).toEqual([long, good]);
  });

  it('returns a note that was cut short last, and parseNote refuses it', () => {
    for (let length = 1; length < good.length; length++) {
      const [first, rest, ...more] = splitNotes(`${good}\n${good.slice(0, length)}`);
      expect(first).toBe(good);
      expect(more).toEqual([]);
      expect(() => parseNote(rest ?? '')).toThrow(NoteMalformed);
    }
  });

  it('finds no note in empty text', () => {
    expect(splitNotes('')).toEqual([]);
    expect(splitNotes('\n\n\n')).toEqual([]);
  });

  it('loses no line of a text of any content', () => {
    const lines = (text: string) => text.split('\n').filter((line) => line !== '');
    const piece = fc.constantFrom('a', '\n', '\n\n', '— n YWJjZGU=', '— ');
    const nearly = fc.array(piece, { maxLength: 14 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(nearly, (text) => {
        expect(splitNotes(text).flatMap(lines)).toEqual(lines(text));
      }),
      { numRuns: 2000 },
    );
  });
});
