/** `collector tiles`: the tree of the log for tools that know nothing of a collector. */
import { hash } from 'node:crypto';
import path from 'node:path';
import { LEAF_BYTES, encodeLeaf } from '@clinical-events/protocol';
import { type Checkpoint, parseCheckpoint } from '@clinical-events/protocol/verify';
import { Command } from 'commander';
import type { Config } from '../config.js';
import { GrowingTree } from '../integrity/growing-tree.js';
import {
  HASH_BYTES,
  TILE_HASHES,
  TilesIncomplete,
  completeHashes,
  rootAt,
  type Tile,
  tilePath,
  tilesOf,
} from '../integrity/merkle.js';
import { verifyNote } from '../integrity/note-signing.js';
import { counted } from '../quantity.js';
import { StoreDamaged, type StoredEntry, cursorAt } from '../store/contract/events.js';
import { type TreeReader } from '../store/contract/tree.js';
import { openStore } from '../store/open-to-read.js';
import { systemCode } from '../system-code.js';
import type { KeyHistory } from '../transparency/key-files.js';
import { logAccess } from './access-log.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { ProgressBar, printable } from './terminal.js';
import { LOG_DIRECTORIES, assertReadable } from './regular-files.js';
import { NotATileDirectory, TileDirectory } from './tile-directory.js';
import { type LogCheckpoints, newestCheckpoint } from './verify/log-checkpoints.js';
import { addConfigOptions, configOf } from './arguments.js';

/*
 * Exports the tree of a log as tiles, and its entries: the leaves, which tell when each event was received and hashes.
 *
 * Nothing is taken on trust. The entries are made from the events, their hashes have to be those of the tree, the
 * hashes above have to follow from them, and the root has to be the one that is signed: else the export ends before
 * its checkpoint is put in place.
 *
 * An export into a directory that holds an earlier one goes on from it. What its checkpoint covers was checked then; the
 * last tiles of it are compared, the rest has to be there.
 */

export interface Exported {
  readonly checkpoint: Checkpoint;
  /** Events that an earlier export had brought. */
  readonly before: number;
  /** Files of tiles and entries that were written. */
  readonly written: number;
}

/** An entry with its length in front, in two bytes. */
const ENTRY_BYTES = 2 + LEAF_BYTES;
const FULL_TILE_BYTES = TILE_HASHES * HASH_BYTES;
const FULL_BUNDLE_BYTES = TILE_HASHES * ENTRY_BYTES;

/**
 * Exports what the newest checkpoint covers.
 * @param openTarget is called once there is something to export.
 * @param onProgress events exported so far, and of how many.
 * @throws CommandFailure
 */
export async function exportTiles(
  dataDir: string,
  openTarget: () => TileDirectory,
  onProgress: (events: number, of: number) => void,
): Promise<Exported> {
  const tree = openStore(dataDir).tree;
  try {
    const found = await newestCheckpoint(dataDir, tree);
    if (found === undefined) {
      throw new CommandFailure(
        `nothing is signed in ${dataDir} yet: the next start of a collector signs a checkpoint`,
        EXIT.failure,
      );
    }
    const target = openTarget();
    try {
      return await new Export(dataDir, tree, found, target).run(onProgress);
    } finally {
      await target.close();
    }
  } catch (error) {
    if (error instanceof StoreDamaged)
      throw new CommandFailure(error.message, EXIT.damaged, { cause: error });
    if (error instanceof TilesIncomplete) throw damaged(error.message, error);
    throw error;
  } finally {
    await tree.close();
  }
}

class Export {
  readonly #checkpoint: Checkpoint;

  constructor(
    private readonly dataDir: string,
    private readonly tree: TreeReader,
    private readonly log: LogCheckpoints,
    private readonly target: TileDirectory,
  ) {
    this.#checkpoint = log.newest.checkpoint;
  }

