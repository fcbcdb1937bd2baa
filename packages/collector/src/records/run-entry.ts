/** Ids of events and runs as the log has them: in bytes. */
import { randomInt } from 'node:crypto';
import { ID_BYTES } from '../store/event-log.js';

/** Senders choose the ids, and must not be able to choose their hashes. */
const HASH_SEED = randomInt(2 ** 32);

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

export function isNoId(source: Uint8Array, at: number): boolean {
  for (let i = 0; i < ID_BYTES; i++) if (source[at + i] !== 0) return false;
  return true;
}
