/** The Merkle tree of RFC 6962 section 2.1, to the extent that proofs of inclusion need it. */

/**
 * SHA-256 and Ed25519 by Web Cryptography, which Node and browsers share. Browsers offer it to pages over
 * https and from the local host, with Ed25519 since 2025.
 */

/** This runtime has no Web Cryptography, or its Web Cryptography lacks Ed25519. Nothing was checked. */
export class CryptographyMissing extends Error {
  override name = 'CryptographyMissing';
}

function subtle(): typeof globalThis.crypto.subtle {
  // Absent in a page over plain HTTP, although the type says otherwise.
  const { crypto } = globalThis as { crypto?: Partial<typeof globalThis.crypto> };
  if (crypto?.subtle === undefined) {
    throw new CryptographyMissing('there is no Web Cryptography here; a page must be loaded over https');
  }
  return crypto.subtle;
}

/** The parts, concatenated in new memory, because the interface accepts no shared memory. */
function concatenate(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * SHA-256 of the concatenated parts.
 * @throws CryptographyMissing
 */
export async function sha256(...parts: readonly Uint8Array[]): Promise<Uint8Array> {
  return new Uint8Array(await subtle().digest('SHA-256', concatenate(...parts)));
}

/**
 * Whether the signature over the message is the key's (RFC 8032). Also false for bytes that cannot be a key
 * or signature.
 * @throws CryptographyMissing
 */
export async function ed25519Holds(
  publicKey: Uint8Array,
  signature: Uint8Array,
  message: Uint8Array,
): Promise<boolean> {
  const algorithm = { name: 'Ed25519' };
  const cryptography = subtle();
  try {
    const key = await cryptography.importKey('raw', concatenate(publicKey), algorithm, false, ['verify']);
    return await cryptography.verify(algorithm, key, concatenate(signature), concatenate(message));
  } catch (error) {
    if (error instanceof Error && error.name === 'NotSupportedError') {
      throw new CryptographyMissing('there is no Ed25519 in the Web Cryptography here', { cause: error });
    }
    return false;
  }
}

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
 * For each level from the leaf up, whether the sibling is the left node (section 2.1.1: of n leaves, the left
 * subtree has the largest power of two below n).
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
 * The root of the tree of `size` leaves with the leaf at `index`, if `path` is its audit path: the hashes
 * from the leaf's sibling to the root's child. The leaf is in the log when this root is the signed one.
 *
 * @param leafHash the result of `hashLeaf`.
 * @returns undefined when a tree of this size has no such leaf, or its path has another length.
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
