/**
 * What a checkpoint that somebody else holds says about the ledger here. A sink is the one place that whoever
 * changed this host could not change as well, so what lies there is believed, and the ledger is held against it.
 */
import { parseCheckpoint, parseNote, type Checkpoint } from '@clinical-events/protocol/verify';
import { rootAt, TilesIncomplete, type HashSource } from '../integrity/merkle.js';
import { verifyNote, type NoteKey } from '../integrity/note-signing.js';
import { SinkForked, SinkTrouble } from './sink.js';

/** The log as far as its checkpoints need it. */
export interface LogView {
  /** The ledger's tree, at least up to the newest checkpoint. */
  readonly tiles: HashSource;
  /** Every key that may have signed a checkpoint of this log. */
  readonly logKeys: () => readonly NoteKey[];
}

/** @throws NoteMalformed or CheckpointMalformed. No signature is checked. */
export function checkpointOf(note: string): Checkpoint {
  return parseCheckpoint(parseNote(note).text);
}

/** @returns the checkpoint in the note if it is one of this log and signed by its key, else undefined. */
export function ownCheckpoint(note: string, origin: string, { logKeys }: LogView): Checkpoint | undefined {
  try {
    const checkpoint = parseCheckpoint(verifyNote(note, logKeys()).text);
    return checkpoint.origin === origin ? checkpoint : undefined;
  } catch {
    // Cut short, of another log, or put there by somebody else: it says nothing about this ledger.
    return undefined;
  }
}

const UNSHOWABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const LONGEST_NAME = 120;

/**
 * @returns the name of another log, when the note is a checkpoint that says to be of one; fit to be shown on a
 *   terminal. Its signature is not checked: there is no key of that log to check it by.
 */
export function otherLog(note: string, origin: string): string | undefined {
  try {
    const { origin: other } = checkpointOf(note);
    return other === origin ? undefined : other.replace(UNSHOWABLE, '?').slice(0, LONGEST_NAME);
  } catch {
    return undefined;
  }
}

/**
 * Returns when the ledger, whose newest checkpoint is `newest`, goes on from the tree that `held` speaks of.
 * @param held an own checkpoint.
 * @param where it was found, for the message.
 * @throws {@link SinkForked} when it does not, {@link SinkTrouble} when the tree cannot tell.
 */
export function assertGoesOnFrom(
  held: Checkpoint,
  newest: Checkpoint,
  where: string,
  { tiles }: LogView,
): void {
  if (held.size > newest.size) {
    throw new SinkForked(
      `${where} a checkpoint of ${held.size} events, and this ledger has ${newest.size}: ` +
        'it was restored from an older back-up, or events were cut off its end',
    );
  }
  const root = rootOf(tiles, held.size);
  if (root.equals(held.root)) return;
  throw new SinkForked(
    `${where} a checkpoint of ${held.size} events that are not the first ${held.size} of this ledger: ` +
      'it was altered, or restored from an older back-up and then went on differently; see collector verify',
  );
}

/** @throws {@link SinkTrouble} when the tree lacks hashes. */
function rootOf(tiles: HashSource, size: number): Buffer {
  try {
    return rootAt(tiles, size);
  } catch (error) {
    throw treeTrouble(error);
  }
}

/** What to report when the tree cannot give a root or a proof. */
export function treeTrouble(error: unknown): SinkTrouble {
  if (error instanceof TilesIncomplete) {
    return new SinkTrouble(`${error.message}; see collector verify`, { cause: error });
  }
  const reason = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
  return new SinkTrouble(`the tree of this ledger cannot be read${reason}`, { cause: error });
}
