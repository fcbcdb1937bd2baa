/**
 * The records of a vault: their names, what makes one sound, and what may be read of it without a key. Pure.
 *
 * A record is sound when it holds what was written, and was written under this name: a key state says in its header which
 * one it is, an epoch its number, and an action is named by its hash.
 */
import { hash } from 'node:crypto';
import { KeyStateDamaged, keyStateHeader, KINDS, type KeyState } from './key-state.js';
import type { KeyVault, RecordName } from './key-vault.js';

export const NAMES = 'names.keys';
export const COPIES = 'copies.json';
const EPOCH_FORMAT = 'clinical-events/epoch-key/v1';
const EPOCH = /^epochs\/(\d{7})\.json$/;
const BUCKET = /^buckets\/(\d{16})-([0-9a-f]{8})\.keys$/;
const HOLD = /^holds\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.keys$/;
const ACTION = /^actions\/([0-9a-f]{32})\.json$/;
/** No action that is noted comes near. */
const MOST_ACTION_BYTES = 4 << 20;

/** An epoch key as it is stored. While the key-encryption key is exchanged, it is wrapped by both. */
export interface EpochRecord {
  readonly format: typeof EPOCH_FORMAT;
  readonly ledger: string;
  readonly epoch: number;
  readonly begun: string;
  readonly generation: number;
  /** `checkOf` the key: whatever unwraps to another key is not it. */
  readonly check: string;
  readonly wrapped: readonly string[];
  /** SHA-256 of the JSON text of the members before it: a copy in which a byte has changed is not sound. */
  readonly sha256: string;
}

/** A copy of the keys that no erasure reaches. */
export interface KeyCopy {
  readonly made: string;
  readonly until: string;
}

interface CopiesRecord {
  readonly generation: number;
  readonly copies: readonly KeyCopy[];
}

export function isRecordName(name: string): boolean {
  return name === NAMES || name === COPIES || [EPOCH, BUCKET, HOLD, ACTION].some((each) => each.test(name));
}

export function epochName(epoch: number): RecordName {
  return `epochs/${String(epoch).padStart(7, '0')}.json`;
}

/** The number of an epoch; undefined for another record. */
export function epochIn(name: RecordName): number | undefined {
  const [, number] = EPOCH.exec(name) ?? [];
  return number === undefined ? undefined : Number(number);
}

export function holdName(action: string): RecordName {
  return `holds/${action}.keys`;
}

/** The bucket id of the key state of a hold. */
export function holdId(action: string): Buffer {
  return Buffer.from(action.replaceAll('-', ''), 'hex');
}

export function stateName({ kind, firstSequence, bucketId }: Omit<KeyState, 'trees'>): RecordName {
  const id = bucketId.toString('hex');
  if (kind === KINDS.names) return NAMES;
  if (kind === KINDS.hold) return holdName(id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'));
  return bucketName(firstSequence, bucketId.readUInt32BE(0));
}

/** @param tag the first four bytes of the bucket's id. */
export function bucketName(firstSequence: number, tag: number): RecordName {
  const [sequence, digits] = [String(firstSequence).padStart(16, '0'), tag.toString(16).padStart(8, '0')];
  return `buckets/${sequence}-${digits}.keys`;
}

/** The names of all key states. */
export function stateNames(vault: Pick<KeyVault, 'list' | 'read'>): RecordName[] {
  const lists = ['buckets', 'holds'].flatMap((within) => vault.list(within));
  return vault.read(NAMES).length > 0 ? [...lists, NAMES] : lists;
}

/** The tag in the frames of a bucket, and its first sequence. */
export function bucketIn(name: RecordName): { tag: number; firstSequence: number } {
  const [, first, tag] = BUCKET.exec(name) ?? [];
  if (first === undefined || tag === undefined) throw new Error(`${name} is not the name of a bucket`);
  return { tag: Number.parseInt(tag, 16), firstSequence: Number(first) };
}

export function actionName(text: string): RecordName {
  return `actions/${hash('sha256', text).slice(0, 32)}.json`;
}

/** Says whether a key is the one that was wrapped; tells nothing of it. */
export function checkOf(key: Buffer): string {
  return hash('sha256', Buffer.concat([Buffer.from('clinical-events epoch key check\0'), key]));
}

export function epochBytes({
  ledger,
  epoch,
  begun,
  generation,
  check,
  wrapped,
}: Omit<EpochRecord, 'format' | 'sha256'>): Buffer {
  const members = { format: EPOCH_FORMAT, ledger, epoch, begun, generation, check, wrapped };
  const sha256 = hash('sha256', JSON.stringify(members));
  return Buffer.from(`${JSON.stringify({ ...members, sha256 })}\n`);
}

export function copiesBytes(record: CopiesRecord): Buffer {
  return Buffer.from(`${JSON.stringify(record)}\n`);
}

/** Undefined where the bytes are not a sound record of this name. */
export function epochRecordIn(name: RecordName, bytes: Buffer): EpochRecord | undefined {
  const record = jsonIn(bytes) as Partial<EpochRecord>;
  const isSound =
    record.format === EPOCH_FORMAT &&
    record.epoch === epochIn(name) &&
    isGeneration(record.generation) &&
    typeof record.check === 'string' &&
    Array.isArray(record.wrapped) &&
    record.wrapped.every((each) => typeof each === 'string') &&
    epochBytes(record as EpochRecord).equals(bytes);
  return isSound ? (record as EpochRecord) : undefined;
}

/** Undefined where the bytes are not a sound record. */
export function copiesIn(bytes: Buffer): CopiesRecord | undefined {
  const record = jsonIn(bytes) as Partial<CopiesRecord>;
  return isGeneration(record.generation) && Array.isArray(record.copies)
    ? (record as CopiesRecord)
    : undefined;
}

/**
 * The generation of a record: from the header of a key state, from the member `generation` of JSON; of an action, which never
 * changes, 1. @returns 0 where the bytes are not a sound record of this name.
 */
export function generationOf(name: RecordName, bytes: Buffer): number {
  if (name.endsWith('.keys')) return headerIn(name, bytes)?.generation ?? 0;
  if (name === COPIES) return copiesIn(bytes)?.generation ?? 0;
  if (epochIn(name) !== undefined) return epochRecordIn(name, bytes)?.generation ?? 0;
  const isAction = bytes.length <= MOST_ACTION_BYTES && actionName(bytes.toString()) === name;
  return isAction ? 1 : 0;
}

/** The epoch that a key state is under; undefined for another record, and for one that is not sound. */
export function epochOf(name: RecordName, bytes: Buffer): number | undefined {
  return name.endsWith('.keys') ? headerIn(name, bytes)?.epoch : undefined;
}

function headerIn(name: RecordName, bytes: Buffer): Omit<KeyState, 'trees'> | undefined {
  try {
    const header = keyStateHeader(bytes);
    return stateName(header) === name ? header : undefined;
  } catch (error) {
    if (error instanceof KeyStateDamaged) return undefined;
    throw error;
  }
}

function isGeneration(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) > 0;
}

function jsonIn(bytes: Buffer): object {
  try {
    return Object(JSON.parse(bytes.toString())) as object;
  } catch {
    return {};
  }
}
