import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import {
  formatNote,
  formatRotation,
  KeyMalformed,
  parseNote,
  RotationRefused,
} from '@clinical-events/protocol/verify';
import { expect, test } from 'vitest';
import { keyChain, verifierKeyOf } from '../../src/tree/note-signing.js';
import { signNote } from './sign-note.js';

const ORIGIN = 'ledger.example/ward-7';
const UNTIL = '2030-06-01T12:00:00Z';

interface Signer {
  readonly name: string;
  readonly privateKey: KeyObject;
  readonly vkey: string;
}

function signer(name = ORIGIN): Signer {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  return { name, privateKey, vkey: verifierKeyOf(name, publicKey) };
}

function textOf(from: Signer, to: Signer, until = UNTIL): string {
  return formatRotation({ origin: from.name, oldKey: from.vkey, newKey: to.vkey, until });
}

function rotation(from: Signer, to: Signer, until?: string): string {
  return signNote(textOf(from, to, until), [from, to]);
}

const [a, b, c, d] = [signer(), signer(), signer(), signer()];
const NOTES = [rotation(a, b), rotation(b, c, '2031-06-01T12:00:00.250Z'), rotation(c, d)];

test('[R-905] without a rotation the first key is the current one', () => {
  const { keys, current, until } = keyChain(a.vkey, []);
  expect(keys).toEqual([current]);
  expect(current.vkey).toBe(a.vkey);
  expect(until).toEqual([]);
});

test('[R-905] rotations lead from the first key to the current one', () => {
  const { keys, current, until } = keyChain(a.vkey, NOTES.slice(0, 2));
  expect(keys.map(({ vkey }) => vkey)).toEqual([a.vkey, b.vkey, c.vkey]);
  expect(current).toBe(keys[2]);
  expect(until).toEqual([Date.parse(UNTIL), Date.UTC(2031, 5, 1, 12, 0, 0, 250)]);
  expect(keyChain(a.vkey, NOTES).current.vkey).toBe(d.vkey);
});

test('[R-905] a note that does not bear both signatures is refused by its number', () => {
  const second = (note: string) => () => keyChain(a.vkey, [NOTES[0] ?? '', note, NOTES[2] ?? '']);
  const text = textOf(b, c);
  expect(second(signNote(text, [c]))).toThrow(
    new RotationRefused('rotation note 2: the old key has not signed it'),
  );
  expect(second(signNote(text, [b]))).toThrow(
    new RotationRefused('rotation note 2: the new key has not signed it'),
  );
  expect(second(signNote(text, [a, d]))).toThrow(
    new RotationRefused('rotation note 2: none of the known keys has signed the note'),
  );
  const [byOld, byNew] = parseNote(NOTES[1] ?? '').signatures;
  if (byOld === undefined || byNew === undefined) throw new Error('two signatures');
  const forged = formatNote(text, [byOld, { ...byNew, signature: byOld.signature }]);
  expect(second(forged)).toThrow(/^rotation note 2: a signature in the note is not by the key/);
});

test('[R-905] a note of another log, a gap, a repetition, or an earlier key is refused by its number', () => {
  const [first = '', second = '', third = ''] = NOTES;
  const [e, f] = [signer('other.example'), signer('other.example')];
  const broken = (notes: readonly string[]) => () => keyChain(a.vkey, notes);
  expect(broken([rotation(e, f)])).toThrow(new RotationRefused('rotation note 1: it belongs to another log'));
  const gap = (number: number, at: Signer): RotationRefused =>
    new RotationRefused(
      `rotation note ${number}: it does not follow the key that the log had then, ${at.vkey}`,
    );
  expect(broken([second])).toThrow(gap(1, a));
  expect(broken([first, third])).toThrow(gap(2, b));
  expect(broken([first, first])).toThrow(gap(2, b));
  expect(broken([first, second, first])).toThrow(gap(3, c));
  expect(broken([second, first])).toThrow(gap(1, a));
  expect(broken([first, second, rotation(c, a)])).toThrow(
    new RotationRefused('rotation note 3: it names a key that the log had before'),
  );
});

test('a text other than a rotation note is refused by its number', () => {
  expect(() => keyChain(a.vkey, ['', NOTES[0] ?? ''])).toThrow(
    /^rotation note 1: the note has no empty line/,
  );
  const checkpoint = signNote(`${ORIGIN}\n0\nAAAA\n`, [a, b]);
  expect(() => keyChain(a.vkey, [checkpoint])).toThrow(
    /^rotation note 1: the text does not begin as a rotation/,
  );
  expect(() => keyChain(a.vkey, [(NOTES[0] ?? '').slice(0, -1)])).toThrow(RotationRefused);
});

test('an overlap that ends in a leap second is refused, because clocks here never show one', () => {
  expect(() => keyChain(a.vkey, [rotation(a, b, '2016-12-31T23:59:60Z')])).toThrow(
    'rotation note 1: the end of its overlap is not a valid time',
  );
});

test('a log does not begin with a key that cannot sign notes', () => {
  expect(() => keyChain('not a key', [])).toThrow(KeyMalformed);
  const witness = 'remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2';
  expect(() => keyChain(witness, [])).toThrow('the first key of a log does not sign notes');
});
