/**
 * What is kept of the keys of a bucket, which is a stretch of the log: a file each, under an epoch key. Pure.
 *
 *   offset  size  field; little-endian
 *        0     8  "CLEKEYS1"
 *        8     4  CRC-32 of the rest of the file
 *       12     2  version, 1
 *       14     2  derivation, 1: key-tree.ts
 *       16    16  ledger id
 *       32    16  bucket id, random; its first four bytes stand in each frame that is sealed by it
 *       48     8  first sequence: place 0 of each tree is its
 *       56     8  generation, one more at each change
 *       64     4  epoch, whose key the state is under
 *       68    12  nonce, random
 *       80     N  AES-256-GCM over the trees, with bytes 12 to 67 as associated data
 *     80+N    16  tag
 *
 * The trees: of each organisation length of its name (1), name, number of nodes (4), and of each node level (1), index
 * (4), value (32). A tree without nodes is one whose keys are all destroyed; a bucket whose file is missing is a fault.
 */
import { type KeyObject } from 'node:crypto';
import { type TreeNode } from './key-tree.js';
export interface KeyState {
    /** In hexadecimal, as a segment has it. */
    readonly ledgerId: string;
    readonly bucketId: Buffer;
    readonly firstSequence: number;
    readonly generation: number;
    readonly epoch: number;
    /** The nodes that are left, by organisation. */
    readonly trees: ReadonlyMap<string, readonly TreeNode[]>;
}
/** The file holds no key state, or not the one that was written. The message names nothing secret. */
export declare class KeyStateDamaged extends Error {
    name: string;
}
/**
 * Of two states of one bucket what both open: what was destroyed in one of them is destroyed. A tree that one of them has
 * not got yet is the other's.
 * @returns one of the two as it is, where that opens nothing else; else a state of a higher generation than both.
 */
export declare function mergedStates(one: KeyState, other: KeyState): KeyState;
/** Whether two states of one bucket have the same nodes. */
export declare function opensAlike(one: KeyState, other: KeyState): boolean;
export declare function encodeKeyState(state: KeyState, epochKey: KeyObject): Buffer;
/** What a file says of itself without a key. @throws KeyStateDamaged */
export declare function keyStateHeader(file: Buffer): Omit<KeyState, 'trees'>;
/** @throws KeyStateDamaged, also when the epoch key is not the one that it was written under. */
export declare function decodeKeyState(file: Buffer, epochKey: KeyObject): KeyState;
