import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import {
  formatCheckpoint,
  formatNote,
  formatVerifierKey,
  KeyMalformed,
  NoteForged,
  NoteMalformed,
  NoteUnsigned,
  parseNote,
  parseVerifierKey,
} from '@clinical-events/protocol/verify';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  noteKey,
  verifierKeyOf,
  verifyCosignature,
  verifyNote,
  type NoteKey,
} from '../../src/tree/note-signing.js';
import { signNote } from './sign-note.js';
import { noteConformance } from '../../../protocol/test/verify/note-conformance.js';
// Two checkpoints of public Certificate Transparency logs as their witnesses cosigned them, with the public keys that
// those witnesses publish: made by unrelated code, because the specifications have no such vectors.
import published from './cosigned-checkpoints.json' with { type: 'json' };
import { sha256 } from '../../../protocol/test/verify/rfc-tree.js';

interface Pair {
  readonly key: NoteKey;
  readonly name: string;
  readonly privateKey: KeyObject;
}

function pair(name: string): Pair {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  return { key: noteKey(verifierKeyOf(name, publicKey)), name, privateKey };
}

const ORIGIN = 'ledger.example/ward-7';
const ours = pair(ORIGIN);
const other = pair(ORIGIN);
const ROOT = sha256('root');
const TEXT = formatCheckpoint({ origin: ORIGIN, size: 42, root: ROOT });

/** The note with one bit of its first signature flipped. */
function spoilt(note: string): string {
  const { text, signatures } = parseNote(note);
  const [first, ...rest] = signatures;
  if (first === undefined) throw new Error('no signature');
  const signature = Uint8Array.from(first.signature);
  signature[signature.length - 1] = (signature.at(-1) ?? 0) ^ 1;
  return formatNote(text, [{ ...first, signature }, ...rest]);
}

noteConformance((note, vkeys) =>
  Promise.resolve().then(() => {
    const { text, signedBy } = verifyNote(note, vkeys.map(noteKey));
    return { text, signedBy: signedBy.map(({ vkey }) => vkey) };
  }),
);

describe('verifyNote', () => {
  test('[R-910] verifies a checkpoint of a public log', () => {
    const key = noteKey(published.ed25519.log);
    expect(verifyNote(published.ed25519.note, [key]).signedBy).toEqual([key]);
  });

  test('[R-903] verifies a signed note, and returns its signers', () => {
    const note = signNote(TEXT, [ours]);
    expect(verifyNote(note, [ours.key])).toEqual({ text: TEXT, signedBy: [ours.key] });
    expect(parseNote(signNote(TEXT, [other, ours])).signatures).toHaveLength(2);
  });

  test('never verifies more than was signed in a note that is cut off or has any byte changed', () => {
    const note = Buffer.from(signNote(TEXT, [ours]));
    const refused = (bytes: Buffer): void => {
      const faults = [NoteMalformed, NoteUnsigned, NoteForged];
      try {
        verifyNote(bytes.toString('utf8'), [ours.key]);
      } catch (error) {
        expect(faults.some((fault) => error instanceof fault)).toBe(true);
        return;
      }
      expect.unreachable(bytes.toString('utf8'));
    };
    for (let end = 0; end < note.length; end++) refused(note.subarray(0, end));
    for (let start = 1; start <= note.length; start++) refused(note.subarray(start));
    fc.assert(
      fc.property(fc.nat(note.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const changed = Buffer.from(note);
        changed[at] = (note[at] ?? 0) ^ flip;
        refused(changed);
      }),
      { numRuns: 500 },
    );
  });
});

