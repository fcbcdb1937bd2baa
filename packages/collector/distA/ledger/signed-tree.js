/**
 * The tree as a start finds it: held against the newest checkpoint, and rebuilt from the entries of the log where the
 * hashes do not come to its root. The hashes may be ahead of the checkpoint or, after power was lost, damaged behind
 * it: only what the checkpoint covers is believed, and only if its root comes out.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { parseCheckpoint } from '@clinical-events/protocol/verify';
import { GrowingTree } from '../integrity/growing-tree.js';
import { HASH_BYTES, TilesIncomplete } from '../integrity/merkle.js';
import { rotationMissing, unknownSigner, verifyNote, } from '../integrity/note-signing.js';
import { BEGINNING } from '../store/contract/events.js';
import {} from '../store/contract/tree.js';
/** The log does not agree with a checkpoint that was signed over it. */
export class CheckpointContradicted extends Error {
    name = 'CheckpointContradicted';
}
/**
 * @param head the newest checkpoint, as it was read before the entries were counted.
 * @throws {@link CheckpointContradicted} when the log holds less or something else than the newest checkpoint says.
 */
export async function signedTree(options, head) {
    const { store, signer, committed, onTrouble } = options;
    if (head === undefined) {
        if (committed.entries === 0)
            return { tree: GrowingTree.empty(), head, signed: -1 };
        throw new CheckpointContradicted(`the ledger holds ${committed.entries} entries, but its newest checkpoint is missing: checkpoints/latest`);
    }
    const checkpoint = checkpointIn(head, signer);
    const { size: signed } = checkpoint;
    const tree = await believed(store, checkpoint);
    if (tree === undefined) {
        onTrouble('the hashes of the tree were damaged or lost; they are rebuilt from the events', undefined);
        // Before a hash is written over: if the events were changed, the old hashes tell which ones.
        await assertSigned(committed, checkpoint);
    }
    else if (signed > committed.entries)
        throw contradicted(signed);
    return { tree: tree ?? GrowingTree.empty(), head, signed };
}
/** What the newest checkpoint says, once it is sure that this log's key signed it. */
function checkpointIn(note, signer) {
    try {
        const checkpoint = parseCheckpoint(verifyNote(note, signer.keys).text);
        if (checkpoint.origin !== signer.origin)
            throw new Error(`its origin is ${checkpoint.origin}`);
        const unknown = unknownSigner(note, signer.keys);
        if (unknown !== undefined)
            throw new Error(rotationMissing(unknown));
        return checkpoint;
    }
    catch (error) {
        throw new CheckpointContradicted('checkpoints/latest is not a checkpoint of this log', { cause: error });
    }
}
/**
 * Whether the tree that is stored goes on from one that this process has known.
 * @throws CheckpointContradicted when it does not: it is another history than the one that was signed.
 */
export async function assertGoesOn(store, known) {
    if ((await believed(store, known)) !== undefined)
        return;
    throw new CheckpointContradicted(`the first ${known.size} entries of the log are not those that a checkpoint was signed over before: ` +
        'the store has gone back to an earlier state, or was exchanged');
}
/**
 * Whether the log goes on from a checkpoint that an earlier process has seen. One that cannot be read says nothing.
 * @param signed how many entries the newest checkpoint covers.
 * @throws CheckpointContradicted when it does not.
 */
export async function assertReaches({ store, signer }, note, signed) {
    let known;
    try {
        known = checkpointIn(note, signer);
    }
    catch {
        return;
    }
    if (known.size > signed) {
        throw new CheckpointContradicted(`its newest checkpoint covers ${signed} entries, and one over ${known.size} was seen here before: the store has ` +
            'gone back to an earlier state');
    }
    await assertGoesOn(store, { size: known.size, root: Buffer.from(known.root) });
}
/** The tree as it is stored up to the checkpoint, or undefined when it does not come to the checkpoint's root. */
async function believed(store, signed) {
    try {
        const tree = await GrowingTree.at(store, signed.size);
        return tree.root().equals(signed.root) ? tree : undefined;
    }
    catch (error) {
        if (error instanceof TilesIncomplete)
            return undefined;
        throw error;
    }
}
/** @throws CheckpointContradicted when the entries that the checkpoint covers do not come to its root. */
async function assertSigned(committed, { size, root }) {
    const tree = GrowingTree.empty();
    for await (const { hashes, count } of new LeafReader(committed).from(BEGINNING)) {
        tree.append(hashes, Math.min(count, size - tree.size));
        tree.drain();
        if (tree.size === size)
            break;
    }
    if (tree.size < size || !tree.root().equals(root))
        throw contradicted(size);
}
function contradicted(size) {
    return new CheckpointContradicted(`the first ${size} entries of the log are not those that checkpoints/latest was signed over; ` +
        'see collector verify');
}
/** Makes leaf hashes of what is committed, in memory that is used again. */
export class LeafReader {
    committed;
    #hashes = Buffer.alloc(1024 * HASH_BYTES);
    constructor(committed) {
        this.committed = committed;
    }
    /**
     * The leaf hashes of the entries from a cursor on, up to what was durable when it began, a batch at a time. The other
     * work of the thread has its turn between two of them.
     * @returns the cursor behind the last.
     */
    async *from(cursor) {
        const batches = this.committed.pass(cursor);
        for (;;) {
            const batch = await batches.next();
            if (batch.done === true)
                return batch.value;
            let count = 0;
            for (const entry of batch.value) {
                if ((count + 1) * HASH_BYTES > this.#hashes.length)
                    this.#grow();
                entry.hashLeaf(this.#hashes, count++ * HASH_BYTES);
            }
            yield { hashes: this.#hashes, count };
            await turn();
        }
    }
    #grow() {
        this.#hashes = Buffer.concat([this.#hashes, Buffer.alloc(this.#hashes.length)]);
    }
}
//# sourceMappingURL=signed-tree.js.map