  async run(onProgress: (events: number, of: number) => void): Promise<Exported> {
    const { tree, target } = this;
    const { size } = this.#checkpoint;
    const before = await this.#exported();
    await this.#checkEdge(before);
    await this.#bringEntries(before, onProgress);
    for (const { level, index, width } of tilesOf(size)) {
      if (level === 0 || (width === TILE_HASHES && this.#isThere(level, index, before))) continue;
      const hashes = await completeHashes(tree, level, index * TILE_HASHES, width);
      await target.put(level, index, width, hashes);
    }
    await target.flush();
    await target.setCheckpoint(this.log.newest.note);
    target.clearAway();
    return { checkpoint: this.#checkpoint, before, written: target.written };
  }

  /** How many events the directory's checkpoint covers, once it is sure that this log goes on from them. */
  async #exported(): Promise<number> {
    const { target, tree } = this;
    const note = target.checkpoint();
    if (note === undefined) return 0;
    const { size, root } = ownCheckpoint(note, this.log.history, target.root);
    const newest = this.#checkpoint.size;
    if (size > newest) {
      throw damaged(
        `${target.root} holds the tiles of ${size} entries of this log, and its newest checkpoint covers ${newest}: ` +
          'entries were cut off its end, or it was restored from an older back-up',
      );
    }
    if ((await rootAt(tree, size)).equals(root)) return size;
    throw damaged(
      `${target.root} holds the tiles of ${size} entries that are not the first ${size} of this log: it was altered, ` +
        'or restored from an older back-up and then went on differently',
    );
  }

  /** The last tile of each level: a directory that is of another log, or was damaged, shows there if anywhere cheaply. */
  async #checkEdge(before: number): Promise<void> {
    const edge = new Map<number, Tile>();
    for (const tile of tilesOf(before)) edge.set(tile.level, tile);
    for (const { level, index, width } of edge.values()) {
      const hashes = await completeHashes(this.tree, level, index * TILE_HASHES, width);
      this.#assertUnchanged(level, index, width, hashes);
    }
  }

  /** What is missing or cut short will be written; what is there has to be so. */
  #assertUnchanged(level: number | 'entries', index: number, width: number, bytes: Buffer): void {
    const there = this.target.tile(level, index, width)?.subarray(0, bytes.length);
    if (there === undefined || there.length < bytes.length || there.equals(bytes)) return;
    throw new CommandFailure(
      `${this.target.root}/${tilePath(level, index, width)} is not what this log has there: it was changed; ` +
        'export into an empty directory',
      EXIT.damaged,
    );
  }

