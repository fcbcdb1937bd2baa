/** Records of a vault as the suite makes and reads them, from the pages of the formats and not by the tested code. */
import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { KeyVault } from '../../src/privacy/key-vault.js';

export const LEDGER = 'a1'.repeat(16);
const HEADER_BYTES = 80;
/** Of a key state: bucket, hold, keys of names. */
const KINDS = { bucket: 1, hold: 2, names: 3 } as const;
const CHECKED_FROM = 12;

export interface TestRecord {
  readonly name: string;
  readonly bytes: Buffer;
}

export interface StateOptions {
  readonly generation: number;
  readonly epoch?: number;
  /** Bytes of the trees. More than a sector, so that a disk may write a part of them. */
  readonly size?: number;
}

/** The state of a bucket, of random bytes: a vault cannot open it. */
export function bucket(first: number, { generation, epoch = 1, size = 1500 }: StateOptions): TestRecord {
  const id = Buffer.alloc(16, first % 251);
  const name = `buckets/${String(first).padStart(16, '0')}-${id.toString('hex', 0, 4)}.keys`;
  return { name, bytes: keyState('bucket', id, first, generation, epoch, size) };
}

export function namesKeys({ generation, epoch = 1, size = 100 }: StateOptions): TestRecord {
  return { name: 'names.keys', bytes: keyState('names', Buffer.alloc(16, 7), 0, generation, epoch, size) };
}

export function epochKey(epoch: number, generation = 1, ledger = LEDGER): TestRecord {
  const record = {
    ...{ format: 'clinical-events/epoch-key/v1', ledger, epoch, begun: '2026-01-01T00:00:00.000Z' },
    ...{ generation, check: randomBytes(32).toString('hex'), wrapped: [randomBytes(60).toString('base64')] },
  };
  const name = `epochs/${String(epoch).padStart(7, '0')}.json`;
  const sha256 = hash('sha256', JSON.stringify(record));
  return { name, bytes: Buffer.from(`${JSON.stringify({ ...record, sha256 })}\n`) };
}

function keyState(
  kind: keyof typeof KINDS,
  id: Buffer,
  first: number,
  generation: number,
  epoch: number,
  size: number,
): Buffer {
  const bytes = Buffer.concat([Buffer.alloc(HEADER_BYTES), randomBytes(size)]);
  bytes.write('CLEKEYS1', 'latin1');
  bytes.writeUInt16LE(1, 12);
  bytes[14] = 1;
  bytes[15] = KINDS[kind];
  bytes.write(LEDGER, 16, 'hex');
  bytes.set(id, 32);
  bytes.writeBigUInt64LE(BigInt(first), 48);
  bytes.writeBigUInt64LE(BigInt(generation), 56);
  bytes.writeUInt32LE(epoch, 64);
  bytes.writeUInt32LE(crc32(bytes.subarray(CHECKED_FROM)), 8);
  return bytes;
}

const isState = (name: string) => name.endsWith('.keys');

export function generationIn(name: string, bytes: Buffer): number {
  if (isState(name)) return Number(bytes.readBigUInt64LE(56));
  return name.startsWith('actions/')
    ? 1
    : (JSON.parse(bytes.toString()) as { generation: number }).generation;
}

/** Undefined for a record that is under no epoch. */
export function epochOf(name: string, bytes: Buffer): string | undefined {
  return isState(name) ? epochName(bytes.readUInt32LE(64)) : undefined;
}

export function epochName(epoch: number): string {
  return `epochs/${String(epoch).padStart(7, '0')}.json`;
}

/** The records that a vault may return for a name. */
export function isSound(name: string, bytes: Buffer): boolean {
  if (!isState(name)) return bytes.includes('}');
  if (bytes.length < HEADER_BYTES || crc32(bytes.subarray(CHECKED_FROM)) !== bytes.readUInt32LE(8))
    return false;
  const [first, tag] = [Number(bytes.readBigUInt64LE(48)), bytes.toString('hex', 32, 36)];
  return !name.startsWith('buckets/') || name === `buckets/${String(first).padStart(16, '0')}-${tag}.keys`;
}

/** The generation of a record in a vault; 0 without one. */
export function storedGeneration(vault: KeyVault, name: string): number {
  return Math.max(0, ...vault.read(name).map((bytes) => generationIn(name, bytes)));
}

/** Pieces of the trees of a state: without them no key of it can be found. */
export function piecesOf(bytes: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = HEADER_BYTES; at + 24 <= bytes.length; at += 48) pieces.push(bytes.subarray(at, at + 24));
  return pieces;
}

/** The records that a test has stored itself. */
export function the<Thing>(thing: Thing | undefined): Thing {
  if (thing === undefined) throw new Error('it is not there');
  return thing;
}
