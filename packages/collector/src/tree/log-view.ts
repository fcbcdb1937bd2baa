/**
 * Compares checkpoints of sinks with the log. An attacker on this host cannot change a sink, so a sink's
 * checkpoint is trusted and the log is checked against it.
 */
import { type Checkpoint, parseCheckpoint, parseNote } from '@clinical-events/protocol/verify';
import { systemCode } from '../system-code.js';
import { type HashSource, TilesIncomplete, rootAt } from './merkle.js';
import { type NoteKey, verifyNote } from './note-signing.js';
import { showable } from './program.js';
import { type Published, SinkForked, SinkTrouble } from './sink.js';

/** The parts of the log that checkpoints cover. */
export interface LogView {
  /** Complete up to the newest checkpoint. */
  readonly tree: HashSource & {
    /** The newest stored checkpoint; in a database, it may be another collector's. */
    head(): Promise<string | undefined>;
  };
  /** Number of entries in the log, including those that no checkpoint covers. */
  readonly entries: () => number;
  /** Every key that may have signed a checkpoint of this log. */
  readonly logKeys: () => readonly NoteKey[];
}

/** @throws NoteMalformed. No signature is checked. */
export function checkpointOf(note: string): Checkpoint {
  return parseCheckpoint(parseNote(note).text);
}

const LONGEST_NAME = 120;

/**
 * @returns the checkpoint, which a key of this log signed.
 * @throws {@link SinkTrouble} if the note belongs to another log, or is not a checkpoint.
 */
export function signedCheckpoint(note: string, origin: string, { logKeys }: LogView): Checkpoint {
  let checkpoint: Checkpoint;
  try {
    checkpoint = checkpointOf(note);
  } catch (cause) {
    throw new SinkTrouble('holds a note that is not a checkpoint', { cause });
  }
  if (checkpoint.origin !== origin) {
    const other = showable(checkpoint.origin).slice(0, LONGEST_NAME);
    throw new SinkTrouble(`holds checkpoints of the log ${other}: give each log a place of its own`);
  }
  const keys = logKeys();
  try {
    verifyNote(note, keys);
  } catch (cause) {
    throw new SinkTrouble(
      'holds a checkpoint with the name of this log that no key of it signed: see collector verify --against',
      { cause },
    );
  }
  return checkpoint;
}

/**
 * Asserts that the log continues the tree of a checkpoint.
 * @param held a signed checkpoint of this log.
 * @param newest a checkpoint of the log. If it is smaller, the stored head is read: another collector on the
 *   same database may have signed more.
 * @param where it was found, for the message.
 * @throws {@link SinkForked} if the log does not continue it, {@link SinkTrouble} if the tree lacks hashes.
 */
export async function assertContinues(
  held: Checkpoint,
  newest: Checkpoint,
  where: string,
  log: LogView,
): Promise<void> {
  const { size } = held.size > newest.size ? (await storedHead(log)).checkpoint : newest;
  if (held.size > size) throw shorter(`${where} a checkpoint of ${held.size} entries`, size, log);
  if (Buffer.from(held.root).equals(await rootIn(log.tree, held.size))) return;
  throw new SinkForked(
    `${where} a checkpoint of ${held.size} entries that are not the first ${held.size} of this ledger: ` +
      'it was altered, or an older back-up was restored and continued differently; see collector verify',
  );
}

/**
 * The error for a log that has fewer entries than a sink saw.
 * @param seen what the sink saw, for the message. @param size of the newest checkpoint.
 */
export function shorter(seen: string, size: number, { entries }: LogView): SinkForked {
  return new SinkForked(
    `${seen}, and this ledger has ${Math.max(size, entries())}: ` +
      'it was restored from an older back-up, or entries were cut off its end',
  );
}

/** The newest stored checkpoint. @throws {@link SinkTrouble} */
export async function storedHead({ tree }: LogView): Promise<Published> {
  try {
    const note = await tree.head();
    if (note === undefined) throw new SinkTrouble('the newest checkpoint of this ledger is missing');
    return { note, checkpoint: checkpointOf(note) };
  } catch (error) {
    throw treeTrouble(error);
  }
}

/** @throws {@link SinkTrouble} if the tree lacks hashes. */
async function rootIn(tiles: HashSource, size: number): Promise<Buffer> {
  try {
    return await rootAt(tiles, size);
  } catch (error) {
    throw treeTrouble(error);
  }
}

/** The error for a tree that cannot give a root or a proof. */
export function treeTrouble(error: unknown): SinkTrouble {
  if (error instanceof SinkTrouble) return error;
  if (error instanceof TilesIncomplete) {
    return new SinkTrouble(`${error.message}; see collector verify`, { cause: error });
  }
  const code = systemCode(error);
  const reason = code === undefined ? '' : ` (${code})`;
  return new SinkTrouble(`the tree of this ledger cannot be read${reason}`, { cause: error });
}
