/** The random bytes before a body, without which its hash could be guessed. */
import { randomFillSync } from 'node:crypto';
import { SALT_BYTES } from '@clinical-events/protocol';

/** Random bytes are made for 4,096 events at a time: one call per event would cost more than its hash. */
const POOL = Buffer.alloc(4096 * SALT_BYTES);
let used = POOL.length;

/** Writes SALT_BYTES random bytes to the beginning of `target`, never the same ones twice. */
export function fillSalt(target: Buffer): void {
  if (used === POOL.length) {
    randomFillSync(POOL);
    used = 0;
  }
  POOL.copy(target, 0, used, (used += SALT_BYTES));
}
