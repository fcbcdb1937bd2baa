/**
 * What a checkpoint that someone else holds says about the ledger here. A sink is the one place that anyone who
 * changed this host could not change as well, so what lies there is believed, and the ledger is held against it.
 */
import { parseCheckpoint, parseNote, type Checkpoint } from '@clinical-events/protocol/verify';
import { rootAt, TilesIncomplete, type HashSource } from '../integrity/merkle.js';
import { verifyNote, type NoteKey } from '../integrity/note-signing.js';
import { systemCode } from '../system-code.js';
import { SinkForked, SinkTrouble } from './sink.js';

/** The log as far as its checkpoints need it. */
export interface LogView {
  /** The root of the ledger's tree, at least up to the newest checkpoint. Rejects with a {@link SinkTrouble}. */
  readonly rootAt: (size: number) => Promise<Uint8Array>;
  /** How many entries the ledger holds now, those under no checkpoint yet among them. */
  readonly entries: () => number;
  /** Every key that may have signed a checkpoint of this log. */
  readonly logKeys: () => readonly NoteKey[];
}

/** @throws NoteMalformed or CheckpointMalformed. No signature is checked. */
export function checkpointOf(note: string): Checkpoint {
  return parseCheckpoint(parseNote(note).text);
}

/** @returns the checkpoint in the note if it is one of this log and signed by its key, else undefined. */
export function ownCheckpoint(note: string, origin: string, { logKeys }: LogView): Checkpoint | undefined {
  // Most often it is: a place that holds checkpoints of two logs must not cost a signature for each.
  if (!note.startsWith(`${origin}\n`)) return undefined;
  try {
    const { text, signedBy } = verifyNote(note, logKeys());
    return signedBy.some(({ name }) => name === origin) ? parseCheckpoint(text) : undefined;
  } catch {
    // Cut short, of another log, or put there by someone else: it says nothing about this ledger.
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
 * Returns when the log, whose newest checkpoint is `newest`, goes on from the tree that `held` speaks of.
 * @param held an own checkpoint.
 * @param where it was found, for the message.
 * @throws {@link SinkForked} when it does not, {@link SinkTrouble} when the tree cannot tell.
 */
export async function assertGoesOnFrom(
  held: Checkpoint,
  newest: Checkpoint,
  where: string,
  log: LogView,
): Promise<void> {
  if (held.size > newest.size) {
    throw new SinkForked(
      `${where} a checkpoint of ${held.size} entries, and this ledger has ${sizeOf(log, newest)}: ` +
        'it was restored from an older back-up, or entries were cut off its end',
    );
  }
  if (Buffer.from(held.root).equals(await log.rootAt(held.size))) return;
  throw new SinkForked(
    `${where} a checkpoint of ${held.size} entries that are not the first ${held.size} of this ledger: ` +
      'it was altered, or restored from an older back-up and then went on differently; see collector verify',
  );
}

/** How many entries the ledger holds, which are more than its newest checkpoint covers while some wait for the next. */
export function sizeOf({ entries }: LogView, newest: Checkpoint): number {
  return Math.max(newest.size, entries());
}

/** @throws {@link SinkTrouble} when the tree lacks hashes. */
export async function rootIn(tiles: HashSource, size: number): Promise<Buffer> {
  try {
    return await rootAt(tiles, size);
  } catch (error) {
    throw treeTrouble(error);
  }
}

/** What to report when the tree cannot give a root or a proof. */
export function treeTrouble(error: unknown): SinkTrouble {
  if (error instanceof TilesIncomplete) {
    return new SinkTrouble(`${error.message}; see collector verify`, { cause: error });
  }
  const code = systemCode(error);
  const reason = code === undefined ? '' : ` (${code})`;
  return new SinkTrouble(`the tree of this ledger cannot be read${reason}`, { cause: error });
}
