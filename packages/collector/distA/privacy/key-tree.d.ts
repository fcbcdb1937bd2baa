import type { SequenceSet } from './sequence-set.js';
export declare const BUCKET_ID_BYTES = 16;
export declare const NODE_BYTES = 32;
/** A tree has a key for each of so many places. */
export declare const TREE_HEIGHT = 20;
export declare const TREE_PLACES: number;
export interface TreeNode {
    /** 0 for the root, TREE_HEIGHT for a key. */
    readonly level: number;
    readonly index: number;
    readonly value: string;
}
export declare function newRoot(): TreeNode;
export declare class KeyTree {
    #private;
    private readonly nodes;
    /** @param nodes none of them above another: what they cover has keys, the rest has none any more. */
    constructor(bucketId: Uint8Array, nodes: readonly TreeNode[]);
    /**
     * The key of a place, as a string of NODE_BYTES characters; undefined when it has none. In order, a key takes one hash,
     * anywhere else up to twenty.
     */
    keyAt(place: number): string | undefined;
    /** The nodes that are left when these places have no key any more: what they cover is what it was without them. */
    without(taken: SequenceSet): TreeNode[];
}
/** What two sets of nodes of one tree both cover. */
export declare function inBoth(one: readonly TreeNode[], other: readonly TreeNode[]): TreeNode[];
