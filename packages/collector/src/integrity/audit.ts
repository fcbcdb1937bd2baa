/**
 * Judges a log by the roots that were signed over it, with the tree that is stored beside it as a witness. Pure; fed
 * with the leaves as they are read, in flat memory.
 *
 * A root that comes out of the log's own leaves settles everything below it: these are the events that were signed, in
 * this order, and where the stored tree says otherwise the stored tree was changed. Where a root does not come out, the
 * stored leaves are tried: if it comes out of those, then each place where the log parts from them is a place where the
 * log was changed. If it comes out of neither, the log is not the one that was signed, and only its size, and that of
 * the largest root that does come out, say where.
 *
 * For an event that cannot be read its stored leaf is taken: a root that comes out shows that this leaf is true.
 */
import { LeafAlignment, type Gap, type Parting } from './leaf-alignment.js';
import { HASH_BYTES, type HashSource } from './merkle.js';
import { leavesBelow, RootedTree, type HashFault, type SignedRoot } from './rooted-tree.js';

/** The tree as it is stored. */
export interface StoredTree extends HashSource {
  hashCount(level: number): Promise<number>;
}

/** What became of an event, or of several side by side. */
export type EventFault = {
  /** Whether a signed root comes out with the stored leaf: then it was this event that changed. */
  readonly proven: boolean;
  /** Its place in the log as it stands, or for a missing one where it would stand. */
  readonly logIndex: number;
} & (
  | { readonly kind: 'altered'; readonly index: number; readonly place: number }
  | { readonly kind: 'inserted'; readonly place: number }
  /** The event that was signed at `index` stands at `logIndex`. */
  | { readonly kind: 'reordered'; readonly index: number; readonly place: number }
  /** `place` is that of the event that the log goes on with; undefined when it ends here. */
  | {
      readonly kind: 'missing';
      readonly index: number;
      readonly count: number;
      readonly place: number | undefined;
    }
);

/** A level that is cut short: it has `there` hashes. */
export interface Shortage {
  readonly level: number;
  readonly there: number;
}

export interface RootVerdict<Root> {
  readonly root: Root;
  /** Of the log; `short` when it has fewer leaves, `unknown` when too much of it cannot be read. */
  readonly log: 'agrees' | 'differs' | 'short' | 'unknown';
  /** Whether the root comes out of the stored leaves; asked for only when some root does not out of the log. */
  readonly tree: boolean;
}

export interface Verdict<Root> {
  readonly roots: readonly RootVerdict<Root>[];
  readonly events: readonly EventFault[];
  /** What could not be read, with the events that it stands for, and whether a root proves their leaves. */
  readonly gaps: readonly (Gap & { readonly proven: boolean })[];
  /** Stored hashes that are not true. */
  readonly hashes: readonly HashFault[];
  readonly shortages: readonly Shortage[];
  /** Faults that were counted and not listed. */
  readonly unlisted: {
    readonly altered: number;
    readonly missing: number;
    readonly inserted: number;
    readonly hashes: number;
  };
  /** Leaves of the log behind the largest root. */
  readonly unsigned: number;
  /** So many of the tree's leaves are known: a root comes out of them. */
  readonly provenTo: number;
}

const PIECE = 4096;

export class Audit<Root extends SignedRoot> {
  /** The largest size that was signed. */
  readonly covered: number;
  readonly #stored: StoredTree;
  readonly #roots: readonly Root[];
  readonly #alignment: LeafAlignment;
  readonly #tree: RootedTree<Root>;
  /** Whether the tree over the log has no hole. */
  #grows = true;

  constructor(stored: StoredTree, roots: readonly Root[]) {
    this.#stored = stored;
    this.#roots = roots.toSorted((a, b) => a.size - b.size);
    this.covered = this.#roots.at(-1)?.size ?? 0;
    this.#alignment = new LeafAlignment({ stored, covered: this.covered });
    this.#tree = new RootedTree(stored, this.covered, this.#roots);
  }

