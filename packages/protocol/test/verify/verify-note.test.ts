import { afterEach, describe, expect, it, vi } from 'vitest';
import { CryptographyMissing, NoteForged, verifyNote } from '../../src/verify/index.js';
import { EXAMPLE_KEY, EXAMPLE_NOTE, noteConformance } from './note-conformance.js';

noteConformance((note, keys) => verifyNote(note, keys));

describe('verifyNote', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
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
