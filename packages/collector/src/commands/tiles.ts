/**
 * `collector proof --tiles`: exports the tree as tiles for independent tools, and its entries: the leaves,
 * which have hashes and times of receipt.
 *
 * Everything is checked: the entries are made from the events, their hashes must be those in the tree, the
 * hashes above must follow from them, and the root must be the signed one. Otherwise the export ends before
 * the checkpoint is written.
 *
 * An export into the directory of an earlier one continues it. The earlier export checked the part under its
 * checkpoint. Of that part, the last tiles are compared, and the others must exist.
 *
 * The directory (C2SP tlog-tiles):
 *
 *   checkpoint                              the signed note, replaced last
 *   tile/<level>/<number>[.p/<width>]       hashes
 *   tile/entries/<number>[.p/<width>]       entries
 *   .collector-drafts/                      files being written; removed when an export ends
 *
 * Every file is on stable storage before a rename makes it visible. So a reader at any time, or after a
 * crash, finds a checkpoint and everything it covers.
 */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
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
  tilePath,
  tilesOf,
} from '../tree/merkle.js';
import { type StoredEntry, cursorAt } from '../store/contract/events.js';
import { messageOf, systemCode } from '../system-code.js';
import { nodeFiles } from '../files.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import type { LogReading } from './log-reading.js';
import { checkpointIn, type LogCheckpoints, newestCheckpoint } from './verify/log-checkpoints.js';

/** An entry preceded by its length in two bytes. */
const ENTRY_BYTES = 2 + LEAF_BYTES;

const CHECKPOINT = 'checkpoint';
const TILES = 'tile';
const DRAFTS = '.collector-drafts';
const PARTIAL = '.p';
/** Files written concurrently, since each flush waits for the disk. */
const AT_ONCE = 32;

type Level = number | 'entries';
type ExportedLog = Pick<LogReading, 'dataDir' | 'tree' | 'events'>;

export interface Exported {
  readonly checkpoint: Checkpoint;
  /** Number of entries in the earlier export. */
  readonly before: number;
  /** Number of tile and entry files written. */
  readonly written: number;
}

/**
 * Exports what the newest checkpoint covers.
 * @param directory created once there is something to export.
 * @param onProgress entries exported so far, and their total.
 * @throws CommandFailure
 */
export async function exportTiles(
  log: ExportedLog,
  directory: string,
  onProgress: (events: number, of: number) => void,
): Promise<Exported> {
  let target: TileDirectory | undefined;
  try {
    const signed = await newestCheckpoint(log.dataDir, log.tree);
    if (signed === undefined) {
      throw new CommandFailure(
        `nothing is signed in ${log.dataDir} yet: a collector signs a checkpoint when it starts`,
        EXIT.failure,
      );
    }
    target = new TileDirectory(directory);
    const { checkpoint, note } = signed.newest;
    const before = await sizeBefore(log, signed, target);
    await putEntries(log, { target, checkpoint, before, onProgress });
    for (const { level, index, width } of tilesOf(checkpoint.size)) {
      const known = widthBefore(before, level, index);
      if (level === 0 || (known === TILE_HASHES && target.holds(level, index, TILE_HASHES * HASH_BYTES)))
        continue;
      const hashes = await completeHashes(log.tree, level, index * TILE_HASHES, width);
      await target.put({ level, index, width, before: known }, hashes);
    }
    await target.finish(note);
    return { checkpoint, before, written: target.written };
  } catch (error) {
    if (error instanceof TilesIncomplete) throw damaged(error.message, error);
    throw error;
  } finally {
    await target?.close();
  }
}

/**
 * The number of entries that the directory's checkpoint covers; 0 without one.
 * @throws CommandFailure if this log does not continue them.
 */
async function sizeBefore(
  { tree }: ExportedLog,
  { history, newest }: LogCheckpoints,
  { root: directory, checkpoint: note }: TileDirectory,
): Promise<number> {
  if (note === undefined) return 0;
  let own: Checkpoint;
  try {
    own = checkpointIn(note, history);
  } catch (error) {
    const reason = messageOf(error);
    throw usage(
      `${directory} holds the tiles of another log: its checkpoint is not one of ${history.origin} ` +
        `(${reason}); give another directory`,
    );
  }
  if (own.size > newest.checkpoint.size)
    throw damaged(
      `${directory} holds the tiles of ${own.size} entries of this log, but its newest checkpoint covers ` +
        `only ${newest.checkpoint.size}: the log was truncated or restored from an older back-up`,
    );
  if ((await rootAt(tree, own.size)).equals(own.root)) return own.size;
  throw damaged(
    `${directory} holds the tiles of ${own.size} entries that are not the first ${own.size} of this log: ` +
      'the log was altered, or restored from an older back-up and then continued differently',
  );
}

