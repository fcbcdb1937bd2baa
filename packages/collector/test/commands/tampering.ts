/** What a person with access to the host can do to a log, done as carefully as an attacker would do it. */
import fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { formatCheckpoint } from '@clinical-events/protocol/verify';
import { GrowingTree } from '../../src/tree/growing-tree.js';
import { HASH_BYTES, leafHash } from '../../src/tree/merkle.js';
import { SigningKeys } from '../../src/tree/signing-keys.js';
import { decodeFrame } from '../../src/store/embedded/frame.js';
import { SEGMENT_HEADER_BYTES } from '../../src/store/embedded/segment.js';
import { segmentPaths } from '../store/embedded/filled-directory.js';

/** Where the parts of a frame begin, by frame.ts. */
export const AT = {
  checksum: 0,
  size: 4,
  version: 8,
  state: 9,
  saltLength: 10,
  payloadLength: 12,
  sequence: 16,
  durableBefore: 24,
  commitment: 32,
  envelope: 64,
} as const;

/** Copies of the frames of a segment. */
export function framesIn(segment: string): Buffer[] {
  const bytes = fs.readFileSync(segment);
  const frames: Buffer[] = [];
  for (let at = SEGMENT_HEADER_BYTES; at + 8 < bytes.length;) {
    const size = bytes.readUInt32LE(at + AT.size);
    if (size === 0) break;
    frames.push(Buffer.from(bytes.subarray(at, at + size)));
    at += size;
  }
  return frames;
}

/** Puts these frames in the place of those of a segment; the file stays as long as it was when they fit. */
export function putFrames(segment: string, frames: readonly Buffer[]): void {
  const before = fs.readFileSync(segment);
  const bytes = Buffer.concat([before.subarray(0, SEGMENT_HEADER_BYTES), ...frames]);
  const zeros = Buffer.alloc(Math.max(0, before.length - bytes.length));
  fs.writeFileSync(segment, Buffer.concat([bytes, zeros]));
}

/** With a checksum that fits. */
export function sealed(frame: Buffer): Buffer {
  frame.writeUInt32LE(crc32(frame.subarray(4)), AT.checksum);
  return frame;
}

/** With a byte changed, and a checksum that fits. */
export function changed(frame: Buffer, at: number): Buffer {
  frame[at] = (frame[at] ?? 0) ^ 0x20;
  return sealed(frame);
}

/** With sequences that count up from `first` on. Each frame becomes a batch of its own. */
export function renumbered(frames: readonly Buffer[], first = 1): Buffer[] {
  return frames.map((frame, i) => {
    frame.writeBigUInt64LE(BigInt(first + i), AT.sequence);
    frame.writeBigUInt64LE(BigInt(first + i), AT.durableBefore);
    return sealed(frame);
  });
}

/** Where the frame of `sequence` begins in the file of the only segment. */
export function frameAt(dataDir: string, sequence: number): { file: string; offset: number; frame: Buffer } {
  const [file = ''] = segmentPaths(dataDir);
  const frames = framesIn(file);
  const before = frames.slice(0, sequence - 1);
  const offset = before.reduce((sum, { length }) => sum + length, SEGMENT_HEADER_BYTES);
  return { file, offset, frame: frames[sequence - 1] ?? Buffer.alloc(0) };
}

/** Changes the frames of the only segment. */
export function tamper(dataDir: string, change: (frames: Buffer[]) => readonly Buffer[]): void {
  const [segment = ''] = segmentPaths(dataDir);
  putFrames(segment, change(framesIn(segment)));
}

function treeOver(frames: readonly Buffer[]): GrowingTree {
  const tree = GrowingTree.empty();
  for (const frame of frames) {
    const { envelope, commitment } = decodeFrame(frame, 0);
    const leaf = Buffer.alloc(HASH_BYTES);
    leafHash(envelope, commitment, leaf, 0);
    tree.append(leaf, 1);
  }
  return tree;
}

export function rootOf(frames: readonly Buffer[]): Buffer {
  return treeOver(frames).root();
}

/** Makes the tree again from the frames. @returns its size and root. */
export function rebuildTree(dataDir: string): { size: number; root: Buffer } {
  const tree = treeOver(segmentPaths(dataDir).flatMap(framesIn));
  const directory = path.join(dataDir, 'tree');
  fs.rmSync(directory, { recursive: true });
  fs.mkdirSync(directory);
  for (const { level, hashes } of tree.drain())
    fs.writeFileSync(path.join(directory, `level-${level}`), hashes);
  return { size: tree.size, root: tree.root() };
}

/** Signs with the true key of the log. @returns the note. */
export function sign(dataDir: string, size: number, root: Buffer): Promise<string> {
  const onTrouble = (what: string) => {
    throw new Error(what);
  };
  const directory = path.join(dataDir, 'signing-keys');
  const keys = SigningKeys.open({ dataDir, directory, onTrouble });
  return keys.sign(formatCheckpoint({ origin: keys.origin, size, root }));
}

/** Makes the tree again and signs it with the true key, as if no other had existed. */
export async function rebuild(dataDir: string): Promise<void> {
  const { size, root } = rebuildTree(dataDir);
  const directory = path.join(dataDir, 'checkpoints');
  for (const name of fs.readdirSync(directory)) {
    if (name.endsWith('.checkpoint') && Number.parseInt(name, 10) > 0) fs.rmSync(path.join(directory, name));
  }
  fs.writeFileSync(path.join(directory, 'latest'), await sign(dataDir, size, root));
}

/** Makes the checksum of a segment's header fit. */
export function resealHeader(segment: string): void {
  const bytes = fs.readFileSync(segment);
  bytes.writeUInt32LE(crc32(bytes.subarray(12, SEGMENT_HEADER_BYTES)), 8);
  fs.writeFileSync(segment, bytes);
}
