/**
 * The seal of a batch: an HMAC (RFC 2104) with a key that the collectors of a log have and its database does
 * not. Until a signed checkpoint covers a batch, only the seal proves that a collector stored it, and not
 * someone with all rights on the database.
 *
 *   HMAC-SHA-256(key, int32 lane, int32 number of the batch, array of the leaves of all its candidates)
 *
 * Only the database knows which candidates are new, so it also keeps the leaves of the others, in `repeats`.
 * The seal does not reveal an entry that was turned into a repeat: it protects against added events, not
 * against removed ones.
 */
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import { LEAF_BYTES } from '@clinical-events/protocol';
import { byteaArray } from './binary.js';

/** The key with which the collectors of a log seal their batches. */
export interface SealKey {
  /** A KeyObject: with a Buffer, Node takes 25 µs longer. */
  readonly key: KeyObject;
  /** The number of first entries that an earlier, lost key sealed; 0 if no key was lost. */
  readonly lostBefore: number;
}

const REPEAT_BYTES = 2 + LEAF_BYTES;

/** @param leaves of all candidates in order, encoded by `byteaArray`. */
export function sealOf({ key }: SealKey, lane: number, batch: number, leaves: Buffer): Buffer {
  const place = Buffer.allocUnsafe(8);
  place.writeInt32BE(lane, 0);
  place.writeInt32BE(batch, 4);
  return createHmac('sha256', key).update(place).update(leaves).digest();
}

/** The columns of a batch that its seal covers. */
export interface SealedBatch {
  readonly lane: number;
  readonly batch: number;
  readonly candidates: number;
  /** Leaves of the entries, in order. */
  readonly leaves: Buffer;
  /** For each other candidate: its position in the batch as an int16, and its leaf. */
  readonly repeats: Buffer | null;
  readonly seal: Buffer | null;
}

/** Whether a collector that has the key stored exactly this batch. */
export function isSealed(key: SealKey, { lane, batch, candidates, ...stored }: SealedBatch): boolean {
  const { seal, leaves, repeats } = stored;
  if (seal === null) return false;
  const all: Buffer[] = [];
  let entry = 0;
  let repeat = 0;
  for (let ord = 0; ord < candidates; ord++) {
    const isRepeat = repeats !== null && repeat < repeats.length && repeats.readInt16BE(repeat) === ord;
    if (isRepeat) all.push(repeats.subarray(repeat + 2, (repeat += REPEAT_BYTES)));
    else all.push(leaves.subarray(entry, (entry += LEAF_BYTES)));
  }
  if (entry !== leaves.length || repeat !== (repeats?.length ?? 0)) return false;
  const expected = sealOf(key, lane, batch, byteaArray(all));
  return seal.length === expected.length && timingSafeEqual(seal, expected);
}
