/**
 * Grows one tree over leaves as they come, and on the way compares it with every signed root, and its higher levels
 * with those that are stored. Pure, and in flat memory.
 */
import { GrowingTree } from './growing-tree.js';
import { HASH_BYTES, TILE_HASHES, type HashSource } from './merkle.js';

/** What a checkpoint says of a log. */
export interface SignedRoot {
  /** How many leaves. */
  readonly size: number;
  readonly root: Buffer;
}

/** Neighbouring hashes of a tile level that are not those of the leaves below them. */
export interface HashFault {
  readonly level: number;
  readonly index: number;
  readonly count: number;
}

/** So many of them are told one by one. */
const MOST_FAULTS = 1000;

/** How many leaves lie below the first `count` hashes of a level. */
export function leavesBelow(level: number, count: number): number {
  return count * TILE_HASHES ** level;
}

/** Where two rows of hashes differ, as far as both go. */
export function* differences(one: Buffer, other: Buffer): Generator<{ at: number; count: number }> {
  const hashes = Math.min(one.length, other.length) / HASH_BYTES;
  if (one.compare(other, 0, hashes * HASH_BYTES, 0, hashes * HASH_BYTES) === 0) return;
  const same = (i: number) => {
    const [start, end] = [i * HASH_BYTES, (i + 1) * HASH_BYTES];
    return one.compare(other, start, end, start, end) === 0;
  };
  for (let at = 0; at < hashes; at++) {
    const start = at;
    while (at < hashes && !same(at)) at++;
    if (at > start) yield { at: start, count: at - start };
  }
}

export class RootedTree<Root extends SignedRoot> {
  /** The roots that were come to. */
  readonly agreeing = new Set<Root>();
  /** The tree as it was at the largest of them. */
  signed: GrowingTree;
  /** Hashes above level 0, as far as they are complete and `covered` leaves lie below them. */
  readonly faults: HashFault[] = [];
  unlistedFaults = 0;
  readonly #tree: GrowingTree;
  readonly #stored: HashSource;
  readonly #covered: number;
  readonly #roots: readonly Root[];
  #next = 0;

  /**
   * @param roots by their size; those below the size of the tree that is begun with are passed over.
   * @param begun is not changed.
   */
  constructor(stored: HashSource, covered: number, roots: readonly Root[], begun = GrowingTree.empty()) {
    this.#stored = stored;
    this.#covered = covered;
    this.#roots = roots.filter(({ size }) => size >= begun.size);
    this.signed = begun;
    this.#tree = begun.copy();
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
      if (signed === undefined || !root.equals(signed.root)) continue;
      this.agreeing.add(signed);
      this.signed = this.#tree.copy();
    }
  }

  /** Hashes that are not stored are no fault here: the audit counts them. */
  async #compare(level: number, first: number, grown: Buffer): Promise<void> {
    const complete = Math.floor(this.#covered / leavesBelow(level, 1));
    const count = Math.min(grown.length / HASH_BYTES, complete - first);
    if (count <= 0) return;
    const stored = await this.#stored.hashes(level, first, count);
    for (const { at, count: some } of differences(stored, grown)) {
      if (this.faults.length < MOST_FAULTS) this.faults.push({ level, index: first + at, count: some });
      else this.unlistedFaults += some;
    }
  }
}
