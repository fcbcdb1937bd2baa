/**
 * Compares a log with the roots that were signed over it, and with the stored hashes. Pure; takes leaves as
 * they are read, in constant memory.
 *
 * A signed root that the log's own leaves reproduce proves all entries that it covers: they are the signed
 * entries, in order, and a stored hash that differs was changed. After the largest such root, the stored
 * leaves are used: if they reproduce a signed root, then each entry with another leaf is not the signed one.
 * Stored hashes alone prove nothing.
 *
 * For an unreadable entry the stored leaf is used: a signed root that it reproduces proves this leaf.
 */
import { GrowingTree } from './growing-tree.js';
import { HASH_BYTES, type HashSource, TILE_HASHES } from './merkle.js';

/** The tree as it is stored. */
export interface StoredTree extends HashSource {
  hashCount(level: number): Promise<number>;
}

/** A range of entries with the same finding. */
export interface Range {
  /** Index of the first entry, from 0. */
  readonly index: number;
  count: number;
  /** Place of the first entry, as the caller gave it. */
  readonly place: number;
}

/** A level that lacks hashes; it has `there` of them. */
interface Shortage {
  readonly level: number;
  readonly there: number;
}

export interface RootVerdict<Root> {
  readonly root: Root;
  /** The result for the log's leaves: `short` if there are too few, `unknown` if too many are unreadable. */
  readonly log: 'agrees' | 'differs' | 'short' | 'unknown';
  /** Whether the stored leaves, after the largest root that the log reproduces, reproduce the root. */
  readonly tree: boolean;
}

export interface Verdict<Root> {
  /** Ordered by size. */
  readonly roots: readonly RootVerdict<Root>[];
  /** Entries after the largest root that the log reproduces whose leaves differ from the stored ones. */
  readonly differing: readonly Range[];
  /** Stored hashes that are wrong. */
  readonly hashes: readonly HashFault[];
  readonly shortages: readonly Shortage[];
  /** Number of differing leaves and hashes that are not listed. */
  readonly unlisted: number;
  /** Number of leaves of the log, including unreadable entries. */
  readonly leaves: number;
  /** Number of first leaves that a signed root proves, over the log's or the stored leaves. */
  readonly provenTo: number;
}

const PIECE = 4096;
/** Limit of listed ranges; further entries are counted. */
const MOST_RANGES = 10_000;

/** Ranges in order, in bounded memory. */
export class Ranges {
  readonly list: Range[] = [];
  /** Number of entries in ranges that are not listed. */
  unlisted = 0;

  /** @param joins whether it may extend the previous range. */
  add(range: Range, joins = true): void {
    const last = this.list.at(-1);
    if (joins && last !== undefined && last.index + last.count === range.index) last.count += range.count;
    else if (this.list.length < MOST_RANGES) this.list.push(range);
    else this.unlisted += range.count;
  }
}

export class Audit<Root extends SignedRoot> {
  /** The largest signed size. */
  readonly covered: number;
  readonly #stored: StoredTree;
  readonly #roots: readonly Root[];
  readonly #sizes: ReadonlySet<number>;
  readonly #tree: RootedTree<Root>;
  readonly #differing = new Ranges();
  #leaves = 0;
  /** Whether the tree over the log has no gap. */
  #grows = true;

  constructor(stored: StoredTree, roots: readonly Root[]) {
    this.#stored = stored;
    this.#roots = roots.toSorted((a, b) => a.size - b.size);
    this.#sizes = new Set(roots.map(({ size }) => size));
    this.covered = this.#roots.at(-1)?.size ?? 0;
    this.#tree = new RootedTree(stored, this.covered, this.#roots);
  }

