/**
 * The right edge of a hash tree (RFC 6962 section 2.1), which grows by batches of leaf hashes and returns the
 * new hashes of its tile levels. Pure; memory grows only with hashes that were not drained.
 *
 * A tree of n leaves is a row of perfect subtrees, one for each bit of n. Their roots, the peaks, are
 * adjacent in one buffer, higher ones further left, with room for one hash at the right end:
 *
 *   | height 55 | ... | height 2 | height 1 | height 0 | newcomer |
 *
 * A newcomer of height h is written to the right of the slot of height h. If that slot has a peak, the two
 * are adjacent siblings, and the hash of their parent replaces the peak: it is the newcomer to the right of
 * slot h + 1. Otherwise the newcomer moves into the slot.
 */
import {
  completeHashes,
  EMPTY_ROOT,
  HASH_BYTES,
  hashNode,
  TILE_HASHES,
  TilesIncomplete,
  type HashSource,
} from './merkle.js';

/** 256^7 exceeds every integer that a double represents exactly. */
const LEVELS = 7;
const LEVEL_HEIGHT = 8;
const NEWCOMER = LEVELS * LEVEL_HEIGHT * HASH_BYTES;
/** Size above which a buffer is released after a drain. */
const KEPT_BYTES = 64 * 1024;

/** Offset of the peak of a height. */
function placeOf(height: number): number {
  return NEWCOMER - (height + 1) * HASH_BYTES;
}

/** New hashes of a tile level since the last drain. */
class Gained {
  #hashes = Buffer.alloc(0);
  #bytes = 0;

  /** @param first number of the next hash of the level. */
  constructor(private first: number) {}

