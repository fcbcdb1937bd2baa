/**
 * A key state: the record of the keys of a bucket, of a legal hold or of names, encrypted under an epoch key.
 * Frozen, version 1 (docs/internals/formats.md). Pure.
 *
 *   offset  size  field; little-endian
 *        0     8  "CLEKEYS1"
 *        8     4  CRC-32 of the rest of the file
 *       12     2  version, 1
 *       14     1  derivation, 1: key-tree.ts
 *       15     1  kind: 1 a bucket, 2 a hold, 3 names
 *       16    16  ledger id
 *       32    16  bucket id, random; its first four bytes are in each frame of the bucket; for a hold, its id
 *       48     8  first sequence: place 0 of each tree is the key of this entry; 0 for a hold and for names
 *       56     8  generation, incremented at each change
 *       64     4  epoch under whose key the state is encrypted
 *       68    12  nonce, random
 *       80     N  AES-256-GCM over the trees, with bytes 12 to 67 as associated data
 *     80+N    16  tag
 *
 * The trees: for each organisation the length of its name (1), name, number of nodes (4), and for each node
 * level (1), index (4), value (32). All keys of a tree without nodes are destroyed; a missing record of a
 * bucket is a fault. A hold has one tree, of organisation ''. Names have a tree for each key, named by its
 * number. These keys are at place 0.
 */
import { createCipheriv, createDecipheriv, randomBytes, type KeyObject } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { BUCKET_ID_BYTES, inBoth, KeyTree, NODE_BYTES, type TreeNode } from './key-tree.js';
import type { SequenceSet } from './sequence-set.js';

const MAGIC = 'CLEKEYS1';
const VERSION = 1;
const DERIVATION = 1;
const NONCE = 68;
const NONCE_BYTES = 12;
const SEALED = NONCE + NONCE_BYTES;
const TAG_BYTES = 16;
const NODE_SIZE = 1 + 4 + NODE_BYTES;

export const KINDS = { bucket: 1, hold: 2, names: 3 } as const;

export interface KeyState {
  readonly kind: (typeof KINDS)[keyof typeof KINDS];
  /** The id of the log in hexadecimal, as in a segment. */
  readonly ledgerId: string;
  readonly bucketId: Buffer;
  readonly firstSequence: number;
  readonly generation: number;
  readonly epoch: number;
  /** The remaining nodes, by organisation. */
  readonly trees: ReadonlyMap<string, readonly TreeNode[]>;
}

/**
 * Merges two states of one name: a key destroyed in one of them is destroyed. A tree that only one of them
 * has is kept.
 * @returns the newer state if it opens exactly these keys; otherwise a state with a higher generation than
 * both.
 */
export function mergedStates(one: KeyState, other: KeyState): KeyState {
  const [newer, older] = one.generation >= other.generation ? [one, other] : [other, one];
  const trees = new Map(older.trees);
  for (const [organisation, nodes] of newer.trees) {
    const before = older.trees.get(organisation);
    trees.set(organisation, before === undefined ? nodes : inBoth(nodes, before));
  }
  if (newer.kind === KINDS.names) removeEndedNames(trees);
  const merged = { ...newer, generation: newer.generation + 1, trees };
  return opensAlike(merged, newer) ? newer : merged;
}

/** Removes names keys older than a destroyed one. Their trees are named by numbers of ten digits. */
function removeEndedNames(trees: Map<string, readonly TreeNode[]>): void {
  const ended = [...trees].filter(([, nodes]) => nodes.length === 0).map(([number]) => number);
  const last = ended.sort().at(-1) ?? '';
  for (const number of trees.keys()) if (number < last) trees.delete(number);
}

/** Whether two states of one name have the same nodes. */
export function opensAlike(one: KeyState, other: KeyState): boolean {
  return encodeTrees(sorted(one.trees)).equals(encodeTrees(sorted(other.trees)));
}

function sorted(trees: KeyState['trees']): KeyState['trees'] {
  const first = ({ level, index }: TreeNode) => index / 2 ** level;
  return new Map(
    [...trees.keys()].sort().map((organisation) => {
      const nodes = trees.get(organisation) ?? [];
      return [organisation, nodes.toSorted((a, b) => first(a) - first(b))];
    }),
  );
}

/** The state without the keys of these places, by organisation. */
export function without(state: KeyState, places: ReadonlyMap<string, SequenceSet>): KeyState {
  const trees = new Map(state.trees);
  for (const [organisation, gone] of places) {
    const nodes = trees.get(organisation);
    if (nodes !== undefined) trees.set(organisation, new KeyTree(state.bucketId, nodes).without(gone));
  }
  return { ...state, trees };
}

/** The number of the newest names key. */
export function newestNames({ trees }: KeyState): string {
  return [...trees.keys()].sort().at(-1) ?? '';
}

