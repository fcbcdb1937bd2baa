/**
 * Helpers for the tests of the hash tree: consistency proofs by RFC 6962 section 2.1.2, the verification steps of
 * RFC 9162 sections 2.1.3.2 and 2.1.4.2, and sources of hashes.
 */
import { leafOf, mth, nodeOf, split } from '../../../protocol/test/verify/rfc-tree.js';
import type { HashSource } from '../../src/tree/merkle.js';

/** This many leaf hashes, all different. */
export function leaves(count: number): Buffer[] {
  return Array.from({ length: count }, (_, i) => leafOf(Buffer.from(`entry ${i}`)));
}

/** PROOF(m, D[n]) = SUBPROOF(m, D[n], true) */
export function proof(m: number, d: readonly Buffer[], b = true): Buffer[] {
  if (m === d.length) return b ? [] : [mth(d)];
  const k = split(d.length);
  return m <= k
    ? [...proof(m, d.slice(0, k), b), mth(d.slice(k))]
    : [...proof(m - k, d.slice(k), false), mth(d.slice(0, k))];
}

/** The tile levels of the tree of these leaves: each hash is the root of its own slice of them. */
export function levelsOf(d: readonly Buffer[]): HashSource {
  const levels: Buffer[] = [];
  for (let width = 1; width <= d.length; width *= 256) {
    const whole = Math.floor(d.length / width);
    levels.push(
      Buffer.concat(Array.from({ length: whole }, (_, i) => mth(d.slice(i * width, (i + 1) * width)))),
    );
  }
  return sourceOf(levels);
}

/** Returns the hashes of these levels. */
export function sourceOf(levels: readonly Buffer[]): HashSource {
  return {
    hashes: (level, first, count) =>
      Promise.resolve(levels[level]?.subarray(first * 32, (first + count) * 32) ?? Buffer.alloc(0)),
  };
}

/** A tree without end whose leaves are all the same, so that trees of every size can be built from it. */
export function uniform(leaf: Buffer): HashSource {
  const heights = [leaf];
  const ofHeight = (height: number): Buffer => {
    let hash = heights[height];
    if (hash === undefined) {
      const child = ofHeight(height - 1);
      hash = heights[height] = nodeOf(child, child);
    }
    return hash;
  };
  return {
    hashes: (level, _first, count) => Promise.resolve(Buffer.alloc(count * 32, ofHeight(8 * level))),
  };
}

/** RFC 9162 section 2.1.3.2, with a leaf hash. Numbers of more than 32 bits need BigInt to be shifted. */
export function inclusionHolds(
  leaf: Buffer,
  index: number,
  size: number,
  root: Buffer,
  inclusion: readonly Buffer[],
): boolean {
  if (index >= size) return false;
  let fn = BigInt(index);
  let sn = BigInt(size) - 1n;
  let r = leaf;
  for (const p of inclusion) {
    if (sn === 0n) return false;
    if ((fn & 1n) === 1n || fn === sn) {
      r = nodeOf(p, r);
      while ((fn & 1n) === 0n && fn !== 0n) {
        fn >>= 1n;
        sn >>= 1n;
      }
    } else {
      r = nodeOf(r, p);
    }
    fn >>= 1n;
    sn >>= 1n;
  }
  return sn === 0n && r.equals(root);
}

/** RFC 9162 section 2.1.4.2, for 0 < first <= second; equal trees have equal roots and an empty proof. */
export function consistencyHolds(
  first: number,
  second: number,
  firstHash: Buffer,
  secondHash: Buffer,
  consistency: readonly Buffer[],
): boolean {
  if (first === second) return consistency.length === 0 && firstHash.equals(secondHash);
  if (consistency.length === 0) return false;
  const isPowerOfTwo = (BigInt(first) & (BigInt(first) - 1n)) === 0n;
  const steps = isPowerOfTwo ? [firstHash, ...consistency] : [...consistency];
  let fn = BigInt(first) - 1n;
  let sn = BigInt(second) - 1n;
  while ((fn & 1n) === 1n) {
    fn >>= 1n;
    sn >>= 1n;
  }
  let fr = steps[0] ?? Buffer.alloc(0);
  let sr = fr;
  for (const c of steps.slice(1)) {
    if (sn === 0n) return false;
    if ((fn & 1n) === 1n || fn === sn) {
      fr = nodeOf(c, fr);
      sr = nodeOf(c, sr);
      while ((fn & 1n) === 0n && fn !== 0n) {
        fn >>= 1n;
        sn >>= 1n;
      }
    } else {
      sr = nodeOf(sr, c);
    }
    fn >>= 1n;
    sn >>= 1n;
  }
  return sn === 0n && fr.equals(firstHash) && sr.equals(secondHash);
}
