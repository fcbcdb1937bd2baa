/**
 * The log of readings (`access.log`) is a log of its own beside that of the events: another origin, the same keys. A
 * key signs in the name of the log (C2SP tlog-checkpoint), so each has another name here, and with it another key id:
 * nobody can pass a checkpoint of the one off as one of the other.
 *
 * Each restore from a back-up begins a log of readings under a name of its own, `<origin>/access-log/<restore>`, over
 * the lines that the back-up had and those that come (restore-line.ts): under the old name it would contradict what was
 * signed after the back-up.
 */
import { parseCheckpoint, type Checkpoint } from '@clinical-events/protocol/verify';
import { noteKey, verifierKeyOf, verifyNote, type NoteKey } from './note-signing.js';

const SUFFIX = '/access-log';
/** The id of a restore, at the end of the name that it has begun. */
const RESTORED = /^(.*\/access-log)\/([0-9a-f]{16})$/;

/** @param origin of the log of events. @param restore that has begun the log of readings; undefined for the first one. */
export function accessLogOrigin(origin: string, restore?: string): string {
  return origin + SUFFIX + (restore === undefined ? '' : `/${restore}`);
}

/** The restore that has begun the log of readings of this name; undefined when none has. */
export function restoreIn(origin: string): string | undefined {
  return RESTORED.exec(origin)?.[2];
}

/** The log of events that a log of readings is of; its own name when it is no log of readings. */
export function eventsOrigin(origin: string): string {
  const first = RESTORED.exec(origin)?.[1] ?? origin;
  return first.endsWith(SUFFIX) ? first.slice(0, -SUFFIX.length) : first;
}

/** The key as it signs for the readings. @param key as it signs for the events. */
export function accessLogKey({ name, publicKey }: NoteKey): NoteKey {
  return noteKey(verifierKeyOf(accessLogOrigin(name), publicKey));
}

/** The keys as they sign for the log of readings of this name. @param keys as they sign for the first one. */
export function keysFor(origin: string, keys: readonly NoteKey[]): readonly NoteKey[] {
  const restore = restoreIn(origin);
  if (restore === undefined) return keys;
  return keys.map(({ name, publicKey }) => noteKey(verifierKeyOf(`${name}/${restore}`, publicKey)));
}

/**
 * What a checkpoint of the readings says, those that a restore has begun among them.
 * @param keys as they sign for the readings ({@link accessLogKey}).
 * @throws when none of them has signed it as one, in words that follow a colon.
 */
export function accessLogCheckpoint(note: string, keys: readonly NoteKey[]): Checkpoint {
  const { text, signedBy } = verifyNote(note, keysFor(note.slice(0, note.indexOf('\n')), keys));
  const checkpoint = parseCheckpoint(text);
  if (signedBy.some(({ name }) => name === checkpoint.origin)) return checkpoint;
  throw new Error(`it is of ${checkpoint.origin}`);
}
