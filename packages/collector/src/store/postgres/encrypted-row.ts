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
import { encodeLeaf, LEAF_BYTES } from '@clinical-events/protocol';
import { encodedLeafHash, HASH_BYTES } from '../../integrity/merkle.js';
import type { KeyWriter, StoredKeys } from '../../privacy/key-directory.js';
import { open, seal } from '../../privacy/sealing.js';
import type { Candidate } from '../contract.js';
import { sha256 } from './binary.js';

const SUITE = 1;
const [TAG_AT, PLACE_AT, COMMITMENT_AT, CIPHER_TAG_AT, SEALED_AT] = [4, 8, 12, 44, 60];
/** So much of a row says where its key is. */
export const PLACE_BYTES = SEALED_AT;

/** Encrypts the events of one process, whose buckets are its own. */
export class RowSealer {
  #place = 0;

  constructor(private readonly keys: Pick<KeyWriter, 'keyFor'>) {}

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
 * @param asksTag whether the tag of the cipher has to fit too: what is opened comes to the commitment at any rate.
 * @returns salt and body, where it can be opened. @throws KekFault, KeysUnfit
 */
export function openRow(
  keys: StoredKeys | undefined,
  organisation: string,
  envelope: Uint8Array,
  row: Buffer,
  { asksTag = false } = {},
): OpenedRow {
  const found = keyPlaceIn(row);
  if (found === undefined) return 'unfit';
  if (keys === undefined) return 'no-keys';
  const key = keys.keyOf(found.tag, organisation, found.place);
  if (key === undefined) return 'no-key';
  const commitment = commitmentIn(row);
  const leaf = Buffer.allocUnsafe(LEAF_BYTES);
  encodeLeaf(leaf, 0, envelope, sha256(envelope), commitment);
  const tag = asksTag ? row.subarray(CIPHER_TAG_AT, SEALED_AT) : undefined;
  return open(SUITE, key, leafHashOf(leaf), row.subarray(SEALED_AT), commitment, tag) ?? 'unfit';
}

function leafHashOf(leaf: Buffer): Buffer {
  const hashed = Buffer.allocUnsafe(HASH_BYTES);
  encodedLeafHash(leaf, hashed, 0);
  return hashed;
}