  /** The next `count` leaves of the log, side by side, and of each a number by which its place is known. */
  async leaves(hashes: Buffer, places: ArrayLike<number>, count: number): Promise<void> {
    await this.#alignment.leaves(hashes, places, count);
    if (this.#grows) await this.#tree.append(hashes, count);
  }

  /** Here the log has `count` leaves, as far as anybody can tell, that cannot be read. */
  async gap(count: number, reference: number): Promise<void> {
    await this.#alignment.gap(count, reference);
    for (let left = Math.min(count, this.covered - this.#tree.size); this.#grows && left > 0;) {
      const some = Math.min(left, PIECE);
      const hashes = await this.#stored.hashes(0, this.#tree.size, some);
      this.#grows = hashes.length === some * HASH_BYTES;
      if (this.#grows) await this.#tree.append(hashes, some);
      left -= some;
    }
  }

  /** The log ends here. */
  async finish(): Promise<Verdict<Root>> {
    const alignment = this.#alignment;
    await alignment.finish();
    const { agreeing } = this.#tree;
    const signedTo = Math.max(0, ...[...agreeing].map(({ size }) => size));
    const witness = agreeing.size === this.#roots.length ? undefined : await this.#witness(signedTo);
    const provenTo = Math.max(0, ...[...(witness?.agreeing ?? [])].map(({ size }) => size));
    const isTrue = ({ level, index }: HashFault, upTo: number) => leavesBelow(level, index + 1) <= upTo;
    const changedLeaves = alignment.partings.filter(({ logIndex }) => logIndex < signedTo);
    return {
      roots: this.#roots.map((root) => ({
        root,
        log: this.#agreement(root),
        tree: witness?.agreeing.has(root) ?? false,
      })),
      events: eventFaults(
        alignment.partings.filter(({ logIndex }) => logIndex >= signedTo),
        provenTo,
      ),
      gaps: alignment.gaps.map((gap) => ({
        ...gap,
        proven: gap.index + gap.count <= Math.max(signedTo, provenTo),
      })),
      hashes: [
        ...changedLeaves.map(({ logIndex }) => ({ level: 0, index: logIndex })),
        ...this.#tree.faults.filter((fault) => isTrue(fault, signedTo)),
        ...(witness?.faults ?? []).filter((fault) => !isTrue(fault, signedTo) && isTrue(fault, provenTo)),
      ],
      shortages: await this.#shortages(),
      unlisted: { ...alignment.unlisted, hashes: (witness ?? this.#tree).unlistedFaults },
      unsigned: alignment.unsigned,
      provenTo: Math.max(signedTo, provenTo),
    };
  }

  #agreement(root: Root): RootVerdict<Root>['log'] {
    if (this.#tree.agreeing.has(root)) return 'agrees';
    if (root.size <= this.#tree.size) return 'differs';
    return this.#grows ? 'short' : 'unknown';
  }

  /** The tree over the stored leaves, but for those that the log proves to be changed. */
  async #witness(signedTo: number): Promise<RootedTree<Root>> {
    const truth = new Map(
      this.#alignment.partings.flatMap((parting) =>
        parting.kind === 'altered' && parting.logIndex < signedTo && parting.index === parting.logIndex
          ? [[parting.index, parting.leaf]]
          : [],
      ),
    );
    const tree = new RootedTree(this.#stored, this.covered, this.#roots);
    while (tree.size < this.covered) {
      const first = tree.size;
      const hashes = await this.#stored.hashes(0, first, Math.min(PIECE, this.covered - first));
      const count = hashes.length / HASH_BYTES;
      if (count === 0) break;
      for (const [index, leaf] of truth) {
        if (index >= first && index < first + count)
          hashes.write(leaf, (index - first) * HASH_BYTES, 'latin1');
      }
      await tree.append(hashes, count);
    }
    return tree;
  }

  async #shortages(): Promise<Shortage[]> {
    const shortages: Shortage[] = [];
    // Of events that the log does not have the tree need not have the hashes either.
    const leaves = Math.min(this.covered, this.#alignment.logIndex);
    for (let level = 0, wanted = leaves; wanted > 0; wanted = Math.floor(leaves / leavesBelow(++level, 1))) {
      const there = await this.#stored.hashCount(level);
      if (there < wanted) shortages.push({ level, there });
    }
    return shortages;
  }
}

/** What the partings of the log from the tree say of events: a leaf that both have, in two places, was moved. */
function eventFaults(partings: readonly Parting[], provenTo: number): EventFault[] {
  const lacked = new Map<string, number>();
  const found = new Set<string>();
  for (const parting of partings) {
    if (parting.kind === 'altered') lacked.set(parting.expected, parting.index);
    if (parting.kind === 'missing')
      parting.expected.forEach((leaf, k) => lacked.set(leaf, parting.index + k));
    if (parting.kind !== 'missing') found.add(parting.leaf);
  }
  return partings.flatMap((parting): EventFault[] => {
    const { kind, index, logIndex, place } = parting;
    const here = { logIndex, proven: index < provenTo };
    if (kind === 'missing') {
      return stretches(parting, found).map((stretch) => ({ kind, ...here, ...stretch, place }));
    }
    const faults: EventFault[] = [];
    const signedAt = lacked.get(parting.leaf);
    const isFoundElsewhere = kind === 'altered' && found.has(parting.expected);
    if (signedAt !== undefined) {
      faults.push({ kind: 'reordered', ...here, index: signedAt, place });
      // What stood here before is neither here nor anywhere.
      if (kind === 'altered' && !isFoundElsewhere) {
        faults.push({ kind: 'missing', ...here, index, count: 1, place });
      }
    } else if (kind === 'altered' && !isFoundElsewhere) faults.push({ kind, ...here, index, place });
    else faults.push({ kind: 'inserted', ...here, place });
    return faults;
  });
}

/** What of a missing stretch is nowhere in the log. */
function stretches(
  { index, count, expected }: Extract<Parting, { kind: 'missing' }>,
  found: ReadonlySet<string>,
): { index: number; count: number }[] {
  const lost: { index: number; count: number }[] = [];
  let from = 0;
  expected.forEach((leaf, k) => {
    if (!found.has(leaf)) return;
    if (k > from) lost.push({ index: index + from, count: k - from });
    from = k + 1;
  });
  if (count > from) lost.push({ index: index + from, count: count - from });
  return lost;
}
