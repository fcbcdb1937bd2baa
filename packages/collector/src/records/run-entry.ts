/**
 * What is noted of an event while runs are put together: 32 bytes, and nothing that its sender wrote but the id of its
 * run.
 *
 *   offset  size  field
 *        0    16  run id; of a record without a run, the id of the event that it is known by
 *       16     8  address
 *       24     4  size
 *       28     2  organisation, by number
 *       30     1  flags
 *       31     1  zero
 */
import { randomInt } from 'node:crypto';

export const ENTRY_BYTES = 32;
/** Run id, organisation, and whether it is a run: what entries of one record have in common. */
export const ID_BYTES = 16;

export const FLAG = {
  /** A record without a run. */
  runless: 1,
  /** Later than --after. */
  after: 2,
  /** Received between --since and --until. */
  within: 4,
  start: 8,
  /** A start that names a parent. */
  nestedStart: 16,
  /** The first entry of its record, in a sorted file. */
  first: 32,
  /** An event that names no run, and names a parent. */
  hasParent: 64,
  /** Under the id of a run, in a list of parents. */
  ofRun: 128,
} as const;

export interface RunEntry {
  address: number;
  size: number;
  organisation: number;
  flags: number;
}

/** @param id holds the id at `idAt`. */
export function writeEntry(target: Buffer, at: number, id: Buffer, idAt: number, entry: RunEntry): void {
  id.copy(target, at, idAt, idAt + ID_BYTES);
  target.writeDoubleLE(entry.address, at + 16);
  target.writeUInt32LE(entry.size, at + 24);
  target.writeUInt16LE(entry.organisation, at + 28);
  target[at + 30] = entry.flags;
  target[at + 31] = 0;
}

export function entryAddress(source: Buffer, at: number): number {
  return source.readDoubleLE(at + 16);
}

export function entrySize(source: Buffer, at: number): number {
  return source.readUInt32LE(at + 24);
}

export function entryOrganisation(source: Buffer, at: number): number {
  return source.readUInt16LE(at + 28);
}

export function entryFlags(source: Buffer, at: number): number {
  return source[at + 30] ?? 0;
}

export function setOrganisation(target: Buffer, at: number, organisation: number): void {
  target.writeUInt16LE(organisation, at + 28);
}

export function setFlag(target: Buffer, at: number, flag: number): void {
  target[at + 30] = entryFlags(target, at) | flag;
}

/** Whether two entries are of one record. */
export function isSameRecord(source: Buffer, at: number, other: Buffer, otherAt: number): boolean {
  for (let i = 0; i < ID_BYTES; i++) if (source[at + i] !== other[otherAt + i]) return false;
  return (
    entryOrganisation(source, at) === entryOrganisation(other, otherAt) &&
    ((entryFlags(source, at) ^ entryFlags(other, otherAt)) & FLAG.runless) === 0
  );
}

export function isUnderId(source: Buffer, at: number, id: Buffer): boolean {
  return source.compare(id, 0, ID_BYTES, at, at + ID_BYTES) === 0;
}

/** The id in its lower-case text form. */
export function entryId(source: Buffer, at: number): string {
  const hex = source.toString('hex', at, at + ID_BYTES);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Senders choose the ids, and must not be able to choose their hashes. */
export const HASH_SEED = randomInt(2 ** 32);

/** They count in some of their bytes: all have to make a difference. */
export function idHash(id: Buffer, at: number, seed = HASH_SEED): number {
  let hash = seed;
  for (let word = at; word < at + ID_BYTES; word += 4) {
    const bits =
      (id[word] ?? 0) |
      ((id[word + 1] ?? 0) << 8) |
      ((id[word + 2] ?? 0) << 16) |
      ((id[word + 3] ?? 0) << 24);
    hash = Math.imul(hash ^ bits, 0x9e37_79b1);
    hash ^= hash >>> 15;
  }
  return hash >>> 0;
}

/** @param id in its text form. */
export function idBytes(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}

export function isNoId(source: Uint8Array, at: number): boolean {
  for (let i = 0; i < ID_BYTES; i++) if (source[at + i] !== 0) return false;
  return true;
}
