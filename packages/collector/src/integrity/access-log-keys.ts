/**
 * The log of readings (`access.log`) is a log of its own beside that of the events: another origin, the same keys. A
 * key signs in the name of the log (C2SP tlog-checkpoint), so each has another name here, and with it another key id:
 * nobody can pass a checkpoint of the one off as one of the other.
 */
import { parseCheckpoint, type Checkpoint } from '@clinical-events/protocol/verify';
import { noteKey, verifierKeyOf, verifyNote, type NoteKey } from './note-signing.js';

const SUFFIX = '/access-log';

/** @param origin of the log of events. */
export function accessLogOrigin(origin: string): string {
  return origin + SUFFIX;
}

/** The key as it signs for the readings. @param key as it signs for the events. */
export function accessLogKey({ name, publicKey }: NoteKey): NoteKey {
  return noteKey(verifierKeyOf(accessLogOrigin(name), publicKey));
}

/**
 * What the checkpoint of the readings says.
 * @param keys as they sign for the readings.
 * @throws when none of them has signed it as one, in words that follow a colon.
 */
export function accessLogCheckpoint(note: string, keys: readonly NoteKey[]): Checkpoint {
  const { text, signedBy } = verifyNote(note, keys);
  const checkpoint = parseCheckpoint(text);
  if (signedBy.some(({ name }) => name === checkpoint.origin)) return checkpoint;
  throw new Error(`it is of ${checkpoint.origin}`);
}
