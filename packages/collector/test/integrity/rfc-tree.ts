/**
 * The hash tree once more, for the tests to hold the real one against: straight from the definitions of RFC 6962
 * section 2.1 and the verification steps of RFC 9162 sections 2.1.3.2 and 2.1.4.2. Slow, and shares no code with
 * what it tests.
 */
import { createHash } from 'node:crypto';
import type { HashSource } from '../../src/integrity/merkle.js';

export function sha256(...parts: readonly (Uint8Array | string)[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

export function leafOf(entry: Uint8Array): Buffer {
  return sha256(Buffer.of(0), entry);
}

const nodes = new Map<string, Buffer>();

/** Of each two hashes it is worked out once: the definitions below ask for the same ones again and again. */
export function nodeOf(left: Buffer, right: Buffer): Buffer {
  const children = left.toString('latin1') + right.toString('latin1');
  let node = nodes.get(children);
  if (node === undefined) nodes.set(children, (node = sha256(Buffer.of(1), left, right)));
  return node;
}

/** So many leaf hashes, each other than the rest. */
export function leaves(count: number): Buffer[] {
  return Array.from({ length: count }, (_, i) => leafOf(Buffer.from(`entry ${i}`)));
}

/** k, the largest power of two smaller than n. */
function split(n: number): number {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}

/** MTH(D[n]) */
export function mth(d: readonly Buffer[]): Buffer {
  const [only] = d;
  if (only === undefined) return sha256();
  if (d.length === 1) return only;
  const k = split(d.length);
  return nodeOf(mth(d.slice(0, k)), mth(d.slice(k)));
}

/** PATH(m, D[n]) */
export function path(m: number, d: readonly Buffer[]): Buffer[] {
  if (d.length === 1) return [];
  const k = split(d.length);
  return m < k
    ? [...path(m, d.slice(0, k)), mth(d.slice(k))]
    : [...path(m - k, d.slice(k)), mth(d.slice(0, k))];
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

/** Gives out what is in these levels. */
export function sourceOf(levels: readonly Buffer[]): HashSource {
  return {
    hashes: (level, first, count) =>
      Promise.resolve(levels[level]?.subarray(first * 32, (first + count) * 32) ?? Buffer.alloc(0)),
  };
}

/** A tree without end whose leaves are all the same, so that trees of every size can be made up from it. */
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
