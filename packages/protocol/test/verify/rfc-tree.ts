/**
 * The hash tree straight from the definitions of RFC 6962 section 2.1, for comparison: slow, and independent
 * of the tested code. And the reference tree of Certificate Transparency: eight entries, and the published
 * hashes of the trees over the first 0 to 8 of them (transparency-dev/merkle, testonly/constants.go).
 */
import { createHash } from 'node:crypto';

export function sha256(...parts: readonly (Uint8Array | string)[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

export function leafOf(entry: Uint8Array): Buffer {
  return sha256(Buffer.of(0), entry);
}

const nodes = new Map<string, Buffer>();

/** Computed once for each two hashes: the definitions below need the same ones again and again. */
export function nodeOf(left: Buffer, right: Buffer): Buffer {
  const children = left.toString('latin1') + right.toString('latin1');
  let node = nodes.get(children);
  if (node === undefined) nodes.set(children, (node = sha256(Buffer.of(1), left, right)));
  return node;
}

/** k, the largest power of two smaller than n. */
export function split(n: number): number {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}

/** MTH(D[n]), over leaves that are hashed already. */
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

const LEAF_0 = '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d';
const LEAF_1 = '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7';
const LEAF_4 = 'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b';
const NODE_01 = 'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125';
const NODE_23 = '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e';
const NODE_45 = '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a';
const NODE_67 = 'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0';
const NODE_03 = 'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7';
const NODE_47 = '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4';

const ENTRIES = ' 00 10 2021 3031 40414243 5051525354555657 606162636465666768696a6b6c6d6e6f';
export const REFERENCE_ENTRIES = ENTRIES.split(' ').map((entry) => Buffer.from(entry, 'hex'));
/** By size, from the empty tree on. */
export const REFERENCE_ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  LEAF_0,
  NODE_01,
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  NODE_03,
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];
export const REFERENCE_PATHS: readonly (readonly [index: number, size: number, path: readonly string[]])[] = [
  [0, 1, []],
  [0, 2, [LEAF_1]],
  [1, 2, [LEAF_0]],
  [2, 3, [NODE_01]],
  [1, 5, [LEAF_0, NODE_23, LEAF_4]],
  [0, 8, [LEAF_1, NODE_23, NODE_47]],
  [5, 8, [LEAF_4, NODE_67, NODE_03]],
];
export const REFERENCE_CONSISTENCY: typeof REFERENCE_PATHS = [
  [1, 1, []],
  [1, 8, [LEAF_1, NODE_23, NODE_47]],
  [2, 5, [NODE_23, LEAF_4]],
  [6, 8, [NODE_45, NODE_67, NODE_03]],
];
