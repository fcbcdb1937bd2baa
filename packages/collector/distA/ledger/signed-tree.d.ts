import { type Checkpoint } from '@clinical-events/protocol/verify';
import { GrowingTree } from '../integrity/growing-tree.js';
import { type CheckpointSigner } from '../integrity/note-signing.js';
import { type Committed, type Cursor } from '../store/contract/events.js';
import { type TreeReader } from '../store/contract/tree.js';
/** The log does not agree with a checkpoint that was signed over it. */
export declare class CheckpointContradicted extends Error {
    name: string;
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
 * @throws {@link CheckpointContradicted} when the log holds less or something else than the newest checkpoint says.
 */
export declare function signedTree(options: SignedTreeOptions, head: string | undefined): Promise<SignedTree>;
/**
 * Whether the tree that is stored goes on from one that this process has known.
 * @throws CheckpointContradicted when it does not: it is another history than the one that was signed.
 */
export declare function assertGoesOn(store: TreeReader, known: Pick<Checkpoint, 'size' | 'root'>): Promise<void>;
/**
 * Whether the log goes on from a checkpoint that an earlier process has seen. One that cannot be read says nothing.
 * @param signed how many entries the newest checkpoint covers.
 * @throws CheckpointContradicted when it does not.
 */
export declare function assertReaches({ store, signer }: Pick<SignedTreeOptions, 'store' | 'signer'>, note: string, signed: number): Promise<void>;
/** Leaf hashes side by side, valid until the next are asked for. */
interface Leaves {
    readonly hashes: Buffer;
    readonly count: number;
}
/** Makes leaf hashes of what is committed, in memory that is used again. */
export declare class LeafReader {
    #private;
    private readonly committed;
    constructor(committed: Committed);
    /**
     * The leaf hashes of the entries from a cursor on, up to what was durable when it began, a batch at a time. The other
     * work of the thread has its turn between two of them.
     * @returns the cursor behind the last.
     */
    from(cursor: Cursor): AsyncGenerator<Leaves, Cursor>;
}
export {};
