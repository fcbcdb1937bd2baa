/**
 * The keys of a log, from the one that it began with to the one that signs now: each handed over to the next by a
 * note that both have signed (rotation.ts in the protocol says what stands in it). Pure.
 *
 * Stricter than the verifier that is given a proof, which may hold a later key and passes over what came before: here
 * all of it is there, and whatever does not fit is a fault.
 */
import { KeyMalformed, parseNote, parseRotation } from '@clinical-events/protocol/verify';
import { NOTE_ED25519, noteKey, verifyNote, type NoteKey } from './note-signing.js';

/** The rotation notes do not lead from key to key; the message tells which note, counted from 1, and why. */
export class ChainBroken extends Error {
  override readonly name = 'ChainBroken';
}

export interface KeyChain {
  /** In the order in which they took over; at least one. */
  readonly keys: NoteKey[];
  /** The last of them. */
  readonly current: NoteKey;
  /** Until when the key before the current one signs too: milliseconds since 1970 UTC. Absent without a rotation. */
  readonly overlapUntil?: number;
}

/** One step of the chain. */
interface Handover {
  readonly to: NoteKey;
  readonly until: number;
}

/**
 * @param first verifier key that the log began with; its name is the log's origin.
 * @param rotations every rotation note of the log, in order.
 * @throws KeyMalformed when the first key is none, ChainBroken.
 */
export function keyChain(first: string, rotations: readonly string[]): KeyChain {
  let current = noteKey(first);
  if (current.type !== NOTE_ED25519) throw new KeyMalformed('the first key of a log does not sign notes');
  let overlapUntil: number | undefined;
  const keys = [current];
  for (const [at, note] of rotations.entries()) {
    try {
      const { to, until } = handover(note, current);
      if (keys.some(({ vkey }) => vkey === to.vkey))
        throw new Error('it hands over to a key that the log had before');
      keys.push(to);
      current = to;
      overlapUntil = until;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ChainBroken(`rotation note ${at + 1}: ${reason}`, { cause: error });
    }
  }
  return { keys, current, ...(overlapUntil === undefined ? {} : { overlapUntil }) };
}

/** What the note says, once it is sure that it follows on from this key and that both keys have signed it. */
function handover(note: string, from: NoteKey): Handover {
  const { origin, oldKey, newKey, until } = parseRotation(parseNote(note).text);
  if (origin !== from.name) throw new Error('it is of another log');
  if (oldKey !== from.vkey) throw new Error(`it is not from the key that the log had by then, ${from.vkey}`);
  const to = noteKey(newKey);
  const { signedBy } = verifyNote(note, [from, to]);
  if (!signedBy.includes(from)) throw new Error('the old key has not signed it');
  if (!signedBy.includes(to)) throw new Error('the new key has not signed it');
  const instant = Date.parse(until);
  // A leap second is an instant to RFC 3339 and none to JavaScript.
  if (Number.isNaN(instant)) throw new Error('the end of its overlap cannot be read');
  return { to, until: instant };
}
