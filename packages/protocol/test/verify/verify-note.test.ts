import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  CryptographyMissing,
  formatNote,
  formatVerifierKey,
  KeyMalformed,
  NoteForged,
  NoteMalformed,
  NoteUnsigned,
  parseNote,
  parseVerifierKey,
  verifyNote,
} from '../../src/verify/index.js';
import { sampleKey, signSample } from './sample-log.js';

const EXAMPLE_KEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k';
const EXAMPLE_NOTE =
  'This is an example message.\n\n' +
  '— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n';

const [mine, other, stranger] = [sampleKey(), sampleKey(), sampleKey('stranger.example')];

describe('verifyNote', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('[R-910] verifies the note of the specification with its key', async () => {
    expect(await verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).toEqual({
      text: 'This is an example message.\n',
      signedBy: [EXAMPLE_KEY],
    });
  });

  it('[R-910] refuses the note of the specification with another text', async () => {
    const changed = EXAMPLE_NOTE.replace('an example', 'no example');
    await expect(verifyNote(changed, [EXAMPLE_KEY])).rejects.toThrow(NoteForged);
  });

  it('tells all known keys that have signed, once each', async () => {
    const note = signSample('text\n', stranger, other, mine);
    const known = [mine.vkey, other.vkey, mine.vkey];
    expect((await verifyNote(note, known)).signedBy).toEqual([mine.vkey, other.vkey]);
  });

  it('passes over a bad signature by a key that is not known, even of a known name or id', async () => {
    const { signatures } = parseNote(signSample('text\n', mine));
    const bad = new Uint8Array(64);
    const note = formatNote('text\n', [
      { name: mine.name, keyId: mine.keyId ^ 1, signature: bad },
      { name: 'impostor.example', keyId: mine.keyId, signature: bad },
      ...signatures,
    ]);
    expect((await verifyNote(note, [mine.vkey])).signedBy).toEqual([mine.vkey]);
  });

  it('refuses a bad signature by a known key, even beside good ones', async () => {
    const { signatures } = parseNote(signSample('text\n', mine, other));
    for (const signature of [
      new Uint8Array(64),
      new Uint8Array(63),
      new Uint8Array(1),
      new Uint8Array(300),
    ]) {
      const forged = { name: other.name, keyId: other.keyId, signature };
      for (const signed of [
        [...signatures, forged],
        [forged, ...signatures],
      ]) {
        await expect(verifyNote(formatNote('text\n', signed), [mine.vkey, other.vkey])).rejects.toThrow(
          NoteForged,
        );
        expect((await verifyNote(formatNote('text\n', signed), [mine.vkey])).signedBy).toEqual([mine.vkey]);
      }
    }
  });

  it('refuses a note that no known key has signed', async () => {
    await expect(verifyNote(signSample('text\n', stranger), [mine.vkey])).rejects.toThrow(NoteUnsigned);
    await expect(verifyNote(signSample('text\n', mine), [])).rejects.toThrow(NoteUnsigned);
  });

  it('refuses what is not a note', async () => {
    await expect(verifyNote('text\n', [mine.vkey])).rejects.toThrow(NoteMalformed);
  });

  it.each([
    [
      'the id of another key',
      () => formatVerifierKey({ ...parseVerifierKey(mine.vkey), keyId: 7 }),
      'key id',
    ],
    ['another name', () => mine.vkey.replace('ward-7', 'ward-8'), 'key id'],
    ['another type', () => formatVerifierKey({ ...parseVerifierKey(mine.vkey), type: 4 }), 'for notes'],
    ['no key at all', () => 'key', 'joined by plus signs'],
  ])('refuses a verifier key with %s', async (_, vkey, message) => {
    const checked = verifyNote(signSample('text\n', mine), [vkey()]);
    await expect(checked).rejects.toThrow(KeyMalformed);
    await expect(checked).rejects.toThrow(message);
  });

  it('says so when there is no cryptography, and does not call the note forged', async () => {
    vi.stubGlobal('crypto', {});
    await expect(verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).rejects.toThrow(CryptographyMissing);
    vi.stubGlobal('crypto', undefined);
    await expect(verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).rejects.toThrow(CryptographyMissing);
  });

  it('calls a note forged when the runtime finds that its key is no point of the curve', async () => {
    const { subtle } = globalThis.crypto;
    const noKey = new DOMException('Invalid key data.', 'DataError');
    vi.stubGlobal('crypto', {
      subtle: { digest: subtle.digest.bind(subtle), importKey: () => Promise.reject(noKey) },
    });
    await expect(verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).rejects.toThrow(NoteForged);
  });

  it('says so when there is no Ed25519, and does not call the note forged', async () => {
    const { subtle } = globalThis.crypto;
    const unknown = new DOMException('Unrecognized name.', 'NotSupportedError');
    vi.stubGlobal('crypto', {
      subtle: { digest: subtle.digest.bind(subtle), importKey: () => Promise.reject(unknown) },
    });
    await expect(verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).rejects.toThrow(CryptographyMissing);
  });
});
