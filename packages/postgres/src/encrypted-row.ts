/**
 * Encrypted payloads in rows of `events`. The column `salted` holds
 *
 *   offset  size  field
 *        0     1  suite (privacy/sealing.ts)
 *        1     3  0
 *        4     4  tag of the bucket whose keys encrypt it, big-endian
 *        8     4  place in the bucket: a count of encrypted events, which have no sequence yet
 *       12    32  commitment: SHA-256 of salt and plain body
 *       44    16  tag of the cipher
 *       60        salt and body, encrypted
 */
import { decodeEnvelope, encodeLeaf, type Envelope, LEAF_BYTES } from '@clinical-events/protocol';
import { encodedLeafHash, HASH_BYTES } from '@clinical-events/collector/tree/merkle';
import { KeysUnfit } from '@clinical-events/collector/privacy/key-vault';
import type { PayloadKeys, TakenKeys } from '@clinical-events/collector/privacy/payload-keys';
import type { StoredKeys } from '@clinical-events/collector/privacy/stored-keys';
import { open, seal } from '@clinical-events/collector/privacy/sealing';
import type { Candidate } from '@clinical-events/collector/store/contract/events';
import { bytesIn, numberIn, sha256 } from './binary.js';
import type { Connection } from './connection.js';
import { sql } from './sql.js';

const SUITE = 1;
const [TAG_AT, PLACE_AT, COMMITMENT_AT, CIPHER_TAG_AT, SEALED_AT] = [4, 8, 12, 44, 60];
/** Size of the header of a row, which names its key. */
export const PLACE_BYTES = SEALED_AT;

/** Encrypts the events of one process, which has its own buckets. */
export class RowSealer {
  #place = 0;

  constructor(private readonly keys: Pick<PayloadKeys, 'keyFor'>) {}

  /**
   * @param leaf of the event, LEAF_BYTES.
   * @returns the encrypted row. The caller makes the keys durable before it stores the row.
   */
  seal({ organisation, salted, commitment }: Candidate, leaf: Buffer): Buffer {
    const place = ++this.#place;
    const { tag, key } = this.keys.keyFor(organisation, place);
    const row = Buffer.alloc(SEALED_AT + salted.length);
    row[0] = SUITE;
    row.writeUInt32BE(tag, TAG_AT);
    row.writeUInt32BE(place, PLACE_AT);
    row.set(commitment, COMMITMENT_AT);
    seal(SUITE, key, leafHashOf(leaf), salted, row, CIPHER_TAG_AT);
    return row;
  }
}

/** The address of a payload key. */
export interface KeyPlace {
  readonly tag: number;
  readonly place: number;
}

/** Returns undefined if the row is not an encrypted payload of this version. */
export function keyPlaceIn(row: Buffer): KeyPlace | undefined {
  if (row.length < SEALED_AT || row.readUInt32LE(0) !== SUITE) return undefined;
  return { tag: row.readUInt32BE(TAG_AT), place: row.readUInt32BE(PLACE_AT) };
}

/** The commitment in the header of an encrypted row. */
export function commitmentIn(row: Buffer): Buffer {
  return row.subarray(COMMITMENT_AT, CIPHER_TAG_AT);
}

/** `unfit`: the row was changed. `no-key`: its key is missing or destroyed. `no-keys`: no keys are open. */
export type OpenedRow = Buffer | 'no-keys' | 'no-key' | 'unfit';

/** @returns salt and body if the row can be decrypted. @throws KekFault, KeysUnfit */
export function openRow(
  keys: StoredKeys | undefined,
  organisation: string,
  envelope: Uint8Array,
  row: Buffer,
): OpenedRow {
  const found = keyPlaceIn(row);
  if (found === undefined) return 'unfit';
  if (keys === undefined) return 'no-keys';
  const key = keys.keyOf(found.tag, organisation, found.place);
  if (key === undefined) return 'no-key';
  const commitment = commitmentIn(row);
  const leaf = Buffer.allocUnsafe(LEAF_BYTES);
  encodeLeaf(leaf, 0, envelope, sha256(envelope), commitment);
  return open(SUITE, key, leafHashOf(leaf), row.subarray(SEALED_AT), commitment) ?? 'unfit';
}

function leafHashOf(leaf: Buffer): Buffer {
  const hashed = Buffer.allocUnsafe(HASH_BYTES);
  encodedLeafHash(leaf, hashed, 0);
  return hashed;
}

/** Returns undefined if the bytes are not an envelope: someone changed the row. */
export function envelopeIn(bytes: Buffer): Envelope | undefined {
  try {
    return decodeEnvelope(bytes).envelope;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

const READ_MS = 10_000;

/** One of the newest events: whether it is encrypted, and by which key. */
export interface NewestRow {
  readonly isEncrypted: boolean;
  readonly organisation: string | undefined;
  readonly key: KeyPlace | undefined;
}

export async function newestRows(connection: Connection): Promise<NewestRow[]> {
  return (await connection.copy(sql('newest_rows'), READ_MS)).map(([state, envelope, head]) => ({
    isEncrypted: numberIn(state) !== 0,
    organisation: envelopeIn(bytesIn(envelope))?.organisation,
    key: head ? keyPlaceIn(head) : undefined,
  }));
}

/**
 * Asserts that the key of the newest event is there, unless an action destroyed it.
 * @param taken the keys that actions destroyed. @throws KeysUnfit
 */
export function assertHasKey(
  stored: StoredKeys,
  newest: readonly NewestRow[],
  taken: readonly TakenKeys[],
): void {
  for (const { isEncrypted, organisation, key } of newest) {
    if (!isEncrypted || organisation === undefined || key === undefined) continue;
    const { tag, place } = key;
    const ofBucket = taken.filter((each) => each.tag === tag && each.organisation === organisation);
    if (ofBucket.some(({ places }) => places?.has(place))) continue;
    if (stored.keyOf(tag, organisation, place) !== undefined) return;
    throw new KeysUnfit(
      'the key of the newest event is missing: the database of --encryption-keys lacks keys of this log',
    );
  }
}
