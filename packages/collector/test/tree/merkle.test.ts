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
} from '../../src/tree/merkle.js';
import {
  leafOf,
  mth,
  nodeOf,
  path,
  sha256,
  REFERENCE_CONSISTENCY,
  REFERENCE_ENTRIES,
  REFERENCE_PATHS,
  REFERENCE_ROOTS,
} from '../../../protocol/test/verify/rfc-tree.js';
import { consistencyHolds, inclusionHolds, leaves, levelsOf, proof, sourceOf, uniform } from './rfc-tree.js';
import { runs } from '../../../../test/property-runs.js';

const hex = (hashes: readonly Buffer[]): string[] => hashes.map((hash) => hash.toString('hex'));

describe('the reference tree', () => {
  const source = sourceOf([Buffer.concat(REFERENCE_ENTRIES.map(leafOf))]);

  test('[R-910] its roots are the published ones', async () => {
    const roots = await Promise.all(REFERENCE_ROOTS.map((_, size) => rootAt(source, size)));
    expect(hex(roots)).toEqual(REFERENCE_ROOTS);
    expect(EMPTY_ROOT.toString('hex')).toBe(REFERENCE_ROOTS[0]);
  });

  test.each(REFERENCE_PATHS)(
    '[R-910] the path of leaf %i in the tree of %i is the published one',
    async (index, size, published) => {
      expect(hex(await inclusionProof(source, index, size))).toEqual(published);
    },
  );

  test.each(REFERENCE_CONSISTENCY)(
    '[R-910] the consistency of %i with %i is the published one',
    async (oldSize, newSize, published) => {
      expect(hex(await consistencyProof(source, oldSize, newSize))).toEqual(published);
    },
  );
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

test('the consistency proof from the empty tree to any other is empty', async () => {
  expect(await consistencyProof(allLevels, 0, 7)).toEqual([]);
  expect(await consistencyProof(allLevels, 0, 0)).toEqual([]);
});

test('hashes that a source lacks are reported by level and number', async () => {
  await expect(rootAt(allLevels, SIZES + 1)).rejects.toThrow(TilesIncomplete);
  await expect(inclusionProof(allLevels, 3, SIZES + 1)).rejects.toThrow(TilesIncomplete);
  await expect(consistencyProof(allLevels, 3, SIZES + 1)).rejects.toThrow(TilesIncomplete);
  const lacking = sourceOf([Buffer.concat(ALL), Buffer.concat(ALL).subarray(0, 3 * 32 - 1)]);
  await expect(rootAt(lacking, 1024)).rejects.toThrow(
    'the tree lacks some of the 4 hashes from number 0 of level 1',
  );
});

test('an invalid size, and a leaf or an older tree beyond the end, are refused', async () => {
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
    door: fc.constant('endpoint' as const),
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
