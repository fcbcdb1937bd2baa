/**
 * From the keys that one trusts to those that they have handed over to.
 */
import { parseRotation, RotationMalformed } from './rotation.js';
import type { Rotation } from './rotation.js';
import { KeyMalformed, NoteMalformed, parseNote } from './signed-note.js';
import { NoteForged, NoteUnsigned, verifyNote } from './verify-note.js';

/** A rotation note does not do what it says; the message tells which note, counted from 1, and why. */
export class RotationRefused extends Error {
  override name = 'RotationRefused';
}

async function checkSignatures(note: string, { oldKey, newKey }: Rotation): Promise<void> {
  const { signedBy } = await verifyNote(note, [oldKey, newKey]);
  if (!signedBy.includes(oldKey)) throw new NoteUnsigned('the old key has not signed it');
  if (!signedBy.includes(newKey)) throw new NoteUnsigned('the new key has not signed it');
}

/**
 * The keys that may be trusted because the given ones are: these, and every key that one of them has handed
 * over to. A rotation of a key that is not trusted by then is passed over: it may lie before the first key
 * that the caller holds, or be of another log.
 *
 * @param keys verifier keys that the caller trusts.
 * @param rotations rotation notes, the oldest first.
 * @throws RotationRefused for a note that is no rotation, or that hands a trusted key over without the
 * signatures of both; CryptographyMissing.
 */
export async function followRotations(
  keys: readonly string[],
  rotations: readonly string[],
): Promise<ReadonlySet<string>> {
  const trusted = new Set(keys);
  for (const [at, note] of rotations.entries()) {
    try {
      const rotation = parseRotation(parseNote(note).text);
      if (!trusted.has(rotation.oldKey)) continue;
      await checkSignatures(note, rotation);
      trusted.add(rotation.newKey);
    } catch (error) {
      const ofTheNote =
        error instanceof NoteMalformed ||
        error instanceof RotationMalformed ||
        error instanceof KeyMalformed ||
        error instanceof NoteUnsigned ||
        error instanceof NoteForged;
      if (!ofTheNote) throw error;
      throw new RotationRefused(`rotation note ${at + 1}: ${error.message}`, { cause: error });
    }
  }
  return trusted;
}
