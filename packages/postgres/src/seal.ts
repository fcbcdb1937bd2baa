/**
 * The seal of a batch: an HMAC (RFC 2104) with a key that the collectors of a log have and its database has not. Until a
 * batch is under a signed checkpoint nothing else tells one that a collector has stored from one that somebody with all
 * rights on the database has put there, or changed.
 *
 *   HMAC-SHA-256(key, int32 lane, int32 number of the batch, array of the leaves of all its candidates)
 *
 * Which candidates are new is known in the database alone. So it keeps the leaves of the others too, in `repeats`. The
 * seal does not tell when an entry was made a repeat: it keeps events from being added, not from being taken away.
 */
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import { LEAF_BYTES } from '@clinical-events/protocol';
import { byteaArray } from './binary.js';

/** What the batches of a log are sealed with. */
export interface SealKey {
  /** An object: Node takes 25 µs more where a key is a Buffer. */
  readonly key: KeyObject;
  /** So many entries have seals of a key before it that is lost: 0, where none was. */
  readonly lostBefore: number;
}

const REPEAT_BYTES = 2 + LEAF_BYTES;

/**
 * @param leaves of all candidates in their order, as `byteaArray` has them.
 */
export function sealOf({ key }: SealKey, lane: number, batch: number, leaves: Buffer): Buffer {
  const place = Buffer.allocUnsafe(8);
  place.writeInt32BE(lane, 0);
  place.writeInt32BE(batch, 4);
  return createHmac('sha256', key).update(place).update(leaves).digest();
}

/** What a database has of a batch that holds entries. */
export interface SealedBatch {
  readonly lane: number;
  readonly batch: number;
  readonly candidates: number;
  /** Of those that are entries, in order. */
  readonly leaves: Buffer;
  /** Of the others: the place among the candidates as an int16, and the leaf. */
  readonly repeats: Buffer | null;
  readonly seal: Buffer | null;
}

/** Whether a collector that has the key has stored exactly this. */
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
