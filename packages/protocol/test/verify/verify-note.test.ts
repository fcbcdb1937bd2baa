import { afterEach, describe, expect, it, vi } from 'vitest';
import { CryptographyMissing, NoteForged, verifyNote } from '../../src/verify/index.js';
import { EXAMPLE_KEY, EXAMPLE_NOTE, noteConformance } from './note-conformance.js';

noteConformance((note, keys) => verifyNote(note, keys));

describe('verifyNote', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('reports missing cryptography, and not a forged note', async () => {
    vi.stubGlobal('crypto', {});
    await expect(verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).rejects.toThrow(CryptographyMissing);
    vi.stubGlobal('crypto', undefined);
    await expect(verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).rejects.toThrow(CryptographyMissing);
  });

  it('reports a forged note if the runtime refuses its key', async () => {
    const { subtle } = globalThis.crypto;
    const noKey = new DOMException('Invalid key data.', 'DataError');
    vi.stubGlobal('crypto', {
      subtle: { digest: subtle.digest.bind(subtle), importKey: () => Promise.reject(noKey) },
    });
    await expect(verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).rejects.toThrow(NoteForged);
  });

  it('reports missing Ed25519, and not a forged note', async () => {
    const { subtle } = globalThis.crypto;
    const unknown = new DOMException('Unrecognized name.', 'NotSupportedError');
    vi.stubGlobal('crypto', {
      subtle: { digest: subtle.digest.bind(subtle), importKey: () => Promise.reject(unknown) },
    });
    await expect(verifyNote(EXAMPLE_NOTE, [EXAMPLE_KEY])).rejects.toThrow(CryptographyMissing);
  });
});