/** The number of the names key after this one; '' gives the first number. */
export function nextNames(number: string): string {
  return String(Number(number) + 1).padStart(10, '0');
}

/**
 * The state with the newest names key only; the previous one becomes an empty tree, so that it cannot return.
 */
export function withNewestNames(state: KeyState): KeyState {
  const newest = newestNames(state);
  const before = [...state.trees.keys()]
    .filter((number) => number < newest)
    .sort()
    .at(-1);
  const trees = new Map([[newest, state.trees.get(newest) ?? []]]);
  if (before !== undefined) trees.set(before, []);
  return { ...state, trees };
}

export function encodeKeyState(state: KeyState, epochKey: KeyObject): Buffer {
  const header = Buffer.alloc(SEALED);
  header.write(MAGIC, 'latin1');
  header.writeUInt16LE(VERSION, 12);
  header[14] = DERIVATION;
  header[15] = state.kind;
  header.write(state.ledgerId, 16, 'hex');
  state.bucketId.copy(header, 32);
  header.writeBigUInt64LE(BigInt(state.firstSequence), 48);
  header.writeBigUInt64LE(BigInt(state.generation), 56);
  header.writeUInt32LE(state.epoch, 64);
  randomBytes(NONCE_BYTES).copy(header, NONCE);
  const cipher = createCipheriv('aes-256-gcm', epochKey, header.subarray(NONCE, SEALED));
  cipher.setAAD(header.subarray(12, NONCE));
  const sealed = cipher.update(encodeTrees(state.trees));
  cipher.final();
  const file = Buffer.concat([header, sealed, cipher.getAuthTag()]);
  file.writeUInt32LE(crc32(file.subarray(12)), 8);
  return file;
}

/** The unencrypted header of a key state; undefined if it is damaged or of another version. */
export function keyStateHeader(file: Buffer): Omit<KeyState, 'trees'> | undefined {
  if (file.length < SEALED + TAG_BYTES || file.toString('latin1', 0, 8) !== MAGIC) return undefined;
  if (crc32(file.subarray(12)) !== file.readUInt32LE(8)) return undefined;
  const kind = Object.values(KINDS).find((each) => each === file[15]);
  if (file.readUInt16LE(12) !== VERSION || file[14] !== DERIVATION || kind === undefined) return undefined;
  return {
    kind,
    ledgerId: file.toString('hex', 16, 32),
    bucketId: Buffer.from(file.subarray(32, 32 + BUCKET_ID_BYTES)),
    firstSequence: Number(file.readBigUInt64LE(48)),
    generation: Number(file.readBigUInt64LE(56)),
    epoch: file.readUInt32LE(64),
  };
}

/** Decrypts a key state; undefined if it is damaged, or the epoch key is the wrong one. */
export function decodeKeyState(file: Buffer, epochKey: KeyObject): KeyState | undefined {
  const header = keyStateHeader(file);
  if (header === undefined) return undefined;
  const decipher = createDecipheriv('aes-256-gcm', epochKey, file.subarray(NONCE, SEALED));
  decipher.setAAD(file.subarray(12, NONCE));
  decipher.setAuthTag(file.subarray(file.length - TAG_BYTES));
  const trees = decipher.update(file.subarray(SEALED, file.length - TAG_BYTES));
  try {
    decipher.final();
  } catch {
    return undefined;
  }
  return { ...header, trees: decodeTrees(trees) };
}

function encodeTrees(trees: KeyState['trees']): Buffer {
  const pieces: Buffer[] = [];
  for (const [organisation, nodes] of trees) {
    const name = Buffer.from(organisation, 'latin1');
    const piece = Buffer.alloc(1 + name.length + 4 + nodes.length * NODE_SIZE);
    piece[0] = name.length;
    name.copy(piece, 1);
    let at = piece.writeUInt32LE(nodes.length, 1 + name.length);
    for (const { level, index, value } of nodes) {
      at = piece.writeUInt8(level, at);
      at = piece.writeUInt32LE(index, at);
      at += piece.write(value, at, 'latin1');
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** @param bytes authenticated by the tag. */
function decodeTrees(bytes: Buffer): Map<string, TreeNode[]> {
  const trees = new Map<string, TreeNode[]>();
  for (let at = 0; at < bytes.length;) {
    const nameEnd = at + 1 + bytes.readUInt8(at);
    const organisation = bytes.toString('latin1', at + 1, nameEnd);
    const count = bytes.readUInt32LE(nameEnd);
    at = nameEnd + 4;
    const nodes: TreeNode[] = [];
    for (let i = 0; i < count; i++, at += NODE_SIZE) {
      const value = bytes.toString('latin1', at + 5, at + NODE_SIZE);
      nodes.push({ level: bytes.readUInt8(at), index: bytes.readUInt32LE(at + 1), value });
    }
    trees.set(organisation, nodes);
  }
  return trees;
}