/** The number of hashes of the tile in an earlier export. */
function widthBefore(before: number, level: number, index: number): number {
  const hashes = Math.floor(before / TILE_HASHES ** level) - index * TILE_HASHES;
  return Math.max(0, Math.min(TILE_HASHES, hashes));
}

/** The first bundle of entries to make, which is at most the last one of the earlier export. */
function firstBundle(target: TileDirectory, before: number): number {
  const last = Math.max(0, Math.ceil(before / TILE_HASHES) - 1);
  let index = 0;
  while (
    index < last &&
    target.holds(0, index, TILE_HASHES * HASH_BYTES) &&
    target.holds('entries', index, TILE_HASHES * ENTRY_BYTES)
  )
    index++;
  return index;
}

interface Work {
  readonly target: TileDirectory;
  readonly checkpoint: Checkpoint;
  readonly before: number;
  readonly onProgress: (events: number, of: number) => void;
}

/**
 * Writes the entries and the tiles of level 0, and checks every hash above up to the signed root. @throws
 * CommandFailure
 */
async function putEntries(log: ExportedLog, { target, checkpoint, before, onProgress }: Work): Promise<void> {
  const { size, root } = checkpoint;
  const first = firstBundle(target, before);
  const growing = await GrowingTree.at(log.tree, first * TILE_HASHES);
  for await (const { index, width, entries, hashes } of bundles(log, first, size)) {
    growing.append(hashes, width);
    for (const { level, first: from, hashes: gained } of growing.drain()) {
      // Level 0 was compared with the stored hashes in `fill`.
      if (level === 0) continue;
      const stored = await completeHashes(log.tree, level, from, gained.length / HASH_BYTES);
      if (!stored.equals(gained))
        throw damaged(`hash ${from} of level ${level} of the tree does not follow from its events`);
    }
    const tile = { index, width, before: widthBefore(before, 0, index) };
    await target.put({ level: 0, ...tile }, hashes);
    await target.put({ level: 'entries', ...tile }, entries);
    onProgress(growing.size, size);
  }
  if (!growing.root().equals(root))
    throw damaged(`the tree does not lead to the root of the checkpoint over ${size} entries`);
}

/** Up to 256 neighbouring entries with their hashes and the hashes that the tree has for them. */
interface Bundle {
  readonly index: number;
  readonly width: number;
  readonly entries: Buffer;
  readonly hashes: Buffer;
  readonly stored: Buffer;
}

/**
 * @param size the total number of entries.
 * @throws CommandFailure if the log has fewer, or the tree has a different hash.
 */
async function* bundles({ events, tree }: ExportedLog, first: number, size: number): AsyncGenerator<Bundle> {
  let at = first * TILE_HASHES;
  if (at >= size) return;
  const begin = async (index: number): Promise<Bundle> => {
    const width = Math.min(TILE_HASHES, size - index * TILE_HASHES);
    return {
      ...{ index, width, entries: Buffer.allocUnsafe(width * ENTRY_BYTES) },
      hashes: Buffer.allocUnsafe(width * HASH_BYTES),
      stored: await completeHashes(tree, 0, index * TILE_HASHES, width),
    };
  };
  let bundle = await begin(first);
  for await (const batch of events.entries(cursorAt(at + 1))) {
    for (const entry of batch) {
      fill(bundle, at++ % TILE_HASHES, entry);
      if (at % TILE_HASHES !== bundle.width % TILE_HASHES) continue;
      yield bundle;
      if (at >= size) return;
      bundle = await begin(bundle.index + 1);
    }
  }
  throw damaged(`the log can be read up to entry ${at} only, but a checkpoint covers ${size} entries`);
}

/** Hashes the exported bytes of an entry. @throws CommandFailure if the tree has a different hash. */
function fill({ entries, hashes, stored }: Bundle, i: number, entry: StoredEntry): void {
  const { envelope, commitment, sequence, eventId } = entry;
  const [at, hashAt] = [i * ENTRY_BYTES, i * HASH_BYTES];
  entries.writeUInt16BE(LEAF_BYTES, at);
  encodeLeaf(entries, at + 2, envelope, hash('sha256', envelope, 'buffer'), commitment);
  encodedLeafHash(entries.subarray(at + 2, at + ENTRY_BYTES), hashes, hashAt);
  if (hashes.compare(stored, hashAt, hashAt + HASH_BYTES, hashAt, hashAt + HASH_BYTES) !== 0)
    throw damaged(`event ${sequence} (${eventId}) does not have the hash that the tree has for it`);
}

function damaged(message: string, cause?: unknown): CommandFailure {
  return new CommandFailure(`${message}; see collector verify`, EXIT.damaged, { cause });
}

interface Tile {
  readonly level: Level;
  readonly index: number;
  readonly width: number;
  /** Its width in the earlier export, or 0; that part must not have changed. */
  readonly before: number;
}

