import fc from 'fast-check';
import { encodeEnvelope, encodeLeaf, EVENT_KINDS, PROFILES, type Envelope } from '@clinical-events/protocol';
import { describe, expect, test } from 'vitest';
import {
  commitmentOf,
  consistencyProof,
  EMPTY_ROOT,
  foldPerfect,
  hashNode,
  inclusionProof,
  leafHash,
  rootAt,
  TilesIncomplete,
} from '../../src/integrity/merkle.js';
import {
  consistencyHolds,
  inclusionHolds,
  leafOf,
  leaves,
  levelsOf,
  mth,
  nodeOf,
  path,
  proof,
  sha256,
  sourceOf,
  uniform,
} from './rfc-tree.js';
import { runs } from '../../../../test/property-runs.js';

const hex = (hashes: readonly Buffer[]): string[] => hashes.map((hash) => hash.toString('hex'));

/**
 * The reference tree of Certificate Transparency: eight entries, and what its implementations publish of the trees
 * over the first 0 to 8 of them (transparency-dev/merkle, testonly/constants.go and reference_test.go).
 */
describe('the reference tree', () => {
  const ENTRIES = [
    '',
    '00',
    '10',
    '2021',
    '3031',
    '40414243',
    '5051525354555657',
    '606162636465666768696a6b6c6d6e6f',
  ];
  const LEAF_0 = '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d';
  const LEAF_1 = '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7';
  const LEAF_4 = 'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b';
  const NODE_01 = 'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125';
  const NODE_23 = '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e';
  const NODE_45 = '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a';
  const NODE_67 = 'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0';
  const NODE_03 = 'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7';
  const NODE_47 = '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4';
  const ROOTS = [
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
  const source = sourceOf([Buffer.concat(ENTRIES.map((entry) => leafOf(Buffer.from(entry, 'hex'))))]);

  test('[R-910] its roots are the published ones', async () => {
    const roots = await Promise.all(ROOTS.map((_, size) => rootAt(source, size)));
    expect(hex(roots)).toEqual(ROOTS);
    expect(EMPTY_ROOT.toString('hex')).toBe(ROOTS[0]);
  });

  test.each([
    [0, 1, []],
    [0, 2, [LEAF_1]],
    [1, 2, [LEAF_0]],
    [2, 3, [NODE_01]],
    [1, 5, [LEAF_0, NODE_23, LEAF_4]],
    [0, 8, [LEAF_1, NODE_23, NODE_47]],
    [5, 8, [LEAF_4, NODE_67, NODE_03]],
  ])('[R-910] the path of leaf %i in the tree of %i is the published one', async (index, size, published) => {
    expect(hex(await inclusionProof(source, index, size))).toEqual(published);
  });

  test.each([
    [1, 1, []],
    [1, 8, [LEAF_1, NODE_23, NODE_47]],
    [2, 5, [NODE_23, LEAF_4]],
    [6, 8, [NODE_45, NODE_67, NODE_03]],
  ])('[R-910] the consistency of %i with %i is the published one', async (oldSize, newSize, published) => {
    expect(hex(await consistencyProof(source, oldSize, newSize))).toEqual(published);
  });
});

const SIZES = 1_100;
const ALL = leaves(SIZES);
const allLevels = levelsOf(ALL);

test('the root of every size is that of the definition', async () => {
  for (let size = 0; size <= SIZES; size += size < 520 ? 1 : runs(1, 29)) {
    expect(await rootAt(allLevels, size)).toEqual(mth(ALL.slice(0, size)));
  }
});

test('every inclusion proof is that of the definition, and holds', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: SIZES }), fc.nat(), async (size, seed) => {
      const index = seed % size;
      const inclusion = await inclusionProof(allLevels, index, size);
      const tree = ALL.slice(0, size);
      expect(inclusion).toEqual(path(index, tree));
      expect(inclusionHolds(ALL[index] ?? EMPTY_ROOT, index, size, mth(tree), inclusion)).toBe(true);
      expect(inclusionHolds(sha256('another'), index, size, mth(tree), inclusion)).toBe(false);
    }),
  );
});

test('every consistency proof is that of the definition, and holds', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: SIZES }), fc.nat(), async (newSize, seed) => {
      const oldSize = 1 + (seed % newSize);
      const consistency = await consistencyProof(allLevels, oldSize, newSize);
      const tree = ALL.slice(0, newSize);
      const [oldRoot, newRoot] = [mth(ALL.slice(0, oldSize)), mth(tree)];
      expect(consistency).toEqual(proof(oldSize, tree));
      expect(consistencyHolds(oldSize, newSize, oldRoot, newRoot, consistency)).toBe(true);
      expect(consistencyHolds(oldSize, newSize, sha256('another'), newRoot, consistency)).toBe(false);
    }),
  );
});

test('around the size at which a third level begins, roots and proofs are those of the definition', async () => {
  const many = leaves(65_537);
  const source = levelsOf(many);
  for (const size of [65_536, 65_537]) {
    const tree = many.slice(0, size);
    const root = await rootAt(source, size);
    expect(root).toEqual(mth(tree));
    expect(await inclusionProof(source, size - 1, size)).toEqual(path(size - 1, tree));
    expect(await consistencyProof(source, 65_533, size)).toEqual(proof(65_533, tree));
  }
});

