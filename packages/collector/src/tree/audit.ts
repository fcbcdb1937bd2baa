/**
 * Judges a log by the roots that were signed over it, with the hashes that are stored beside it as a witness. Pure; fed
 * with the leaves as they are read, in flat memory.
 *
 * A root that comes out of the log's own leaves settles everything below it: these are the entries that were signed, in
 * this order, and a stored hash that says otherwise was changed. Behind the largest such root the stored leaves are
 * tried: if a signed root comes out of those, then each place where the log has another leaf is not as it was signed.
 * Stored hashes by themselves prove nothing.
 *
 * For an entry that cannot be read its stored leaf is taken: a root that comes out shows that this leaf is true.
 */
import { GrowingTree } from './growing-tree.js';
import { HASH_BYTES, type HashSource, TILE_HASHES } from './merkle.js';

/** The tree as it is stored. */
export interface StoredTree extends HashSource {
  hashCount(level: number): Promise<number>;
}

/** Entries side by side of which the same is to be told. */
export interface Stretch {
  /** Of the first of them, from 0. */
  readonly index: number;
  count: number;
  /** Of the first of them, as it was given. */
  readonly place: number;
}

/** A level that is cut short: it has `there` hashes. */
interface Shortage {
  readonly level: number;
  readonly there: number;
}

export interface RootVerdict<Root> {
  readonly root: Root;
  /** Of the log; `short` when it has fewer leaves, `unknown` when too much of it cannot be read. */
  readonly log: 'agrees' | 'differs' | 'short' | 'unknown';
  /** Whether the root comes out of the stored leaves, behind the largest root that comes out of the log. */
  readonly tree: boolean;
}

export interface Verdict<Root> {
  /** By size. */
  readonly roots: readonly RootVerdict<Root>[];
  /** Where the log, behind the largest root that comes out of it, has other leaves than are stored. */
  readonly differing: readonly Stretch[];
  /** Stored hashes that are not true. */
  readonly hashes: readonly HashFault[];
  readonly shortages: readonly Shortage[];
  /** Leaves and hashes that differ, and were only counted. */
  readonly unlisted: number;
  /** How many leaves the log has, those that cannot be read among them. */
  readonly leaves: number;
  /** So many of the log's first leaves are known: a signed root comes out of them, or of those that are stored. */
  readonly provenTo: number;
}

const PIECE = 4096;
/** So many stretches are told one by one; what comes after is counted. */
const MOST_STRETCHES = 10_000;

/** Stretches in the order of their places, in bounded memory. */
export class Stretches {
  readonly list: Stretch[] = [];
  /** Entries in stretches that were not kept. */
  unlisted = 0;

  /** @param joins whether it may be one stretch with entries in front of it. */
  add(stretch: Stretch, joins = true): void {
    const last = this.list.at(-1);
    if (joins && last !== undefined && last.index + last.count === stretch.index) last.count += stretch.count;
    else if (this.list.length < MOST_STRETCHES) this.list.push(stretch);
    else this.unlisted += stretch.count;
  }
}

export class Audit<Root extends SignedRoot> {
  /** The largest size that was signed. */
  readonly covered: number;
  readonly #stored: StoredTree;
  readonly #roots: readonly Root[];
  readonly #sizes: ReadonlySet<number>;
  readonly #tree: RootedTree<Root>;
  readonly #differing = new Stretches();
  #leaves = 0;
  /** Whether the tree over the log has no hole. */
  #grows = true;

  constructor(stored: StoredTree, roots: readonly Root[]) {
    this.#stored = stored;
    this.#roots = roots.toSorted((a, b) => a.size - b.size);
    this.#sizes = new Set(roots.map(({ size }) => size));
    this.covered = this.#roots.at(-1)?.size ?? 0;
    this.#tree = new RootedTree(stored, this.covered, this.#roots);
  }

  /** The next `count` leaves of the log, side by side, and of each a number by which its place is known. */
  async leaves(hashes: Buffer, places: ArrayLike<number>, count: number): Promise<void> {
    const first = this.#leaves;
    const covered = Math.max(0, Math.min(count, this.covered - first));
    const stored = await this.#stored.hashes(0, first, covered);
    for (const run of differences(stored, hashes)) {
      for (let at = run.at; at < run.at + run.count; at++) {
        const index = first + at;
        // What a root settles and what it does not are never one stretch.
        this.#differing.add({ index, count: 1, place: places[at] ?? 0 }, !this.#sizes.has(index));
      }
    }
    this.#leaves += count;
    if (this.#grows) await this.#tree.append(hashes, count);
  }

  /** Here the log has `count` leaves that cannot be read. */
  async gap(count: number): Promise<void> {
    this.#leaves += count;
    this.#grows &&= await this.#take(this.#tree, Math.min(count, this.covered - this.#tree.size));
  }

  /** The log ends here. */
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

  /** Lets a tree grow by stored leaves. @returns whether all of them are there. */
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
    // Of entries that the log does not have the tree need not have the hashes either.
    const leaves = Math.min(this.covered, this.#leaves);
    for (let level = 0, wanted = leaves; wanted > 0; wanted = Math.floor(leaves / leavesBelow(++level, 1))) {
      const there = await this.#stored.hashCount(level);
      if (there < wanted) shortages.push({ level, there });
    }
    return shortages;
  }
}

/** Neighbours as one, also where a root lies between them that settles neither or both. */
function joined(stretches: readonly Stretch[]): Stretch[] {
  const all = new Stretches();
  for (const stretch of stretches) all.add({ ...stretch });
  return all.list;
}

/** What of these lies above the first so many leaves alone. */
function known(faults: readonly HashFault[], leaves: number): HashFault[] {
  return faults.flatMap(({ level, index, count }) => {
    const most = Math.floor(leaves / leavesBelow(level, 1)) - index;
    return most > 0 ? [{ level, index, count: Math.min(count, most) }] : [];
  });
}

/*
 * Grows one tree over leaves as they come, and on the way compares it with every signed root, and its higher levels
 * with those that are stored. Pure, and in flat memory.
 */

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
