/**
 * Judges a log by the roots that were signed over it, with the hashes that are stored beside it as a witness. Pure; fed
 * with the leaves as they are read, in flat memory.
 *
 * A root that comes out of the log's own leaves settles everything below it: these are the entries that were signed, in
 * this order, and a stored hash that says otherwise was changed. Behind the largest such root the stored leaves are
 * tried: if a signed root comes out of those, then each place where the log has another leaf is not as it was signed.
 * Stored hashes by themselves prove nothing.
 *
 * For an entry that cannot be read its stored leaf is taken: a root that comes out shows that this leaf is true.
 */
import { GrowingTree } from './growing-tree.js';
import { type HashSource } from './merkle.js';
/** The tree as it is stored. */
export interface StoredTree extends HashSource {
    hashCount(level: number): Promise<number>;
}
/** Entries side by side of which the same is to be told. */
export interface Stretch {
    /** Of the first of them, from 0. */
    readonly index: number;
    count: number;
    /** Of the first of them, as it was given. */
    readonly place: number;
}
/** A level that is cut short: it has `there` hashes. */
interface Shortage {
    readonly level: number;
    readonly there: number;
}
export interface RootVerdict<Root> {
    readonly root: Root;
    /** Of the log; `short` when it has fewer leaves, `unknown` when too much of it cannot be read. */
    readonly log: 'agrees' | 'differs' | 'short' | 'unknown';
    /** Whether the root comes out of the stored leaves, behind the largest root that comes out of the log. */
    readonly tree: boolean;
}
export interface Verdict<Root> {
    /** By size. */
    readonly roots: readonly RootVerdict<Root>[];
    /** Where the log, behind the largest root that comes out of it, has other leaves than are stored. */
    readonly differing: readonly Stretch[];
    /** Stored hashes that are not true. */
    readonly hashes: readonly HashFault[];
    readonly shortages: readonly Shortage[];
    /** Leaves and hashes that differ, and were only counted. */
    readonly unlisted: number;
    /** How many leaves the log has, those that cannot be read among them. */
    readonly leaves: number;
    /** So many of the log's first leaves are known: a signed root comes out of them, or of those that are stored. */
    readonly provenTo: number;
}
/** Stretches in the order of their places, in bounded memory. */
export declare class Stretches {
    readonly list: Stretch[];
    /** Entries in stretches that were not kept. */
    unlisted: number;
    /** @param joins whether it may be one stretch with entries in front of it. */
    add(stretch: Stretch, joins?: boolean): void;
}
export declare class Audit<Root extends SignedRoot> {
    #private;
    /** The largest size that was signed. */
    readonly covered: number;
    constructor(stored: StoredTree, roots: readonly Root[]);
    /** The next `count` leaves of the log, side by side, and of each a number by which its place is known. */
    leaves(hashes: Buffer, places: ArrayLike<number>, count: number): Promise<void>;
    /** Here the log has `count` leaves that cannot be read. */
    gap(count: number): Promise<void>;
    /** The log ends here. */
    finish(): Promise<Verdict<Root>>;
}
/** What a checkpoint says of a log. */
export interface SignedRoot {
    /** How many leaves. */
    readonly size: number;
    readonly root: Buffer;
}
/** Neighbouring hashes of a tile level that are not those of the leaves below them. */
export interface HashFault {
    readonly level: number;
    readonly index: number;
    readonly count: number;
}
/** How many leaves lie below the first `count` hashes of a level. */
export declare function leavesBelow(level: number, count: number): number;
export declare class RootedTree<Root extends SignedRoot> {
    #private;
    /** The roots that were come to. */
    readonly agreeing: Set<Root>;
    /** The tree as it was at the largest of them. */
    signed: GrowingTree;
    /** Hashes above level 0, as far as they are complete and `covered` leaves lie below them. */
    readonly faults: HashFault[];
    unlistedFaults: number;
    /**
     * @param roots by their size; those below the size of the tree that is begun with are passed over.
     * @param begun is not changed.
     */
    constructor(stored: HashSource, covered: number, roots: readonly Root[], begun?: GrowingTree);
    get size(): number;
    /** To be called again only when the call before has returned. */
    append(hashes: Buffer, count: number): Promise<void>;
}
export {};
