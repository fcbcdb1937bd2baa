import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GrowingTree } from '../../src/tree/growing-tree.js';
import { EMPTY_ROOT, rootAt, TilesIncomplete, type HashSource } from '../../src/tree/merkle.js';
import { mth, sha256 } from '../../../protocol/test/verify/rfc-tree.js';
import { leaves, levelsOf, sourceOf, uniform } from './rfc-tree.js';

/** Keeps what is drained, as the files of a tree would. */
class Kept implements HashSource {
  readonly levels: Buffer[] = [];

  keep(tree: GrowingTree): void {
    for (const { level, first, hashes } of tree.drain()) {
      const before = this.levels[level] ?? Buffer.alloc(0);
      // Neither a gap nor a hash twice.
      expect(first * 32).toBe(before.length);
      this.levels[level] = Buffer.concat([before, hashes]);
    }
  }

  hashes(level: number, first: number, count: number): Promise<Buffer> {
    return sourceOf(this.levels).hashes(level, first, count);
  }
}

const SIZES = 1_100;
const ALL = leaves(SIZES);
const everything = Buffer.concat(ALL);
const expected = levelsOf(ALL);

/** By size. */
const roots = ALL.map((_, i) => mth(ALL.slice(0, i)));
roots.push(mth(ALL));

function append(tree: GrowingTree, from: number, to: number): void {
  tree.append(everything.subarray(from * 32, to * 32), to - from);
}

test('[R-901] at every size the root is that of the definition', () => {
  const tree = GrowingTree.empty();
  expect(tree.root()).toEqual(EMPTY_ROOT);
  for (let size = 1; size <= 520; size++) {
    append(tree, size - 1, size);
    expect(tree.size).toBe(size);
    expect(tree.root()).toEqual(roots[size]);
  }
});

/** Sizes at which a batch ended, of at most `SIZES` leaves in all. */
const splits = fc
  .uniqueArray(fc.integer({ min: 0, max: SIZES }), { minLength: 1, maxLength: 12 })
  .map((sizes) => sizes.sort((a, b) => a - b));

test('[R-901] the tree and its levels do not depend on how the leaves are appended', async () => {
  await fc.assert(
    fc.asyncProperty(splits, fc.func(fc.boolean()), async (sizes, drainsAt) => {
      const tree = GrowingTree.empty();
      const kept = new Kept();
      let from = 0;
      for (const size of sizes) {
        append(tree, from, size);
        from = size;
        if (drainsAt(size)) kept.keep(tree);
        expect(tree.root()).toEqual(roots[size]);
      }
      kept.keep(tree);
      expect((await kept.hashes(0, 0, SIZES)).equals(await expected.hashes(0, 0, from))).toBe(true);
      expect(await kept.hashes(1, 0, SIZES)).toEqual(await expected.hashes(1, 0, Math.floor(from / 256)));
      expect(tree.drain()).toEqual([]);
    }),
  );
});

test('[R-901] a tree loaded again and continued equals one that was never interrupted', async () => {
  await fc.assert(
    fc.asyncProperty(splits, async (sizes) => {
      const kept = new Kept();
      let from = 0;
      for (const size of sizes) {
        const tree = await GrowingTree.at(kept, from);
        expect(tree.drain()).toEqual([]);
        append(tree, from, size);
        from = size;
        kept.keep(tree);
        expect(tree.root()).toEqual(roots[size]);
      }
      expect((await kept.hashes(0, 0, SIZES)).equals(await expected.hashes(0, 0, from))).toBe(true);
      expect(await kept.hashes(1, 0, SIZES)).toEqual(await expected.hashes(1, 0, Math.floor(from / 256)));
    }),
  );
});

test('a tree is loaded from the last partial tile of each level only', async () => {
  const asked: number[][] = [];
  const levels = uniform(sha256('the same'));
  const source: HashSource = {
    hashes: (...question) => {
      asked.push(question);
      return levels.hashes(...question);
    },
  };
  await GrowingTree.at(source, 70_000);
  expect(asked.sort()).toEqual([
    [0, 69_888, 112],
    [1, 256, 17],
    [2, 0, 1],
  ]);
});

