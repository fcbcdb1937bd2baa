/**
 * Who signed a note (C2SP signed-note, Ed25519). A signature by a key that is not known says nothing and is
 * passed over, whoever's name it has; one by a known key that does not hold condemns the note.
 */
import { KeyMalformed, keyIdText, NOTE_ED25519, parseNote, parseVerifierKey } from './signed-note.js';
import type { VerifierKey } from './signed-note.js';
import { ed25519Holds, sha256 } from './webcrypto.js';

/** None of the known keys has signed the note. */
export class NoteUnsigned extends Error {
  override name = 'NoteUnsigned';
}

/** A signature in the note names a known key and is not that key's. */
export class NoteForged extends Error {
  override name = 'NoteForged';
}

const encoder = new TextEncoder();

/** The id of a key of this name, type and public key: the first four bytes of a hash over them. */
async function keyIdOf({ name, type, publicKey }: VerifierKey): Promise<number> {
  const hash = await sha256(encoder.encode(`${name}\n`), Uint8Array.of(type), publicKey);
  return new DataView(hash.buffer, hash.byteOffset).getUint32(0);
}

/**
 * Reads a verifier key and holds its key id against its key. Only keys that sign notes by Ed25519 will do.
 * @throws KeyMalformed, CryptographyMissing
 */
export async function checkedKey(vkey: string): Promise<VerifierKey> {
  const key = parseVerifierKey(vkey);
  if (key.type !== NOTE_ED25519) throw new KeyMalformed('the verifier key is not an Ed25519 key for notes');
  if ((await keyIdOf(key)) !== key.keyId) {
    throw new KeyMalformed('the key id of the verifier key is not that of its name and key');
  }
  return key;
}

/**
 * Checks the signatures of the known keys under a note.
 *
 * @param keys verifier keys, the known ones.
 * @returns the text of the note, and those of `keys` that have signed it: at least one.
 * @throws NoteMalformed, KeyMalformed, NoteUnsigned, NoteForged, CryptographyMissing
 */
export async function verifyNote(
  note: string,
  keys: readonly string[],
): Promise<{ text: string; signedBy: string[] }> {
  const { text, signatures } = parseNote(note);
  const message = encoder.encode(text);
  const signedBy: string[] = [];
  for (const vkey of new Set(keys)) {
    const key = await checkedKey(vkey);
    const claimed = signatures.filter(({ name, keyId }) => name === key.name && keyId === key.keyId);
    for (const { signature } of claimed) {
      if (!(await ed25519Holds(key.publicKey, signature, message))) {
        throw new NoteForged(
          `a signature in the note is not by the key ${keyIdText(key.keyId)} that it names`,
        );
      }
    }
    if (claimed.length > 0) signedBy.push(vkey);
  }
  if (signedBy.length === 0) throw new NoteUnsigned('none of the known keys has signed the note');
  return { text, signedBy };
}