  #isThere(level: number, index: number, before: number): boolean {
    const isCovered = (index + 1) * TILE_HASHES ** (level + 1) <= before;
    return isCovered && this.target.holds(level, index, TILE_HASHES, FULL_TILE_BYTES);
  }

  /** The first bundle of entries, or tile of level 0, that has to be made: at the latest the last one that was. */
  #firstBundle(before: number): number {
    const { target } = this;
    const last = Math.max(0, Math.ceil(before / TILE_HASHES) - 1);
    for (let index = 0; index < last; index++) {
      const isThere =
        target.holds(0, index, TILE_HASHES, FULL_TILE_BYTES) &&
        target.holds('entries', index, TILE_HASHES, FULL_BUNDLE_BYTES);
      if (!isThere) return index;
    }
    return last;
  }

  /** Puts the entries and the tiles of level 0, and checks every hash from there up to the signed root. */
  async #bringEntries(before: number, onProgress: (events: number, of: number) => void): Promise<void> {
    const { tree, target } = this;
    const { size, root } = this.#checkpoint;
    const firstBundle = this.#firstBundle(before);
    const growing = await GrowingTree.at(tree, firstBundle * TILE_HASHES);
    for await (const { index, width, entries, hashes } of this.#bundles(firstBundle)) {
      const covered = Math.min(width, before - index * TILE_HASHES);
      if (covered > 0)
        this.#assertUnchanged('entries', index, covered, entries.subarray(0, covered * ENTRY_BYTES));
      growing.append(hashes, width);
      await this.#assertFollows(growing);
      await target.put(0, index, width, hashes);
      await target.put('entries', index, width, entries);
      onProgress(growing.size, size);
    }
    if (growing.root().equals(root)) return;
    throw damaged(`the tree does not come to the root of the checkpoint over ${size} entries`);
  }

  /** The entries of 256 events at a time and their hashes, each of which is that of the tree. */
  async *#bundles(first: number): AsyncGenerator<Bundle> {
    const { size } = this.#checkpoint;
    if (first * TILE_HASHES >= size) return;
    let bundle = await this.#bundle(first);
    let filled = 0;
    const log = openStore(this.dataDir).events;
    try {
      for await (const batch of log.entries(cursorAt(first * TILE_HASHES + 1))) {
        for (const entry of batch) {
          fill(bundle, filled++, entry);
          if (filled < bundle.width) continue;
          yield bundle;
          if ((bundle.index + 1) * TILE_HASHES >= size) return;
          bundle = await this.#bundle(bundle.index + 1);
          filled = 0;
        }
      }
    } finally {
      await log.close();
    }
    throw endsEarly(bundle.index * TILE_HASHES + filled, size);
  }

  /** To be filled. */
  async #bundle(index: number): Promise<Bundle> {
    const width = Math.min(TILE_HASHES, this.#checkpoint.size - index * TILE_HASHES);
    return {
      ...{ index, width },
      entries: Buffer.allocUnsafe(width * ENTRY_BYTES),
      hashes: Buffer.allocUnsafe(width * HASH_BYTES),
      wanted: await completeHashes(this.tree, 0, index * TILE_HASHES, width),
    };
  }

  /** Every hash above level 0 that came to be is that of the tree. */
  async #assertFollows(growing: GrowingTree): Promise<void> {
    for (const { level, first, hashes } of growing.drain()) {
      if (level === 0) continue;
      const wanted = await completeHashes(this.tree, level, first, hashes.length / HASH_BYTES);
      if (!wanted.equals(hashes))
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

/** @throws CommandFailure when the tree has another hash for it. */
function fill({ entries, hashes, wanted }: Bundle, i: number, entry: StoredEntry): void {
  const at = i * HASH_BYTES;
  putEntry(entry, entries, i * ENTRY_BYTES);
  hashEntry(entries, i * ENTRY_BYTES, hashes, at);
  if (hashes.compare(wanted, at, at + HASH_BYTES, at, at + HASH_BYTES) !== 0) throw altered(entry);
}

const envelopeHash = Buffer.alloc(HASH_BYTES);
/** RFC 6962 section 2.1: a leaf is hashed behind a zero byte. */
const prefixedLeaf = Buffer.alloc(1 + LEAF_BYTES);

function putEntry({ envelope, commitment }: StoredEntry, target: Buffer, at: number): void {
  target.writeUInt16BE(LEAF_BYTES, at);
  writeHash(envelope, envelopeHash, 0);
  encodeLeaf(target, at + 2, envelope, envelopeHash, commitment);
}

/** Of the bytes that are given out, and not once more of the event. */
function hashEntry(entries: Buffer, at: number, target: Buffer, targetAt: number): void {
  entries.copy(prefixedLeaf, 1, at + 2, at + ENTRY_BYTES);
  writeHash(prefixedLeaf, target, targetAt);
}

/** As in merkle.ts: a third of the time that a buffer for each hash takes. */
function writeHash(bytes: Uint8Array, target: Buffer, at: number): void {
  target.write(hash('sha256', bytes, 'binary'), at, 'latin1');
}

/** The checkpoint in the directory, which must be of this log. */
function ownCheckpoint(note: string, { keys, origin }: KeyHistory, directory: string): Checkpoint {
  let reason: string;
  try {
    const checkpoint = parseCheckpoint(verifyNote(note, keys).text);
    if (checkpoint.origin === origin) return checkpoint;
    reason = `it is of ${checkpoint.origin}`;
  } catch (error) {
    reason = error instanceof Error ? error.message : String(error);
  }
  throw usage(
    `${directory} holds the tiles of another log: its checkpoint is not one of ${origin} (${reason}); give a directory of its own`,
  );
}

function altered({ sequence, eventId }: StoredEntry): CommandFailure {
  return damaged(`event ${sequence} (${eventId}) does not have the hash that the tree has for it`);
}

function endsEarly(readable: number, size: number): CommandFailure {
  return damaged(
    `the log can be read up to entry ${readable} only, and a checkpoint was signed over ${size}`,
  );
}

function damaged(message: string, cause?: unknown): CommandFailure {
  return new CommandFailure(`${message}; see collector verify`, EXIT.damaged, { cause });
}

const EXAMPLES = `
Examples:
  $ collector tiles export /srv/log
  $ collector tiles export /srv/log --json | jq .tree_size

Writes what the newest checkpoint covers as a static directory in the layout of C2SP tlog-tiles: any web server can
serve it, and independent tools can read and audit it. Run again it goes on from there, and the checkpoint is always
the last to change: anyone who reads meanwhile finds everything that the checkpoint they got needs.

The entries are the leaves of the tree: when each event was received, and hashes. They hold nothing of what was sent or
by whom, but tell how many events came and when; and anyone who knows an event's id and who sent it can find its leaf.

That it ran is logged in access.log in the data directory, as an access.

Exit codes: 6 there is no ledger, 2 the directory holds something else or the tiles of another log, 1 nothing is signed
yet, 3 what is stored is damaged, or the tiles are of a log that went on differently; then the checkpoint is not changed.`;

/** Fewer are exported before anybody wonders. */
const BAR_FROM_ENTRIES = 200_000;

export function command(): Command {
  const exporting = addConfigOptions(
    new Command('export').description('Write the tree, its entries and a checkpoint as a static directory.'),
    'tiles',
  )
    .argument('<directory>', 'where to; made when it is not there')
    .option('--json', 'print what was done as one JSON object')
    .addHelpText('after', EXAMPLES)
    .action((directory: string, options: { readonly json?: true }, self: Command) =>
      exportTo(path.resolve(directory), options, configOf(self, 'tiles')),
    );
  const tiles = new Command('tiles').description('Export the tree of the log as static files.');
  tiles.addCommand(exporting);
  return tiles;
}

async function exportTo(
  directory: string,
  options: { readonly json?: true },
  { dataDir }: Config,
): Promise<void> {
  assertReadable(dataDir, LOG_DIRECTORIES);
  const givenOut = logAccess(dataDir, { command: 'tiles export', filter: { directory } });
  const wanted = options.json !== true && process.stderr.isTTY;
  const bar = new ProgressBar({ wanted, unit: 'entries', per: 1, from: BAR_FROM_ENTRIES });
  let done: Exported;
  try {
    done = await exportTiles(
      dataDir,
      () => openTarget(directory),
      (entries, of) => {
        givenOut.events = entries;
        bar.show(entries, of);
      },
    );
  } finally {
    bar.clear();
  }
  const { checkpoint, before, written } = done;
  const { origin, size } = checkpoint;
  givenOut.events = size;
  givenOut.complete = true;
  if (options.json) {
    const told = { directory, origin, tree_size: size, tree_size_before: before, files_written: written };
    process.stdout.write(`${JSON.stringify(told, undefined, 2)}\n`);
    return;
  }
  const since = before === 0 ? '' : `, of which ${before} were there`;
  process.stdout.write(
    `${directory} holds the tiles of ${counted(size, 'entry', 'entries')} of ${printable(origin)}${since}. ` +
      `${counted(written, 'file')} written.\n`,
  );
}

function openTarget(directory: string): TileDirectory {
  try {
    return new TileDirectory(directory);
  } catch (error) {
    if (error instanceof NotATileDirectory)
      throw usage(`${error.message}; give an empty directory, or a new one`);
    const code = systemCode(error);
    if (code === 'ENOTDIR' || code === 'EEXIST') throw usage(`${directory} is not a directory`);
    throw error;
  }
}