test('a tree whose last tiles are incomplete is not loaded', async () => {
  const [level0, level1] = [everything, Buffer.alloc(4 * 32)];
  await expect(GrowingTree.at(sourceOf([level0, level1]), SIZES)).resolves.toBeDefined();
  await expect(GrowingTree.at(sourceOf([level0, level1]), SIZES + 1)).rejects.toThrow(TilesIncomplete);
  await expect(GrowingTree.at(sourceOf([level0, level1.subarray(1)]), SIZES)).rejects.toThrow(
    TilesIncomplete,
  );
  await expect(GrowingTree.at(sourceOf([level0]), SIZES)).rejects.toThrow(TilesIncomplete);
  for (const size of [-1, 0.5, Number.NaN, 2 ** 53]) {
    await expect(GrowingTree.at(sourceOf([level0]), size)).rejects.toThrow(RangeError);
  }
});

test('neither its size nor the numbers of its hashes are cut off at 32 bits', async () => {
  const leaf = sha256('the same');
  const source = uniform(leaf);
  for (const size of [2 ** 31, 2 ** 32, 2 ** 40, 2 ** 48, 2 ** 53 - 4]) {
    const tree = await GrowingTree.at(source, size - 3);
    tree.append(Buffer.alloc(6 * 32, leaf), 6);
    expect(tree.size).toBe(size + 3);
    expect(tree.root()).toEqual(await rootAt(source, size + 3));
    const drained = tree.drain();
    expect(drained[0]).toEqual({ level: 0, first: size - 3, hashes: Buffer.alloc(6 * 32, leaf) });
    for (const { level, first, hashes } of drained.slice(1)) {
      expect(first).toBe(Math.floor((size - 3) / 256 ** level));
      expect(hashes).toEqual(await source.hashes(level, first, 1));
    }
  }
});

test('roots and drained hashes are copies: changes to them, or later appends, have no effect', () => {
  const tree = GrowingTree.empty();
  append(tree, 0, 300);
  const root = tree.root();
  tree.root().fill(0);
  expect(tree.root()).toEqual(root);
  const drained = tree.drain();
  append(tree, 300, 900);
  tree.drain();
  expect(root).toEqual(mth(ALL.slice(0, 300)));
  expect(drained[0]?.hashes).toEqual(everything.subarray(0, 300 * 32));
  expect(drained[1]).toEqual({ level: 1, first: 0, hashes: mth(ALL.slice(0, 256)) });
  drained[0]?.hashes.fill(0);
  expect(tree.root()).toEqual(mth(ALL.slice(0, 900)));
  GrowingTree.empty().root().fill(0);
  expect(GrowingTree.empty().root()).toEqual(mth([]));
});

test('appended bytes are not kept: their buffer may be used again', () => {
  const tree = GrowingTree.empty();
  const batch = Buffer.from(everything.subarray(0, 5 * 32));
  tree.append(batch, 5);
  batch.fill(0);
  expect(tree.root()).toEqual(mth(ALL.slice(0, 5)));
  expect(tree.drain()[0]?.hashes).toEqual(everything.subarray(0, 5 * 32));
  expect(() => tree.append(batch, 6)).toThrow(RangeError);
  expect(tree.size).toBe(5);
});

test('memory does not grow with the tree', async () => {
  const tree = GrowingTree.empty();
  const leaf = sha256('the same');
  const batch = Buffer.alloc(1_000 * 32, leaf);
  const drained: number[] = [];
  for (let size = 0; size < 1_000_000; size += 1_000) {
    tree.append(batch, 1_000);
    expect(tree.heldBytes).toBeLessThan(64 * 1024);
    for (const { level, hashes } of tree.drain()) drained[level] = (drained[level] ?? 0) + hashes.length / 32;
  }
  expect(drained).toEqual([1_000_000, 3906, 15]);
  expect(tree.root()).toEqual(await rootAt(uniform(leaf), 1_000_000));
  // The buffer of one huge batch is freed.
  tree.append(Buffer.alloc(100_000 * 32, leaf), 100_000);
  tree.drain();
  expect(tree.heldBytes).toBeLessThan(64 * 1024);
});
