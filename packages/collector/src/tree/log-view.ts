/**
 * What a checkpoint that someone else holds says about the log here. A sink is the one place that anyone who changed this
 * host could not change as well, so what is there is believed, and the log is compared with it.
 */
import { type Checkpoint, parseCheckpoint, parseNote } from '@clinical-events/protocol/verify';
import { systemCode } from '../system-code.js';
import { type HashSource, TilesIncomplete, rootAt } from './merkle.js';
import { type NoteKey, verifyNote } from './note-signing.js';
import { showable } from './program.js';
import { type Published, SinkForked, SinkTrouble } from './sink.js';

/** The log, in its parts that checkpoints concern. */
export interface LogView {
  /** At least up to the newest checkpoint. */
  readonly tree: HashSource & {
    /** The newest checkpoint that is stored; in a database, another collector's too. */
    head(): Promise<string | undefined>;
  };
  /** How many entries the log holds now, those under no checkpoint yet among them. */
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
 * @returns what the note says, once it is sure that a key of this log has signed it.
 * @throws {@link SinkTrouble} when the note is another log's, or not a checkpoint: nothing can be compared then.
 */
export function signedCheckpoint(note: string, origin: string, { logKeys }: LogView): Checkpoint {
  let checkpoint: Checkpoint;
  try {
    checkpoint = checkpointOf(note);
  } catch (cause) {
    throw new SinkTrouble('holds something else than a checkpoint', { cause });
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
      'holds a checkpoint in the name of this log that none of its keys has signed: see collector verify --against',
      { cause },
    );
  }
  return checkpoint;
}

/**
 * Returns when the tree of a checkpoint is the beginning of the log's.
 * @param held a signed checkpoint of this log.
 * @param newest a checkpoint of the log. Where it is smaller, the stored head is read: another collector on the same
 *   database may have signed more since.
 * @param where it was found, for the message.
 * @throws {@link SinkForked} when it does not, {@link SinkTrouble} when the tree cannot tell.
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
      'it was altered, or restored from an older back-up and then went on differently; see collector verify',
  );
}

/**
 * The log has fewer entries than someone has seen.
 * @param seen what that was, for the message.
 * @param size of the newest checkpoint.
 */
export function shorter(seen: string, size: number, { entries }: LogView): SinkForked {
  return new SinkForked(
    `${seen}, and this ledger has ${Math.max(size, entries())}: ` +
      'it was restored from an older back-up, or entries were cut off its end',
  );
}

/** The newest checkpoint that is stored. @throws {@link SinkTrouble} */
export async function storedHead({ tree }: LogView): Promise<Published> {
  try {
    const note = await tree.head();
    if (note === undefined) throw new SinkTrouble('the newest checkpoint of this ledger is missing');
    return { note, checkpoint: checkpointOf(note) };
  } catch (error) {
    throw treeTrouble(error);
  }
}

/** @throws {@link SinkTrouble} when the tree lacks hashes. */
async function rootIn(tiles: HashSource, size: number): Promise<Buffer> {
  try {
    return await rootAt(tiles, size);
  } catch (error) {
    throw treeTrouble(error);
  }
}

/** What to report when the tree cannot give a root or a proof. */
export function treeTrouble(error: unknown): SinkTrouble {
  if (error instanceof SinkTrouble) return error;
  if (error instanceof TilesIncomplete) {
    return new SinkTrouble(`${error.message}; see collector verify`, { cause: error });
  }
  const code = systemCode(error);
  const reason = code === undefined ? '' : ` (${code})`;
  return new SinkTrouble(`the tree of this ledger cannot be read${reason}`, { cause: error });
}
