/**
 * What is kept of the keys of a bucket, which is a stretch of the log: a file each, under an epoch key. Pure.
 *
 *   offset  size  field; little-endian
 *        0     8  "CLEKEYS1"
 *        8     4  CRC-32 of the rest of the file
 *       12     2  version, 1
 *       14     2  derivation, 1: key-tree.ts
 *       16    16  ledger id
 *       32    16  bucket id, random; its first four bytes stand in each frame that is sealed by it
 *       48     8  first sequence: place 0 of each tree is its
 *       56     8  generation, one more at each change
 *       64     4  epoch, whose key the state is under
 *       68    12  nonce, random
 *       80     N  AES-256-GCM over the trees, with bytes 12 to 67 as associated data
 *     80+N    16  tag
 *
 * The trees: of each organisation length of its name (1), name, number of nodes (4), and of each node level (1), index
 * (4), value (32). A tree without nodes is one whose keys are all destroyed; a bucket whose file is missing is a fault.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { BUCKET_ID_BYTES, inBoth, NODE_BYTES } from './key-tree.js';
const MAGIC = 'CLEKEYS1';
const VERSION = 1;
const DERIVATION = 1;
const NONCE = 68;
const NONCE_BYTES = 12;
const SEALED = NONCE + NONCE_BYTES;
const TAG_BYTES = 16;
const NODE_SIZE = 1 + 4 + NODE_BYTES;
/** The file holds no key state, or not the one that was written. The message names nothing secret. */
export class KeyStateDamaged extends Error {
    name = 'KeyStateDamaged';
}
/**
 * Of two states of one bucket what both open: what was destroyed in one of them is destroyed. A tree that one of them has
 * not got yet is the other's.
 * @returns one of the two as it is, where that opens nothing else; else a state of a higher generation than both.
 */
export function mergedStates(one, other) {
    const [newer, older] = one.generation >= other.generation ? [one, other] : [other, one];
    const trees = new Map(older.trees);
    for (const [organisation, nodes] of newer.trees) {
        const before = older.trees.get(organisation);
        trees.set(organisation, before === undefined ? nodes : inBoth(nodes, before));
    }
    const merged = { ...newer, generation: newer.generation + 1, trees };
    return opensAlike(merged, newer) ? newer : merged;
}
/** Whether two states of one bucket have the same nodes. */
export function opensAlike(one, other) {
    return encodeTrees(sorted(one.trees)).equals(encodeTrees(sorted(other.trees)));
}
function sorted(trees) {
    const first = ({ level, index }) => index / 2 ** level;
    return new Map([...trees.keys()].sort().map((organisation) => {
        const nodes = trees.get(organisation) ?? [];
        return [organisation, nodes.toSorted((a, b) => first(a) - first(b))];
    }));
}
export function encodeKeyState(state, epochKey) {
    const header = Buffer.alloc(SEALED);
    header.write(MAGIC, 'latin1');
    header.writeUInt16LE(VERSION, 12);
    header.writeUInt16LE(DERIVATION, 14);
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
/** What a file says of itself without a key. @throws KeyStateDamaged */
export function keyStateHeader(file) {
    if (file.length < SEALED + TAG_BYTES || file.toString('latin1', 0, 8) !== MAGIC)
        throw new KeyStateDamaged('no key state stands there');
    if (crc32(file.subarray(12)) !== file.readUInt32LE(8))
        throw new KeyStateDamaged('it does not hold what was written');
    if (file.readUInt16LE(12) !== VERSION || file.readUInt16LE(14) !== DERIVATION)
        throw new KeyStateDamaged('it was written by a later version of the collector');
    return {
        ledgerId: file.toString('hex', 16, 32),
        bucketId: Buffer.from(file.subarray(32, 32 + BUCKET_ID_BYTES)),
        firstSequence: Number(file.readBigUInt64LE(48)),
        generation: Number(file.readBigUInt64LE(56)),
        epoch: file.readUInt32LE(64),
    };
}
/** @throws KeyStateDamaged, also when the epoch key is not the one that it was written under. */
export function decodeKeyState(file, epochKey) {
    const header = keyStateHeader(file);
    const decipher = createDecipheriv('aes-256-gcm', epochKey, file.subarray(NONCE, SEALED));
    decipher.setAAD(file.subarray(12, NONCE));
    decipher.setAuthTag(file.subarray(file.length - TAG_BYTES));
    const trees = decipher.update(file.subarray(SEALED, file.length - TAG_BYTES));
    try {
        decipher.final();
    }
    catch {
        throw new KeyStateDamaged('it does not open by the key of its epoch');
    }
    return { ...header, trees: decodeTrees(trees) };
}
function encodeTrees(trees) {
    const pieces = [];
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
/** Of bytes that a tag vouches for. */
function decodeTrees(bytes) {
    const trees = new Map();
    for (let at = 0; at < bytes.length;) {
        const nameEnd = at + 1 + bytes.readUInt8(at);
        const organisation = bytes.toString('latin1', at + 1, nameEnd);
        const count = bytes.readUInt32LE(nameEnd);
        at = nameEnd + 4;
        const nodes = [];
        for (let i = 0; i < count; i++, at += NODE_SIZE) {
            const value = bytes.toString('latin1', at + 5, at + NODE_SIZE);
            nodes.push({ level: bytes.readUInt8(at), index: bytes.readUInt32LE(at + 1), value });
        }
        trees.set(organisation, nodes);
    }
    return trees;
}
//# sourceMappingURL=key-state.js.map