/**
 * The hash tree of RFC 6962 section 2.1 over SHA-256: leaves, nodes, roots and proofs. Pure.
 *
 * Roots and proofs are computed from hashes by tile level (C2SP tlog-tiles): hash i of level L is the root of
 * the leaves from i * 256^L up to (i + 1) * 256^L, and exists once all of these leaves do. So a perfect
 * subtree of 2^h leaves is a fold of at most 128 hashes of level floor(h / 8).
 *
 * Sizes and indices stay below 2^53 and are never shifted: JavaScript shifts 32 bits.
 *
 * SHA-256 is returned as a 'binary' string and written to its target: that takes 0.3 microseconds; a Buffer
 * for each hash takes 1.1, a Hash object 1.3.
 */
import { hash } from 'node:crypto';
import { LEAF_BYTES, encodeLeaf } from '@clinical-events/protocol';

export const HASH_BYTES = 32;
/** Number of hashes in a tile: a hash covers 256 times as many leaves as one of the level below. */
export const TILE_HASHES = 256;
const TILE_HEIGHT = 8;

/** The root of an empty tree: SHA-256 of the empty string. */
export const EMPTY_ROOT = sha256(Buffer.alloc(0));

/** Prefixes of leaves and nodes: without them a node could be presented as a leaf. */
const LEAF_PREFIX = 0;
const NODE_PREFIX = 1;

const leafScratch = Buffer.alloc(1 + LEAF_BYTES);
leafScratch[0] = LEAF_PREFIX;
const envelopeHash = Buffer.alloc(HASH_BYTES);

const nodeScratch = Buffer.alloc(1 + 2 * HASH_BYTES);
nodeScratch[0] = NODE_PREFIX;

/** The hashes of a tree by tile level. */
export interface HashSource {
  /** @returns `count` adjacent hashes of the level from number `first`; fewer if fewer exist. */
  hashes(level: number, first: number, count: number): Promise<Buffer>;
}

/** Thrown if hashes that a root or proof needs are missing. */
export class TilesIncomplete extends Error {
  override readonly name = 'TilesIncomplete';

  constructor(
    readonly level: number,
    readonly first: number,
    readonly count: number,
  ) {
    super(`the tree lacks some of the ${count} hashes from number ${first} of level ${level}`);
  }
}

function sha256(bytes: Uint8Array): Buffer {
  return hash('sha256', bytes, 'buffer');
}

/**
 * Writes the SHA-256 of the bytes without allocating a Buffer. `write` truncates at the end of the target.
 */
function writeHash(bytes: Uint8Array, target: Buffer, at: number): void {
  const written = target.write(hash('sha256', bytes, 'binary'), at, 'latin1');
  if (written !== HASH_BYTES) throw new RangeError('no room for a hash');
}

/**
 * Writes the 32 bytes of the leaf hash of one event into `target` at `targetAt`.
 * @param envelope encoded; `received_at` is read from it.
 * @param commitment 32 bytes.
 */
export function leafHash(
  envelope: Uint8Array,
  commitment: Uint8Array,
  target: Buffer,
  targetAt: number,
): void {
  if (commitment.length !== HASH_BYTES) throw new RangeError(`a commitment has ${HASH_BYTES} bytes`);
  writeHash(envelope, envelopeHash, 0);
  encodeLeaf(leafScratch, 1, envelope, envelopeHash, commitment);
  writeHash(leafScratch, target, targetAt);
}

/** Like {@link leafHash}, for an encoded leaf of LEAF_BYTES. */
export function encodedLeafHash(leaf: Uint8Array, target: Buffer, targetAt: number): void {
  leafScratch.set(leaf, 1);
  writeHash(leafScratch, target, targetAt);
}

/**
 * Writes the 32 bytes of the hash of a node into `target` at `targetAt`.
 * @param children may be `target`; its 64 bytes from `at` are the hashes of the left and the right child.
 */
