/**
 * The text of a rotation note, by which the old key of a log hands over to a new one. Both keys sign the
 * note, so trust in the old key extends to the new one, and a handover to a nonexistent key is impossible.
 *
 *   clinical-events/key-rotation/v1
 *   <origin>
 *   <verifier key of the old key>
 *   <verifier key of the new key>
 *   <instant, RFC 3339 in UTC, until which the old key signs as well>
 *
 * The keys also sign checkpoints, whose first line is the origin. No origin may equal the first line of a
 * rotation (checkpoint.ts refuses it), so the two texts cannot be confused.
 */
import { isDateTime } from '../formats/date-time.js';
import {
  KeyMalformed,
  NOTE_ED25519,
  NoteForged,
  NoteMalformed,
  NoteUnsigned,
  parseNote,
  parseVerifierKey,
  verifyNote,
} from './signed-note.js';

export const ROTATION_HEADER = 'clinical-events/key-rotation/v1';

export interface Rotation {
  /** The name of the log, and of both keys. */
  readonly origin: string;
  /** A verifier key. */
  readonly oldKey: string;
  /** A verifier key. */
  readonly newKey: string;
  /** RFC 3339 in UTC. Verifiers ignore it, because a checkpoint has no time. */
  readonly until: string;
}

function checkKey(vkey: string, origin: string): void {
  const { name, type } = parseVerifierKey(vkey);
  if (name !== origin) throw new NoteMalformed('a key of the rotation does not have the name of the log');
  if (type !== NOTE_ED25519) throw new NoteMalformed('a key of the rotation signs no notes');
}

/**
 * Parses the text of a rotation note. The signatures are not checked.
 * @throws NoteMalformed
 */
export function parseRotation(text: string): Rotation {
  const [header, origin, oldKey, newKey, until, end, ...more] = text.split('\n');
  if (header !== ROTATION_HEADER) throw new NoteMalformed('the text does not begin as a rotation');
  if (
    origin === undefined ||
    oldKey === undefined ||
    newKey === undefined ||
    until === undefined ||
    end !== '' ||
    more.length > 0
  ) {
    throw new NoteMalformed('a rotation has five lines');
  }
  try {
    checkKey(oldKey, origin);
    checkKey(newKey, origin);
  } catch (error) {
    if (!(error instanceof KeyMalformed)) throw error;
    throw new NoteMalformed(`a key of the rotation is malformed: ${error.message}`, { cause: error });
  }
  if (origin === ROTATION_HEADER) throw new NoteMalformed('no log may have the name of a rotation');
  if (oldKey === newKey) throw new NoteMalformed('the rotation is from a key to itself');
  if (!isDateTime(until) || !until.endsWith('Z')) {
    throw new NoteMalformed('the end of the overlap is not an instant in UTC');
  }
  return { origin, oldKey, newKey, until };
}

/**
 * The text for both keys to sign, which `parseRotation` reads.
 * @throws NoteMalformed when the parts do not make a rotation.
 */
export function formatRotation({ origin, oldKey, newKey, until }: Rotation): string {
  const text = `${[ROTATION_HEADER, origin, oldKey, newKey, until].join('\n')}\n`;
  parseRotation(text);
  return text;
}

/* Follows rotations from trusted keys to their successors. */

/** A rotation note is not valid; the message has its number, counted from 1, and the reason. */
export class RotationRefused extends Error {
  override name = 'RotationRefused';
}

/** @throws NoteUnsigned when one of the two keys is not among the note's signers. */
export function assertBothSigned({ oldKey, newKey }: Rotation, signedBy: readonly string[]): void {
  if (!signedBy.includes(oldKey)) throw new NoteUnsigned('the old key has not signed it');
  if (!signedBy.includes(newKey)) throw new NoteUnsigned('the new key has not signed it');
}

/**
 * The given keys and every key that one of them has handed over to. A rotation of an untrusted key is
 * ignored: it may be older than the first key that the caller holds, or belong to another log.
 *
 * @param keys verifier keys that the caller trusts.
 * @param rotations rotation notes, the oldest first.
 * @throws RotationRefused for a note that is malformed, or hands over a trusted key without both signatures;
 *   CryptographyMissing.
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
      assertBothSigned(rotation, (await verifyNote(note, [rotation.oldKey, rotation.newKey])).signedBy);
      trusted.add(rotation.newKey);
    } catch (error) {
      const ofTheNote =
        error instanceof NoteMalformed ||
        error instanceof KeyMalformed ||
        error instanceof NoteUnsigned ||
        error instanceof NoteForged;
      if (!ofTheNote) throw error;
      throw new RotationRefused(`rotation note ${at + 1}: ${error.message}`, { cause: error });
    }
  }
  return trusted;
}
