/**
 * The tree at a start: compared with the newest checkpoint, and rebuilt from the entries of the log when its
 * hashes do not lead to the signed root. The hashes may be ahead of the checkpoint or, after a power failure,
 * damaged beyond it: only those under the checkpoint are used, and only if they lead to its root.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { parseCheckpoint, type Checkpoint } from '@clinical-events/protocol/verify';
import { GrowingTree, type Leaves, storedTree } from '../tree/growing-tree.js';
import { HASH_BYTES } from '../tree/merkle.js';
import { rotationMissing, unknownSigner, verifyNote, type CheckpointSigner } from '../tree/note-signing.js';
import { BEGINNING, type Committed, type Cursor } from '../store/contract/events.js';
import { type TreeReader } from '../store/contract/tree.js';

/** The log contradicts a checkpoint that was signed over it. */
export class CheckpointContradicted extends Error {
  override name = 'CheckpointContradicted';
}

export interface SignedTree {
  /** Covers the entries of the newest checkpoint; empty when it must be rebuilt. */
  readonly tree: GrowingTree;
  /** The newest checkpoint. */
  readonly head: string | undefined;
  /** The number of entries that it covers; -1 without a checkpoint. */
  readonly signed: number;
}

export interface SignedTreeOptions {
  readonly store: TreeReader;
  readonly signer: Pick<CheckpointSigner, 'origin' | 'keys'>;
  readonly committed: Committed;
  /** Called when the hashes are rebuilt. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

/**
 * @param head the newest checkpoint, read before the entries were counted.
 * @throws {@link CheckpointContradicted} when the log lacks or contradicts entries of the newest checkpoint.
 */
export async function signedTree(options: SignedTreeOptions, head: string | undefined): Promise<SignedTree> {
  const { store, signer, committed, onTrouble } = options;
  if (head === undefined) {
    if (committed.entries === 0) return { tree: GrowingTree.empty(), head, signed: -1 };
    throw new CheckpointContradicted(
      `the ledger holds ${committed.entries} entries, but its newest checkpoint is missing: ` +
        'checkpoints/latest',
    );
  }
  const checkpoint = checkpointIn(head, signer);
  const { size: signed } = checkpoint;
  const tree = await storedTree(store, checkpoint);
  if (tree === undefined) {
    onTrouble('the hashes of the tree are damaged or missing and are rebuilt from the events', undefined);
    // This check precedes the rebuild: if events were altered, the old hashes show which.
    await assertSigned(committed, checkpoint);
  } else if (signed > committed.entries) throw contradicted(signed);
  return { tree: tree ?? GrowingTree.empty(), head, signed };
}

/** The content of the newest checkpoint, once this log's key is known to have signed it. */
function checkpointIn(note: string, signer: SignedTreeOptions['signer']): Checkpoint {
  try {
    const checkpoint = parseCheckpoint(verifyNote(note, signer.keys).text);
    if (checkpoint.origin !== signer.origin) throw new Error(`its origin is ${checkpoint.origin}`);
    const unknown = unknownSigner(note, signer.keys);
    if (unknown !== undefined) throw new Error(rotationMissing(unknown));
    return checkpoint;
  } catch (error) {
    throw new CheckpointContradicted('checkpoints/latest is not a checkpoint of this log', { cause: error });
  }
}

/**
 * Checks that the stored tree extends one that this process has known.
 * @throws CheckpointContradicted when it does not: the signed history was replaced.
 */
export async function assertGoesOn(
  store: TreeReader,
  known: Pick<Checkpoint, 'size' | 'root'>,
): Promise<void> {
  if ((await storedTree(store, known)) !== undefined) return;
  throw new CheckpointContradicted(
    `the first ${known.size} entries of the log are not those that an earlier checkpoint covers: ` +
      'the store has gone back to an earlier state, or was replaced',
  );
}

/**
 * Checks that the log extends a checkpoint that an earlier process has seen. An unreadable one is ignored.
 * @param signed the number of entries that the newest checkpoint covers.
 * @throws CheckpointContradicted when it does not.
 */
export async function assertReaches(
  { store, signer }: Pick<SignedTreeOptions, 'store' | 'signer'>,
  note: string,
  signed: number,
): Promise<void> {
  let known: Checkpoint;
  try {
    known = checkpointIn(note, signer);
  } catch {
    return;
  }
  if (known.size > signed) {
    throw new CheckpointContradicted(
      `its newest checkpoint covers ${signed} entries, but one over ${known.size} was seen: the store has ` +
        'gone back to an earlier state',
    );
  }
  await assertGoesOn(store, { size: known.size, root: Buffer.from(known.root) });
}

/** @throws CheckpointContradicted when the entries under the checkpoint do not lead to its root. */
async function assertSigned(committed: Committed, { size, root }: Checkpoint): Promise<void> {
  const tree = GrowingTree.empty();
  for await (const { hashes, count } of new LeafReader(committed).from(BEGINNING)) {
    tree.append(hashes, Math.min(count, size - tree.size));
    tree.drain();
    if (tree.size === size) break;
  }
  if (tree.size < size || !tree.root().equals(root)) throw contradicted(size);
}

function contradicted(size: number): CheckpointContradicted {
  return new CheckpointContradicted(
    `the first ${size} entries of the log are not those that checkpoints/latest was signed over; ` +
      'see collector verify',
  );
}

/** Makes leaf hashes of committed entries, in memory that is reused. */
export class LeafReader {
  #hashes = Buffer.alloc(1024 * HASH_BYTES);

  constructor(private readonly committed: Committed) {}

  /**
   * Yields the leaf hashes of the entries from a cursor on, up to the last one that was durable at the
   * beginning, a batch at a time. The thread does other work between two batches.
   * @returns the cursor after the last entry.
   */
  async *from(cursor: Cursor): AsyncGenerator<Leaves, Cursor> {
    const batches = this.committed.pass(cursor);
    for (;;) {
      const batch = await batches.next();
      if (batch.done === true) return batch.value;
      let count = 0;
      for (const entry of batch.value) {
        if ((count + 1) * HASH_BYTES > this.#hashes.length) this.#grow();
        entry.hashLeaf(this.#hashes, count++ * HASH_BYTES);
      }
      yield { hashes: this.#hashes, count };
      await turn();
    }
  }

  #grow(): void {
    this.#hashes = Buffer.concat([this.#hashes, Buffer.alloc(this.#hashes.length)]);
  }
}
