/**
 * The tree over a copied log, grown from its own leaves: a checkpoint is copied only if the tree has its
 * root.
 */
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { StoreDamaged } from '../store/contract/events.js';
import type { TreeReader, TreeStore } from '../store/contract/tree.js';
import { GrowingTree, type Leaves, storedTree } from '../tree/growing-tree.js';

/** Number of entries after which the hashes are written. */
const STAGE_EVERY = 65_536;

export class ProvenTree {
  #staged: number;

  /**
   * @param leaves of the log, from an entry.
   * @param store stores the hashes; by default they are not stored.
   */
  constructor(
    private readonly tree: GrowingTree,
    private readonly leaves: (from: number) => Iterable<Leaves> | AsyncIterable<Leaves>,
    private readonly store?: TreeStore,
  ) {
    this.#staged = tree.size;
  }

  /** Number of entries that it covers. */
  get size(): number {
    return this.tree.size;
  }

  /**
   * On return it covers `size` entries of the log, or all of them if there are fewer, and its hashes are
   * stored.
   */
  async grow(size: number): Promise<void> {
    if (this.tree.size < size) {
      for await (const { hashes, count } of this.leaves(this.tree.size + 1)) {
        this.tree.append(hashes, Math.min(count, size - this.tree.size));
        if (this.tree.size - this.#staged >= STAGE_EVERY) await this.#stage();
        if (this.tree.size === size) break;
      }
    }
    await this.#stage();
  }

  /** @throws StoreDamaged unless the tree has the signed root. */
  async prove({ size, root }: Checkpoint): Promise<void> {
    await this.grow(size);
    if (this.tree.size !== size || !this.tree.root().equals(root))
      throw new StoreDamaged(
        { where: 'the log' },
        `the first ${size} entries do not have the root that was signed over them`,
      );
  }

  async #stage(): Promise<void> {
    const gained = this.tree.drain();
    this.#staged = this.tree.size;
    if (this.store === undefined) return;
    for (const { level, first, hashes } of gained) await this.store.put(level, first, hashes);
    await this.store.flush();
  }
}

/** The tree that was proved before, from stored hashes; empty if they do not have its root. */
export async function treeUpTo(hashes: TreeReader, proved: Checkpoint | undefined): Promise<GrowingTree> {
  return (proved && (await storedTree(hashes, proved))) ?? GrowingTree.empty();
}
