/**
 * The records of a vault: their names, their validity, and their parts that can be read without a key. Pure.
 *
 * A record is valid if its bytes are unchanged and belong to its name: the header of a key state identifies
 * it, an epoch contains its number, and an action is named by its hash.
 */
import { hash } from 'node:crypto';
import { keyStateHeader, KINDS, type KeyState } from './key-state.js';
import type { KeyVault, RecordName } from './key-vault.js';

export const NAMES = 'names.keys';
export const COPIES = 'copies.json';
const EPOCH_FORMAT = 'clinical-events/epoch-key/v1';
const EPOCH = /^epochs\/(\d{7})\.json$/;
const BUCKET = /^buckets\/(\d{16})-([0-9a-f]{8})\.keys$/;
const HOLD = /^holds\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.keys$/;
const ACTION = /^actions\/([0-9a-f]{32})\.json$/;
/** Far above the size of any noted action. */
const MOST_ACTION_BYTES = 4 << 20;

/** A stored epoch key. During an exchange of the key-encryption key it is wrapped by both. */
export interface EpochRecord {
  readonly format: typeof EPOCH_FORMAT;
  readonly ledger: string;
  readonly epoch: number;
  readonly begun: string;
  readonly generation: number;
  /** `checkOf` the key, which detects a wrong key after unwrapping. */
  readonly check: string;
  readonly wrapped: readonly string[];
  /** SHA-256 of the JSON text of the members before it. */
  readonly sha256: string;
}

/** A note of a copy of the keys, which erasures do not reach. */
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

/** The number of an epoch; undefined for other records. */
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

/** The tag and the first sequence of a bucket. */
export function bucketIn(name: RecordName): { tag: number; firstSequence: number } {
  const [, first, tag] = BUCKET.exec(name) ?? [];
  if (first === undefined || tag === undefined) throw new Error(`${name} is not the name of a bucket`);
  return { tag: Number.parseInt(tag, 16), firstSequence: Number(first) };
}

export function actionName(text: string): RecordName {
  return `actions/${hash('sha256', text).slice(0, 32)}.json`;
}

/** A check value of a key, which reveals nothing about the key. */
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

/** Parses an epoch record; undefined if the bytes are not a valid record of this name. */
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

/** Parses the record of copies; undefined if the bytes are not valid. */
export function copiesIn(bytes: Buffer): CopiesRecord | undefined {
  const record = jsonIn(bytes) as Partial<CopiesRecord>;
  return isGeneration(record.generation) && Array.isArray(record.copies)
    ? (record as CopiesRecord)
    : undefined;
}

/**
 * The generation of a record: from the header of a key state or the JSON member `generation`; 1 for an
 * action, which never changes. @returns 0 if the bytes are not a valid record of this name.
 */
export function generationOf(name: RecordName, bytes: Buffer): number {
  if (name.endsWith('.keys')) return headerIn(name, bytes)?.generation ?? 0;
  if (name === COPIES) return copiesIn(bytes)?.generation ?? 0;
  if (epochIn(name) !== undefined) return epochRecordIn(name, bytes)?.generation ?? 0;
  const isAction = bytes.length <= MOST_ACTION_BYTES && actionName(bytes.toString()) === name;
  return isAction ? 1 : 0;
}

/** The epoch of a key state; undefined for other and for invalid records. */
export function epochOf(name: RecordName, bytes: Buffer): number | undefined {
  return name.endsWith('.keys') ? headerIn(name, bytes)?.epoch : undefined;
}

function headerIn(name: RecordName, bytes: Buffer): Omit<KeyState, 'trees'> | undefined {
  const header = keyStateHeader(bytes);
  return header !== undefined && stateName(header) === name ? header : undefined;
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
