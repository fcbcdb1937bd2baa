import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashLeaf, rootFromInclusion } from '../../src/verify/index.js';
import { auditPath, sampleLeafHash, treeRoot } from './sample-log.js';

const hexOf = (bytes: Uint8Array | undefined) =>
  bytes === undefined ? undefined : Buffer.from(bytes).toString('hex');
const bytesOf = (hex: string) => new Uint8Array(Buffer.from(hex, 'hex'));

// The reference tree of the Certificate Transparency project, which every implementation of RFC 6962 uses.
const LEAVES = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
].map(bytesOf);
const ROOTS = [
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];
const PATHS: [number, number, string[]][] = [
  [0, 1, []],
  [
    0,
    8,
    [
      '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
    ],
  ],
  [
    5,
    8,
    [
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
      'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    ],
  ],
  [2, 3, ['fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125']],
  [
    1,
    5,
    [
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    ],
  ],
];

const leafHashes = (count: number) =>
  Array.from({ length: count }, (_, index) => sampleLeafHash(Buffer.from(`leaf ${index}`)));

describe('rootFromInclusion', () => {
  it.each(PATHS)(
    '[R-910] gives the published root from the path of leaf %i of %i',
    async (index, size, path) => {
      const leaf = await hashLeaf(LEAVES[index] ?? bytesOf('ff'));
      expect(hexOf(await rootFromInclusion(leaf, index, size, path.map(bytesOf)))).toBe(ROOTS[size - 1]);
    },
  );

  it('[R-910] gives the published root for every leaf of every tree up to eight leaves', async () => {
    const hashes = LEAVES.map(sampleLeafHash);
    for (const [at, published] of ROOTS.entries()) {
      const tree = hashes.slice(0, at + 1);
      expect(hexOf(treeRoot(tree))).toBe(published);
      for (const [index, leaf] of LEAVES.slice(0, at + 1).entries()) {
        const root = await rootFromInclusion(await hashLeaf(leaf), index, at + 1, auditPath(index, tree));
        expect(hexOf(root)).toBe(published);
      }
    }
  });

  it('gives the root that the definition gives, in trees of every shape', async () => {
    const places = fc
      .integer({ min: 1, max: 80 })
      .chain((size) => fc.tuple(fc.nat(size - 1), fc.constant(size)));
    await fc.assert(
      fc.asyncProperty(places, async ([index, size]) => {
        const tree = leafHashes(size);
        const leaf = tree[index] ?? Buffer.alloc(0);
        expect(hexOf(await rootFromInclusion(leaf, index, size, auditPath(index, tree)))).toBe(
          hexOf(treeRoot(tree)),
        );
      }),
    );
  });

  it('gives another root, or none, for every other index', async () => {
    const tree = leafHashes(21);
    const root = hexOf(treeRoot(tree));
    for (const [index, leaf] of tree.entries()) {
      const path = auditPath(index, tree);
      for (let other = 0; other < 21; other++) {
        const found = hexOf(await rootFromInclusion(leaf, other, 21, path));
        expect(found === root).toBe(other === index);
      }
    }
  });

  it.each([
    ['an index that is not below the size', 5, 5, 2],
    ['an empty tree', 0, 0, 0],
    ['a negative index', -1, 5, 3],
    ['half an index', 0.5, 5, 3],
    ['a size that a double does not hold', 0, 2 ** 53, 53],
    ['a path too short', 0, 5, 2],
    ['a path too long', 0, 5, 4],
    ['a path for a tree of one leaf', 0, 1, 1],
    ['a path of the left subtree for its last leaf', 4, 5, 3],
  ])('gives none for %s', async (_, index, size, hashes) => {
    const path = Array.from({ length: hashes }, () => new Uint8Array(32));
    expect(await rootFromInclusion(new Uint8Array(32), index, size, path)).toBeUndefined();
  });

  it('reads the longest path that there can be', async () => {
    const path = Array.from({ length: 53 }, () => new Uint8Array(32));
    const root = await rootFromInclusion(new Uint8Array(32), 12_345, 2 ** 53 - 1, path);
    expect(root).toHaveLength(32);
  });
});