test('proofs hold up to the largest size that can be counted', async () => {
  const leaf = sha256('the same');
  const source = uniform(leaf);
  const size = fc.integer({ min: 2 ** 31 - 2, max: Number.MAX_SAFE_INTEGER });
  await fc.assert(
    fc.asyncProperty(size, size, async (one, other) => {
      const [oldSize, newSize] = [Math.min(one, other), Math.max(one, other)];
      const [oldRoot, newRoot] = [await rootAt(source, oldSize), await rootAt(source, newSize)];
      const inclusion = await inclusionProof(source, oldSize - 1, newSize);
      expect(inclusionHolds(leaf, oldSize - 1, newSize, newRoot, inclusion)).toBe(true);
      const consistency = await consistencyProof(source, oldSize, newSize);
      expect(consistencyHolds(oldSize, newSize, oldRoot, newRoot, consistency)).toBe(true);
    }),
    { numRuns: runs(20) },
  );
});

test('from the empty tree to any other there is nothing to prove', async () => {
  expect(await consistencyProof(allLevels, 0, 7)).toEqual([]);
  expect(await consistencyProof(allLevels, 0, 0)).toEqual([]);
});

test('a source that lacks hashes is told by level and number, never papered over', async () => {
  await expect(rootAt(allLevels, SIZES + 1)).rejects.toThrow(TilesIncomplete);
  await expect(inclusionProof(allLevels, 3, SIZES + 1)).rejects.toThrow(TilesIncomplete);
  await expect(consistencyProof(allLevels, 3, SIZES + 1)).rejects.toThrow(TilesIncomplete);
  const lacking = sourceOf([Buffer.concat(ALL), Buffer.concat(ALL).subarray(0, 3 * 32 - 1)]);
  await expect(rootAt(lacking, 1024)).rejects.toThrow(
    'the tree lacks some of the 4 hashes from number 0 of level 1',
  );
});

test('what is no size, and a leaf or an older tree beyond the end, are refused', async () => {
  for (const size of [-1, 0.5, Number.NaN, 2 ** 53]) {
    await expect(rootAt(allLevels, size)).rejects.toThrow(RangeError);
    await expect(inclusionProof(allLevels, size, 8)).rejects.toThrow(RangeError);
    await expect(consistencyProof(allLevels, size, 8)).rejects.toThrow(RangeError);
  }
  await expect(inclusionProof(allLevels, 8, 8)).rejects.toThrow('a tree of 8 leaves has no leaf 8');
  await expect(consistencyProof(allLevels, 9, 8)).rejects.toThrow(RangeError);
});

test('a fold of any power of two is the root over it, and leaves the hashes as they were', () => {
  const before = Buffer.concat(ALL.slice(0, 256));
  const hashes = Buffer.from(before);
  for (let count = 1; count <= 256; count *= 2) {
    expect(foldPerfect(hashes, count)).toEqual(mth(ALL.slice(0, count)));
  }
  expect(hashes).toEqual(before);
});

test('a node may be written over its own children', () => {
  const [left = EMPTY_ROOT, right = EMPTY_ROOT] = ALL;
  const row = Buffer.concat([Buffer.of(9), left, right, Buffer.of(9)]);
  hashNode(row, 1, row, 1);
  expect(row).toEqual(Buffer.concat([Buffer.of(9), nodeOf(left, right), right, Buffer.of(9)]));
});

test('a hash that does not fit is an error, not half a hash', () => {
  const children = Buffer.alloc(64);
  expect(() => hashNode(children, 0, Buffer.alloc(31), 0)).toThrow(RangeError);
  expect(() => leafHash(Buffer.alloc(45), Buffer.alloc(32), children, 33)).toThrow(RangeError);
  expect(() => leafHash(Buffer.alloc(45), Buffer.alloc(31), children, 0)).toThrow(RangeError);
});

test('[R-902] a leaf commits to the version, the time, the envelope, and the salted body', () => {
  const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
  const anyEnvelope: fc.Arbitrary<Envelope> = fc.record({
    kind: fc.constantFrom(...EVENT_KINDS, 0x80, 0x81, 0xff),
    profile: fc.constantFrom(...PROFILES),
    organisation: fc.stringMatching(/^[a-z]{1,20}$/),
    keyId: fc.stringMatching(/^[a-z2-7]{12}$/),
    receivedAt: fc.nat(Number.MAX_SAFE_INTEGER),
    eventId: bytes(16),
    runId: bytes(16),
    parentId: bytes(16),
  });
  const target = Buffer.alloc(100);
  fc.assert(
    fc.property(anyEnvelope, fc.uint8Array(), (envelope, salted) => {
      const scratch = Buffer.alloc(200);
      const encoded = scratch.subarray(0, encodeEnvelope(scratch, 0, envelope));
      const leaf = Buffer.alloc(73);
      encodeLeaf(leaf, 0, encoded, sha256(encoded), sha256(salted));
      target.fill(7);
      leafHash(encoded, commitmentOf(salted), target, 5);
      expect(target.subarray(5, 37)).toEqual(leafOf(leaf));
      expect(target.subarray(0, 5)).toEqual(Buffer.alloc(5, 7));
      expect(target.subarray(37)).toEqual(Buffer.alloc(63, 7));
    }),
  );
});
