import { createPublicKey, type KeyObject, sign } from 'node:crypto';
import { formatNote, type NoteSignature, parseVerifierKey } from '@clinical-events/protocol/verify';
import { verifierKeyOf } from '../../src/tree/note-signing.js';

/**
 * The text as a note, signed with each of these Ed25519 keys.
 * @throws NoteMalformed when the text or a name cannot be part of a note, KeyMalformed for another kind of key.
 */
export function signNote(
  text: string,
  signers: readonly { readonly name: string; readonly privateKey: KeyObject }[],
): string {
  const message = Buffer.from(text);
  const signatures = signers.map(({ name, privateKey }): NoteSignature => {
    const { keyId } = parseVerifierKey(verifierKeyOf(name, createPublicKey(privateKey)));
    return { name, keyId, signature: sign(null, message, privateKey) };
  });
  return formatNote(text, signatures);
}