class TileDirectory {
  /** The signed note; undefined before the first export has ended. */
  readonly checkpoint: string | undefined;
  /** Number of files written. */
  written = 0;
  readonly #made = new Set<string>();
  readonly #writing: Promise<void>[] = [];
  #drafts = 0;

  /**
   * Creates the directory.
   * @throws CommandFailure if it holds other files and no checkpoint.
   */
  constructor(readonly root: string) {
    try {
      fs.mkdirSync(root, { recursive: true });
      const names = fs.readdirSync(root);
      const other = names.find((name) => name !== TILES && name !== DRAFTS);
      if (other !== undefined && !names.includes(CHECKPOINT))
        throw usage(`${root} holds ${other} and no tiles; give an empty or a new directory`);
    } catch (error) {
      const code = systemCode(error);
      if (code === 'ENOTDIR' || code === 'EEXIST') throw usage(`${root} is not a directory`);
      throw error;
    }
    this.checkpoint = this.#read(CHECKPOINT)?.toString();
    // An interrupted export may have left drafts.
    this.#removeDrafts();
  }

  /** Whether a full tile with this size in bytes exists. */
  holds(level: Level, index: number, bytes: number): boolean {
    const file = path.join(this.root, tilePath(level, index, TILE_HASHES));
    return fs.statSync(file, { throwIfNoEntry: false })?.size === bytes;
  }

  /**
   * Writes the tile unless it exists unchanged. The write completes in `finish` or earlier.
   * @throws CommandFailure if a tile of the earlier export was changed; the system's error of this file or an
   *   earlier one.
   */
  async put({ level, index, width, before }: Tile, bytes: Buffer): Promise<void> {
    const name = tilePath(level, index, width);
    if (before > 0) {
      // A missing or truncated tile is written again.
      const part = bytes.subarray(0, (before * bytes.length) / width);
      const known = tilePath(level, index, before);
      const found = this.#read(known) ?? this.#read(tilePath(level, index, TILE_HASHES));
      if (found !== undefined && found.length >= part.length && !found.subarray(0, part.length).equals(part))
        throw new CommandFailure(
          `${this.root}/${known} differs from this log: it was changed; export to an empty directory`,
          EXIT.damaged,
        );
    }
    if (this.#read(name)?.equals(bytes)) return;
    this.written++;
    const writing = this.#write(name, bytes);
    // The promise is awaited with the others.
    writing.catch(() => undefined);
    if (this.#writing.push(writing) === AT_ONCE) await this.#written();
  }

  /** Writes the checkpoint once every tile is on stable storage. */
  async finish(note: string): Promise<void> {
    await this.#written();
    for (const directory of this.#made) nodeFiles.syncDirectory(path.join(this.root, directory));
    if (this.checkpoint !== note) {
      await this.#write(CHECKPOINT, Buffer.from(note));
      nodeFiles.syncDirectory(this.root);
    }
    this.#removePartial();
  }

  /** Removes all drafts. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#writing);
    this.#removeDrafts();
  }

  /** @throws the system's error of the first file that could not be written. */
  async #written(): Promise<void> {
    await Promise.all(this.#writing);
    this.#writing.length = 0;
  }

  #removeDrafts(): void {
    fs.rmSync(path.join(this.root, DRAFTS), { recursive: true, force: true });
  }

  /** Removes partial tiles whose full tile exists: no checkpoint needs them. */
  #removePartial(): void {
    const tiles = path.join(this.root, TILES);
    if (!fs.existsSync(tiles)) return;
    for (const entry of fs.readdirSync(tiles, { recursive: true, withFileTypes: true })) {
      const name = path.join(entry.parentPath, entry.name);
      if (entry.isDirectory() && name.endsWith(PARTIAL) && fs.existsSync(name.slice(0, -PARTIAL.length)))
        fs.rmSync(name, { recursive: true });
    }
  }

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    this.#makeDirectory(path.dirname(name));
    this.#makeDirectory(DRAFTS);
    const draft = path.join(this.root, DRAFTS, `${process.pid}-${this.#drafts++}`);
    await fs.promises.writeFile(draft, bytes, { flag: 'wx', flush: true });
    await fs.promises.rename(draft, path.join(this.root, name));
  }

  #makeDirectory(directory: string): void {
    if (this.#made.has(directory)) return;
    fs.mkdirSync(path.join(this.root, directory), { recursive: true });
    // A directory's entry is in its parent, which must be synchronised too.
    for (let at = directory; !this.#made.has(at); at = path.dirname(at)) this.#made.add(at);
  }

  #read(name: string): Buffer | undefined {
    try {
      return fs.readFileSync(path.join(this.root, name));
    } catch (error) {
      const code = systemCode(error);
      if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
      throw error;
    }
  }
}