  /** Takes the next `count` leaf hashes of the log, and for each a number that identifies its place. */
  async leaves(hashes: Buffer, places: ArrayLike<number>, count: number): Promise<void> {
    const first = this.#leaves;
    const covered = Math.max(0, Math.min(count, this.covered - first));
    const stored = await this.#stored.hashes(0, first, covered);
    for (const run of differences(stored, hashes)) {
      for (let at = run.at; at < run.at + run.count; at++) {
        const index = first + at;
        // A range never crosses a signed size.
        this.#differing.add({ index, count: 1, place: places[at] ?? 0 }, !this.#sizes.has(index));
      }
    }
    this.#leaves += count;
    if (this.#grows) await this.#tree.append(hashes, count);
  }

  /** Passes `count` unreadable entries of the log. */
  async gap(count: number): Promise<void> {
    this.#leaves += count;
    this.#grows &&= await this.#take(this.#tree, Math.min(count, this.covered - this.#tree.size));
  }

  /** Ends the log, and returns the verdict. */
  async finish(): Promise<Verdict<Root>> {
    const { agreeing, signed } = this.#tree;
    const witness = new RootedTree(this.#stored, this.covered, this.#roots, signed);
    if (agreeing.size < this.#roots.length) await this.#take(witness, this.covered - signed.size);
    const provenTo = witness.signed.size;
    const { list, unlisted } = this.#differing;
    return {
      roots: this.#roots.map((root) => ({
        ...{ root, log: this.#agreement(root), tree: witness.agreeing.has(root) },
      })),
      differing: joined(list.filter(({ index }) => index >= signed.size)),
      hashes: [
        ...joined(list.filter(({ index }) => index < signed.size)).map(({ index, count }) => ({
          ...{ level: 0, index, count },
        })),
        ...known(this.#tree.faults, signed.size),
        ...known(witness.faults, provenTo),
      ],
      shortages: await this.#shortages(),
      unlisted: unlisted + this.#tree.unlistedFaults + witness.unlistedFaults,
      ...{ leaves: this.#leaves, provenTo },
    };
  }

  #agreement(root: Root): RootVerdict<Root>['log'] {
    if (this.#tree.agreeing.has(root)) return 'agrees';
    if (root.size <= this.#tree.size) return 'differs';
    return this.#grows ? 'short' : 'unknown';
  }

  /** Grows a tree over stored leaves. @returns whether all of them exist. */
  async #take(tree: RootedTree<Root>, count: number): Promise<boolean> {
    for (let left = count; left > 0;) {
      const hashes = await this.#stored.hashes(0, tree.size, Math.min(left, PIECE));
      const some = hashes.length / HASH_BYTES;
      await tree.append(hashes, some);
      left -= some;
      if (some < Math.min(left + some, PIECE)) return false;
    }
    return true;
  }

  async #shortages(): Promise<Shortage[]> {
    const shortages: Shortage[] = [];
    // The tree may lack hashes of entries that the log lacks.
    const leaves = Math.min(this.covered, this.#leaves);
    for (let level = 0, wanted = leaves; wanted > 0; wanted = Math.floor(leaves / leavesBelow(++level, 1))) {
      const there = await this.#stored.hashCount(level);
      if (there < wanted) shortages.push({ level, there });
    }
    return shortages;
  }
}

/** Joins adjacent ranges, even across a signed size. */
function joined(ranges: readonly Range[]): Range[] {
  const all = new Ranges();
  for (const range of ranges) all.add({ ...range });
  return all.list;
}

/** The part of the faults that concerns only the first `leaves` leaves. */
function known(faults: readonly HashFault[], leaves: number): HashFault[] {
  return faults.flatMap(({ level, index, count }) => {
    const most = Math.floor(leaves / leavesBelow(level, 1)) - index;
    return most > 0 ? [{ level, index, count: Math.min(count, most) }] : [];
  });
}

/** The signed size and root of a checkpoint. */
export interface SignedRoot {
  /** Number of leaves. */
  readonly size: number;
  readonly root: Buffer;
}

/** Adjacent hashes of a tile level that differ from the leaves below them. */
export interface HashFault {
  readonly level: number;
  readonly index: number;
  readonly count: number;
}

/** Limit of listed faults. */
const MOST_FAULTS = 1000;

/** The number of leaves below the first `count` hashes of a level. */
export function leavesBelow(level: number, count: number): number {
  return count * TILE_HASHES ** level;
}

/** The differences of two rows of hashes, up to the end of the shorter one. */
function* differences(one: Buffer, other: Buffer): Generator<{ at: number; count: number }> {
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

/**
 * Grows a tree over leaves, and compares it with every signed root, and its higher levels with the stored
 * hashes.
 */
export class RootedTree<Root extends SignedRoot> {
  /** The roots that the leaves reproduce. */
  readonly agreeing = new Set<Root>();
  /** The tree at the largest of these roots. */
  signed: GrowingTree;
  /** Wrong stored hashes above level 0, of complete subtrees within the `covered` leaves. */
  readonly faults: HashFault[] = [];
  unlistedFaults = 0;
  readonly #tree: GrowingTree;
  readonly #stored: HashSource;
  readonly #covered: number;
  readonly #roots: readonly Root[];
  #next = 0;

  /**
   * @param roots sorted by size; roots smaller than the first tree are skipped.
   * @param begun the first tree, which is not changed.
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

  /** Appends leaves. Calls must not overlap. */
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

  /** Compares hashes with the stored ones. Missing hashes are not faults: the audit counts them. */
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
