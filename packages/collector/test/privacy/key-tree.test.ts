import { createHash, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  inBoth,
  KeyTree,
  newRoot,
  TREE_HEIGHT,
  TREE_PLACES,
  type TreeNode,
} from '../../src/privacy/key-tree.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { runs } from '../../../../test/property-runs.js';

const BUCKET = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
const ROOT: TreeNode = { level: 0, index: 0, value: Buffer.alloc(32, 7).toString('latin1') };

/** The same by the text of the format, without the code. */
function keyByTheFormat(bucket: Buffer, root: Buffer, place: number): Buffer {
  let node = root;
  for (let level = 0; level < TREE_HEIGHT; level++) {
    const index = Buffer.alloc(4);
    index.writeUInt32BE(place >>> (TREE_HEIGHT - level));
    const input = Buffer.concat([Buffer.from('cle ggm sha512 1'), bucket, Buffer.of(level), index, node]);
    const both = createHash('sha512').update(input).digest();
    const isRight = ((place >>> (TREE_HEIGHT - level - 1)) & 1) === 1;
    node = isRight ? both.subarray(32) : both.subarray(0, 32);
  }
  return node;
}

describe('[R-1320] the key of a place', () => {
  test.each([0, 1, 2, 65_535, 524_287, 524_288, TREE_PLACES - 1])('is that of the format: %i', (place) => {
    const key = new KeyTree(BUCKET, [ROOT]).keyAt(place);
    expect(Buffer.from(key ?? '', 'latin1')).toEqual(keyByTheFormat(BUCKET, Buffer.alloc(32, 7), place));
  });

  test('does not depend on the order in which keys are read', () => {
    const places = fc.array(fc.oneof(fc.nat(40), fc.nat(TREE_PLACES - 1)), { maxLength: 60 });
    fc.assert(
      fc.property(places, (asked) => {
        const tree = new KeyTree(BUCKET, [ROOT]);
        for (const place of asked) expect(tree.keyAt(place)).toBe(new KeyTree(BUCKET, [ROOT]).keyAt(place));
      }),
      { numRuns: runs(1000) },
    );
  });

  test('differs in every place, and from bucket to bucket', () => {
    const [tree, other] = [new KeyTree(BUCKET, [ROOT]), new KeyTree(randomBytes(16), [ROOT])];
    const keys = new Set<string | undefined>();
    for (let place = 0; place < 2000; place++) keys.add(tree.keyAt(place)).add(other.keyAt(place));
    expect(keys.size).toBe(4000);
  });

  test('is missing where no node is above it', () => {
    const whole = new KeyTree(BUCKET, [ROOT]);
    // What is left when place 5 is removed: the siblings of the nodes on its way.
    const left: TreeNode[] = [];
    for (let level = 1; level <= TREE_HEIGHT; level++) {
      const index = (5 >>> (TREE_HEIGHT - level)) ^ 1;
      left.push({ level, index, value: nodeByTheFormat(level, index) });
    }
    const without = new KeyTree(BUCKET, left);
    for (const place of [0, 4, 6, 7, 8, 1000, TREE_PLACES - 1])
      expect(without.keyAt(place)).toBe(whole.keyAt(place));
    expect(without.keyAt(5)).toBeUndefined();
    expect(new KeyTree(BUCKET, []).keyAt(0)).toBeUndefined();
    expect(whole.keyAt(TREE_PLACES)).toBeUndefined();
    expect(whole.keyAt(-1)).toBeUndefined();
  });

  test('[R-1320] is missing once its place was removed, in any order, and every other is unchanged', () => {
    const few = fc.array(fc.oneof(fc.nat(40), fc.nat(TREE_PLACES - 1)), { maxLength: 40 });
    fc.assert(
      fc.property(few, few, fc.array(fc.nat(60), { maxLength: 30 }), (one, other, asked) => {
        const [whole, taken] = [new KeyTree(BUCKET, [ROOT]), new Set([...one, ...other])];
        const without = (nodes: readonly TreeNode[], places: readonly number[]) =>
          new KeyTree(BUCKET, nodes).without(SequenceSet.of(places));
        const left = without(without([ROOT], one), other);
        expect(byPlace(inBoth(without([ROOT], one), without([ROOT], other)))).toEqual(byPlace(left));
        expect(without(left, other)).toEqual(left);
        const after = new KeyTree(BUCKET, left);
        for (const place of [...asked, ...taken])
          expect(after.keyAt(place)).toBe(taken.has(place) ? undefined : whole.keyAt(place));
        // Nor is any node left from which one of them can be computed.
        for (const { level, index } of left)
          for (const place of taken) expect(place >>> (TREE_HEIGHT - level)).not.toBe(index);
      }),
      { numRuns: runs(300) },
    );
  });

  test('comes from a random root', () => {
    expect(newRoot().value).toHaveLength(32);
    expect(newRoot().value).not.toBe(newRoot().value);
  });
});

function byPlace(nodes: readonly TreeNode[]): TreeNode[] {
  return nodes.toSorted((a, b) => a.index / 2 ** a.level - b.index / 2 ** b.level);
}

function nodeByTheFormat(wanted: number, index: number): string {
  let node = Buffer.alloc(32, 7);
  for (let level = 0; level < wanted; level++) {
    const at = Buffer.alloc(4);
    at.writeUInt32BE(index >>> (wanted - level));
    const input = Buffer.concat([Buffer.from('cle ggm sha512 1'), BUCKET, Buffer.of(level), at, node]);
    const both = createHash('sha512').update(input).digest();
    node = Buffer.from(
      ((index >>> (wanted - level - 1)) & 1) === 1 ? both.subarray(32) : both.subarray(0, 32),
    );
  }
  return node.toString('latin1');
}
