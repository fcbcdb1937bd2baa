/** Tests for everything that verifies notes. */
import { describe, expect, it } from 'vitest';
import { formatNote, formatVerifierKey, parseNote, parseVerifierKey } from '../../src/verify/index.js';
import { sampleKey, signSample } from './sample-log.js';

export const EXAMPLE_KEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k';
export const EXAMPLE_NOTE =
  'This is an example message.\n\n' +
  '— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n';

const [mine, other, stranger] = [sampleKey(), sampleKey(), sampleKey('stranger.example')];

/** @param verify with these verifier keys. @returns the text, and the keys that have signed it. */
export function noteConformance(
  verify: (
    note: string,
    keys: readonly string[],
  ) => Promise<{ readonly text: string; readonly signedBy: readonly string[] }>,
): void {
  describe('a note', () => {
    it('[R-910] of the specification verifies with its key, and not with another text', async () => {
      const text = 'This is an example message.\n';
      expect(await verify(EXAMPLE_NOTE, [EXAMPLE_KEY])).toEqual({ text, signedBy: [EXAMPLE_KEY] });
      const changed = EXAMPLE_NOTE.replace('an example', 'no example');
      await expect(verify(changed, [EXAMPLE_KEY])).rejects.toMatchObject({ name: 'NoteForged' });
    });

    it('[R-903] [R-905] names all known keys that have signed it, in the order of those given', async () => {
      const note = signSample('text\n', stranger, other, mine);
      expect((await verify(note, [mine.vkey, other.vkey])).signedBy).toEqual([mine.vkey, other.vkey]);
      expect((await verify(note, [other.vkey])).signedBy).toEqual([other.vkey]);
    });

    it('may have a bad signature by a key that is not known, even of a known name or id', async () => {
      const { signatures } = parseNote(signSample('text\n', mine));
      const bad = new Uint8Array(64);
      const note = formatNote('text\n', [
        { name: mine.name, keyId: (mine.keyId ^ 1) >>> 0, signature: bad },
        { name: 'impostor.example', keyId: mine.keyId, signature: bad },
        ...signatures,
      ]);
      expect((await verify(note, [mine.vkey])).signedBy).toEqual([mine.vkey]);
    });

    it('is forged with a bad signature by a known key, even beside good ones', async () => {
      const { signatures } = parseNote(signSample('text\n', mine, other));
      for (const length of [64, 63, 1, 300]) {
        const forged = { name: other.name, keyId: other.keyId, signature: new Uint8Array(length) };
        for (const signed of [
          [...signatures, forged],
          [forged, ...signatures],
        ]) {
          const note = formatNote('text\n', signed);
          await expect(verify(note, [mine.vkey, other.vkey])).rejects.toMatchObject({ name: 'NoteForged' });
          expect((await verify(note, [mine.vkey])).signedBy).toEqual([mine.vkey]);
        }
      }
    });

    it('is refused if it is malformed or no known key has signed it', async () => {
      await expect(verify(signSample('text\n', stranger), [mine.vkey])).rejects.toMatchObject({
        name: 'NoteUnsigned',
      });
      await expect(verify(signSample('text\n', mine), [])).rejects.toMatchObject({ name: 'NoteUnsigned' });
      await expect(verify('text\n', [mine.vkey])).rejects.toMatchObject({ name: 'NoteMalformed' });
    });

    it.each([
      ['the id of another key', () => formatVerifierKey({ ...parseVerifierKey(mine.vkey), keyId: 7 })],
      ['another name', () => mine.vkey.replace('ward-7', 'ward-8')],
      ['another type', () => formatVerifierKey({ ...parseVerifierKey(mine.vkey), type: 4 })],
      ['no key at all', () => 'key'],
    ])('is not verified by a verifier key with %s', async (_, vkey) => {
      await expect(verify(signSample('text\n', mine), [vkey()])).rejects.toMatchObject({
        name: 'KeyMalformed',
      });
    });
  });
}
