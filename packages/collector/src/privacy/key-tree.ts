/**
 * The tree of payload keys, after Goldreich, Goldwasser and Micali (How to construct random functions, 1986):
 * every key is derived from one random root. A key is destroyed by replacing the root with the siblings of
 * the nodes on its path. Pure.
 *
 *   children of a node: SHA-512 of label (16) | bucket id (16) | level (1) | index (4, BE) | node (32);
 *     the first 32 bytes are the left child, the last 32 the right one
 *   key of place i: the node at level 20 with index i
 *
 * Nodes are 'latin1' strings of 32 characters, which pass from `hash` into a cipher without a copy; a Buffer
 * would take 25 microseconds longer.
 */
import { hash, randomBytes } from 'node:crypto';
import type { SequenceSet } from './sequence-set.js';

export const BUCKET_ID_BYTES = 16;
export const NODE_BYTES = 32;
/** Height of a tree; it has 2^20 places with a key each. */
export const TREE_HEIGHT = 20;
export const TREE_PLACES = 2 ** TREE_HEIGHT;

export interface TreeNode {
  /** 0 for the root, TREE_HEIGHT for a key. */
  readonly level: number;
  readonly index: number;
  readonly value: string;
}

export function newRoot(): TreeNode {
  return { level: 0, index: 0, value: randomBytes(NODE_BYTES).toString('latin1') };
}

/** The nodes of a tree with this key at place 0 and no other keys. */
export function onlyKey(key: Buffer): readonly TreeNode[] {
  return [{ level: TREE_HEIGHT, index: 0, value: key.toString('latin1') }];
}

const LABEL = 'cle ggm sha512 1';
const LEVEL = LABEL.length + BUCKET_ID_BYTES;
const INDEX = LEVEL + 1;
const NODE = INDEX + 4;

export class KeyTree {
  readonly #input = Buffer.alloc(NODE + NODE_BYTES);
  /** Path from a kept node to the last requested key. */
  #way: TreeNode[] = [];

  /** @param nodes kept nodes, of which no node is below another; only the places below them have keys. */
  constructor(
    bucketId: Uint8Array,
    private readonly nodes: readonly TreeNode[],
  ) {
    this.#input.write(LABEL, 'latin1');
    this.#input.set(bucketId, LABEL.length);
  }

  /**
   * The key of a place, as a string of NODE_BYTES characters; undefined if it is destroyed. Keys that are
   * requested in order cost one hash each, others up to twenty.
   */
  keyAt(place: number): string | undefined {
    const way = this.#way;
    while (way.length > 0 && !covers(way.at(-1), place)) way.pop();
    if (way.length === 0) {
      const kept = this.nodes.find((node) => covers(node, place));
      if (kept === undefined) return undefined;
      way.push(kept);
    }
    for (;;) {
      const node = way.at(-1);
      if (node === undefined || node.level === TREE_HEIGHT) return node?.value;
      // Keeps both children: the path of the next place begins at the right one.
      const [left, right] = this.#children(node);
      if (covers(left, place)) way.push(right, left);
      else way.push(right);
    }
  }

  /** The nodes that cover exactly the remaining places without `taken`. */
  without(taken: SequenceSet): TreeNode[] {
    const left: TreeNode[] = [];
    const look = (node: TreeNode) => {
      const width = 2 ** (TREE_HEIGHT - node.level);
      const first = node.index * width;
      if (!taken.meets(first, first + width)) left.push(node);
      else if (!taken.covers(first, first + width)) this.#children(node).forEach(look);
    };
    this.nodes.forEach(look);
    return left;
  }

  #children({ level, index, value }: TreeNode): [TreeNode, TreeNode] {
    const input = this.#input;
    input[LEVEL] = level;
    input.writeUInt32BE(index, INDEX);
    input.write(value, NODE, 'latin1');
    const both = hash('sha512', input, 'binary');
    const below = { level: level + 1, index: index * 2 };
    return [
      { ...below, value: both.slice(0, NODE_BYTES) },
      { level: below.level, index: below.index + 1, value: both.slice(NODE_BYTES) },
    ];
  }
}

/** The nodes that cover the places that both sets of nodes of one tree cover. */
export function inBoth(one: readonly TreeNode[], other: readonly TreeNode[]): TreeNode[] {
  const place = (level: number, index: number) => index * (TREE_HEIGHT + 1) + level;
  const placesOf = (nodes: readonly TreeNode[]) =>
    new Set(nodes.map(({ level, index }) => place(level, index)));
  const [ones, others] = [placesOf(one), placesOf(other)];
  const isWithin = ({ level, index }: TreeNode, places: ReadonlySet<number>) => {
    for (let up = 0; up <= level; up++) if (places.has(place(level - up, index >>> up))) return true;
    return false;
  };
  const isEqual = ({ level, index }: TreeNode) => ones.has(place(level, index));
  return [
    ...one.filter((node) => isWithin(node, others)),
    ...other.filter((node) => isWithin(node, ones) && !isEqual(node)),
  ];
}

function covers(node: TreeNode | undefined, place: number): boolean {
  return node !== undefined && place >>> (TREE_HEIGHT - node.level) === node.index;
}