export function hashNode(children: Buffer, at: number, target: Buffer, targetAt: number): void {
  children.copy(nodeScratch, 1, at, at + 2 * HASH_BYTES);
  writeHash(nodeScratch, target, targetAt);
}

/** The commitment of a leaf to the content of an event: SHA-256 of salt and body, 32 bytes. */
export function commitmentOf(salted: Uint8Array): Buffer {
  const commitment = Buffer.allocUnsafe(HASH_BYTES);
  writeHash(salted, commitment, 0);
  return commitment;
}

/**
 * @param count number of hashes, a power of two from 1.
 * @returns the root over the first `count` hashes, in a new buffer.
 */
export function foldPerfect(hashes: Buffer, count: number): Buffer {
  if (count === 1) return Buffer.from(hashes.subarray(0, HASH_BYTES));
  const nodes = Buffer.allocUnsafe((count / 2) * HASH_BYTES);
  let children = hashes;
  for (let width = count / 2; width >= 1; width /= 2) {
    for (let i = 0; i < width; i++) hashNode(children, 2 * i * HASH_BYTES, nodes, i * HASH_BYTES);
    children = nodes;
  }
  return nodes.subarray(0, HASH_BYTES);
}

/**
 * @returns exactly `count` hashes of the level.
 * @throws TilesIncomplete if fewer exist.
 */
export async function completeHashes(
  source: HashSource,
  level: number,
  first: number,
  count: number,
): Promise<Buffer> {
  const hashes = await source.hashes(level, first, count);
  if (hashes.length < count * HASH_BYTES) throw new TilesIncomplete(level, first, count);
  return hashes;
}

/** The root of the perfect subtree of 2^height leaves from `first`, a multiple of 2^height. */
async function perfectRoot(source: HashSource, first: number, height: number): Promise<Buffer> {
  const level = Math.floor(height / TILE_HEIGHT);
  const count = 2 ** (height % TILE_HEIGHT);
  return foldPerfect(await completeHashes(source, level, first / TILE_HASHES ** level, count), count);
}

/** The exponent of the largest power of two below n, where RFC 6962 splits n > 1 leaves. */
function splitHeight(n: number): number {
  let height = 0;
  while (2 ** (height + 1) < n) height++;
  return height;
}

function node(left: Buffer, right: Buffer): Buffer {
  const children = Buffer.concat([left, right]);
  hashNode(children, 0, children, 0);
  return children.subarray(0, HASH_BYTES);
}

/** MTH(D[first:first + count]) of RFC 6962, for a range that its splits produce, of at least one leaf. */
async function rangeRoot(source: HashSource, first: number, count: number): Promise<Buffer> {
  const height = splitHeight(count);
  if (count === 1 || count === 2 ** (height + 1)) {
    return perfectRoot(source, first, count === 1 ? 0 : height + 1);
  }
  const left = 2 ** height;
  const leftRoot = await perfectRoot(source, first, height);
  return node(leftRoot, await rangeRoot(source, first + left, count - left));
}

function checkSize(size: number): void {
  if (!Number.isSafeInteger(size) || size < 0) throw new RangeError(`${size} is not the size of a tree`);
}

/**
 * The root of the tree of the first `size` leaves (RFC 6962 section 2.1).
 * @throws TilesIncomplete if the source lacks hashes.
 */
export async function rootAt(source: HashSource, size: number): Promise<Buffer> {
  checkSize(size);
  return size === 0 ? EMPTY_ROOT : rangeRoot(source, 0, size);
}

/**
 * The audit path of the leaf at `index` in the tree of the first `size` leaves, from the leaf's sibling up to
 * a child of the root (RFC 6962 section 2.1.1). Empty if the leaf is the root.
 * @throws RangeError if the tree has no such leaf, TilesIncomplete if the source lacks hashes.
 */
