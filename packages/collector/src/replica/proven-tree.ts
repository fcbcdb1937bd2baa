/** The tree over a log that is copied, grown by its own leaves: a checkpoint is copied once its root came out. */
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { StoreDamaged } from '../store/contract/events.js';
import type { TreeReader, TreeStore } from '../store/contract/tree.js';
import { GrowingTree, type Leaves, storedTree } from '../tree/growing-tree.js';

/** After so many entries the hashes are brought to the disk. */
const STAGE_EVERY = 65_536;

export class ProvenTree {
  #staged: number;

  /**
   * @param leaves of the log, from an entry on.
   * @param store where its hashes are kept; without it none are.
   */
  constructor(
    private readonly tree: GrowingTree,
    private readonly leaves: (from: number) => Iterable<Leaves> | AsyncIterable<Leaves>,
    private readonly store?: TreeStore,
  ) {
    this.#staged = tree.size;
  }

  /** How many entries it covers. */
  get size(): number {
    return this.tree.size;
  }

  /** On return it covers so many entries of the log, or all that it has, and its hashes are kept. */
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

  /** @throws StoreDamaged unless the log comes to the root that was signed. */
  async prove({ size, root }: Checkpoint): Promise<void> {
    await this.grow(size);
    if (this.tree.size !== size || !this.tree.root().equals(root))
      throw new StoreDamaged(
        { where: 'the log' },
        `the first ${size} entries do not come to the root that was signed over them`,
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

/** The tree over what was proved before, by stored hashes; an empty one where they do not come to its root. */
export async function treeUpTo(hashes: TreeReader, proved: Checkpoint | undefined): Promise<GrowingTree> {
  return (proved && (await storedTree(hashes, proved))) ?? GrowingTree.empty();
}