describe('keys', () => {
  test('a verifier key is made and read again', () => {
    const { publicKey } = generateKeyPairSync('ed25519');
    const vkey = verifierKeyOf(ORIGIN, publicKey);
    const key = noteKey(vkey);
    expect(key).toMatchObject({ vkey, name: ORIGIN, keyId: parseVerifierKey(vkey).keyId, type: 1 });
    expect(key.publicKey.equals(publicKey)).toBe(true);
  });

  test('other keys than those for notes and cosignatures are refused', () => {
    const parsed = parseVerifierKey(ours.key.vkey);
    expect(() => noteKey('not a key')).toThrow(KeyMalformed);
    expect(() => noteKey(formatVerifierKey({ ...parsed, type: 2 }))).toThrow('unknown type 2');
    expect(() => noteKey(formatVerifierKey({ ...parsed, type: 6 }))).toThrow('has 1312 bytes');
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    expect(() => verifierKeyOf(ORIGIN, publicKey)).toThrow(KeyMalformed);
    expect(() => signNote(TEXT, [{ name: ORIGIN, privateKey }])).toThrow(KeyMalformed);
    expect(() => verifierKeyOf('a name', ours.key.publicKey)).toThrow(KeyMalformed);
  });

  test('a text that is not valid in a note is not signed', () => {
    expect(() => signNote('no end of line', [ours])).toThrow(NoteMalformed);
    expect(() => signNote('a bell\u0007\n', [ours])).toThrow(NoteMalformed);
    expect(() => signNote(TEXT, [])).toThrow(NoteMalformed);
  });
});

const TIME = 1_679_315_147;

interface Witness {
  readonly key: NoteKey;
  /** The note and, below it, this witness's signature of the message that it makes of the time. */
  readonly cosign: (note: string, message: Buffer, time?: number) => string;
}

function witness(type: 4 | 6, name = 'witness.example/w1'): Witness {
  const { publicKey, privateKey } =
    type === 4 ? generateKeyPairSync('ed25519') : generateKeyPairSync('ml-dsa-44');
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(type === 4 ? -32 : -1312);
  const keyId = sha256(`${name}\n`, Buffer.of(type), raw).readUInt32BE();
  return {
    key: noteKey(formatVerifierKey({ name, keyId, type, publicKey: raw })),
    cosign: (note, message, time = TIME) => {
      const { text, signatures } = parseNote(note);
      const signature = Buffer.concat([uint64(time), sign(null, message, privateKey)]);
      return formatNote(text, [...signatures, { name, keyId, signature }]);
    },
  };
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}

/** What a witness signs, written down from C2SP tlog-cosignature. */
const ed25519Message = (time = TIME, text = TEXT): Buffer =>
  Buffer.from(`cosignature/v1\ntime ${time}\n${text}`);
const mlDsaMessage = (time = TIME, size = 42, name = 'witness.example/w1', origin = ORIGIN): Buffer =>
  Buffer.concat([
    Buffer.from('subtree/v1\n\0'),
    Buffer.of(name.length),
    Buffer.from(name),
    uint64(time),
    Buffer.of(origin.length),
    Buffer.from(origin),
    uint64(0),
    uint64(size),
    ROOT,
  ]);

