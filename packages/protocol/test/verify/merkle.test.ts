import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashLeaf, rootFromInclusion } from '../../src/verify/index.js';
import {
  leafOf,
  mth,
  path as auditPath,
  REFERENCE_ENTRIES,
  REFERENCE_PATHS,
  REFERENCE_ROOTS,
} from './rfc-tree.js';

const hexOf = (bytes: Uint8Array | undefined) =>
  bytes === undefined ? undefined : Buffer.from(bytes).toString('hex');
const bytesOf = (hex: string) => new Uint8Array(Buffer.from(hex, 'hex'));

const leafHashes = (count: number) =>
  Array.from({ length: count }, (_, index) => leafOf(Buffer.from(`leaf ${index}`)));

describe('rootFromInclusion', () => {
  it.each(REFERENCE_PATHS)(
    '[R-910] gives the published root from the path of leaf %i of %i',
    async (index, size, path) => {
      const leaf = await hashLeaf(REFERENCE_ENTRIES[index] ?? bytesOf('ff'));
      expect(hexOf(await rootFromInclusion(leaf, index, size, path.map(bytesOf)))).toBe(
        REFERENCE_ROOTS[size],
      );
    },
  );

  it('gives the root of the definition, in trees of every shape', async () => {
    const places = fc
      .integer({ min: 1, max: 80 })
      .chain((size) => fc.tuple(fc.nat(size - 1), fc.constant(size)));
    await fc.assert(
      fc.asyncProperty(places, async ([index, size]) => {
        const tree = leafHashes(size);
        const leaf = tree[index] ?? Buffer.alloc(0);
        expect(hexOf(await rootFromInclusion(leaf, index, size, auditPath(index, tree)))).toBe(
          hexOf(mth(tree)),
        );
      }),
    );
  });

  it('gives another root, or none, for every other index', async () => {
    const tree = leafHashes(21);
    const root = hexOf(mth(tree));
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
