/**
 * The Merkle tree of RFC 6962 section 2.1, as far as a proof of inclusion needs it.
 */
import { sha256 } from './webcrypto.js';

const LEAF_PREFIX = Uint8Array.of(0x00);
const NODE_PREFIX = Uint8Array.of(0x01);

/**
 * The hash of a leaf of the tree.
 * @throws CryptographyMissing
 */
export function hashLeaf(leaf: Uint8Array): Promise<Uint8Array> {
  return sha256(LEAF_PREFIX, leaf);
}

/**
 * Which of two siblings the path's hash is at each level, from the leaf up: true when it is the left one.
 * Follows the definition (section 2.1.1): of n leaves, the left subtree has the largest power of two below n.
 * @returns undefined when there is no such leaf.
 */
function siblingsAreLeft(index: number, size: number): boolean[] | undefined {
  if (!Number.isSafeInteger(size) || !Number.isSafeInteger(index) || index < 0 || index >= size)
    return undefined;
  const fromRoot: boolean[] = [];
  let [at, leaves] = [index, size];
  while (leaves > 1) {
    let left = 1;
    while (left * 2 < leaves) left *= 2;
    const isRight = at >= left;
    fromRoot.push(isRight);
    if (isRight) at -= left;
    leaves = isRight ? leaves - left : left;
  }
  return fromRoot.reverse();
}

/**
 * The root of the tree of `size` leaves that has the leaf at `index`, if `path` is its audit path: the hashes
 * from the leaf's sibling to the root's child. The leaf is proved to be there when the root is the one that
 * the log has signed.
 *
 * @param leafHash what `hashLeaf` returns.
 * @returns undefined when no tree of this size has a leaf there, or its path has another length.
 * @throws CryptographyMissing
 */
export async function rootFromInclusion(
  leafHash: Uint8Array,
  index: number,
  size: number,
  path: readonly Uint8Array[],
): Promise<Uint8Array | undefined> {
  const siblings = siblingsAreLeft(index, size);
  if (siblings?.length !== path.length) return undefined;
  let hash = leafHash;
  for (const [level, sibling] of path.entries()) {
    const [left, right] = siblings[level] === true ? [sibling, hash] : [hash, sibling];
    hash = await sha256(NODE_PREFIX, left, right);
  }
  return hash;
}
