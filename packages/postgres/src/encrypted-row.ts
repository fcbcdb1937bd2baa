/**
 * Payloads that are encrypted in their rows. `salted` holds
 *
 *   offset  size  field
 *        0     1  suite (privacy/sealing.ts)
 *        1     3  0
 *        4     4  tag of the bucket whose keys it is encrypted by, big-endian
 *        8     4  its place: collectors count the events that they encrypt, since these have no sequence yet
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

const SUITE = 1;
const [TAG_AT, PLACE_AT, COMMITMENT_AT, CIPHER_TAG_AT, SEALED_AT] = [4, 8, 12, 44, 60];
/** So much of a row says where its key is. */
export const PLACE_BYTES = SEALED_AT;

/** Encrypts the events of one process, whose buckets are its own. */
export class RowSealer {
  #place = 0;

  constructor(private readonly keys: Pick<PayloadKeys, 'keyFor'>) {}

  /**
   * @param leaf of the event, LEAF_BYTES.
   * @returns what its row holds; it may be stored once the keys are durable.
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

/** Where the key of an encrypted payload is. */
export interface KeyPlace {
  readonly tag: number;
  readonly place: number;
}

/** Undefined for what is no encrypted payload of this version. */
export function keyPlaceIn(row: Buffer): KeyPlace | undefined {
  if (row.length < SEALED_AT || row.readUInt32LE(0) !== SUITE) return undefined;
  return { tag: row.readUInt32BE(TAG_AT), place: row.readUInt32BE(PLACE_AT) };
}

/** What the row of an encrypted payload says that it commits to. */
export function commitmentIn(row: Buffer): Buffer {
  return row.subarray(COMMITMENT_AT, CIPHER_TAG_AT);
}

/**
 * `unfit`: what is there is not what was written. `no-key`: its key is not to be had, or not any more. `no-keys`: no keys
 * are to be had at all.
 */
export type OpenedRow = Buffer | 'no-keys' | 'no-key' | 'unfit';

/**
 * @returns salt and body, where it can be opened. @throws KekFault, KeysUnfit
 */
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

/** Undefined where it is none: somebody has changed the row. */
export function envelopeIn(bytes: Buffer): Envelope | undefined {
  try {
    return decodeEnvelope(bytes).envelope;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Of the newest batches an event each, newest first; the log's own entries are never encrypted. */
const NEWEST = `
SELECT e.payload_state, e.envelope, substring(e.salted FROM 1 FOR ${PLACE_BYTES})
FROM (SELECT s.* FROM sequenced s
  CROSS JOIN LATERAL (SELECT own FROM batches WHERE lane = s.lane AND batch = s.batch OFFSET 0) b
  WHERE s.entries > 0 AND b.own = 0 ORDER BY s.first_sequence DESC LIMIT 64) s
CROSS JOIN LATERAL (SELECT * FROM events WHERE lane = s.lane AND batch = s.batch ORDER BY ord DESC LIMIT 1) e
ORDER BY s.first_sequence DESC`;
const READ_MS = 10_000;

/** Whether one of the newest events is encrypted, and by what key. */
export interface NewestRow {
  readonly isEncrypted: boolean;
  readonly organisation: string | undefined;
  readonly key: KeyPlace | undefined;
}

export async function newestRows(connection: Connection): Promise<NewestRow[]> {
  return (await connection.copy(NEWEST, READ_MS)).map(([state, envelope, head]) => ({
    isEncrypted: numberIn(state) !== 0,
    organisation: envelopeIn(bytesIn(envelope))?.organisation,
    key: head ? keyPlaceIn(head) : undefined,
  }));
}

/**
 * Without the key of the newest event it can neither be read again nor told from a repeat, unless that is meant.
 * @param taken what was destroyed. @throws KeysUnfit
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
      'the key of the newest event is missing: the database of --encryption-keys has not all keys of this log',
    );
  }
}
