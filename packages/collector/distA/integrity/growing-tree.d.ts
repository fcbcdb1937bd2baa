/**
 * The right edge of a hash tree (RFC 6962 section 2.1) that grows by a batch of leaf hashes at a time, and gives out
 * the hashes that its tile levels gained. Pure; memory does not grow with the tree, only with what was not drained.
 *
 * A tree of n leaves is a row of perfect subtrees, one for each bit of n. Their roots, the peaks, stand side by side
 * in one buffer, the higher the further left, with room for one hash at the right end:
 *
 *   | height 55 | ... | height 2 | height 1 | height 0 | newcomer |
 *
 * A newcomer of height h is put down right of the place of height h. If there is a peak in that place, the two are
 * the children of the next newcomer, already side by side, and its hash goes to the peak's place: right of height
 * h + 1. If there is none, it moves in.
 */
import { type HashSource } from './merkle.js';
export declare class GrowingTree {
    #private;
    private constructor();
    /** The tree of no leaves. */
    static empty(): GrowingTree;
    /**
     * The tree of the first `size` leaves. Reads the last, partial tile of each level and nothing else.
     * @returns a tree with nothing to drain.
     * @throws TilesIncomplete when hashes of those tiles are missing.
     */
    static at(source: HashSource, size: number): Promise<GrowingTree>;
    /** How many leaves the tree has. */
    get size(): number;
    /** A tree of the same leaves that grows by itself, with nothing to drain. */
    copy(): GrowingTree;
    /** Bytes that the tree holds: a few kilobytes, and what was not drained. */
    get heldBytes(): number;
    /** Appends the `count` leaf hashes at the start of `hashes`, which is not kept. */
    append(hashes: Buffer, count: number): void;
    /** The root of all leaves so far: `EMPTY_ROOT` when there are none. In memory of its own. */
    root(): Buffer;
    /**
     * Every hash of every level that came since the last drain, level 0 first; levels that gained none are left out.
     * `first` is the number of the first of them in its level. The hashes are copies and stay as they are.
     */
    drain(): {
        level: number;
        first: number;
        hashes: Buffer;
    }[];
}
