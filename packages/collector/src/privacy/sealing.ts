/**
 * Encrypts a payload, bound to its leaf, and opens it again. The plain text is salt and body, adjacent. Pure.
 *
 *   suite 1   AES-256-GCM (NIST SP 800-38D), nonce: first 12 bytes of the leaf hash, associated data: all
 *   suite 2   AES-256-CTR (NIST SP 800-38A), first counter block: the first 16 bytes of the leaf hash
 *
 * The leaf hash binds the commitment and so salt and body. Two payloads sealed under one key (after an undone
 * batch, or in a diverged copy) have different leaves and so different nonces, unlike with a counter. The
 * opened payload must match the commitment, which is a stronger check than a tag. So GCM is opened in CTR
 * mode (its counter begins at nonce | 2), and suite 2 has no tag.
 */
import { createCipheriv, createDecipheriv, hash } from 'node:crypto';

export const SUITES = [1, 2] as const;
export type Suite = (typeof SUITES)[number];

const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const COUNTER_BYTES = 16;

/**
 * Keys are passed to a cipher as strings (key-tree.ts): a key object costs two microseconds more per event, a
 * Buffer 25. Node applies `encoding` to the key, undocumented since 2017; without that it would refuse the
 * key for its length.
 */
const STRING_KEY = { encoding: 'latin1' } as const;

/** Length of the tag of a suite. */
export function tagBytes(suite: Suite): number {
  return suite === 1 ? TAG_BYTES : 0;
}

/**
 * Writes the tag of the suite, if it has one, then the sealed payload, which is as long as `salted`.
 * @param leaf the 32 bytes of the leaf hash. @param key the key of the event (key-tree.ts).
 */
export function seal(
  suite: Suite,
  key: string,
  leaf: Buffer,
  salted: Uint8Array,
  target: Buffer,
  at: number,
): void {
  if (suite === 2) {
    const cipher = createCipheriv('aes-256-ctr', key, leaf.subarray(0, COUNTER_BYTES), STRING_KEY);
    target.set(cipher.update(salted), at);
    return;
  }
  const cipher = createCipheriv('aes-256-gcm', key, leaf.subarray(0, NONCE_BYTES), STRING_KEY);
  cipher.setAAD(leaf);
  target.set(cipher.update(salted), at + TAG_BYTES);
  cipher.final();
  target.set(cipher.getAuthTag(), at);
}

/**
 * Opens a sealed payload.
 * @param sealed without its tag. @param tag the tag, to check it in addition to the commitment; a third
 * slower.
 * @returns salt and body; undefined if they do not match the commitment.
 */
export function open(
  suite: Suite,
  key: string,
  leaf: Buffer,
  sealed: Uint8Array,
  commitment: Buffer,
  tag?: Buffer,
): Buffer | undefined {
  const salted =
    suite === 1 && tag !== undefined
      ? openByTag(key, leaf, sealed, tag)
      : createDecipheriv('aes-256-ctr', key, firstCounter(suite, leaf), STRING_KEY).update(sealed);
  if (salted === undefined) return undefined;
  return hash('sha256', salted, 'binary') === commitment.toString('latin1') ? salted : undefined;
}

function openByTag(key: string, leaf: Buffer, sealed: Uint8Array, tag: Buffer): Buffer | undefined {
  const decipher = createDecipheriv('aes-256-gcm', key, leaf.subarray(0, NONCE_BYTES), STRING_KEY);
  decipher.setAAD(leaf);
  decipher.setAuthTag(tag);
  const salted = decipher.update(sealed);
  try {
    decipher.final();
    return salted;
  } catch {
    return undefined;
  }
}

/**
 * The first counter block of the payload; in GCM it is the second one, after the counter block of the tag.
 */
function firstCounter(suite: Suite, leaf: Buffer): Buffer {
  if (suite === 2) return leaf.subarray(0, COUNTER_BYTES);
  leaf.copy(counter, 0, 0, NONCE_BYTES);
  return counter;
}

/** The counter block for GCM; its last byte is constant. */
const counter = Buffer.alloc(COUNTER_BYTES);
counter[COUNTER_BYTES - 1] = 2;
