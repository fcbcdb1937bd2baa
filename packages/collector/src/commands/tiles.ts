/**
 * `collector proof --tiles`: the tree of the log as tiles, for tools that know nothing of a collector, and its entries:
 * the leaves, which tell when each event was received and hashes.
 *
 * Nothing is taken on trust. The entries are made from the events, their hashes have to be those of the tree, the
 * hashes above have to follow from them, and the root has to be the one that is signed: else the export ends before
 * its checkpoint is put in place.
 *
 * An export into a directory that holds an earlier one continues it. What its checkpoint covers was checked then; the
 * last tiles of it are compared, the rest has to be there.
 */
import { hash } from 'node:crypto';
import { LEAF_BYTES, encodeLeaf } from '@clinical-events/protocol';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { GrowingTree } from '../tree/growing-tree.js';
import {
  HASH_BYTES,
  TILE_HASHES,
  TilesIncomplete,
  completeHashes,
  encodedLeafHash,
  rootAt,
  tilesOf,
} from '../tree/merkle.js';
import { type EntryLog, type StoredEntry, cursorAt } from '../store/contract/events.js';
import type { TreeReader } from '../store/contract/tree.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { TileDirectory } from './tile-directory.js';
import { checkpointIn, type LogCheckpoints, newestCheckpoint } from './verify/log-checkpoints.js';

/** An entry with its length in front, in two bytes. */
const ENTRY_BYTES = 2 + LEAF_BYTES;
const FULL_TILE_BYTES = TILE_HASHES * HASH_BYTES;
const FULL_BUNDLE_BYTES = TILE_HASHES * ENTRY_BYTES;

/** A log, and the directory with its public keys. */
interface SignedLog {
  readonly dataDir: string;
  readonly tree: TreeReader;
  readonly events: EntryLog;
}

export interface Exported {
  readonly checkpoint: Checkpoint;
  /** Events that an earlier export had brought. */
  readonly before: number;
  /** Files of tiles and entries that were written. */
  readonly written: number;
}

/**
 * Exports what the newest checkpoint covers.
 * @param directory is made once there is something to export.
 * @param onProgress events exported so far, and of how many.
 * @throws CommandFailure
 */
export async function exportTiles(
  log: SignedLog,
  directory: string,
  onProgress: (events: number, of: number) => void,
): Promise<Exported> {
  let target: TileDirectory | undefined;
  try {
    const signed = await newestCheckpoint(log.dataDir, log.tree);
    if (signed === undefined) {
      throw new CommandFailure(
        `nothing is signed in ${log.dataDir} yet: the next start of a collector signs a checkpoint`,
        EXIT.failure,
      );
    }
    target = new TileDirectory(directory);
    return await new Export(log, signed, target).run(onProgress);
  } catch (error) {
    if (error instanceof TilesIncomplete) throw damaged(error.message, error);
    throw error;
  } finally {
    await target?.close();
  }
}

class Export {
  /** How many entries the directory's own checkpoint covers. */
  #before = 0;
  readonly #checkpoint: Checkpoint;

  constructor(
    private readonly log: SignedLog,
    private readonly signed: LogCheckpoints,
    private readonly target: TileDirectory,
  ) {
    this.#checkpoint = signed.newest.checkpoint;
  }