describe('verifyCosignature', () => {
  const note = signNote(TEXT, [ours]);

  test.each(published.ed25519.witnesses)('[R-910] a public checkpoint was cosigned by %s', (vkey) => {
    const { note: cosigned, time } = published.ed25519;
    const { text } = parseNote(cosigned);
    expect(verifyCosignature(cosigned, noteKey(vkey))).toEqual({ text, time });
    const size = text.split('\n')[1] ?? '';
    expect(() => verifyCosignature(cosigned.replace(size, '42'), noteKey(vkey))).toThrow(NoteForged);
  });

  test('[R-910] a public checkpoint was cosigned by ML-DSA-44', () => {
    const { note: cosigned, witness: vkey, time } = published.mlDsa44;
    const { text } = parseNote(cosigned);
    expect(verifyCosignature(cosigned, noteKey(vkey))).toEqual({ text, time });
    const size = text.split('\n')[1] ?? '';
    expect(() => verifyCosignature(cosigned.replace(size, '42'), noteKey(vkey))).toThrow(NoteForged);
  });

  test.each([
    [4, ed25519Message],
    [6, mlDsaMessage],
  ] as const)('[R-906] a cosignature of type %i by the specification holds', (type, message) => {
    const { key, cosign } = witness(type);
    expect(verifyCosignature(cosign(note, message()), key)).toEqual({ text: TEXT, time: TIME });
    expect(verifyNote(cosign(note, message()), [ours.key]).signedBy).toEqual([ours.key]);
    expect(() => verifyCosignature(note, key)).toThrow(NoteUnsigned);
    expect(() => verifyCosignature(spoilt(cosign(note, message())), witness(type).key)).toThrow(NoteUnsigned);
    // Of the time, not of another.
    expect(() => verifyCosignature(cosign(note, message(), TIME + 1), key)).toThrow(NoteForged);
    // Of two, the newer; but both have to hold.
    const later = cosign(cosign(note, message(TIME + 5), TIME + 5), message());
    expect(verifyCosignature(later, key).time).toBe(TIME + 5);
    expect(() => verifyCosignature(cosign(later, message(), TIME + 9), key)).toThrow(NoteForged);
  });

  test('[R-906] a cosignature of another checkpoint, or by another name, does not hold', () => {
    const ed25519 = witness(4);
    const another = ed25519.cosign(note, ed25519Message(TIME, TEXT.replace('42', '43')));
    expect(() => verifyCosignature(another, ed25519.key)).toThrow(NoteForged);
    // A plain note signature is not a cosignature.
    expect(() => verifyCosignature(ed25519.cosign(note, Buffer.from(TEXT)), ed25519.key)).toThrow(NoteForged);
    const mlDsa = witness(6);
    for (const message of [
      mlDsaMessage(TIME, 43),
      mlDsaMessage(TIME, 42, 'witness.example/w2'),
      mlDsaMessage(TIME, 42, 'witness.example/w1', 'ledger.example/ward-8'),
      ed25519Message(),
    ]) {
      expect(() => verifyCosignature(mlDsa.cosign(note, message), mlDsa.key)).toThrow(NoteForged);
    }
  });

  test('a cosignature with an impossible time is refused', () => {
    const { key, cosign } = witness(4);
    expect(() => verifyCosignature(cosign(note, ed25519Message(0), 0), key)).toThrow(
      'has an impossible time',
    );
    const most = 2 ** 53;
    expect(() => verifyCosignature(cosign(note, ed25519Message(most), most), key)).toThrow(
      'has an impossible time',
    );
  });

  test('a cosignature of a wrong length is refused', () => {
    for (const type of [4, 6] as const) {
      const { key, cosign } = witness(type);
      const { signatures } = parseNote(cosign(note, type === 4 ? ed25519Message() : mlDsaMessage()));
      const last = signatures.at(-1);
      if (last === undefined) throw new Error('no signature');
      for (const length of [1, 7, 8, 9, 40, last.signature.length - 1, last.signature.length + 1]) {
        const cut = formatNote(TEXT, [{ ...last, signature: Buffer.alloc(length, last.signature) }]);
        expect(() => verifyCosignature(cut, key)).toThrow(NoteForged);
      }
    }
  });

  test('an origin that is too long for ML-DSA-44 has no such cosignature', () => {
    const long = formatCheckpoint({ origin: 'l'.repeat(256), size: 42, root: ROOT });
    const { key, cosign } = witness(6);
    const cosigned = cosign(signNote(long, [ours]), mlDsaMessage());
    expect(() => verifyCosignature(cosigned, key)).toThrow(NoteForged);
  });

  test('keys of logs and of witnesses are not taken for each other', () => {
    expect(() => verifyCosignature(note, ours.key)).toThrow('a key of type 1 does not cosign checkpoints');
    expect(() => verifyNote(note, [witness(4).key])).toThrow('a key of type 4 does not sign notes');
    expect(() => verifyNote(note, [ours.key, witness(6).key])).toThrow(KeyMalformed);
  });
});
