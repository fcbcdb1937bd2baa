/**
 * The right edge of a hash tree (RFC 6962 section 2.1) that grows by a batch of leaf hashes at a time, and gives out
 * the hashes that its tile levels gained. Pure; memory does not grow with the tree, only with what was not drained.
 *
 * A tree of n leaves is a row of perfect subtrees, one for each bit of n. Their roots, the peaks, stand side by side
 * in one buffer, the higher the further left, with room for one hash at the right end:
 *
 *   | height 55 | ... | height 2 | height 1 | height 0 | newcomer |
 *
 * A newcomer of height h is put down right of the place of height h. If there is a peak in that place, the two are
 * the children of the next newcomer, already side by side, and its hash goes to the peak's place: right of height
 * h + 1. If there is none, it moves in.
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

/** 256^7 is above every size that a double counts exactly. */
const LEVELS = 7;
const LEVEL_HEIGHT = 8;
const NEWCOMER = LEVELS * LEVEL_HEIGHT * HASH_BYTES;
/** A buffer that one large drain left larger than this is given up rather than kept. */
const KEPT_BYTES = 64 * 1024;

/** Where the peak of this height stands. */
function placeOf(height: number): number {
  return NEWCOMER - (height + 1) * HASH_BYTES;
}

/** What came to a tile level since the last drain. */
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

  /** @returns undefined when nothing came. */
  drain(): { first: number; hashes: Buffer } | undefined {
    if (this.#bytes === 0) return undefined;
    const drained = { first: this.first, hashes: Buffer.from(this.#hashes.subarray(0, this.#bytes)) };
    this.first += this.#bytes / HASH_BYTES;
    this.#bytes = 0;
    if (this.#hashes.length > KEPT_BYTES) this.#hashes = Buffer.alloc(0);
    return drained;
  }

  /** Bytes of memory held. */
  get held(): number {
    return this.#hashes.length;
  }
}

export class GrowingTree {
  readonly #peaks = Buffer.alloc(NEWCOMER + HASH_BYTES);
  /** How many hashes each level's last, partial tile has: eight bits of the size a level. */
  readonly #widths: number[] = [];
  readonly #gained: Gained[] = [];
  #size: number;

  private constructor(size: number) {
    if (!Number.isSafeInteger(size) || size < 0) throw new RangeError(`${size} is no size of a tree`);
    this.#size = size;
    for (let level = 0; level < LEVELS; level++) {
      this.#widths.push(0);
      this.#gained.push(new Gained(Math.floor(size / TILE_HASHES ** level)));
    }
  }

  /** The tree of no leaves. */
  static empty(): GrowingTree {
    return new GrowingTree(0);
  }

  /**
   * The tree of the first `size` leaves. Reads the last, partial tile of each level and nothing else.
   * @returns a tree with nothing to drain.
   * @throws TilesIncomplete when hashes of those tiles are missing.
   */
  static async at(source: HashSource, size: number): Promise<GrowingTree> {
    const tree = new GrowingTree(size);
    // From the top down: a newcomer passes through the place of the highest peak of the level below.
    for (let level = LEVELS - 1; level >= 0; level--) {
      const count = Math.floor(size / TILE_HASHES ** level);
      const width = count % TILE_HASHES;
      if (width === 0) continue;
      const hashes = await completeHashes(source, level, count - width, width);
      for (let i = 0; i < width; i++) tree.#take(level, hashes, i * HASH_BYTES);
    }
    return tree;
  }

  /** How many leaves the tree has. */
  get size(): number {
    return this.#size;
  }

  /** A tree of the same leaves that grows by itself, with nothing to drain. */
  copy(): GrowingTree {
    const tree = new GrowingTree(this.#size);
    this.#peaks.copy(tree.#peaks);
    tree.#widths.splice(0, LEVELS, ...this.#widths);
    return tree;
  }

  /** Bytes that the tree holds: a few kilobytes, and what was not drained. */
  get heldBytes(): number {
    return this.#gained.reduce((bytes, { held }) => bytes + held, this.#peaks.length);
  }

  /** Appends the `count` leaf hashes at the start of `hashes`, which is not kept. */
  append(hashes: Buffer, count: number): void {
    if (hashes.length < count * HASH_BYTES) throw new RangeError(`not ${count} hashes`);
    this.#gained[0]?.add(hashes, 0, count * HASH_BYTES);
    let i = 0;
    if (this.#size % 2 === 1 && count > 0) this.#take(0, hashes, HASH_BYTES * i++);
    // Two that will be siblings stand side by side here already: a tenth of the time is saved by leaving them there.
    for (; i + 1 < count; i += 2) {
      hashNode(hashes, i * HASH_BYTES, this.#peaks, placeOf(0));
      this.#settle(0, 1);
    }
    if (i < count) this.#take(0, hashes, i * HASH_BYTES);
    this.#size += count;
  }

  /** The root of all leaves so far: `EMPTY_ROOT` when there are none. In memory of its own. */
  root(): Buffer {
    const row = Buffer.from(this.#peaks);
    // Where the root of everything right of the next peak stands; -1 while there is nothing.
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
   * Every hash of every level that came since the last drain, level 0 first; levels that gained none are left out.
   * `first` is the number of the first of them in its level. The hashes are copies and stay as they are.
   */
  drain(): { level: number; first: number; hashes: Buffer }[] {
    return this.#gained.flatMap((gained, level) => {
      const drained = gained.drain();
      return drained === undefined ? [] : [{ level, ...drained }];
    });
  }

  /** Takes one more hash of a tile level among the peaks. */
  #take(level: number, hashes: Buffer, from: number): void {
    hashes.copy(this.#peaks, placeOf(level * LEVEL_HEIGHT) + HASH_BYTES, from, from + HASH_BYTES);
    this.#settle(level, 0);
  }

  /** Settles the newcomer, of this height above the tile level's own, and gives the level above what that makes whole. */
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
      // The tile is full: its root, right of the first place of the level above, is a newcomer there.
      this.#widths[level] = 0;
      this.#gained[level + 1]?.add(peaks, place + HASH_BYTES, HASH_BYTES);
      this.#settle(level + 1, 0);
    }
  }
}

/** Leaf hashes side by side, valid until the next are asked for. */
export interface Leaves {
  readonly hashes: Buffer;
  readonly count: number;
}

/**
 * The tree that stored hashes give, believed only if it comes to a root that was signed.
 * @returns undefined where it does not, or hashes are missing.
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