  async run(onProgress: (events: number, of: number) => void): Promise<Exported> {
    const { target } = this;
    this.#before = await this.#exported();
    await this.#bringEntries(onProgress);
    for (const { level, index, width } of tilesOf(this.#checkpoint.size)) {
      const before = this.#widthBefore(level, index);
      if (level === 0 || (before === TILE_HASHES && target.holds(level, index, FULL_TILE_BYTES))) continue;
      await target.put(level, index, before, width, await this.#hashes(level, index * TILE_HASHES, width));
    }
    await target.finish(this.signed.newest.note);
    return { checkpoint: this.#checkpoint, before: this.#before, written: target.written };
  }

  /** @throws CommandFailure when this log does not continue what the directory's checkpoint covers. */
  async #exported(): Promise<number> {
    const { root: directory } = this.target;
    const note = this.target.checkpoint();
    if (note === undefined) return 0;
    const { size, root } = ownCheckpoint(note, this.signed, directory);
    const newest = this.#checkpoint.size;
    if (size > newest) {
      throw damaged(
        `${directory} holds the tiles of ${size} entries of this log, and its newest checkpoint covers ${newest}: ` +
          'entries were cut off its end, or it was restored from an older back-up',
      );
    }
    if ((await rootAt(this.log.tree, size)).equals(root)) return size;
    throw damaged(
      `${directory} holds the tiles of ${size} entries that are not the first ${size} of this log: it was altered, ` +
        'or restored from an older back-up and then went on differently',
    );
  }

  /** How many hashes of the tile an earlier export had. */
  #widthBefore(level: number, index: number): number {
    const hashes = Math.floor(this.#before / TILE_HASHES ** level) - index * TILE_HASHES;
    return Math.max(0, Math.min(TILE_HASHES, hashes));
  }

  #hashes(level: number, first: number, count: number): Promise<Buffer> {
    return completeHashes(this.log.tree, level, first, count);
  }

  /** The first bundle of entries, or tile of level 0, that has to be made: at the latest the last one that was. */
  #firstBundle(): number {
    const { target } = this;
    const last = Math.max(0, Math.ceil(this.#before / TILE_HASHES) - 1);
    let index = 0;
    while (
      index < last &&
      target.holds(0, index, FULL_TILE_BYTES) &&
      target.holds('entries', index, FULL_BUNDLE_BYTES)
    )
      index++;
    return index;
  }

  /** Puts the entries and the tiles of level 0, and checks every hash from there up to the signed root. */
  async #bringEntries(onProgress: (events: number, of: number) => void): Promise<void> {
    const { target } = this;
    const { size, root } = this.#checkpoint;
    const first = this.#firstBundle();
    const growing = await GrowingTree.at(this.log.tree, first * TILE_HASHES);
    for await (const { index, width, entries, hashes } of this.#bundles(first)) {
      growing.append(hashes, width);
      await this.#assertFollows(growing);
      const before = this.#widthBefore(0, index);
      await target.put(0, index, before, width, hashes);
      await target.put('entries', index, before, width, entries);
      onProgress(growing.size, size);
    }
    if (growing.root().equals(root)) return;
    throw damaged(`the tree does not come to the root of the checkpoint over ${size} entries`);
  }

  /** The entries of 256 events at a time and their hashes, each of which is that of the tree. */
  async *#bundles(first: number): AsyncGenerator<Bundle> {
    const { size } = this.#checkpoint;
    let at = first * TILE_HASHES;
    if (at >= size) return;
    let bundle = await this.#bundle(first);
    for await (const batch of this.log.events.entries(cursorAt(at + 1))) {
      for (const entry of batch) {
        fill(bundle, at++ % TILE_HASHES, entry);
        if (at % TILE_HASHES !== bundle.width % TILE_HASHES) continue;
        yield bundle;
        if (at >= size) return;
        bundle = await this.#bundle(bundle.index + 1);
      }
    }
    throw damaged(`the log can be read up to entry ${at} only, and a checkpoint was signed over ${size}`);
  }

  /** To be filled. */
  async #bundle(index: number): Promise<Bundle> {
    const width = Math.min(TILE_HASHES, this.#checkpoint.size - index * TILE_HASHES);
    return {
      ...{ index, width },
      entries: Buffer.allocUnsafe(width * ENTRY_BYTES),
      hashes: Buffer.allocUnsafe(width * HASH_BYTES),
      wanted: await this.#hashes(0, index * TILE_HASHES, width),
    };
  }

  /** Every hash above level 0 that came to be is that of the tree. */
  async #assertFollows(growing: GrowingTree): Promise<void> {
    for (const { level, first, hashes } of growing.drain()) {
      if (level === 0 || (await this.#hashes(level, first, hashes.length / HASH_BYTES)).equals(hashes))
        continue;
      throw damaged(`hash ${first} of level ${level} of the tree does not follow from its events`);
    }
  }
}

/** Neighbours: their entries, their hashes, and those that the tree has for them. */
interface Bundle {
  readonly index: number;
  readonly width: number;
  readonly entries: Buffer;
  readonly hashes: Buffer;
  readonly wanted: Buffer;
}

/** The hash is of the bytes that are given out. @throws CommandFailure when the tree has another one. */
function fill({ entries, hashes, wanted }: Bundle, i: number, entry: StoredEntry): void {
  const { envelope, commitment, sequence, eventId } = entry;
  const [at, hashAt] = [i * ENTRY_BYTES, i * HASH_BYTES];
  entries.writeUInt16BE(LEAF_BYTES, at);
  encodeLeaf(entries, at + 2, envelope, hash('sha256', envelope, 'buffer'), commitment);
  encodedLeafHash(entries.subarray(at + 2, at + ENTRY_BYTES), hashes, hashAt);
  if (hashes.compare(wanted, hashAt, hashAt + HASH_BYTES, hashAt, hashAt + HASH_BYTES) !== 0)
    throw damaged(`event ${sequence} (${eventId}) does not have the hash that the tree has for it`);
}

/** The checkpoint in the directory, which must be of this log. */
function ownCheckpoint(note: string, { history }: LogCheckpoints, directory: string): Checkpoint {
  try {
    return checkpointIn(note, history);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw usage(
      `${directory} holds the tiles of another log: its checkpoint is not one of ${history.origin} (${reason}); give a ` +
        'directory of its own',
    );
  }
}

function damaged(message: string, cause?: unknown): CommandFailure {
  return new CommandFailure(`${message}; see collector verify`, EXIT.damaged, { cause });
}
