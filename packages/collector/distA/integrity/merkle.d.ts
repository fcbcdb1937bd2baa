export declare const HASH_BYTES = 32;
/** A tile holds so many hashes, so that each level counts 256 times as many leaves as the one below. */
export declare const TILE_HASHES = 256;
/** The root of a tree without leaves: SHA-256 of nothing. */
export declare const EMPTY_ROOT: Buffer<ArrayBufferLike>;
/** Hashes of a tree, by tile level. */
export interface HashSource {
    /** @returns `count` hashes of the level from number `first` on, side by side; fewer when fewer are there. */
    hashes(level: number, first: number, count: number): Promise<Buffer>;
}
/** Hashes that the asked-for root or proof needs are not there. */
export declare class TilesIncomplete extends Error {
    readonly level: number;
    readonly first: number;
    readonly count: number;
    readonly name = "TilesIncomplete";
    constructor(level: number, first: number, count: number);
}
/**
 * Writes the 32 bytes of the leaf hash of one event into `target` at `targetAt`.
 * @param envelope as encoded; `received_at` is taken from it.
 * @param commitment 32 bytes.
 */
export declare function leafHash(envelope: Uint8Array, commitment: Uint8Array, target: Buffer, targetAt: number): void;
/** The same of a leaf that is encoded already: LEAF_BYTES. */
export declare function encodedLeafHash(leaf: Uint8Array, target: Buffer, targetAt: number): void;
/**
 * Writes the 32 bytes of the hash of a node into `target` at `targetAt`.
 * @param children may be `target`; its 64 bytes from `at` on are the hashes of the left and the right child.
 */
export declare function hashNode(children: Buffer, at: number, target: Buffer, targetAt: number): void;
/** What a leaf tells of an event's content: SHA-256 of its salt and its body, side by side. 32 bytes. */
export declare function commitmentOf(salted: Uint8Array): Buffer;
/**
 * @param count of the hashes at the start of `hashes`: a power of two, 1 included.
 * @returns the root over them, in memory of its own.
 */
export declare function foldPerfect(hashes: Buffer, count: number): Buffer;
/**
 * @returns exactly `count` hashes of the level.
 * @throws TilesIncomplete when fewer are there.
 */
export declare function completeHashes(source: HashSource, level: number, first: number, count: number): Promise<Buffer>;
/**
 * The root of the tree of the first `size` leaves (RFC 6962 section 2.1).
 * @throws TilesIncomplete when the source has not all of it.
 */
export declare function rootAt(source: HashSource, size: number): Promise<Buffer>;
/**
 * The audit path of the leaf at `index` in the tree of the first `size` leaves, from the leaf's sibling up to a
 * child of the root (RFC 6962 section 2.1.1). Empty when the leaf is the root.
 * @throws RangeError when the tree has no such leaf, TilesIncomplete when the source has not all of it.
 */
export declare function inclusionProof(source: HashSource, index: number, size: number): Promise<Buffer[]>;
/**
 * What shows that the tree of the first `newSize` leaves goes on from that of the first `oldSize` (RFC 6962 section
 * 2.1.2). Empty when the two sizes are the same, and when the old tree was empty, which every tree goes on from.
 * @throws RangeError when the new tree is the smaller one, TilesIncomplete when the source has not all of it.
 */
export declare function consistencyProof(source: HashSource, oldSize: number, newSize: number): Promise<Buffer[]>;
/** `width` hashes of a level, or entries, from number `index` * 256 on. A full tile is 256 wide. */
export interface Tile {
    readonly level: number;
    readonly index: number;
    readonly width: number;
}
/**
 * The path of a tile, or of the bundle of entries below a tile of level 0, relative to the log's prefix:
 * `tile/<level>/<index>[.p/<width>]`, without the suffix when the tile is full.
 * @throws RangeError for what cannot be a tile: a level above 63, a width that is not from 1 to 256.
 */
export declare function tilePath(level: number | 'entries', index: number, width: number): string;
/**
 * Every tile of a tree of so many leaves, level by level from the leaves up: the full ones, and the partial one at
 * the end when there is one. The bundles of entries are those of level 0.
 */
export declare function tilesOf(size: number): Generator<Tile, void, undefined>;