  add(source: Buffer, from: number, bytes: number): void {
    if (this.#bytes + bytes > this.#hashes.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * this.#hashes.length, this.#bytes + bytes));
      this.#hashes.copy(larger, 0, 0, this.#bytes);
      this.#hashes = larger;
    }
    source.copy(this.#hashes, this.#bytes, from, from + bytes);
    this.#bytes += bytes;
  }

  /** @returns undefined if there are no new hashes. */
  drain(): { first: number; hashes: Buffer } | undefined {
    if (this.#bytes === 0) return undefined;
    const drained = { first: this.first, hashes: Buffer.from(this.#hashes.subarray(0, this.#bytes)) };
    this.first += this.#bytes / HASH_BYTES;
    this.#bytes = 0;
    if (this.#hashes.length > KEPT_BYTES) this.#hashes = Buffer.alloc(0);
    return drained;
  }

  /** Memory in bytes. */
  get held(): number {
    return this.#hashes.length;
  }
}

export class GrowingTree {
  readonly #peaks = Buffer.alloc(NEWCOMER + HASH_BYTES);
  /** Number of hashes in each level's last, partial tile: eight bits of the size for each level. */
  readonly #widths: number[] = [];
  readonly #gained: Gained[] = [];
  #size: number;

  private constructor(size: number) {
    if (!Number.isSafeInteger(size) || size < 0) throw new RangeError(`${size} is not the size of a tree`);
    this.#size = size;
    for (let level = 0; level < LEVELS; level++) {
      this.#widths.push(0);
      this.#gained.push(new Gained(Math.floor(size / TILE_HASHES ** level)));
    }
  }

  /** The empty tree. */
  static empty(): GrowingTree {
    return new GrowingTree(0);
  }

  /**
   * The tree of the first `size` leaves. Reads only the last, partial tile of each level.
   * @returns a tree with nothing to drain.
   * @throws TilesIncomplete if hashes of those tiles are missing.
   */
  static async at(source: HashSource, size: number): Promise<GrowingTree> {
    const tree = new GrowingTree(size);
    // From the top down: a newcomer overwrites the slot of the highest peak of the level below.
    for (let level = LEVELS - 1; level >= 0; level--) {
      const count = Math.floor(size / TILE_HASHES ** level);
      const width = count % TILE_HASHES;
      if (width === 0) continue;
      const hashes = await completeHashes(source, level, count - width, width);
      for (let i = 0; i < width; i++) tree.#take(level, hashes, i * HASH_BYTES);
    }
    return tree;
  }

  /** Number of leaves. */
  get size(): number {
    return this.#size;
  }

  /** An independent copy with nothing to drain. */
  copy(): GrowingTree {
    const tree = new GrowingTree(this.#size);
    this.#peaks.copy(tree.#peaks);
    tree.#widths.splice(0, LEVELS, ...this.#widths);
    return tree;
  }

  /** Memory of the tree in bytes: a few kilobytes, and the hashes that were not drained. */
  get heldBytes(): number {
    return this.#gained.reduce((bytes, { held }) => bytes + held, this.#peaks.length);
  }

  /** Appends the first `count` leaf hashes of `hashes`, and copies them. */
  append(hashes: Buffer, count: number): void {
    if (hashes.length < count * HASH_BYTES) throw new RangeError(`not ${count} hashes`);
    this.#gained[0]?.add(hashes, 0, count * HASH_BYTES);
    let i = 0;
    if (this.#size % 2 === 1 && count > 0) this.#take(0, hashes, HASH_BYTES * i++);
    // Siblings are adjacent in the input: hashing them there saves a tenth of the time.
    for (; i + 1 < count; i += 2) {
      hashNode(hashes, i * HASH_BYTES, this.#peaks, placeOf(0));
      this.#settle(0, 1);
    }
    if (i < count) this.#take(0, hashes, i * HASH_BYTES);
    this.#size += count;
  }

  /** The root in a new buffer; `EMPTY_ROOT` for an empty tree. */
  root(): Buffer {
    const row = Buffer.from(this.#peaks);
    // Offset of the root of all leaves to the right of the next peak; -1 if there are none.
    let at = -1;
    for (let height = 0; height < LEVELS * LEVEL_HEIGHT; height++) {
      const width = this.#widths[Math.floor(height / LEVEL_HEIGHT)] ?? 0;
      if (((width >>> (height % LEVEL_HEIGHT)) & 1) === 0) continue;
      const place = placeOf(height);
      if (at >= 0) {
        row.copyWithin(place + HASH_BYTES, at, at + HASH_BYTES);
        hashNode(row, place, row, place);
      }
      at = place;
    }
    return at < 0 ? Buffer.from(EMPTY_ROOT) : Buffer.from(row.subarray(at, at + HASH_BYTES));
  }

  /**
   * The new hashes of each level since the last drain, level 0 first; levels without new hashes are omitted.
   * `first` is the number of the first hash in its level. The hashes are copies.
   */
  drain(): { level: number; first: number; hashes: Buffer }[] {
    return this.#gained.flatMap((gained, level) => {
      const drained = gained.drain();
      return drained === undefined ? [] : [{ level, ...drained }];
    });
  }

  /** Adds one hash of a tile level to the peaks. */
  #take(level: number, hashes: Buffer, from: number): void {
    hashes.copy(this.#peaks, placeOf(level * LEVEL_HEIGHT) + HASH_BYTES, from, from + HASH_BYTES);
    this.#settle(level, 0);
  }

  /**
   * Moves the newcomer into its slot, and passes the root of a full tile to the level above. @param height in
   * the level.
   */
  #settle(level: number, height: number): void {
    const peaks = this.#peaks;
    const width = this.#widths[level] ?? 0;
    let place = placeOf(level * LEVEL_HEIGHT + height);
    for (let bits = width >>> height; (bits & 1) === 1; bits >>>= 1) {
      hashNode(peaks, place, peaks, place);
      place -= HASH_BYTES;
    }
    const grown = width + (1 << height);
    if (grown < TILE_HASHES) {
      peaks.copyWithin(place, place + HASH_BYTES, place + 2 * HASH_BYTES);
      this.#widths[level] = grown;
    } else {
      // The tile is full: its root is a newcomer in the level above.
      this.#widths[level] = 0;
      this.#gained[level + 1]?.add(peaks, place + HASH_BYTES, HASH_BYTES);
      this.#settle(level + 1, 0);
    }
  }
}

/** Adjacent leaf hashes, valid until the next call. */
export interface Leaves {
  readonly hashes: Buffer;
  readonly count: number;
}

/**
 * @returns the tree of stored hashes; undefined if it does not have the signed root, or hashes are missing.
 */
export async function storedTree(
  source: HashSource,
  { size, root }: { readonly size: number; readonly root: Uint8Array },
): Promise<GrowingTree | undefined> {
  try {
    const tree = await GrowingTree.at(source, size);
    return tree.root().equals(root) ? tree : undefined;
  } catch (error) {
    if (error instanceof TilesIncomplete) return undefined;
    throw error;
  }
}
