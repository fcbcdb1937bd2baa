/**
 * The tree as a start finds it: held against the newest checkpoint, and rebuilt from the entries of the log
 * where the hashes do not come to its root. The hashes may be ahead of the checkpoint or, after power was
 * lost, damaged behind it: only what the checkpoint covers is believed, and only if its root comes out.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { parseCheckpoint, type Checkpoint } from '@clinical-events/protocol/verify';
import { GrowingTree, type Leaves, storedTree } from '../tree/growing-tree.js';
import { HASH_BYTES } from '../tree/merkle.js';
import { rotationMissing, unknownSigner, verifyNote, type CheckpointSigner } from '../tree/note-signing.js';
import { BEGINNING, type Committed, type Cursor } from '../store/contract/events.js';
import { type TreeReader } from '../store/contract/tree.js';

/** The log does not agree with a checkpoint that was signed over it. */
export class CheckpointContradicted extends Error {
  override name = 'CheckpointContradicted';
}

export interface SignedTree {
  /** Of the entries that the newest checkpoint covers; empty when it has to be rebuilt. */
  readonly tree: GrowingTree;
  /** The newest checkpoint. */
  readonly head: string | undefined;
  /** How many entries it covers; -1 when there is none. */
  readonly signed: number;
}

export interface SignedTreeOptions {
  readonly store: TreeReader;
  readonly signer: Pick<CheckpointSigner, 'origin' | 'keys'>;
  readonly committed: Committed;
  /** The hashes are rebuilt. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

/**
 * @param head the newest checkpoint, as it was read before the entries were counted.
 * @throws {@link CheckpointContradicted} when the log holds less or something else than the newest checkpoint
 *   says.
 */
export async function signedTree(options: SignedTreeOptions, head: string | undefined): Promise<SignedTree> {
  const { store, signer, committed, onTrouble } = options;
  if (head === undefined) {
    if (committed.entries === 0) return { tree: GrowingTree.empty(), head, signed: -1 };
    throw new CheckpointContradicted(
      `the ledger holds ${committed.entries} entries, but its newest checkpoint is missing: checkpoints/latest`,
    );
  }
  const checkpoint = checkpointIn(head, signer);
  const { size: signed } = checkpoint;
  const tree = await storedTree(store, checkpoint);
  if (tree === undefined) {
    onTrouble('the hashes of the tree were damaged or lost; they are rebuilt from the events', undefined);
    // Before a hash is written over: if the events were changed, the old hashes tell which ones.
    await assertSigned(committed, checkpoint);
  } else if (signed > committed.entries) throw contradicted(signed);
  return { tree: tree ?? GrowingTree.empty(), head, signed };
}

/** What the newest checkpoint says, once it is sure that this log's key signed it. */
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
 * Whether the tree that is stored goes on from one that this process has known.
 * @throws CheckpointContradicted when it does not: it is another history than the one that was signed.
 */
export async function assertGoesOn(
  store: TreeReader,
  known: Pick<Checkpoint, 'size' | 'root'>,
): Promise<void> {
  if ((await storedTree(store, known)) !== undefined) return;
  throw new CheckpointContradicted(
    `the first ${known.size} entries of the log are not those that a checkpoint was signed over before: ` +
      'the store has gone back to an earlier state, or was exchanged',
  );
}

/**
 * Whether the log goes on from a checkpoint that an earlier process has seen. One that cannot be read says
 * nothing.
 * @param signed how many entries the newest checkpoint covers.
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
      `its newest checkpoint covers ${signed} entries, and one over ${known.size} was seen here before: the store has ` +
        'gone back to an earlier state',
    );
  }
  await assertGoesOn(store, { size: known.size, root: Buffer.from(known.root) });
}

/** @throws CheckpointContradicted when the entries that the checkpoint covers do not come to its root. */
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

/** Makes leaf hashes of what is committed, in memory that is used again. */
export class LeafReader {
  #hashes = Buffer.alloc(1024 * HASH_BYTES);

  constructor(private readonly committed: Committed) {}

  /**
   * The leaf hashes of the entries from a cursor on, up to what was durable when it began, a batch at a time.
   * The other work of the thread has its turn between two of them.
   * @returns the cursor behind the last.
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
