/**
 * Grows one tree over leaves as they come, and on the way holds it against every signed root, and its higher levels
 * against those that are stored. Pure, and in flat memory.
 */
import { GrowingTree } from './growing-tree.js';
import { HASH_BYTES, TILE_HASHES, type HashSource } from './merkle.js';

/** What a checkpoint says of a log. */
export interface SignedRoot {
  /** How many leaves. */
  readonly size: number;
  readonly root: Buffer;
}

/** A hash of a tile level that is not the one of the leaves below it. */
export interface HashFault {
  readonly level: number;
  readonly index: number;
}

/** So many of them are told one by one. */
const MOST_FAULTS = 1000;

/** How many leaves lie below the hashes of a level up to number `count`. */
export function leavesBelow(level: number, count: number): number {
  return count * TILE_HASHES ** level;
}

export class RootedTree<Root extends SignedRoot> {
  /** The roots that were come to. */
  readonly agreeing = new Set<Root>();
  /** Hashes above level 0, as far as they are complete and `covered` leaves lie below them. */
  readonly faults: HashFault[] = [];
  unlistedFaults = 0;
  readonly #tree = GrowingTree.empty();
  readonly #stored: HashSource;
  readonly #covered: number;
  readonly #roots: readonly Root[];
  #next = 0;

  /** @param roots by their size. */
  constructor(stored: HashSource, covered: number, roots: readonly Root[]) {
    this.#stored = stored;
    this.#covered = covered;
    this.#roots = roots;
    this.#meet();
  }

  get size(): number {
    return this.#tree.size;
  }

  /** To be called again only when the call before has returned. */
  async append(hashes: Buffer, count: number): Promise<void> {
    for (let from = 0; from < count;) {
      const untilRoot = (this.#roots[this.#next]?.size ?? Infinity) - this.size;
      const some = Math.min(count - from, untilRoot);
      this.#tree.append(hashes.subarray(from * HASH_BYTES, (from + some) * HASH_BYTES), some);
      from += some;
      this.#meet();
    }
    for (const { level, first, hashes: grown } of this.#tree.drain()) {
      if (level > 0) await this.#compare(level, first, grown);
    }
  }

  #meet(): void {
    if (this.#roots[this.#next]?.size !== this.size) return;
    const root = this.#tree.root();
    for (; this.#roots[this.#next]?.size === this.size; this.#next++) {
      const signed = this.#roots[this.#next];
      if (signed !== undefined && root.equals(signed.root)) this.agreeing.add(signed);
    }
  }

  /** Hashes that are not stored are no fault here: the audit counts them. */
  async #compare(level: number, first: number, grown: Buffer): Promise<void> {
    const complete = Math.floor(this.#covered / leavesBelow(level, 1));
    const count = Math.min(grown.length / HASH_BYTES, complete - first);
    if (count <= 0) return;
    const stored = await this.#stored.hashes(level, first, count);
    if (stored.equals(grown.subarray(0, stored.length))) return;
    for (let i = 0; i < stored.length / HASH_BYTES; i++) {
      const [from, to] = [i * HASH_BYTES, (i + 1) * HASH_BYTES];
      if (stored.compare(grown, from, to, from, to) === 0) continue;
      if (this.faults.length < MOST_FAULTS) this.faults.push({ level, index: first + i });
      else this.unlistedFaults++;
    }
  }
}