export async function inclusionProof(source: HashSource, index: number, size: number): Promise<Buffer[]> {
  checkSize(size);
  checkSize(index);
  if (index >= size) throw new RangeError(`a tree of ${size} leaves has no leaf ${index}`);
  const path: Buffer[] = [];
  let first = 0;
  let count = size;
  while (count > 1) {
    const left = 2 ** splitHeight(count);
    if (index < first + left) {
      path.push(await rangeRoot(source, first + left, count - left));
      count = left;
    } else {
      path.push(await rangeRoot(source, first, left));
      first += left;
      count -= left;
    }
  }
  return path.reverse();
}

/**
 * The proof that the tree of the first `newSize` leaves continues the tree of the first `oldSize` (RFC 6962
 * section 2.1.2). Empty if the sizes are equal, and for an empty old tree, which every tree continues.
 * @throws RangeError if the new tree is smaller, TilesIncomplete if the source lacks hashes.
 */
export async function consistencyProof(
  source: HashSource,
  oldSize: number,
  newSize: number,
): Promise<Buffer[]> {
  checkSize(oldSize);
  checkSize(newSize);
  if (oldSize > newSize) throw new RangeError(`a tree of ${newSize} leaves does not continue ${oldSize}`);
  if (oldSize === 0 || oldSize === newSize) return [];
  const proof: Buffer[] = [];
  let first = 0;
  let count = newSize;
  while (first + count !== oldSize) {
    const left = 2 ** splitHeight(count);
    if (oldSize <= first + left) {
      proof.push(await rangeRoot(source, first + left, count - left));
      count = left;
    } else {
      proof.push(await rangeRoot(source, first, left));
      first += left;
      count -= left;
    }
  }
  // If this subtree is the whole old tree, the verifier knows its root.
  if (first > 0) proof.push(await rangeRoot(source, first, count));
  return proof.reverse();
}

/**
 * A tile (C2SP tlog-tiles): `width` hashes of a level, or entries, from number `index` * 256. A full tile has
 * 256.
 */
export interface Tile {
  readonly level: number;
  readonly index: number;
  readonly width: number;
}

const HIGHEST_LEVEL = 63;

/**
 * The path of a tile, or of the bundle of entries below a tile of level 0, relative to the log's prefix:
 * `tile/<level>/<index>[.p/<width>]`, without the suffix for a full tile.
 * @throws RangeError if the level is above 63, or the width is not from 1 to 256.
 */
export function tilePath(level: number | 'entries', index: number, width: number): string {
  const whole = (value: number, least: number, most: number): boolean =>
    Number.isInteger(value) && value >= least && value <= most;
  if (
    !(level === 'entries' || whole(level, 0, HIGHEST_LEVEL)) ||
    !whole(index, 0, Number.MAX_SAFE_INTEGER) ||
    !whole(width, 1, TILE_HASHES)
  ) {
    throw new RangeError(`there is no tile ${index} of width ${width} in level ${level}`);
  }
  // Groups of three digits, all but the last with a prefix, so that no name is both a file and a directory.
  let path = String(index % 1000).padStart(3, '0');
  for (let rest = Math.floor(index / 1000); rest > 0; rest = Math.floor(rest / 1000)) {
    path = `x${String(rest % 1000).padStart(3, '0')}/${path}`;
  }
  return `tile/${level}/${path}${width < TILE_HASHES ? `.p/${width}` : ''}`;
}

/**
 * Every tile of a tree with `size` leaves, level by level from the leaves up: the full tiles, then the
 * partial one. The bundles of entries correspond to level 0.
 */
export function* tilesOf(size: number): Generator<Tile, void, undefined> {
  for (let level = 0, hashes = size; hashes > 0; level++, hashes = Math.floor(hashes / TILE_HASHES)) {
    const full = Math.floor(hashes / TILE_HASHES);
    for (let index = 0; index < full; index++) yield { level, index, width: TILE_HASHES };
    const width = hashes % TILE_HASHES;
    if (width > 0) yield { level, index: full, width };
  }
}
